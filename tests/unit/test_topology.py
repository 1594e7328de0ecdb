"""CPU lists, masks, and the topology that sysfs trees show."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from helpers import parametrized
from hypothesis import given
from hypothesis import strategies as st
from machines import build, topology_of
from trueup_node.errors import BadInput, ParseError
from trueup_node.node.topology import (
    cpu_mask,
    format_cpu_list,
    mask_words,
    parse_cpu_list,
    parse_cpu_mask,
    read_topology,
)

if TYPE_CHECKING:
    from pathlib import Path

CPU_SETS = st.sets(st.integers(0, 400), max_size=64)


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("0-3,8", (0, 1, 2, 3, 8)), ("0", (0,)), ("", ()), (" 2 ,1\n", (1, 2)), ("5-5", (5,))],
)
def test_cpu_list_is_parsed(text: str, cpus: tuple[int, ...]) -> None:
    assert parse_cpu_list(text) == cpus


@pytest.mark.parametrize("text", ["3-1", "a", "0,,1", "-1", "0-99999999999", "0-31:2/4", "8192"])
def test_cpu_list_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ParseError) as refused:
        parse_cpu_list(text)
    assert refused.value.line == text


def test_cpu_list_is_formatted_in_ranges() -> None:
    assert format_cpu_list([8, 0, 1, 3, 2, 10]) == "0-3,8,10"


@given(CPU_SETS)
def test_lists_and_masks_round_trip(cpus: set[int]) -> None:
    expected = tuple(sorted(cpus))
    assert parse_cpu_list(format_cpu_list(cpus)) == expected
    assert parse_cpu_mask(cpu_mask(cpus)) == expected
    assert parse_cpu_mask(mask_words(cpus, 401)) == expected


@given(st.text(alphabet="0123456789-, x", max_size=12))
def test_any_text_is_a_cpu_list_or_a_parse_error(text: str) -> None:
    try:
        cpus: tuple[int, ...] | None = parse_cpu_list(text)
    except ParseError:
        cpus = None
    assert cpus is None or parse_cpu_list(format_cpu_list(cpus)) == cpus


@parametrized(("machine", "masks"))
def test_numa_masks_of_gpu_sizes(machine: str, masks: list[str]) -> None:
    """The masks of the topology files in Azure/azhpc-images."""
    topology = topology_of(machine)
    shown = [mask_words(cpus, len(topology.cpus)) for cpus in topology.numa.values()]
    assert shown == masks
    assert [parse_cpu_mask(mask) for mask in masks] == list(topology.numa.values())


@parametrized(("machine", "numa", "first_groups"))
def test_hbv3_sizes(machine: str, numa: list[str], first_groups: list[str]) -> None:
    topology = topology_of(machine)
    assert [format_cpu_list(cpus) for cpus in topology.numa.values()] == numa
    assert [format_cpu_list(group) for group in topology.l3_groups[:4]] == first_groups
    assert len(topology.l3_groups) == 16
    assert topology.last_level_cache_bytes == 1536 * 1024**2
    assert sum(topology.numa_memory_bytes.values()) == 470543164 * 1024


def test_smt_siblings_make_one_core() -> None:
    topology = topology_of("nv36ads_a10_v5")
    assert len(topology.cpus) == 36
    assert topology.cores[:2] == ((0, 1), (2, 3))
    assert len(topology.cores) == 18


def test_nothing_allowed_is_refused(tmp_path: Path) -> None:
    root = str(build({"numa": ["0-3"]}, tmp_path) / "sys")
    with pytest.raises(BadInput, match="4 online"):
        read_topology(root, allowed={9})


def test_without_sysfs_the_allowed_cpus_are_all_there_is(tmp_path: Path) -> None:
    assert read_topology(str(tmp_path), allowed={0, 2}).numa == {0: (0, 2)}


def test_a_corrupt_file_is_a_parse_error(tmp_path: Path) -> None:
    root = build({"numa": ["0-1"]}, tmp_path) / "sys"
    (root / "devices" / "system" / "node" / "node0" / "cpulist").write_text("zero\n")
    with pytest.raises(ParseError, match="'zero'"):
        read_topology(str(root))


@pytest.mark.parametrize("text", ["", "0x", "xyz", "fffffffff,00000000", ",", "f,,f"])
def test_mask_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ParseError) as refused:
        parse_cpu_mask(text)
    assert refused.value.line == text


def test_masks_refuse_cpus_that_do_not_fit() -> None:
    with pytest.raises(BadInput, match="CPU 96 does not fit in a width of 96"):
        mask_words([96], 96)
    with pytest.raises(BadInput, match="-1"):
        cpu_mask([-1])
