"""Records as text, many at a time.

A text that is plainly a record becomes a row at once. What costs time for each figure is looked at
when the rows are a table, and what is odd there, as what is odd before, is read once more by
``records.decode``, which says why it is none.
"""

from __future__ import annotations

import os
import re
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
import numpy as np

from . import packed
from .columns import Words, alike, numbered, words
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
    decode,
    is_name,
    limits,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .metrics import Figures

# Records that wait as text, five times what a table takes.
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
    outcome: Literal["ok", "failed", "invalid"]
    reason: str | None
    nodes: list[Annotated[str, msgspec.Meta(min_length=1)]] | str
    vm_size: str | None
    region: str | None
    offer: str | None
    node_count: Count
    ranks: Count
    threads_per_rank: Count
    gpus: GpuCount
    parameters: msgspec.Raw
    command: msgspec.Raw
    environment: msgspec.Raw
    software: msgspec.Raw
    system: msgspec.Raw
    started_at: str
    duration_seconds: Annotated[float, msgspec.Meta(ge=0)]
    metrics: list[_Figure]
    raw: Raw | None


class _Beside(msgspec.Struct):
    """What a row has that its record has not."""

    cores: int
    raw_path: str | None
    raw_sha256: str | None
    source: str
    provenance: str = MEASURED


_untyped = msgspec.json.Decoder(_Text).decode
_encoded = msgspec.json.encode
_NOTHING: Final = msgspec.Raw(b"0")


class _Texts:
    """A column of JSON texts, of which sweeps repeat most."""

    def __init__(self, kind: Any) -> None:
        self._decode = msgspec.json.Decoder(kind).decode
        self._codes: dict[bytes, tuple[int, int]] = {}
        self._words: dict[str, int] = {}

    def code(self, text: bytes) -> tuple[int, int]:
        """The code of a text, and how many colons are in it.

        Raises:
            msgspec.MsgspecError: it is not of the kind, or may hold a name twice.
        """
        found = self._codes.get(text)
        if found is None:
            value = self._decode(text)
            word = canonical(value)
            colons = text.count(b":")
            if word.count(":") != colons:
                raise msgspec.ValidationError("a name may be given twice")
            found = self._codes[text] = self._words.setdefault(word, len(self._words)), colons
        return found

    @property
    def words(self) -> list[str]:
        return list(self._words)


class Batch:
    """Records that wait to become a table."""

    def __init__(self) -> None:
        self._texts = {name: _Texts(kind) for name, kind in packed.KINDS.items()}
        self._lines: list[bytes] = []
        # Of each record the codes of its texts.
        self._codes: list[list[int]] = []
        # Of each record its text, None of one that was looked at, and what is said of it if it is
        # none.
        self._contents: list[tuple[bytes | None, str, int]] = []
        self._bytes = 0

    @property
    def empty(self) -> bool:
        return not self._lines

    @property
    def is_full(self) -> bool:
        return len(self._lines) >= _ROWS_AT_ONCE or self._bytes >= _BYTES_AT_ONCE

    def takes(self, content: bytes, path: str, place: int) -> bool:
        """Whether a text is plainly a record, which then waits here.

        Args:
            place: how many files were left out before it.
        """
        try:
            record = _untyped(content)
            # An escape may hide a colon.
            if b"\\u" in content or not _is_plain(record):
                return False
            line, codes, colons = self._line(record)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return False
        if line.count(b":") + colons != content.count(b":"):
            return False
        self._wait(record, line, codes, (content, path, place))
        return True

    def add(self, record: Record, path: str) -> None:
        """A record that was looked at."""
        text = _untyped(_encoded(record))
        line, codes, _ = self._line(text)
        self._wait(text, line, codes, (None, path, 0))

    def _line(self, record: _Text) -> tuple[bytes, list[int], int]:
        """A record without its texts; their codes, and how many colons are in them.

        Raises:
            msgspec.MsgspecError: a text is not of its kind, or may hold a name twice.
        """
        codes, colons = [], 0
        for name, texts in self._texts.items():
            code, held = texts.code(bytes(getattr(record, name)))
            codes.append(code)
            colons += held
            setattr(record, name, _NOTHING)
        record.nodes = "+".join(record.nodes)
        return _encoded(record), codes, colons

    def _wait(
        self, record: _Text, line: bytes, codes: list[int], content: tuple[bytes | None, str, int]
    ) -> None:
        raw, path = record.raw, content[1]
        beside = _Beside(
            record.ranks * record.threads_per_rank,
            None if raw is None else os.path.join(os.path.dirname(path), raw.path),
            None if raw is None else raw.sha256,
            path,
        )
        line = line[:-1] + b"," + _encoded(beside)[1:]
        self._lines.append(line)
        self._codes.append(codes)
        self._contents.append(content)
        self._bytes += len(line)

    def table(self) -> tuple[packed.Table, list[tuple[int, str, str]]]:
        """The records, and of those that are none the place, the path and why."""
        codes = np.array(self._codes, np.int32).T
        named = zip(self._texts.items(), codes, strict=True)
        table = packed.from_lines(
            self._lines, {name: Words(column, texts.words) for (name, texts), column in named}
        )
        refused, kept = [], np.ones(table.num_rows, np.bool_)
        for number in np.flatnonzero(_odd(table)).tolist():
            content, path, place = self._contents[number]
            try:
                if content is not None:
                    decode(content)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                refused.append((place, path, str(error)))
                kept[number] = False
        return (packed.take(table, np.flatnonzero(kept)) if refused else table), refused


