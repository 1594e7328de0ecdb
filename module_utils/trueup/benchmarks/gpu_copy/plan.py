"""The role gpu_copy, planned: the tool that the node has, and the one case that it measures."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from ...node.gpu_places import gpu_places
from ...options import for_module
from ...plan import Asked, Plan, Skipped
from .case import OPTIONS, TOOLS

_OLDEST = [3, 9]
_PYTORCH = "pytorch"


def programs(asked: Asked) -> Dict[str, Any]:
    """What preflight asks the node for, as arguments of program_facts."""
    return {
        "programs": [place for tool in _wanted(asked) for place in _places(asked, tool)],
        "python": asked.options["python"],
        "imports": ["torch"],
    }


def plan(asked: Asked) -> Plan:
    """One case of all GPUs and their peers, with the first tool that is there."""
    gpus = asked.node.get("gpus") or []
    masks = asked.options["gpu_masks"]
    if masks and len(masks) != len(gpus):
        return Plan(
            refused=[f"gpu_copy_gpu_masks has {len(masks)} masks for {len(gpus)} GPUs: one each"]
        )
    if not masks:
        size, layouts = asked.node.get("vm_size"), asked.catalog("topologies.yml")
        masks = [place.mask for place in gpu_places(size, len(gpus), layouts)]
    tool, program = _first(asked)
    lacking = _lacking(asked, len(gpus), tool)
    python = asked.found["python"] or {"path": asked.options["python"]}
    case = {
        **for_module(OPTIONS, asked.options),
        # Without any, the case fails with what its tool says.
        "tool": tool or _wanted(asked)[-1],
        "program": program,
        "python": python["path"],
        "gpu_masks": masks,
    }
    return Plan(skipped=[Skipped("gpu_copy", lacking)] if lacking else [], cases=[case])


def _wanted(asked: Asked) -> List[str]:
    tool = asked.options["tool"]
    return [tool] if tool in TOOLS else list(TOOLS)


def _places(asked: Asked, tool: str) -> List[str]:
    """Where a program of CUDA may be: by its name in PATH, then in each folder."""
    if tool == _PYTORCH:
        return []
    return [tool, *(f"{folder}/{tool}" for folder in asked.options["search"])]


def _first(asked: Asked) -> Tuple[Optional[str], Optional[str]]:
    """The first tool that is there, and the path of its program."""
    for tool in _wanted(asked):
        paths = [asked.found["programs"][place] for place in _places(asked, tool)]
        path = next(filter(None, paths), None)
        if path:
            return tool, path
        python = asked.found["python"]
        if tool == _PYTORCH and python and not python["missing"]:
            return tool, None
    return None, None


def _lacking(asked: Asked, gpus: int, tool: Optional[str]) -> str:
    python, found = asked.options["python"], asked.found["python"]
    if gpus == 0:
        return "nvidia-smi and PCI show no GPU"
    if found is None:
        return f"no {python} on this node"
    if found["version"][:2] < _OLDEST:
        return f"{python} is older than 3.9: set gpu_copy_python"
    if tool:
        return ""
    if len(_wanted(asked)) == 1:
        return f"there is no {asked.options['tool']} (gpu_copy_search, gpu_copy_python)"
    return (
        "neither nvbandwidth nor bandwidthTest is in PATH or gpu_copy_search, and"
        f" {python} has no torch"
    )
