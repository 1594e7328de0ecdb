"""Templates of deployments: golden files, rules, and Azure's models where those are installed."""

from __future__ import annotations

import base64
import copy
import inspect
import json
from pathlib import Path
from typing import Any

import azure_sdk
import pytest
import yaml
from helpers import parametrized
from hypothesis import given
from hypothesis import strategies as st
from provisioning import DATA, NOW, RECIPES, RUN, known, made, recipe
from trueup import bounded_http
from trueup.vm import expiry, node_nfs
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


@parametrized(("storage", "path"))
def test_the_storage_service_is_found_by_its_path(
    storage: dict[str, Any], path: str | None
) -> None:
    assert (template.shared(made(storage=storage)) or ("", None))[1] == path


def test_golden_files_are_those_of_the_recipes() -> None:
    names = [path.stem.removeprefix("template-") for path in DATA.glob("template-*.json")]
    assert sorted(names) == RECIPES


def test_the_group_and_every_resource_say_whose_they_are_and_until_when() -> None:
    found = made({"count": 2}, bastion=True, storage={"kind": "anf", "tib": 4})
    tags = {
        "owner": "geophysics",
        "run": RUN,
        "expires": "2026-11-23T18:00Z",
        "recipe": "test",
    }
    assert template.resource_group(found, RUN) == {"location": "southcentralus", "tags": tags}
    roles = {}
    for one in of(found)["resources"]:
        if one["type"] == ASSIGNMENT:
            continue  # Azure keeps no tags of it
        roles[one["name"]] = one["tags"].pop("role", "")
        assert one["tags"] == tags
    assert {name: role for name, role in roles.items() if role} == {
        "login": "login",
        "files": "storage",
        "files/pool": "storage",
        "files/pool/shared": "storage",
        "nodes": "compute",
    }


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
    ) == (
        ranges,
        "22",
    )


def test_nobody_outside_gets_in_without_a_range() -> None:
    found = made(ssh_from=[])
    names = [one["name"] for one in resources(found, "Microsoft.Network/publicIPAddresses")]
    groups = resources(found, "Microsoft.Network/networkSecurityGroups")
    assert names == ["nat-ip"]
    assert [one["properties"]["securityRules"] for one in groups] == [[], []]


@pytest.mark.parametrize(("outbound", "gateways"), [("nat", 1), ("none", 0)])
def test_the_way_out_is_said_in_each_subnet_of_vms(outbound: str, gateways: int) -> None:
    found = made(outbound=outbound)
    [network] = resources(found, "Microsoft.Network/virtualNetworks")
    for subnet in network["properties"]["subnets"]:
        assert subnet["properties"]["defaultOutboundAccess"] is False
        assert ("natGateway" in subnet["properties"]) is bool(gateways)
    assert len(resources(found, "Microsoft.Network/natGateways")) == gateways


def test_subnets_stand_side_by_side_and_move_for_nothing_that_is_added() -> None:
    every = made(bastion=True, storage={"kind": "amlfs", "tib": 8}, network="10.1.0.0/20")
    few = made(network="10.1.0.0/20")
    prefixes = [
        {
            one["name"]: one["properties"]["addressPrefix"]
            for one in network["properties"]["subnets"]
        }
        for found in (every, few)
        for network in resources(found, "Microsoft.Network/virtualNetworks")
    ]
    assert prefixes == [
        {
            "nodes": "10.1.0.0/21",
            "login": "10.1.8.0/24",
            "AzureBastionSubnet": "10.1.9.0/24",
            "storage": "10.1.10.0/24",
        },
        {"nodes": "10.1.0.0/21", "login": "10.1.8.0/24"},
    ]


def test_a_uniform_set_is_one_placement_group_without_spares() -> None:
    properties = the_set({"count": 3})["properties"]
    assert {
        name: properties[name]
        for name in ("orchestrationMode", "singlePlacementGroup", "overprovision")
    } == {"orchestrationMode": "Uniform", "singlePlacementGroup": True, "overprovision": False}


