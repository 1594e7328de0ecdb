"""The emulated cloud: what Azure takes and refuses of a deployment, and what is left of one."""

from __future__ import annotations

import base64
import importlib.util
import json
import random
import re
import ssl
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from emulated_cloud import API_VERSIONS, SUBSCRIPTION, Cloud, Models, Refused, Reply, Scope, serving
from helpers import ROOT
from trueup_controller.azure import self_destruct

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow

DATA = ROOT / "tests" / "data" / "azure"
S = f"/subscriptions/{SUBSCRIPTION}"
GROUP = f"{S}/resourceGroups/one"
DEPLOYMENT = f"{GROUP}/providers/Microsoft.Resources/deployments/trueup-x"
COMPUTE, NETWORK = f"{GROUP}/providers/Microsoft.Compute", f"{GROUP}/providers/Microsoft.Network"
RECIPES = sorted(path.stem.removeprefix("template-") for path in DATA.glob("template-*.json"))
VERSIONS = {"Compute": "2024-07-01", "Network": "2023-11-01", "Authorization": "2022-04-01"}


class Site:
    """A cloud without machines, and a login."""

    def __init__(self) -> None:
        self.cloud = Cloud()
        self.cloud.url = "https://localhost:1"
        self.word = self.cloud.token()

    def ask(self, method: str, path: str, body: Any = None, **query: str) -> Reply:
        namespace = path.rpartition("/providers/Microsoft.")[2].partition("/")[0]
        version = VERSIONS.get(namespace, "2022-09-01")
        with self.cloud.lock:
            asked = {"api-version": version, **query}
            return self.cloud.call(method, path, asked, body, f"Bearer {self.word}")

    def code(self, method: str, path: str, body: Any = None, **query: str) -> str:
        reply = self.ask(method, path, body, **query)
        return str(reply.document["error"]["code"]) if reply.status >= 400 else str(reply.status)

    def ended(self, reply: Reply) -> Any:
        """What an operation ends with."""
        assert reply.status < 300, reply.document
        self.cloud.settle()
        assert self.cloud.broken == []
        where = reply.headers.get("Azure-AsyncOperation") or reply.headers["Location"]
        return self.ask("GET", where.partition("?")[0].removeprefix(self.cloud.url)).document

    def deploy(self, template: dict[str, Any], **properties: Any) -> dict[str, Any]:
        self.ask("PUT", GROUP, {"location": "southcentralus", "tags": {"run": "x"}})
        self.ended(self.ask("PUT", DEPLOYMENT, request(template, **properties)))
        return dict(self.ask("GET", DEPLOYMENT).document["properties"])

    def refused(self, template: dict[str, Any]) -> list[str]:
        """The codes of a deployment that is not taken, the outer one first."""
        self.ask("PUT", GROUP, {"location": "southcentralus"})
        reply = self.ask("PUT", DEPLOYMENT, request(template))
        assert reply.status == 400, reply.document
        error = reply.document["error"]
        return [error["code"], *(one["code"] for one in error.get("details", []))]

    def what_if(self, template: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """Each change by the resource's name."""
        reply = self.ask("POST", f"{DEPLOYMENT}/whatIf", request(template))
        found = self.ended(reply)
        assert found["status"] == "Succeeded", found
        return {one["resourceId"].rpartition("/")[2]: one for one in found["properties"]["changes"]}

    def left(self) -> tuple[int, int, int]:
        """Resources, machines that run, and what bills."""
        state = self.cloud.state()
        return len(state["resources"]), len(self.cloud.hardware.running), len(state["bills"])


def request(template: dict[str, Any], **properties: Any) -> dict[str, Any]:
    key = {"sshPublicKey": {"value": "ssh-ed25519 AAAA one"}}
    if "adminPassword" in template.get("parameters", {}):
        key["adminPassword"] = {"value": "Abcd-1234-efgh"}
    return {
        "properties": {"mode": "Incremental", "template": template, "parameters": key} | properties
    }


def recipe(name: str = "devito-hbv3") -> dict[str, Any]:
    return dict(json.loads((DATA / f"template-{name}.json").read_text(encoding="utf-8")))


def part(template: dict[str, Any], name: str) -> dict[str, Any]:
    [found] = [one for one in template["resources"] if one["name"] == name]
    return dict(found)


SECOND_SUBNET = ("properties", "subnets", "1", "properties", "addressPrefix")


def changed(name: str, *path: str, to: Any, of: str = "devito-hbv3") -> dict[str, Any]:
    """A recipe's template with another value at a path of one of its resources."""
    template = recipe(of)
    [place] = [one for one in template["resources"] if one["name"] == name]
    for word in path[:-1]:
        place = place.setdefault(word, {}) if isinstance(place, dict) else place[int(word)]
    if to is None:
        place.pop(path[-1])
    else:
        place[path[-1]] = to
    return template


@pytest.fixture
def site() -> Site:
    return Site()


# ---- a deployment, and the end of it ------------------------------------------------------------


@pytest.mark.parametrize("name", RECIPES)
def test_each_recipe_is_deployed_twice_and_removed_whole(site: Site, name: str) -> None:
    template = recipe(name)
    site.ask("PUT", GROUP, {"location": "southcentralus"})
    changes = {one["changeType"] for one in site.what_if(template).values()}
    assert (changes, site.left()) == ({"Create"}, (0, 0, 0))
    assert site.deploy(template)["provisioningState"] == "Succeeded"
    there = site.left()
    assert site.deploy(template)["provisioningState"] == "Succeeded"
    assert site.left() == there
    assert min(there) > 1
    reply = site.ask("DELETE", GROUP)
    assert (reply.status, "Location" in reply.headers) == (202, True)
    site.ended(reply)
    assert (site.left(), site.code("GET", GROUP)) == ((0, 0, 0), "ResourceGroupNotFound")
    assert site.cloud.hardware.machines == {}


def test_a_uniform_sets_instances_are_machines(site: Site) -> None:
    site.deploy(recipe())
    nodes = f"{COMPUTE}/virtualMachineScaleSets/nodes"
    listed = site.ask("GET", f"{nodes}/virtualMachines", **{"$expand": "instanceView"}).document
    assert [one["instanceId"] for one in listed["value"]] == ["0", "1"]
    codes = listed["value"][0]["properties"]["instanceView"]["statuses"]
    assert [one["code"] for one in codes] == ["ProvisioningState/succeeded", "PowerState/running"]
    version = {"api-version": VERSIONS["Network"]}
    cards = site.ask("GET", f"{nodes}/networkInterfaces", **version).document["value"]
    found = [one["properties"]["ipConfigurations"][0]["properties"] for one in cards]
    # Azure keeps the first four addresses of a subnet.
    assert [one["privateIPAddress"] for one in found] == ["10.42.0.4", "10.42.0.5"]
    machine = site.cloud.hardware.machines[f"{nodes}/virtualMachines/1".lower()]
    assert (machine.address, machine.size, machine.scale_set, machine.keys, machine.range) == (
        "10.42.0.5",
        "Standard_HB120rs_v3",
        "nodes",
        ("ssh-ed25519 AAAA one",),
        "10.42.0.0/16",
    )
    login = site.cloud.hardware.machines[f"{COMPUTE}/virtualMachines/login".lower()]
    assert (login.name, login.address, bool(login.public)) == ("login", "10.42.128.4", True)


@pytest.mark.parametrize(
    ("own", "outbound"),
    [({}, True), ({"natGateway": None}, False), ({"defaultOutboundAccess": True}, True)],
)
def test_machines_have_the_way_out_of_their_subnet(site: Site, own, outbound) -> None:
    template = recipe()
    network = next(one for one in template["resources"] if one["type"].endswith("virtualNetworks"))
    for subnet in network["properties"]["subnets"]:
        subnet["properties"].update(own)
        if subnet["properties"].get("natGateway", 0) is None:
            del subnet["properties"]["natGateway"]
    site.deploy(template)
    machines = site.cloud.hardware.machines.values()
    assert {one.outbound for one in machines} == {outbound}


def test_members_of_a_flexible_set_are_vms_of_their_own(site: Site) -> None:
    site.deploy(recipe("eda-storage"))
    nodes = f"{COMPUTE}/virtualMachineScaleSets/nodes"
    wanted = f"'virtualMachineScaleSet/id' eq '{nodes}'"
    members = site.ask("GET", f"{COMPUTE}/virtualMachines", **{"$filter": wanted}).document["value"]
    assert (len(members), site.left()[1]) == (10, 11)
    assert {one["tags"]["recipe"] for one in members} == {"eda-storage"}
    site.ended(site.ask("DELETE", nodes))
    kinds = {one["type"] for one in site.cloud.state()["resources"]}
    assert (site.left()[1], f"{COMPUTE}/disks" in kinds) == (1, False)


def test_machines_stop_start_and_go(site: Site) -> None:
    site.deploy(recipe())
    nodes = f"{COMPUTE}/virtualMachineScaleSets/nodes"
    site.ended(site.ask("POST", f"{nodes}/deallocate", {"instanceIds": ["0"]}))
    assert len(site.cloud.hardware.running) == 2
    site.ended(site.ask("POST", f"{nodes}/start"))
    assert len(site.cloud.hardware.running) == 3
    site.ended(site.ask("POST", f"{nodes}/delete", {"instanceIds": ["1"]}))
    assert site.ask("GET", nodes).document["sku"]["capacity"] == 1
    login = f"{COMPUTE}/virtualMachines/login"
    site.ended(site.ask("POST", f"{login}/deallocate"))
    view = site.ask("GET", f"{login}/instanceView").document
    assert view["statuses"][1]["code"] == "PowerState/deallocated"
    assert site.code("POST", f"{login}/restart") == "OperationNotAllowed"
    assert site.code("POST", f"{nodes}/delete", {"instanceIds": ["7"]}) == "InvalidParameter"
    site.ended(site.ask("DELETE", login))
    kinds = [one["type"].rpartition("/")[2] for one in site.cloud.state()["resources"]]
    # Disk and adapter were to go with it; the public address was not. One instance has its disk.
    assert (kinds.count("disks"), "networkInterfaces" in kinds) == (1, False)
    assert kinds.count("publicIPAddresses") == 2


def test_a_disk_stays_where_nobody_asked_for_its_deletion(site: Site) -> None:
    place = ("properties", "storageProfile", "osDisk", "deleteOption")
    site.deploy(changed("login", *place, to="Detach"))
    site.ended(site.ask("DELETE", f"{COMPUTE}/virtualMachines/login"))
    [disk] = [
        one
        for one in site.cloud.state()["resources"]
        if one["type"].endswith("/disks") and one["name"].startswith("login")
    ]
    assert (disk["properties"]["diskState"], disk["id"] in site.cloud.state()["bills"]) == (
        "Unattached",
        True,
    )


def attach(site: Site, machine: str, **disk: Any) -> str:
    """A data disk of a user, as az attaches it: the machine is read, and written with one more."""
    document = site.ask("GET", machine).document
    storage = document["properties"]["storageProfile"]
    luns = [one["lun"] for one in storage.get("dataDisks", [])]
    model = {"lun": max(luns, default=-1) + 1, "createOption": "Empty", "diskSizeGB": 64, **disk}
    storage["dataDisks"] = [*storage.get("dataDisks", []), model]
    body = {"properties": {"storageProfile": {"dataDisks": storage["dataDisks"]}}}
    site.ended(site.ask("PATCH", machine, body))
    model = site.ask("GET", machine).document["properties"]["storageProfile"]["dataDisks"][-1]
    return str(model["managedDisk"]["id"])


def test_a_disk_that_is_attached_later_has_no_tags_and_stays(site: Site) -> None:
    site.deploy(recipe())
    login = f"{COMPUTE}/virtualMachines/login"
    disk = attach(site, login, name="theirs")
    listed = {one["id"]: one for one in site.ask("GET", f"{GROUP}/resources").document["value"]}
    theirs = listed[disk]
    assert (disk, theirs["managedBy"], theirs.get("tags")) == (
        f"{COMPUTE}/disks/theirs",
        login,
        None,
    )
    site.ended(site.ask("DELETE", login))
    left = site.ask("GET", disk).document
    assert (left["properties"]["diskState"], left.get("managedBy")) == ("Unattached", None)


def test_a_disk_that_is_detached_and_attached_elsewhere_is_that_machines(site: Site) -> None:
    site.deploy(recipe("eda-storage"))
    machines = [
        one["id"] for one in site.ask("GET", f"{COMPUTE}/virtualMachines").document["value"]
    ]
    disk = attach(site, machines[0])
    body: dict[str, Any] = {"properties": {"storageProfile": {"dataDisks": []}}}
    site.ended(site.ask("PATCH", machines[0], body))
    assert site.ask("GET", disk).document["properties"]["diskState"] == "Unattached"
    assert attach(site, machines[1], createOption="Attach", managedDisk={"id": disk}) == disk
    assert site.ask("GET", disk).document["managedBy"] == machines[1]


def test_an_instances_model_names_its_disk(site: Site) -> None:
    site.deploy(recipe())
    nodes = f"{COMPUTE}/virtualMachineScaleSets/nodes"
    models = site.ask("GET", f"{nodes}/virtualMachines").document["value"]
    named = [one["properties"]["storageProfile"]["osDisk"]["managedDisk"]["id"] for one in models]
    listed = site.ask("GET", f"{GROUP}/resources").document["value"]
    users = {one["id"]: one.get("managedBy") for one in listed if one["type"].endswith("/disks")}
    assert [users[disk] for disk in named] == [f"{nodes}/virtualMachines/{n}" for n in "01"]


def test_a_get_gives_no_custom_data(site: Site) -> None:
    text = base64.b64encode(b"#cloud-config\n").decode()
    site.deploy(changed("login", "properties", "osProfile", "customData", to=text))
    login = f"{COMPUTE}/virtualMachines/login"
    assert site.cloud.hardware.machines[login.lower()].custom_data == b"#cloud-config\n"
    assert text not in json.dumps([site.ask("GET", login).document, site.cloud.state()])


# ---- what-if ------------------------------------------------------------------------------------


def test_what_if_names_what_changes_and_changes_nothing(site: Site) -> None:
    site.deploy(recipe())
    template = changed("login-rules", "tags", "owner", to="someone")
    template["resources"] = [one for one in template["resources"] if one["name"] != "nodes"]
    there = site.cloud.state()["resources"]
    found = site.what_if(template)
    assert site.cloud.state()["resources"] == there
    assert found["login-rules"]["delta"] == [
        {
            "path": "tags.owner",
            "propertyChangeType": "Modify",
            "before": "geophysics",
            "after": "someone",
        }
    ]
    # What Azure adds where nothing was said reads as deleted: noise of Azure's own.
    assert found["network"]["delta"] == [
        {
            "path": "properties.enableDdosProtection",
            "propertyChangeType": "Delete",
            "before": False,
        }
    ]
    kinds = {name: one["changeType"] for name, one in found.items()}
    assert (kinds["nodes"], kinds["nat"], kinds["network"]) == ("Ignore", "NoChange", "Modify")
    [role] = [one for one in found.values() if "/roleAssignments/" in one["resourceId"]]
    # So does whatever reference() gives.
    assert [one["path"] for one in role["delta"]] == ["properties.principalId"]


def test_what_if_says_what_would_be_refused(site: Site) -> None:
    site.ask("PUT", GROUP, {"location": "southcentralus"})
    site.cloud.limits["", "standardhbv3family"] = 120
    reply = site.ask("POST", f"{DEPLOYMENT}/whatIf", request(recipe()))
    found = site.ended(reply)
    assert (found["status"], found["error"]["details"][0]["code"]) == ("Failed", "QuotaExceeded")


# ---- what is refused ----------------------------------------------------------------------------

NODES = ("properties", "virtualMachineProfile")


@pytest.mark.parametrize(
    ("template", "code"),
    [
        (changed("nodes", "sku", "capacity", to=101), "InvalidParameter"),
        (changed("nodes", "sku", "capacity", to=60), "QuotaExceeded"),
        (changed("nodes", "sku", "name", to="Standard_HB999"), "InvalidParameter"),
        (changed("nodes", *NODES, "evictionPolicy", to="Delete"), "OperationNotAllowed"),
        (
            changed("nodes", *NODES, "securityProfile", to={"securityType": "Standard"}),
            "BadRequest",
        ),
        (
            changed(
                "nodes",
                *NODES,
                "securityProfile",
                to={"securityType": "TrustedLaunch"},
                of="ndv4-training",
            ),
            "BadRequest",
        ),
        (
            changed("nodes", *NODES, "storageProfile", "imageReference", "sku", to="2004"),
            "PlatformImageNotFound",
        ),
        (changed("nodes", *NODES, "osProfile", "customData", to="%"), "InvalidParameter"),
        (
            changed(
                "nodes",
                *NODES,
                "osProfile",
                "customData",
                to=base64.b64encode(b"x" * 65536).decode(),
            ),
            "InvalidParameter",
        ),
        (changed("nodes", "properties", "upgradePolicy", to=None), "InvalidParameter"),
        (
            changed("nodes", "properties", "platformFaultDomainCount", to=None, of="eda-storage"),
            "InvalidParameter",
        ),
        (
            changed("nodes", "identity", to={"type": "SystemAssigned"}, of="eda-storage"),
            "InvalidParameter",
        ),
        (changed("login", "location", to="atlantis"), "LocationNotAvailableForResourceType"),
        (changed("login", "location", to=None), "LocationRequired"),
        (changed("login-ip", "sku", to=None), "IPv4BasicSkuPublicIpCountLimitReached"),
        (
            changed("login-ip", "properties", "publicIPAllocationMethod", to="Dynamic"),
            "StandardSkuPublicIPAddressesMustBeStatic",
        ),
        (
            changed("network", *SECOND_SUBNET, to="10.42.1.0/24"),
            "NetcfgSubnetRangesOverlap",
        ),
        (
            changed("network", *SECOND_SUBNET, to="10.43.1.0/24"),
            "NetcfgSubnetRangeOutsideVnet",
        ),
        (
            changed(
                "login-rules", "properties", "securityRules", "0", "properties", "priority", to=99
            ),
            "SecurityRuleInvalidPriority",
        ),
        (changed("login", "apiVersion", to="2019-01-01"), "NoRegisteredProviderFound"),
        (changed("nodes", "type", to="Microsoft.Compute/nosuch"), "InvalidResourceType"),
    ],
)
def test_a_template_is_refused_before_anything_is_made(
    site: Site, template: dict[str, Any], code: str
) -> None:
    assert site.refused(template) == ["InvalidTemplateDeployment", code]
    assert site.left() == (0, 0, 0)


def test_a_zone_or_region_that_is_restricted_is_refused(site: Site) -> None:
    site.cloud.strike(
        {"kind": "restricted", "size": "Standard_HB120rs_v3", "location": "southcentralus"}
    )
    assert site.refused(recipe())[1] == "SkuNotAvailable"
    [row] = [
        one
        for one in site.ask(
            "GET",
            f"{S}/providers/Microsoft.Compute/skus",
            **{"$filter": "location eq 'southcentralus'", "api-version": "2021-07-01"},
        ).document["value"]
        if one["name"] == "Standard_HB120rs_v3"
    ]
    assert row["restrictions"][0]["reasonCode"] == "NotAvailableForSubscription"


@pytest.mark.parametrize(
    ("spoil", "word"),
    [
        (lambda one: one.update(resourcez=[]), "resourcez"),
        (lambda one: one.pop("contentVersion"), "contentVersion"),
        (
            lambda one: part(one, "login")["dependsOn"].append("[resourceId('a.b/c', 'd')]"),
            "a.b/c/d",
        ),
        (
            lambda one: (
                part(one, "nat-ip").update()
                or one["resources"][1].update(
                    dependsOn=["[resourceId('Microsoft.Network/natGateways', 'nat')]"]
                )
            ),
            "circular",
        ),
        (lambda one: one["resources"].append(part(one, "login")), "multiple times"),
        (lambda one: one["resources"][0].update(copy={"name": "c", "count": 2}), "copy"),
        (lambda one: one["resources"][0].update(name="[pickZones('a')]"), "pickZones"),
        (lambda one: one["resources"][0].update(name="[concat('a']"), "instead of"),
        (lambda one: one["resources"][0].update(name="a/b"), "segment lengths"),
        (lambda one: one["parameters"].update(other={"type": "string"}), "'other' is not provided"),
        (lambda one: one["parameters"].clear(), "sshPublicKey"),
        (lambda one: one["parameters"]["sshPublicKey"].update(type="int"), "not of type int"),
        (
            lambda one: one["resources"][0].update(tags={"a": "[parameters('b')]"}),
            "'b' is not found",
        ),
    ],
)
def test_a_template_that_is_none_is_refused(site: Site, spoil: Any, word: str) -> None:
    template = recipe()
    spoil(template)
    site.ask("PUT", GROUP, {"location": "southcentralus"})
    reply = site.ask("PUT", DEPLOYMENT, request(template))
    error = (reply.document or {}).get("error") or {}
    assert (reply.status, error.get("code"), word in str(error.get("message"))) == (
        400,
        "InvalidTemplate",
        True,
    )
    assert site.left() == (0, 0, 0)


def test_what_is_in_use_stays(site: Site) -> None:
    site.deploy(recipe())
    codes = {
        f"{NETWORK}/virtualNetworks/network": "InUseSubnetCannotBeDeleted",
        f"{NETWORK}/virtualNetworks/network/subnets/login": "InUseSubnetCannotBeDeleted",
        f"{NETWORK}/networkInterfaces/login-nic": "NicInUse",
        f"{NETWORK}/publicIPAddresses/nat-ip": "PublicIPAddressCannotBeDeleted",
        f"{NETWORK}/networkSecurityGroups/login-rules": "InUseNetworkSecurityGroupCannotBeDeleted",
    }
    there = site.left()
    assert {path: site.code("DELETE", path) for path in codes} == codes
    assert site.left() == there


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        ("nodes", ("properties", "orchestrationMode"), "Flexible"),
        ("login", ("properties", "osProfile", "customData"), "eA=="),
        ("login", ("properties", "osProfile", "adminUsername"), "other"),
        ("login", ("zones",), ["2"]),
    ],
)
def test_what_cannot_be_changed_is_refused(
    site: Site, name: str, path: tuple[str, ...], value: Any
) -> None:
    site.deploy(recipe())
    found = site.refused(changed(name, *path, to=value))
    assert found[1] in ("PropertyChangeNotAllowed", "InvalidParameter")
    kind = "virtualMachines" if name == "login" else "virtualMachineScaleSets"
    body = part(changed(name, *path, to=value), name)
    asked = {key: body[key] for key in body if key not in ("apiVersion", "dependsOn")}
    assert site.ask("PUT", f"{COMPUTE}/{kind}/{name}", asked).status in (400, 409)


