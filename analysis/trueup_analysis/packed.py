"""The layout of records: in a packed file one Arrow row a record, in memory two frames."""

from __future__ import annotations

import contextlib
import json
import math
import re
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import UNSET
from pandas.api.types import union_categoricals
from trueup_node.cases import Figure
from trueup_node.errors import BadInput
from trueup_node.record import OUTCOMES

from .cases import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from .records import MetricRow

_TEXT = (
    *("run_id", "benchmark", "case", "outcome", "reason", "nodes", "vm_size", "region", "offer"),
    *("started_at", "raw_path", "raw_sha256", "source", "provenance"),
)
_WHOLE = ("node_count", "ranks", "threads_per_rank", "cores", "gpus")
# Patterns of the fields that name a measured record.
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
# Columns that every record has.
_ALWAYS = ("run_id", "benchmark", "case", "outcome", "nodes", "source", "provenance")
# Run times and the rates that scaling divides by, and their units.
ABOVE_ZERO: Final = {"run_time": "s", "triad_rate": "byte/s"}
# No unit here has more.
_MOST: Final = 1e30
# Of the columns that may be less than 1 or more than any count.
_RANGES: Final = {"gpus": (0, 2**62), "duration_seconds": (0.0, _MOST)}
# As rows of Arrow's. A million records with 6 figures each take 0.36 GiB; sweeps that repeat
# themselves take 50 times their file.
_MOST_BYTES: Final = 4 * 2**30
_MOST_BYTES_OF_SMALL: Final = 2**29
_MOST_TIMES: Final = 200
_ROWS_AT_ONCE: Final = 4096
# Bytes of a row: 19 codes of texts and six numbers.
_LEAST_OF_ROW: Final = 19 * 4 + 6 * 8
# The types of columns in memory, in the order of a file's.
_RECORDS: Final = {
    **dict.fromkeys(_TEXT, "category"),
    **dict.fromkeys(_WHOLE, "Int64"),
    "duration_seconds": "float64",
    **dict.fromkeys(JSON, "category"),
}
FIGURES: Final = {
    "name": "category",
    "value": "float64",
    "unit": "category",
    "direction": "category",
    "message_bytes": "Int64",
    "device": "category",
    "statistic": "category",
    "n": "Int64",
}
_KIND: Final = [name for name in FIGURES if name != "value"]
_kind = attrgetter(*_KIND)


def _schema(text: pa.DataType) -> pa.Schema:
    kinds = {"category": text, "Int64": pa.int64(), "float64": pa.float64()}
    metric = pa.struct({name: kinds[kind] for name, kind in FIGURES.items()})
    columns = [(name, kinds[kind]) for name, kind in _RECORDS.items()]
    return pa.schema([*columns, ("metrics", pa.list_(metric))])


# In a file, and the same as it is read, with each text once.
_FILE: Final = _schema(pa.string())
_READ: Final = _schema(pa.dictionary(pa.int32(), pa.string()))
_TEXT_PATHS: Final = [
    *(name for name, kind in _RECORDS.items() if kind == "category"),
    *(f"metrics.list.element.{name}" for name, kind in FIGURES.items() if kind == "category"),
]


class Frames(NamedTuple):
    """Records in memory.

    Attributes:
        records: one row a record. Its number is the index, from 0 on. Texts, also those of JSON,
            are categories.
        figures: one row a figure: the number of its ``record``, which ascends, and ``FIGURES``.
    """

    records: pd.DataFrame
    figures: pd.DataFrame


def canonical(value: Any) -> str:
    """One text for equal values."""
    return msgspec.json.encode(value, order="sorted").decode()


def decoded(text: str) -> Any:
    """The value of such a text."""
    return msgspec.json.decode(text)


