"""The record of what a node is and what state it is in."""

from __future__ import annotations

from typing import Any, Dict, Mapping

from ..node import state
from ..record import Record
from .bench import Case


def record_of(given: Mapping[str, Any]) -> Record:
    """What the options of the module node_state come to: ``run_id``, ``node_name``, ``node``,
    ``gpu`` and ``ib``. It is invalid where the last two found something wrong."""
    node: Dict[str, Any] = given["node"]
    gpu, ib = given["gpu"] or None, given["ib"] or None
    case = Case(
        benchmark="node_state",
        run_id=given["run_id"],
        node_name=given["node_name"],
        node=node,
        case="state",
        gpus=len(node.get("gpus") or []),
        software=state.software(node, gpu, ib),
    )
    wrong = state.problems(gpu, ib)
    return case.record(
        "invalid" if wrong else "ok",
        reason=" ".join(wrong) or None,
        metrics=state.metrics(node, gpu, ib),
    )
