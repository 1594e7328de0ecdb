"""Which figures differ between two sets of records, by how much, and how sure that is.

Work is paired by what was asked for; figures are compared as logarithms of after over before. Nodes
that both sides measured are paired. The error of a mean comes from the spread between nodes, of one
or two nodes from that between records, and of single records from that of their repeats, which is
then taken for the spread between runs. Of all changes that are reported at most 1 % are none
(false discovery rate).
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from statistics import median
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from trueup.errors import BadInput

from ...units import plural, size_of
from ..views import names_of, view_of
from .measured import FigureKey, Measured, Place, Sample, Work, measured, work_of
from .settings import Explanation, by_node, explanations
from .tests_of_change import (
    Estimate,
    discoveries,
    of_mean,
    t_quantile,
    usual_spread,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trueup.cases import Case

    from .sides import Side

WORSE, BETTER, UNCHANGED = "worse", "better", "unchanged"
MIXED: Final = "better and worse"
UNSURE: Final = "too few repeats"
FAILS: Final = "now fails"
_RATE: Final = 0.01
# Nodes whose own spread gives the error of a mean, and places that show a usual spread.
_NODES: Final = 3
_PLACES: Final = 8


class Shift(NamedTuple):
    """The change at one place.

    Attributes:
        log_ratio: the logarithm of after over before.
        estimate: None where nothing says how much such a figure varies.
    """

    place: Place
    before: float
    after: float
    log_ratio: float
    estimate: Estimate | None

    @property
    def ratio(self) -> float:
        """After over before, less 1."""
        return math.expm1(self.log_ratio)


@dataclass(frozen=True)
class Change:
    """One figure on both sides.

    Attributes:
        before, after: medians over places, in base units.
        estimate: the mean of the logarithms of after over before; None where it is not known how
            much the figure varies, or where a value is not above 0.
        nodes: the paired nodes; of sides without a common node those of both.
        paired: whether nodes are paired.
        shifts: each paired place.
        verdict: "worse", "better", "better and worse", "unchanged" or "too few repeats".
        worse, better: the places that alone changed so.
        detectable: the least change of the mean that would have been seen, as a share.
        explanations: settings that changed with it, the most likely first.
    """

    figure: FigureKey
    before: float
    after: float
    estimate: Estimate | None
    nodes: tuple[str, ...]
    paired: bool
    shifts: tuple[Shift, ...]
    verdict: str = UNCHANGED
    worse: tuple[Shift, ...] = ()
    better: tuple[Shift, ...] = ()
    detectable: float | None = None
    explanations: tuple[Explanation, ...] = ()

    @property
    def ratio(self) -> float | None:
        """After over before, less 1: of the mean of logarithms."""
        if self.estimate is not None:
            return math.expm1(self.estimate.mean)
        return self.after / self.before - 1 if self.before > 0 else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % interval of ``ratio``."""
        if self.estimate is None:
            return None
        low, high = self.estimate.interval()
        return math.expm1(min(low, 700.0)), math.expm1(min(high, 700.0))


class Failure(NamedTuple):
    """Work that was ok before, and now is not."""

    work: Work
    node: str
    outcome: str
    reason: str | None


def label_of(figure: FigureKey) -> str:
    """The name of a figure for people, without the unit."""
    view = view_of(figure.work.benchmark)
    measures = () if view is None else (*view.headlines, *view.figures)
    labels = [measure.label for measure in measures if measure.metric == figure.metric]
    return labels[0] if labels else figure.metric.replace("_", " ")


