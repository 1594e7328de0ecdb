"""Records as columns of codes, so that a hundred thousand are chosen and grouped without an object
for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .. import packed
from ..columns import Words, alike, coded, firsts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from ..load import Loaded

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
