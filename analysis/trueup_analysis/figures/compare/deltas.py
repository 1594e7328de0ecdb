"""The change of single figures since the run before."""

from __future__ import annotations

import math
from statistics import fmean
from typing import TYPE_CHECKING

from ...selection import run_before, run_ids
from .changes import UNCHANGED
from .comparing import of_runs
from .measured import work_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trueup_node.cases import Case

    from ...load import Loaded
    from .changes import Change, Comparison
    from .measured import Work


def since_run_before(every: Loaded, loaded: Loaded) -> Comparison | None:
    """The one run of ``loaded`` beside the run before; None where there are several or none."""
    runs = run_ids(loaded)
    earlier = run_before(every, runs[0]) if len(runs) == 1 else None
    return None if earlier is None else of_runs(every, earlier, runs[0])


class Deltas:
    """The change of a figure since the run before.

    Args:
        changes: None where there is no run before, and no figure has a change.
    """

    def __init__(self, changes: Comparison | None) -> None:
        self._changes: dict[tuple[Work, str, int | None], Change] = {}
        for change in [] if changes is None else changes.changes:
            figure = change.figure
            self._changes[figure.work, figure.metric, figure.message_bytes] = change

    def of(
        self, cases: Sequence[Case], metric: str, message_bytes: int | None
    ) -> tuple[float | None, str]:
        """After over before less 1, of the nodes of both runs, and the verdict: "unchanged" too
        where other nodes changed; None for a figure that the run before lacks."""
        if not cases[0].measured:
            return None, ""
        work = work_of(cases[0], (), one_machine=True)
        change = self._changes.get((work, metric, message_bytes))
        if change is None:
            return None, ""
        names = {case.node for case in cases}
        logs = [shift.log_ratio for shift in change.shifts if shift.place.node in names]
        ratio = math.expm1(fmean(logs)) if logs else change.ratio
        moved = {shift.place.node for shift in (*change.worse, *change.better)}
        is_moved = not moved or bool(moved & names)
        return ratio, change.verdict if is_moved else UNCHANGED