class Missing(NamedTuple):
    """A figure of one side alone.

    Attributes:
        side: "before" or "after".
        nodes: the nodes that lack it on the other side.
    """

    figure: FigureKey
    side: str
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Comparison:
    """Two sides beside each other.

    Attributes:
        changes: each figure of both, the worst first.
        unlike: work whose parameters differ between the sides, each with the parameters.
    """

    before: Side
    after: Side
    changes: Sequence[Change]
    failures: Sequence[Failure]
    missing: Sequence[Missing]
    at_least: float
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def status(self) -> int:
        """Exit status: 1 something is worse; 2 something could not be compared; else 0."""
        if self.failures or self.counts[WORSE] or self.counts[MIXED]:
            return 1
        lost = any(item.side == "before" for item in self.missing)
        works = {change.figure.work for change in self.changes}
        sure = {change.figure.work for change in self.changes if change.verdict != UNSURE}
        return 2 if lost or works - sure else 0

    def title(self, figure: FigureKey) -> str:
        """ "NCCL bus bandwidth at 16 GiB, all_reduce": with what tells its work from the others of
        its benchmark."""
        work = figure.work
        differing = self._differing[work.benchmark]
        apart = [f"{name} {value}" for name, value in work.apart if name in differing]
        apart += [work.layout] if "layout" in differing and work.layout else []
        apart += [plural(work.node_count or 0, "node")] if "nodes" in differing else []
        size = "" if figure.message_bytes is None else f" at {size_of(figure.message_bytes)}"
        return ", ".join([f"{names_of(work.benchmark)} {label_of(figure)}{size}", *apart])

    @cached_property
    def _differing(self) -> dict[str, set[str]]:
        """The properties in which the works of a benchmark differ."""
        held: dict[str, dict[str, set[object]]] = {}
        figures = (*(item.figure for item in self.changes), *(item.figure for item in self.missing))
        for work in {figure.work for figure in figures}:
            properties = held.setdefault(work.benchmark, {})
            layout = {"layout": work.layout, "nodes": work.node_count}
            for name, value in {**dict(work.apart), **layout}.items():
                properties.setdefault(name, set()).add(value)
        return {
            benchmark: {name for name, values in properties.items() if len(values) > 1}
            for benchmark, properties in held.items()
        }


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
    olds, news = (measured(side, ignored, one_machine=one_machine) for side in (before, after))
    changes = [
        change
        for figure in olds.keys() & news.keys()
        if (change := _change(figure, olds[figure], news[figure])) is not None
    ]
    failures = _failures(before, after, ignored, one_machine=one_machine)
    if not changes and not failures:
        raise BadInput(
            f"{before.name} and {after.name} have no figure in common: {_works(olds)} before,"
            f" {_works(news)} after"
        )
    changes = _judged(changes, at_least)
    changes = _explained(changes, by_node(before.cases), by_node(after.cases))
    changes.sort(key=_rank)
    return Comparison(
        before,
        after,
        changes,
        failures,
        [*_missing(olds, news, "before", failures), *_missing(news, olds, "after", ())],
        at_least,
        Counter(change.verdict for change in changes),
    )


def _machines(side: Side) -> set[str]:
    return {case.machine for case in side.cases}


def _works(held: Measured) -> str:
    names = sorted({f"{figure.work.benchmark} {figure.work.case}" for figure in held})
    return (", ".join(names[:3]) + ", ..." * (len(names) > 3)) or "no ok record"


def _change(
    figure: FigureKey, olds: Mapping[Place, Sample], news: Mapping[Place, Sample]
) -> Change | None:
    """A figure of both sides, without a verdict."""
    common = [place for place in olds if place in news]
    paired = bool(common)
    if not paired and {place.node for place in olds} & {place.node for place in news}:
        return None  # The same nodes, other devices.
    before, after = (
        median(samples[place].value for place in (common or samples)) for samples in (olds, news)
    )
    every = chain(olds.values(), news.values())
    positive = all(value > 0 for sample in every for value in sample.values)
    nodes = tuple(dict.fromkeys(place.node for place in (common or chain(olds, news))))
    if not positive:
        return Change(figure, before, after, None, nodes, paired, ())
    if not paired:
        return Change(figure, before, after, _unpaired(olds, news), nodes, paired, ())
    shifts = _shifts(common, olds, news)
    return Change(figure, before, after, _fleet(shifts), nodes, paired, tuple(shifts))


