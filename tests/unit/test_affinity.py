"""Placements, sweeps, and what launchers are told."""

from __future__ import annotations

from typing import Any

import pytest
from helpers import parametrized
from hypothesis import given
from hypothesis import strategies as st
from machines import topology_of
from trueup_node.errors import BadInput
from trueup_node.node.affinity import (
    BINDINGS,
    Layout,
    Placement,
    domains_crossed,
    layouts,
    omp_places,
    plan,
    srun_cpu_bind,
    taskset_argv,
)
from trueup_node.node.topology import Topology, cpu_mask, format_cpu_list, parse_cpu_mask

# Rank = GPU number: node_setup.md and the corrected article on tuning NDv4.
NDV4_NUMA_OF_GPU = (1, 1, 0, 0, 3, 3, 2, 2)
NDV4_MASKS = (
    "ffffff000000,ffffff000000,ffffff,ffffff,"
    "ffffff000000000000000000,ffffff000000000000000000,ffffff000000000000,ffffff000000000000"
)


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    """Machines of uneven NUMA nodes and L3 groups, with or without SMT and L3."""
    nodes = draw(
        st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=4), min_size=1, max_size=4)
    )
    threads = draw(st.integers(1, 2))
    total = sum(size for node in nodes for size in node)
    numa, groups, start = {}, [], 0
    for number, node in enumerate(nodes):
        members: list[int] = []
        for size in node:
            cpus = [
                core + way * total for core in range(start, start + size) for way in range(threads)
            ]
            groups.append(tuple(sorted(cpus)))
            members.extend(cpus)
            start += size
        numa[number] = tuple(sorted(members))
    cores = tuple(tuple(core + way * total for way in range(threads)) for core in range(total))
    shown = tuple(groups) if draw(st.booleans()) else ()
    return Topology(tuple(range(total * threads)), numa, shown, cores)


REQUESTS = st.fixed_dictionaries(
    {
        "ranks": st.integers(1, 30),
        "threads_per_rank": st.integers(1, 12),
        "binding": st.sampled_from(BINDINGS),
        "smt": st.booleans(),
    }
)


@given(topologies(), REQUESTS)
def test_no_cpu_is_given_twice_and_domains_hold(
    topology: Topology, request: dict[str, Any]
) -> None:
    try:
        placement = plan(topology, **request)
    except BadInput:
        placement = None
    room = len(topology.cpus if request["smt"] else topology.cores)
    needed = request["ranks"] * request["threads_per_rank"]
    if request["binding"] in {"none", "core"}:
        assert (placement is not None) == (needed <= room)
    if placement is None:
        return
    given_out = [cpu for cpus in placement.per_rank for cpu in cpus]
    assert len(given_out) == len(set(given_out)) <= room
    assert set(given_out) <= set(topology.cpus)
    size = 0 if request["binding"] == "none" else request["threads_per_rank"]
    assert [len(cpus) for cpus in placement.per_rank] == [size] * request["ranks"]
    if not request["smt"]:
        assert set(given_out) <= {core[0] for core in topology.cores}
    if request["binding"] == "numa":
        assert {len(domains_crossed(cpus, topology)) for cpus in placement.per_rank} == {1}
    if request["binding"] == "l3":
        home = {cpu: i for i, group in enumerate(topology.l3_groups) for cpu in group}
        assert {len({home[cpu] for cpu in cpus}) for cpus in placement.per_rank} == {1}


@given(topologies())
def test_every_layout_can_be_placed(topology: Topology) -> None:
    found = layouts(topology)
    placements = [
        plan(topology, ranks=x.ranks, threads_per_rank=x.threads_per_rank, binding=x.binding)
        for x in found
    ]
    assert [len(placement.per_rank) for placement in placements] == [x.ranks for x in found]
    assert 1 <= len(found) <= 100
    assert len(set(found)) == len(found)


