"""The role gemm, planned: what a node cannot have, and the one case that it measures."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional

from ...node.gpu_places import gpu_places
from ...plan import Asked, Plan, Settled, Skipped, files_look

_OLDEST = [3, 9]


def programs(asked: Asked) -> Dict[str, Any]:
    """What preflight asks the node for, as arguments of program_facts."""
    return {"python": asked.options["python"], "imports": ["torch"]}


def plan(asked: Asked) -> Plan:
    """One case of every GPU at once, or of each in turn.

    Values: ``files`` as config_files takes them.
    """
    gpus = asked.node.get("gpus") or []
    masks = asked.options["gpu_masks"]
    if masks and len(masks) != len(gpus):
        return Plan(
            refused=[f"gemm_gpu_masks holds {len(masks)} masks for {len(gpus)} GPUs: one each"]
        )
    lacking = _lacking(asked.options["python"], len(gpus), asked.found.get("python"))
    if not masks:
        size, layouts = asked.node.get("vm_size"), asked.catalog("topologies.yml")
        masks = [place.mask for place in gpu_places(size, len(gpus), layouts)]
    return Plan(
        values={"files": [asked.program("roles/gemm/files/gemm.py")]},
        skipped=[Skipped("gemm", lacking)] if lacking else [],
        cases=[{**asked.options, "gpu_masks": masks}],
    )


def settled(planned: Mapping[str, Any], _: Mapping[str, Any]) -> Settled:
    """Whether the program is in place."""
    return Settled([files_look(planned["files"])])


def _lacking(python: str, gpus: int, found: Optional[Mapping[str, Any]]) -> str:
    if gpus == 0:
        return "nvidia-smi and PCI show no GPU"
    if found is None:
        return f"no {python} on this node"
    version: List[int] = found["version"]
    if version[:2] < _OLDEST:
        return (
            f"{found['path']} is Python {version[0]}.{version[1]}, older than 3.9: set gemm_python"
        )
    if found["missing"]:
        return f"{found['path']} has no torch: set gemm_python to a Python that has it"
    return ""
