"""Columns of Arrow tables as numpy arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray


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
        return sorted(self.words[code] for code in np.unique(self.codes).tolist() if code >= 0)

    def values(self) -> list[str | None]:
        """The text of each row."""
        each = [*self.words, None]
        return [each[code] for code in self.codes.tolist()]


def coded(texts: Iterable[str | None]) -> Words:
    """The column of some texts."""
    codes: dict[str | None, int] = {None: -1}
    column = [codes.setdefault(text, len(codes) - 1) for text in texts]
    return Words(np.array(column, np.int32), [text for text in codes if text is not None])


def whole(counts: Iterable[int | None]) -> NDArray[np.int64]:
    """The column of some whole numbers from 0 on, -1 where there is none."""
    return np.array([-1 if count is None else count for count in counts], np.int64)


def words(array: pa.DictionaryArray) -> Words:
    """A folded column."""
    return Words(counts(array.indices), array.dictionary.to_pylist())


def numbers(array: pa.Array) -> NDArray[Any]:
    """A column of numbers; a missing one is 0."""
    values: NDArray[Any] = array.fill_null(0).to_numpy()
    return values


def counts(array: pa.Array) -> NDArray[np.signedinteger[Any]]:
    """A column of whole numbers from 0 on, -1 where there is none."""
    values: NDArray[np.signedinteger[Any]] = array.fill_null(-1).to_numpy()
    return values


def known(array: pa.Array) -> NDArray[np.bool_]:
    """Of which rows a column has a value."""
    is_known: NDArray[np.bool_] = array.is_valid().to_numpy(zero_copy_only=False)
    return is_known


def numbered(held: NDArray[Any], has: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
    """Values as whole numbers from 0 on in their order, equal ones alike; -1: there is none."""
    ranks: NDArray[np.int64] = np.unique(held, return_inverse=True)[1]
    return ranks if has is None else np.where(has, ranks, -1)


def firsts(groups: NDArray[Any]) -> NDArray[np.int64]:
    """The first row of each group; these have numbers from 0 on without a gap."""
    first_rows = np.full(int(groups.max(initial=-1)) + 1, len(groups), np.int64)
    np.minimum.at(first_rows, groups, np.arange(len(groups)))
    return first_rows


def alike(columns: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
    """One number for the rows that agree in all of some columns; the numbers are dense, from 0 on,
    in the order of the columns."""
    order = np.lexsort(columns[::-1])
    is_new = np.zeros(len(order), np.bool_)
    for column in columns:
        ordered = column[order]
        is_new[1:] |= ordered[1:] != ordered[:-1]
    keys = np.empty(len(order), np.int64)
    keys[order] = np.cumsum(is_new)
    return keys


def small(integers: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers in as few bytes as hold them."""
    least, most = int(integers.min(initial=0)), int(integers.max(initial=0))
    return integers.astype(np.min_scalar_type(min(least, -most - 1)), copy=False)


def folded(column: Words) -> pa.DictionaryArray:
    """The column of a table."""
    texts = pa.array(column.words, pa.string())
    return pa.DictionaryArray.from_arrays(
        column.codes.astype(np.int32), texts, mask=column.codes < 0
    )
