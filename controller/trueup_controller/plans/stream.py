"""The role stream, planned: kernels to compile, and a case for each kind of stores."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from trueup_node.plan import Convergence, Look, Plan, PlanInputs, Skipped, files_look

_FLAGS = ("-O3", "-march=native", "-fopenmp", "-std=gnu11")
_SOURCE = "roles/stream/files/stream_kernel.c"
# It is on the disk before its name is: after a power loss it would be there without content.
_COMPILE = 'gcc -o "$0.new" "$@" && sync "$0.new" && mv "$0.new" "$0"'
_ENVIRONMENT = {"LC_ALL": "C.UTF-8"}
_OF_STORES = {"streaming": ("-DSTREAMING_STORES",), "regular": ()}


def plan(inputs: PlanInputs) -> Plan:
    """A case for each kind of stores; skipped where the kernel cannot be compiled.

    Values: ``files`` as config_files takes them, and the ``kernels`` to compile: the ``argv`` and
    the file that it ``creates``.
    """
    threads, binding = _placement(inputs)
    can_compile = inputs.node["programs"].get("gcc") or inputs.node["privilege"]
    lacking = (
        "no C compiler gcc on this node, and installing one needs root or sudo without a password"
    )
    return Plan(
        values={"kernels": _kernels(inputs), "files": _files(inputs)},
        skipped=[] if can_compile else [Skipped("stream", lacking)],
        cases=[
            {**inputs.options, "stores": stores, "threads": threads, "binding": binding}
            for stores in inputs.options["stores"]
        ],
    )


def convergence(planned: Mapping[str, Any], _: Mapping[str, Any]) -> Convergence:
    """Whether the kernels are compiled."""
    kernels = [
        Look(
            "ansible.builtin.command",
            {"argv": kernel["argv"], "creates": kernel["creates"]},
            environment=_ENVIRONMENT,
        )
        for kernel in planned["kernels"]
    ]
    return Convergence([files_look(planned["files"]), *kernels])


def _placement(inputs: PlanInputs) -> tuple[int, str]:
    """Threads and binding: the size's own where none are asked for and the catalog has them."""
    threads: int = inputs.options["threads"]
    if threads:
        return threads, "core"
    for row in inputs.catalog("stream_placements.yml"):
        if inputs.node["vm_size"] in row["sizes"]:
            return row["threads"], "l3"
    return inputs.node["cores"] or 0, "core"


def _kernels(inputs: PlanInputs) -> list[dict[str, Any]]:
    """How the kernel of each kind of stores is compiled. The binary's name holds the checksum of
    source and flags, so that an old kernel never passes for a new one."""
    prefix = inputs.options["prefix"]
    kernels = []
    for stores, flags, binary in _binaries(inputs):
        binary_path = f"{prefix}/{binary}"
        # Whole paths, no chdir: in check mode on a fresh node the folder is not there yet.
        argv = ["sh", "-c", _COMPILE, binary_path, f"{prefix}/stream_kernel.c", "-lm", *flags]
        kernels.append({"stores": stores, "argv": argv, "creates": binary_path})
    return kernels


def _files(inputs: PlanInputs) -> list[dict[str, Any]]:
    """The folder, the kernel's source, and a link to each compiled kernel."""
    prefix = inputs.options["prefix"]
    links = [
        {"path": f"{prefix}/stream_kernel-{stores}", "state": "link", "target": binary}
        for stores, _, binary in _binaries(inputs)
    ]
    source = {"path": f"{prefix}/stream_kernel.c", "source": _SOURCE}
    return [{"path": prefix, "state": "directory"}, source, *links]


def _binaries(inputs: PlanInputs) -> Iterator[tuple[str, list[str], str]]:
    """Each kind of stores, the compiler's flags and the name of the compiled kernel."""
    source = inputs.text(_SOURCE)
    for stores in inputs.options["stores"]:
        flags = [*_FLAGS, *_OF_STORES[stores]]
        digest = hashlib.sha256((source + " ".join(flags)).encode()).hexdigest()[:12]
        yield stores, flags, f"stream_kernel-{stores}-{digest}"
