"""Figures over many runs: at which run each changed, on which nodes, and what changed with it.

A figure is a matrix of logarithms, places by runs. The series of the fleet is the median over
places of each one's deviation from its own median; the series of a place is the rest. In each
series the split that separates its means best is tested, and its parts again. The noise of a series
comes from the differences of neighbouring runs, which a change of level hardly moves. The
probability counts every possible split, and of all splits at most 1 % are none (false discovery
rate). The runs before and after a split are then compared as two sides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from trueup_node.errors import BadInput

from .changes import UNCHANGED, UNSURE
from .comparing import explained
from .estimates import change_of
from .judging import judged
from .measured import Measured, Sample, measured
from .settings import by_node, groups
from .sides import Side
from .significance import NOISE_FREEDOM, Estimate, discoveries, noise_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray
    from trueup_node.cases import Case

    from .changes import Change
    from .measured import FigureKey, Place

    Matrix = NDArray[np.float64]

LEAST_RUNS: Final = 4
_RATE: Final = 0.01
_MOST_SPLITS: Final = 20
# Runs on either side of a split that are compared.
_WINDOW: Final = 10


class Step(NamedTuple):
    """A change of level of a figure.

    Attributes:
        run: the id of the first run after it. begun: when that began.
        runs_before, runs_after: how many runs were compared.
    """

    run: str
    begun: str
    runs_before: int
    runs_after: int
    change: Change


class Trend(NamedTuple):
    """A figure over all runs.

    Attributes:
        first, last: medians over places of the first and the last run, in base units.
        runs, places: how many it was measured in and on.
    """

    figure: FigureKey
    first: float
    last: float
    runs: int
    places: int


@dataclass(frozen=True)
class History:
    """All figures over the runs.

    Attributes:
        begun: when each run began.
        steps: the changes, the last ones first.
    """

    runs: Sequence[str]
    begun: Sequence[str]
    steps: Sequence[Step]
    trends: Sequence[Trend]


def history(cases: Sequence[Case], runs: Sequence[str], at_least: float = 0.01) -> History:
    """Every figure over the runs.

    Args:
        runs: their ids, in the order in which they began.
        at_least: the least change that counts, as a share.

    Raises:
        BadInput: there are fewer than four runs.
    """
    by_run: dict[str, list[Case]] = {run: [] for run in runs}
    for case in cases:
        if case.run_id in by_run:
            by_run[case.run_id].append(case)
    held = [run for run in runs if any(case.outcome == "ok" for case in by_run[run])]
    if len(held) < LEAST_RUNS:
        raise BadInput(
            f"a history needs {LEAST_RUNS} runs with ok records, and there are {len(held)}:"
            " `trueup compare` compares two"
        )
    of_runs = [by_run[run] for run in held]
    figures = [measured(Side("", its), (), one_machine=True) for its in of_runs]
    matrices = _matrices(figures)
    begun = [min(case.started_at or "" for case in its) for its in of_runs]
    steps = []
    for run, windows in _windows_by_run(matrices, len(held)).items():
        changes = [
            change
            for figure, window in windows.items()
            if (change := _change(figure, figures, window)) is not None
        ]
        for change in _judged(changes, of_runs[run - 1], of_runs[run], at_least):
            before, after = windows[change.figure]
            steps.append(Step(held[run], begun[run], len(before), len(after), change))
    steps.sort(key=lambda step: step.run, reverse=True)
    return History(held, begun, steps, [_trend(figure, each) for figure, each in matrices.items()])


def _judged(
    changes: Sequence[Change], before: Sequence[Case], after: Sequence[Case], at_least: float
) -> list[Change]:
    """Those that are changes, with the settings that differ between the records of two runs."""
    settings = by_node(before), by_node(after)
    verdicts = explained(judged(changes, groups(*settings), at_least), *settings)
    return [change for change in verdicts if change.verdict not in {UNCHANGED, UNSURE}]


def _change(
    figure: FigureKey, figures: Sequence[Measured], window: tuple[range, range]
) -> Change | None:
    """The figure over the runs before and after a split."""
    sides: list[dict[Place, Sample]] = [{}, {}]
    for side, runs in zip(sides, window, strict=True):
        for run in runs:
            for place, sample in figures[run].get(figure, {}).items():
                pooled = side.setdefault(place, Sample())
                pooled.values += sample.values
    return change_of(figure, *sides) if all(sides) else None


def _matrices(figures: Sequence[Measured]) -> dict[FigureKey, Matrix]:
    """The logarithms of each figure, places by runs; NaN where it was not measured."""
    held: dict[FigureKey, dict[Place, Matrix]] = {}
    for number, of_run in enumerate(figures):
        for figure, samples in of_run.items():
            rows = held.setdefault(figure, {})
            for place, sample in samples.items():
                if sample.value > 0:
                    row = rows.setdefault(place, np.full(len(figures), np.nan))
                    row[number] = math.log(sample.value)
    return {figure: np.array([*rows.values()]) for figure, rows in held.items() if rows}


class _Split(NamedTuple):
    """A series changes before this run."""

    run: int
    estimate: Estimate


def _windows_by_run(
    matrices: dict[FigureKey, Matrix], run_count: int
) -> dict[int, dict[FigureKey, tuple[range, range]]]:
    """The figures of which a series changes at a run, by its number, each with the runs before and
    after that are compared: up to the next changes of the figure."""
    candidates = [
        (figure, split) for figure, logs in matrices.items() for split in _of_figure(logs)
    ]
    chances = [split.estimate.chance * run_count for _, split in candidates]
    others = sum(1 + len(logs) for logs in matrices.values()) - len(candidates)
    limit = discoveries([*chances, *[1.0] * max(0, others)], _RATE)
    splits: dict[FigureKey, set[int]] = {}
    for (figure, split), chance in zip(candidates, chances, strict=True):
        if chance <= limit:
            splits.setdefault(figure, set()).add(split.run)
    by_run: dict[int, dict[FigureKey, tuple[range, range]]] = {}
    for figure, runs in splits.items():
        ends = [0, *sorted(runs), run_count]
        for begin, run, end in zip(ends, ends[1:], ends[2:], strict=False):
            before, after = (
                range(max(begin, run - _WINDOW), run),
                range(run, min(end, run + _WINDOW)),
            )
            by_run.setdefault(run, {})[figure] = (before, after)
    return by_run


def _of_figure(logs: Matrix) -> Iterator[_Split]:
    """The splits of the fleet's series, and of each place's."""
    own = logs - np.nanmedian(logs, axis=1, keepdims=True)
    has_any = ~np.isnan(own).all(axis=0)
    fleet = np.full(logs.shape[1], np.nan)
    fleet[has_any] = np.nanmedian(own[:, has_any], axis=0)
    yield from _splits(fleet, _noise(fleet))
    if len(logs) > 1:
        rest = own - fleet
        noises = np.array([_noise(series) for series in rest])
        # The noise of one place is known from few runs: it is not below that of most places.
        for series, noise in zip(rest, np.maximum(noises, np.median(noises)), strict=True):
            yield from _splits(series, float(noise))


def _noise(series: Matrix) -> float:
    """The deviation of a run, scaled as Student's t."""
    values = series[~np.isnan(series)]
    if len(values) < LEAST_RUNS:
        return 0.0
    return noise_of(np.diff(values).tolist()) / math.sqrt(2)