def test_a_shutdown_schedule_serves_single_vms_only(site: Site) -> None:
    site.deploy(recipe())

    def schedule(name: str, machine: str) -> str:
        path = f"{GROUP}/providers/Microsoft.DevTestLab/schedules/{name}"
        body = {
            "location": "southcentralus",
            "properties": {"taskType": "ComputeVmShutdownTask", "targetResourceId": machine},
        }
        return site.code("PUT", path, body, **{"api-version": "2018-09-15"})

    login = f"{COMPUTE}/virtualMachines/login"
    instance = f"{COMPUTE}/virtualMachineScaleSets/nodes/virtualMachines/0"
    assert schedule("shutdown-computevm-login", login) == "201"
    assert schedule("stop-login", login) == "InvalidScheduleName"
    assert schedule("shutdown-computevm-0", instance) == "InvalidScheduleTarget"


# ---- the machine's own rights, and its metadata -------------------------------------------------

ROLE = "b24988ac-6180-42a0-ab88-20f7382dd24c"
TOKEN = "/metadata/identity/oauth2/token"


def with_role(**more: Any) -> dict[str, Any]:
    """A recipe whose role assignment has other members, and on which nothing depends."""
    template = recipe()
    [role] = [one for one in template["resources"] if one["type"].endswith("/roleAssignments")]
    role.update(more, properties={**role["properties"], **more.get("properties", {})})
    part(template, "nodes")["dependsOn"].pop()
    return template


