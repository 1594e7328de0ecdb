"""Results that others published, as points of the kinds of work."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from ..evidence import names, rows
from .estimates import PUBLISHED, Evidence
from .knowledge import number

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..evidence.rows import Result, Row
    from .knowledge import Knowledge

# Operations of a token for each parameter: forward, and twice backward.
_PASSES: Final = 6
_SHORT: Final = 8192


class Trained(NamedTuple):
    """A published rate of pre-training a dense model.

    Attributes:
        rate: model flop/s of all GPUs.
    """

    row: Row
    size: str
    nodes: int
    rate: float
    evidence: Evidence


def trained(knowledge: Knowledge) -> Iterator[Trained]:
    """Results of pre-training in BF16 and FP8. A rate of tokens counts six operations for each
    parameter of the model, without attention: of long samples it is left out."""
    by_name = names.models(knowledge.folder)
    for result in results(knowledge):
        row, size = result.row, size_of(result.row.hardware, knowledge)
        figures = by_name.get(row.model)
        if (
            row.kind != rows.TRAINING
            or not row.scenario.startswith("pre-training")
            or row.precision not in ("", "bf16", "fp8")
            or size is None
            or figures is None
            or figures["experts"]
        ):
            continue
        short = row.tokens_in <= _SHORT
        tokens = result.figures.get(rows.TRAINED_PER_GPU, 0.0) if short else 0.0
        each = result.figures.get(rows.MODEL_FLOPS) or tokens * _PASSES * int(figures["parameters"])
        if each:
            gpus = int(number(knowledge.sizes[size], "gpus") or 1)
            nodes = math.ceil(row.count / gpus)
            yield Trained(row, size, nodes, each * row.count, evidence_of(row))


def evidence_of(row: Row) -> Evidence:
    commit = f"@{row.commit}" if row.commit else ""
    return Evidence(PUBLISHED, f"{row.publisher}: {row.repository}{commit}", row.date)


def size_of(gpu: str, knowledge: Knowledge) -> str | None:
    """The catalog's size with the most of these GPUs; None where it has none."""
    return knowledge.once(("size of", gpu), lambda: _size_of(gpu, knowledge))


def _size_of(gpu: str, knowledge: Knowledge) -> str | None:
    having = [
        (-(number(row, "gpus") or 0), size)
        for size, row in knowledge.sizes.items()
        if row["gpu_model"] == gpu and row["gpu_fraction"] == "1"
    ]
    return min(having)[1] if having else None


def results(knowledge: Knowledge) -> Sequence[Result]:
    return knowledge.once("evidence", lambda: rows.results(rows.read(knowledge.folder)))
