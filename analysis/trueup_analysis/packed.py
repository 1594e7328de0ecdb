"""The layout in which records lie in memory and in a packed file: one Arrow row a record."""

from __future__ import annotations

import contextlib
import json
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from trueup.errors import BadInput
from trueup.record import OUTCOMES

from . import columns, metrics
from .columns import Words, folded, known, numbers, words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from .metrics import Figures

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


def _schema(text: pa.DataType) -> pa.Schema:
    each = metrics.COLUMNS.items()
    metric = {name: text if name in metrics.TEXTS else kind for name, kind in each}
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
# The same with each text once, and in memory, where the figures lie apart.
_FOLDED: Final = _schema(pa.dictionary(pa.int32(), pa.string()))
_RECORDS: Final = pa.schema(list(_FOLDED)[:-1])
_TEXT_PATHS: Final = [*_TEXT, *JSON, *(f"metrics.list.element.{name}" for name in metrics.TEXTS)]


class Table(NamedTuple):
    """Records in memory.

    Attributes:
        records: one row a record, without its figures.
        figures: those of all records.
    """

    records: pa.Table
    figures: Figures

    @property
    def num_rows(self) -> int:
        """How many records there are."""
        rows: int = self.records.num_rows
        return rows

    def whole(self) -> pa.Table:
        """The same as Arrow's rows, as a file holds them."""
        listed = metrics.lists(self.figures, _FOLDED.field("metrics").type)
        return pa.Table.from_arrays([*self.records.columns, listed], schema=_FOLDED)


def canonical(value: Any) -> str:
    """One text for equal values."""
    return msgspec.json.encode(value, order="sorted").decode()


def decoded(text: str) -> Any:
    """The value of such a text."""
    return msgspec.json.decode(text)


def of_columns(by_name: Mapping[str, Words | NDArray[Any]], figures: Figures) -> Table:
    """A table of records from its columns: texts, also of JSON, and numbers, of which -1 and NaN
    stand for unknown ones."""
    arrays = [
        folded(held)
        if isinstance(held := by_name[name], Words)
        else pa.array(held, mask=~(held >= 0))
        for name in _RECORDS.names
    ]
    return Table(pa.Table.from_arrays(arrays, schema=_RECORDS), figures)


def from_rows(rows: Sequence[Mapping[str, Any]]) -> Table:
    """A table from rows whose names are those of the layout; an absent field is unknown."""
    arrow_table = pa.Table.from_pylist(list(rows), _SCHEMA)
    figures = metrics.joined([metrics.of_lists(_whole(arrow_table, "metrics"))])
    return Table(arrow_table.drop_columns(["metrics"]).cast(_RECORDS), figures)


def join(tables: Sequence[Table]) -> Table:
    """One table after the other."""
    if len(tables) == 1:
        return tables[0]
    figures = metrics.joined(table.figures for table in tables)
    return Table(_together([table.records for table in tables]), figures)


def _together(parts: Sequence[pa.Table]) -> pa.Table:
    table = pa.concat_tables(parts).unify_dictionaries()
    return pa.Table.from_arrays([_whole(table, name) for name in _RECORDS.names], schema=_RECORDS)


def take(table: Table, places: Sequence[int] | NDArray[np.int64]) -> Table:
    """Some rows, in the given order."""
    rows = np.asarray(places, np.int64)
    starts = table.figures.starts
    figures = table.figures.gathered(starts[rows], starts[rows + 1])
    return Table(table.records.take(rows).combine_chunks(), figures)


def column(table: Table, name: str) -> pa.Array:
    """One column of the records."""
    return _whole(table.records, name)


def _whole(table: pa.Table, name: str) -> pa.Array:
    chunked = table.column(name)
    # Putting the chunks together copies them, also a single one.
    return chunked.chunk(0) if chunked.num_chunks == 1 else chunked.combine_chunks()


