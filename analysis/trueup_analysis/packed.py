"""The layout in which records lie in memory and in a packed file: one Arrow row a record."""

from __future__ import annotations

import contextlib
import json
from array import array
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json
import pyarrow.parquet as pq
from trueup.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    import pandas as pd

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
_KINDS: Final[dict[str, Any]] = {
    "parameters": dict[str, Scalar],
    "software": dict[str, str],
    "system": dict[str, Scalar],
    "command": list[str],
    "environment": dict[str, str],
}
JSON = tuple(_KINDS)
# What every record has.
_ALWAYS = ("run_id", "benchmark", "case", "outcome", "nodes", "source", "provenance")
# Run times and the rates that scaling divides by, and their units.
ABOVE_ZERO: Final = {"run_time": "s", "triad_rate": "byte/s"}
# No unit here has more.
_MOST: Final = 1e30
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


_SCHEMA: Final = _schema(pa.string())
# The same, each text once.
_FOLDED: Final = _schema(pa.dictionary(pa.int32(), pa.string()))
_TEXT_PATHS: Final = [*_TEXT, *JSON, *(f"metrics.list.element.{name}" for name in _WORDS)]


def canonical(value: Any) -> str:
    """One text for equal values."""
    return msgspec.json.encode(value, order="sorted").decode()


def line(row: Mapping[str, Any]) -> bytes:
    """A row whose names are those of the layout, as JSON, smaller than its values."""
    return msgspec.json.encode(row)


def from_lines(lines: Sequence[bytes]) -> pa.Table:
    """A table from such rows; what is absent is unknown."""
    if not lines:
        return _SCHEMA.empty_table()
    # Not from Python's own values, of which pyarrow makes no array without importing pandas.
    return pa_json.read_json(
        pa.py_buffer(b"\n".join(lines)),
        pa_json.ReadOptions(block_size=max(_BLOCK, *map(len, lines)) + 1),
        pa_json.ParseOptions(explicit_schema=_SCHEMA, unexpected_field_behavior="ignore"),
    )


def join(tables: Sequence[pa.Table]) -> pa.Table:
    """One table after the other."""
    return pa.concat_tables(tables)


def take(table: pa.Table, places: Sequence[int]) -> pa.Table:
    """Some rows, in the given order. pyarrow imports pandas to make an array of a list."""
    numbers = pa.py_buffer(array("q", places))
    return table.take(pa.Array.from_buffers(pa.int64(), len(places), [None, numbers]))


def values(table: pa.Table, name: str) -> list[Any]:
    """A column as plain values, None where unknown. Equal ones are one object, since sweeps repeat
    most of them."""
    return _plain(table.column(name), msgspec.json.decode if name in JSON else None)


def figures(table: pa.Table, names: Collection[str] | None = None) -> Iterator[tuple[Any, ...]]:
    """The place of its record and the metric columns of each figure, or of those of some names."""
    owners, flat = _flat(table)
    columns = [_numbers(owners, "q")]
    for name in _METRIC:
        column = flat.column(name)
        is_value = name == "value"
        columns.append(_numbers(column.combine_chunks(), "d") if is_value else _plain(column))
    rows = zip(*columns, strict=True)
    return rows if names is None else (row for row in rows if row[1] in names)


def _plain(column: pa.ChunkedArray, decode: Callable[[str], Any] | None = None) -> list[Any]:
    coded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    made = coded.dictionary.to_pylist()
    made = made if decode is None else [decode(text) for text in made]
    return [made[code] for code in _numbers(coded.indices, "i")]


def _numbers(array: pa.Array, kind: Literal["i", "q", "d"]) -> list[Any]:
    """The numbers of an array in which none is missing. pyarrow's own way imports pandas."""
    if not len(array):
        return []
    memory: memoryview[Any] = memoryview(array.buffers()[1]).cast(kind)
    return memory[array.offset : array.offset + len(array)].tolist()


def _flat(table: pa.Table) -> tuple[pa.Array, pa.Table]:
    """Of all figures the places of their records, and the metric columns."""
    listed = table.column("metrics").combine_chunks()
    return listed.value_parent_indices(), pa.Table.from_struct_array(listed.flatten())


