"""Figures of all records as columns, so that a hundred thousand cases are pooled and ranked without
an object for each figure."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from trueup.cases import TYPICAL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray
    from trueup.view import Measure

    from ..load import Loaded

    Numbers = NDArray[np.float64]
    Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Held:
    """One measure of each record, NaN (of counts 0) where it has none.

    Attributes:
        value: the first row of the statistic that stands for it. low, high: the least and the
            greatest of the repeats. n: how many repeats that row is of.
        repeats: the first count that any of its rows states.
        placed: which records hold rows of devices or at message sizes, of which more must be known:
            their other members here do not count.
    """

    value: Numbers
    low: Numbers
    high: Numbers
    n: Counts
    repeats: Counts
    placed: NDArray[np.bool_]

    def of(self, records: Counts) -> Held:
        """The same of some records, in their order."""
        return Held(*(getattr(self, field.name)[records] for field in fields(self)))


class ByRecord:
    """The metric rows of everything that was loaded, by the number of the record."""

    def __init__(self, loaded: Loaded) -> None:
        self.records = loaded.table.num_rows
        self._all = figures = loaded.figures
        self._placed = (figures.message_bytes >= 0) | (figures.device.codes >= 0)
        self.held = cache(self._held)
        self.plain = cache(self._plain)

    def _held(self, measure: Measure) -> Held:
        rows = self._of(measure.metric)
        placed = np.zeros(self.records, bool)
        placed[self._all.owners[rows[self._placed[rows]]]] = True
        first = rows[::-1]
        statistics = (measure.statistic,) if measure.statistic else TYPICAL
        typical = [self._stating(first, name) for name in reversed(statistics)]
        return Held(
            value=self._spread(typical),
            low=self._spread([self._stating(rows, "min")]),
            high=self._spread([self._stating(rows, "max")]),
            n=self._counts(np.concatenate(typical)),
            repeats=self._counts(first[self._all.n[first] > 0]),
            placed=placed,
        )

    def _plain(self, metric: str, statistic: str = "") -> Numbers:
        """The value of ``Case.plain`` for each record."""
        rows = self._of(metric)
        rows = rows[~self._placed[rows]]
        statistics = (statistic,) if statistic else TYPICAL
        return self._spread([self._stating(rows, name) for name in reversed(statistics)])

    def median(self, metric: str) -> Numbers:
        """Of each record's figures of the whole case the first that is a median, or one value."""
        return self.first(metric, (None, "median", "single"))

    def first(self, metric: str, statistics: Iterable[str | None]) -> Numbers:
        """Of each record's figures of the whole case the first of some statistics."""
        rows = self._of(metric)
        chosen = ~self._placed[rows] & self._all.statistic.taken(rows).marks(statistics)
        return self._spread([rows[chosen][::-1]])

    def _of(self, metric: str) -> Counts:
        return np.flatnonzero(self._all.name.codes == self._all.name.code(metric))

    def _stating(self, rows: Counts, name: str | None) -> Counts:
        statistic = self._all.statistic
        chosen: Counts = rows[statistic.codes[rows] == statistic.code(name)]
        return chosen

    def _spread(self, parts: Iterable[Counts]) -> Numbers:
        """The value of each record: that of its last row in the last part that has one."""
        values = np.full(self.records, np.nan)
        for rows in parts:
            values[self._all.owners[rows]] = self._all.value[rows]
        return values

    def _counts(self, rows: Counts) -> Counts:
        counts = np.zeros(self.records, np.int64)
        counts[self._all.owners[rows]] = self._all.n[rows].clip(0)
        return counts
