"""The role ib, planned: cases of each device, rounds of pairs, what is skipped and refused."""

from __future__ import annotations

from typing import Any

import pytest
from role_plans import asked as asked_of
from role_plans import node
from trueup_controller.plans.ib import asks, plan, programs
from trueup_node.benchmarks.ib.case import OPTIONS
from trueup_node.errors import BadInput
from trueup_node.options import MODULE, module_spec, refusals
from trueup_node.plan import PlanInputs

DEFAULTS = {one.name: one.default for one in OPTIONS if one.of != MODULE}
NO_DEVICE = "no InfiniBand device on this node, its size has none, and ib_devices names no other"
NO_PERFTEST = (
    "no /usr/bin/ib_write_bw on this node, and installing perftest needs root or sudo without a"
    " password"
)
TWO = [
    {"device": "mlx5_ib0", "kind": "infiniband"},
    {"device": "mlx5_an0", "kind": "ethernet"},
    {"device": "mlx5_ib1", "kind": "infiniband"},
]
HDR = {"infiniband": [{"link_layer": "Ethernet"}, {"link_layer": "InfiniBand"}]}
ALL = {"test": "write_bw", "message_bytes": 0}


def asked(
    *, path: str | None = "/usr/bin/ib_write_bw", node: Any = HDR, host: str = "a", **more: Any
) -> PlanInputs:
    found = more.pop("found", {})
    variables = more.pop("variables", {})
    given = {**DEFAULTS, **more}
    return PlanInputs(
        options=given,
        node={"privilege": None, **node},
        host=host,
        hosts=["a", "b", "c"],
        hostvars={"b": {"ansible_host": "10.0.0.5"}},
        variables=variables,
        found={
            "programs": {f"{given['folder']}/ib_write_bw": path},
            "mentions": {f"{given['folder']}/ib_write_bw": True},
            **found,
        },
    )


def test_every_infiniband_device_by_default() -> None:
    made = plan(asked(found={"trueup_rdma": {"devices": TWO}}))
    assert (made.skipped, made.refused, made.values["install"]) == ([], [], False)
    cases = made.cases or []
    assert [(case["device"], case["test"], case["message_bytes"]) for case in cases] == [
        (device, test, size)
        for device in ("mlx5_ib0", "mlx5_ib1")
        for test, size in (("write_bw", 1048576), ("read_bw", 1048576), ("send_lat", 8))
    ]
    assert set(cases[0]) < set(module_spec(OPTIONS))
    assert programs(asked()) == {"programs": ["/usr/bin/ib_write_bw"]}
    # Preflight has not looked yet.
    assert (plan(asked()).cases, plan(asked()).refused) == ([], [])


def test_soft_roce_has_the_gid_of_ipv4() -> None:
    devices = [*TWO, {"device": "rxe0", "kind": "soft-roce"}]
    wanted = asked(devices=["rxe0", "mlx5_ib0"], found={"trueup_rdma": {"devices": devices}})
    gids = {case["device"]: case.get("gid_index", -1) for case in plan(wanted).cases or []}
    assert gids == {"rxe0": 1, "mlx5_ib0": -1}


def test_devices_that_have_a_gpu_are_measured_from_its_memory_too() -> None:
    wanted = asked(
        devices=["mlx5_ib1", "rxe0"],
        gpus={"mlx5_ib1": 3},
        cases=[ALL],
        found={"trueup_rdma": {"devices": TWO}},
        variables={"trueup_sysfs_root": "/replica/sys"},
    )
    cases = plan(wanted).cases or []
    assert [(case["device"], case["message_bytes"], case.get("gpu")) for case in cases] == [
        ("mlx5_ib1", 0, None),
        ("rxe0", 0, None),
        ("mlx5_ib1", 8388608, 3),
    ]
    assert {case["sysfs_root"] for case in cases} == {"/replica/sys"}


@pytest.mark.parametrize(
    ("wanted", "why", "install"),
    [
        (asked(node={}), NO_DEVICE, False),
        (asked(node={"catalog": {"rdma_nics": 1}}), "", False),
        (asked(node={}, devices=["rxe0"]), "", False),
        (asked(path=None), NO_PERFTEST, True),
        (asked(path=None, node={**HDR, "privilege": "sudo"}), "", True),
        (
            asked(path=None, folder="/opt/cuda", node={**HDR, "privilege": "root"}),
            NO_PERFTEST.replace("/usr/bin", "/opt/cuda"),
            False,
        ),
    ],
)
def test_what_is_installed_or_skipped(wanted: PlanInputs, why: str, install: bool) -> None:
    made = plan(wanted)
    assert [one.why for one in made.skipped] == ([why] if why else [])
    assert made.values["install"] is install


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"cases": [ALL], "duration_seconds": 9}, "all sizes by iterations only"),
        ({"devices": ["rxe0"], "gpus": {"mlx5_ib0": 0}}, "ib_gpus holds mlx5_ib0, which ib_dev"),
    ],
)
def test_what_perftest_would_take_for_something_else_is_refused(
    options: dict[str, Any], why: str
) -> None:
    with pytest.raises(BadInput, match=why):
        plan(asked(**options))


