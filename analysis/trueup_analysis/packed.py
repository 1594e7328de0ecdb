"""The layout in which records lie in memory and in a packed file: one Arrow row a record."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json
import pyarrow.parquet as pq
from trueup.cases import Figure
from trueup.errors import BadInput

from . import columns
from .columns import Words, array_of, folded, known, numbers, words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

_TEXT = (
    *("run_id", "benchmark", "case", "outcome", "reason", "nodes", "vm_size", "region", "offer"),
    *("started_at", "raw_path", "raw_sha256", "source", "provenance"),
)
_WHOLE = ("node_count", "ranks", "threads_per_rank", "cores", "gpus")
_METRIC: Final = {
    "name": pa.string(),
    "value": pa.float64(),
    "unit": pa.string(),
    "direction": pa.string(),
    "message_bytes": pa.int64(),
    "device": pa.string(),
    "statistic": pa.string(),
    "n": pa.int64(),
}
# What names a measured record.
PATTERNS: Final = {
    "run_id": "^[0-9]{8}T[0-9]{6}Z-[0-9a-f]{4}$",
    "benchmark": "^[a-z][a-z0-9_]*$",
    "case": "^[A-Za-z0-9][A-Za-z0-9._-]*$",
    "started_at": "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$",
}
MEASURED: Final = "measured"
METRIC_NAME: Final = "^[a-z][a-z0-9_]*$"
Scalar = str | int | float | bool | None
# Mappings and lists, kept as JSON text: their keys differ from benchmark to benchmark.
KINDS: Final[dict[str, Any]] = {
    "parameters": dict[str, Scalar],
    "software": dict[str, str],
    "system": dict[str, Scalar],
    "command": list[str],
    "environment": dict[str, str],
}
JSON = tuple(KINDS)
# What every record has.
_ALWAYS = ("run_id", "benchmark", "case", "outcome", "nodes", "source", "provenance")
# Run times and the rates that scaling divides by, and their units.
ABOVE_ZERO: Final = {"run_time": "s", "triad_rate": "byte/s"}
# No unit here has more.
_MOST: Final = 1e30
# Of the columns that may be less than 1 or more than any count.
_RANGES: Final = {"gpus": (0, 2**62), "duration_seconds": (0.0, _MOST)}
# In memory. A million records with 6 figures each take 0.36 GiB; sweeps that repeat themselves take
# 50 times their file.
_MOST_BYTES: Final = 4 * 2**30
_MOST_BYTES_OF_SMALL: Final = 2**29
_MOST_TIMES: Final = 200
_ROWS_AT_ONCE: Final = 8192
# The least that Arrow reads at a time, bytes; a row is read whole.
_BLOCK = 2**20
_WORDS: Final = [name for name, kind in _METRIC.items() if kind == pa.string()]


def _schema(text: pa.DataType) -> pa.Schema:
    metric = {name: text if name in _WORDS else kind for name, kind in _METRIC.items()}
    return pa.schema(
        [
            *((name, text) for name in _TEXT),
            *((name, pa.int64()) for name in _WHOLE),
            ("duration_seconds", pa.float64()),
            *((name, text) for name in JSON),
            ("metrics", pa.list_(pa.struct(metric))),
        ]
    )


# In a file.
_SCHEMA: Final = _schema(pa.string())
# In memory: each text once.
_FOLDED: Final = _schema(pa.dictionary(pa.int32(), pa.string()))
_TEXT_PATHS: Final = [*_TEXT, *JSON, *(f"metrics.list.element.{name}" for name in _WORDS)]


def canonical(value: Any) -> str:
    """One text for equal values."""
    return msgspec.json.encode(value, order="sorted").decode()


def line(row: Mapping[str, Any]) -> bytes:
    """A row whose names are those of the layout, as JSON, smaller than its values."""
    return msgspec.json.encode(row)


def decoded(text: str) -> Any:
    """The value of such a text."""
    return msgspec.json.decode(text)


def from_lines(lines: Sequence[bytes], texts: Mapping[str, Words] | None = None) -> pa.Table:
    """A table from such rows; what is absent is unknown.

    Args:
        texts: columns of JSON text that do not stand in the rows.
    """
    if not lines:
        return _FOLDED.empty_table()
    given = {} if texts is None else {name: folded(column) for name, column in texts.items()}
    schema = pa.schema([field for field in _SCHEMA if field.name not in given])
    # Not from Python's own values, of which pyarrow makes no array without importing pandas.
    found = pa_json.read_json(
        pa.py_buffer(b"\n".join(lines)),
        pa_json.ReadOptions(use_threads=False, block_size=max(_BLOCK, *map(len, lines)) + 1),
        pa_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )
    arrays = [
        given[field.name]
        if field.name in given
        else _fold(found.column(field.name).combine_chunks(), field.type)
        for field in _FOLDED
    ]
    return pa.Table.from_arrays(arrays, schema=_FOLDED)


def _fold(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(kind):
        return array.dictionary_encode()
    if not pa.types.is_list(kind):
        return array
    fields = list(kind.value_type)
    parts = zip(array.flatten().flatten(), fields, strict=True)
    figures = pa.StructArray.from_arrays(
        [_fold(part, field.type) for part, field in parts], fields=fields
    )
    lengths = np.zeros(len(array) + 1, np.int32)
    np.cumsum(
        np.bincount(numbers(array.value_parent_indices()), minlength=len(array)), out=lengths[1:]
    )
    return pa.ListArray.from_arrays(array_of(lengths), figures, kind)


def join(tables: Sequence[pa.Table]) -> pa.Table:
    """One table after the other."""
    if len(tables) == 1:
        return tables[0]
    return pa.concat_tables(tables).unify_dictionaries().combine_chunks()


def take(table: pa.Table, places: Sequence[int] | NDArray[np.int64]) -> pa.Table:
    """Some rows, in the given order."""
    return table.take(array_of(np.asarray(places, np.int64)))


def column(table: pa.Table, name: str) -> pa.Array:
    """One column of a table."""
    return table.column(name).combine_chunks()


def values(table: pa.Table, name: str) -> list[Any]:
    """A column as plain values, None where unknown. Equal ones are one object, since sweeps repeat
    most of them."""
    array = column(table, name)
    if name not in JSON:
        return columns.values(array)
    texts = words(array)
    made = [*map(decoded, texts.words), None]
    return [made[code] for code in texts.codes.tolist()]


def alike(table: pa.Table, names: Iterable[str]) -> NDArray[np.int64]:
    """For each record a number, which those have in common that agree in some columns."""
    coded = []
    for name in names:
        array = column(table, name)
        is_text = pa.types.is_dictionary(array.type)
        coded.append(
            words(array).codes if is_text else columns.numbered(numbers(array), known(array))
        )
    return columns.alike(coded)


@dataclass(frozen=True)
class Figures:
    """All figures of a table, column by column.

    Attributes:
        starts: for each record, and one beyond the last, the place of its first figure.
        owners: the record of each figure.
        message_bytes, n: -1 where there is none.
    """

    starts: NDArray[np.int64]
    owners: NDArray[np.int64]
    name: Words
    value: NDArray[np.float64]
    unit: Words
    direction: Words
    message_bytes: NDArray[np.int64]
    device: Words
    statistic: Words
    n: NDArray[np.int64]

    def taken(self, rows: NDArray[Any]) -> Figures:
        """Some of them, chosen by a mask or in their order; the records stay as many."""
        owners = self.owners[rows]
        counts = np.bincount(owners, minlength=len(self.starts) - 1)
        return Figures(
            starts=np.concatenate(([0], np.cumsum(counts))),
            owners=owners,
            **{name: self._column(name, rows) for name in _METRIC},
        )

    def gathered(self, ends: Sequence[tuple[int, int]]) -> Figures:
        """Those of some records, given by the places of their figures; ``owners`` count these."""
        starts, stops = np.array(ends, np.int64).reshape(-1, 2).T
        counts = stops - starts
        begin = np.concatenate(([0], np.cumsum(counts)))
        rows = np.arange(begin[-1]) + np.repeat(starts - begin[:-1], counts)
        return Figures(
            starts=begin,
            owners=np.repeat(np.arange(len(counts)), counts),
            **{name: self._column(name, rows) for name in _METRIC},
        )

    def _column(self, name: str, rows: NDArray[Any] | slice) -> Any:
        held = getattr(self, name)
        return held.taken(rows) if isinstance(held, Words) else held[rows]

    def rows(self, start: int, stop: int) -> list[Figure]:
        """Those from one place to another as plain values."""
        return self.at(slice(start, stop))

    def at(self, rows: NDArray[Any] | slice) -> list[Figure]:
        """Those at some places as plain values."""
        made = (
            self._column(name, rows).values() if name in _WORDS else self._plain(name, rows)
            for name in Figure._fields
        )
        return list(map(Figure, *made))

    def _plain(self, name: str, rows: NDArray[Any] | slice) -> list[Any]:
        found: list[Any] = getattr(self, name)[rows].tolist()
        return found if name == "value" else [None if one < 0 else one for one in found]


def figures(table: pa.Table) -> Figures:
    """The figures of a table."""
    owners, flat = _flat(table)
    counts = np.bincount(owners, minlength=table.num_rows)
    made: dict[str, Any] = {}
    for name, array in flat.items():
        if name in _WORDS:
            made[name] = words(array)
        else:
            made[name] = numbers(array) if name == "value" else columns.counts(array)
    return Figures(starts=np.concatenate(([0], np.cumsum(counts))), owners=owners, **made)


def figures_of_rows(rows: Sequence[Sequence[Figure]]) -> Figures:
    """The figures of each record, as columns."""
    counts = np.fromiter(map(len, rows), np.int64, len(rows))
    columns = list(zip(*chain.from_iterable(rows), strict=True)) or [()] * len(Figure._fields)
    made: dict[str, Any] = {}
    for name, column in zip(Figure._fields, columns, strict=True):
        if name in _WORDS:
            codes = {
                word: code
                for code, word in enumerate(one for one in dict.fromkeys(column) if one is not None)
            }
            made[name] = Words(
                np.array([codes.get(word, -1) for word in column], np.int32), list(codes)
            )
        elif name == "value":
            made[name] = np.array(column, np.float64)
        else:
            made[name] = np.array([-1 if one is None else one for one in column], np.int64)
    return Figures(
        starts=np.concatenate(([0], np.cumsum(counts))),
        owners=np.repeat(np.arange(len(rows)), counts),
        **made,
    )


def _flat(table: pa.Table) -> tuple[NDArray[np.int64], dict[str, pa.Array]]:
    """Of all figures the places of their records, and the metric columns."""
    listed = column(table, "metrics")
    arrays = dict(zip(_METRIC, listed.flatten().flatten(), strict=True))
    return numbers(listed.value_parent_indices()), arrays


def write(table: pa.Table, rest: Mapping[str, Any], path: Path) -> None:
    """Write the table and, in its metadata, the JSON object ``rest``, whole or not at all.

    Raises:
        BadInput: the file cannot be written.
    """
    noted = table.cast(_SCHEMA.with_metadata({"trueup": json.dumps(rest, sort_keys=True)}))
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb") as stream:
            pq.write_table(noted, stream, compression="zstd")
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise BadInput(f"{path} could not be written: {error.strerror or error}") from error


def read(path: Path) -> tuple[pa.Table, dict[str, Any]]:
    """The table and the object that ``write`` put into a file.

    Raises:
        BadInput: the file is none of those.
    """
    try:
        table = _whole(path)
        rest: dict[str, Any] = json.loads((table.schema.metadata or {})[b"trueup"])
        table = table.replace_schema_metadata(None)
    except (OSError, KeyError, ValueError, RecursionError, pa.ArrowException) as error:
        why = (str(error).splitlines() or [type(error).__name__])[0]
        raise BadInput(f"{path} is not a file that `trueup pack` wrote ({why})") from error
    if wrong := _impossible(table):
        raise BadInput(f"{path} holds what no record can hold: {wrong}")
    return table, rest


def _whole(path: Path) -> pa.Table:
    """All of a file. A small one can say that it holds the same billions of times.

    Raises:
        ValueError: its columns are others, or it is larger in memory than any fleet's records.
    """
    most = min(_MOST_BYTES, max(_MOST_BYTES_OF_SMALL, _MOST_TIMES * path.stat().st_size))
    # Not read_table, which imports all of Arrow's datasets.
    with pq.ParquetFile(path, read_dictionary=_TEXT_PATHS) as file:
        if not file.schema_arrow.equals(_FOLDED):
            raise ValueError("its columns are others")
        groups = [file.metadata.row_group(n) for n in range(file.metadata.num_row_groups)]
        size, parts = 0, []
        if sum(group.total_byte_size for group in groups) <= most:
            # Threads gain a tenth of a second, and take three times the CPU where others want it.
            for part in file.iter_batches(_ROWS_AT_ONCE, use_threads=False):
                size += _unfolded(part)
                if size > most:
                    break
                parts.append(part)
            else:
                whole = pa.Table.from_batches(parts, file.schema_arrow)
                del parts
                return whole.unify_dictionaries().combine_chunks()
    raise ValueError(f"more than {most / 2**30:.1f} GiB when it is unpacked")


def _unfolded(part: pa.RecordBatch) -> int:
    """The bytes of some rows once each has texts of its own."""
    arrays = [*part.columns[:-1], *part.columns[-1].flatten().flatten()]
    texts = [one for one in arrays if pa.types.is_dictionary(one.type)]
    lengths = (pc.take(pc.binary_length(one.dictionary), one.indices) for one in texts)
    size: int = part.nbytes + sum(pc.sum(length, min_count=0).as_py() for length in lengths)
    return size


def _impossible(table: pa.Table) -> str:
    """What is in the table that the reader of records would have refused; empty where nothing is.

    The first record of the first wrong column is named.
    """
    for name, is_wrong in _checks(table):
        if is_wrong.any():
            place = int(is_wrong.argmax())
            row = table.slice(place, 1).select(["benchmark", "case", "nodes"]).to_pylist()[0]
            what = " ".join(str(value) for value in row.values())
            return f"{name} of record {place + 1} ({what}) is missing or out of range"
    owners, flat = _flat(table)
    for name, is_wrong in _metric_checks(flat):
        if is_wrong.any():
            place = int(is_wrong.argmax())
            figure, value = (flat[key][place].as_py() for key in ("name", "value"))
            return f"{name} of {figure} ({value}) in record {owners[place] + 1} is out of range"
    for name, kind in KINDS.items():
        decode = msgspec.json.Decoder(kind).decode
        for text in pc.unique(column(table, name)).to_pylist():
            if not _is_json(text, decode):
                return f"{name} is {str(text)[:40]!r}"
    return ""


def _checks(table: pa.Table) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """By column, for each record whether it is wrong."""
    for name in _ALWAYS:
        yield name, ~known(column(table, name))
    # Publications name their cases in their own words.
    measured = words(column(table, "provenance")).marks([MEASURED])
    for name, pattern in PATTERNS.items():
        yield name, measured & ~fit(column(table, name), pattern)
    yield "outcome", ~words(column(table, "outcome")).marks(["ok", "failed", "invalid"])
    for name in (*_WHOLE, "duration_seconds"):
        array = column(table, name)
        # Publications do not always say how many.
        yield name, known(array) & _outside(numbers(array), *_RANGES.get(name, (1, 2**62)))


def _metric_checks(flat: Mapping[str, pa.Array]) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """By column, for each figure whether it is wrong."""
    yield "name", ~fit(flat["name"], METRIC_NAME)
    yield "unit", ~known(flat["unit"])
    directions = words(flat["direction"])
    yield "direction", ~directions.marks(["higher", "lower", "none"])
    value = numbers(flat["value"])
    yield "value", ~known(flat["value"]) | _outside(value, -_MOST, _MOST)
    yield "value", ~directions.marks(["none"]) & (value < 0)
    yield "value", words(flat["name"]).marks(ABOVE_ZERO) & (value <= 0)


def fit(array: pa.DictionaryArray, pattern: str) -> NDArray[np.bool_]:
    """Which texts are of a pattern; none is not."""
    fits = pc.match_substring_regex(array.dictionary, pattern).to_pylist()
    return np.array([*fits, False])[words(array).codes]


def _outside(held: NDArray[Any], least: float, most: float) -> NDArray[np.bool_]:
    """Also what is no number."""
    return ~((held >= least) & (held <= most))


def _is_json(text: Any, decode: Callable[[str], Any]) -> bool:
    try:
        decode(text)
    except (msgspec.MsgspecError, TypeError, RecursionError):
        return False
    return True
