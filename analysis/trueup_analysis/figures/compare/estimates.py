"""The difference of one figure between two sides, and its error."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from .changes import Change, Shifts
from .measured import nodes_of
from .significance import Estimate, of_difference, of_mean

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .measured import FigureKey, Keys, Samples

    Floats = NDArray[np.float64]

# Nodes whose own spread gives the error of a mean.
_NODES: Final = 3


def change_of(figure: FigureKey, olds: Samples, news: Samples, keys: Keys) -> Change | None:
    """A figure of both sides, without a verdict."""
    common, *rows = np.intersect1d(
        olds.places, news.places, assume_unique=True, return_indices=True
    )
    paired = bool(len(common))
    if not paired and np.intersect1d(nodes_of(olds.places), nodes_of(news.places)).size:
        return None  # The same nodes, other devices.
    if paired:
        values = [side.values[row] for side, row in zip((olds, news), rows, strict=True)]
        nodes = tuple(keys.names(common))
    else:
        values = [olds.values, news.values]
        nodes = tuple(keys.names(np.concatenate([olds.places, news.places])))
    before, after = (float(np.median(each)) for each in values)
    nothing = Shifts.none(keys)
    if min(olds.least, news.least) <= 0:
        return Change(figure, before, after, None, nodes, paired, nothing)
    if not paired:
        return Change(figure, before, after, _unpaired(olds, news), nodes, paired, nothing)
    logs = np.log(values[1] / values[0])
    errors, freedoms = _alone(olds, news, *rows)
    shifts = Shifts(common, values[0], values[1], logs, errors, freedoms, keys)
    return Change(figure, before, after, _fleet(shifts), nodes, paired, shifts)


def _alone(
    old: Samples, new: Samples, of_old: NDArray[np.intp], of_new: NDArray[np.intp]
) -> tuple[Floats, Floats]:
    """The error of each place's change by its own measurements and its degrees of freedom; NaN
    where these do not say it."""
    counts = [side.counts[row] for side, row in ((old, of_old), (new, of_new))]
    squares = old.squares[of_old] + new.squares[of_new]
    freedoms = np.maximum(counts[0] + counts[1] - 2, 1).astype(float)
    errors = np.sqrt(squares / freedoms * (1 / counts[0] + 1 / counts[1]))
    # One run a side: its repeats stand for other runs, so their number does not divide.
    spread_counts = [side.spread_counts[row] for side, row in ((old, of_old), (new, of_new))]
    spreads = old.spreads[of_old] + new.spreads[of_new]
    by_repeats = np.sqrt(2 * spreads / np.maximum(spread_counts[0] + spread_counts[1], 1))
    has_records = np.minimum(*counts) > 1
    has_repeats = np.minimum(*spread_counts) > 0
    errors = np.where(has_records, errors, np.where(has_repeats, by_repeats, np.nan))
    of_repeats = old.freedoms[of_old] + new.freedoms[of_new]
    return errors, np.where(has_records, freedoms, of_repeats)


def _fleet(shifts: Shifts) -> Estimate | None:
    """The mean over nodes; of one or two by the errors of their own measurements."""
    means = shifts.node_means
    if len(means) >= _NODES:
        return of_mean(means)
    if np.isnan(shifts.errors).any():
        return None
    error = float(shifts.errors.max()) / math.sqrt(len(means))
    return Estimate(float(np.mean(means)), error, float(shifts.freedoms.min()))


def _unpaired(olds: Samples, news: Samples) -> Estimate | None:
    """The difference of two sides without a common node, over their nodes, or over the records of
    single ones."""
    old, new = (_logs(samples) for samples in (olds, news))
    if min(len(old), len(new)) >= _NODES:
        return of_difference(old, new)
    if len(olds.places) == len(news.places) == 1:
        mean = float(np.mean(new) - np.mean(old))
        only = np.zeros(1, np.intp)
        errors, freedoms = _alone(olds, news, only, only)
        return None if np.isnan(errors[0]) else Estimate(mean, float(errors[0]), float(freedoms[0]))
    return None


def _logs(samples: Samples) -> Floats:
    """One logarithm a node; of a single node one a record."""
    if len(samples.places) == 1:
        return samples.logs
    return means_by(nodes_of(samples.places), np.log(samples.values))


def means_by(groups: NDArray[np.int64], values: Floats) -> Floats:
    """The mean of each group's values, in the order of the groups' numbers."""
    _, codes = np.unique(groups, return_inverse=True)
    return np.bincount(codes, values) / np.bincount(codes)
