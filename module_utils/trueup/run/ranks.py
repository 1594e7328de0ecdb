"""Where the ranks of a launcher really are, by their own account."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Dict, List, Optional

from ..errors import ParseError
from ..node.affinity import Placement
from ..node.topology import format_cpu_list, parse_cpu_list

# One line a rank: node, CPUs by the kernel, CPU set by hwloc (a mask, "-" without hwloc-bind).
# The programs that it calls are bound as the shell is.
_SCRIPT = (
    'echo "trueup-rank $(uname -n)'
    " $(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)"
    ' $(hwloc-bind --get --taskset 2>/dev/null || echo -)"'
)
PROBE = ("sh", "-c", _SCRIPT)


@dataclass(frozen=True)
class Rank:
    """One rank.

    Attributes:
        node: its node's own host name.
        cpus: CPUs that the kernel lets it use, as in 0-3,8.
        hwloc: the same by hwloc-bind; None where that is not installed.
    """

    node: str
    cpus: str
    hwloc: Optional[str]

    def as_fact(self) -> Dict[str, Optional[str]]:
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
        if len(words) != 4:
            raise ParseError("a rank's line is not whole", number, line)
        try:
            cpus = format_cpu_list(parse_cpu_list(words[2]))
            hwloc = None if words[3] == "-" else format_cpu_list(_mask(words[3]))
        except ValueError:
            raise ParseError("a rank's CPUs are no CPU list", number, line) from None
        found.append(Rank(words[1], cpus, hwloc))
    return found


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
