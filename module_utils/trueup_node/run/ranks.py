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
    """Read the lines of the ranks, in whatever order; other lines (of launchers, of ssh) are passed
    over.

    Raises:
        ParseError: a rank's line is damaged.
    """
    ranks = []
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
        ranks.append(Rank(words[1], cpus, hwloc, int(words[4]), visible))
    return ranks


def parse_gpus(text: str) -> Dict[str, Dict[str, str]]:
    """Of each node, its GPUs' addresses by number and by UUID.

    Raises:
        ParseError: a GPU's line is damaged, or no rank told of any.
    """
    addresses: Dict[str, Dict[str, str]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.replace(",", " ").split()
        if not words or words[0] != "trueup-gpu":
            continue
        address = address_of(words[3]) if len(words) == 5 and words[2].isdecimal() else None
        if address is None:
            raise ParseError("a GPU's line is not whole", number, line)
        addresses.setdefault(words[1], {}).update({words[2]: address, words[4]: address})
    if not addresses:
        raise ParseError("no rank told of a GPU: is nvidia-smi there?")
    return addresses


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
    visible_gpus = rank.visible.split(",")
    if len(visible_gpus) > 1 and rank.number >= len(visible_gpus):
        return None
    name = visible_gpus[rank.number if len(visible_gpus) > 1 else 0]
    # CUDA takes the beginning of a UUID too.
    full = [uuid for uuid in gpus if name.startswith("GPU-") and uuid.startswith(name)]
    return gpus.get(full[0] if len(full) == 1 else name)


def judge_gpus(
    ranks: List[Rank], gpus: Mapping[str, Mapping[str, str]], beside: Mapping[str, str]
) -> Optional[str]:
    """Why ranks are not beside their GPUs, or None.

    Args:
        ranks: the ranks.
        gpus: as parse_gpus has them.
        beside: the CPUs of the NUMA node of each GPU, by address.
    """
    used: Dict[str, Rank] = {}
    for rank in ranks:
        sees = "is not set" if rank.visible is None else f"is {rank.visible!r}"
        who = f"on {rank.node} rank {rank.number} of the node"
        gpu_address = address(rank, gpus.get(rank.node, {}))
        if gpu_address is None or gpu_address not in beside:
            return f"{who} uses no GPU that is known there: CUDA_VISIBLE_DEVICES {sees}"
        other = used.setdefault(f"{rank.node} {gpu_address}", rank)
        if other is not rank:
            return f"{who} uses the GPU of rank {other.number}, {gpu_address}"
        if not set(parse_cpu_list(rank.cpus)) <= set(parse_cpu_list(beside[gpu_address])):
            return (
                f"{who} is on CPUs {rank.cpus}, and its GPU {gpu_address} is beside"
                f" {beside[gpu_address]}"
            )
    return None


def _mask(text: str) -> List[int]:
    bits = int(text, 16)
    return [cpu for cpu in range(bits.bit_length()) if bits >> cpu & 1]


def planned(placement: Placement) -> List[str]:
    """The CPUs of a node's ranks; empty where they are not bound."""
    return [format_cpu_list(cpus) for cpus in placement.per_rank if cpus]


def judge(ranks: List[Rank], placement: Placement, node_count: int) -> Optional[str]:
    """Why these ranks are not where they should be, or None."""
    expected_cpus = planned(placement)
    if len(ranks) != placement.ranks * node_count:
        return f"{len(ranks)} ranks told where they are instead of {placement.ranks * node_count}"
    by_node: Dict[str, List[Rank]] = {}
    for rank in ranks:
        by_node.setdefault(rank.node, []).append(rank)
    counts = {node: len(ranks) for node, ranks in by_node.items()}
    if list(counts.values()) != [placement.ranks] * node_count:
        listing = ", ".join(f"{count} on {node}" for node, count in sorted(counts.items()))
        return f"ranks are not {placement.ranks} on each of {node_count} nodes: {listing}"
    wrong = (_unbound(node, ranks, expected_cpus) for node, ranks in sorted(by_node.items()))
    return next(filter(None, wrong), None)


def _unbound(node: str, ranks: List[Rank], expected_cpus: List[str]) -> Optional[str]:
    """Why the ranks of a node are not bound as they should be, or None."""
    bound = sorted(rank.cpus for rank in ranks)
    if expected_cpus and bound != sorted(expected_cpus):
        return (
            f"on {node} ranks are bound to {'/'.join(bound)} instead of {'/'.join(expected_cpus)}"
        )
    other = [rank for rank in ranks if rank.hwloc not in (None, rank.cpus)]
    if other:
        return f"on {node} hwloc-bind says {other[0].hwloc} where the kernel says {other[0].cpus}"
    return None