def metadata(site: Site, machine: str, path: str, version: str = "2025-04-07", **query: str) -> Any:
    reply = site.cloud.metadata(machine, "GET", path, {"api-version": version, **query})
    return reply.document if reply.status == 200 else reply.status


def test_a_machine_with_a_role_deletes_its_own_group(site: Site) -> None:
    made = site.deploy(recipe())
    assert made["provisioningState"] == "Succeeded", made
    login = f"{COMPUTE}/virtualMachines/login"
    given = metadata(site, login, TOKEN, "2018-02-01", resource="https://management.azure.com/")
    site.word = given["access_token"]
    assert site.code("GET", f"{S}/resourceGroups/one") == "200"
    assert site.code("GET", f"{S}/resourceGroups") == "AuthorizationFailed"
    role = f"{GROUP}/providers/Microsoft.Authorization/roleAssignments/{ROLE}"
    assert site.code("PUT", role, {}) == "AuthorizationFailed"
    reply = site.ask("DELETE", GROUP)
    assert reply.status == 202
    site.cloud.settle()
    assert site.left() == (0, 0, 0)


def test_a_machine_without_identity_has_no_token(site: Site) -> None:
    site.deploy(recipe())
    node = f"{COMPUTE}/virtualMachineScaleSets/nodes/virtualMachines/0"
    assert metadata(site, node, TOKEN, "2018-02-01", resource="https://vault") == 400


