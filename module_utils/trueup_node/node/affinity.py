"""Where ranks and threads go on a machine, and how launchers are told.

A placement is computed from the machine's own topology, so that one rule serves every VM size,
uneven L3 groups (HBv3: 8, 8, 8 and 6 cores in each NUMA node) included.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ..errors import BadInput
from .topology import Cpus, Topology, cpu_mask, format_cpu_list

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

BINDINGS = ("none", "core", "l3", "numa")


class Placement(NamedTuple):
    """The CPUs of each rank of one node.

    Attributes:
        ranks, threads_per_rank, binding: as requested.
        per_rank: the CPUs of each rank, one for each of its threads, ascending; an empty tuple
            means that the rank is not pinned (binding ``none``).
        notes: remarks for a reader of the result, e.g. on idle cores.
    """

    ranks: int
    threads_per_rank: int
    binding: str
    per_rank: tuple[Cpus, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Layout:
    """A way to use a node: number of ranks, threads in each, and their binding."""

    ranks: int
    threads_per_rank: int
    binding: str

    @property
    def name(self) -> str:
        """``ranks x threads`` as records write it: ``2x1``."""
        return f"{self.ranks}x{self.threads_per_rank}"


def plan(
    topology: Topology, *, ranks: int, threads_per_rank: int, binding: str, smt: bool = False
) -> Placement:
    """Place ``ranks`` of ``threads_per_rank`` threads each.

    Bindings: ``none`` pins nothing; ``numa`` and ``l3`` spread the ranks evenly over NUMA nodes or
    L3 groups and keep each rank inside one; ``core`` does as ``numa`` when every rank fits in a
    node, and otherwise deals out consecutive cores, so that a rank may span nodes. Within a NUMA
    node each rank keeps to one L3 group where all fit that way. Every thread has a physical core of
    its own; ``smt`` also uses the siblings, once all cores of a domain are taken.

    Raises:
        BadInput: counts below 1, an unknown binding, more threads than cores, or a rank that no
            domain can hold.
    """
    _check(topology, ranks, threads_per_rank, binding, smt=smt)
    if binding == "none":
        return Placement(ranks, threads_per_rank, binding, ((),) * ranks)
    name = "L3 group" if binding == "l3" else "NUMA node"
    domains = _domains(topology, binding)
    counts = _spread(
        ranks, [_room(cores, smt=smt) // threads_per_rank for cores in domains.values()]
    )
    per_rank: list[Cpus] = []
    notes: list[str] = []
    if counts is not None:
        for cores, count in zip(domains.values(), counts):
            per_rank.extend(_in_domain(cores, count, threads_per_rank, topology, smt=smt))
        if len(set(counts)) > 1:
            notes.append(f"ranks per {name}: {','.join(str(count) for count in counts)}")
    elif binding == "core":
        per_rank = _consecutive(topology.cores, ranks, threads_per_rank)
        spanning = sum(len(domains_crossed(cpus, topology)) > 1 for cpus in per_rank)
        if spanning:
            notes.append(f"{spanning} of {ranks} ranks span more than one NUMA node")
    else:
        rooms = {number: _room(cores, smt=smt) for number, cores in domains.items()}
        raise BadInput(f"binding {binding!r}: {_misfit(rooms, ranks, threads_per_rank, name)}")
    idle = _room(topology.cores, smt=smt) - ranks * threads_per_rank
    if idle:
        notes.append(f"{idle} {'CPUs' if smt else 'cores'} idle")
    return Placement(ranks, threads_per_rank, binding, tuple(per_rank), tuple(notes))


def domains_crossed(cpus: Iterable[int], topology: Topology) -> tuple[int, ...]:
    """The NUMA nodes that ``cpus`` touch, ascending; more than one means that they cross nodes.

    Raises:
        BadInput: a CPU that the machine does not have.
    """
    node_of = {cpu: node for node, members in topology.numa.items() for cpu in members}
    unique_cpus = sorted(set(cpus))
    missing = [cpu for cpu in unique_cpus if cpu not in node_of]
    if missing:
        raise BadInput(
            f"CPUs {format_cpu_list(missing)} are not on this machine "
            f"(it has {format_cpu_list(topology.cpus)})"
        )
    return tuple(sorted({node_of[cpu] for cpu in unique_cpus}))


def layouts(topology: Topology, *, mpi: bool = True) -> tuple[Layout, ...]:
    """The layouts worth measuring on one node.

    First the thread counts 1, 2, 4, ... and all (one rank: a strong-scaling series with one
    binding), then the whole machine as one rank for each NUMA node, one for each L3 group (both
    only where there is more than one) and one for each core. A machine of several NUMA nodes or L3
    groups also gets one unpinned rank of all threads, as a user gets who sets nothing.
    ``mpi=False`` leaves out the layouts of more than one rank.

    Uneven domains give every rank as many threads as the smallest has cores, so some cores stay
    idle.
    """
    cores = len(topology.cores)
    several = len(topology.numa) > 1 or len(topology.l3_groups) > 1
    threaded = "core" if several else "none"
    counts = [1]
    while counts[-1] * 2 < cores:
        counts.append(counts[-1] * 2)
    partial = [Layout(1, count, threaded) for count in counts if count < cores]
    full = [Layout(1, cores, threaded)]
    if several:
        full.append(Layout(1, cores, "none"))
    if mpi:
        for binding in ("numa", "l3"):
            groups = topology.l3_groups if binding == "l3" else topology.numa
            sizes = (
                [len(cores_of) for cores_of in _domains(topology, binding).values()]
                if groups
                else []
            )
            if len(sizes) > 1:
                full.append(Layout(len(sizes), min(sizes), binding))
        full.append(Layout(cores, 1, "core"))
    return tuple(_unique([*partial, *full]))


def taskset_argv(cpus: Cpus) -> list[str]:
    """The words to put before a command to pin it to ``cpus``; none when there are no ``cpus``."""
    return ["taskset", "--cpu-list", format_cpu_list(cpus)] if cpus else []


def srun_cpu_bind(placement: Placement) -> str:
    """The value for ``srun --cpu-bind=``: ``mask_cpu:0x3f,0xfc0,...``, or ``none``."""
    if not all(placement.per_rank):
        return "none"
    return "mask_cpu:" + ",".join(f"0x{cpu_mask(cpus)}" for cpus in placement.per_rank)


def omp_places(cpus: Iterable[int]) -> str:
    """The value of ``OMP_PLACES`` that gives each of ``cpus`` to one thread: ``{0},{1}``."""
    return ",".join(f"{{{cpu}}}" for cpu in cpus)


def _check(
    topology: Topology, ranks: int, threads_per_rank: int, binding: str, *, smt: bool
) -> None:
    if ranks < 1 or threads_per_rank < 1:
        raise BadInput(
            f"ranks={ranks} and threads_per_rank={threads_per_rank} must both be at least 1"
        )
    if binding not in BINDINGS:
        raise BadInput(f"binding {binding!r} is not one of {', '.join(BINDINGS)}")
    needed, room = ranks * threads_per_rank, _room(topology.cores, smt=smt)
    if needed > room:
        noun = "CPUs" if smt else "cores"
        message = (
            f"{ranks} ranks x {threads_per_rank} threads need {needed} {noun}, "
            f"and this machine has {room}"
        )
        if needed <= len(topology.cpus):
            message += f" ({len(topology.cpus)} with SMT siblings, used only when asked for)"
        raise BadInput(message)
    if binding == "l3" and not topology.l3_groups:
        raise BadInput("binding 'l3': this machine shows no L3 cache; use 'numa' or 'core'")


def _domains(topology: Topology, binding: str) -> dict[int, list[Cpus]]:
    """The cores of each L3 group or NUMA node; a core counts where its first sibling is."""
    groups = dict(enumerate(topology.l3_groups)) if binding == "l3" else topology.numa
    home = {cpu: number for number, members in groups.items() for cpu in members}
    cores: dict[int, list[Cpus]] = {number: [] for number in sorted(groups)}
    for core in topology.cores:
        if core[0] in home:
            cores[home[core[0]]].append(core)
    return {number: members for number, members in cores.items() if members}


def _room(cores: Sequence[Cpus], *, smt: bool) -> int:
    return sum(len(core) for core in cores) if smt else len(cores)


def _spread(ranks: int, capacities: Sequence[int]) -> list[int] | None:
    """Ranks for each domain, as even as the capacities allow; None when they cannot hold them all.

    Ranks that remain after even rounds go to evenly spaced domains: two ranks on four nodes use
    nodes 0 and 2, which on a two-socket machine are two sockets.
    """
    if sum(capacities) < ranks:
        return None
    counts = [0] * len(capacities)
    remaining = ranks
    while remaining:
        open_domains = [i for i, capacity in enumerate(capacities) if counts[i] < capacity]
        if remaining < len(open_domains):
            open_domains = [
                open_domains[i * len(open_domains) // remaining] for i in range(remaining)
            ]
        for i in open_domains:
            counts[i] += 1
        remaining -= len(open_domains)
    return counts


def _in_domain(
    cores: Sequence[Cpus], ranks: int, threads: int, topology: Topology, *, smt: bool
) -> list[Cpus]:
    """The CPUs of ranks inside one domain, each within one L3 group where all fit that way."""
    if not ranks:
        return []
    members = {core[0]: core for core in cores}
    groups = [[members[cpu] for cpu in group if cpu in members] for group in topology.l3_groups]
    groups = [group for group in groups if group]
    counts = _spread(ranks, [_room(group, smt=smt) // threads for group in groups])
    if counts is None or sum(len(group) for group in groups) != len(cores):
        return _pack(cores, ranks, threads)
    return [cpus for group, count in zip(groups, counts) for cpus in _pack(group, count, threads)]


def _pack(cores: Sequence[Cpus], ranks: int, threads: int) -> list[Cpus]:
    """Consecutive cores to consecutive ranks; no core gets a second thread before all have one."""
    if not ranks:
        return []
    load = [0] * len(cores)
    remaining = ranks * threads
    for depth in range(max(len(core) for core in cores)):
        for i, core in enumerate(cores):
            if remaining and depth < len(core):
                load[i] += 1
                remaining -= 1
    slots = [cpu for core, used in zip(cores, load) for cpu in core[:used]]
    return [tuple(sorted(slots[rank * threads : (rank + 1) * threads])) for rank in range(ranks)]


def _consecutive(cores: Sequence[Cpus], ranks: int, threads: int) -> list[Cpus]:
    """Consecutive cores over the whole machine, ranks at even distances where there is room."""
    total = len(cores)
    if ranks * threads > total:
        return _pack(cores, ranks, threads)
    starts = [rank * total // ranks for rank in range(ranks)]
    return [tuple(sorted(core[0] for core in cores[start : start + threads])) for start in starts]


def _misfit(rooms: Mapping[int, int], ranks: int, threads: int, name: str) -> str:
    """Why ``ranks`` of ``threads`` do not fit in domains of these sizes, and which number fits."""
    number, largest = max(rooms.items(), key=lambda item: (item[1], -item[0]))
    if threads > largest:
        return (
            f"a rank of {threads} threads does not fit in one {name}; "
            f"the largest, {name} {number}, holds {largest}"
        )
    fitting = sum(room // threads for room in rooms.values())
    message = (
        f"{ranks} ranks of {threads} threads do not fit in {len(rooms)} {name}s, "
        f"which hold {fitting} of them"
    )
    for size in range(threads - 1, 0, -1):
        if sum(room // size for room in rooms.values()) >= ranks:
            return f"{message}; {ranks} ranks may have {size} threads each"
    return message


def _unique(items: Iterable[Layout]) -> list[Layout]:
    """Without the pinned layouts that repeat an earlier one under another domain's name."""
    seen_keys = set()
    unique_layouts = []
    for item in items:
        key = (item.ranks, item.threads_per_rank, item.binding == "none")
        if key not in seen_keys:
            seen_keys.add(key)
            unique_layouts.append(item)
    return unique_layouts
