"""The layout in which records lie in memory and in a packed file: one Arrow row a record."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import msgspec
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from trueup.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_TEXT = (
    *("run_id", "benchmark", "case", "outcome", "reason", "nodes", "vm_size", "region", "offer"),
    *("started_at", "raw_path", "raw_sha256", "source", "provenance"),
)
_WHOLE = ("node_count", "ranks", "threads_per_rank", "cores", "gpus")
# Mappings and lists, kept as JSON text: their keys differ from benchmark to benchmark.
_JSON = ("parameters", "software", "system", "command", "environment")
_CASE_COLUMNS = [
    *("record", "run_id", "benchmark", "case", "outcome", "reason", "nodes", "vm_size", "region"),
    *(
        "offer",
        "node_count",
        "ranks",
        "threads_per_rank",
        "cores",
        "gpus",
        "parameters",
        "software",
    ),
    *("system", "command", "environment", "started_at", "duration_seconds", "raw_path"),
    *("raw_sha256", "source", "provenance"),
]
_METRIC = pa.struct(
    [
        ("name", pa.string()),
        ("value", pa.float64()),
        ("unit", pa.string()),
        ("direction", pa.string()),
        ("message_bytes", pa.int64()),
        ("device", pa.string()),
        ("statistic", pa.string()),
        ("n", pa.int64()),
    ]
)
_WORDS = ["name", "unit", "direction", "device", "statistic"]
_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in _TEXT),
        *((name, pa.int64()) for name in _WHOLE),
        ("duration_seconds", pa.float64()),
        *((name, pa.string()) for name in _JSON),
        ("metrics", pa.list_(_METRIC)),
    ]
)


def canonical(value: Any) -> str:
    """One text for equal values."""
    return msgspec.json.encode(value, order="sorted").decode()


def from_rows(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """A table from rows whose names are those of the layout; what is absent is unknown."""
    return pa.Table.from_pylist(list(rows), schema=_SCHEMA)


def join(tables: Sequence[pa.Table]) -> pa.Table:
    """One table after the other."""
    return pa.concat_tables(tables)


def frames(table: pa.Table) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The frames ``cases`` and ``metrics``; ``record`` counts the table's rows from 0."""
    whole = {pa.int64(): pd.Int64Dtype()}.get
    cases = table.select([*_TEXT, *_WHOLE, "duration_seconds"]).to_pandas(types_mapper=whole)
    for name in _JSON:
        # Sweeps repeat most of these, so each distinct text is decoded once and the object shared.
        coded = table.column(name).combine_chunks().dictionary_encode()
        values = [msgspec.json.decode(text) for text in coded.dictionary.to_pylist()]
        cases[name] = pd.Series([values[code] for code in coded.indices.to_numpy()], dtype=object)
    cases["record"] = range(len(cases))
    listed = table.column("metrics").combine_chunks()
    flat = pa.Table.from_struct_array(listed.flatten())
    metrics = flat.drop_columns(_WORDS).to_pandas(types_mapper=whole)
    for name in _WORDS:
        # A few words in millions of rows. Sorted, so that equal data make equal frames.
        coded = flat.column(name).combine_chunks().dictionary_encode().to_pandas()
        metrics[name] = coded.cat.reorder_categories(sorted(coded.cat.categories))
    metrics = metrics[_METRIC.names]
    metrics["value"] = metrics["value"].astype("float64")
    metrics.insert(0, "record", listed.value_parent_indices().to_numpy().astype("int64"))
    return cases[_CASE_COLUMNS], metrics


def from_frames(cases: pd.DataFrame, metrics: pd.DataFrame) -> pa.Table:
    """The table from which ``frames`` makes these frames again."""
    columns: dict[str, Any] = {}
    for item in _SCHEMA:
        if item.name in _JSON:
            columns[item.name] = pa.array([canonical(value) for value in cases[item.name]])
        elif item.name != "metrics":
            columns[item.name] = pa.array(cases[item.name], type=item.type, from_pandas=True)
    ordered = metrics.sort_values("record", kind="stable")
    struct = pa.StructArray.from_arrays(
        [pa.array(ordered[item.name], type=item.type, from_pandas=True) for item in _METRIC],
        fields=list(_METRIC),
    )
    lengths = metrics.groupby("record").size().reindex(cases["record"], fill_value=0)
    offsets = pa.array([0, *lengths.cumsum()], pa.int32())
    columns["metrics"] = pa.ListArray.from_arrays(offsets, struct)
    return pa.table(columns, schema=_SCHEMA)


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
        message = f"{path} could not be written: {error.strerror or error}"
        raise BadInput(message) from error


def read(path: Path) -> tuple[pa.Table, dict[str, Any]]:
    """The table and the object that ``write`` put into a file.

    Raises:
        BadInput: the file is none of those.
    """
    try:
        # Not read_table, which imports all of Arrow's datasets.
        with pq.ParquetFile(path) as file:
            table = file.read()
        rest: dict[str, Any] = json.loads((table.schema.metadata or {})[b"trueup"])
        table = table.replace_schema_metadata(None).select(_SCHEMA.names)
        table = table if table.schema == _SCHEMA else table.cast(_SCHEMA)
    except (OSError, KeyError, ValueError, pa.ArrowException) as error:
        why = str(error).splitlines()[0]
        message = f"{path} is not a file that `trueup pack` wrote ({why})"
        raise BadInput(message) from error
    return table, rest
