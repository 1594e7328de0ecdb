"""Which layouts of a node cannot be its fastest, from the runs so far and the machine's limits.

A layout is left out only where a bound holds, and the bound's reason is told. Each bound has an
allowance above the measured figures, which its constant gives with the source. Layouts that no
bound excludes are measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Callable

from trueup_node.node.affinity import Layout
from trueup_node.node.topology import parse_cpu_list

# Speed of a part of a machine beside idle parts, over its share of the whole machine's speed: HBv3
# clocks one core at 3.5 GHz and all at 3.0, and a tenth is added.
_ALONE = 1.3
# Most bandwidth of the memory over STREAM's triad: HBv3's 16 channels of DDR4-3200 have 409.6 GB/s,
# and triad reaches 350.
_OVER_TRIAD = 1.25
# Between two time steps a cache holds back at most its own size, once of the reads and once of the
# writes; caches nearer to the cores hold at most as much again.
_HELD_BACK = 4
# One core's clock over the one that a size's peak is quoted at: HBv3 3.5 GHz over 2.1.
_OVER_CLOCK = 2.0
# Ranks of one core over ranks of an L3 group, exchange of halos apart: no barriers of threads.
_NO_THREADS = 1.1
# Threads that nobody binds over the same threads, each bound to a core.
_UNBOUND = 1.25
# A time step below this is barriers and exchange more than it is work, and bounds no work.
_STEP_SECONDS = 1e-3
# By so much a smaller number of threads must be slower than the next before smaller ones are left
# out, and by more than the repeats of the two overlap.
_FALLS = 1.05


@dataclass(frozen=True)
class Machine:
    """The known limits of a layout.

    Attributes:
        cores: of the node.
        numa: the CPUs of each NUMA node.
        cache_bytes: all last-level caches together.
        bandwidth: byte/s, STREAM's triad of all cores.
        peak_flops: flop/s of all cores in single precision.
    """

    cores: int
    numa: tuple[tuple[int, ...], ...] = ()
    cache_bytes: int | None = None
    bandwidth: float | None = None
    peak_flops: float | None = None

    @classmethod
    def of(
        cls, node: Mapping[str, Any], bandwidth: float | None, peak_flops: float | None
    ) -> Machine:
        """That of the fact ``trueup_node``."""
        return cls(
            cores=node.get("cores") or 0,
            numa=tuple(
                tuple(parse_cpu_list(numa_node["cpus"])) for numa_node in node.get("numa") or ()
            ),
            cache_bytes=node.get("last_level_cache_bytes"),
            bandwidth=bandwidth,
            peak_flops=peak_flops,
        )

    def share(self, layout: Layout) -> float:
        """The part of the NUMA nodes that a layout's CPUs and memory are in, at most: memory is on
        the nodes of the threads that write it first. affinity.plan places them."""
        cpus = sum(map(len, self.numa))
        if layout.ranks > 1 or layout.binding != "core" or not self.numa or not self.cores:
            return 1.0
        if layout.threads_per_rank <= max(map(len, self.numa)) * self.cores // cpus:
            return 1 / len(self.numa)
        if cpus != self.cores:
            return 1.0  # which CPUs are siblings is not known here
        first = sorted(cpu for node in self.numa for cpu in node)[: layout.threads_per_rank]
        return sum(not set(first).isdisjoint(node) for node in self.numa) / len(self.numa)


@dataclass(frozen=True)
class Ran:
    """A layout that was measured.

    Attributes:
        seconds, least, most: median, minimum and maximum of its repeats.
        halo_share: of its time, the exchange of halos; 0 with one rank.
        flops: operations of a repeat.
        step_bytes: least bytes to read and write in one time step, by Devito's count.
        steps: of a repeat.
    """

    layout: Layout
    seconds: float
    least: float
    most: float
    halo_share: float = 0.0
    flops: float | None = None
    step_bytes: float | None = None
    steps: float | None = None

    @property
    def computing(self) -> float:
        """Its seconds without the exchange of halos."""
        return self.seconds * (1 - self.halo_share)

    @property
    def works(self) -> bool:
        """Whether its time is that of its work."""
        return bool(self.steps) and self.seconds >= _STEP_SECONDS * (self.steps or 0)


@dataclass(frozen=True)
class Bound:
    """A time that a layout cannot go below, and why."""

    seconds: float
    why: str


def named(layout: Layout) -> str:
    """A layout in a sentence."""
    return f"{layout.ranks} rank(s) x {layout.threads_per_rank} thread(s), binding {layout.binding}"


def ordered(layouts: Iterable[Layout], cores: int) -> list[Layout]:
    """Layouts in the order of measuring: first those of the whole machine, ordered by how much they
    tell about others; then fewer and fewer threads."""

    def promise(layout: Layout) -> tuple[int, int]:
        if layout.ranks * layout.threads_per_rank < cores and layout.ranks == 1:
            return 5, -layout.threads_per_rank
        if layout.ranks > 1:
            return {"numa": 0, "l3": 1}.get(layout.binding, 3), layout.ranks
        return (4 if layout.binding == "none" and several else 2), 0

    candidates = list(layouts)
    several = any(layout.binding != "none" and layout.ranks == 1 for layout in candidates)
    return sorted(candidates, key=promise)


def cannot_win(layout: Layout, ran: Sequence[Ran], machine: Machine) -> str | None:
    """Why a layout is slower than the fastest of those that ran, in a sentence; None where that is
    not known, and for one that ran."""
    if not ran or any(run.layout == layout for run in ran):
        return None
    best = min(ran, key=lambda run: run.seconds)
    falls = _falls(layout, ran, machine)
    if falls:
        return falls
    for bound in (bound_of(layout, ran, machine) for bound_of in _BOUNDS):
        if bound is not None and bound.seconds > best.seconds:
            return (
                f"{bound.why}: {bound.seconds:.3g} s or more; {named(best.layout)} took"
                f" {best.seconds:.3g} s"
            )
    return None


def _falls(layout: Layout, ran: Sequence[Ran], machine: Machine) -> str | None:
    """Over its threads one rank rises to one peak and falls: HBv3's published runs of 16 to 120
    cores do. Where fewer threads are on fewer NUMA nodes, there may be a second peak: all memory
    is local again."""
    if layout.ranks > 1:
        return None
    series = sorted(
        (run for run in ran if run.layout.ranks == 1 and run.layout.binding == layout.binding),
        key=lambda run: run.layout.threads_per_rank,
    )
    for fewer, more in zip(series, series[1:]):
        count = fewer.layout.threads_per_rank
        alike = machine.share(fewer.layout) == machine.share(layout)
        if layout.threads_per_rank < count and alike and fewer.least > more.most * _FALLS:
            return (
                f"fewer threads of one rank are slower: {count} took {fewer.seconds:.3g} s,"
                f" {more.layout.threads_per_rank} took {more.seconds:.3g} s"
            )
    return None


def _by_share(layout: Layout, ran: Sequence[Ran], machine: Machine) -> Bound | None:
    """Bound of the NUMA nodes by the speed of all of them together, each on its own memory and
    without the exchange of halos."""
    share, nodes = machine.share(layout), len(machine.numa)
    wholes = [run.computing for run in ran if run.layout.ranks >= nodes and run.works]
    if share == 1 or not wholes:
        return None
    seconds = min(wholes)
    return Bound(
        seconds / share / _ALONE,
        f"it uses {share * nodes:.0f} of {nodes} NUMA nodes, which are at most {_ALONE:g} times as"
        " fast as beside the others",
    )


def _by_bandwidth(layout: Layout, ran: Sequence[Ran], machine: Machine) -> Bound | None:
    """Bound of the memory of the layout's NUMA nodes, less the bytes that caches may hold back."""
    share, first_run = machine.share(layout), ran[0]
    if not (machine.bandwidth and machine.cache_bytes and first_run.step_bytes and first_run.steps):
        return None
    moved = first_run.step_bytes - _HELD_BACK * machine.cache_bytes * share
    if moved <= 0:
        return None
    reached = machine.bandwidth * share * _OVER_TRIAD
    return Bound(
        moved * first_run.steps / reached,
        f"its memory moves at most {reached / 1e9:.3g} GB/s by STREAM",
    )


