"""The layout of records: in memory two frames, in a packed file typed rows.

A packed file holds a row for each figure and, below all figures, a row for each record. A row of a
figure repeats the columns by which figures are chosen (node, size, benchmark, case, run, start). In
a row of a record the columns of figures are null. Figures are sorted by benchmark and name, so that
a reader of one figure skips the other row groups by their least and greatest values.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
from functools import cached_property
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
from trueup_node.cases import MEASURED, Figure
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


# Names of columns in a file that differ from those in memory.
_IN_FILE: Final = {"nodes": "node", "name": "figure"}
# Columns of a record that the rows of its figures repeat.
_REPEATED: Final = ("run_id", "benchmark", "case", "nodes", "vm_size", "started_at")
# Row groups of this size let a reader of one figure of 600 nodes skip the most.
_ROWS_OF_GROUP: Final = 2**15


def _schema(columns: Mapping[str, str]) -> list[pa.Field]:
    text = pa.dictionary(pa.int32(), pa.string())
    kinds = {"category": text, "Int64": pa.int64(), "float64": pa.float64()}
    return [pa.field(_IN_FILE.get(name, name), kinds[kind]) for name, kind in columns.items()]


# The number of the record, the place of a figure among all, and the two tables' own columns.
_NUMBERS: Final = [pa.field("record", pa.int32()), pa.field("place", pa.int32())]
_OF_RECORDS: Final = _schema(_RECORDS)
_OF_FIGURES: Final = _schema(FIGURES)
_FILE: Final = pa.schema([*_NUMBERS, *_OF_FIGURES, *_OF_RECORDS])
FIGURE_COLUMNS: Final = [each.name for each in (*_NUMBERS, *_OF_FIGURES)]
_RECORD_COLUMNS: Final = ["record", *(each.name for each in _OF_RECORDS)]
# A column that only files of the layout before have: a list of figures in each record's row.
_EARLIER: Final = "metrics"


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


def _arrow(held: Frames) -> tuple[pa.Table, pa.Table]:
    """The rows of figures and those of records, as a file holds them."""
    records, figures = held
    number = figures["record"].to_numpy()
    of_records = _columns(records, _RECORDS)
    rows = {"record": pa.array(np.arange(len(records), dtype=np.int32))} | of_records
    order = _order(held)
    each = {"record": pa.array(number), "place": pa.array(np.arange(len(figures), dtype=np.int32))}
    each |= _columns(figures, FIGURES)
    each |= {
        _IN_FILE.get(name, name): of_records[_IN_FILE.get(name, name)].take(pa.array(number))
        for name in _REPEATED
    }
    return _table(each, len(figures)).take(pa.array(order)), _table(rows, len(records))


def _columns(frame: pd.DataFrame, kinds: Mapping[str, str]) -> dict[str, pa.Array]:
    columns = {}
    for name, kind in kinds.items():
        column = frame[name]
        if kind == "category":
            categories = pa.array(column.cat.categories.to_numpy(dtype=object), pa.string())
            codes = column.cat.codes.to_numpy().astype(np.int32)
            indices = pa.array(codes, pa.int32(), mask=codes < 0)
            columns[_IN_FILE.get(name, name)] = pa.DictionaryArray.from_arrays(indices, categories)
        else:
            columns[_IN_FILE.get(name, name)] = pa.Array.from_pandas(column)
    return columns


def _table(columns: Mapping[str, pa.Array], rows: int) -> pa.Table:
    """A table of the file's columns, null where there is none."""
    arrays = [
        columns[field.name] if field.name in columns else pa.nulls(rows, field.type)
        for field in _FILE
    ]
    return pa.Table.from_arrays(arrays, schema=_FILE)


def _order(held: Frames) -> NDArray[np.intp]:
    """The order of figures in a file: equal kinds beside each other, by their records."""
    records, figures = held
    benchmark = _ranks(records["benchmark"])[figures["record"].to_numpy()]
    keys = [_ranks(figures[name]) for name in ("name", "message_bytes", "device", "statistic")]
    # The last key counts most; equal ones stay in the order of records.
    return np.lexsort([*reversed(keys), benchmark])


