"""A packed file with other contents than ``trueup pack`` writes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def forge(path: Path, change: Callable[[Any, Any, dict[str, Any]], Any], **options: Any) -> None:
    """Write a packed file anew.

    Args:
        change: from the rows of figures, those of records and the JSON object of the metadata to
            the new ones; the object may be bytes.
        options: as ``pyarrow.parquet.ParquetWriter`` takes them.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    rest = json.loads(table.schema.metadata[b"trueup"])
    kinds = table.schema
    plain = [
        pa.field(field.name, pa.string() if pa.types.is_dictionary(field.type) else field.type)
        for field in table.schema
    ]
    table = table.cast(pa.schema(plain))
    is_record = pc.is_null(table.column("figure"))
    figures, records, noted = change(
        table.filter(pc.invert(is_record)), table.filter(is_record), rest
    )
    content = noted if isinstance(noted, bytes) else json.dumps(noted).encode()
    names = [name for name in table.schema.names if name in records.schema.names]
    schema = pa.schema([kinds.field(name) for name in names], {b"trueup": content})
    with pq.ParquetWriter(path, schema, compression="zstd", **options) as writer:
        for rows in (figures, records):
            writer.write_table(rows.select(schema.names).cast(schema))