@pytest.mark.parametrize(
    ("size", "one"), [("Standard_HB120rs_v3", True), ("Standard_E64ds_v5", False)]
)
def test_a_flexible_set_is_one_placement_group_where_infiniband_is(size: str, one: bool) -> None:
    properties = the_set({"size": size, "placement": "flexible"})["properties"]
    assert (properties["singlePlacementGroup"], properties["platformFaultDomainCount"]) == (one, 1)


def test_separate_vms_are_numbered() -> None:
    found = made({"size": "Standard_E64ds_v5", "count": 3, "placement": "single"})
    names = [one["name"] for one in resources(found, VM)]
    assert names == ["login", "node001", "node002", "node003"]


def test_a_proximity_placement_group_holds_the_nodes_and_no_other() -> None:
    found = made({"proximity": True, "placement": "single"})
    assert {
        one["name"]: "proximityPlacementGroup" in one["properties"] for one in resources(found, VM)
    } == {"login": False, "node001": True}


def test_spot_says_what_becomes_of_a_node_and_what_it_may_cost() -> None:
    given = {"priority": "spot", "eviction": "deallocate", "max_price": 1.25}
    profile = the_set(given)["properties"]["virtualMachineProfile"]
    assert {name: profile[name] for name in ("priority", "evictionPolicy", "billingProfile")} == {
        "priority": "Spot",
        "evictionPolicy": "Deallocate",
        "billingProfile": {"maxPrice": 1.25},
    }


def test_regular_nodes_and_the_login_node_are_no_spot() -> None:
    found = made({"priority": "spot", "placement": "single"})
    assert {one["name"]: "priority" in one["properties"] for one in resources(found, VM)} == {
        "login": False,
        "node001": True,
    }
    assert "priority" not in the_set()["properties"]["virtualMachineProfile"]


@parametrized(("given", "expected"))
def test_the_security_type(given: dict[str, Any], expected: Any) -> None:
    profile = the_set(**given)["properties"]["virtualMachineProfile"]
    assert profile.get("securityProfile") == expected


def test_grid_nodes_have_no_virtual_tpm_and_the_login_node_has_one() -> None:
    found = made(
        {"size": "Standard_NV36ads_A10_v5", "placement": "single"},
        security="trusted_launch",
        image="a:b:c:1.2",
    )
    assert {
        one["name"]: one["properties"]["securityProfile"]["uefiSettings"]["vTpmEnabled"]
        for one in resources(found, VM)
    } == {"login": True, "node001": False}


def test_no_key_is_in_a_template_and_no_password_works() -> None:
    profile = the_set()["properties"]["virtualMachineProfile"]["osProfile"]
    linux = profile["linuxConfiguration"]
    assert linux["disablePasswordAuthentication"] is True
    assert linux["ssh"]["publicKeys"] == [
        {
            "path": "/home/azureuser/.ssh/authorized_keys",
            "keyData": "[parameters('sshPublicKey')]",
        }
    ]


def test_cloud_init_is_for_the_nodes_alone() -> None:
    text = "#cloud-config\npackages: [jq]\n"
    found = made({"placement": "single"}, cloud_init=text)
    data = {
        one["name"]: one["properties"]["osProfile"].get("customData")
        for one in resources(found, VM)
    }
    assert base64.b64decode(data["node001"]).decode() == text
    assert text not in base64.b64decode(data["login"]).decode()


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


def test_a_flexible_set_without_infiniband_is_one() -> None:
    found = resources(
        made({"size": "Standard_E64ds_v5", "count": 600, "placement": "flexible"}), SET
    )
    assert [one["sku"]["capacity"] for one in found] == [600]
    assert found[0]["properties"]["singlePlacementGroup"] is False


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


