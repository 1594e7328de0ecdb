"""The GPU copy benchmark as a case: the CPUs beside each GPU, and whether a run counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ...errors import BadInput, ParseError
from ...node.sysfs import text_of
from ...node.topology import Topology, format_cpu_list, parse_cpu_mask
from ...options import ModuleOption, Option, RoleOption, time_limit
from .output import GpuCopyOutput

# GPU numbers are then those of nvidia-smi, on every run.
ENVIRONMENT = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
# Programs that can measure, the best first.
TOOLS = ("nvbandwidth", "bandwidthTest", "pytorch")

OPTIONS = (
    Option(
        "prefix",
        "Folder on the node for the program that runs the tool once for each GPU.",
        "~/.local/share/trueup/gpu_copy",
        type="path",
        why="Yours without root.",
    ),
    RoleOption(
        "tool",
        "What measures; first_found: the first of the others that the node has, and where it has"
        " none the nvbandwidth that is built. bandwidthTest is in the CUDA samples up to 12.8, and"
        " has no figures of peers.",
        "first_found",
        choices=("first_found", *TOOLS),
    ),
    ModuleOption("tool", "What measures.", choices=TOOLS, required=True),
    RoleOption(
        "source_repository",
        "nvbandwidth's source, built into gpu_copy_prefix where the node has no tool but git,"
        " cmake, make, g++ and nvcc; a mirror will do. Empty: nothing is built.",
        "https://github.com/NVIDIA/nvbandwidth.git",
    ),
    ModuleOption("program", "Path of nvbandwidth or bandwidthTest.", type="path"),
    Option(
        "python",
        "Python that runs the role's program, 3.9 or newer; for pytorch one that has torch.",
        "python3",
    ),
    ModuleOption(
        "gpu_masks",
        "Hexadecimal masks of the CPUs beside each GPU, in PCI order; empty: the role takes those"
        " of catalog/topologies.yml for the node's size, and what sysfs says where it has none."
        " Where sysfs does not say, nothing is bound and the record's binding is none.",
        [],
    ),
    ModuleOption(
        "samples",
        "Samples of each figure; bandwidthTest has a number of its own.",
        5,
        why="nvbandwidth's own default is 3.",
        least=3,
    ),
    ModuleOption(
        "peers",
        "Which way peers are measured with nvbandwidth: read is what Azure's node health checks"
        " take, none leaves them out. PyTorch writes.",
        "read",
        choices=("read", "write", "none"),
    ),
    time_limit(900, "the case", reason="8 GPUs: 8 runs of some 10 s and one of 56 pairs."),
)


class Beside:
    """The CPUs beside each GPU.

    Attributes:
        cpus: for each GPU by number, a list such as ``24-47``.
        known: the NUMA node of every GPU is known; otherwise some may run on all CPUs.
    """

    def __init__(self, cpus: Sequence[str], *, is_known: bool) -> None:
        self.cpus: List[str] = list(cpus)
        self.known = is_known

    @property
    def binding(self) -> str:
        """``numa``, or ``none`` where a GPU's NUMA node is not known."""
        return "numa" if self.known else "none"


def cpus_beside(
    gpus: Sequence[Mapping[str, Any]],
    masks: Sequence[str],
    topology: Topology,
    sysfs_root: str = "/sys",
) -> Beside:
    """The CPUs that each GPU's program is to run on.

    Args:
        gpus: of the node, in PCI order, each with its address ``pci``.
        masks: hexadecimal CPU masks, one a GPU, as the catalog knows them for a VM size; empty to
            take the CPUs that sysfs gives for each address.
        topology: the machine's usable CPUs.
        sysfs_root: where sysfs is mounted.

    Raises:
        BadInput: no GPU, another number of masks than GPUs, or a mask of which no CPU may be used.
    """
    if not gpus:
        raise BadInput("the node shows no GPU: nothing to measure")
    if masks and len(masks) != len(gpus):
        raise BadInput(f"{len(masks)} CPU masks for {len(gpus)} GPUs: give one a GPU, or none")
    cpu_lists: List[str] = []
    is_known = True
    for number, gpu in enumerate(gpus):
        if masks:
            cpu_lists.append(_masked(number, str(masks[number]), topology))
            continue
        node = _numa_node(sysfs_root, str(gpu.get("pci", "")))
        if node is None and len(topology.numa) == 1:
            node = next(iter(topology.numa))
        # A node without usable CPUs is as good as an unknown one.
        node_cpus = topology.numa.get(-1 if node is None else node)
        is_known = is_known and node_cpus is not None
        cpu_lists.append(format_cpu_list(node_cpus or topology.cpus))
    return Beside(cpu_lists, is_known=is_known)


def _masked(number: int, mask: str, topology: Topology) -> str:
    """The CPUs of a GPU's mask that may be used."""
    try:
        usable = [cpu for cpu in parse_cpu_mask(mask) if cpu in topology.cpus]
    except ParseError as error:
        raise BadInput(f"mask of GPU {number}: {error}") from None
    if not usable:
        raise BadInput(f"mask of GPU {number}: none of its CPUs may be used here")
    return format_cpu_list(usable)


def _numa_node(sysfs_root: str, pci: str) -> Optional[int]:
    """A PCI device's NUMA node; None where the machine does not say (-1, or no such file)."""
    text = text_of(Path(sysfs_root, "bus", "pci", "devices", pci, "numa_node"))
    return int(text) if text.isdecimal() else None


def judge(output: GpuCopyOutput, expected_cpus: Mapping[str, str]) -> Optional[str]:
    """Why a run that ended is not a valid measurement, or None.

    Args:
        output: the parsed output.
        expected_cpus: section (``gpu0``) to the CPUs that it was to run on.
    """
    if not output.correct:
        return "copied data differ from what was sent"
    ran: Dict[str, str] = {name: cpus for name, cpus in output.cpus.items() if name != "peers"}
    if ran != dict(expected_cpus):
        return f"it ran on CPUs {ran} instead of {dict(expected_cpus)}"
    return None