def test_ndv4_gpu_masks() -> None:
    topology = topology_of("nd96asr_v4")
    masks = [cpu_mask(topology.numa[node]) for node in NDV4_NUMA_OF_GPU]
    assert ",".join(masks) == NDV4_MASKS
    crossed = [domains_crossed(parse_cpu_mask(mask), topology) for mask in NDV4_MASKS.split(",")]
    assert crossed == [(node,) for node in NDV4_NUMA_OF_GPU]


def test_the_published_ndv4_mask_of_eleven_zeros_crosses_nodes() -> None:
    topology = topology_of("nd96asr_v4")
    cpus = parse_cpu_mask("ffffff00000000000")
    assert format_cpu_list(cpus) == "44-67"
    assert domains_crossed(cpus, topology) == (1, 2)


def test_a_mask_of_another_machine_is_refused() -> None:
    topology = topology_of("lab_2core")
    with pytest.raises(BadInput, match=r"CPUs 24-47 are not on this machine \(it has 0-1\)"):
        domains_crossed(parse_cpu_mask("ffffff000000"), topology)


def test_hb96_srun_masks() -> None:
    """The pinning example of Azure/azurehpc: 16 ranks of 6 threads."""
    topology = topology_of("hb120_96rs_v3")
    placement = plan(topology, ranks=16, threads_per_rank=6, binding="l3")
    masks = srun_cpu_bind(placement).split(",")
    assert masks[:3] == ["mask_cpu:0x3f", "0xfc0", "0x3f000"]
    assert [int(mask.split("0x")[1], 16) for mask in masks] == [0x3F << 6 * i for i in range(16)]


def test_smt_siblings_only_when_asked_for() -> None:
    topology = topology_of("nv36ads_a10_v5")
    physical = plan(topology, ranks=2, threads_per_rank=9, binding="core")
    assert physical.per_rank[0] == tuple(range(0, 18, 2))
    with pytest.raises(BadInput, match=r"need 36 cores, and this machine has 18 \(36 with SMT"):
        plan(topology, ranks=2, threads_per_rank=18, binding="core")
    both = plan(topology, ranks=2, threads_per_rank=18, binding="core", smt=True)
    assert [format_cpu_list(cpus) for cpus in both.per_rank] == ["0-17", "18-35"]
    two_nodes = Topology(
        tuple(range(8)), {0: (0, 1, 4, 5), 1: (2, 3, 6, 7)}, (), ((0, 4), (1, 5), (2, 6), (3, 7))
    )
    whole = plan(two_nodes, ranks=1, threads_per_rank=8, binding="core", smt=True)
    assert whole.per_rank == (tuple(range(8)),)
    some = plan(topology, ranks=1, threads_per_rank=20, binding="numa", smt=True)
    assert format_cpu_list(some.per_rank[0]) == "0-4,6,8,10,12,14,16,18,20,22,24,26,28,30,32,34"


@parametrized(("ranks", "threads", "binding", "message"))
def test_bad_input_is_refused_with_its_numbers(
    ranks: int, threads: int, binding: str, message: str
) -> None:
    topology = topology_of("hb120rs_v3")
    with pytest.raises(BadInput) as refused:
        plan(topology, ranks=ranks, threads_per_rank=threads, binding=binding)
    assert message in str(refused.value)


def test_what_launchers_are_told() -> None:
    topology = topology_of("hb120_64rs_v3")
    placement = plan(topology, ranks=2, threads_per_rank=4, binding="numa")
    assert taskset_argv(placement.per_rank[1]) == ["taskset", "--cpu-list", "32-35"]
    assert omp_places(placement.per_rank[0]) == "{0},{1},{2},{3}"


def test_a_placement_keeps_what_was_asked_for() -> None:
    topology = topology_of("lab_2core")
    placement = plan(topology, ranks=1, threads_per_rank=2, binding="l3")
    assert placement == Placement(1, 2, "l3", ((0, 1),))


def test_layouts_of_a_two_core_machine() -> None:
    found = layouts(topology_of("lab_2core"))
    assert found == (Layout(1, 1, "none"), Layout(1, 2, "none"), Layout(2, 1, "core"))
    assert [layout.name for layout in found] == ["1x1", "1x2", "2x1"]