def test_a_token_for_another_service_is_not_taken(site: Site) -> None:
    site.deploy(recipe())
    login = f"{COMPUTE}/virtualMachines/login"
    given = metadata(site, login, TOKEN, "2018-02-01", resource="https://storage.azure.com/")
    site.word = given["access_token"]
    assert site.code("GET", GROUP) == "InvalidAuthenticationTokenAudience"


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"name": "switch"}, "InvalidRoleAssignmentId"),
        (
            {
                "properties": {
                    "roleDefinitionId": "/providers/Microsoft.Authorization/roleDefinitions/"
                    "00000000-0000-0000-0000-000000000001",
                }
            },
            "RoleDefinitionDoesNotExist",
        ),
        (
            {"properties": {"principalId": ROLE}},
            "PrincipalNotFound",
        ),
        ({"dependsOn": []}, "ResourceNotFound"),
    ],
)
def test_a_role_that_cannot_be_given_fails_the_deployment(
    site: Site, more: dict[str, Any], code: str
) -> None:
    site.cloud.pace = 0.05 if "dependsOn" in more else 0.0
    made = site.deploy(with_role(**more))
    assert (made["provisioningState"], made["error"]["code"]) == ("Failed", "DeploymentFailed")
    assert [one["code"] for one in made["error"]["details"]] == [code]