def test_a_node_without_a_device_is_refused_and_rests_in_pairs() -> None:
    none = {"trueup_rdma": {"devices": TWO[1:2]}}
    assert plan(asked(found=none)).refused == [
        "no InfiniBand device on this node; see role rdma, or name others in ib_devices"
    ]
    made = plan(asked(found={**none, "may_rest": True}))
    assert (made.refused, made.values["pair_device"]) == ([], "")


@pytest.mark.parametrize(
    ("host", "options", "node"),
    [
        ("a", {}, ["mlx5_ib0", "a", "a"]),
        ("b", {}, ["mlx5_ib0", "b", "10.0.0.5"]),
        ("b", {"address": "node-b", "devices": ["rxe0"]}, ["rxe0", "b", "node-b"]),
    ],
)
def test_how_the_others_reach_a_node(host: str, options: dict[str, Any], node: list[str]) -> None:
    values = plan(asked(host=host, found={"trueup_rdma": {"devices": TWO}}, **options)).values
    assert [values["pair_device"], *values["pair_node"]] == node


def rounds(host: str, nodes: Any, *, batch: int = 3, forks: int = 5, **options: Any) -> Any:
    found = {"trueup_rdma": {"devices": TWO}, "nodes": nodes, "batch": batch, "forks": forks}
    return plan(asked(host=host, found=found, **options))


def test_each_node_has_its_part_in_each_round() -> None:
    nodes = {"a": "10.0.0.4", "b": "10.0.0.5", "c": "10.0.0.6"}
    parts = {host: rounds(host, nodes).values["rounds"] for host in nodes}
    for number in range(3):
        roles = sorted(parts[host][number]["end"]["role"] for host in nodes)
        assert roles == ["client", "rests", "server"]
        for host in nodes:
            end, peer = parts[host][number]["end"], parts[host][number]["peer"]
            if end["role"] == "client":
                assert end == {"role": "client", "address": nodes[peer], "peer_name": peer}
                assert parts[peer][number]["peer"] == host
    assert {part["peer"] for part in parts["a"]} == {"b", "c", ""}
    # A node without a device is in all rounds, and rests.
    others = {name: nodes[name] for name in ("b", "c")}
    assert [part["end"]["role"] for part in rounds("a", others).values["rounds"]] == ["rests"]


def test_a_server_waits_for_the_last_wave_of_clients() -> None:
    nodes = {name: name for name in "abcdefghij"}
    values = rounds("a", nodes, forks=2, timeout_seconds=100, connect_seconds=60).values
    assert values["server_seconds"] == 60 + 3 * 100
    ends = [part["end"] for part in values["rounds"] if part["end"]["role"] == "server"]
    assert {end["timeout_seconds"] for end in ends} == {360}


def test_pairs_write_from_host_memory() -> None:
    (case,) = rounds("a", {"a": "a", "b": "b"}).values["pair_cases"]
    assert (case["device"], case["test"], case["message_bytes"]) == (
        *("mlx5_ib0", "write_bw"),
        1048576,
    )
    assert set(case) < set(module_spec(OPTIONS))


@pytest.mark.parametrize(("nodes", "batch"), [({"a": "a"}, 3), ({"a": "a", "b": "b"}, 2)])
def test_a_play_that_does_not_hold_two_nodes_at_once_is_refused(nodes: Any, batch: int) -> None:
    (why,) = rounds("a", nodes, batch=batch).refused
    assert why.startswith(f"{len(nodes)} nodes with an InfiniBand device")
    assert f"in a batch of {batch} of 3 hosts" in why


def test_sizes_of_cases_are_in_range() -> None:
    wrong = {"cases": [{"test": "write_bw", "message_bytes": -1}]}
    assert refusals(OPTIONS, wrong, "ib_") == [
        "ib_cases: message_bytes is -1: it must be 0 or more, 2147483647 or less"
    ]


ADAPTERS = [{"device": f"mlx5_ib{number}", "kind": "infiniband"} for number in range(8)]


