"""What a deployment costs, and whether a subscription may have it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers import parametrized
from provisioning import DATA, NOW, known, made
from trueup_analysis.figures import azure
from trueup_controller.azure import availability, cost, parameters
from trueup_node.errors import TrueupError

PRICES = {
    ("Standard_HB120rs_v3", "payg"): cost.Price(4.0, "2026-06-18", "a list"),
    ("Standard_HB120rs_v3", "spot"): cost.Price(1.5, "", "another"),
    ("Standard_E64ds_v5", "payg"): cost.Price(5.0, "2026-06-18", "a list"),
    ("Standard_D4d_v5", "payg"): cost.Price(0.25, "2026-06-18", "a list"),
}


def costs(found: parameters.Parameters, limit: float | None = None) -> cost.Cost:
    return cost.cost(found, lambda size, _, offer: PRICES.get((size, offer)), 8, limit)


def answer(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((DATA / name).read_text(encoding="utf-8"))["value"]
    return found


def test_every_vm_is_priced_and_everything_else_is_counted() -> None:
    storage = {"kind": "nfs", "tib": 4, "server_size": "Standard_E64ds_v5"}
    found = costs(made({"count": 3}, storage=storage, bastion=True))
    assert [(line.what, line.count, line.usd_per_hour, line.stopped) for line in found.lines] == [
        ("nodes (Standard_HB120rs_v3)", 3, 12.0, False),
        ("login node (Standard_D4d_v5)", 1, 0.25, False),
        ("NFS server (Standard_E64ds_v5)", 1, 5.0, False),
        ("disks of nodes (StandardSSD_LRS, 128 GiB each)", 3, None, True),
        ("disks of login node (StandardSSD_LRS, 128 GiB each)", 1, None, True),
        ("disks of NFS server (StandardSSD_LRS, 128 GiB each)", 1, None, True),
        ("disks of NFS data (Premium_LRS, 1,024 GiB each)", 4, None, True),
        ("public address login-ip", 1, None, True),
        ("public address nat-ip", 1, None, True),
        ("public address bastion-ip", 1, None, True),
        ("NAT gateway", 1, None, True),
        ("Bastion (Standard)", 1, None, True),
        ("data that leaves Azure or goes through the NAT gateway", 1, None, False),
    ]
    assert found.sentence() == (
        "at least 17.25 US$ an hour, 414.00 US$ a day, 138.00 US$ until it expires; 10 of 13 lines"
        " have no price"
    )


@parametrized(("storage", "line"))
def test_storage_services_bill_though_nodes_are_stopped(storage: dict[str, Any], line: str) -> None:
    assert line in [one.what for one in costs(made(storage=storage)).stopped]


def test_spot_is_priced_as_spot_and_the_login_node_is_not() -> None:
    lines = costs(made({"count": 2, "priority": "spot"})).lines[:2]
    assert [(line.offer, line.usd_per_hour) for line in lines] == [("spot", 3.0), ("payg", 0.25)]


def test_reserved_capacity_bills_while_its_nodes_are_stopped() -> None:
    group = (
        "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/capacityReservationGroups/r"
    )
    assert costs(made({"reservation": group})).lines[0].stopped is True


@parametrized(("own", "given", "refused"))
def test_what_costs_more_than_the_limit_is_refused(
    own: float | None, given: float | None, refused: str | None
) -> None:
    small: dict[str, Any] = {"unpriced_allowed": ["disks", "address", "nat", "traffic"]}
    limits = small if own is None else {**small, "max_usd_per_hour": own}
    text = costs(made({"count": 3}, **limits), given).refusal()
    if refused is None:
        assert text is None
    else:
        assert text == (
            "it costs at least 12.25 US$ an hour, above max_usd_per_hour"
            f" ({refused} US$): take fewer or smaller nodes, or raise it"
        )


def test_a_dear_place_is_refused_though_the_first_is_not(tmp_path: Path) -> None:
    own = tmp_path / "own.yml"
    own.write_text("elsewhere: [{region: westeurope}]\nmax_usd_per_hour: 9")
    found = azure.plan("devito-hbv3", own, now=NOW)
    cheap, dear = (one.cost.usd_per_hour for one in (found, *found.elsewhere))
    assert cheap < dear
    between = azure.plan("devito-hbv3", own, now=NOW, limit=(cheap + dear) / 2)
    assert between.cost.refusal() is None
    assert str(between.refusal()).startswith("in westeurope it costs at least")


def test_a_size_without_a_price_is_a_line_without_one() -> None:
    found = costs(made({"size": "Standard_ND96asr_v4"}))
    assert (found.lines[0].each, found.usd_per_hour) == (None, 0.25)


# ---- quota --------------------------------------------------------------------------------------


def needed(found: parameters.Parameters) -> dict[str | None, int]:
    return {one.name: one.vcpus for one in availability.needs(found, known())}


def test_cores_are_counted_by_family_and_in_all() -> None:
    storage = {"kind": "nfs", "tib": 4, "server_size": "Standard_E64ds_v5"}
    assert needed(made({"count": 3}, storage=storage)) == {
        "standardHBv3Family": 360,
        "cores": 360 + 4 + 64,
        "standardDDv5Family": 4,
        "standardEDSv5Family": 64,
    }


def test_a_size_with_fewer_cores_counts_those_it_is_sold_with() -> None:
    assert needed(made({"size": "Standard_HB120-16rs_v3"}, login={}, ssh_from=[])) == {
        "standardHBv3Family": 120,
        "cores": 120,
    }


def test_spot_counts_in_a_pool_of_its_own() -> None:
    assert needed(made({"count": 2, "priority": "spot"})) == {
        "lowPriorityCores": 240,
        "standardDDv5Family": 4,
        "cores": 4,
    }


def problems(found: parameters.Parameters) -> list[str]:
    wanted = availability.needs(found, known())
    held = availability.held_against(wanted, answer("usages.json"))
    return [text for one in held if (text := one.problem())]


def test_enough_quota_is_no_problem_however_its_name_is_spelt() -> None:
    assert problems(made({"count": 2})) == []


def test_missing_quota_is_said_in_cores() -> None:
    assert problems(made({"count": 3})) == [
        (
            "120 vCPUs of quota 'standardHBv3Family' are missing: 360 are needed for"
            " Standard_HB120rs_v3, 240 of 360 are free"
        ),
        (
            "24 vCPUs of quota 'cores' are missing: 364 are needed for Standard_HB120rs_v3,"
            " Standard_D4d_v5, 340 of 350 are free"
        ),
    ]
    assert problems(made({"size": "Standard_ND96asr_v4"})) == [
        (
            "96 vCPUs of quota 'Standard NDASv4_A100 Family' are missing: 96 are needed for"
            " Standard_ND96asr_v4, 0 of 0 are free"
        )
    ]


def test_quota_that_nobody_knows_is_named_and_not_taken_for_enough() -> None:
    assert problems(made({"size": "Standard_D4s_v4"}, image="a:b:c:1.2")) == [
        "the quota of Standard_D4s_v4 (4 vCPUs) is not known by name, and was not checked"
    ]
    assert problems(made({"size": "Standard_HB176rs_v4"})) == [
        "the subscription's answer has no quota 'standardHBv4Family' (Standard_HB176rs_v4)"
    ]


@parametrized("usage")
def test_a_usage_that_is_not_as_documented_is_refused(usage: Any) -> None:
    with pytest.raises(
        TrueupError, match=r"^Azure's list of usages: entry 1 is not as documented$"
    ):
        availability.held_against([], [usage])


# ---- what is restricted where -------------------------------------------------------------------


@parametrized(("nodes", "given", "expected"))
def test_what_stands_against_a_size(
    nodes: dict[str, Any], given: dict[str, Any], expected: list[str]
) -> None:
    assert availability.restrictions(made(nodes, **given), answer("skus.json")) == expected


def test_what_the_size_lacks_of_what_is_asked_is_said() -> None:
    names = (
        *("TrustedLaunchDisabled", "LowPriorityCapable", "CapacityReservationSupported"),
        *("AcceleratedNetworkingEnabled", "PremiumIO"),
    )
    skus = [
        {
            "resourceType": "virtualMachines",
            "name": "standard_hb120rs_V3",
            "locations": ["southcentralus"],
            "capabilities": [
                {"name": name, "value": str(name.endswith("Disabled"))} for name in names
            ],
        }
    ]
    alone = {"login": {}, "ssh_from": [], "security": "trusted_launch"}
    found = made({"priority": "spot", "os_disk": "Premium_LRS"}, **alone)
    assert availability.restrictions(found, skus) == [
        f"Standard_HB120rs_v3 {what}"
        for what in (
            *("cannot start with Trusted Launch", "is not sold as spot"),
            *("has no accelerated networking", "takes no Premium SSD"),
        )
    ]


@pytest.mark.parametrize("sku", [None, {}, {"name": 7}])
def test_a_sku_that_is_not_as_documented_is_refused(sku: Any) -> None:
    with pytest.raises(TrueupError, match=r"^Azure's list of SKUs: an entry has no name"):
        availability.restrictions(made(), [sku])