def _splits(series: Matrix, noise: float) -> list[_Split]:
    """The best split of a series, and those of its parts as long as they are likely."""
    known = np.flatnonzero(~np.isnan(series))
    if len(known) < LEAST_RUNS:
        return []
    values = series[known]
    splits: list[_Split] = []
    waiting = [(0, len(values))]
    while waiting and len(splits) < _MOST_SPLITS:
        begin, end = waiting.pop()
        if end - begin == 1:
            continue
        split = _best(values[begin:end], noise)
        if split.estimate.chance * len(values) <= _RATE:
            splits.append(split._replace(run=int(known[begin + split.run])))
            waiting += [(begin, begin + split.run), (begin + split.run, end)]
    return splits


def _best(part: Matrix, noise: float) -> _Split:
    """The split of a part between whose means the difference is most errors wide."""
    sums = np.cumsum(part)
    left = np.arange(1, len(part))
    right = len(part) - left
    means = (sums[-1] - sums[:-1]) / right - sums[:-1] / left
    # Without any noise, as of counts, a difference is as sure as it is large.
    errors = max(noise, 1e-12) * np.sqrt(1 / left + 1 / right)
    best = int(np.argmax(abs(means) / errors))
    return _Split(best + 1, Estimate(float(means[best]), float(errors[best]), NOISE_FREEDOM))


def _trend(figure: FigureKey, logs: Matrix) -> Trend:
    runs = np.flatnonzero(~np.isnan(logs).all(axis=0))
    first, last = (math.exp(float(np.nanmedian(logs[:, run]))) for run in runs[[0, -1]])
    return Trend(figure, first, last, len(runs), len(logs))
