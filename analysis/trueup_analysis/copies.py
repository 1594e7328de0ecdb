"""Which records are copies: a folder, its packed file and Ansible's fact cache hold the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from . import packed
from .columns import alike, numbered, words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .metrics import Figures

_NAMES: Final = ("run_id", "benchmark", "case", "nodes", "started_at", "duration_seconds")
_CONTENT: Final = (
    *("outcome", "reason", "vm_size", "region", "offer", "provenance"),
    *("node_count", "ranks", "threads_per_rank", "gpus", *packed.JSON),
)
# The fact cache does not hold a tool's own output.
_NO_RAW: Final = -1


def copies(table: packed.Table) -> NDArray[np.int64]:
    """The rows that are copies of a row before them. Two results are never one: copies agree in
    every field, in every figure, and in the sha256 of the tool's output where both have it."""
    names = packed.alike(table, _NAMES)
    suspects = np.flatnonzero(np.bincount(names)[names] > 1)
    if not len(suspects):
        return suspects
    suspect_table = packed.take(table, suspects)
    contents = alike([names[suspects], packed.alike(suspect_table, _CONTENT)]).tolist()
    figures, starts = _coded(suspect_table.figures), suspect_table.figures.starts.tolist()
    digests = words(packed.column(suspect_table, "raw_sha256")).codes.tolist()
    outputs: dict[tuple[int, bytes], set[int]] = {}
    copied = []
    for position, (content, digest) in enumerate(zip(contents, digests, strict=True)):
        measured = figures[starts[position] : starts[position + 1]].tobytes()
        earlier = outputs.setdefault((content, measured), set())
        if digest in earlier or (earlier and _NO_RAW in {digest, *earlier}):
            copied.append(position)
        if digest != _NO_RAW or not earlier:
            earlier -= {_NO_RAW}
            earlier.add(digest)
    return suspects[copied]


def _coded(figures: Figures) -> NDArray[np.int64]:
    """One number for each figure, the same for equal ones."""
    texts = [column.codes for column in (figures.name, figures.unit, figures.direction)]
    texts += [figures.device.codes, figures.statistic.codes]
    numbers = (figures.message_bytes, figures.n, figures.value)
    return alike([*texts, *map(numbered, numbers)])
