"""What a node gets, and what failed roles take with them."""

from __future__ import annotations

from typing import Any

import pytest
from helpers import parametrized
from trueup_controller import family
from trueup_controller.desktops import preflight
from trueup_node.errors import BadInput

LISTS = [
    {"families": ["hbv3", "hbv4"], "roles": ["limits", "rdma"], "benchmarks": ["stream"]},
    {"families": ["ndv4"], "roles": ["limits", "driver"], "benchmarks": ["nccl", "stream"]},
    {"families": ["unlisted"], "roles": [], "benchmarks": ["stream"]},
    {"families": ["unlisted_gpu"], "roles": [], "benchmarks": ["gemm"]},
]


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ([*LISTS, LISTS[0]], "families: hbv3 has two lists"),
        (LISTS[:2], "families: there is no list unlisted"),
    ],
)
def test_lists_that_cannot_be_used(lists: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(BadInput, match=f"^{message}$"):
        family.family_lists(lists, ["ndv4"], has_gpu=False)


def test_items_of_a_loop_are_no_other_nodes() -> None:
    assert family.steps(["a", "b"], "n1") == [
        {"node": "n1", "role": "a", "tasks": "configure_role.yml"},
        {"node": "n1", "role": "b", "tasks": "configure_role.yml"},
    ]


def test_a_session_host_is_drained_before_its_roles_and_given_back() -> None:
    found = family.steps(["windows_gpu", "avd_session_host"], "nv0")
    assert [(one["tasks"], one["role"]) for one in found] == [
        ("avd_drain.yml", "avd_session_host"),
        ("configure_role.yml", "windows_gpu"),
        ("configure_role.yml", "avd_session_host"),
        ("avd_give_back.yml", "avd_session_host"),
    ]


@parametrized(("plans", "due"))
def test_a_host_is_to_be_changed_where_a_plan_says_so(
    plans: list[dict[str, Any]], due: bool
) -> None:
    assert family.changes_due(plans) is due


NEEDS = {"tests": ["nccl"], "nccl": ["driver", "hpcx"], "clocks": ["driver"], "ib": ["rdma"]}


@parametrized(("failed", "lost"))
def test_what_failed_roles_take_with_them(failed: list[str], lost: dict[str, str]) -> None:
    assert family.lost_roles(NEEDS, failed) == lost


def test_what_is_lost_is_said_by_name() -> None:
    lost = {"driver": "driver", "nccl": "driver", "clocks": "driver"}
    skipped = family.skipped_on_node(lost, ["driver", "hpcx", "nccl", "nccl"])
    assert skipped == [
        {"what": "driver", "why": "the role failed"},
        {"what": "nccl", "why": "role driver failed"},
    ]
    assert family.without(["nccl", "ib"], skipped) == ["ib"]


def node(**members: Any) -> dict[str, Any]:
    made = {"catalog": {}, "gpu_count_expected": None, "rdma_count_expected": None}
    return {
        **made,
        "family": "ndv4",
        "privilege": "root",
        "distribution_version": "24.04",
        "package_manager": "apt",
        "os": "Linux",
        **members,
    }


@parametrized(("row", "gpus", "nics", "expected"))
def test_health_measures_what_the_size_has(
    row: dict[str, Any] | None, gpus: int | None, nics: int | None, expected: list[str]
) -> None:
    made = node(catalog=row, gpu_count_expected=gpus, rdma_count_expected=nics)
    assert family.health_benchmarks(made) == expected


@parametrized(("members", "roles", "benchmarks", "problems"))
def test_what_keeps_a_node_from_its_plan(
    members: dict[str, Any], roles: list[str], benchmarks: list[str], problems: list[str]
) -> None:
    found = family.node_problems(
        node(**members),
        name="n1",
        roles=roles,
        benchmarks=benchmarks,
        known_benchmarks=["nccl", "stream"],
    )
    assert [text[: len(begin)] for text, begin in zip(found, problems, strict=True)] == problems


@parametrized(("mpi", "there", "roles", "refused"))
def test_an_mpi_that_is_named_and_not_there_is_refused(
    mpi: str, there: bool, roles: list[str], refused: bool
) -> None:
    warning = f"MPI: trueup_mpi is {mpi!r}, and this node has no MPI: give one"
    fact = {"path": "/opt/openmpi-5/bin/mpirun", "kind": "openmpi"} if there else None
    made = node(mpi=fact, warnings=[] if there else [warning])
    found = family.node_problems(
        made, name="n1", roles=roles, benchmarks=[], known_benchmarks=[], mpi=mpi
    )
    assert found == ([f"{warning.removeprefix('MPI: ')}."] if refused else [])


def test_an_image_of_enterprise_linux_8_is_configured_by_verification() -> None:
    el8 = {"package_manager": "dnf", "distribution_version": "8.10", "os": "Alma 8.10"}
    image = {"hpc_image": {"HPCX": "2.25.1"}}
    cases = ({}, ["rdma"]), (image, ["rdma"]), (image, [])
    told = [
        family.node_problems(
            node(**el8, **more),
            name="n1",
            roles=roles,
            benchmarks=["stream"],
            known_benchmarks=["stream"],
        )
        for more, roles in cases
    ]
    assert [len(texts) for texts in told] == [1, 0, 0]
    warned = [family.node_warnings(node(**el8, **more), roles) for more, roles in cases]
    assert [len(texts) for texts in warned] == [0, 1, 0]
    assert "none is installed" in warned[1][0]
    assert family.node_warnings(node(**image), ["rdma"]) == []


@parametrized(("name", "listed", "whats"))
def test_a_family_without_a_list_is_named(name: str, listed: bool, whats: list[str]) -> None:
    skips = family.skips(
        [{}, {"skipped_here": [{"what": "nccl", "why": "x"}]}],
        node(family=name),
        {"listed": listed},
    )
    assert [item["what"] for item in skips] == whats
    assert [item["why"] for item in skips if item["what"] == "configure"] == [
        f"no list of roles for the family {name} (trueup_families)" for _ in whats[1:]
    ]


def test_a_part_of_a_benchmark_that_is_skipped_is_not_the_whole() -> None:
    part, whole = ({"what": what, "why": "no gcc"} for what in ("devito over nodes", "devito"))
    assert family.skips_of({"skipped_here": [part, whole]}, "devito") == [whole]
    assert family.skips_of({"skipped_here": [part]}, "devito") == []
    [failed] = family.failed_benchmark({"msg": f"no package {'x' * 400}\nmore"}, "ib")
    assert (failed["what"], failed["why"][:20]) == ("ib", "failed: no package x")
    assert len(failed["why"]) < 320
    assert family.failed_benchmark({}, "ib") == [
        {"what": "ib", "why": "failed: its task does not say why"}
    ]
    assert family.skip_lines([part]) == ["skipped: devito over nodes: no gcc"]


# ---- Windows hosts ------------------------------------------------------------------------------

BOTH = [
    {"families": ["nv"], "roles": ["grid"], "benchmarks": ["gemm"]},
    {"families": ["nv"], "system": "windows", "roles": ["gpu"], "benchmarks": ["nv_a10"]},
    *LISTS,
]


def windows(**more: Any) -> dict[str, Any]:
    return {
        "system": "windows",
        "family": "nv_a10_v5",
        "vm_size": "Standard_NV12ads_A10_v5",
        "catalog": {"vcpus": 12},
        "metadata_status": "ok",
        "licence_type": "Windows_Client",
        "privilege": "administrator",
        "programs": {},
        **more,
    }


def test_a_windows_host_gets_no_compiler_and_no_benchmark_of_linux() -> None:
    assert family.benchmark_roles(windows(), ["nv_a10"], []) == ["nv_a10"]
    two = windows(gpu_count_expected=2, rdma_count_expected=0)
    assert family.health_benchmarks(two) == []
    assert family.not_for_windows(BOTH, ["stream", "nv_a10", "stream"]) == [
        {"what": "stream", "why": "it does not run on Windows"}
    ]


@parametrized(("node", "roles", "cluster", "said"))
def test_what_keeps_a_windows_host_from_being_configured(
    node: dict[str, Any], roles: list[str], cluster: list[str], said: list[str]
) -> None:
    asked: dict[str, Any] = {"benchmarks": [], "known_benchmarks": ["stream"], "mpi": "hpcx"}
    assert family.node_problems(node, name="nv0", roles=roles, cluster=cluster, **asked) == said


@parametrized(("more", "surcharge"))
def test_what_windows_costs_beside_the_size(more: dict[str, Any], surcharge: float | None) -> None:
    found = preflight.surcharge(windows(**more))
    assert found == (None if surcharge is None else pytest.approx(surcharge))
    assert bool(family.node_warnings(windows(**more), [])) is bool(surcharge)
