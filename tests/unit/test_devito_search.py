"""The search over Devito's layouts: the winner of all of them, from at most half of the runs, on
the published HBv3 times and on simulated machines of four NUMA nodes with noise."""

from __future__ import annotations

import random
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from trueup_controller.plans.devito_search import Machine, Ran, cannot_win, ordered
from trueup_node.node.affinity import Layout, layouts
from trueup_node.node.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# 512^3 at order 8 for 200 ms, as Devito counts it: 85 steps.
STEPS, FLOPS, INTENSITY = 85, 583e9, 2.66
MIB = 1024**2


def topology(per_node: int, groups: int, nodes: int = 4) -> Topology:
    """NUMA nodes of so many cores, each of so many L3 groups; the last group may be smaller."""
    numa, l3 = {}, []
    size = -(-per_node // groups)
    for node in range(nodes):
        cpus = tuple(range(node * per_node, (node + 1) * per_node))
        numa[node] = cpus
        l3 += [cpus[start : start + size] for start in range(0, per_node, size)]
    cores = tuple((cpu,) for cpu in range(nodes * per_node))
    cpus = tuple(range(nodes * per_node))
    return Topology(
        cpus=cpus,
        numa=numa,
        l3_groups=tuple(l3),
        cores=cores,
        last_level_cache_bytes=len(l3) * 32 * MIB,
    )


def machine_of(made: Topology, **known: float) -> Machine:
    return Machine(
        cores=len(made.cores),
        numa=tuple(made.numa.values()),
        cache_bytes=made.last_level_cache_bytes,
        **known,
    )


def searched(
    swept: Sequence[Layout], machine: Machine, measure: Callable[[Layout], Ran]
) -> tuple[list[Ran], dict[Layout, str]]:
    """What runs, in its order, and what is skipped."""
    ran: list[Ran] = []
    skipped = {}
    for layout in ordered(swept, machine.cores):
        why = cannot_win(layout, ran, machine)
        if why:
            skipped[layout] = why
        else:
            ran.append(measure(layout))
    return ran, skipped


def fastest(ran: Sequence[Ran]) -> Layout:
    return min(ran, key=lambda one: one.seconds).layout


@dataclass
class Simulated:
    """A machine of four NUMA nodes, made at random, and how fast each layout is on it.

    Nothing of it is what the search takes for bounds: caches, remote memory, contention of threads
    and exchange of halos are effects with a size of their own. Where one rank's memory lies is the
    machine's: all on the first thread's node, or on the node of each thread.
    """

    topology: Topology
    rng: random.Random

    def __post_init__(self) -> None:
        draw = self.rng.uniform
        self.core = draw(8e9, 30e9)  # flop/s
        self.node = draw(20e9, 90e9)  # byte/s of a NUMA node
        self.saturating = draw(3, 12)  # threads that reach most of it
        self.alone = draw(1.0, 1.25)  # clock of a core that works alone
        self.remote = draw(0.3, 0.9)  # of local speed
        self.spread = self.rng.random() < 0.5
        self.contention = draw(0.0, 0.004)  # a thread, beyond one L3 group
        self.halo = draw(0.005, 0.3)  # share of a step, at 4 ranks
        self.unbound = draw(0.7, 1.08)
        self.locality = draw(0.95, 1.15)  # of ranks within one L3 group
        self.noise = draw(0.002, 0.02)
        self.known: dict[Layout, Ran] = {}

    @property
    def nodes(self) -> int:
        return len(self.topology.numa)

    def triad(self) -> float:
        """As STREAM measures it: 80 to 97 % of what the memory can do."""
        return self.node * self.nodes * self.rng.uniform(0.8, 0.97)

    def seconds(self, layout: Layout) -> tuple[float, float]:
        """Of a repeat, without noise, and the share of halos."""
        total = layout.ranks * layout.threads_per_rank
        per_node = len(self.topology.numa[0])
        used = self.nodes if layout.ranks > 1 else -(-layout.threads_per_rank // per_node)
        beside = self.alone - (self.alone - 1) * total / (per_node * self.nodes)
        compute = total * self.core * beside
        fed = 1 - 2.7 ** (-total / used / self.saturating)
        bandwidth = self.node * used * fed
        if layout.ranks == 1 and used > 1:
            local = 1 / used
            if not self.spread:
                bandwidth = self.node * fed
            bandwidth *= local + (1 - local) * self.remote
        rate = min(compute, bandwidth * INTENSITY)
        group = len(self.topology.l3_groups[0])
        rate /= 1 + self.contention * max(0, layout.threads_per_rank - group)
        if layout.ranks > 1 and layout.threads_per_rank <= group:
            rate *= self.locality
        if layout.binding == "none":
            rate *= self.unbound
        working = FLOPS / rate
        if layout.ranks == 1:
            return working, 0.0
        halos = working * self.halo * (layout.ranks / 4) ** (1 / 3)
        return working + halos, halos / (working + halos)

    def measure(self, layout: Layout) -> Ran:
        """Three repeats; the same ones whenever it is asked."""
        if layout not in self.known:
            seconds, halos = self.seconds(layout)
            repeats = sorted(seconds * self.rng.lognormvariate(0, self.noise) for _ in range(3))
            self.known[layout] = Ran(
                layout,
                seconds=repeats[1],
                least=repeats[0],
                most=repeats[2],
                halo_share=halos,
                flops=FLOPS,
                step_bytes=FLOPS / INTENSITY / STEPS,
                steps=STEPS,
            )
        return self.known[layout]


# Cores of a NUMA node and its L3 groups: HBv3 with its uneven ones, HBv4, and smaller ones.
SHAPES = ((30, 4), (44, 6), (24, 3), (16, 2), (8, 1), (8, 2))


@pytest.mark.parametrize("mpi", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_on_simulated_machines_it_finds_the_winner_of_all(
    shape: tuple[int, int], mpi: bool
) -> None:
    shares = []
    for seed in range(200):
        simulated = Simulated(topology(*shape), random.Random(seed))
        swept = layouts(simulated.topology, mpi=mpi)
        winner = fastest([simulated.measure(layout) for layout in swept])
        machine = machine_of(simulated.topology, bandwidth=simulated.triad())
        ran, skipped = searched(swept, machine, simulated.measure)
        assert (seed, fastest(ran)) == (seed, winner)
        assert len(ran) + len(skipped) == len(swept)
        shares.append(len(ran) / len(swept))
    if mpi:
        assert statistics.mean(shares) <= 0.45
        # Where no bound says that a layout cannot win, it runs.
        assert sum(share > 0.5 for share in shares) <= 2
    else:
        # Nothing tells then what each NUMA node reaches on its own memory.
        assert statistics.mean(shares) <= 0.6


NUMA = Layout(4, 30, "numa")
L3 = Layout(16, 6, "l3")
ALL = Layout(1, 120, "core")
UNBOUND = Layout(1, 120, "none")
ONE_EACH = Layout(120, 1, "core")


def test_the_order_tells_most_first() -> None:
    swept = layouts(topology(30, 4))
    expected = [NUMA, L3, ALL, ONE_EACH, UNBOUND]
    expected += [Layout(1, count, "core") for count in (64, 32, 16, 8, 4, 2, 1)]
    assert ordered(swept, 120) == expected
    # A machine of one NUMA node and one L3 group, such as a small virtual machine.
    small = [Layout(1, 1, "none"), Layout(1, 2, "none"), Layout(2, 1, "core")]
    assert ordered(small, 2) == [small[1], small[2], small[0]]


def test_the_share_with_siblings_is_sure_within_a_node_alone() -> None:
    node = {
        "cores": 8,
        "numa": [{"node": 0, "cpus": "0-3,8-11"}, {"node": 1, "cpus": "4-7,12-15"}],
        "last_level_cache_bytes": 64 * MIB,
    }
    machine = Machine.of(node, 1e9, None)
    found = [machine.share(Layout(1, count, "core")) for count in (4, 5, 8)]
    assert found == [0.5, 1.0, 1.0]
    assert (machine.cores, machine.cache_bytes, machine.bandwidth) == (8, 64 * MIB, 1e9)