def from_columns(
    columns: Mapping[str, Sequence[Any]], metrics: Sequence[Sequence[Figure | MetricRow]]
) -> Frames:
    """Records from their columns and their figures; an absent column is unknown."""
    each = list(chain.from_iterable(metrics))
    # Figures of a sweep differ in their values alone: the other columns are made of few kinds.
    kinds: dict[tuple[Any, ...], int] = {}
    codes = [kinds.setdefault(_kind(figure), len(kinds)) for figure in each]
    cells = dict(zip(_KIND, zip(*kinds, strict=True), strict=True)) if kinds else {}
    figures = pd.DataFrame(
        {name: _column(cells.get(name, ()), FIGURES[name]).take(codes) for name in _KIND}
    ).reset_index(drop=True)
    figures.insert(1, "value", [figure.value for figure in each])
    unknown = [None] * len(metrics)
    records = {name: _column(columns.get(name, unknown), kind) for name, kind in _RECORDS.items()}
    return Frames(pd.DataFrame(records), _numbered(figures, list(map(len, metrics))))


def from_rows(rows: Sequence[Mapping[str, Any]]) -> Frames:
    """Records from rows whose names are those of the layout; an absent field is unknown."""
    columns = {name: [row.get(name) for row in rows] for name in _RECORDS}
    return from_columns(columns, [[Figure(**metric) for metric in row["metrics"]] for row in rows])


def _column(cells: Sequence[Any], kind: str) -> pd.Series:
    cells = [None if cell is UNSET else cell for cell in cells]
    if kind == "category":
        return _text(pd.Series(cells, dtype="str").astype("category"))
    return pd.Series(cells, dtype=kind)


def _text(column: pd.Series) -> pd.Series:
    """A column of text with Python's own: Arrow's would be made anew, a hundred thousand, each
    time. Without any text they have this type already."""
    return column.astype(pd.CategoricalDtype(column.cat.categories.astype(object)))


def _numbered(figures: pd.DataFrame, lengths: Sequence[int] | NDArray[np.int64]) -> pd.DataFrame:
    """Figures with the numbers of their records, each of which has so many."""
    figures.insert(0, "record", np.repeat(np.arange(len(lengths), dtype=np.int32), lengths))
    return figures


def join(parts: Sequence[Frames]) -> Frames:
    """The records of some parts, one after the other."""
    if len(parts) == 1:
        return parts[0]
    starts = np.cumsum([0, *(len(frames.records) for frames in parts)], dtype=np.int32)
    figures = [
        frames.figures.assign(record=frames.figures["record"] + start)
        for frames, start in zip(parts, starts, strict=False)
    ]
    return Frames(_joined([frames.records for frames in parts]), _joined(figures))


