"""Templates of deployments: golden files, rules, and Azure's models where those are installed."""

from __future__ import annotations

import copy
import json
from typing import Any

import azure_sdk
import pytest
import yaml
from helpers import parametrized
from hypothesis import given
from hypothesis import strategies as st
from provisioning import DATA, NOW, RECIPES, RUN, known, made, recipe
from trueup_controller.azure import parameters, self_destruct, template
from trueup_controller.azure.self_destruct import CONTRIBUTOR

OWNER = yaml.safe_load((DATA / "owner.yml").read_text(encoding="utf-8"))
RESERVATION = (
    "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/capacityReservationGroups/r"
)
PULL = {
    "release": "https://example.com/trueup.bundle",
    "sha256": "ab" * 32,
    "identity": "/subscriptions/s/resourceGroups/g/providers/Microsoft.ManagedIdentity"
    "/userAssignedIdentities/records",
}
VM, SET = "Microsoft.Compute/virtualMachines", "Microsoft.Compute/virtualMachineScaleSets"
ASSIGNMENT = "Microsoft.Authorization/roleAssignments"
NFS = {"kind": "nfs", "tib": 2, "server_size": "Standard_E64ds_v5"}


def of(found: parameters.Parameters) -> dict[str, Any]:
    return template.template(found, known(), RUN)


def resources(found: parameters.Parameters, kind: str) -> list[dict[str, Any]]:
    return [one for one in of(found)["resources"] if one["type"] == kind]


def the_set(nodes: dict[str, Any] | None = None, **given: Any) -> dict[str, Any]:
    [found] = resources(made(nodes, **given), SET)
    return found


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipes_template_is_the_golden_file(name: str) -> None:
    found = parameters.read(name, [recipe(name), OWNER], known(), NOW)
    path = DATA / f"template-{name}.json"
    assert json.dumps(of(found), indent=2) + "\n" == path.read_text(encoding="utf-8")


def test_golden_files_are_those_of_the_recipes() -> None:
    names = [path.stem.removeprefix("template-") for path in DATA.glob("template-*.json")]
    assert sorted(names) == RECIPES


def test_an_owner_in_brackets_is_no_expression_of_arm() -> None:
    found = made(owner="[subscription().id]")
    tagged = [one for one in of(found)["resources"] if one["type"] != ASSIGNMENT]
    assert {one["tags"]["owner"] for one in tagged} == {"[[subscription().id]"}
    assert template.resource_group(found, RUN)["tags"]["owner"] == "[subscription().id]"


def test_ssh_is_open_to_the_stated_ranges_and_nothing_else_is() -> None:
    ranges = ["203.0.113.7/32", "198.51.100.0/24"]
    groups = resources(made(ssh_from=ranges), "Microsoft.Network/networkSecurityGroups")
    rules = {one["name"]: one["properties"]["securityRules"] for one in groups}
    assert rules["nodes-rules"] == []
    [rule] = rules["login-rules"]
    assert (
        rule["properties"]["sourceAddressPrefixes"],
        rule["properties"]["destinationPortRange"],
    ) == (ranges, "22")


def test_nobody_outside_gets_in_without_a_range() -> None:
    found = made(ssh_from=[])
    names = [one["name"] for one in resources(found, "Microsoft.Network/publicIPAddresses")]
    groups = resources(found, "Microsoft.Network/networkSecurityGroups")
    assert names == ["nat-ip"]
    assert [one["properties"]["securityRules"] for one in groups] == [[], []]


def test_no_key_is_in_a_template_and_no_password_works() -> None:
    profile = the_set()["properties"]["virtualMachineProfile"]["osProfile"]
    linux = profile["linuxConfiguration"]
    assert linux["disablePasswordAuthentication"] is True
    assert linux["ssh"]["publicKeys"] == [
        {"path": "/home/azureuser/.ssh/authorized_keys", "keyData": "[parameters('sshPublicKey')]"}
    ]


# ---- more nodes than a placement group holds ----------------------------------------------------

LARGE = {"size": "Standard_ND96amsr_A100_v4"}


@pytest.mark.parametrize(
    ("count", "placement", "sets"),
    [
        (100, "uniform", [("nodes", "node", 100)]),
        (101, "uniform", [("nodes-1", "node1-", 51), ("nodes-2", "node2-", 50)]),
        (600, "uniform", [(f"nodes-{one}", f"node{one}-", 100) for one in range(1, 7)]),
        (128, "flexible", [("nodes-1", "node1-", 64), ("nodes-2", "node2-", 64)]),
    ],
)
def test_each_placement_group_is_a_scale_set(
    count: int, placement: str, sets: list[tuple[str, str, int]]
) -> None:
    found = resources(made({**LARGE, "count": count, "placement": placement}), SET)
    assert [
        (
            one["name"],
            one["properties"]["virtualMachineProfile"]["osProfile"]["computerNamePrefix"],
            one["sku"]["capacity"],
        )
        for one in found
    ] == sets
    assert {one["properties"]["singlePlacementGroup"] for one in found} == {True}


# ---- the switch ---------------------------------------------------------------------------------


@pytest.mark.parametrize("placement", ["uniform", "flexible", "single"])
def test_no_node_is_made_before_the_login_node_may_end_the_run(placement: str) -> None:
    found = of(made({"size": "Standard_E64ds_v5", "placement": placement}, storage=NFS))
    armed = [
        "[resourceId('Microsoft.Compute/virtualMachines', 'login')]",
        f"[resourceId('{ASSIGNMENT}', guid(resourceGroup().id, '{RUN}', '{CONTRIBUTOR}'))]",
    ]
    waiting = {
        one["name"]: one["dependsOn"][-2:] == armed
        for one in found["resources"]
        if one["type"] in (VM, SET)
    }
    node = "node001" if placement == "single" else "nodes"
    assert waiting == {"login": False, "nfs": True, node: True}


