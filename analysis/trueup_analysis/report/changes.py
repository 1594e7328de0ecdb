"""The report's section on the changes since the run before."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING

from ..figures.compare.changes import BETTER, MIXED, WORSE
from ..figures.compare.measured import work_of
from ..render.html import Part, Section
from ..sheets import compare

if TYPE_CHECKING:
    from ..figures.compare.changes import Change, Comparison
    from ..figures.compare.measured import Work
    from ..figures.groups import Group


def changes_section(changes: Comparison | None) -> Section | None:
    """The changed figures, and what failed or is missing since; None without a run before."""
    if changes is None:
        return None
    figures, *others = compare.sheets(changes, everything=False)
    # The CSV beside the page has the unchanged figures.
    table = replace(figures, title="Changed figures", notes=figures.notes[-1:])
    changed = [table] if figures.rows else []
    unchanged = () if changed or others else ("No figure changed.",)
    return Section(
        "changes",
        "Since the run before",
        [Part(sheets=(*changed, *others), paragraphs=unchanged)],
        data=compare.sheets(changes, everything=True),
    )


class Deltas:
    """The change of a row's headline figure since the run before.

    Args:
        changes: None where there is no run before, and no row has a change.
    """

    def __init__(self, changes: Comparison | None) -> None:
        self._changes: dict[tuple[Work, str, int | None], Change] = {}
        for change in [] if changes is None else changes.changes:
            figure = change.figure
            self._changes[figure.work, figure.metric, figure.message_bytes] = change

    def of(self, group: Group) -> tuple[float | None, str]:
        """After over before less 1, of the nodes of both runs, and the verdict: "" for
        an unchanged figure; None for a figure that the run before lacks."""
        if group.head is None or not group.cases[0].measured:
            return None, ""
        work = work_of(group.cases[0], (), one_machine=True)
        head = group.head
        change = self._changes.get((work, head.measure.metric, head.shown.message_bytes))
        if change is None:
            return None, ""
        names = {case.node for case in group.cases}
        logs = [shift.log_ratio for shift in change.shifts if shift.place.node in names]
        ratio = math.expm1(fmean(logs)) if logs else change.ratio
        moved = {shift.place.node for shift in (*change.worse, *change.better)}
        is_moved = not moved or bool(moved & names)
        told = change.verdict in {WORSE, BETTER, MIXED} and is_moved
        return ratio, change.verdict if told else ""