def test_the_metadata_service_says_what_the_machine_is(site: Site) -> None:
    site.deploy(recipe())
    node = f"{COMPUTE}/virtualMachineScaleSets/nodes/virtualMachines/1"
    found = metadata(site, node, "/metadata/instance")
    compute = found["compute"]
    assert {name: compute[name] for name in ("vmSize", "name", "vmScaleSetName", "priority")} == {
        "vmSize": "Standard_HB120rs_v3",
        "name": "nodes_1",
        "vmScaleSetName": "nodes",
        "priority": "",
    }
    assert {"name": "recipe", "value": "devito-hbv3"} in compute["tagsList"]
    [card] = found["network"]["interface"]
    assert card["ipv4"]["ipAddress"][0]["privateIpAddress"] == "10.42.0.5"
    leaf = "/metadata/instance/compute/vmSize"
    assert metadata(site, node, leaf, format="text") == "Standard_HB120rs_v3"
    assert metadata(site, node, leaf, "2099-01-01") == 400
    assert metadata(site, node, "/metadata/instance/compute/nosuch") == 404
    assert site.cloud.metadata(node, "PUT", leaf, {"api-version": "2025-04-07"}).status == 405


def test_a_sets_own_identity_may_write_where_its_role_says(site: Site) -> None:
    site.ask("PUT", GROUP, {"location": "southcentralus"})
    user = f"{GROUP}/providers/Microsoft.ManagedIdentity/userAssignedIdentities/writer"
    where = {"location": "southcentralus"}
    made = site.ended(site.ask("PUT", user, where, **{"api-version": "2024-11-30"}))
    assert made["status"] == "Succeeded"
    account = f"{GROUP}/providers/Microsoft.Storage/storageAccounts/records1"
    version = {"api-version": "2026-09-01"}
    body = {**where, "sku": {"name": "Standard_LRS"}, "kind": "StorageV2", "properties": {}}
    site.ended(site.ask("PUT", account, body, **version))
    container = f"{account}/blobServices/default/containers/records"
    site.ended(site.ask("PUT", container, {"properties": {}}, **version))
    assert site.code("PUT", f"{account}/tables/default/tables/a", {}, **version) == (
        "InvalidResourceType"
    )
    known = site.ask("GET", user, **{"api-version": "2024-11-30"}).document["properties"]
    writer = "ba92f5b4-2d11-453d-a403-e96b0029c9fe"
    role = f"{container}/providers/Microsoft.Authorization/roleAssignments/{writer}"
    definitions = "/providers/Microsoft.Authorization/roleDefinitions/"
    given = {
        "roleDefinitionId": f"{S}{definitions}{writer}",
        "principalId": known["principalId"],
    }
    assert site.code("PUT", role, {"properties": given}) == "201"
    template = changed("nodes", "identity", "type", to="UserAssigned")
    part(template, "nodes")["identity"]["userAssignedIdentities"] = {user: {}}
    site.deploy(template)
    node = f"{COMPUTE}/virtualMachineScaleSets/nodes/virtualMachines/0"
    asked = {"resource": "https://storage.azure.com/"}
    word = metadata(site, node, TOKEN, "2018-02-01", **asked)["access_token"]
    assert site.cloud.tokens[word].principal == known["principalId"]
    assert metadata(site, node, TOKEN, "2018-02-01", client_id="other", **asked) == 400
    # A role for data is none for resources.
    site.word = site.cloud.token(known["principalId"])
    assert site.code("GET", account, **version) == "AuthorizationFailed"
    site.word = site.cloud.token()
    assert site.code("DELETE", user, **{"api-version": "2024-11-30"}) == "IdentityInUse"
    site.ended(site.ask("DELETE", GROUP))
    assert site.left() == (0, 0, 0)


# ---- what goes wrong ----------------------------------------------------------------------------


def test_no_room_after_some_instances_leaves_a_part_of_the_set(site: Site) -> None:
    site.cloud.strike({"kind": "allocation", "size": "Standard_HB120rs_v3", "after": 1, "times": 0})
    made = site.deploy(recipe())
    [error] = made["error"]["details"]
    assert (error["code"], error["details"][0]["code"]) == (
        "ResourceDeploymentFailure",
        "AllocationFailed",
    )
    nodes = f"{COMPUTE}/virtualMachineScaleSets/nodes"
    assert len(site.ask("GET", f"{nodes}/virtualMachines").document["value"]) == 1
    assert site.ask("GET", nodes).document["properties"]["provisioningState"] == "Failed"
    steps = site.ask("GET", f"{DEPLOYMENT}/operations").document["value"]
    [failed] = [one for one in steps if one["properties"]["provisioningState"] == "Failed"]
    assert failed["properties"]["statusMessage"]["error"] == error
    site.cloud.strike({"kind": "none"})
    assert site.deploy(recipe())["provisioningState"] == "Succeeded"
    assert site.left()[1] == 3


def test_a_zone_without_room(site: Site) -> None:
    site.cloud.strike({"kind": "allocation", "zone": "1"})
    made = site.deploy(changed("nodes", "zones", to=["1"]))
    assert made["error"]["details"][0]["details"][0]["code"] == "ZonalAllocationFailed"


def test_what_needs_a_failed_resource_is_not_made(site: Site) -> None:
    site.cloud.strike({"kind": "fail", "name": "network", "code": "Odd", "message": "Odd it is."})
    made = site.deploy(recipe())
    assert made["error"]["details"][0]["details"] == [{"code": "Odd", "message": "Odd it is."}]
    assert site.left()[1] == 0


@pytest.mark.parametrize("policy", ["Delete", "Deallocate"])
def test_a_spot_machine_is_told_and_taken(site: Site, policy: str) -> None:
    template = changed("nodes", *NODES, "priority", to="Spot")
    profile = part(template, "nodes")["properties"]["virtualMachineProfile"]
    profile["evictionPolicy"] = policy
    site.deploy(template)
    node = f"{COMPUTE}/virtualMachineScaleSets/nodes/virtualMachines/0"
    events = "/metadata/scheduledevents"
    assert metadata(site, node, events, "2020-07-01")["Events"] == []
    assert site.code("POST", f"{node}/simulateEviction") == "204"
    [event] = metadata(site, node, events, "2020-07-01")["Events"]
    assert (event["EventType"], event["Resources"]) == ("Preempt", ["nodes_0"])
    body = json.dumps({"StartRequests": [{"EventId": event["EventId"]}]}).encode()
    asked = {"api-version": "2020-07-01"}
    assert site.cloud.metadata(node, "POST", events, asked, body).status == 200
    site.cloud.settle()
    there = site.cloud.hardware
    assert (node.lower() in there.running, node.lower() in there.machines) == (
        False,
        policy == "Deallocate",
    )


