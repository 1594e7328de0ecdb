"""Where the ranks of a launcher really are, by their own account."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Dict, List, Mapping, Optional

from ..errors import ParseError
from ..node.affinity import Placement
from ..node.nvidia_smi import address_of
from ..node.topology import format_cpu_list, parse_cpu_list

# One line a rank: node, CPUs by the kernel, CPU set by hwloc (a mask, "-" without hwloc-bind), its
# number on its node, CUDA_VISIBLE_DEVICES ("=*" where it is not set). The programs that it calls
# are bound as the shell is.
_SCRIPT = (
    'echo "trueup-rank $(uname -n)'
    " $(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)"
    " $(hwloc-bind --get --taskset 2>/dev/null || echo -)"
    " ${OMPI_COMM_WORLD_LOCAL_RANK:-${MPI_LOCALRANKID:-${SLURM_LOCALID:-0}}}"
    ' =${CUDA_VISIBLE_DEVICES-*}"'
)
PROBE = ("sh", "-c", _SCRIPT)
# And a line a GPU of its node: number in PCI order, address, UUID.
_QUERY = "nvidia-smi --query-gpu=index,pci.bus_id,uuid --format=csv,noheader"
GPU_PROBE = ("sh", "-c", f'{_SCRIPT}; {_QUERY} | sed "s/^/trueup-gpu $(uname -n) /"')


@dataclass(frozen=True)
class Rank:
    """One rank.

    Attributes:
        node: its node's own host name.
        cpus: CPUs that the kernel lets it use, as in 0-3,8.
        hwloc: the same by hwloc-bind; None where that is not installed.
        number: among the ranks of its node.
        visible: its CUDA_VISIBLE_DEVICES; None where it is not set.
    """

    node: str
    cpus: str
    hwloc: Optional[str]
    number: int = 0
    visible: Optional[str] = None

    def as_fact(self) -> Dict[str, object]:
        """For Ansible."""
        return asdict(self)


def parse_ranks(text: str) -> List[Rank]:
    """Read what the ranks printed, in whatever order; other lines (of launchers, of ssh) are passed
    over.

    Raises:
        ParseError: a rank's line is damaged.
    """
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0] != "trueup-rank":
            continue
        if len(words) != 6 or not words[4].isdecimal() or words[5][0] != "=":
            raise ParseError("a rank's line is not whole", number, line)
        try:
            cpus = format_cpu_list(parse_cpu_list(words[2]))
            hwloc = None if words[3] == "-" else format_cpu_list(_mask(words[3]))
        except ValueError:
            raise ParseError("a rank's CPUs are no CPU list", number, line) from None
        visible = None if words[5] == "=*" else words[5][1:]
        found.append(Rank(words[1], cpus, hwloc, int(words[4]), visible))
    return found


def parse_gpus(text: str) -> Dict[str, Dict[str, str]]:
    """Of each node, its GPUs' addresses by number and by UUID.

    Raises:
        ParseError: a GPU's line is damaged, or no rank told of any.
    """
    found: Dict[str, Dict[str, str]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.replace(",", " ").split()
        if not words or words[0] != "trueup-gpu":
            continue
        address = address_of(words[3]) if len(words) == 5 and words[2].isdecimal() else None
        if address is None:
            raise ParseError("a GPU's line is not whole", number, line)
        found.setdefault(words[1], {}).update({words[2]: address, words[4]: address})
    if not found:
        raise ParseError("no rank told of a GPU: is nvidia-smi there?")
    return found


def address(rank: Rank, gpus: Mapping[str, str]) -> Optional[str]:
    """The address of the GPU that a rank uses: the one that it sees, of several (and where
    CUDA_VISIBLE_DEVICES is not set) that of its number, as programs take it by their local rank.
    None where it sees none, or no GPU of its node.

    Args:
        rank: one of the ranks.
        gpus: its node's, as parse_gpus has them.
    """
    if rank.visible is None:
        return gpus.get(str(rank.number))
    seen = rank.visible.split(",")
    if len(seen) > 1 and rank.number >= len(seen):
        return None
    name = seen[rank.number if len(seen) > 1 else 0]
    # CUDA takes the beginning of a UUID too.
    full = [uuid for uuid in gpus if name.startswith("GPU-") and uuid.startswith(name)]
    return gpus.get(full[0] if len(full) == 1 else name)


def judge_gpus(
    found: List[Rank], gpus: Mapping[str, Mapping[str, str]], beside: Mapping[str, str]
) -> Optional[str]:
    """Why ranks are not beside their GPUs, or None.

    Args:
        found: the ranks.
        gpus: as parse_gpus has them.
        beside: the CPUs of the NUMA node of each GPU, by address.
    """
    used: Dict[str, Rank] = {}
    for rank in found:
        sees = "is not set" if rank.visible is None else f"is {rank.visible!r}"
        who = f"on {rank.node} rank {rank.number} of the node"
        place = address(rank, gpus.get(rank.node, {}))
        if place is None or place not in beside:
            return f"{who} uses no GPU that is known there: CUDA_VISIBLE_DEVICES {sees}"
        other = used.setdefault(f"{rank.node} {place}", rank)
        if other is not rank:
            return f"{who} uses the GPU of rank {other.number}, {place}"
        if not set(parse_cpu_list(rank.cpus)) <= set(parse_cpu_list(beside[place])):
            return f"{who} is on CPUs {rank.cpus}, and its GPU {place} is beside {beside[place]}"
    return None


def _mask(text: str) -> List[int]:
    bits = int(text, 16)
    return [cpu for cpu in range(bits.bit_length()) if bits >> cpu & 1]


def planned(placement: Placement) -> List[str]:
    """The CPUs of a node's ranks; empty where they are not bound."""
    return [format_cpu_list(cpus) for cpus in placement.per_rank if cpus]


def judge(found: List[Rank], placement: Placement, node_count: int) -> Optional[str]:
    """Why these ranks are not where they should be, or None."""
    wanted = planned(placement)
    if len(found) != placement.ranks * node_count:
        return f"{len(found)} ranks told where they are instead of {placement.ranks * node_count}"
    by_node: Dict[str, List[Rank]] = {}
    for rank in found:
        by_node.setdefault(rank.node, []).append(rank)
    counts = {node: len(ranks) for node, ranks in by_node.items()}
    if list(counts.values()) != [placement.ranks] * node_count:
        told = ", ".join(f"{count} on {node}" for node, count in sorted(counts.items()))
        return f"ranks are not {placement.ranks} on each of {node_count} nodes: {told}"
    wrong = (_unbound(node, ranks, wanted) for node, ranks in sorted(by_node.items()))
    return next(filter(None, wrong), None)


def _unbound(node: str, ranks: List[Rank], wanted: List[str]) -> Optional[str]:
    """Why the ranks of a node are not bound as they should be, or None."""
    bound = sorted(rank.cpus for rank in ranks)
    if wanted and bound != sorted(wanted):
        return f"on {node} ranks are bound to {'/'.join(bound)} instead of {'/'.join(wanted)}"
    other = [rank for rank in ranks if rank.hwloc not in (None, rank.cpus)]
    if other:
        return f"on {node} hwloc-bind says {other[0].hwloc} where the kernel says {other[0].cpus}"
    return None
