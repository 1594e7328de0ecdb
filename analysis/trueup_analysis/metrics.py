"""The metric rows of records, column by column: a hundred thousand records have a million of them,
so each column takes as few bytes as hold it."""

from __future__ import annotations

from itertools import chain, repeat
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from msgspec import UNSET
from trueup.cases import Figure

from .columns import Words, coded, counts, folded, small, whole, words

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from .records import MetricRow

COLUMNS: Final = {
    "name": pa.string(),
    "value": pa.float64(),
    "unit": pa.string(),
    "direction": pa.string(),
    "message_bytes": pa.int64(),
    "device": pa.string(),
    "statistic": pa.string(),
    "n": pa.int64(),
}
TEXTS: Final = [name for name, kind in COLUMNS.items() if kind == pa.string()]
_KIND: Final = [name for name in COLUMNS if name != "value"]
_kind = attrgetter(*_KIND)


class Figures(NamedTuple):
    """All figures of some records, column by column.

    Attributes:
        starts: for each record, and one beyond the last, the place of its first figure.
        owners: the record of each figure.
        message_bytes, n: -1 where there is none.
    """

    starts: NDArray[np.int64]
    owners: NDArray[np.signedinteger[Any]]
    name: Words
    value: NDArray[np.float64]
    unit: Words
    direction: Words
    message_bytes: NDArray[np.signedinteger[Any]]
    device: Words
    statistic: Words
    n: NDArray[np.signedinteger[Any]]

    def taken(self, rows: NDArray[Any]) -> Figures:
        """Some of them, chosen by a mask or in their order; the records stay as many."""
        owners = self.owners[rows]
        lengths = np.bincount(owners, minlength=len(self.starts) - 1)
        return Figures(
            starts=_starts(lengths),
            owners=owners,
            **{name: self._column(name, rows) for name in COLUMNS},
        )

    def gathered(self, starts: NDArray[np.int64], stops: NDArray[np.int64]) -> Figures:
        """Those of some records, given by the places of their figures; ``owners`` count these."""
        lengths = stops - starts
        begin = _starts(lengths)
        rows = np.arange(begin[-1]) + np.repeat(starts - begin[:-1], lengths)
        return of_lengths(lengths, {name: self._column(name, rows) for name in COLUMNS})

    def _column(self, name: str, rows: NDArray[Any] | slice) -> Any:
        held = getattr(self, name)
        return held.taken(rows) if isinstance(held, Words) else held[rows]

    def rows(self, start: int, stop: int) -> list[Figure]:
        """Those from one place to another as plain values."""
        return self.at(slice(start, stop))

    def at(self, rows: NDArray[Any] | slice) -> list[Figure]:
        """Those at some places as plain values."""
        columns = (
            self._column(name, rows).values() if name in TEXTS else self._plain(name, rows)
            for name in Figure._fields
        )
        return list(map(Figure, *columns))

    def _plain(self, name: str, rows: NDArray[Any] | slice) -> list[Any]:
        values: list[Any] = getattr(self, name)[rows].tolist()
        return values if name == "value" else [None if value < 0 else value for value in values]


def _starts(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate(([0], np.cumsum(lengths)))


def of_lengths(lengths: NDArray[np.int64], columns: dict[str, Any]) -> Figures:
    """Figures of records that have so many of them each."""
    owners = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
    return Figures(starts=_starts(lengths), owners=owners, **columns)


def of_rows(rows: Sequence[Sequence[Figure | MetricRow]]) -> Figures:
    """The figures of each record, as columns."""
    figures = list(chain.from_iterable(rows))
    # Figures of a sweep differ in their values alone: the other columns are made of few kinds.
    kinds: dict[tuple[Any, ...], int] = {}
    codes = [kinds.setdefault(_kind(figure), len(kinds)) for figure in figures]
    columns: dict[str, Any] = {"value": np.array([figure.value for figure in figures], np.float64)}
    for name, column in zip(_KIND, zip(*kinds, strict=True) if kinds else repeat(()), strict=False):
        cells = [None if cell is UNSET else cell for cell in column]
        if name in TEXTS:
            columns[name] = coded(cells).taken(codes)
        else:
            columns[name] = whole(cells)[codes]
    return of_lengths(np.fromiter(map(len, rows), np.int64, len(rows)), columns)


def flat(listed: pa.ListArray) -> dict[str, pa.Array]:
    """The columns of Arrow's lists of rows, of which none is missing that has rows."""
    return dict(zip(COLUMNS, listed.flatten().flatten(), strict=True))


def of_lists(listed: pa.ListArray) -> Figures:
    """The figures of each record from Arrow's lists of rows."""
    arrays: dict[str, Any] = {}
    for name, array in flat(listed).items():
        if name in TEXTS:
            folded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
            arrays[name] = words(folded)
        elif name == "value":
            arrays[name] = array.fill_null(np.nan).to_numpy()
        else:
            arrays[name] = counts(array)
    return of_lengths(lengths(listed), arrays)


def lengths(listed: pa.ListArray) -> NDArray[np.int64]:
    """How many rows each record has."""
    rows: NDArray[np.int64] = listed.value_lengths().fill_null(0).to_numpy().astype(np.int64)
    return rows


def lists(figures: Figures, kind: pa.ListType) -> pa.ListArray:
    """Arrow's lists of rows, in which each text is once."""
    arrays = []
    for name in COLUMNS:
        held = getattr(figures, name)
        if isinstance(held, Words):
            arrays.append(folded(held))
        elif name == "value":
            arrays.append(pa.array(held))
        else:
            arrays.append(pa.array(held, pa.int64(), mask=held == -1))
    rows = pa.StructArray.from_arrays(arrays, fields=list(kind.value_type))
    return pa.ListArray.from_arrays(figures.starts.astype(np.int32), rows, kind)


def joined(parts: Iterable[Figures]) -> Figures:
    """The figures of several parts, one after the other. Parts may come from a generator: no more
    than one is held beside the joined columns."""
    lengths = [np.empty(0, np.int64)]
    held: dict[str, list[NDArray[Any]]] = {
        name: [np.empty(0, np.float64 if name == "value" else np.int8)] for name in COLUMNS
    }
    codes: dict[str, dict[str, int]] = {name: {} for name in TEXTS}
    for figures in parts:
        lengths.append(np.diff(figures.starts))
        for name, columns in held.items():
            column = getattr(figures, name)
            if isinstance(column, Words):
                known_words = codes[name]
                places = [known_words.setdefault(text, len(known_words)) for text in column.words]
                column = np.array([*places, -1])[column.codes]
            columns.append(column if name == "value" else small(column))
    arrays: dict[str, Any] = {}
    for name in COLUMNS:
        column = np.concatenate(held.pop(name))
        arrays[name] = Words(column, list(codes[name])) if name in TEXTS else column
    return of_lengths(np.concatenate(lengths), arrays)