def test_the_login_node_is_contributor_of_its_group_and_of_nothing_else() -> None:
    found = made()
    [login] = [one for one in resources(found, VM) if one["name"] == "login"]
    [right] = resources(found, ASSIGNMENT)
    assert login["identity"] == {"type": "SystemAssigned"}
    # Without a scope it is the group that the template is deployed into.
    assert right == {
        "type": ASSIGNMENT,
        "apiVersion": "2022-04-01",
        "name": f"[guid(resourceGroup().id, '{RUN}', '{CONTRIBUTOR}')]",
        "dependsOn": ["[resourceId('Microsoft.Compute/virtualMachines', 'login')]"],
        "properties": {
            "roleDefinitionId": "[subscriptionResourceId("
            f"'Microsoft.Authorization/roleDefinitions', '{CONTRIBUTOR}')]",
            "principalId": "[reference(resourceId('Microsoft.Compute/virtualMachines', 'login'),"
            " '2024-07-01', 'Full').identity.principalId]",
            "principalType": "ServicePrincipal",
        },
    }


@parametrized(("given", "why"))
def test_without_the_switch_nothing_of_it_is_made_and_the_plan_says_so(
    given: dict[str, Any], why: str
) -> None:
    found = made(**given)
    text = json.dumps(of(found))
    [said] = self_destruct.promise(found)
    assert [word for word in (ASSIGNMENT, "customData", "SystemAssigned") if word in text] == []
    assert said.startswith("Nothing stops the machines when the controller dies")
    assert why in said


def _nodes() -> Any:
    return st.fixed_dictionaries(
        {
            "count": st.integers(1, 4),
            "size": st.sampled_from(["Standard_HB120rs_v3", "Standard_E64ds_v5"]),
            "placement": st.sampled_from(["uniform", "flexible"]),
            "proximity": st.booleans(),
            "priority": st.sampled_from(["regular", "spot"]),
        }
    )


_STORAGE = st.sampled_from(
    [
        {},
        {"kind": "anf", "tib": 2},
        {"kind": "amlfs", "tib": 16},
        {"kind": "nfs", "tib": 2, "server_size": "Standard_E64ds_v5"},
    ]
)


@given(nodes=_nodes(), storage=_STORAGE, bastion=st.booleans(), zone=st.sampled_from(["", "1"]))
def test_names_are_unique_and_versions_pinned(
    nodes: dict[str, Any], storage: dict[str, Any], bastion: bool, zone: str
) -> None:
    found = of(made(nodes, storage=storage, bastion=bastion, zone=zone))["resources"]
    names = [(one["type"], one["name"]) for one in found]
    assert len(set(names)) == len(names)
    assert {one["apiVersion"] for one in found} <= {
        *("2022-04-01", "2023-11-01", "2024-07-01", "2026-08-01")
    }


# ---- held against Azure's SDK -------------------------------------------------------------------

needs_sdk = pytest.mark.skipif(
    azure_sdk.models("storagecache", "2026-08-01") is None,
    reason="Azure's SDK is not installed: docs/guides/azure_provision.md checks templates",
)


@needs_sdk
@pytest.mark.parametrize("name", RECIPES)
def test_azures_models_know_every_member(name: str) -> None:
    text = (DATA / f"template-{name}.json").read_text(encoding="utf-8")
    assert azure_sdk.check(json.loads(text)) == ([], [])


@needs_sdk
@pytest.mark.parametrize(
    ("nodes", "given"),
    [
        (
            {"placement": "flexible", "proximity": True, "priority": "spot", "max_price": 1.5},
            {
                "storage": {"kind": "nfs", "tib": 2, "server_size": "Standard_E64ds_v5"},
                "zone": "1",
                "security": "trusted_launch",
                "bastion": True,
                "cloud_init": "#!/bin/true",
            },
        ),
        ({"placement": "single", "reservation": RESERVATION, "proximity": True}, {}),
        ({"placement": "uniform", "reservation": RESERVATION}, {"outbound": "none"}),
        *(({"placement": one}, {"pull": PULL}) for one in ("uniform", "flexible", "single")),
    ],
)
def test_azures_models_know_what_no_recipe_asks_for(
    nodes: dict[str, Any], given: dict[str, Any]
) -> None:
    assert azure_sdk.check(of(made(nodes, **given))) == ([], [])


@needs_sdk
@parametrized(("path", "value", "named"))
def test_azures_models_refuse_what_they_do_not_know(
    path: tuple[str, ...], value: Any, named: str
) -> None:
    text = (DATA / "template-devito-hbv3.json").read_text(encoding="utf-8")
    spoilt = copy.deepcopy(json.loads(text))
    place = spoilt["resources"][-1]["properties"]
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    [wrong], _ = azure_sdk.check(spoilt)
    assert named in wrong


@parametrized(("storage", "path"))
def test_the_storage_service_is_found_by_its_path(
    storage: dict[str, Any], path: str | None
) -> None:
    assert (template.shared(made(storage=storage)) or ("", None))[1] == path


def test_a_zone_is_that_of_all_that_has_one() -> None:
    found = of(made({"proximity": True}, zone="2"))["resources"]
    assert {one["type"].split("/")[1]: one.get("zones") for one in found} == {
        "publicIPAddresses": ["2"],
        "networkSecurityGroups": None,
        "natGateways": ["2"],
        "virtualNetworks": None,
        "networkInterfaces": None,
        "proximityPlacementGroups": ["2"],
        "virtualMachines": ["2"],
        "virtualMachineScaleSets": ["2"],
        "roleAssignments": None,
    }
