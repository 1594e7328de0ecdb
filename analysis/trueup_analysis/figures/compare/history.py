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
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import numpy as np
from trueup_node.errors import BadInput

from .changes import UNCHANGED, UNSURE
from .comparing import explained
from .estimates import change_of
from .judging import judged
from .measured import Keys, by_figure, joined, records_of, rows_of, samples_of, table_of
from .settings import Settings, groups
from .significance import NOISE_FREEDOM, Estimate, chances, discoveries, noise_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from numpy.typing import NDArray
    from trueup_node.cases import Case

    from .changes import Change
    from .measured import FigureKey, Table

    Matrix = NDArray[np.float64]
    Numbers = NDArray[np.int64]
    # The runs before and after a split.
    _Window = tuple[range, range]
    # Runs by their numbers, of some figures.
    RunsByFigure = Mapping[FigureKey, Collection[int]]

LEAST_RUNS: Final = 4
_RATE: Final = 0.01
_LEAST_NOISE: Final = 1e-12
# Rows of a matrix that are worked on together.
_BLOCK: Final = 1024
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


class Source(Protocol):
    """The records of many runs, of which some figures are read at a time.

    Attributes:
        runs: the ids of those with ok records, in the order in which they began. begun: when.
        keys: the numbers in its tables.
    """

    keys: Keys

    @property
    def runs(self) -> Sequence[str]: ...

    @property
    def begun(self) -> Sequence[str]: ...

    def tables(self, only: RunsByFigure | None = None) -> Iterator[tuple[FigureKey, list[Table]]]:
        """The measurements of each figure, in tables that have no run in common; the number of a
        run is its place in ``runs``.

        Args:
            only: the figures that count, each with the runs that are needed of it at least.
        """

    def cases(self, run: int) -> Sequence[Case]:
        """The records of a run; of their figures those of the state of nodes."""


class OfCases:
    """Records in memory.

    Args:
        runs: their ids, in the order in which they began.
    """

    def __init__(self, cases: Sequence[Case], runs: Sequence[str]) -> None:
        by_run: dict[str, list[Case]] = {run: [] for run in runs}
        for case in cases:
            if case.run_id in by_run:
                by_run[case.run_id].append(case)
        self.runs = [run for run in runs if any(case.outcome == "ok" for case in by_run[run])]
        self._of_runs = [by_run[run] for run in self.runs]
        self.begun = [min(case.started_at or "" for case in its) for its in self._of_runs]
        self.keys = Keys()

    def tables(self, only: RunsByFigure | None = None) -> Iterator[tuple[FigureKey, list[Table]]]:
        for number, table in self._by_figure:
            figure = self.keys.figures[number]
            if only is None or figure in only:
                yield figure, [table]

    @cached_property
    def _by_figure(self) -> list[tuple[int, Table]]:
        cases = [case for its in self._of_runs for case in its]
        numbers = {run: number for number, run in enumerate(self.runs)}
        records = records_of(cases, self.keys, runs=numbers)
        return by_figure(table_of(records, rows_of(cases), self.keys))

    def cases(self, run: int) -> Sequence[Case]:
        return self._of_runs[run]


def history(cases: Sequence[Case], runs: Sequence[str], at_least: float = 0.01) -> History:
    """Every figure of some records over the runs.

    Args:
        runs: their ids, in the order in which they began.

    Raises:
        BadInput: there are fewer than four runs.
    """
    return of_source(OfCases(cases, runs), at_least)


def of_source(source: Source, at_least: float = 0.01) -> History:
    """Every figure over the runs.

    Args:
        at_least: the least change that counts, as a share.

    Raises:
        BadInput: there are fewer than four runs.
    """
    count = len(source.runs)
    if count < LEAST_RUNS:
        raise BadInput(
            f"a history needs {LEAST_RUNS} runs with ok records, and there are {count}:"
            " `trueup compare` compares two"
        )
    trends: list[Trend] = []
    candidates: list[tuple[FigureKey, _Split]] = []
    series_count = 0
    for figure, tables in source.tables():
        logs = _matrix(tables, count)
        if logs is not None:
            trends.append(_trend(figure, logs))
            series_count += 1 + len(logs)
            candidates += [(figure, split) for split in _of_figure(logs)]
    windows = _windows_by_run(candidates, series_count, count)
    changes = _changes_by_run(windows, source)
    steps = []
    for run in windows:
        its = sorted(changes[run], key=lambda change: _name(change.figure))
        for change in _judged(its, source.cases(run - 1), source.cases(run), at_least):
            before, after = windows[run][change.figure]
            steps.append(Step(source.runs[run], source.begun[run], len(before), len(after), change))
    steps.sort(key=lambda step: _name(step.change.figure))
    steps.sort(key=lambda step: step.run, reverse=True)
    trends.sort(key=lambda trend: _name(trend.figure))
    return History(source.runs, source.begun, steps, trends)


