"""The records of one series: the same work, within single nodes or over nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from ..frames import first
from .points import require

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd
    from trueup_node.view import Measure, View

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
    points: pd.DataFrame

    @property
    def flat(self) -> bool:
        """Whether the figure stays the same where scaling is perfect."""
        return not self.measure.grows

    @property
    def first(self) -> Mapping[str, Any]:
        """The parameters of its first record."""
        parameters: Mapping[str, Any] = first(self.points, "parameters")
        return parameters

    @property
    def message_bytes(self) -> int | None:
        size: int | None = first(self.points, "message_bytes")
        return size


def axis(over: str, number: int = 2) -> str:
    """The counted resource, in words: "cores", "GPU", "nodes"."""
    noun = over.removesuffix("s") if number == 1 else over
    return noun.replace("gpu", "GPU")


def split(
    points: pd.DataFrame,
    view: View,
    *,
    over: Literal["cores", "gpus", "nodes", "auto"],
    weak: bool,
) -> list[tuple[Over, pd.DataFrame]]:
    """The series of the same work: within single nodes, and over nodes whatever the cores of
    each."""
    parts = _of_each_size(points) if weak else [points]
    series: list[tuple[Over, pd.DataFrame]] = []
    for subset in parts:
        if over == "auto":
            series += _auto(subset, view)
        elif over == "gpus":
            used = subset[subset["gpus"] > 0]
            series += [("gpus", used)] if len(used) else []
        else:
            series.append((over, subset))
    for along, subset in series:
        require(subset, "node_count" if along == "nodes" else along)
    return series


def _of_each_size(points: pd.DataFrame) -> list[pd.DataFrame]:
    """Records grouped by their work on each core, the least first; last the ones that lack it."""
    ordered = points.sort_values("points_each", kind="stable")
    each = ordered["points_each"].to_numpy()
    known_count = ordered["points_each"].count()
    steps = (
        np.flatnonzero(each[1:known_count] / each[: max(known_count - 1, 0)] > 1 + WEAK_TOLERANCE)
        + 1
    )
    ends = [0, *steps.tolist(), known_count, len(ordered)]
    sets = (ordered.iloc[start:end] for start, end in zip(ends, ends[1:], strict=False))
    return [subset for subset in sets if len(subset)]


def _auto(subset: pd.DataFrame, view: View) -> list[tuple[Over, pd.DataFrame]]:
    """Within single nodes where that is a scaling or there is nothing else, and over nodes where
    their number varies."""
    nodes = subset["node_count"]
    several = bool(nodes.min() < nodes.max())
    alone = subset[nodes == 1] if several else subset
    series: list[tuple[Over, pd.DataFrame]] = []
    on_gpus = (alone["gpus"].fillna(1) != 0) & (view.resource == "gpus")
    sides: list[tuple[Over, pd.DataFrame]] = [("cores", alone[~on_gpus]), ("gpus", alone[on_gpus])]
    for along, side in sides:
        points = side.dropna(subset=along)
        if points.empty:
            # ``split`` refuses it, where it is all that there is.
            series += [(along, side)] if len(side) and not several else []
            continue
        count = points[along]
        spans = bool(count.max() >= _SPAN * count.min())
        single = bool((points["node_count"] == 1).all())
        if spans or (single and not several):
            series.append((along, points))
        elif not several:
            # Layouts of some cores more or less, on nodes of which only one count was measured.
            series.append(("nodes", points))
    return [*series, ("nodes", subset)] if several else series