def _shifts(
    places: Sequence[Place], olds: Mapping[Place, Sample], news: Mapping[Place, Sample]
) -> list[Shift]:
    """The change of each place, with its error: the larger of that of its own measurements and,
    where there are many places, the usual spread over all."""
    ratios = [math.log(news[place].value / olds[place].value) for place in places]
    usual = usual_spread(ratios) if len(ratios) >= _PLACES else 0.0
    shifts = []
    for place, ratio in zip(places, ratios, strict=True):
        estimate = _alone(ratio, olds[place], news[place])
        if usual and (estimate is None or usual > estimate.error):
            estimate = Estimate(ratio, usual, len(places) - 1)
        shifts.append(Shift(place, olds[place].value, news[place].value, ratio, estimate))
    return shifts


def _alone(ratio: float, old: Sample, new: Sample) -> Estimate | None:
    """The change of one place by its own measurements."""
    counts = len(old.values), len(new.values)
    if min(counts) > 1:
        logs = [np.log(sample.values) for sample in (old, new)]
        freedom = sum(counts) - 2
        squares = sum(float(((each - each.mean()) ** 2).sum()) for each in logs)
        error = math.sqrt(squares / freedom * sum(1 / count for count in counts))
        return Estimate(ratio, error, freedom)
    spreads = [*old.spreads, *new.spreads]
    if not old.spreads or not new.spreads:
        return None
    # One run a side: its repeats stand for other runs, so their number does not divide.
    error = math.sqrt(2 * sum(spread**2 for spread, _ in spreads) / len(spreads))
    return Estimate(ratio, error, sum(count - 1 for _, count in spreads))


def _fleet(shifts: Sequence[Shift]) -> Estimate | None:
    """The mean over nodes; devices of one node are not independent."""
    by_node: dict[str, list[Shift]] = {}
    for shift in shifts:
        by_node.setdefault(shift.place.node, []).append(shift)
    means = [float(np.mean([shift.log_ratio for shift in held])) for held in by_node.values()]
    if len(means) >= _NODES:
        return of_mean(means)
    estimates = [shift.estimate for shift in shifts if shift.estimate is not None]
    if len(estimates) < len(shifts):
        return None
    error = max(estimate.error for estimate in estimates) / math.sqrt(len(means))
    return Estimate(float(np.mean(means)), error, min(each.freedom for each in estimates))


def _unpaired(olds: Mapping[Place, Sample], news: Mapping[Place, Sample]) -> Estimate | None:
    """The difference of two sides without a common node: Welch's test over their nodes, or over
    the records of single ones."""
    sides = [_logs(samples) for samples in (olds, news)]
    mean = float(np.mean(sides[1]) - np.mean(sides[0]))
    if min(map(len, sides)) < _NODES:
        samples = [next(iter(held.values())) for held in (olds, news) if len(held) == 1]
        return _alone(mean, *samples) if len(samples) == 2 else None
    errors = [float(np.var(logs, ddof=1)) / len(logs) for logs in sides]
    total = sum(errors)
    parts = sum(error**2 / (len(logs) - 1) for error, logs in zip(errors, sides, strict=True))
    return Estimate(mean, math.sqrt(total), total**2 / parts if parts else len(sides[0]))


def _logs(samples: Mapping[Place, Sample]) -> list[float]:
    """One logarithm a node; of a single node one a record."""
    by_node: dict[str, list[float]] = {}
    for place, sample in samples.items():
        by_node.setdefault(place.node, []).append(math.log(sample.value))
    if len(by_node) == 1 and len(samples) == 1:
        return [math.log(value) for sample in samples.values() for value in sample.values]
    return [float(np.mean(logs)) for logs in by_node.values()]


def _judged(changes: Sequence[Change], at_least: float) -> list[Change]:
    """The figures with their verdicts: all means and places together are one family of tests."""
    estimates = [change.estimate for change in changes if change.estimate is not None]
    places = [shift.estimate for change in changes for shift in change.shifts]
    chances = [estimate.chance for estimate in (*estimates, *filter(None, places))]
    limit = discoveries(chances, _RATE)
    return [_verdict(change, limit, math.log1p(at_least)) for change in changes]


