"""The catalog's layouts of GPUs and adapters; the rules are trueup_node.nccl_topology's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trueup_node.errors import BadInput, ParseError
from trueup_node.node.nccl_topology import Finding, Layout, layout_of, read_layouts, reason_without
from trueup_node.node.topology import format_cpu_list, parse_cpu_list
from trueup_node.suggest import nearest

from .. import catalog

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from ..read import Reading

# The tool whose matrix is held against a layout.
MATRIX = "topo"
_COMPARE = "compare with another node of the size; report the node if it alone differs"


def read(path: Path, size: str = "") -> dict[str, Layout]:
    """The layouts of topologies.yml by name.

    Raises:
        BadInput: the file cannot be read, a layout is wrong, or ``size`` is to have no file.
    """
    document = catalog.document(path)
    layouts = read_layouts(document)
    reason = reason_without(document, size)
    if reason:
        message = f"{size} is to have no topology file: {reason}; unset NCCL_TOPO_FILE there"
        raise BadInput(message)
    return layouts


def layout_for(size: str, layouts: Mapping[str, Layout]) -> Layout:
    """The layout of a size.

    Raises:
        BadInput: the catalog has none; says which sizes it has.
    """
    layout = layout_of(size, layouts)
    if layout is not None:
        return layout
    sizes = [layout_size for item in layouts.values() for layout_size in item.sizes]
    near = nearest(size, sizes)
    hint = "" if near is None else f"did you mean {near}? "
    message = f"no topology is known for size {size}; {hint}It is for {', '.join(sizes)}"
    raise BadInput(message)


def matrix_findings(reading: Reading, layout: Layout) -> list[Finding]:
    """Differences of a matrix of nvidia-smi topo -m from a layout: GPUs, their cores, and the
    adapter beside each."""
    gpus = reading.resources.get("gpus", 0)
    cores = layout.gpu_cores()
    findings = []
    if gpus != len(cores):
        findings.append(
            Finding(
                "error",
                "count",
                "the matrix",
                f"it has {gpus} GPUs, and the size {len(cores)}",
                "work that needs all GPUs does not start, or runs slower",
                "look for the GPU in nvidia-smi -L and the kernel's log; report the node",
            )
        )
    for number in sorted(cores):
        findings += _cores_finding(reading, number, set(cores[number]))
        findings += _adapter_finding(reading, number)
    return findings


def _cores_finding(reading: Reading, number: int, expected: set[int]) -> Iterator[Finding]:
    text = reading.parameters.get(f"gpu{number}_cores")
    if text is None:
        return
    try:
        cores = set(parse_cpu_list(text))
    except ParseError:
        return
    if cores != expected:
        yield Finding(
            "error",
            "affinity",
            f"GPU{number}",
            f"cores {format_cpu_list(cores)} are near it, and {format_cpu_list(expected)} on the"
            " size",
            "a rank that is pinned by the size's masks runs beside another GPU",
            _COMPARE,
        )


def _adapter_finding(reading: Reading, number: int) -> Iterator[Finding]:
    """Whether the adapter of the GPU's number is among the nearest, where adapters are named."""
    link, _, names = reading.parameters.get(f"gpu{number}_near", "").partition(": ")
    own = f"mlx5_ib{number}"
    named = [name for name in names.split() if name.startswith("mlx5_ib")]
    if named and own not in named:
        yield Finding(
            "error",
            "adapter",
            f"GPU{number}",
            f"{', '.join(named)} are nearest to it ({link}), and not {own}",
            "NCCL sends through an adapter of another NUMA node",
            _COMPARE,
        )
