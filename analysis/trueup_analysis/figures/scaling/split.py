"""The records of one series: the same work, within single nodes or over nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from .points import require

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trueup.view import Measure, View

Over = Literal["cores", "gpus", "nodes"]
Kind = Literal["strong", "weak"]
# Shapes are whole numbers, so points per core are equal only nearly.
WEAK_TOLERANCE = 0.05
# Less than this between the fewest and the most cores is a choice of layouts, not a scaling.
_SPAN = 2


@dataclass(frozen=True)
class Raw:
    """The records of one series."""

    benchmark: str
    view: View
    measure: Measure
    kind: Kind
    over: Over
    rows: pd.DataFrame

    @property
    def flat(self) -> bool:
        """Whether the figure stays the same where scaling is perfect."""
        return not self.measure.grows

    @property
    def first(self) -> Mapping[str, Any]:
        """The parameters of its first record."""
        found: Mapping[str, Any] = self.rows["parameters"].iloc[0]
        return found

    @property
    def message_bytes(self) -> int | None:
        size = self.rows["message_bytes"].iloc[0]
        return None if pd.isna(size) else int(size)


def axis(over: str, number: int = 2) -> str:
    """What is counted, in words: "cores", "GPU", "nodes"."""
    word = over.removesuffix("s") if number == 1 else over
    return word.replace("gpu", "GPU")


def split(
    rows: pd.DataFrame,
    view: View,
    *,
    over: Literal["cores", "gpus", "nodes", "auto"],
    weak: bool,
) -> list[tuple[Over, pd.DataFrame]]:
    """The series of the same work: within single nodes, and over nodes whatever the cores of
    each."""
    parts = [rows]
    if weak:
        order = rows["points_each"].sort_values()
        steps = (
            (order / order.shift() > 1 + WEAK_TOLERANCE).cumsum().where(order.notna(), len(order))
        )
        parts = [rows.loc[index] for index in steps.groupby(steps).groups.values()]
    found: list[tuple[Over, pd.DataFrame]] = []
    for part in parts:
        if over == "auto":
            found += _auto(part, view)
        elif over == "gpus":
            used = part[part["gpus"].fillna(0) > 0]
            found += [("gpus", used)] if not used.empty else []
        else:
            found.append((over, part))
    for along, part in found:
        require(part, "node_count" if along == "nodes" else along)
    return found


def _auto(part: pd.DataFrame, view: View) -> list[tuple[Over, pd.DataFrame]]:
    """Within single nodes where that is a scaling or there is nothing else, and over nodes where
    their number varies."""
    several = part["node_count"].nunique() > 1
    alone = part[part["node_count"] == 1] if several else part
    found: list[tuple[Over, pd.DataFrame]] = []
    on_gpus = alone["gpus"].fillna(0) > 0 if view.resource == "gpus" else alone["gpus"] < 0
    sides: list[tuple[Over, pd.DataFrame]] = [("cores", alone[~on_gpus]), ("gpus", alone[on_gpus])]
    for along, rows in sides:
        if rows.empty:
            continue
        count = rows[along].astype(float)
        spans = bool(count.max() >= _SPAN * count.min())
        single = bool((rows["node_count"] == 1).all())
        if spans or (single and not several):
            found.append((along, rows))
        elif not several:
            # Layouts of some cores more or less, on nodes of which only one count was measured.
            found.append(("nodes", rows))
    return [*found, ("nodes", part)] if several else found
