"""The role dcgm, planned: a case of the level, one of the arithmetic that the level lacks, and one
of thermal stress on request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trueup_node.benchmarks.dcgm.case import (
    ARITHMETIC_LEVEL,
    DCGMI,
    LEAST_LIMIT,
    LIMITS,
    STRESS,
)
from trueup_node.plan import Convergence, Plan, PlanInputs, Skipped

# Azure's image has one of them (thermal_test.sh looks for 13 and 12).
_STRESS_PROGRAMS = ("dcgmproftester13", "dcgmproftester12", "dcgmproftester11")
_STRESS_MORE_SECONDS = 300


def programs(inputs: PlanInputs) -> dict[str, Any]:
    """Programs that preflight looks for, as arguments of program_facts."""
    return {"programs": [DCGMI, *_stress_programs(inputs)]}


def plan(inputs: PlanInputs) -> Plan:
    """One to three cases."""
    options = inputs.options
    level, seconds = options["level"], options["arithmetic_seconds"]
    limit = options["timeout_seconds"]
    if 0 < limit < LEAST_LIMIT:
        return Plan(refused=[f"dcgm_timeout_seconds is {limit}: it must be 0, or 60 or more"])
    same = {"program": DCGMI, "level": level}
    cases: list[dict[str, Any]] = [{**same, "timeout_seconds": limit or LIMITS[level]}]
    if seconds and level < ARITHMETIC_LEVEL:
        longest = limit or LIMITS[2] + seconds
        cases.append({**same, "test_seconds": seconds, "timeout_seconds": longest})
    lacking = _lacking(inputs)
    if lacking:
        return Plan(skipped=[Skipped("dcgm", lacking)], cases=cases)
    stress = options["stress_seconds"]
    names = _stress_programs(inputs)
    program = next((name for name in names if inputs.found["programs"].get(name)), "")
    if stress and not program:
        missing = f"no {', '.join(names)} on this node: set dcgm_stress_program"
        return Plan(skipped=[Skipped(f"dcgm {STRESS}-{stress}s", missing)], cases=cases)
    if stress:
        longest = limit or stress + _STRESS_MORE_SECONDS
        cases.append(
            {**same, "program": program, "stress_seconds": stress, "timeout_seconds": longest}
        )
    return Plan(cases=cases)


def convergence(_planned: Mapping[str, Any], _variables: Mapping[str, Any]) -> Convergence:
    """The role installs nothing."""
    return Convergence()


def _stress_programs(inputs: PlanInputs) -> Sequence[str]:
    options = inputs.options
    if not options["stress_seconds"]:
        return ()
    return (options["stress_program"],) if options["stress_program"] else _STRESS_PROGRAMS


def _lacking(inputs: PlanInputs) -> str:
    if not inputs.node.get("gpus"):
        return "nvidia-smi and PCI show no GPU"
    if inputs.found["programs"].get(DCGMI):
        return ""
    return f"no {DCGMI} on this node: install datacenter-gpu-manager-4 (role gpu_driver)"