def _is_plain(record: _Text) -> bool:
    """Whether a record says why it has no figures, where it was measured, and where its output
    lies."""
    ok = record.outcome == "ok"
    return (
        (record.reason is None and bool(record.metrics) if ok else bool(record.reason))
        and record.node_count == len(record.nodes)
        and (record.raw is None or is_name(record.raw.path))
    )


def _odd(table: packed.Table) -> NDArray[np.bool_]:
    """Which records may hold what no record can hold."""
    odd = np.zeros(table.num_rows, np.bool_)
    for name, pattern in PATTERNS.items():
        odd |= ~packed.fit(packed.column(table, name), pattern)
    begun = words(packed.column(table, "started_at"))
    odd |= ~np.array([*map(_is_time, begun.words), False])[begun.codes]
    figures = table.figures
    is_odd = _out_of_range(figures)
    for column, pattern in (
        (figures.name, METRIC_NAME),
        (figures.device, DEVICE),
        (figures.statistic, STATISTIC),
    ):
        fits = [re.search(pattern, word) is not None for word in column.words]
        is_odd |= ~np.array([*fits, True])[column.codes]
    odd[figures.owners[is_odd]] = True
    odd[_out_of_order(figures)] = True
    return odd


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _out_of_range(figures: Figures) -> NDArray[np.bool_]:
    """Which figures are not in the unit in which records hold them, or are out of its range."""
    held = (figures.name, figures.unit, figures.direction)
    kinds = alike([column.codes for column in held])
    first = np.unique(kinds, return_index=True)[1]
    least = np.full(len(first), np.inf)
    triples = zip(*(column.taken(first).values() for column in held), strict=True)
    for kind, (name, unit, direction) in enumerate(triples):
        base, at_least = limits(str(name), str(unit), str(direction))
        if unit == base:
            least[kind] = at_least
    return ~((figures.value >= least[kinds]) & (figures.value <= MOST))


def _out_of_order(figures: Figures) -> NDArray[np.int64]:
    """The records in which a median lies outside the least and the greatest."""
    codes = [*figures.statistic.words, None]
    ranks = np.array([ORDERED.index(word) if word in ORDERED else -1 for word in codes], np.int64)
    places = ranks[figures.statistic.codes]
    part, places = figures.taken(places >= 0), places[places >= 0]
    groups = alike([part.owners, part.name.codes, part.device.codes, numbered(part.message_bytes)])
    ends = np.full((int(groups.max(initial=-1)) + 1, len(ORDERED)), np.nan)
    ends[groups, places] = part.value
    low, middle, high = ends.T
    wrong = (low > middle) | (middle > high) | (low > high)
    found: NDArray[np.int64] = np.unique(part.owners[wrong[groups]])
    return found
