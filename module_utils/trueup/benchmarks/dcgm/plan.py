"""The role dcgm, planned: a case of the level, and one of the arithmetic that the level lacks."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping

from ...plan import Asked, Plan, Settled, Skipped
from .case import ARITHMETIC_LEVEL, LEAST_LIMIT, LIMITS


def programs(asked: Asked) -> Dict[str, Any]:
    """Programs that preflight looks for, as arguments of program_facts."""
    return {"programs": [asked.options["program"]]}


def plan(asked: Asked) -> Plan:
    """One case or two."""
    options = asked.options
    level, seconds = options["level"], options["arithmetic_seconds"]
    limit = options["timeout_seconds"]
    if 0 < limit < LEAST_LIMIT:
        return Plan(refused=[f"dcgm_timeout_seconds is {limit}: it must be 0, or 60 or more"])
    same = {"program": options["program"], "level": level}
    cases: List[Dict[str, Any]] = [{**same, "timeout_seconds": limit or LIMITS[level]}]
    if seconds and level < ARITHMETIC_LEVEL:
        longest = limit or LIMITS[2] + seconds
        cases.append({**same, "test_seconds": seconds, "timeout_seconds": longest})
    lacking = _lacking(asked)
    return Plan(skipped=[Skipped("dcgm", lacking)] if lacking else [], cases=cases)


def settled(_planned: Mapping[str, Any], _variables: Mapping[str, Any]) -> Settled:
    """The role installs nothing."""
    return Settled()


def _lacking(asked: Asked) -> str:
    if not asked.node.get("gpus"):
        return "nvidia-smi and PCI show no GPU"
    program = asked.options["program"]
    if asked.found["programs"].get(program):
        return ""
    return (
        f"no {program} on this node: install datacenter-gpu-manager-4 (role gpu_driver), or set"
        " dcgm_program"
    )
