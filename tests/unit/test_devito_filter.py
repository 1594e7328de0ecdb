"""Filters of the role devito: its sweep over nodes."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from trueup_devito import FilterModule, devito_node_sweep, most_ranks

NAMES = [f"node-{number}" for number in range(1, 12)]
ONE = {"ranks": 1, "threads_per_rank": 4, "binding": "core"}
FOUR = {"ranks": 4, "threads_per_rank": 1, "binding": "numa"}
USUAL: dict[str, Any] = {
    "hosts": [],
    "counts": [],
    "launchers": ["mpirun"],
    "layouts": [FOUR],
    "mpi_modes": ["basic"],
    "shape": "256x128x64",
    "scaling": "strong",
}


def sweep(count: int, **changes: Any) -> list[dict[str, Any]]:
    return devito_node_sweep(NAMES[:count], **{**USUAL, **changes})


def test_a_case_says_all_that_the_module_needs() -> None:
    assert sweep(2, counts=[2], hosts=["a", "b"]) == [
        {
            "nodes": ["node-1", "node-2"],
            "hosts": ["a", "b"],
            "shape": "256x128x64",
            "launcher": "mpirun",
            "mpi": "basic",
            "ranks": 4,
            "threads_per_rank": 1,
            "binding": "numa",
        }
    ]


@pytest.mark.parametrize(
    ("nodes", "counts", "swept"),
    [
        (1, [], [1]),
        (2, [], [1, 2]),
        (3, [], [1, 2, 3]),
        (4, [], [1, 2, 4]),
        (11, [], [1, 2, 4, 8, 11]),
        (4, [4, 2], [2, 4]),
        (4, ["3", 3, "1"], [1, 3]),
    ],
)
def test_few_nodes_come_first(nodes: int, counts: list[Any], swept: list[int]) -> None:
    cases = sweep(nodes, counts=counts, hosts=NAMES[:nodes])
    assert [len(case["nodes"]) for case in cases] == swept
    # A larger case has all the nodes of the smaller ones, and each its own host.
    assert [case["nodes"] for case in cases] == [NAMES[:count] for count in swept]
    assert [case["hosts"] for case in cases] == [NAMES[:count] for count in swept]


def test_the_order_is_nodes_layouts_launchers_exchanges() -> None:
    cases = sweep(
        2,
        layouts=[ONE, FOUR],
        launchers=["mpirun", "slurm"],
        mpi_modes=["basic", "full"],
    )
    found = [(len(case["nodes"]), case["ranks"], case["launcher"], case["mpi"]) for case in cases]
    assert found == [
        # One rank alone exchanges nothing.
        *((1, 1, "mpirun", "off"), (1, 1, "slurm", "off")),
        *((1, 4, "mpirun", "basic"), (1, 4, "mpirun", "full")),
        *((1, 4, "slurm", "basic"), (1, 4, "slurm", "full")),
        *((2, 1, "mpirun", "basic"), (2, 1, "mpirun", "full")),
        *((2, 1, "slurm", "basic"), (2, 1, "slurm", "full")),
        *((2, 4, "mpirun", "basic"), (2, 4, "mpirun", "full")),
        *((2, 4, "slurm", "basic"), (2, 4, "slurm", "full")),
    ]


def test_a_weak_series_grows_with_the_nodes() -> None:
    shapes = [case["shape"] for case in sweep(4, scaling="weak")]
    assert shapes == ["256x128x64", "512x128x64", "1024x128x64"]


@pytest.mark.parametrize("wrong", [0, 5])
def test_a_count_that_cannot_be_is_refused(wrong: int) -> None:
    message = (
        rf"devito_node_counts has {wrong}, and devito_nodes has 4 nodes: counts are from 1 to that"
    )
    with pytest.raises(AnsibleFilterError, match=message):
        sweep(4, counts=[2, wrong])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"counts": [-1]}, "devito_node_counts has -1, which is no number of nodes"),
        ({"counts": ["all"]}, "devito_node_counts has 'all', which is no number of nodes"),
        ({"shape": "256"}, "'256', is not like 256x256x256"),
        ({"nodes": 0}, "devito_nodes is empty"),
    ],
)
def test_what_is_no_sweep_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(AnsibleFilterError, match=message):
        sweep(given.pop("nodes", 4), **given)


def test_what_is_given_is_not_changed() -> None:
    layout = dict(FOUR, extra="x")
    case = sweep(1, layouts=[layout])[0]
    case["nodes"].append("other")
    assert NAMES[:2] == ["node-1", "node-2"]
    assert "extra" not in case


@pytest.mark.parametrize(
    ("layouts", "chosen"),
    [
        ([ONE, FOUR], FOUR),
        ([FOUR, ONE], FOUR),
        # All cores go before many ranks.
        ([ONE, {"ranks": 3, "threads_per_rank": 1, "binding": "core"}], ONE),
        ([{"ranks": "2", "threads_per_rank": "8", "binding": "l3"}, FOUR, ONE], "l3"),
    ],
)
def test_the_layout_of_most_ranks(layouts: list[dict[str, Any]], chosen: Any) -> None:
    found = most_ranks(layouts)
    assert found == chosen or found["binding"] == chosen


def test_the_filters_have_their_names() -> None:
    assert FilterModule().filters() == {
        "devito_node_sweep": devito_node_sweep,
        "most_ranks": most_ranks,
    }
