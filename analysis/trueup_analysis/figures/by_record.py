"""Figures of all records as columns: what a hundred thousand cases are pooled and ranked by without
an object for each figure."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from trueup.cases import TYPICAL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray
    from trueup.view import Measure

    from ..load import Loaded

    Numbers = NDArray[np.float64]
    Counts = NDArray[np.int64]

_ABSENT: Final = -1


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
        return Held(*(getattr(self, one.name)[records] for one in fields(self)))


class ByRecord:
    """The metric rows of everything that was loaded, by the number of the record."""

    def __init__(self, loaded: Loaded) -> None:
        self.records = loaded.table.num_rows
        listed = loaded.table.column("metrics").combine_chunks()
        self._owners = listed.value_parent_indices().to_numpy()
        rows = listed.flatten()
        self._values = rows.field("value").to_numpy()
        self._n = rows.field("n").fill_null(0).to_numpy()
        self._placed = np.array(
            rows.field("message_bytes").is_valid().to_numpy(zero_copy_only=False)
            | rows.field("device").is_valid().to_numpy(zero_copy_only=False)
        )
        self._names, self._name_codes = _coded(rows.field("name"))
        self._words, self._word_codes = _coded(rows.field("statistic"))
        self.held = cache(self._held)

    def _held(self, measure: Measure) -> Held:
        rows = self._of(measure.metric)
        placed = np.zeros(self.records, bool)
        placed[self._owners[rows[self._placed[rows]]]] = True
        first = rows[::-1]
        wanted = (measure.statistic,) if measure.statistic else TYPICAL
        typical = [self._stating(first, word) for word in reversed(wanted)]
        return Held(
            value=self._spread(typical),
            low=self._spread([self._stating(rows, "min")]),
            high=self._spread([self._stating(rows, "max")]),
            n=self._counts(np.concatenate(typical)),
            repeats=self._counts(first[self._n[first] > 0]),
            placed=placed,
        )

    def plain(self, metric: str, statistic: str = "") -> Numbers:
        """What ``Case.plain`` says of each record."""
        rows = self._of(metric)
        rows = rows[~self._placed[rows]]
        wanted = (statistic,) if statistic else TYPICAL
        return self._spread([self._stating(rows, word) for word in reversed(wanted)])

    def _of(self, metric: str) -> Counts:
        return np.flatnonzero(self._name_codes == self._names.get(metric, _ABSENT - 1))

    def _stating(self, rows: Counts, word: str | None) -> Counts:
        code = _ABSENT if word is None else self._words.get(word, _ABSENT - 1)
        return rows[self._word_codes[rows] == code]

    def _spread(self, parts: Iterable[Counts]) -> Numbers:
        """The value of each record: that of its last row in the last part that has one."""
        found = np.full(self.records, np.nan)
        for rows in parts:
            found[self._owners[rows]] = self._values[rows]
        return found

    def _counts(self, rows: Counts) -> Counts:
        found = np.zeros(self.records, np.int64)
        found[self._owners[rows]] = self._n[rows]
        return found


def _coded(column: pa.Array) -> tuple[dict[str, int], NDArray[np.int32]]:
    """The texts with their codes, and the code of each row; -1 where there is no text."""
    coded = column.dictionary_encode()
    codes: Any = coded.indices.fill_null(_ABSENT).to_numpy()
    return {text: code for code, text in enumerate(coded.dictionary.to_pylist())}, codes