def frames(table: pa.Table) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The frames ``cases`` and ``metrics``; ``record`` counts the table's rows from 0."""
    # Half a second to import, which a list or a verdict does not need.
    import pandas as pd  # noqa: PLC0415

    whole = {pa.int64(): pd.Int64Dtype()}.get
    cases = table.select([*_TEXT, *_WHOLE, "duration_seconds"]).to_pandas(types_mapper=whole)
    for name in JSON:
        cases[name] = pd.Series(values(table, name), dtype=object)
    cases["record"] = range(len(cases))
    owners, flat = _flat(table)
    metrics = flat.drop_columns(_WORDS).to_pandas(types_mapper=whole)
    for name in _WORDS:
        # A few words in millions of rows. Sorted, so that equal data make equal frames.
        coded = flat.column(name).combine_chunks().dictionary_encode().to_pandas()
        metrics[name] = coded.cat.reorder_categories(sorted(coded.cat.categories))
    metrics["value"] = metrics["value"].astype("float64")
    metrics["record"] = owners.to_numpy().astype("int64")
    return cases, metrics


def write(table: pa.Table, rest: Mapping[str, Any], path: Path) -> None:
    """Write the table and, in its metadata, the JSON object ``rest``, whole or not at all.

    Raises:
        BadInput: the file cannot be written.
    """
    noted = table.replace_schema_metadata({"trueup": json.dumps(rest, sort_keys=True)})
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
            schema = _SCHEMA.with_metadata(file.schema_arrow.metadata)
            for part in file.iter_batches(_ROWS_AT_ONCE):
                size += _unfolded(part)
                if size > most:
                    break
                parts.append(part.cast(schema))
            else:
                return pa.Table.from_batches(parts, schema)
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
        place = pc.index(is_wrong, value=True).as_py()
        if place >= 0:
            row = table.slice(place, 1).select(["benchmark", "case", "nodes"]).to_pylist()[0]
            what = " ".join(str(value) for value in row.values())
            return f"{name} of record {place + 1} ({what}) is missing or out of range"
    owners, flat = _flat(table)
    for name, is_wrong in _metric_checks(flat):
        place = pc.index(is_wrong, value=True).as_py()
        if place >= 0:
            row = flat.slice(place, 1).to_pylist()[0]
            record = owners[place].as_py() + 1
            return f"{name} of {row['name']} ({row['value']}) in record {record} is out of range"
    for name, kind in _KINDS.items():
        decode = msgspec.json.Decoder(kind).decode
        for text in pc.unique(table.column(name)).to_pylist():
            if not _is_json(text, decode):
                return f"{name} is {str(text)[:40]!r}"
    return ""


def _checks(table: pa.Table) -> Iterator[tuple[str, Any]]:
    """By column, for each record whether it is wrong."""
    for name in _ALWAYS:
        yield name, pc.is_null(table.column(name))
    # Publications name their cases in their own words.
    measured = pc.equal(table.column("provenance"), MEASURED)
    for name, pattern in PATTERNS.items():
        fits = pc.fill_null(pc.match_substring_regex(table.column(name), pattern), False)
        yield name, pc.and_(measured, pc.invert(fits))
    words = pa.array(["ok", "failed", "invalid"])
    yield "outcome", pc.invert(pc.is_in(table.column("outcome"), value_set=words))
    for name in _WHOLE:
        least = 0 if name == "gpus" else 1
        column = table.column(name)
        # Publications do not always say how many.
        yield name, pc.fill_null(_outside(column, least, 2**62), False)
    seconds = table.column("duration_seconds")
    yield "duration_seconds", pc.fill_null(_outside(seconds, 0.0, _MOST), False)


def _metric_checks(flat: pa.Table) -> Iterator[tuple[str, Any]]:
    """By column, for each figure whether it is wrong."""
    name, value, direction = (flat.column(key) for key in ("name", "value", "direction"))
    yield "name", pc.invert(pc.fill_null(pc.match_substring_regex(name, METRIC_NAME), False))
    yield "unit", pc.is_null(flat.column("unit"))
    words = pa.array(["higher", "lower", "none"])
    yield "direction", pc.invert(pc.is_in(direction, value_set=words))
    yield "value", pc.fill_null(_outside(value, -_MOST, _MOST), True)
    is_performance = pc.not_equal(direction, "none")
    yield "value", pc.and_(is_performance, pc.less(value, 0.0))
    divides = pc.is_in(name, value_set=pa.array(sorted(ABOVE_ZERO)))
    yield "value", pc.and_(divides, pc.less_equal(value, 0.0))


def _outside(column: Any, least: float, most: float) -> Any:
    """Also of what is no number."""
    return pc.invert(pc.and_(pc.greater_equal(column, least), pc.less_equal(column, most)))


def _is_json(text: Any, decode: Callable[[str], Any]) -> bool:
    try:
        decode(text)
    except (msgspec.MsgspecError, TypeError, RecursionError):
        return False
    return True
