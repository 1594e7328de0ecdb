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
        parameters: Mapping[str, Any] = self.points.records.first("parameters")
        return parameters

    @property
    def message_bytes(self) -> int | None:
        size = int(self.points.judged.message_bytes[0])
        return None if size < 0 else size


def axis(over: str, number: int = 2) -> str:
    """The counted resource, in words: "cores", "GPU", "nodes"."""
    noun = over.removesuffix("s") if number == 1 else over
    return noun.replace("gpu", "GPU")


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
    series: list[tuple[Over, Points]] = []
    for subset in parts:
        if over == "auto":
            series += _auto(subset, view)
        elif over == "gpus":
            used = subset.taken(subset.records.count("gpus") > 0)
            series += [("gpus", used)] if len(used) else []
        else:
            series.append((over, subset))
    for along, subset in series:
        require(subset.records, "node_count" if along == "nodes" else along)
    return series


def _of_each_size(points: Points) -> list[Points]:
    """Records grouped by their work on each core, the least first; last the ones that lack it."""
    order = np.argsort(points.points_each, kind="stable")
    each = points.points_each[order]
    known_count = int((~np.isnan(each)).sum())
    steps = (
        np.flatnonzero(each[1:known_count] / each[: max(known_count - 1, 0)] > 1 + WEAK_TOLERANCE)
        + 1
    )
    parts = np.split(order, [*steps.tolist(), known_count])
    return [points.taken(rows) for rows in parts if len(rows)]


def _auto(subset: Points, view: View) -> list[tuple[Over, Points]]:
    """Within single nodes where that is a scaling or there is nothing else, and over nodes where
    their number varies."""
    nodes = subset.records.count("node_count")
    several = bool(nodes.min() < nodes.max())
    alone = subset.taken(nodes == 1) if several else subset
    series: list[tuple[Over, Points]] = []
    on_gpus = (alone.records.count("gpus") != 0) & (view.resource == "gpus")
    sides: list[tuple[Over, Points]] = [
        ("cores", alone.taken(~on_gpus)),
        ("gpus", alone.taken(on_gpus)),
    ]
    for along, side in sides:
        points = side.taken(side.records.count(along) >= 0)
        if not len(points):
            # ``split`` refuses it, where it is all that there is.
            series += [(along, side)] if len(side) and not several else []
            continue
        count = points.records.number(along)
        spans = bool(np.nanmax(count) >= _SPAN * np.nanmin(count))
        single = bool((points.records.count("node_count") == 1).all())
        if spans or (single and not several):
            series.append((along, points))
        elif not several:
            # Layouts of some cores more or less, on nodes of which only one count was measured.
            series.append(("nodes", points))
    return [*series, ("nodes", subset)] if several else series