def _changes_by_run(
    windows: Mapping[int, Mapping[FigureKey, _Window]], source: Source
) -> dict[int, list[Change]]:
    """The changes at each run of the figures that have a window there."""
    changes: dict[int, list[Change]] = {run: [] for run in windows}
    only: dict[FigureKey, set[int]] = {}
    for held in windows.values():
        for figure, sides in held.items():
            only.setdefault(figure, set()).update(*sides)
    if not only:
        return changes
    for figure, tables in source.tables(only):
        table = joined(tables)
        # Places in alphabetic order, as of two sides.
        places, keys = source.keys.in_order(table.place)
        table = table._replace(place=places)
        for run, held in windows.items():
            change = _change(figure, table, keys, held[figure]) if figure in held else None
            changes[run] += [] if change is None else [change]
    return changes


def _name(figure: FigureKey) -> tuple[object, ...]:
    """The place of a figure among others."""
    work, *names, size = figure
    return *map(str, work), *names, size or 0


def _judged(
    changes: Sequence[Change], before: Sequence[Case], after: Sequence[Case], at_least: float
) -> list[Change]:
    """Those that are changes, with the settings that differ between the records of two runs."""
    settings = Settings(before, after)
    verdicts = explained(judged(changes, groups(settings), at_least), settings)
    return [change for change in verdicts if change.verdict not in {UNCHANGED, UNSURE}]


def _change(figure: FigureKey, table: Table, keys: Keys, window: _Window) -> Change | None:
    """The figure over the runs before and after a split."""
    run = table.run
    sides = [samples_of(table.only((run >= runs.start) & (run < runs.stop))) for runs in window]
    if not all(sides):
        return None
    before, after = (next(iter(side.values())) for side in sides)
    return change_of(figure, before, after, keys)


def _matrix(tables: list[Table], run_count: int) -> Matrix | None:
    """The logarithms of a figure, places by runs; NaN where it was not measured. The list is
    emptied: a year's rows fit into memory once."""
    places = np.unique(np.concatenate([np.unique(table.place) for table in tables]))
    logs = np.full((len(places), run_count), np.nan)
    while tables:
        row, run, value = _cells(tables.pop(), places)
        is_positive = value > 0
        logs[row[is_positive], run[is_positive]] = np.log(value[is_positive])
    is_known = ~np.isnan(logs).all(axis=1)
    if not is_known.all():
        logs = logs[is_known]
    return logs if len(logs) else None