def _joined(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    joined = {}
    for name, kind in frames[0].dtypes.items():
        columns = [frame[name] for frame in frames]
        is_text = isinstance(kind, pd.CategoricalDtype)
        joined[name] = (
            pd.Series(union_categoricals(columns))
            if is_text
            else pd.concat(columns, ignore_index=True)
        )
    return pd.DataFrame(joined)


def only(
    records: pd.DataFrame, figures: pd.DataFrame, rows: Sequence[int] | pd.Index | pd.Series
) -> Frames:
    """Some records, by their numbers or a mask, in their order and numbered anew."""
    is_chosen = np.zeros(len(records), np.bool_)
    is_chosen[rows] = True
    number = (is_chosen.cumsum() - 1).astype(np.int32)
    of_chosen = figures[is_chosen[figures["record"]]]
    return Frames(
        records[is_chosen].reset_index(drop=True),
        of_chosen.assign(record=number[of_chosen["record"]]).reset_index(drop=True),
    )


def _arrow(held: Frames) -> pa.Table:
    """Records as a file holds them."""
    metric = list(_FILE.field("metrics").type.value_type)
    rows = pa.Table.from_pandas(held.figures[list(FIGURES)], preserve_index=False)
    structs = rows.cast(pa.schema(metric)).to_struct_array().combine_chunks()
    numbers = range(len(held.records) + 1)
    starts = pa.array(held.figures["record"].searchsorted(numbers), pa.int32())
    records = pa.Table.from_pandas(held.records[list(_RECORDS)], preserve_index=False)
    columns = records.cast(pa.schema(list(_FILE)[:-1])).columns
    return pa.Table.from_arrays([*columns, pa.ListArray.from_arrays(starts, structs)], schema=_FILE)


def alike(frame: pd.DataFrame, columns: list[str]) -> pd.Series:
    """One number for the rows that agree in all of some columns, from 0 on in the order of
    appearance."""
    return frame.groupby(columns, sort=False, observed=True, dropna=False).ngroup()


def values(column: pd.Series) -> list[Any]:
    """A column as plain values, None where unknown. Equal texts and mappings are one object, since
    sweeps repeat most of them."""
    texts = plain(column)
    if column.name not in JSON:
        return texts
    by_text = {text: decoded(text) for text in set(texts)}
    return [by_text[text] for text in texts]


def write(held: Frames, rest: Mapping[str, Any], path: Path) -> None:
    """Write records and, in the metadata, the JSON object ``rest``, whole or not at all.

    Raises:
        BadInput: the file cannot be written.
    """
    noted = _arrow(held).replace_schema_metadata({"trueup": json.dumps(rest, sort_keys=True)})
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb") as stream:
            pq.write_table(noted, stream, compression="zstd")
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise BadInput(f"{path} could not be written: {error.strerror or error}") from error


def read(path: Path) -> tuple[Frames, dict[str, Any]]:
    """The records and the object that ``write`` put into a file.

    Raises:
        BadInput: the file is none of those.
    """
    try:
        table, metadata = _read(path)
        held = _frames(table)
        rest: dict[str, Any] = json.loads(metadata[b"trueup"])
    except (OSError, KeyError, ValueError, RecursionError, pa.ArrowException) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise BadInput(f"{path} is not a file that `trueup pack` wrote ({reason})") from error
    # Give the memory that Arrow read with back to the system.
    del table
    pa.default_memory_pool().release_unused()
    if wrong := _wrong(held):
        raise BadInput(f"{path} holds what no record can hold: {wrong}")
    return held, rest


def _read(path: Path) -> tuple[pa.Table, Mapping[bytes, bytes]]:
    """All of a file, and its metadata. A small file can say that it holds the same billions of
    times, so figures are read some at a time.

    Raises:
        ValueError: its columns are others, or it is larger in memory than any fleet's records.
    """
    most = min(_MOST_BYTES, max(_MOST_BYTES_OF_SMALL, _MOST_TIMES * path.stat().st_size))
    # Threads gain a tenth of a second, and take three times the CPU where others want it.
    with pq.ParquetFile(path, read_dictionary=_TEXT_PATHS) as file:
        if not file.schema_arrow.equals(_READ):
            raise ValueError("its columns are others")
        about, metadata = file.metadata, file.schema_arrow.metadata or {}
        groups = range(about.num_row_groups)
        unpacked = sum(about.row_group(number).total_byte_size for number in groups)
        if max(unpacked, _LEAST_OF_ROW * about.num_rows) > most:
            raise _too_large(most)
        # Whole groups: each part of one would have all texts of those before it.
        read = [file.read_row_group(n, list(_RECORDS), use_threads=False) for n in groups]
        table = pa.concat_tables([_READ.empty_table().select(list(_RECORDS)), *read])
        weight = _weight(chunk for column in table.columns for chunk in column.chunks)
        if weight > most:
            raise _too_large(most)
        lists = []
        for batch in file.iter_batches(_ROWS_AT_ONCE, columns=["metrics"], use_threads=False):
            lists.append(batch.column(0))
            weight += _weight(lists[-1].flatten().flatten())
            if weight > most:
                raise _too_large(most)
    metrics = pa.chunked_array(lists, _READ.field("metrics").type)
    return pa.Table.from_arrays([*table.columns, metrics], schema=_READ), metadata


def _frames(table: pa.Table) -> Frames:
    """The records of a table."""
    records = pd.DataFrame({name: _pandas(table.column(name)) for name in _RECORDS})
    # An unknown duration is null in a file. NaN, as null is here, is one out of range.
    is_nan = pc.is_nan(table.column("duration_seconds")).fill_null(False).to_pandas()
    records["duration_seconds"] = records["duration_seconds"].mask(is_nan, math.inf)
    lists = table.column("metrics")
    rows = pa.chunked_array([listed.flatten() for listed in lists.chunks], lists.type.value_type)
    columns = dict(zip(FIGURES, rows.flatten(), strict=True))
    figures = pd.DataFrame({name: _pandas(column) for name, column in columns.items()})
    return Frames(records, _numbered(figures, pc.list_value_length(lists).fill_null(0).to_numpy()))


def _pandas(column: pa.ChunkedArray) -> pd.Series:
    types = {pa.int64(): pd.Int64Dtype()}
    series = column.unify_dictionaries().to_pandas(types_mapper=types.get)
    return _text(series) if isinstance(series.dtype, pd.CategoricalDtype) else series


def _weight(arrays: Iterable[pa.Array]) -> int:
    """The bytes of some columns once each row has texts of its own."""
    size = 0
    for array in arrays:
        size += array.nbytes
        if pa.types.is_dictionary(array.type):
            lengths = pc.take(pc.binary_length(array.dictionary), array.indices)
            size += pc.sum(pc.cast(lengths, pa.int64())).as_py() or 0
    return size


def _too_large(most: int) -> ValueError:
    return ValueError(f"more than {most / 2**30:.1f} GiB when it is unpacked")


def _wrong(held: Frames) -> str:
    """A fault that the reader of records would have refused; empty where there is none.

    The first record of the first wrong column is named.
    """
    records, rows = held
    for name, is_wrong in _checks(records):
        if is_wrong.any():
            number = int(is_wrong.argmax())
            named = records[["benchmark", "case", "nodes"]].iloc[[number]]
            names = " ".join(str(values(named[key])[0]) for key in named)
            return f"{name} of record {number + 1} ({names}) is missing or out of range"
    for name, is_wrong in _figure_checks(rows):
        if is_wrong.any():
            row = int(is_wrong.argmax())
            metric, value, record = (rows[key].iloc[row] for key in ("name", "value", "record"))
            return f"{name} of {metric} ({value}) in record {record + 1} is out of range"
    for name, kind in KINDS.items():
        decode = msgspec.json.Decoder(kind).decode
        missing = [None] if records[name].hasnans else []
        for text in [*missing, *records[name].cat.categories]:
            if not _is_json(text, decode):
                return f"{name} is {str(text)[:40]!r}"
    return ""


def _checks(records: pd.DataFrame) -> Iterator[tuple[str, pd.Series]]:
    """By column, for each record whether it is wrong."""
    for name in _ALWAYS:
        yield name, records[name].isna()
    # Publications name their cases in their own words.
    measured = records["provenance"] == MEASURED
    for name, pattern in PATTERNS.items():
        yield name, measured & ~fit(records[name], pattern)
    yield "outcome", ~records["outcome"].isin(OUTCOMES)
    for name in (*_WHOLE, "duration_seconds"):
        # Publications do not always say how many.
        numbers = records[name].dropna()
        is_wrong = ~numbers.between(*_RANGES.get(name, (1, 2**62)))
        yield name, is_wrong.reindex(records.index, fill_value=False)


def _figure_checks(rows: pd.DataFrame) -> Iterator[tuple[str, pd.Series]]:
    """By column, for each figure whether it is wrong."""
    yield "name", ~fit(rows["name"], METRIC_NAME)
    yield "unit", rows["unit"].isna()
    yield "direction", ~rows["direction"].isin(["higher", "lower", "none"])
    yield "value", ~rows["value"].between(-_MOST, _MOST)
    yield "value", (rows["direction"] != "none") & (rows["value"] < 0)
    yield "value", rows["name"].isin(ABOVE_ZERO) & (rows["value"] <= 0)


def fit(column: pd.Series, pattern: str) -> pd.Series:
    """Which texts are of a pattern; none is not."""
    matched = re.compile(pattern).fullmatch
    return column.isin([text for text in column.cat.categories if matched(text)])


def _is_json(text: Any, decode: Callable[[str], Any]) -> bool:
    try:
        decode(text)
    except (msgspec.MsgspecError, TypeError, RecursionError):
        return False
    return True