def _by_compute(layout: Layout, ran: Sequence[Ran], machine: Machine) -> Bound | None:
    """Of the peak of the layout's cores."""
    if not (machine.peak_flops and machine.cores and ran[0].flops):
        return None
    cores = layout.ranks * layout.threads_per_rank
    peak = machine.peak_flops * cores / machine.cores * _OVER_CLOCK
    return Bound(ran[0].flops / peak, f"{cores} core(s) compute at most {peak / 1e9:.3g} GFLOP/s")


def _by_halos(layout: Layout, ran: Sequence[Ran], _: Machine) -> Bound | None:
    """Of more ranks than one on each domain: they exchange no less than fewer ranks do."""
    fewer = [run for run in ran if 1 < run.layout.ranks < layout.ranks and run.works]
    if not fewer or layout.threads_per_rank > 1:
        return None
    last = max(fewer, key=lambda run: run.layout.ranks)
    used = last.layout.ranks * last.layout.threads_per_rank / layout.ranks
    halos = last.seconds - last.computing
    return Bound(
        halos + last.computing * min(used, 1.0) / _NO_THREADS,
        f"the exchange of halos takes {halos:.3g} s in {named(last.layout)}, and no less with more"
        " ranks",
    )


def _by_pinned(layout: Layout, ran: Sequence[Ran], _: Machine) -> Bound | None:
    """Of threads that nobody binds, by the same number of bound ones."""
    size = (layout.ranks, layout.threads_per_rank)
    bound = [run for run in ran if (run.layout.ranks, run.layout.threads_per_rank) == size]
    if layout.binding != "none" or not bound:
        return None
    seconds = min(run.seconds for run in bound)
    return Bound(
        seconds / _UNBOUND,
        f"the same threads, bound to cores, took {seconds:.3g} s, and unbound ones are at most"
        f" {_UNBOUND:g} times as fast",
    )


_BOUNDS: tuple[Callable[[Layout, Sequence[Ran], Machine], Bound | None], ...] = (
    _by_share,
    _by_bandwidth,
    _by_compute,
    _by_halos,
    _by_pinned,
)
