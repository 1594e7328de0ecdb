"""The difference of one figure between two sides, and its error."""

from __future__ import annotations

import math
from itertools import chain
from statistics import median
from typing import TYPE_CHECKING, Final

import numpy as np

from .changes import Change, Shift
from .significance import Estimate, of_difference, of_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .measured import FigureKey, Place, Sample

# Nodes whose own spread gives the error of a mean.
_NODES: Final = 3


def change_of(
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
    shifts = [_shift(place, olds[place], news[place]) for place in common]
    return Change(figure, before, after, _fleet(shifts), nodes, paired, tuple(shifts))


def node_means(shifts: Iterable[Shift]) -> dict[str, float]:
    """The mean logarithm of each node: devices of one node are not independent."""
    by_node: dict[str, list[float]] = {}
    for shift in shifts:
        by_node.setdefault(shift.place.node, []).append(shift.log_ratio)
    return {node: float(np.mean(logs)) for node, logs in by_node.items()}


def _shift(place: Place, old: Sample, new: Sample) -> Shift:
    ratio = math.log(new.value / old.value)
    return Shift(place, old.value, new.value, ratio, _alone(ratio, old, new))


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
    """The mean over nodes; of one or two by the errors of their own measurements."""
    means = list(node_means(shifts).values())
    if len(means) >= _NODES:
        return of_mean(means)
    estimates = [shift.estimate for shift in shifts if shift.estimate is not None]
    if len(estimates) < len(shifts):
        return None
    error = max(estimate.error for estimate in estimates) / math.sqrt(len(means))
    return Estimate(float(np.mean(means)), error, min(each.freedom for each in estimates))


def _unpaired(olds: Mapping[Place, Sample], news: Mapping[Place, Sample]) -> Estimate | None:
    """The difference of two sides without a common node, over their nodes, or over the records of
    single ones."""
    old, new = (_logs(samples) for samples in (olds, news))
    if min(len(old), len(new)) >= _NODES:
        return of_difference(old, new)
    if len(olds) == len(news) == 1:
        mean = float(np.mean(new) - np.mean(old))
        return _alone(mean, *(next(iter(samples.values())) for samples in (olds, news)))
    return None


def _logs(samples: Mapping[Place, Sample]) -> list[float]:
    """One logarithm a node; of a single node one a record."""
    if len(samples) == 1:
        return [math.log(value) for sample in samples.values() for value in sample.values]
    by_node: dict[str, list[float]] = {}
    for place, sample in samples.items():
        by_node.setdefault(place.node, []).append(math.log(sample.value))
    return [float(np.mean(logs)) for logs in by_node.values()]
