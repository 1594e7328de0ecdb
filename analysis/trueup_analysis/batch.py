"""Records as text, many at a time.

A text that is plainly a record becomes a row at once. Costly checks of figures run on the whole
table. ``records.decode`` reads each odd text once more and gives the reason if it is no record.
"""

from __future__ import annotations

import os
import re
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
import numpy as np

from . import packed
from .columns import Words, alike, numbered, small, words
from .metrics import TEXTS, of_lengths
from .packed import MEASURED, METRIC_NAME, PATTERNS, canonical
from .records import (
    DEVICE,
    MOST,
    ORDERED,
    STATISTIC,
    Count,
    GpuCount,
    Raw,
    Record,
    counts_names,
    decode,
    is_name,
    limits,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from .metrics import Figures

# Limit of records held as text, which take five times the memory of a table.
_ROWS_AT_ONCE: Final = 8192
_BYTES_AT_ONCE: Final = 2**25


class _Figure(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A metric row whose texts nobody has looked at."""

    name: str
    value: float
    unit: Annotated[str, msgspec.Meta(min_length=1)]
    direction: Literal["higher", "lower", "none"]
    message_bytes: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] | msgspec.UnsetType = (
        msgspec.UNSET
    )
    device: str | msgspec.UnsetType = msgspec.UNSET
    statistic: str | msgspec.UnsetType = msgspec.UNSET
    n: Count | msgspec.UnsetType = msgspec.UNSET


class _Text(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A record whose texts nobody has looked at."""

    schema: Literal["trueup.record/1"]
    run_id: str
    benchmark: str
    case: str
    outcome: Literal["ok", "too_short", "failed", "invalid"]
    reason: str | None
    nodes: list[Annotated[str, msgspec.Meta(min_length=1)]]
    vm_size: str | None
    region: str | None
    offer: str | None
    node_count: Count | None
    ranks: Count | None
    threads_per_rank: Count | None
    gpus: GpuCount | None
    parameters: msgspec.Raw
    command: msgspec.Raw
    environment: msgspec.Raw
    software: msgspec.Raw
    system: msgspec.Raw
    started_at: str
    duration_seconds: Annotated[float, msgspec.Meta(ge=0)] | None
    metrics: list[_Figure]
    raw: Raw | None


_untyped = msgspec.json.Decoder(_Text).decode
# Fields that figures of a sweep share: they differ in their values alone.
_KIND: Final = ("name", "unit", "direction", "message_bytes", "device", "statistic", "n")
_kind = attrgetter(*_KIND)
# Columns that a record has itself.
_PLAIN_TEXTS: Final = (
    *("run_id", "benchmark", "case", "outcome", "reason", "vm_size", "region", "offer"),
    "started_at",
)
_NUMBERS: Final = ("node_count", "ranks", "threads_per_rank", "gpus", "duration_seconds")
_own = attrgetter(*_PLAIN_TEXTS, *_NUMBERS)
_raw_texts = attrgetter(*packed.KINDS)
# How many members there are, with a colon each.
_MEMBERS, _OF_RAW, _OF_FIGURE = (len(struct.__struct_fields__) for struct in (_Text, Raw, _Figure))


class _Codes(dict[Any, int]):
    """A number for each different value, from 0 on; -1 for None."""

    def __init__(self) -> None:
        self[None] = -1

    def __missing__(self, value: Any) -> int:
        code = self[value] = len(self) - 1
        return code

    @property
    def values_in_order(self) -> list[Any]:
        return list(self)[1:]


def _words(column: Sequence[str | None]) -> Words:
    codes = _Codes()
    numbers = np.fromiter(map(codes.__getitem__, column), np.int32, len(column))
    return Words(numbers, codes.values_in_order)


def _numbers(name: str, column: Sequence[Any]) -> NDArray[Any]:
    kind, unknown = (np.float64, np.nan) if name == "duration_seconds" else (np.int64, -1)
    return np.array([unknown if number is None else number for number in column], kind)


class _Texts(dict[bytes, tuple[int, int]]):
    """A column of JSON texts, of which sweeps repeat most: the code of each, and how many colons
    are in it. One that is not of the kind, or may hold a name twice, raises
    msgspec.MsgspecError."""

    def __init__(self, kind: Any) -> None:
        self._decode = msgspec.json.Decoder(kind).decode
        self._words: dict[str, int] = {}

    def __missing__(self, text: bytes) -> tuple[int, int]:
        canonical_text = canonical(self._decode(text))
        colons = text.count(b":")
        if canonical_text.count(":") != colons:
            raise msgspec.ValidationError("a name may be given twice")
        code_and_colons = self[text] = (
            self._words.setdefault(canonical_text, len(self._words)),
            colons,
        )
        return code_and_colons

    @property
    def words(self) -> list[str]:
        return list(self._words)


class Batch:
    """Records that wait to become a table."""

    def __init__(self) -> None:
        self._texts = {name: _Texts(kind) for name, kind in packed.KINDS.items()}
        # Of each record its own columns; its nodes, the path and the sha256 of its raw output, and
        # where it was read; and the codes of its texts.
        self._own: list[tuple[Any, ...]] = []
        self._beside: list[tuple[str, str | None, str | None, str]] = []
        self._codes: list[list[int]] = []
        # Of all figures the kind and the value, and how many each record has.
        self._kinds = _Codes()
        self._of_kind: list[int] = []
        self._values: list[float] = []
        self._lengths: list[int] = []
        # For each record: its text (None once it is checked), with path and position for a refusal;
        # and the number of colons of the text beyond the expected ones.
        self._contents: list[tuple[bytes | None, str, int]] = []
        self._colons: list[int] = []
        self._bytes = 0

    @property
    def empty(self) -> bool:
        return not self._own

    @property
    def is_full(self) -> bool:
        return len(self._own) >= _ROWS_AT_ONCE or self._bytes >= _BYTES_AT_ONCE

    def takes(self, content: bytes, path: str, position: int) -> bool:
        """Whether a text is plainly a record, which then waits here.

        Args:
            position: how many files were left out before it.
        """
        try:
            record = _untyped(content)
            # An escape may hide a colon.
            if b"\\u" in content or not _is_plain(record):
                return False
            codes, colons = self._coded(record)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return False
        self._wait(record, codes, (content, path, position))
        self._colons.append(content.count(b":") - colons)
        self._bytes += len(content)
        return True

    def add(self, record: Record, path: str) -> None:
        """A record that was looked at."""
        content = msgspec.json.encode(record)
        text = _untyped(content)
        codes, colons = self._coded(text)
        self._wait(text, codes, (None, path, 0))
        self._colons.append(content.count(b":") - colons)
        self._bytes += len(content)

    def _coded(self, record: _Text) -> tuple[list[int], int]:
        """The codes of a record's texts, and the number of colons in them and in its raw entry.

        Raises:
            msgspec.MsgspecError: a text is not of its kind, or may hold a name twice.
        """
        codes, colons = [], _MEMBERS
        for texts, text in zip(self._texts.values(), map(bytes, _raw_texts(record)), strict=True):
            code, held = texts[text]
            codes.append(code)
            colons += held
        if record.raw is not None:
            colons += _OF_RAW + record.raw.path.count(":") + record.raw.sha256.count(":")
        return codes, colons

    def _wait(
        self, record: _Text, codes: list[int], content: tuple[bytes | None, str, int]
    ) -> None:
        raw, path, figures = record.raw, content[1], record.metrics
        where = None if raw is None else os.path.join(os.path.dirname(path), raw.path)
        nodes = "+".join(record.nodes)
        self._own.append(_own(record))
        self._beside.append((nodes, where, None if raw is None else raw.sha256, path))
        self._codes.append(codes)
        self._of_kind += map(self._kinds.__getitem__, map(_kind, figures))
        self._values += [figure.value for figure in figures]
        self._lengths.append(len(figures))
        self._contents.append(content)

    def table(self) -> tuple[packed.Table, list[tuple[int, str, str]]]:
        """The records; and position, path and reason of each text that is no record."""
        table, kinds = self._table()
        refused, is_valid = [], np.ones(table.num_rows, np.bool_)
        odd = _odd(table, kinds) | self._hides_colons(table, kinds)
        for number in np.flatnonzero(odd).tolist():
            content, path, position = self._contents[number]
            try:
                if content is not None:
                    decode(content)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                refused.append((position, path, str(error)))
                is_valid[number] = False
        return (packed.take(table, np.flatnonzero(is_valid)) if refused else table), refused

    def _table(self) -> tuple[packed.Table, _Kinds]:
        columns: dict[str, Any] = {}
        for name, column in zip(
            (*_PLAIN_TEXTS, *_NUMBERS), zip(*self._own, strict=True), strict=True
        ):
            columns[name] = _numbers(name, column) if name in _NUMBERS else _words(column)
        beside = ("nodes", "raw_path", "raw_sha256", "source")
        for name, column in zip(beside, zip(*self._beside, strict=True), strict=True):
            columns[name] = _words(column)
        for (name, texts), codes in zip(
            self._texts.items(), np.array(self._codes, np.int32).T, strict=True
        ):
            columns[name] = Words(codes, texts.words)
        rows = len(self._own)
        columns["provenance"] = Words(np.zeros(rows, np.int32), [MEASURED])
        ranks, threads = columns["ranks"], columns["threads_per_rank"]
        columns["cores"] = np.where((ranks < 0) | (threads < 0), -1, ranks * threads)
        kinds = _Kinds(self._kinds.values_in_order, np.array(self._of_kind, np.int32))
        values = np.array(self._values, np.float64)
        figures = kinds.figures(np.array(self._lengths, np.int64), values)
        return packed.of_columns(columns, figures), kinds

    def _hides_colons(self, table: packed.Table, kinds: _Kinds) -> NDArray[np.bool_]:
        """Which texts have more colons than the values that were read: a name stands twice."""
        colons_left = np.array(self._colons, np.int64)
        for name in (*_PLAIN_TEXTS, "nodes"):
            column = words(packed.column(table, name))
            held = np.array([*(text.count(":") for text in column.words), 0], np.int64)
            colons_left -= held[column.codes]
        totals = np.concatenate(([0], np.cumsum(kinds.colons[kinds.codes])))
        starts = table.figures.starts
        is_hidden: NDArray[np.bool_] = colons_left != totals[starts[1:]] - totals[starts[:-1]]
        return is_hidden


class _Kinds:
    """The different kinds of some figures.

    Attributes:
        columns: name -> its value for each kind.
        codes: the kind of each figure.
    """

    def __init__(self, kinds: Sequence[tuple[Any, ...]], codes: NDArray[np.int32]) -> None:
        self.columns = dict(
            zip(_KIND, zip(*kinds, strict=True) if kinds else [()] * len(_KIND), strict=True)
        )
        self.codes = codes

    @property
    def colons(self) -> NDArray[np.int64]:
        """Of each kind how many colons are in the text of a figure."""
        counts = []
        for kind in zip(*self.columns.values(), strict=True):
            texts = (field.count(":") for field in kind if isinstance(field, str))
            absent = sum(field is msgspec.UNSET for field in kind)
            counts.append(_OF_FIGURE - absent + sum(texts))
        return np.array(counts, np.int64)

    def figures(self, lengths: NDArray[np.int64], values: NDArray[np.float64]) -> Figures:
        """The figures of records that have so many of them each."""
        columns: dict[str, Any] = {"value": values}
        for name, column in self.columns.items():
            cells = [None if cell is msgspec.UNSET else cell for cell in column]
            if name in TEXTS:
                held = _words(cells)
                columns[name] = Words(small(held.codes)[self.codes], held.words)
            else:
                integers = np.array([-1 if cell is None else cell for cell in cells], np.int64)
                columns[name] = small(integers)[self.codes]
        return of_lengths(lengths, columns)

    def out_of_range(self, values: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which figures are not in the unit in which records hold them, or are out of its range."""
        least = np.full(len(self.columns["name"]), np.inf)
        held = zip(*(self.columns[name] for name in ("name", "unit", "direction")), strict=True)
        for kind, (name, unit, direction) in enumerate(held):
            base, at_least = limits(name, unit, direction)
            if unit == base:
                least[kind] = at_least
        return ~((values >= least[self.codes]) & (values <= MOST))

    def fits(self, name: str, pattern: str) -> NDArray[np.bool_]:
        """Which figures have none of such a text, or one of a pattern."""
        fits = [
            text is msgspec.UNSET or re.search(pattern, text) is not None
            for text in self.columns[name]
        ]
        does_fit: NDArray[np.bool_] = np.array(fits, np.bool_)[self.codes]
        return does_fit


def _is_plain(record: _Text) -> bool:
    """Whether a record says why it has no figures, where it was measured, and where its output
    lies."""
    ok = record.outcome == "ok"
    return (
        (record.reason is None and bool(record.metrics) if ok else bool(record.reason))
        and counts_names(record.node_count, record.nodes)
        and (record.raw is None or is_name(record.raw.path))
    )


def _odd(table: packed.Table, kinds: _Kinds) -> NDArray[np.bool_]:
    """Which records may hold an impossible value."""
    odd = np.zeros(table.num_rows, np.bool_)
    for name, pattern in PATTERNS.items():
        odd |= ~packed.fit(packed.column(table, name), pattern)
    begun = words(packed.column(table, "started_at"))
    odd |= ~np.array([*map(_is_time, begun.words), False])[begun.codes]
    figures = table.figures
    is_odd = kinds.out_of_range(figures.value)
    for name, pattern in (("name", METRIC_NAME), ("device", DEVICE), ("statistic", STATISTIC)):
        is_odd |= ~kinds.fits(name, pattern)
    odd[figures.owners[is_odd]] = True
    odd[_out_of_order(figures)] = True
    return odd


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _out_of_order(figures: Figures) -> NDArray[np.int64]:
    """The records in which a median lies outside the least and the greatest."""
    codes = [*figures.statistic.words, None]
    ranks = np.array(
        [ORDERED.index(statistic) if statistic in ORDERED else -1 for statistic in codes], np.int64
    )
    places = ranks[figures.statistic.codes]
    ranked, places = figures.taken(places >= 0), places[places >= 0]
    groups = alike(
        [ranked.owners, ranked.name.codes, ranked.device.codes, numbered(ranked.message_bytes)]
    )
    ends = np.full((int(groups.max(initial=-1)) + 1, len(ORDERED)), np.nan)
    ends[groups, places] = ranked.value
    low, middle, high = ends.T
    wrong = (low > middle) | (middle > high) | (low > high)
    owners: NDArray[np.int64] = np.unique(ranked.owners[wrong[groups]])
    return owners
