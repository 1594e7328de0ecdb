"""The record of a node's identity and state."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Sequence

from ..node import state
from ..node.watched_log import Count
from ..record import Record
from .bench import Case


def record_of(
    parameters: Mapping[str, Any],
    watched: Optional[Sequence[Count]] = None,
    units: Optional[Sequence[Count]] = None,
) -> Record:
    """The record of the options of the module node_state: ``run_id``, ``node_name``, ``node``,
    ``gpu`` and ``ib``. It is invalid where problems are in the last two.

    Args:
        watched: lines of the kernel log; None where it was not read.
        units: missing units of systemd; None where it was not asked.
    """
    node: Dict[str, Any] = parameters["node"]
    gpu, ib = parameters["gpu"] or None, parameters["ib"] or None
    case = Case(
        benchmark="node_state",
        run_id=parameters["run_id"],
        node_name=parameters["node_name"],
        node=node,
        case="state",
        gpus=len(node.get("gpus") or []),
        software=state.software(node, gpu, ib),
    )
    wrong = state.problems(gpu, ib)
    return case.record(
        "invalid" if wrong else "ok",
        reason=" ".join(wrong) or None,
        metrics=state.metrics(node, gpu, ib, watched, units),
    )
