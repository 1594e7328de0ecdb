"""The toy benchmark as a case: its options, and its plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Dict

from ...options import Option
from ...plan import Plan, PlanInputs, Skipped

OPTIONS = (
    Option("mib", "How much is copied, in MiB.", 64, why="Takes some 10 ms.", least=1),
    Option("timeout_seconds", "Time limit of the case in seconds.", 60, least=1),
)


def programs(asked: PlanInputs) -> Dict[str, Any]:
    """What preflight looks for."""
    return {"programs": ["dd"]}


def plan(asked: PlanInputs) -> Plan:
    """One case."""
    found: Mapping[str, Any] = asked.found["programs"]
    lacking = [] if found["dd"] else [Skipped("toy", "no dd on this node")]
    return Plan(skipped=lacking, cases=[dict(asked.options)])