def _cells(table: Table, places: Numbers) -> tuple[Numbers, Numbers, Matrix]:
    """Row and run of each cell, and its value: the median, where a run has several records."""
    first = int(table.run.min())
    run_count = int(table.run.max()) - first + 1
    cell = np.searchsorted(places, table.place) * run_count + (table.run - first)
    value = table.value
    if np.bincount(cell).max() > 1:
        order = np.lexsort((value, cell))
        cell, value = cell[order], value[order]
        starts = np.flatnonzero(np.append(True, np.diff(cell) != 0))
        counts = np.diff(np.append(starts, len(cell)))
        value = (value[starts + (counts - 1) // 2] + value[starts + counts // 2]) / 2
        cell = cell[starts]
    return cell // run_count, first + cell % run_count, value


class _Split(NamedTuple):
    """A series changes before this run."""

    run: int
    estimate: Estimate


def _windows_by_run(
    candidates: Sequence[tuple[FigureKey, _Split]], series_count: int, run_count: int
) -> dict[int, dict[FigureKey, _Window]]:
    """The figures of which a series changes at a run, by its number, each with the runs before and
    after that are compared: up to the next changes of the figure."""
    probabilities = [split.estimate.chance * run_count for _, split in candidates]
    others = max(0, series_count - len(candidates))
    limit = discoveries(np.append(probabilities, np.ones(others)), _RATE)
    splits: dict[FigureKey, set[int]] = {}
    for (figure, split), chance in zip(candidates, probabilities, strict=True):
        if chance <= limit:
            splits.setdefault(figure, set()).add(split.run)
    by_run: dict[int, dict[FigureKey, _Window]] = {}
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
    """The splits of the fleet's series, and of each place's. ``logs`` is overwritten: a matrix of a
    year fits into memory once."""
    for block in _blocks(logs):
        np.subtract(block, _medians(block, 1)[:, None], out=block)
    fleet = np.full(logs.shape[1], np.nan)
    for run in range(len(fleet)):
        values = logs[:, run][~np.isnan(logs[:, run])]
        fleet[run] = np.median(values) if len(values) else np.nan
    yield from _splits(fleet, _noise(fleet))
    if len(logs) == 1:
        return
    logs -= fleet
    noises = np.concatenate([_noises(block) for block in _blocks(logs)])
    # The noise of one place is known from few runs: it is not below that of most places.
    noises = np.maximum(noises, np.median(noises))
    for block, its in zip(_blocks(logs), _blocks(noises), strict=True):
        for number in np.flatnonzero(_may_split(block, its)):
            yield from _splits(block[number], float(its[number]))


def _blocks(rows: Matrix) -> Iterator[Matrix]:
    """Some rows at a time."""
    return (rows[begin : begin + _BLOCK] for begin in range(0, len(rows), _BLOCK))


def _medians(matrix: Matrix, axis: int) -> Matrix:
    """Medians of the known values. Without NaN they take a fifth of the time."""
    if not np.isnan(matrix).any():
        return np.asarray(np.median(matrix, axis=axis))
    return np.asarray(np.nanmedian(matrix, axis=axis))


def _noises(series: Matrix) -> Matrix:
    """``_noise`` of each series."""
    is_whole = ~np.isnan(series).any(axis=1)
    deviations = np.median(np.abs(np.diff(series[is_whole], axis=1)), axis=1)
    noises = np.zeros(len(series))
    noises[is_whole] = deviations * noise_of([1.0]) / math.sqrt(2)
    for number in np.flatnonzero(~is_whole):
        noises[number] = _noise(series[number])
    return noises


def _may_split(series: Matrix, noises: Matrix) -> NDArray[np.bool_]:
    """Which series may have a likely split: of most that are known in all runs ``_splits`` finds
    none."""
    may_split: NDArray[np.bool_] = np.asarray(np.isnan(series).any(axis=1))
    whole = np.flatnonzero(~may_split)
    means, widths = _differences(series[whole])
    best = np.argmax(abs(means) / widths, axis=1)
    errors = np.maximum(noises[whole], _LEAST_NOISE) * widths[best]
    means = means[np.arange(len(whole)), best]
    probabilities = chances(means, errors, np.full(len(whole), NOISE_FREEDOM))
    # Twice the limit, whatever the last digits are.
    may_split[whole] = probabilities * series.shape[1] <= 2 * _RATE
    return may_split


def _differences(series: Matrix) -> tuple[Matrix, Matrix]:
    """For each split the difference of the means, and its error where the noise is 1."""
    count = series.shape[-1]
    sums = np.cumsum(series, axis=-1)
    left = np.arange(1, count)
    right = count - left
    before = sums[..., :-1]
    means = (sums[..., -1:] - before) / right - before / left
    return means, np.sqrt(1 / left + 1 / right)


def _noise(series: Matrix) -> float:
    """The deviation of a run, scaled as Student's t."""
    values = series[~np.isnan(series)]
    if len(values) < LEAST_RUNS:
        return 0.0
    return noise_of(np.diff(values)) / math.sqrt(2)


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
    means, widths = _differences(part)
    # Without any noise, as of counts, a difference is as sure as it is large.
    errors = max(noise, _LEAST_NOISE) * widths
    best = int(np.argmax(abs(means) / errors))
    return _Split(best + 1, Estimate(float(means[best]), float(errors[best]), NOISE_FREEDOM))


def _trend(figure: FigureKey, logs: Matrix) -> Trend:
    runs = np.flatnonzero(~np.isnan(logs).all(axis=0))
    first, last = (math.exp(float(np.nanmedian(logs[:, run]))) for run in runs[[0, -1]])
    return Trend(figure, first, last, len(runs), len(logs))