@pytest.mark.parametrize(
    ("family", "options", "gpus"),
    [
        (
            "ndv4",
            {"folder": "/opt/perftest/bin"},
            {f"mlx5_ib{number}": number for number in range(8)},
        ),
        ("ndv4", {"folder": "/opt/perftest/bin", "gpus": {"mlx5_ib2": 5}}, {"mlx5_ib2": 5}),
        ("ndv4", {"folder": "/opt/perftest/bin", "gpu_cases": []}, {}),
        ("hbv3", {"folder": "/opt/perftest/bin"}, {}),
        ("nc_a100_v4", {"folder": "/opt/perftest/bin"}, {}),
    ],
)
def test_an_adapter_has_the_gpu_beside_it(
    family: str, options: dict[str, Any], gpus: dict[str, int]
) -> None:
    program = f"{options.get('folder', '/usr/bin')}/ib_write_bw"
    found = {
        "programs": {program: program},
        "trueup_rdma": {"devices": ADAPTERS},
        "mentions": {program: True},
    }
    cases = plan(asked_of("ib", node(family), found, **options)).cases or []
    assert {case["device"]: case["gpu"] for case in cases if case.get("gpu") is not None} == gpus


BUILT = "/opt/trueup/perftest/bin/ib_write_bw"


def of_nd(family: str = "ndv4", /, **given: Any) -> Any:
    """The plan of a node whose perftest has no CUDA."""
    on = node(family, given.pop("system", "ubuntu-24.04"), **given.pop("node", {}))
    own = f"{given.get('folder', '/usr/bin')}/ib_write_bw"
    found = {"programs": {own: own}, "mentions": {own: False, BUILT: False}}
    found.update({"outdated": ["perftest"], **given.pop("found", {})})
    return plan(asked_of("ib", on, found, **given))


@pytest.mark.parametrize("system", ["ubuntu-24.04", "almalinux-9"])
def test_perftest_with_cuda_is_built_where_the_node_has_none(system: str) -> None:
    made = of_nd(system=system)
    build = made.values["build"]
    assert ("rdma-core-devel" in build["packages"]) == (system == "almalinux-9")
    assert build["commit"] == "8a1d3d7234add23fe006b2ff51d650ff022077a8"
    assert build["commands"][0] == ["ls", "/usr/local/cuda/include/cuda.h"]
    assert build["commands"][2][-1] == "CUDA_H_PATH=/usr/local/cuda/include/cuda.h"
    assert build["files"][0] == "bin/ib_write_bw"
    # It is not skipped before it was tried.
    assert made.skipped == []
    wanted = asked_of("ib", node("ndv4", system), {})
    assert programs(wanted)["mentions"] == dict.fromkeys(
        ("/usr/bin/ib_write_bw", BUILT), "--use_cuda"
    )
    assert asks(wanted)["nccl_facts"]["builds"] == [build]


def test_what_was_built_measures_from_gpu_memory_and_the_nodes_own_from_the_hosts() -> None:
    found = {"outdated": [], "mentions": {BUILT: True}, "trueup_rdma": {"devices": ADAPTERS}}
    made = of_nd(found=found)
    assert (made.values["build"], made.skipped) == ({}, [])
    folders = {case["folder"]: [] for case in made.cases or []}
    for case in made.cases or []:
        folders[case["folder"]].append(case.get("gpu"))
    assert folders == {"/usr/bin": [None] * 24, "/opt/trueup/perftest/bin": [*range(8)]}


def test_an_image_that_has_cuda_in_its_perftest_keeps_it() -> None:
    found = {"mentions": {"/usr/bin/ib_write_bw": True}, "trueup_rdma": {"devices": ADAPTERS}}
    made = of_nd(found=found)
    assert (made.values["build"], made.skipped) == ({}, [])
    assert {case["folder"] for case in made.cases or []} == {"/usr/bin"}


@pytest.mark.parametrize(
    ("given", "why"),
    [
        # A folder of one's own is left as it is, and its GPU cases do not fail.
        ({"folder": "/opt/own"}, "/opt/own/ib_write_bw has no CUDA"),
        ({"folder": "/opt/own", "gpus": {"mlx5_ib0": 0}}, "/opt/own/ib_write_bw has no CUDA"),
        ({"node": {"privilege": None}}, "has no CUDA, and building one needs root"),
        ({"node": {"package_manager": None}}, "has no CUDA, and building one needs root"),
        (
            {"found": {"trueup_rdma": {"devices": ADAPTERS}}},
            "has no CUDA, and building one did not work",
        ),
    ],
)
def test_without_cuda_gpu_memory_is_skipped_by_name(given: dict[str, Any], why: str) -> None:
    found = {"trueup_rdma": {"devices": ADAPTERS}, **given.pop("found", {})}
    made = of_nd(found=found, **given)
    assert [one.what for one in made.skipped] == ["ib from GPU memory"]
    assert why in made.skipped[0].why
    assert {case.get("gpu") for case in made.cases or []} == {None}
    assert len(made.cases or []) == 24


@pytest.mark.parametrize("family", ["hbv3", "nc_a100_v4"])
def test_nothing_is_built_where_no_adapter_has_a_gpu(family: str) -> None:
    assert of_nd(family).values["build"] == {}
    wanted = asked_of("ib", node(family), {})
    assert (asks(wanted), "mentions" in programs(wanted)) == ({}, False)
