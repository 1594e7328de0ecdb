"""Records as columns of codes, and their figures as columns of numbers, so that a hundred thousand
are chosen, grouped and ranked without an object for each."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from trueup.cases import TYPICAL

from .. import packed
from ..columns import Words, alike, coded, firsts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray
    from trueup.view import Measure

    from ..load import Loaded

    Numbers = NDArray[np.float64]
    Counts = NDArray[np.int64]


class Coded:
    """Some of the loaded records, in the order of their numbers in ``records``."""

    def __init__(self, loaded: Loaded, records: Counts) -> None:
        self.loaded, self.records = loaded, records

    def __len__(self) -> int:
        return len(self.records)

    def taken(self, rows: Any) -> Coded:
        """The records at some places, or where a mask is true."""
        return Coded(self.loaded, self.records[rows])

    def words(self, name: str) -> Words:
        """A column of text, or of mappings as their JSON text."""
        return self.loaded.words(name).taken(self.records)

    def count(self, name: str) -> Counts:
        """A column of whole numbers, -1 where one is not known."""
        return self.loaded.counts(name)[self.records]

    def number(self, name: str) -> NDArray[np.float64]:
        """The same, NaN where one is not known."""
        counts = self.count(name)
        return np.where(counts < 0, np.nan, counts)

    def mappings(self, name: str) -> dict[int, Any]:
        """The mappings of a column by code."""
        column = self.words(name)
        return {code: packed.decoded(column.words[code]) for code in distinct(column.codes)}

    def first(self, name: str) -> Any:
        """The first record's value in a column of text or mappings."""
        column = self.loaded.words(name)
        code = int(column.codes[self.records[0]])
        text = None if code < 0 else column.words[code]
        return packed.decoded(text) if text is not None and name in packed.JSON else text


def all_of(loaded: Loaded) -> Coded:
    """All records."""
    return Coded(loaded, np.arange(loaded.table.num_rows))


def distinct(codes: NDArray[Any]) -> list[int]:
    """Each code once, in the order of appearance."""
    values, first = np.unique(codes, return_index=True)
    ordered: list[int] = values[np.argsort(first)].tolist()
    return ordered


def first_of_each(columns: Sequence[NDArray[Any]]) -> tuple[Counts, Counts]:
    """Of the rows that agree in all of some columns the first, in the order of appearance, and for
    each row which of these it is."""
    number = alike(columns)
    first = firsts(number)
    order = np.argsort(first)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return first[order], rank[number]


def words_of(texts: Sequence[str], number: Counts) -> Words:
    """A column of text from that of each kind of row."""
    return coded(texts).taken(number)


def by_number(number: Counts) -> Iterator[Counts]:
    """The places of the rows of each number from 0 on, in their order."""
    order = np.argsort(number, kind="stable")
    yield from np.split(order, np.cumsum(np.bincount(number))[:-1]) if len(order) else ()


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
