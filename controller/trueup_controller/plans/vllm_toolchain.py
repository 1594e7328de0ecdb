"""Libraries and tools of a server when it starts, and where its unit lets it look.

Of the wheels of vLLM 0.32.0 and FlashInfer 0.7.0.post1: FlashInfer's sampler is warmed up at each
start, which runs ``ninja`` by PATH even where its kernels are built (flashinfer/jit/cpp_ext.py),
and that ``c++`` and CUDA_HOME/bin/nvcc, against cuRAND's header, and links CUDA's runtime. DeepGEMM
runs the same nvcc, Triton a C compiler with Python.h. On CPUs torch.compile runs ``g++`` with
Python.h, and vLLM ``lscpu``. FlashInfer's built kernels (flashinfer-jit-cache) are not on PyPI, and
those of flashinfer-cubin end there before this version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

# systemd's PATH for a service that names none (systemd.exec(5)), and the system's own.
_SYSTEM = (
    *("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin"),
    *("/sbin", "/bin"),
)
# Programs of the pins, and programs that the system must have.
_OWN = {"cuda": ("ninja",), "cpu": ()}
_SYSTEMS = {"cuda": ("gcc", "c++"), "cpu": ("g++", "lscpu")}
# The package of each missing program, by package manager; with g++ comes gcc.
_PACKAGES = {"apt": {"lscpu": "util-linux"}, "dnf": {"lscpu": "util-linux"}}
_COMPILER = {"apt": "g++", "dnf": "gcc-c++"}
# CUDA's toolkit, which NVIDIA's packages link to the newest; and below it one file of each package
# that is needed (nvcc, cudart-dev, curand-dev).
_CUDA_HOME = "/usr/local/cuda"
_TOOLKIT = ("bin/nvcc", "lib64/libcudart.so", "include/curand.h")
# A server without FlashInfer's sampler: PyTorch's is slower.
_SAMPLER = "VLLM_USE_FLASHINFER_SAMPLER"


class Toolchain(NamedTuple):
    """Programs that servers of one node find by their units' variables alone.

    Attributes:
        build: of vLLM, cuda or cpu.
        venv: the environment's folder.
        compiles_cuda: whether a server compiles for GPUs when it starts.
    """

    build: str
    venv: str
    compiles_cuda: bool

    @property
    def variables(self) -> dict[str, str]:
        """The environment's programs go before the system's."""
        cuda = [f"{_CUDA_HOME}/bin"] if self.build == "cuda" else []
        path = ":".join([f"{self.venv}/bin", *cuda, *_SYSTEM])
        return {"PATH": path, **({"CUDA_HOME": _CUDA_HOME} if cuda else {})}

    @property
    def own(self) -> list[str]:
        """Programs that the pins bring."""
        return list(_OWN[self.build])

    @property
    def programs(self) -> dict[str, list[str]]:
        """Of each program of the system, the places in which it may be."""
        return {name: [f"{folder}/{name}" for folder in _SYSTEM] for name in _SYSTEMS[self.build]}

    @property
    def files(self) -> list[str]:
        """Files of CUDA's toolkit that must be there."""
        names = _TOOLKIT if self.compiles_cuda else ()
        return [f"{_CUDA_HOME}/{name}" for name in names]

    @property
    def question(self) -> dict[str, list[str]]:
        """Preflight queries for the node, as arguments of program_facts."""
        places = [candidate for candidates in self.programs.values() for candidate in candidates]
        return {"programs": places, "files": self.files}

    def missing(self, facts: Mapping[str, Any]) -> list[str]:
        """Programs of the system that the node does not have."""
        program_paths = facts.get("programs") or {}
        return [
            name
            for name, places in self.programs.items()
            if not any(program_paths.get(candidate) for candidate in places)
        ]

    def packages(self, facts: Mapping[str, Any], manager: str) -> list[str]:
        """Packages of the missing programs."""
        package_names = _PACKAGES.get(manager, {})
        named = [
            package_names.get(name, _COMPILER.get(manager, "")) for name in self.missing(facts)
        ]
        return [name for name in dict.fromkeys(named) if name]

    def without_toolkit(self, facts: Mapping[str, Any]) -> list[str]:
        """Why no server can start for want of CUDA's toolkit, as a sentence; none where it can."""
        present_files = facts.get("files") or {}
        lacks = [path for path in self.files if not present_files.get(path)]
        if not lacks:
            return []
        reason = (
            f"there is no {' and no '.join(lacks)}, which FlashInfer and DeepGEMM compile with when"
            " a server starts: install CUDA's toolkit of the driver's version (package"
            f" cuda-toolkit-13-0), link {_CUDA_HOME} to one, or give a recipe without DeepGEMM and"
            f' DeepEP the environment {_SAMPLER}: "0"'
        )
        return [reason]


def compiles_cuda(recipes: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a server of these recipes compiles for GPUs when it starts: all but those that do
    without FlashInfer's sampler and have no kernels that are no wheels."""
    return any(
        recipe["device"] == "cuda"
        and (
            recipe["environment"].get(_SAMPLER) != "0"
            or any(kernel["kind"] != "pip" for kernel in recipe["kernels"])
        )
        for recipe in recipes
    )