def test_cloud_init_of_the_login_node_starts_the_switch() -> None:
    [login] = [one for one in resources(made(), VM) if one["name"] == "login"]
    text = base64.b64decode(login["properties"]["osProfile"]["customData"]).decode()
    document = yaml.safe_load(text)
    files = {one["path"]: one["content"] for one in document["write_files"]}
    assert text.startswith("#cloud-config\n")
    for module in (expiry, bounded_http):
        source = Path(module.__file__)
        assert files[f"/opt/trueup/{source.name}"] == source.read_text(encoding="utf-8")
    assert json.loads(files["/opt/trueup/expiry.json"]) == {
        "metadata": "http://169.254.169.254",
        "manager": "https://management.azure.com",
        "run": RUN,
        "expires": "2026-11-23T18:00Z",
        "versions": {"groups": "2022-09-01", "compute": "2024-07-01"},
    }
    assert document["runcmd"][-1] == ["systemctl", "enable", "--now", "trueup-expiry.timer"]


def test_another_clouds_manager_is_the_one_that_the_login_node_asks() -> None:
    found = template.template(made(), known(), RUN, "https://management.example:4443")
    [data] = [
        one["properties"]["osProfile"]["customData"]
        for one in found["resources"]
        if one["name"] == "login"
    ]
    assert b"https://management.example:4443" in base64.b64decode(data)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"switch": "none"}, "switch is none"),
        ({"login": {"size": ""}, "ssh_from": []}, "there is no login node"),
        ({"outbound": "none", "ssh_from": [], "bastion": True}, "has no way out to Azure Resource"),
    ],
)
def test_without_the_switch_nothing_of_it_is_made_and_the_plan_says_so(
    given: dict[str, Any], why: str
) -> None:
    found = made(**given)
    text = json.dumps(of(found))
    [said] = self_destruct.promise(found)
    assert [word for word in (ASSIGNMENT, "customData", "SystemAssigned") if word in text] == []
    assert said.startswith("Nothing stops the machines when the controller dies")
    assert why in said


def test_the_plan_says_within_which_time_nodes_are_asked_to_end() -> None:
    asked, rest = self_destruct.promise(made())
    assert "within 2 minutes after the group's tag expires" in asked
    assert "Contributor of the group" in rest


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


def test_disks_of_a_server_hold_what_was_asked_for() -> None:
    storage = {"kind": "nfs", "tib": 10, "server_size": "Standard_E64ds_v5", "server_disks": 3}
    found = made(storage=storage)
    [server] = [one for one in resources(found, VM) if one["name"] == "nfs"]
    data = server["properties"]["storageProfile"]["dataDisks"]
    assert [(one["lun"], one["diskSizeGB"]) for one in data] == [(0, 3414), (1, 3414), (2, 3414)]


def test_cloud_init_mounts_the_disks_of_a_server() -> None:
    found = made(storage={**NFS, "server_disks": 3}, cloud_init="#!/bin/true")
    [server] = [one for one in resources(found, VM) if one["name"] == "nfs"]
    text = base64.b64decode(server["properties"]["osProfile"]["customData"]).decode()
    assert text.startswith("#cloud-config\n")
    files = {one["path"]: one["content"] for one in yaml.safe_load(text)["write_files"]}
    assert files["/opt/trueup/nfs.py"] == inspect.getsource(node_nfs)
    service = files["/etc/systemd/system/trueup-nfs.service"]
    assert "ExecStart=/usr/bin/python3 /opt/trueup/nfs.py 3\n" in service


def test_every_id_that_is_needed_is_of_a_resource_of_the_template() -> None:
    found = of(
        made({"count": 2, "proximity": True}, bastion=True, storage={"kind": "anf", "tib": 1})
    )
    there = {
        f"[resourceId('{ASSIGNMENT}', {one['name'][1:-1]})]"
        if one["type"] == ASSIGNMENT
        else template.identifier(one["type"], *one["name"].split("/"))
        for one in found["resources"]
    }
    needed = {need for one in found["resources"] for need in one.get("dependsOn", ())}
    assert needed - there == set()


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
    reason="Azure's SDK is not installed: docs/azure_provision.md says how to hold templates to it",
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
