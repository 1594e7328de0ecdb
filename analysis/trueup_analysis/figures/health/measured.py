"""The cases to judge: the records that were read, or one tool's output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trueup_node.cases import Case, Figure
from trueup_node.health.verdicts import latest

from ...cases import read_cases
from ...read import nodes_of, slug
from ...selection import run_ids

if TYPE_CHECKING:
    from ...load import Loaded
    from ...read import Reading


def cases(loaded: Loaded, *, as_size: str | None = None) -> list[Case]:
    """The last case of each kind on each node (a repaired node is judged by its newest result).

    Args:
        loaded: the records.
        as_size: the size that every record is judged as, instead of its own.
    """
    return latest(read_cases(loaded, as_size=as_size), run_ids(loaded))


def of_reading(reading: Reading, size: str, node_count: int | None) -> Case:
    """A tool's output as a case on ``node_count`` nodes of a size; without a number, on as many as
    the output says.

    Figures that could not be verified count as not measured.
    """
    outcome, reason = reading.outcome()
    count = node_count or reading.resources.get("nodes")
    return Case(
        nodes=tuple(reading.hosts or nodes_of(slug(reading.source), count)),
        node_count=count,
        vm_size=size,
        benchmark=reading.tool,
        case=reading.source,
        outcome=outcome,
        reason=reason,
        parameters=reading.parameters,
        # Each rank of nccl-tests has a GPU.
        gpus=reading.resources.get("gpus"),
        software={},
        figures=[
            Figure(**{name: row[name] for name in Figure._fields if name in row})
            for row in reading.rows
        ],
    )
