"""Records that were read, as one table."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from . import metrics, packed
from .columns import Words, coded, whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .records import Record

_TEXTS: Final = (
    *("run_id", "benchmark", "case", "outcome", "reason", "vm_size", "region", "offer"),
    "started_at",
)
_COUNTS: Final = ("node_count", "ranks", "threads_per_rank", "gpus")


def table(batch: Sequence[tuple[Record, str]]) -> packed.Table:
    """The table of some records, each with the path of its file."""
    records = [record for record, _ in batch]
    raws = [record.raw for record in records]
    columns: dict[str, Any] = {
        **{name: coded(getattr(record, name) for record in records) for name in _TEXTS},
        **{
            name: coded(packed.canonical(getattr(record, name)) for record in records)
            for name in packed.JSON
        },
        **{name: whole(getattr(record, name) for record in records) for name in _COUNTS},
        "duration_seconds": np.array([record.duration_seconds for record in records], np.float64),
        "nodes": coded("+".join(record.nodes) for record in records),
        "raw_path": coded(
            None if raw is None else os.path.join(os.path.dirname(path), raw.path)
            for raw, (_, path) in zip(raws, batch, strict=True)
        ),
        "raw_sha256": coded(None if raw is None else raw.sha256 for raw in raws),
        "source": coded(path for _, path in batch),
        "provenance": Words(np.zeros(len(batch), np.int32), [packed.MEASURED]),
    }
    ranks, threads = columns["ranks"], columns["threads_per_rank"]
    columns["cores"] = np.where((ranks < 0) | (threads < 0), -1, ranks * threads)
    return packed.of_columns(columns, metrics.of_rows([record.metrics for record in records]))
