"""Which records are copies: a folder, its packed file and Ansible's fact cache hold the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from . import packed

if TYPE_CHECKING:
    import pandas as pd

_NAMES: Final = ("run_id", "benchmark", "case", "nodes", "started_at", "duration_seconds")
_CONTENT: Final = (
    *("outcome", "reason", "vm_size", "region", "offer", "provenance"),
    *("node_count", "ranks", "threads_per_rank", "gpus", *packed.JSON),
)


def copies(records: pd.DataFrame, figures: pd.DataFrame) -> list[int]:
    """The records that are copies of one before them. Two results are never one: copies agree in
    every field, in every figure, and in the sha256 of the tool's output where both have it."""
    suspects = records[records.duplicated(list(_NAMES), keep=False)]
    if suspects.empty:
        return []
    of_suspects = figures[figures["record"].isin(suspects.index)]
    measured = packed.alike(of_suspects, list(packed.FIGURES)).groupby(of_suspects["record"])
    figures_by_record = measured.agg(tuple).to_dict()
    contents = packed.alike(suspects, [*_NAMES, *_CONTENT])
    outputs: dict[tuple[Any, ...], set[str | None]] = {}
    copied = []
    for record, content, digest in zip(
        suspects.index.tolist(), contents, packed.values(suspects["raw_sha256"]), strict=True
    ):
        key = (content, figures_by_record.get(record, ()))
        earlier = outputs.setdefault(key, set())
        # The fact cache does not hold a tool's own output.
        if digest in earlier or (earlier and None in {digest, *earlier}):
            copied.append(record)
        if digest is not None or not earlier:
            earlier -= {None}
            earlier.add(digest)
    return copied