def values(table: Table, name: str) -> list[Any]:
    """A column as plain values, None where unknown. Equal ones are one object, since sweeps repeat
    most of them."""
    array = column(table, name)
    if name not in JSON:
        return words(array).values() if pa.types.is_dictionary(array.type) else array.to_pylist()
    texts = words(array)
    decoded_texts = [*map(decoded, texts.words), None]
    return [decoded_texts[code] for code in texts.codes.tolist()]


def alike(table: Table, names: Iterable[str]) -> NDArray[np.int64]:
    """For each record a number, which those have in common that agree in some columns."""
    coded = []
    for name in names:
        array = column(table, name)
        is_text = pa.types.is_dictionary(array.type)
        coded.append(
            words(array).codes if is_text else columns.numbered(numbers(array), known(array))
        )
    return columns.alike(coded)


def write(table: Table, rest: Mapping[str, Any], path: Path) -> None:
    """Write the table and, in its metadata, the JSON object ``rest``, whole or not at all.

    Raises:
        BadInput: the file cannot be written.
    """
    noted = table.whole().cast(_SCHEMA.with_metadata({"trueup": json.dumps(rest, sort_keys=True)}))
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb") as stream:
            pq.write_table(noted, stream, compression="zstd")
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise BadInput(f"{path} could not be written: {error.strerror or error}") from error


def read(path: Path) -> tuple[Table, dict[str, Any]]:
    """The table and the object that ``write`` put into a file.

    Raises:
        BadInput: the file is none of those.
    """
    try:
        content = _read(path)
        rest: dict[str, Any] = json.loads(content.metadata[b"trueup"])
    except (OSError, KeyError, ValueError, RecursionError, pa.ArrowException) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise BadInput(f"{path} is not a file that `trueup pack` wrote ({reason})") from error
    if wrong := content.wrong():
        raise BadInput(f"{path} holds what no record can hold: {wrong}")
    return content.table, rest


class _Read(NamedTuple):
    """The content of a file.

    Attributes:
        odd: number of the check -> the first fault among the figures.
    """

    table: Table
    metadata: dict[bytes, bytes]
    odd: dict[int, str]

    def wrong(self) -> str:
        """A fault that the reader of records would have refused; empty where there is none.

        The first record of the first wrong column is named.
        """
        return (
            _wrong_record(self.table)
            or (self.odd[min(self.odd)] if self.odd else "")
            or _wrong_text(self.table)
        )


def _read(path: Path) -> _Read:
    """All of a file, of whose figures no more than a part is in Arrow's memory. A small file can
    say that it holds the same billions of times.

    Raises:
        ValueError: its columns are others, or it is larger in memory than any fleet's records.
    """
    most = min(_MOST_BYTES, max(_MOST_BYTES_OF_SMALL, _MOST_TIMES * path.stat().st_size))
    # Not read_table, which imports all of Arrow's datasets. Threads gain a tenth of a second, and
    # take three times the CPU where others want it.
    with pq.ParquetFile(path, read_dictionary=_TEXT_PATHS) as file:
        if not file.schema_arrow.equals(_FOLDED):
            raise ValueError("its columns are others")
        about, metadata = file.metadata, file.schema_arrow.metadata or {}
        groups = range(about.num_row_groups)
        unpacked = sum(about.row_group(number).total_byte_size for number in groups)
        if max(unpacked, _LEAST_OF_ROW * about.num_rows) > most:
            raise _too_large(most)
        # Whole groups: each part of one would have all texts of those before it.
        read = [file.read_row_group(n, _RECORDS.names, use_threads=False) for n in groups]
        records = _together(read or [_RECORDS.empty_table()])
        weight = _weight(_whole(records, name) for name in _RECORDS.names)
        if weight > most:
            raise _too_large(most)
        odd: dict[int, str] = {}
        figures = metrics.joined(_parts(file, most, weight, odd))
    # Give the memory that Arrow read with back to the system.
    pa.default_memory_pool().release_unused()
    return _Read(Table(records, figures), metadata, odd)


