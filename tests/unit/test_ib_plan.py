"""The role ib, planned: cases of each device, rounds of pairs, what is skipped and refused."""

from __future__ import annotations

from typing import Any

from trueup_controller.plans.ib import plan, programs
from trueup_node.benchmarks.ib.case import OPTIONS
from trueup_node.options import MODULE, module_spec, refusals
from trueup_node.plan import PlanInputs

DEFAULTS = {one.name: one.default for one in OPTIONS if one.of != MODULE}
TWO = [
    {"device": "mlx5_ib0", "kind": "infiniband"},
    {"device": "mlx5_an0", "kind": "ethernet"},
    {"device": "mlx5_ib1", "kind": "infiniband"},
]
HDR = {"infiniband": [{"link_layer": "Ethernet"}, {"link_layer": "InfiniBand"}]}


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


def rounds(host: str, nodes: Any, *, batch: int = 3, forks: int = 5, **options: Any) -> Any:
    found = {"trueup_rdma": {"devices": TWO}, "nodes": nodes, "batch": batch, "forks": forks}
    return plan(asked(host=host, found=found, **options))


def test_pairs_write_from_host_memory() -> None:
    (case,) = rounds("a", {"a": "a", "b": "b"}).values["pair_cases"]
    assert (case["device"], case["test"], case["message_bytes"]) == (
        *("mlx5_ib0", "write_bw"),
        1048576,
    )
    assert set(case) < set(module_spec(OPTIONS))


def test_sizes_of_cases_are_in_range() -> None:
    wrong = {"cases": [{"test": "write_bw", "message_bytes": -1}]}
    assert refusals(OPTIONS, wrong, "ib_") == [
        "ib_cases: message_bytes is -1: it must be 0 or more, 2147483647 or less"
    ]
