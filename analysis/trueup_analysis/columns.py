"""Columns of Arrow tables as numpy arrays.

pyarrow's own ways (``to_numpy``, arrays of lists, scalars in computations) import pandas, which
takes a third of a second, or all of ``pyarrow.compute`` (``take``, ``flatten``), 0.05 s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

_KINDS: Final = {pa.int32(): np.int32, pa.int64(): np.int64, pa.float64(): np.float64}
_MOST_KEYS: Final = 2**62
_FEW_KEYS, _FEW_KEYS_A_ROW = 1000, 8
_FEW_VALUES: Final = 1000


class Words(NamedTuple):
    """Texts, each of them once.

    Attributes:
        codes: for each row the place of its text in ``words``; -1 where it has none.
    """

    codes: NDArray[np.signedinteger[Any]]
    words: list[str]

    def taken(self, rows: Any) -> Words:
        """Those of some rows."""
        return Words(self.codes[rows], self.words)

    def code(self, text: str | None) -> int:
        """The code of a text; -2, which no row has, where it is not among them."""
        if text is None:
            return -1
        return self.words.index(text) if text in self.words else -2

    def marks(self, words: Iterable[str | None]) -> NDArray[np.bool_]:
        """Which rows have one of some texts."""
        is_one = np.zeros(len(self.words) + 1, np.bool_)
        # The last element, -1, is that of no text. A text that is not among them marks no row.
        is_one[[code for text in words if (code := self.code(text)) >= -1]] = True
        is_marked: NDArray[np.bool_] = is_one[self.codes]
        return is_marked

    def held(self) -> list[str]:
        """The texts that rows have, sorted."""
        return sorted(self.words[code] for code in distinct(self.codes).tolist() if code >= 0)

    def values(self) -> list[str | None]:
        """The text of each row."""
        each = [*self.words, None]
        return [each[code] for code in self.codes.tolist()]


def words(array: pa.DictionaryArray) -> Words:
    """A folded column."""
    return Words(codes(array), array.dictionary.to_pylist())


def codes(array: pa.DictionaryArray) -> NDArray[np.signedinteger[Any]]:
    """For each row of a folded column the place of its text, -1 where it has none."""
    held = numbers(array.indices)
    return np.where(known(array), held, -1) if array.null_count else held


def lengths(array: pa.Array) -> NDArray[np.int64]:
    """How long each list or text of a column is."""
    return np.diff(_ends(array)).astype(np.int64)


def span(array: pa.ListArray) -> tuple[int, int]:
    """Where the values of a column of lists begin and end in ``values``."""
    ends = _ends(array)
    return int(ends[0]), int(ends[-1])


def _ends(array: pa.Array) -> NDArray[np.int32]:
    if not len(array):
        return np.zeros(1, np.int32)
    held = np.frombuffer(array.buffers()[1], np.int32)
    return held[array.offset : array.offset + len(array) + 1]


def taken(array: pa.Array, rows: NDArray[np.int64]) -> pa.Array:
    """Some rows of a column, in the given order."""
    is_text = pa.types.is_dictionary(array.type)
    has = known(array)[rows] if array.null_count else None
    held = array_of(numbers(array.indices if is_text else array)[rows], has)
    return pa.DictionaryArray.from_arrays(held, array.dictionary) if is_text else held


def numbers(array: pa.Array) -> NDArray[Any]:
    """A column of numbers; a missing one has an arbitrary value."""
    if not len(array):
        return np.empty(0, _KINDS[array.type])
    held = np.frombuffer(array.buffers()[1], _KINDS[array.type])
    return held[array.offset : array.offset + len(array)]


def counts(array: pa.Array) -> NDArray[np.int64]:
    """A column of whole numbers from 0 on, -1 where there is none."""
    return np.where(known(array), numbers(array), -1)


def known(array: pa.Array) -> NDArray[np.bool_]:
    """Of which rows a column has a value."""
    if not array.null_count:
        return np.ones(len(array), np.bool_)
    if array.null_count == len(array):
        return np.zeros(len(array), np.bool_)
    if pa.types.is_dictionary(array.type):
        array = array.indices
    bits = np.unpackbits(np.frombuffer(array.buffers()[0], np.uint8), bitorder="little")
    return bits[array.offset : array.offset + len(array)].astype(np.bool_)


def values(array: pa.Array) -> list[Any]:
    """A column as plain values, None where there is none; equal texts are one object."""
    if pa.types.is_dictionary(array.type):
        return words(array).values()
    cells: list[Any] = numbers(array).tolist()
    if array.null_count:
        cells = [
            cell if is_known else None for cell, is_known in zip(cells, known(array), strict=True)
        ]
    return cells


def numbered(held: NDArray[Any], has: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
    """Values as whole numbers from 0 on in their order, equal ones alike; -1: there is none."""
    each = distinct(held)
    ranks: NDArray[np.int64]
    if len(each) > _FEW_VALUES:
        ranks = np.unique(held, return_inverse=True)[1]
    else:  # in a fifth of the time
        ranks = np.searchsorted(each, held)
    return ranks if has is None else np.where(has, ranks, -1)


def firsts(groups: NDArray[Any]) -> NDArray[np.int64]:
    """The first row of each group; these have numbers from 0 on without a gap."""
    first_rows = np.full(int(groups.max(initial=-1)) + 1, len(groups), np.int64)
    np.minimum.at(first_rows, groups, np.arange(len(groups)))
    return first_rows


def distinct(column: NDArray[Any]) -> NDArray[Any]:
    """Each number once, in order; ``np.unique`` of so much alone imports ``np.ma``, 0.02 s."""
    ordered = np.sort(column)
    return (
        ordered[np.concatenate(([True], ordered[1:] != ordered[:-1]))] if len(column) else ordered
    )


def alike(columns: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
    """One number for the rows that agree in all of some columns of whole numbers from -1 on; the
    numbers are dense, in the order of the columns."""
    keys, span = np.zeros(len(columns[0]), np.int64), 1
    for column in columns:
        wide = int(column.max(initial=-1)) + 2
        if span * wide > _MOST_KEYS:
            keys = numbered(keys)
            span = int(keys.max(initial=0)) + 1
        keys, span = keys * wide + column + 1, span * wide
    if span > _FEW_KEYS + _FEW_KEYS_A_ROW * len(keys):
        return numbered(keys)
    # Without sorting.
    is_held = np.zeros(span, np.bool_)
    is_held[keys] = True
    dense: NDArray[np.int64] = (np.cumsum(is_held) - 1)[keys]
    return dense


def small(integers: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers in as few bytes as hold them."""
    least, most = int(integers.min(initial=0)), int(integers.max(initial=0))
    return integers.astype(np.min_scalar_type(min(least, -most - 1)), copy=False)


def folded(column: Words) -> pa.DictionaryArray:
    """The column of a table."""
    each = [text.encode() for text in column.words]
    ends = np.cumsum([0, *map(len, each)], dtype=np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(each))]
    texts = pa.Array.from_buffers(pa.string(), len(each), buffers)
    places = array_of(column.codes.astype(np.int32), column.codes >= 0)
    return pa.DictionaryArray.from_arrays(places, texts)


def array_of(array: NDArray[Any], has: NDArray[np.bool_] | None = None) -> pa.Array:
    """A column of whole numbers or floats; ``has``: in which rows there is one, if not in all."""
    kind = next(arrow for arrow, kind in _KINDS.items() if array.dtype == kind)
    bits = None
    if has is not None and not has.all():
        bits = pa.py_buffer(np.packbits(has, bitorder="little"))
    return pa.Array.from_buffers(
        kind, len(array), [bits, pa.py_buffer(np.ascontiguousarray(array))]
    )
