"""Which differences are changes: means, groups of nodes, and single places, tested together.

A group is the nodes on which a setting changed, or has a value, and the rest has not. The noise of
single places is that of all places of a figure around its median or its group's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress
from typing import TYPE_CHECKING, Final

import numpy as np

from .changes import BETTER, MIXED, UNCHANGED, UNSURE, WORSE, Change, Shift
from .significance import (
    NOISE_FREEDOM,
    Estimate,
    discoveries,
    noise_of,
    of_difference,
    t_quantile,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import NDArray

# Of all reported changes, the share that may be none.
_RATE: Final = 0.01
# Nodes of each part of a group; places that show a figure's noise.
_GROUP: Final = 2
_PLACES: Final = 8


@dataclass(frozen=True)
class _Tested:
    """A figure with all estimates of a change in it.

    Attributes:
        change: with its best group and the errors of its places.
        group: the estimate of the group's difference from the other nodes.
        chances: of the mean, of each group and of each place.
    """

    change: Change
    group: Estimate | None
    chances: NDArray[np.float64]

    @cached_property
    def chance(self) -> float:
        """The probability of any of these without a change (Simes, 1986)."""
        ordered = np.sort(self.chances)
        return float((len(ordered) * ordered / np.arange(1, len(ordered) + 1)).min())


def judged(
    changes: Sequence[Change], groups: Collection[frozenset[str]], at_least: float
) -> list[Change]:
    """The figures with their verdicts: at most 1 % of the reported figures are none, and at most 1
    % of them report a part (mean, group, place) that is none (Y. Benjamini and M. Bogomolov, 2014).

    Args:
        groups: nodes that have a change of settings, or a value, in common.
        at_least: the least change that counts, as a share.
    """
    tested = [_tested(change, groups) for change in changes]
    testable = [item.chance for item in tested if len(item.chances)]
    limit = discoveries(testable, _RATE)
    rate = _RATE * max(1, sum(chance <= limit for chance in testable)) / max(1, len(testable))
    return [_verdict(item, limit, rate, math.log1p(at_least)) for item in tested]


def _tested(change: Change, groups: Collection[frozenset[str]]) -> _Tested:
    candidates = _groups_of(change, groups)
    best = min(candidates, key=lambda item: item[1].chance, default=None)
    if best is not None and best[1].chance * len(candidates) <= _RATE:
        change = replace(change, group=best[0])
    change = _with_noise(change)
    estimates = [change.estimate, *(estimate for _, estimate in candidates)]
    of_others = [estimate.chance for estimate in estimates if estimate is not None]
    return _Tested(
        change,
        best[1] if best is not None and change.group else None,
        np.append(of_others, change.shifts.chances()),
    )


def _groups_of(
    change: Change, groups: Collection[frozenset[str]]
) -> list[tuple[frozenset[str], Estimate]]:
    """The difference of each group from the other nodes, where the group changed more."""
    if not groups or not change.shifts:
        return []
    nodes, means = change.shifts.nodes, change.shifts.node_means
    parts = [node.split("+") for node in nodes]
    estimates: dict[frozenset[str], Estimate] = {}
    for group in groups:
        is_inside = np.array([not group.isdisjoint(names) for names in parts], bool)
        count = int(is_inside.sum())
        inside = frozenset(compress(nodes, is_inside))
        if inside in estimates or min(count, len(nodes) - count) < _GROUP:
            continue
        its, others = means[is_inside], means[~is_inside]
        if abs(np.mean(its)) >= abs(np.mean(others)):
            estimates[inside] = of_difference(others, its)
    return list(estimates.items())


def _is_change(estimate: Estimate | None, limit: float, least: float) -> bool:
    return estimate is not None and abs(estimate.mean) >= least and estimate.chance <= limit


def _with_noise(change: Change) -> Change:
    """The figure with the error of each place: the larger of that of its own measurements and that
    of all places."""
    shifts = change.shifts
    error = _noise(_residuals(change))
    if not error:
        return change
    is_noisy = ~(shifts.errors >= error)
    errors = np.where(is_noisy, error, shifts.errors)
    freedoms = np.where(is_noisy, NOISE_FREEDOM, shifts.freedoms)
    return replace(change, shifts=replace(shifts, errors=errors, freedoms=freedoms))


def _in_group(change: Change) -> NDArray[np.bool_]:
    """Which places are in the changed group."""
    if not change.group or not change.shifts:
        return np.zeros(len(change.shifts), np.bool_)
    is_inside = np.array([node in change.group for node in change.shifts.nodes], bool)
    return is_inside[change.shifts.node_codes]


def _residuals(change: Change) -> NDArray[np.float64]:
    """The logarithms of places less the median of their group."""
    logs = change.shifts.logs.copy()
    inside = _in_group(change)
    for part in (inside, ~inside):
        if part.any():
            logs[part] -= np.median(logs[part])
    return logs


def _noise(residuals: NDArray[np.float64]) -> float:
    """The noise of places; 0 where there are too few. That of a sample is too small by about
    1/n."""
    count = len(residuals)
    return 0.0 if count < _PLACES else noise_of(residuals) * count / (count - 1)


def _verdict(item: _Tested, limit: float, rate: float, least: float) -> Change:
    """The verdict on a figure.

    Args:
        limit: the greatest probability of a figure that counts.
        rate: the probability that any part of a figure without a change counts.
    """
    count = len(item.chances)
    limit = rate / count if count and item.chance <= limit else 0.0
    change = item.change
    if not _is_change(item.group, limit, least):
        change = replace(change, group=frozenset())
    is_moved = _in_group(change) | change.shifts.changed(limit, least)
    moved = [change.shifts[number] for number in np.flatnonzero(is_moved)]
    worse, better = (
        tuple(shift for shift in moved if _is_better(change, shift.log_ratio) is is_better)
        for is_better in (False, True)
    )
    if change.group:
        worse, better = _of_group(change, worse, better)
    verdicts = {name for name, shifts in ((WORSE, worse), (BETTER, better)) if shifts}
    if change.estimate is not None and _is_change(change.estimate, limit, least):
        verdicts |= {BETTER if _is_better(change, change.estimate.mean) else WORSE}
    return replace(
        change,
        verdict=_named(change, verdicts),
        worse=worse,
        better=better,
        detectable=_detectable(change.estimate, limit or rate, least),
    )


def _is_better(change: Change, log_ratio: float) -> bool:
    return (log_ratio > 0) == (change.figure.direction == "higher")


def _named(change: Change, verdicts: set[str]) -> str:
    """The verdict in a word; of values of which some are 0 their difference says it: a count of
    errors that rose."""
    if change.estimate is None and not verdicts and change.before != change.after:
        if min(change.before, change.after) > 0:
            return UNSURE
        return BETTER if _is_better(change, change.after - change.before) else WORSE
    if not verdicts:
        return UNCHANGED
    return MIXED if len(verdicts) > 1 else next(iter(verdicts))


def _of_group(
    change: Change, worse: tuple[Shift, ...], better: tuple[Shift, ...]
) -> tuple[tuple[Shift, ...], tuple[Shift, ...]]:
    """The group's places count as its mean goes, those against it as noise."""
    its = change.shifts.logs[_in_group(change)]
    is_better = _is_better(change, float(np.mean(its)))

    def outside(shifts: tuple[Shift, ...]) -> tuple[Shift, ...]:
        return tuple(shift for shift in shifts if shift.place.node not in change.group)

    return (outside(worse), better) if is_better else (worse, outside(better))


def _detectable(estimate: Estimate | None, limit: float, least: float) -> float | None:
    """The least mean change that would have counted, as a share."""
    if estimate is None or not estimate.error:
        return None
    reach = t_quantile(1 - limit / 2, estimate.freedom) * estimate.error
    return math.expm1(min(max(least, reach), 700.0))
