"""Two sets of records beside each other.

Work is paired by what was asked for; figures are compared as logarithms of after over before. Nodes
that both sides measured are paired. The error of a mean comes from the spread between nodes, of one
or two nodes from that between records, and of single records from that of their repeats, which is
then taken for the spread between runs. Of all changes that are reported at most 1 % are none
(false discovery rate).
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING, Final

import numpy as np
from trueup_node.errors import BadInput

from ...cases import read_cases
from ...selection import run_before, run_ids
from .changes import BETTER, MIXED, UNCHANGED, UNSURE, WORSE, Comparison, Failure, Missing
from .estimates import change_of
from .judging import judged
from .measured import Keys, nodes_of, records_of, rows_of, samples_of, table_of, work_of
from .settings import Explanation, Settings, explanations, groups
from .sides import Side

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trueup_node.cases import Case

    from ...load import Loaded
    from .changes import Change
    from .measured import FigureKey, Samples, Work

# Settings in a sentence.
_SETTINGS: Final = 3


def compare(before: Side, after: Side, at_least: float = 0.01) -> Comparison:
    """Two sides beside each other.

    Args:
        at_least: the least change that counts, as a share.

    Raises:
        BadInput: no figure is on both sides, or a record is.
    """
    if {id(case) for case in before.cases} & {id(case) for case in after.cases}:
        raise BadInput(f"{before.name} and {after.name} have records in common: nothing to compare")
    ignored = before.conditions | after.conditions
    one_machine = bool(_machines(before) & _machines(after)) and "vm_size" not in ignored
    keys = Keys()
    olds, news = (
        _measured(side, keys, ignored, one_machine=one_machine) for side in (before, after)
    )
    changes = [
        change
        for figure in olds
        if figure in news
        and (change := change_of(figure, olds[figure], news[figure], keys)) is not None
    ]
    failures = _failures(before, after, ignored, one_machine=one_machine)
    settings = Settings(before.cases, after.cases)
    if not changes and not failures:
        raise BadInput(
            f"{before.name} and {after.name} have no figure in common: {_works(olds)} before,"
            f" {_works(news)} after{_between(settings)}"
        )
    changes = judged(changes, groups(settings), at_least)
    changes = explained(changes, settings)
    changes.sort(key=_rank)
    return Comparison(
        before,
        after,
        changes,
        failures,
        [
            *_missing(olds, news, "before", failures, keys),
            *_missing(news, olds, "after", (), keys),
        ],
        at_least,
        Counter(change.verdict for change in changes),
    )


def of_runs(loaded: Loaded, before: str, after: str) -> Comparison | None:
    """Two runs beside each other; None where they have no figure in common."""
    cases = read_cases(loaded)
    old, new = (
        Side(f"run {run}", [case for case in cases if case.run_id == run])
        for run in (before, after)
    )
    try:
        return compare(old, new)
    except BadInput:
        return None


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
        if not self._changes or not cases[0].measured:
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


def _measured(
    side: Side, keys: Keys, ignored: frozenset[str], *, one_machine: bool
) -> dict[FigureKey, Samples]:
    """The figures of a side's ok records."""
    rows = rows_of(side.cases)
    records = records_of(side.cases, keys, ignored=ignored, one_machine=one_machine)
    table = table_of(records, rows, keys)
    return {keys.figures[number]: samples for number, samples in samples_of(table).items()}


def _machines(side: Side) -> set[str]:
    return {case.machine for case in side.cases}


def _works(held: Mapping[FigureKey, Samples]) -> str:
    names = sorted({f"{figure.work.benchmark} {figure.work.case}" for figure in held})
    return (", ".join(names[:3]) + ", ..." * (len(names) > 3)) or "no ok record"


def _between(settings: Settings) -> str:
    """The settings that changed on the nodes of both sides, as a part of a sentence."""
    changed = explanations(settings.before, settings.before, settings, "")
    texts = [f"{item.setting} {item.before} to {item.after}" for item in changed[:_SETTINGS]]
    return f"; between them changed {', '.join(texts)}" if texts else ""


def explained(changes: Iterable[Change], settings: Settings) -> list[Change]:
    """The changed figures with the settings that changed with them."""
    return [
        replace(change, explanations=tuple(_settings(change, settings)))
        if change.verdict in {WORSE, BETTER, MIXED} and change.shifts
        else change
        for change in changes
    ]


def _settings(change: Change, settings: Settings) -> list[Explanation]:
    def names(nodes: Iterable[str]) -> dict[str, None]:
        return dict.fromkeys(name for node in nodes for name in node.split("+"))

    every = names(change.shifts.nodes)
    moved = names(shift.place.node for shift in change.worse or change.better) or every
    return explanations(every, moved, settings, change.figure.work.benchmark)


def _failures(
    before: Side, after: Side, ignored: frozenset[str], *, one_machine: bool
) -> list[Failure]:
    """Work that was ok on a node, and now has no ok record."""

    def key(case: Case) -> tuple[Work, str]:
        return work_of(case, ignored, one_machine=one_machine), case.node

    failed = {key(case): case for case in after.cases if case.outcome != "ok"}
    nodes = {node for _, node in failed}
    was_ok, is_ok = (
        {key(case) for case in side.cases if case.outcome == "ok" and case.node in nodes}
        for side in (before, after)
    )
    return [
        Failure(*place, case.outcome, case.reason)
        for place, case in failed.items()
        if place in was_ok and place not in is_ok
    ]


def _missing(
    olds: Mapping[FigureKey, Samples],
    news: Mapping[FigureKey, Samples],
    side: str,
    failures: Sequence[Failure],
    keys: Keys,
) -> list[Missing]:
    """The figures of one side that the other lacks, or lacks on some nodes; work that failed is
    no longer missing."""
    failed = {(failure.work, failure.node) for failure in failures}
    missing = []
    for figure, samples in olds.items():
        its = nodes_of(samples.places)
        present = nodes_of(news[figure].places) if figure in news else its[:0]
        is_present = np.isin(its, present)
        if len(present) and (is_present.all() or not is_present.any()):
            continue
        names = keys.names(samples.places[~is_present])
        nodes = tuple(name for name in names if (figure.work, name) not in failed)
        if nodes:
            missing.append(Missing(figure, side, nodes))
    return missing


def _rank(change: Change) -> tuple[object, ...]:
    order = (WORSE, MIXED, BETTER, UNSURE, UNCHANGED)
    most = max((abs(shift.log_ratio) for shift in change.worse or change.better), default=0.0)
    mean = 0.0 if change.estimate is None else abs(change.estimate.mean)
    return (
        order.index(change.verdict),
        -max(most, mean),
        *map(str, change.figure[0]),
        change.figure[1:],
    )