def test_only_spot_machines_are_evicted(site: Site) -> None:
    site.deploy(recipe())
    login = f"{COMPUTE}/virtualMachines/login"
    assert site.code("POST", f"{login}/simulateEviction") == "OperationNotAllowed"


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ({"kind": "throttle", "seconds": 7}, "TooManyRequests"),
        ({"kind": "subscription"}, "SubscriptionNotFound"),
        ({"kind": "reply", "status": 503, "code": "ServiceUnavailable"}, "ServiceUnavailable"),
        ({"kind": "rights", "action": "read"}, "AuthorizationFailed"),
        ({"kind": "expire"}, "ExpiredAuthenticationToken"),
    ],
)
def test_a_call_goes_wrong_once(site: Site, fault: dict[str, Any], code: str) -> None:
    site.ask("PUT", GROUP, {"location": "southcentralus"})
    site.cloud.strike(fault)
    assert site.code("GET", GROUP) == code
    site.word = site.cloud.token()
    assert site.code("GET", GROUP) == "200"


def test_a_plan_that_was_not_accepted(site: Site) -> None:
    site.cloud.strike({"kind": "plan"})
    assert site.refused(recipe())[1] == "MarketplacePurchaseEligibilityFailed"


@pytest.mark.parametrize(
    "fault",
    [{}, {"kind": "rain"}, {"kind": "slow", "colour": 1}, {"kind": "slow", "times": -1}, []],
)
def test_a_fault_that_is_none_is_refused(site: Site, fault: Any) -> None:
    with pytest.raises(Refused):
        site.cloud.strike(fault)
    assert site.cloud.trouble.asked == []


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", f"{S}/nosuch", "InvalidResourceType"),
        ("GET", f"{S}/resourceGroups/other", "ResourceGroupNotFound"),
        ("GET", "/subscriptions/00000000-0000-0000-0000-000000000000", "SubscriptionNotFound"),
        ("POST", f"{COMPUTE}/virtualMachines/login/levitate", "InvalidResourceType"),
        ("PUT", f"{S}/resourceGroups/two", "LocationRequired"),
        ("GET", f"{GROUP}/providers/Microsoft.Quantum/workspaces/a", "InvalidResourceType"),
    ],
)
def test_a_call_that_is_not_known_is_refused(site: Site, method: str, path: str, code: str) -> None:
    site.deploy(recipe())
    assert site.code(method, path, {}) == code


def test_lists_by_tag(site: Site) -> None:
    site.deploy(recipe())
    site.ask("PUT", f"{S}/resourceGroups/two", {"location": "eastus"})
    wanted = {"$filter": "tagName eq 'run' and tagValue eq 'x'"}
    groups = site.ask("GET", f"{S}/resourcegroups", **wanted).document["value"]
    assert [one["name"] for one in groups] == ["one"]
    of_run = {"$filter": "tagName eq 'recipe' and tagValue eq 'devito-hbv3'"}
    found = site.ask("GET", f"{S}/resources", **of_run).document["value"]
    # A role has no tags, and neither have the disks of two instances.
    assert len(found) == site.left()[0] - 3
    assert site.code("GET", f"{S}/resources", **{"$filter": "name eq 'a'"}) == "InvalidFilter"


def test_permissions_are_those_of_an_owner_unless_a_fault_takes_them(site: Site) -> None:
    asked = f"{S}/providers/Microsoft.Authorization/permissions"
    owner = site.ask("GET", asked).document["value"]
    site.cloud.strike({"kind": "contributor"})
    contributor = site.ask("GET", asked).document["value"]
    assert [self_destruct.may_assign(one) for one in (owner, contributor)] == [True, False]


def test_usages_count_what_is_there(site: Site) -> None:
    site.deploy(recipe())
    asked = f"{S}/providers/Microsoft.Compute/locations/southcentralus/usages"
    value = site.ask("GET", asked).document["value"]
    used = {one["name"]["value"]: one["currentValue"] for one in value}
    assert (used["standardHBv3Family"], used["standardDDv5Family"], used["cores"]) == (240, 4, 244)


# ---- Azure's models -----------------------------------------------------------------------------

MODELS = Models()


@pytest.mark.skipif(
    bool(MODELS.absent), reason=f"requirements/test.txt is not installed: {MODELS.absent}"
)
@pytest.mark.parametrize(
    ("path", "to", "word"),
    [
        (("properties", "overProvision"), True, "overProvision: no such member"),
        (("properties", "upgradePolicy", "mode"), "Never", "'Never' is none of"),
        (("sku", "capacity"), "2", "'2' is no int"),
        (
            (*NODES, "osProfile", "linuxConfiguration", "ssh", "publicKeys"),
            {},
            "{} is no list",
        ),
    ],
)
def test_what_azures_models_do_not_know_is_refused(
    site: Site, path: tuple[str, ...], to: Any, word: str
) -> None:
    site.cloud.validate = MODELS
    assert site.deploy(recipe())["provisioningState"] == "Succeeded"
    reply = site.ask("PUT", DEPLOYMENT, request(changed("nodes", *path, to=to)))
    [error] = reply.document["error"]["details"]
    assert (error["code"], word in error["message"]) == ("InvalidRequestContent", True)
    assert site.code("PUT", DEPLOYMENT, {"properties": {"template": {}}}) == "InvalidRequestContent"


@pytest.mark.skipif(bool(MODELS.absent), reason="requirements/test.txt is not installed")
@pytest.mark.parametrize(
    ("package", "namespace"),
    [
        ("compute", "microsoft.compute"),
        ("netapp", "microsoft.netapp"),
        ("network", "microsoft.network"),
        ("resource.deployments", "microsoft.resources"),
        ("resource.resources", "microsoft.resources"),
        ("storage", "microsoft.storage"),
        ("storagecache", "microsoft.storagecache"),
    ],
)
def test_the_versions_that_azures_packages_ask_for_are_known(package: str, namespace: str) -> None:
    # Read and not imported: they are large.
    found = importlib.util.find_spec(f"azure.mgmt.{package}")
    assert found is not None
    [folder] = found.submodule_search_locations or []
    text = (Path(folder) / "operations" / "_operations.py").read_text(encoding="utf-8")
    asked = set(re.findall(r'"api-version", "([^"]+)"', text))
    assert asked - set(API_VERSIONS[namespace]) == set() != asked


# ---- its own calls ------------------------------------------------------------------------------


