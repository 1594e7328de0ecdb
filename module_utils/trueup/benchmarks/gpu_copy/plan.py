"""The role gpu_copy, planned: the tool that the node has, and the one case that it measures."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ...node.gpu_places import gpu_places
from ...node.nccl_setup import gpu_generation
from ...options import for_module
from ...plan import Asked, Plan, Settled, Skipped, files_look
from .case import OPTIONS, TOOLS

_OLDEST = [3, 9]
_PYTORCH = "pytorch"
_BUILT = "nvbandwidth"
_BUILD_TOOLS = ("git", "cmake", "make", "g++")
_BOOST_HEADER = "/usr/include/boost/program_options.hpp"
_MOST_JOBS = 16


def programs(asked: Asked) -> Dict[str, Any]:
    """What preflight asks the node for, as arguments of program_facts."""
    building = [*_BUILD_TOOLS, *_nvcc(asked)] if _may_build(asked) else []
    return {
        "programs": [
            *(place for tool in _wanted(asked) for place in _places(asked, tool)),
            *building,
        ],
        "files": _boost(asked) if building else [],
        "python": asked.options["python"],
        "imports": ["torch"],
    }


def plan(asked: Asked) -> Plan:
    """One case of all GPUs and their peers, with the first tool that is there.

    Values: ``files`` as config_files takes them; ``build`` is empty, or how nvbandwidth is built
    since there is none, as playbooks/tasks/build.yml takes it.
    """
    gpus = asked.node.get("gpus") or []
    masks = asked.options["gpu_masks"]
    if masks and len(masks) != len(gpus):
        return Plan(
            refused=[f"gpu_copy_gpu_masks has {len(masks)} masks for {len(gpus)} GPUs: one each"]
        )
    if not masks:
        size, layouts = asked.node.get("vm_size"), asked.catalog("topologies.yml")
        masks = [place.mask for place in gpu_places(size, len(gpus), layouts)]
    if not re.fullmatch(r"[0-9a-f]{40}", asked.options["source_commit"]):
        told = "give the whole commit, 40 hexadecimal digits; a branch or tag may move"
        return Plan(refused=[f"gpu_copy_source_commit: {told}"])
    tool, program = _first(asked)
    build = [_build(asked)] if gpus and tool is None and not _unbuildable(asked) else []
    if build:
        tool, program = _BUILT, _own(asked)
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
    return Plan(
        values={
            "files": [asked.program("roles/gpu_copy/files/gpu_copy.py")],
            "build": build,
        },
        skipped=[Skipped("gpu_copy", lacking)] if lacking else [],
        cases=[case],
    )


def settled(planned: Mapping[str, Any], _: Mapping[str, Any]) -> Settled:
    """Whether the program is in place, and nothing is to be built."""
    return Settled([files_look(planned["files"])], owed=bool(planned["build"]))


def _wanted(asked: Asked) -> List[str]:
    tool = asked.options["tool"]
    return [tool] if tool in TOOLS else list(TOOLS)


def _places(asked: Asked, tool: str) -> List[str]:
    """Where a program of CUDA may be: by its name in PATH, then in each folder."""
    if tool == _PYTORCH:
        return []
    own = [_own(asked)] if tool == _BUILT else []
    return [tool, *own, *(f"{folder}/{tool}" for folder in asked.options["search"])]


def _source(asked: Asked) -> str:
    """The folder of the source and its build: another for another commit."""
    return f"{asked.options['prefix']}/nvbandwidth-{asked.options['source_commit'][:12]}"


def _own(asked: Asked) -> str:
    return f"{_source(asked)}/build/{_BUILT}"


def _nvcc(asked: Asked) -> List[str]:
    return ["nvcc", f"{asked.options['cuda_home']}/bin/nvcc"]


def _may_build(asked: Asked) -> bool:
    return bool(asked.options["source_repository"]) and _BUILT in _wanted(asked)


def _unbuildable(asked: Asked) -> str:
    """What keeps nvbandwidth from being built, as the end of a sentence; empty where nothing."""
    if not _may_build(asked):
        return "nothing is to be built"
    programs = asked.found["programs"]
    lacking = [name for name in _BUILD_TOOLS if not programs[name]]
    lacking += [] if any(programs[place] for place in _nvcc(asked)) else ["nvcc"]
    if not _has_boost(asked) and not _packages(asked):
        lacking.append("Boost's program_options")
    return f"there is no {', '.join(lacking)} to build nvbandwidth with" if lacking else ""


def _boost(asked: Asked) -> List[str]:
    """The files of Boost's program_options that nvbandwidth is built with: the header, which other
    packages have too, and the library, which it links statically but on Fedora and its kin."""
    machine = asked.node.get("architecture") or "x86_64"
    library = f"/usr/lib/{machine}-linux-gnu/libboost_program_options.a"
    if asked.node.get("package_manager") == "dnf":
        library = "/usr/lib64/libboost_program_options.so"
    return [_BOOST_HEADER, library]


def _has_boost(asked: Asked) -> bool:
    return all(asked.found["files"][path] for path in _boost(asked))


def _packages(asked: Asked) -> List[str]:
    """Packages that are missing and can be installed here."""
    node = asked.node
    if _has_boost(asked) or node.get("privilege") not in ("root", "sudo"):
        return []
    names: List[str] = asked.options["build_packages"].get(node.get("package_manager"), [])
    return names


def _build(asked: Asked) -> Dict[str, Any]:
    programs, made = asked.found["programs"], gpu_generation(asked.node)
    nvcc = next(programs[place] for place in _nvcc(asked) if programs[place])
    # Without it nvbandwidth looks for the GPUs of the machine by a program of its own.
    code = [f"-DCMAKE_CUDA_ARCHITECTURES={made}"] if made else []
    jobs = min(int(asked.node.get("cores") or 1), _MOST_JOBS)
    cmake = programs["cmake"]
    return {
        "repository": asked.options["source_repository"],
        "commit": asked.options["source_commit"],
        "source": _source(asked),
        "made": f"{_source(asked)}/build",
        "packages": _packages(asked),
        "environment": {"LC_ALL": "C"},
        "commands": [
            [cmake, "-S", ".", "-B", "build", f"-DCMAKE_CUDA_COMPILER={nvcc}", *code],
            [cmake, "--build", "build", "--parallel", str(jobs)],
        ],
    }


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
    why = f"; {_unbuildable(asked)}" if _may_build(asked) else ""
    if len(_wanted(asked)) == 1:
        return f"there is no {asked.options['tool']} (gpu_copy_search, gpu_copy_python){why}"
    return (
        "neither nvbandwidth nor bandwidthTest is in PATH or gpu_copy_search,"
        f" {python} has no torch{why}"
    )
