"""The records of one series: the same work, within single nodes or over nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from .points import require

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trueup.view import Measure, View

    from .points import Points

Over = Literal["cores", "gpus", "nodes"]
Kind = Literal["strong", "weak"]
# Shapes are whole numbers, so points per core are equal only nearly.
WEAK_TOLERANCE = 0.05
# Less than this between the fewest and the most cores is a choice of layouts, not a scaling.
_SPAN = 2


class Raw(NamedTuple):
    """The records of one series."""

    benchmark: str
    view: View
    measure: Measure
    kind: Kind
    over: Over
    points: Points

    @property
    def flat(self) -> bool:
        """Whether the figure stays the same where scaling is perfect."""
        return not self.measure.grows

    @property
    def first(self) -> Mapping[str, Any]:
        """The parameters of its first record."""
        found: Mapping[str, Any] = self.points.records.first("parameters")
        return found

    @property
    def message_bytes(self) -> int | None:
        size = int(self.points.judged.message_bytes[0])
        return None if size < 0 else size


def axis(over: str, number: int = 2) -> str:
    """What is counted, in words: "cores", "GPU", "nodes"."""
    word = over.removesuffix("s") if number == 1 else over
    return word.replace("gpu", "GPU")


def split(
    points: Points,
    view: View,
    *,
    over: Literal["cores", "gpus", "nodes", "auto"],
    weak: bool,
) -> list[tuple[Over, Points]]:
    """The series of the same work: within single nodes, and over nodes whatever the cores of
    each."""
    parts = _of_each_size(points) if weak else [points]
    found: list[tuple[Over, Points]] = []
    for part in parts:
        if over == "auto":
            found += _auto(part, view)
        elif over == "gpus":
            used = part.taken(part.records.count("gpus") > 0)
            found += [("gpus", used)] if len(used) else []
        else:
            found.append((over, part))
    for along, part in found:
        require(part.records, "node_count" if along == "nodes" else along)
    return found


def _of_each_size(points: Points) -> list[Points]:
    """Those with the same work on each core, the least first; last those that do not say."""
    order = np.argsort(points.points_each, kind="stable")
    each = points.points_each[order]
    known = int((~np.isnan(each)).sum())
    steps = np.flatnonzero(each[1:known] / each[: max(known - 1, 0)] > 1 + WEAK_TOLERANCE) + 1
    parts = np.split(order, [*steps.tolist(), known])
    return [points.taken(part) for part in parts if len(part)]


def _auto(part: Points, view: View) -> list[tuple[Over, Points]]:
    """Within single nodes where that is a scaling or there is nothing else, and over nodes where
    their number varies."""
    nodes = part.records.count("node_count")
    several = bool(nodes.min() < nodes.max())
    alone = part.taken(nodes == 1) if several else part
    found: list[tuple[Over, Points]] = []
    on_gpus = (alone.records.count("gpus") != 0) & (view.resource == "gpus")
    sides: list[tuple[Over, Points]] = [
        ("cores", alone.taken(~on_gpus)),
        ("gpus", alone.taken(on_gpus)),
    ]
    for along, side in sides:
        points = side.taken(side.records.count(along) >= 0)
        if not len(points):
            # ``split`` refuses it, where it is all that there is.
            found += [(along, side)] if len(side) and not several else []
            continue
        count = points.records.number(along)
        spans = bool(np.nanmax(count) >= _SPAN * np.nanmin(count))
        single = bool((points.records.count("node_count") == 1).all())
        if spans or (single and not several):
            found.append((along, points))
        elif not several:
            # Layouts of some cores more or less, on nodes of which only one count was measured.
            found.append(("nodes", points))
    return [*found, ("nodes", part)] if several else found