def test_another_process_asks_for_faults_and_state(tmp_path: Path) -> None:
    cloud = Cloud()

    def ask(method: str, path: str, body: Any, secret: str) -> tuple[int, Any]:
        context = ssl.create_default_context(cafile=str(tmp_path / "authority.pem"))
        asked = urllib.request.Request(
            f"{cloud.url}{path}",
            json.dumps(body).encode() if body else None,
            {"Emulated-Secret": secret, "Authorization": f"Bearer {cloud.token()}"},
            method=method,
        )
        try:
            with urllib.request.urlopen(asked, context=context) as reply:
                text = reply.read()
                return reply.status, json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())["error"]["code"]

    with serving(cloud, tmp_path):
        assert ask("GET", "/emulated/state", None, "guess") == (403, "EmulatedSecret")
        assert ask("POST", "/emulated/faults", {"kind": "x"}, cloud.secret)[0] == 400
        assert ask("POST", "/emulated/faults", {"kind": "slow"}, cloud.secret) == (204, None)
        assert ask("POST", "/emulated/faults", {"kind": "cut"}, cloud.secret) == (204, None)
        with pytest.raises(json.JSONDecodeError):
            ask("GET", f"{S}/locations?api-version=2022-09-01", None, cloud.secret)
        status, document = ask("GET", "/emulated/state", None, cloud.secret)
    assert (status, document["emulated"], document["resources"]) == (200, True, [])
    assert cloud.trouble.asked == [{"after": 0, "times": 1, "kind": "slow"}]


def test_it_does_not_start_without_models_unless_it_may() -> None:
    program = [sys.executable, str(ROOT / "molecule" / "_shared" / "cloud")]

    def start(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*program, *arguments], input="", capture_output=True, text=True, check=False
        )

    may = start("--without-models", "--machines", "2")
    assert (may.returncode, may.stdout.count("export "), may.stderr) == (0, 7, "")
    alone = start()
    wanted = (2, True) if MODELS.absent else (0, False)
    assert (alone.returncode, "requirements/test.txt" in alone.stderr) == wanted