def _ranks(column: pd.Series) -> NDArray[np.int64]:
    """The places of values in the order of all, -1 where unknown."""
    if not isinstance(column.dtype, pd.CategoricalDtype):
        return column.fillna(-1).to_numpy(np.int64)
    ranks = np.full(len(column.cat.categories) + 1, -1)
    ranks[np.argsort(column.cat.categories)] = np.arange(len(column.cat.categories))
    return ranks[column.cat.codes]


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


def write(held: Frames, rest: Mapping[str, Any], path: Path, *, check: bool = True) -> None:
    """Write records and, in the metadata, the JSON object ``rest``, whole or not at all: the file
    takes its name once it was read back and holds the same, unless ``check`` is off.

    Raises:
        BadInput: the file cannot be written.
    """
    schema = _FILE.with_metadata({"trueup": json.dumps(rest, sort_keys=True)})
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb") as stream:
            with pq.ParquetWriter(
                stream, schema, compression="zstd", write_page_checksum=True
            ) as writer:
                for table in _arrow(held):
                    writer.write_table(table, row_group_size=_ROWS_OF_GROUP)
            stream.flush()
            os.fsync(stream.fileno())
        if check and not _same(held, read(temporary)[0]):
            raise OSError("it does not read back as it was written")
        temporary.replace(path)
    except OSError as error:
        raise BadInput(f"{path} could not be written: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _same(one: Frames, other: Frames) -> bool:
    """Whether two are equal, but for the order of categories."""
    return all(
        len(ours) == len(theirs) and all(_equal(ours[name], theirs[name]) for name in ours)
        for ours, theirs in zip(one, other, strict=True)
    )


def _equal(one: pd.Series, other: pd.Series) -> bool:
    if isinstance(one.dtype, pd.CategoricalDtype):
        other = other.cat.set_categories(one.cat.categories)
        return bool((one.cat.codes == other.cat.codes).all())
    return one.equals(other)


def read(path: Path, meant: Meant | None = None) -> tuple[Frames, dict[str, Any]]:
    """The records and the object that ``write`` put into a file.

    Args:
        meant: only these figures of all records; row groups without any are not read.

    Raises:
        BadInput: the file is none of those.
    """
    try:
        with opened(path) as file:
            rest = file.rest()
            held = _frames(file, meant)
    except (OSError, KeyError, ValueError, RecursionError, pa.ArrowException) as error:
        raise _refused(path, error) from error
    # Give the memory that Arrow read with back to the system.
    pa.default_memory_pool().release_unused()
    if wrong := _wrong(held):
        raise BadInput(f"{path} holds what no record can hold: {wrong}")
    return held, rest


def about(path: Path) -> dict[str, Any]:
    """The object in the metadata of a file, of which no row is read.

    Raises:
        BadInput: the file is none that ``write`` wrote.
    """
    try:
        metadata = pq.read_metadata(path)
        if _EARLIER in metadata.schema.names:
            raise _EarlierLayout
        rest: dict[str, Any] = msgspec.json.decode(metadata.metadata[b"trueup"])
    except (OSError, KeyError, TypeError, ValueError, RecursionError, pa.ArrowException) as error:
        raise _refused(path, error) from error
    return rest


def figure_count(path: Path) -> int:
    """How many figures a file has.

    Raises:
        BadInput: the file is none that ``write`` wrote.
    """
    try:
        with opened(path) as file:
            return sum(file.rows(number) for number in file.groups[0])
    except (OSError, KeyError, ValueError, pa.ArrowException) as error:
        raise _refused(path, error) from error


def _refused(path: Path, error: Exception) -> BadInput:
    if isinstance(error, _EarlierLayout):
        return BadInput(
            f"{path} was packed by an earlier release: `trueup pack RESULTS --output {path}` packs"
            " the records anew"
        )
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    return BadInput(f"{path} is not a file that `trueup pack` wrote ({reason})")


class _EarlierLayout(ValueError):
    """A file has the layout of an earlier release."""


class Meant(NamedTuple):
    """Which figures are meant; None for all.

    Attributes:
        names: the names of figures.
        benchmarks: those of whose records.
        always: a benchmark of which all figures are meant.
    """

    names: frozenset[str] | None = None
    benchmarks: frozenset[str] | None = None
    always: frozenset[str] = frozenset()

    def may_be_in(self, names: tuple[str, str], benchmarks: tuple[str, str]) -> bool:
        """Whether rows between a least and a greatest name may hold one."""
        if any(benchmarks[0] <= name <= benchmarks[1] for name in self.always):
            return True
        return all(
            wanted_names is None or any(least <= name <= most for name in wanted_names)
            for wanted_names, (least, most) in (
                (self.names, names),
                (self.benchmarks, benchmarks),
            )
        )

    def rows(self, names: pd.Series, benchmarks: pd.Series) -> pd.Series:
        """Which figures are meant, by their names and the benchmarks of their records."""
        is_meant = pd.Series(True, names.index)
        if self.names is not None:
            is_meant &= names.isin(self.names)
        if self.benchmarks is not None:
            is_meant &= benchmarks.isin(self.benchmarks)
        return is_meant | benchmarks.isin(self.always)


class PackedFile:
    """An open file, of whose rows some are read at a time.

    Attributes:
        groups: the numbers of the row groups of figures, and of those of records.
    """

    def __init__(self, file: pq.ParquetFile, size: int) -> None:
        """
        Raises:
            ValueError: its columns are others.
        """
        self._file = file
        self._most = min(_MOST_BYTES, max(_MOST_BYTES_OF_SMALL, _MOST_TIMES * size))
        self._weight = 0
        schema = file.schema_arrow
        if _EARLIER in schema.names:
            raise _EarlierLayout
        if not schema.equals(_FILE):
            raise ValueError("its columns are others")
        self._metadata: Mapping[bytes, bytes] = schema.metadata or {}

    @cached_property
    def groups(self) -> tuple[list[int], list[int]]:
        """
        Raises:
            ValueError: a group has figures and records.
        """
        groups: tuple[list[int], list[int]] = ([], [])
        place = _FILE.get_field_index(_IN_FILE["name"])
        for number in range(self._file.metadata.num_row_groups):
            group = self._file.metadata.row_group(number)
            statistics = group.column(place).statistics
            if statistics is None or statistics.null_count not in {0, group.num_rows}:
                raise ValueError("figures and records are not apart")
            groups[statistics.null_count > 0].append(number)
        return groups

    def rest(self) -> dict[str, Any]:
        """The JSON object in the metadata."""
        held: dict[str, Any] = msgspec.json.decode(self._metadata[b"trueup"])
        return held

    def rows(self, group: int) -> int:
        """How many rows a group has."""
        count: int = self._file.metadata.row_group(group).num_rows
        return count

    def records(self, columns: Sequence[str] = _RECORD_COLUMNS) -> pa.Table:
        """The rows of records."""
        return self.read(self.groups[1], columns)

    def figures(
        self, meant: Meant | None = None, columns: Sequence[str] = FIGURE_COLUMNS
    ) -> pa.Table:
        """The rows of figures in the row groups that may hold some of these."""
        return self.read(self.groups_of(meant), columns)

    def groups_of(self, meant: Meant | None) -> list[int]:
        """The groups that may hold some of these figures."""
        return [
            number
            for number in self.groups[0]
            if meant is None
            or meant.may_be_in(self._ends(number, "figure"), self._ends(number, "benchmark"))
        ]

    def _ends(self, group: int, name: str) -> tuple[str, str]:
        """The least and the greatest text of a column; any where the file does not say."""
        place = _FILE.get_field_index(name)
        statistics = self._file.metadata.row_group(group).column(place).statistics
        if statistics is None or not statistics.has_min_max:
            return "", "\U0010ffff"
        return statistics.min, statistics.max

    def read(self, groups: Sequence[int], columns: Sequence[str]) -> pa.Table:
        """Some columns of some groups.

        Raises:
            ValueError: they are larger in memory than any fleet's records.
        """
        schema = pa.schema([_FILE.field(name) for name in columns])
        return pa.concat_tables([schema.empty_table(), *self.each(groups, columns)])

    def each(
        self, groups: Sequence[int], columns: Sequence[str], *, as_codes: bool = False
    ) -> Iterator[pa.Table]:
        """The same, a group after the other: a small file can say that it holds the same billions
        of times.

        Args:
            as_codes: whether texts stay codes, each text once.

        Raises:
            ValueError: they are larger in memory than any fleet's records.
        """
        about = self._file.metadata
        unpacked = sum(about.row_group(number).total_byte_size for number in groups)
        rows = sum(about.row_group(number).num_rows for number in groups)
        schema = pa.schema([_FILE.field(name) for name in columns])
        if max(unpacked, rows * sum(map(_width, schema.types))) > self._most:
            raise _too_large(self._most)
        for number in groups:
            # Threads gain a tenth of a second, and take three times the CPU where others want it.
            table = self._file.read_row_group(number, list(columns), use_threads=False)
            arrays = (chunk for column in table.columns for chunk in column.chunks)
            self._weight += table.nbytes if as_codes else _weight(arrays)
            if self._weight > self._most:
                raise _too_large(self._most)
            yield table.replace_schema_metadata(None)


@contextlib.contextmanager
def opened(path: Path) -> Iterator[PackedFile]:
    """A packed file.

    Raises:
        OSError, ValueError, pa.ArrowException: it cannot be read, or is none.
    """
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        yield PackedFile(file, path.stat().st_size)


def _frames(file: PackedFile, meant: Meant | None) -> Frames:
    """The records of a file, and all figures or some."""
    table = file.records()
    numbers = table.column("record").to_numpy()
    if (numbers != np.arange(len(numbers))).any():
        raise ValueError("its records are not in order")
    names = {_IN_FILE.get(name, name): name for name in (*_RECORDS, *FIGURES)}
    columns = {names[field.name]: _pandas(table.column(field.name)) for field in _OF_RECORDS}
    records = pd.DataFrame(columns)
    # An unknown duration is null in a file. NaN, as null is here, is one out of range.
    is_nan = pc.is_nan(table.column("duration_seconds")).fill_null(False).to_pandas()
    records["duration_seconds"] = records["duration_seconds"].mask(is_nan, math.inf)
    rows = file.figures(meant)
    record, place = (rows.column(name).to_numpy() for name in ("record", "place"))
    order = np.argsort(place, kind="stable")
    is_whole = meant is not None or (place[order] == np.arange(len(place))).all()
    numbers = record[order]
    if not is_whole or (len(numbers) and not 0 <= numbers.min() <= numbers.max() < len(records)):
        raise ValueError("its figures are not of its records")
    if (np.diff(numbers) < 0).any():
        raise ValueError("its figures are not in the order of its records")
    figures = _of_figures(rows.take(pa.array(order)))
    figures.insert(0, "record", numbers.astype(np.int32))
    held = Frames(records, figures)
    return held if meant is None else figures_meant(held, meant)


def figures_meant(held: Frames, meant: Meant) -> Frames:
    """All records, with the figures that are meant."""
    records, figures = held
    benchmarks = records["benchmark"].take(figures["record"].to_numpy()).set_axis(figures.index)
    is_meant = meant.rows(figures["name"], benchmarks)
    return Frames(records, figures[is_meant].reset_index(drop=True))


def _of_figures(rows: pa.Table) -> pd.DataFrame:
    names = {theirs: ours for ours, theirs in _IN_FILE.items()}
    columns = {names.get(each.name, each.name): rows.column(each.name) for each in _OF_FIGURES}
    return pd.DataFrame({name: _pandas(column) for name, column in columns.items()})


class Column(NamedTuple):
    """Values by their codes; of a code below 0 there is none."""

    codes: NDArray[np.integer[Any]]
    values: Sequence[Any]


def as_column(column: pd.Series) -> Column:
    """A column of a frame by codes."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return Column(column.cat.codes.to_numpy(), column.cat.categories.tolist())
    codes, uniques = pd.factorize(column)
    return Column(codes, uniques.tolist())


def record_columns(path: Path, columns: Sequence[str]) -> dict[str, Column]:
    """Columns of the records of a file.

    Raises:
        BadInput: the file is none that ``write`` wrote.
    """
    names = [_IN_FILE.get(name, name) for name in columns]
    try:
        with opened(path) as file:
            tables = list(file.each(file.groups[1], names, as_codes=True))
    except (OSError, KeyError, ValueError, pa.ArrowException) as error:
        raise _refused(path, error) from error
    schema = pa.schema([_FILE.field(name) for name in names])
    rows = pa.concat_tables([schema.empty_table(), *tables]) if len(tables) != 1 else tables[0]
    coded = (_coded(_one_array(rows.column(name))) for name in names)
    return dict(zip(columns, coded, strict=True))


class FigureRows(NamedTuple):
    """Figures of a file, in its order.

    Attributes:
        record: the number of the record of each. place: its place among all figures.
        kind: the other columns by name.
    """

    record: NDArray[np.int32]
    place: NDArray[np.int32]
    value: NDArray[np.float64]
    kind: Mapping[str, Column]


def figure_rows(path: Path, meant: Meant) -> list[FigureRows]:
    """The figures of a file from the first to the last that is meant, of each row group that may
    hold some.

    Raises:
        BadInput: the file is none that ``write`` wrote.
    """
    try:
        with opened(path) as file:
            tables = file.each(file.groups_of(meant), FIGURE_COLUMNS, as_codes=True)
            return [_figure_rows(table, meant) for table in tables]
    except (OSError, KeyError, ValueError, pa.ArrowException) as error:
        raise _refused(path, error) from error


def _figure_rows(table: pa.Table, meant: Meant) -> FigureRows:
    names = _coded(_one_array(table.column(_IN_FILE["name"])))
    is_name = [meant.names is None or name in meant.names for name in names.values]
    rows = np.flatnonzero(np.array([*is_name, False])[names.codes])
    begin, end = (int(rows[0]), int(rows[-1]) + 1) if len(rows) else (0, 0)
    columns = [_one_array(table.column(name)).slice(begin, end - begin) for name in FIGURE_COLUMNS]
    by_name = dict(zip(FIGURE_COLUMNS, columns, strict=True))
    record, place, value = (by_name[name] for name in ("record", "place", "value"))
    if record.null_count or place.null_count or value.null_count:
        raise ValueError("a figure has no record, place or value")
    values = value.to_numpy()
    if not np.isfinite(values).all():
        raise ValueError("a figure is no number")
    kind = {name: _coded(by_name[_IN_FILE.get(name, name)]) for name in _KIND}
    return FigureRows(record.to_numpy(), place.to_numpy(), values, kind)


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    if pa.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
    array = column.combine_chunks()
    return array.chunk(0) if isinstance(array, pa.ChunkedArray) else array


def _coded(array: pa.Array) -> Column:
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    codes = array.indices.fill_null(-1) if array.null_count else array.indices
    return Column(codes.to_numpy(zero_copy_only=False), array.dictionary.to_pylist())


def _pandas(column: pa.ChunkedArray) -> pd.Series:
    types = {pa.int64(): pd.Int64Dtype()}
    series = column.unify_dictionaries().to_pandas(types_mapper=types.get)
    return _text(series) if isinstance(series.dtype, pd.CategoricalDtype) else series


def _width(kind: pa.DataType) -> int:
    """The bytes of a value, of a text those of its code."""
    width: int = (kind.index_type if pa.types.is_dictionary(kind) else kind).bit_width
    return width // 8


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
