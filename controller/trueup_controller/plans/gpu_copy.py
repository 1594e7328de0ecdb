"""The role gpu_copy, planned: the tool that the node has, and the one case that it measures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trueup_node.benchmarks.gpu_copy.case import OPTIONS, TOOLS
from trueup_node.node.gpu_places import gpu_places
from trueup_node.options import for_module
from trueup_node.plan import Convergence, Plan, PlanInputs, Skipped, files_look

from .nccl_setup import gpu_generation

_OLDEST = [3, 9]
_PYTORCH = "pytorch"
_BUILT = "nvbandwidth"
_BUILD_TOOLS = ("git", "cmake", "make", "g++")
# The first is where Azure's images for GB200 and GB300 have nvbandwidth; those for A100, H100 and
# H200 have neither tool (Azure/azhpc-images@8e9d055).
_FOLDERS = (
    "/opt/nvidia/nvbandwidth",
    "/usr/local/bin",
    "/usr/local/cuda/extras/demo_suite",
    "/usr/local/cuda/samples/bin/x86_64/linux/release",
)
# Tag v0.8, whose output and source this project has read.
_COMMIT = "66746a3bef61c8c2e12ab34955310da70b9e38cb"
# Azure's images link /usr/local/cuda to the release that they have.
_NVCC = ("nvcc", "/usr/local/cuda/bin/nvcc")
# Boost's program_options, header and library, by package manager.
_BOOST_PACKAGES = {"apt": ["libboost-program-options-dev"], "dnf": ["boost-devel"]}
_BOOST_HEADER = "/usr/include/boost/program_options.hpp"
_MOST_JOBS = 16


def programs(inputs: PlanInputs) -> dict[str, Any]:
    """Preflight queries for the node, as arguments of program_facts."""
    building = [*_BUILD_TOOLS, *_NVCC] if _may_build(inputs) else []
    return {
        "programs": [
            *(candidate for tool in _wanted(inputs) for candidate in _places(inputs, tool)),
            *building,
        ],
        "files": _boost(inputs) if building else [],
        "python": inputs.options["python"],
        "imports": ["torch"],
    }


def plan(inputs: PlanInputs) -> Plan:
    """One case of all GPUs and their peers, with the first tool that is there.

    Values: ``files`` as config_files takes them; ``build`` is empty, or how nvbandwidth is built
    since there is none, as playbooks/tasks/build.yml takes it.
    """
    gpus = inputs.node.get("gpus") or []
    size, layouts = inputs.node.get("vm_size"), inputs.catalog("topologies.yml")
    masks = [gpu.mask for gpu in gpu_places(size, len(gpus), layouts)]
    tool, program = _first(inputs)
    build = [_build(inputs)] if gpus and tool is None and not _unbuildable(inputs) else []
    if build:
        tool, program = _BUILT, _own(inputs)
    lacking = _lacking(inputs, len(gpus), tool)
    python = inputs.found["python"] or {"path": inputs.options["python"]}
    case = {
        **for_module(OPTIONS, inputs.options),
        # Without any, the case fails with its tool's message.
        "tool": tool or _wanted(inputs)[-1],
        "program": program,
        "python": python["path"],
        "gpu_masks": masks,
    }
    return Plan(
        values={
            "files": [inputs.program("roles/gpu_copy/files/gpu_copy.py")],
            "build": build,
        },
        skipped=[Skipped("gpu_copy", lacking)] if lacking else [],
        cases=[case],
    )


def convergence(planned: Mapping[str, Any], _: Mapping[str, Any]) -> Convergence:
    """Whether the program is in place, and nothing is to be built."""
    return Convergence([files_look(planned["files"])], has_work=bool(planned["build"]))


def _wanted(inputs: PlanInputs) -> list[str]:
    tool = inputs.options["tool"]
    return [tool] if tool in TOOLS else list(TOOLS)


def _places(inputs: PlanInputs, tool: str) -> list[str]:
    """Where a program of CUDA may be: by its name in PATH, then in each folder."""
    if tool == _PYTORCH:
        return []
    built_paths = [_own(inputs)] if tool == _BUILT else []
    return [tool, *built_paths, *(f"{folder}/{tool}" for folder in _FOLDERS)]


def _source(inputs: PlanInputs) -> str:
    """The folder of the source and its build: another for another commit."""
    return f"{inputs.options['prefix']}/nvbandwidth-{_COMMIT[:12]}"


def _own(inputs: PlanInputs) -> str:
    return f"{_source(inputs)}/build/{_BUILT}"


def _may_build(inputs: PlanInputs) -> bool:
    return bool(inputs.options["source_repository"]) and _BUILT in _wanted(inputs)


def _unbuildable(inputs: PlanInputs) -> str:
    """Why nvbandwidth cannot be built, as the end of a sentence; empty where it can."""
    if not _may_build(inputs):
        return "nothing is to be built"
    programs = inputs.found["programs"]
    lacking = [name for name in _BUILD_TOOLS if not programs[name]]
    lacking += [] if any(programs[candidate] for candidate in _NVCC) else ["nvcc"]
    if not _has_boost(inputs) and not _packages(inputs):
        lacking.append("Boost's program_options")
    return f"there is no {', '.join(lacking)} to build nvbandwidth with" if lacking else ""


def _boost(inputs: PlanInputs) -> list[str]:
    """The files of Boost's program_options that nvbandwidth is built with: the header, which other
    packages have too, and the library, which it links statically but on Fedora and its kin."""
    machine = inputs.node.get("architecture") or "x86_64"
    library = f"/usr/lib/{machine}-linux-gnu/libboost_program_options.a"
    if inputs.node.get("package_manager") == "dnf":
        library = "/usr/lib64/libboost_program_options.so"
    return [_BOOST_HEADER, library]


def _has_boost(inputs: PlanInputs) -> bool:
    return all(inputs.found["files"][path] for path in _boost(inputs))


def _packages(inputs: PlanInputs) -> list[str]:
    """Packages that are missing and can be installed here."""
    node = inputs.node
    if _has_boost(inputs) or node.get("privilege") not in ("root", "sudo"):
        return []
    return _BOOST_PACKAGES.get(str(node.get("package_manager")), [])


def _build(inputs: PlanInputs) -> dict[str, Any]:
    programs, cuda_arch = inputs.found["programs"], gpu_generation(inputs.node)
    nvcc = next(programs[candidate] for candidate in _NVCC if programs[candidate])
    # Without it nvbandwidth looks for the GPUs of the machine by a program of its own.
    code = [f"-DCMAKE_CUDA_ARCHITECTURES={cuda_arch}"] if cuda_arch else []
    jobs = min(int(inputs.node.get("cores") or 1), _MOST_JOBS)
    cmake = programs["cmake"]
    return {
        "repository": inputs.options["source_repository"],
        "commit": _COMMIT,
        "source": _source(inputs),
        "made": f"{_source(inputs)}/build",
        "packages": _packages(inputs),
        "environment": {"LC_ALL": "C"},
        "commands": [
            [cmake, "-S", ".", "-B", "build", f"-DCMAKE_CUDA_COMPILER={nvcc}", *code],
            [cmake, "--build", "build", "--parallel", str(jobs)],
        ],
    }


def _first(inputs: PlanInputs) -> tuple[str | None, str | None]:
    """The first tool that is there, and the path of its program."""
    for tool in _wanted(inputs):
        paths = [inputs.found["programs"][candidate] for candidate in _places(inputs, tool)]
        path = next(filter(None, paths), None)
        if path:
            return tool, path
        python = inputs.found["python"]
        if tool == _PYTORCH and python and not python["missing"]:
            return tool, None
    return None, None


def _lacking(inputs: PlanInputs, gpus: int, tool: str | None) -> str:
    python, python_facts = inputs.options["python"], inputs.found["python"]
    if gpus == 0:
        return "nvidia-smi and PCI show no GPU"
    if python_facts is None:
        return f"no {python} on this node"
    if python_facts["version"][:2] < _OLDEST:
        return f"{python} is older than 3.9: set gpu_copy_python"
    if tool:
        return ""
    build_note = f"; {_unbuildable(inputs)}" if _may_build(inputs) else ""
    if len(_wanted(inputs)) == 1:
        return f"there is no {inputs.options['tool']} (PATH, gpu_copy_python){build_note}"
    return (
        "neither nvbandwidth nor bandwidthTest is in PATH or its usual folders,"
        f" {python} has no torch{build_note}"
    )