def test_it_ends_with_a_signal() -> None:
    program = [sys.executable, str(ROOT / "molecule" / "_shared" / "cloud"), "--without-models"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(program, **pipes) as cloud:  # type: ignore[call-overload]
        lines = iter(cloud.stdout.readline, "")
        folder = next(line for line in lines if "AZURE_CONFIG_DIR" in line).partition("=")[2]
        assert any("EMULATED_CLOUD_SECRET" in line for line in lines)
        there = Path(folder.strip()).is_dir()
        cloud.terminate()
        assert (cloud.wait(), there, Path(folder.strip()).exists()) == (143, True, False)


# ---- at the same time ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["devito-hbv3", "eda-storage"])
@pytest.mark.parametrize("after", [0.0, 0.05, 0.15, 0.3])
def test_a_group_deleted_while_it_is_deployed_leaves_nothing(
    site: Site, name: str, after: float
) -> None:
    site.cloud.pace = 0.03
    site.ask("PUT", GROUP, {"location": "southcentralus"})
    assert site.ask("PUT", DEPLOYMENT, request(recipe(name))).status == 201
    site.cloud.closing.wait(after)
    assert site.ask("DELETE", GROUP).status == 202
    assert site.code("PUT", GROUP, {"location": "southcentralus"}) == "ResourceGroupBeingDeleted"
    site.cloud.settle()
    assert (site.left(), site.cloud.state()["groups"], site.cloud.broken) == ((0, 0, 0), [], [])
    assert site.cloud.hardware.machines == {}


def running(site: Site, what: str) -> Reply:
    """A deployment that making this holds up, until the cloud closes."""
    site.cloud.strike({"kind": "slow", "what": what, "seconds": 60})
    site.ask("PUT", GROUP, {"location": "southcentralus"})
    began = site.ask("PUT", DEPLOYMENT, request(recipe()))
    while what not in "".join(site.cloud.resources) + DEPLOYMENT:
        site.cloud.closing.wait(0.005)
    return began


@pytest.mark.parametrize("what", ["trueup-x", "networksecuritygroups", "virtualnetworks"])
def test_a_deployment_that_is_canceled_makes_nothing_more(site: Site, what: str) -> None:
    before = threading.enumerate()
    began = running(site, what)
    assert site.ask("POST", f"{DEPLOYMENT}/cancel").status == 204
    kept = site.ask("GET", DEPLOYMENT).document["properties"]
    assert (kept["provisioningState"], "error" in kept) == ("Canceled", False)
    steps = len(site.ask("GET", f"{DEPLOYMENT}/operations").document["value"])
    assert site.code("POST", f"{DEPLOYMENT}/cancel") == "DeploymentCannotBeCancelled"
    site.cloud.closing.set()
    for one in threading.enumerate():
        if "(_run)" in one.name and one not in before:
            one.join()
    assert site.ended(began)["status"] == "Canceled"
    made = {one.key for one in site.cloud.resources.values()}
    states = {one.state["provisioningState"] for one in site.cloud.resources.values()}
    parts = {one.id.lower() for one in site.cloud.deployments[DEPLOYMENT.lower()].parts}
    assert (len(made & parts), states - {"Succeeded"}) == (steps, set())
    assert steps < len(parts)
    assert site.deploy(recipe())["provisioningState"] == "Succeeded"


def test_only_a_deployment_that_runs_is_canceled(site: Site) -> None:
    site.ask("PUT", GROUP, {"location": "southcentralus"})
    assert site.code("POST", f"{DEPLOYMENT}/cancel") == "DeploymentNotFound"
    site.deploy(recipe())
    there = site.left()
    assert site.code("POST", f"{DEPLOYMENT}/cancel") == "DeploymentCannotBeCancelled"
    kept = site.ask("GET", DEPLOYMENT).document["properties"]
    assert (kept["provisioningState"], site.left()) == ("Succeeded", there)


def test_what_a_canceled_deployment_had_begun_fails_as_it_would_have(site: Site) -> None:
    site.cloud.strike({"kind": "fail", "type": "virtualNetworks", "code": "Odd"})
    running(site, "virtualnetworks")
    site.ask("POST", f"{DEPLOYMENT}/cancel")
    site.cloud.closing.set()
    site.cloud.settle()
    [network] = site.cloud.of_kind("Microsoft.Network/virtualNetworks")
    assert network.state["provisioningState"] == "Failed"
    assert site.ask("GET", DEPLOYMENT).document["properties"]["provisioningState"] == "Canceled"


def test_everything_at_once_leaves_nothing(site: Site) -> None:
    site.cloud.pace = 0.005
    nodes, login = f"{COMPUTE}/virtualMachineScaleSets/nodes", f"{COMPUTE}/virtualMachines/login"
    asked = [
        *[("PUT", GROUP, {"location": "southcentralus"})] * 3,
        *[("PUT", DEPLOYMENT, request(recipe(name))) for name in RECIPES],
        *[("POST", f"{DEPLOYMENT}/cancel", None)] * 3,
        *[("PATCH", nodes, {"sku": {"capacity": count}}) for count in range(4)],
        *[("POST", f"{nodes}/{word}", None) for word in ("deallocate", "start", "restart")],
        *[("POST", f"{login}/{word}", None) for word in ("deallocate", "start", "restart")],
        *[("DELETE", path, None) for path in (nodes, login, GROUP)],
    ]
    codes: set[int] = set()

    def ask(seed: int) -> None:
        chosen = random.Random(seed)
        for _ in range(120):
            codes.add(site.ask(*chosen.choice(asked)).status)
            site.cloud.closing.wait(chosen.random() * 0.01)

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    site.cloud.settle()
    site.ask("DELETE", GROUP)
    site.cloud.settle()
    assert (site.left(), site.cloud.broken) == ((0, 0, 0), [])
    assert {201, 202, 404, 409} <= codes <= {200, 201, 202, 204, 400, 404, 409}


def test_a_set_grows_and_shrinks(site: Site) -> None:
    site.deploy(recipe())
    nodes = f"{COMPUTE}/virtualMachineScaleSets/nodes"
    site.ended(site.ask("PATCH", nodes, {"sku": {"capacity": 4}}))
    assert site.left()[1] == 5
    site.ended(site.ask("PATCH", nodes, {"sku": {"capacity": 1}}))
    listed = site.ask("GET", f"{nodes}/virtualMachines").document["value"]
    assert ([one["instanceId"] for one in listed], site.left()[1]) == (["0"], 2)


def test_a_group_that_could_not_be_deleted_can_be(site: Site) -> None:
    site.deploy(recipe())
    site.cloud.strike({"kind": "fail-delete", "name": "nodes", "code": "Odd"})
    failed = site.ended(site.ask("DELETE", GROUP))
    assert failed["error"]["details"][0]["code"] == "Odd"
    group = site.ask("GET", GROUP).document
    assert (group["properties"]["provisioningState"], site.left()[1] > 0) == ("Succeeded", True)
    site.ended(site.ask("DELETE", GROUP))
    assert site.left() == (0, 0, 0)


def test_what_runs_has_a_price(site: Site) -> None:
    site.deploy(recipe())
    state = site.cloud.state()
    # Two nodes at 3.96 US$ and a login node; three disks, addresses and NAT gateway have none.
    assert state["usd_per_hour"] > 7.92
    assert state["unpriced"] == 6
    site.ended(site.ask("POST", f"{COMPUTE}/virtualMachineScaleSets/nodes/deallocate"))
    assert site.cloud.state()["usd_per_hour"] < 1


def test_two_hundred_members_are_listed_at_once(site: Site) -> None:
    site.cloud.limits["", "cores"] = site.cloud.limits["", "standardedsv5family"] = 100_000
    template = changed("nodes", "sku", "capacity", to=200, of="eda-storage")
    assert site.deploy(template)["provisioningState"] == "Succeeded"
    rows = site.cloud.listed()["resources"]
    machines = [one for one in rows if one["type"] == "microsoft.compute/virtualmachines"]
    cards = [one for one in rows if one["type"] == "microsoft.network/networkinterfaces"]
    addresses = {
        one["properties"]["ipConfigurations"][0]["properties"]["privateIPAddress"] for one in cards
    }
    assert (len(machines), len(addresses)) == (201, 201)


# ---- spoilt templates ---------------------------------------------------------------------------


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    pairs: list[tuple[Any, Any]] = list(enumerate(value)) if isinstance(value, list) else []
    if isinstance(value, dict):
        pairs = list(value.items())
    for key, one in pairs:
        yield from places(one, (*at, key))


def spoilt(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    template = recipe()
    place: Any = template
    for word in path[:-1]:
        place = place[word]
    place[path[-1]] = value
    return template


# Every place and value was tried once (docs/dev/stand_ins.md): this is a part of them.
@pytest.mark.parametrize("value", [None, 5, "x", [], {}, True, ["x"], {"a": 1}], ids=repr)
def test_a_spoilt_template_is_refused_or_fails_and_leaves_nothing(value: Any) -> None:
    for path in list(places(recipe()))[1::17]:
        site = Site()
        site.ask("PUT", GROUP, {"location": "southcentralus"})
        reply = site.ask("PUT", DEPLOYMENT, request(spoilt(path, value)))
        assert reply.status in (201, 400), path
        site.cloud.settle()
        site.cloud.listed()
        site.ended(site.ask("DELETE", GROUP))
        assert site.left() == (0, 0, 0), path


# ---- expressions --------------------------------------------------------------------------------

SCOPE = Scope(
    {"id": GROUP, "name": "one", "location": "southcentralus"},
    "https://cloud",
    lambda path, full: {"path": path, "full": full},
    {"name": "x", "list": ["a", {"b": "c"}]},
    {"made": "[concat(parameters('name'), '-made')]"},
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("plain", "plain"),
        ("[[not one]", "[not one]"),
        ("[open", "[open"),
        ("[parameters('NAME')]", "x"),
        ("[parameters('list')[1].b]", "c"),
        ("[variables('made')]", "x-made"),
        ("[concat('it''s ', parameters('name'), 1)]", "it's x1"),
        ("[concat(parameters('list'), parameters('list'))]", ["a", {"b": "c"}] * 2),
        ("[format('{1}-{0}-{{}}', 'a', 2)]", "2-a-{}"),
        ("[base64('abc')]", "YWJj"),
        ("[toLower(string('A'))]", "a"),
        ("[resourceGroup().location]", "southcentralus"),
        ("[environment().resourceManager]", "https://cloud/"),
        ("[resourceId('A.B/c', 'd')]", f"{GROUP}/providers/A.B/c/d"),
        (
            "[resourceId('two', 'A.B/c/e', 'd', 'f')]",
            f"{S}/resourceGroups/two/providers/A.B/c/d/e/f",
        ),
        ("[subscriptionResourceId('A.B/c', 'd')]", f"{S}/providers/A.B/c/d"),
        ("[reference(resourceId('A.B/c', 'd'), '1', 'Full').full]", True),
        ({"a": ["[parameters('name')]"]}, {"a": ["x"]}),
    ],
)
def test_an_expression_has_the_value_that_azure_documents(text: Any, value: Any) -> None:
    assert SCOPE.value(text) == value


def test_a_guid_is_the_same_each_time_and_another_for_other_words() -> None:
    one, same, other = (SCOPE.value(f"[guid('a', '{word}')]") for word in "bbc")
    assert (one == same, one == other, len(one)) == (True, False, 36)


@pytest.mark.parametrize(
    "text",
    [
        "[nosuch()]",
        "[concat('a')x]",
        "[concat('a',]",
        "[parameters('other')]",
        "[parameters('name').more]",
        "[parameters('list')[7]]",
        "[resourceId('A.B/c')]",
        "[resourceId('A.B/c', 'd', 'e')]",
        "[reference(resourceId('A.B/c', 'd'))]",
        "[reference('d', '1')]",
        "[format('{3}', 'a')]",
        "[base64(1)]",
        "[1 2]",
        "[]",
        "[$]",
    ],
)
def test_an_expression_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(Refused) as raised:
        SCOPE.value(text)
    assert raised.value.error["code"] == "InvalidTemplate"