def _verdict(change: Change, limit: float, least: float) -> Change:
    def changed(estimate: Estimate | None) -> bool:
        return estimate is not None and abs(estimate.mean) >= least and estimate.chance <= limit

    is_higher_better = change.figure.direction == "higher"
    moved = [shift for shift in change.shifts if changed(shift.estimate)]
    worse = tuple(shift for shift in moved if (shift.log_ratio > 0) != is_higher_better)
    better = tuple(shift for shift in moved if (shift.log_ratio > 0) == is_higher_better)
    verdicts = {WORSE} if worse else set()
    verdicts |= {BETTER} if better else set()
    if change.estimate is not None and changed(change.estimate):
        mean_is_better = (change.estimate.mean > 0) == is_higher_better
        verdicts = {BETTER if mean_is_better else WORSE}
        # Places against the mean count where there are many of them.
        against = worse if mean_is_better else better
        verdicts |= {WORSE if mean_is_better else BETTER} if against else set()
    elif change.estimate is None:
        verdicts |= _of_counts(change)
    detectable = None
    if change.estimate is not None and change.estimate.error:
        t = t_quantile(1 - limit / 2, change.estimate.freedom) if limit < 1 else 0.0
        detectable = math.expm1(min(max(least, t * change.estimate.error), 700.0))
    is_unsure = change.estimate is None and not verdicts and change.before != change.after
    verdict = UNSURE if is_unsure else UNCHANGED
    if verdicts:
        verdict = MIXED if len(verdicts) > 1 else next(iter(verdicts))
    return replace(change, verdict=verdict, worse=worse, better=better, detectable=detectable)


def _of_counts(change: Change) -> set[str]:
    """The verdict on values of which some are 0: a count of errors that rose."""
    if min(change.before, change.after) > 0 or change.before == change.after:
        return set()
    is_better = (change.after > change.before) == (change.figure.direction == "higher")
    return {BETTER if is_better else WORSE}


def _explained(
    changes: Iterable[Change],
    before: Mapping[str, Mapping[str, str]],
    after: Mapping[str, Mapping[str, str]],
) -> list[Change]:
    """The changed figures with the settings that changed with them."""
    return [
        replace(change, explanations=tuple(_settings(change, before, after)))
        if change.verdict in {WORSE, BETTER, MIXED} and change.shifts
        else change
        for change in changes
    ]


def _settings(
    change: Change,
    before: Mapping[str, Mapping[str, str]],
    after: Mapping[str, Mapping[str, str]],
) -> list[Explanation]:
    def nodes_of(shifts: Iterable[Shift]) -> dict[str, None]:
        return dict.fromkeys(node for shift in shifts for node in shift.place.node.split("+"))

    every = nodes_of(change.shifts)
    moved = nodes_of(change.worse or change.better) or every
    return explanations(every, moved, before, after, change.figure.work.benchmark)


def _failures(
    before: Side, after: Side, ignored: frozenset[str], *, one_machine: bool
) -> list[Failure]:
    """Work that was ok on a node, and now has no ok record."""

    def key(case: Case) -> tuple[Work, str]:
        return work_of(case, ignored, one_machine=one_machine), case.node

    was_ok = {key(case) for case in before.cases if case.outcome == "ok"}
    is_ok = {key(case) for case in after.cases if case.outcome == "ok"}
    return [
        Failure(*place, case.outcome, case.reason)
        for place, case in {key(case): case for case in after.cases}.items()
        if place in was_ok and place not in is_ok
    ]


def _missing(
    olds: Measured, news: Measured, side: str, failures: Sequence[Failure]
) -> list[Missing]:
    """The figures of one side that the other lacks, or lacks on some nodes; work that failed is
    no longer missing."""
    failed = {(failure.work, failure.node) for failure in failures}
    missing = []
    for figure, samples in olds.items():
        present = {place.node for place in news.get(figure, {})}
        nodes = dict.fromkeys(
            place.node
            for place in samples
            if place.node not in present and (figure.work, place.node) not in failed
        )
        if nodes and (not present or present & {place.node for place in samples}):
            missing.append(Missing(figure, side, tuple(nodes)))
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