def _parts(file: pq.ParquetFile, most: int, weight: int, odd: dict[int, str]) -> Iterator[Figures]:
    """The figures of a file, of some records at a time.

    Args:
        weight: bytes that were read before; with these no more than ``most``.
        odd: filled with the first fault, by the number of the check.
    """
    before = 0
    for batch in file.iter_batches(_ROWS_AT_ONCE, columns=["metrics"], use_threads=False):
        [listed] = batch.columns
        weight += _weight(metrics.flat(listed).values())
        if weight > most:
            raise _too_large(most)
        for number, problem in _wrong_figures(listed, before):
            odd.setdefault(number, problem)
        before += len(batch)
        yield metrics.of_lists(listed)


def _weight(arrays: Iterable[pa.Array]) -> int:
    """The bytes of some columns once each row has texts of its own."""
    size = 0
    for array in arrays:
        size += array.nbytes
        if pa.types.is_dictionary(array.type):
            each = np.append(pc.binary_length(array.dictionary).to_numpy(), 0)
            size += int(each[words(array).codes].sum())
    return size


def _too_large(most: int) -> ValueError:
    return ValueError(f"more than {most / 2**30:.1f} GiB when it is unpacked")


def _wrong_record(table: Table) -> str:
    for name, is_wrong in _checks(table):
        if is_wrong.any():
            row_number = int(is_wrong.argmax())
            named = table.records.slice(row_number, 1).select(["benchmark", "case", "nodes"])
            record_name = " ".join(map(str, named.to_pylist()[0].values()))
            return f"{name} of record {row_number + 1} ({record_name}) is missing or out of range"
    return ""


def _wrong_text(table: Table) -> str:
    for name, kind in KINDS.items():
        decode = msgspec.json.Decoder(kind).decode
        held = words(column(table, name))
        each = [*held.words, None]
        for text in (each[code] for code in dict.fromkeys(held.codes.tolist())):
            if not _is_json(text, decode):
                return f"{name} is {str(text)[:40]!r}"
    return ""


def _wrong_figures(listed: pa.ListArray, before: int) -> Iterator[tuple[int, str]]:
    """The first fault of each check in a part, with the number of the check.

    Args:
        before: how many records come before the part.
    """
    flat = metrics.flat(listed)
    for number, (name, is_wrong) in enumerate(_metric_checks(flat)):
        if is_wrong.any():
            row_number = int(is_wrong.argmax())
            figure, value = (flat[key][row_number].as_py() for key in ("name", "value"))
            ends = np.cumsum(metrics.lengths(listed))
            record = before + int(np.searchsorted(ends, row_number, "right")) + 1
            yield number, f"{name} of {figure} ({value}) in record {record} is out of range"


def _checks(table: Table) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """By column, for each record whether it is wrong."""
    for name in _ALWAYS:
        yield name, ~known(column(table, name))
    # Publications name their cases in their own words.
    measured = words(column(table, "provenance")).marks([MEASURED])
    for name, pattern in PATTERNS.items():
        yield name, measured & ~fit(column(table, name), pattern)
    yield "outcome", ~words(column(table, "outcome")).marks(OUTCOMES)
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
    held = words(array)
    matched = re.compile(pattern).fullmatch
    fits = [text is not None and matched(text) is not None for text in held.words]
    is_match: NDArray[np.bool_] = np.array([*fits, False])[held.codes]
    return is_match


def _outside(held: NDArray[Any], least: float, most: float) -> NDArray[np.bool_]:
    """Which values lie outside a range; NaN does."""
    return ~((held >= least) & (held <= most))


def _is_json(text: Any, decode: Callable[[str], Any]) -> bool:
    try:
        decode(text)
    except (msgspec.MsgspecError, TypeError, RecursionError):
        return False
    return True
