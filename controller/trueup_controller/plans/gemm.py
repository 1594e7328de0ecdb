"""The role gemm, planned: why a node cannot have it, and the one case that it measures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trueup_node.node.gpu_places import gpu_places
from trueup_node.plan import Convergence, Plan, PlanInputs, Skipped, files_look

_OLDEST = [3, 9]


def programs(inputs: PlanInputs) -> dict[str, Any]:
    """Preflight queries for the node, as arguments of program_facts."""
    return {"python": inputs.options["python"], "imports": ["torch"]}


def plan(inputs: PlanInputs) -> Plan:
    """One case of every GPU at once, or of each in turn.

    Values: ``files`` as config_files takes them.
    """
    gpus = inputs.node.get("gpus") or []
    lacking = _lacking(inputs.options["python"], len(gpus), inputs.found.get("python"))
    size, layouts = inputs.node.get("vm_size"), inputs.catalog("topologies.yml")
    masks = [gpu.mask for gpu in gpu_places(size, len(gpus), layouts)]
    return Plan(
        values={"files": [inputs.program("roles/gemm/files/gemm.py")]},
        skipped=[Skipped("gemm", lacking)] if lacking else [],
        cases=[{**inputs.options, "gpu_masks": masks}],
    )


def convergence(planned: Mapping[str, Any], _: Mapping[str, Any]) -> Convergence:
    """Whether the program is in place."""
    return Convergence([files_look(planned["files"])])


def _lacking(python: str, gpus: int, python_facts: Mapping[str, Any] | None) -> str:
    if gpus == 0:
        return "nvidia-smi and PCI show no GPU"
    if python_facts is None:
        return f"no {python} on this node"
    version: list[int] = python_facts["version"]
    if version[:2] < _OLDEST:
        return (
            f"{python_facts['path']} is Python {version[0]}.{version[1]}, older than 3.9: set"
            f" gemm_python"
        )
    if python_facts["missing"]:
        return f"{python_facts['path']} has no torch: set gemm_python to a Python that has it"
    return ""
