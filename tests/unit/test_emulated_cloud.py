"""The emulated cloud: what Azure takes and refuses of a deployment, and what is left of one."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from emulated_cloud import SUBSCRIPTION, Cloud, Reply
from helpers import ROOT

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
    return {
        "properties": {"mode": "Incremental", "template": template, "parameters": key} | properties
    }


def recipe(name: str = "devito-hbv3") -> dict[str, Any]:
    return dict(json.loads((DATA / f"template-{name}.json").read_text(encoding="utf-8")))


def part(template: dict[str, Any], name: str) -> dict[str, Any]:
    [found] = [one for one in template["resources"] if one["name"] == name]
    return dict(found)


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
    cards = site.ask("GET", f"{nodes}/networkInterfaces").document["value"]
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
    # Disk and adapter were to go with it; the public address was not.
    assert ("disks" in kinds, "networkInterfaces" in kinds) == (False, False)
    assert kinds.count("publicIPAddresses") == 2


def test_a_disk_stays_where_nobody_asked_for_its_deletion(site: Site) -> None:
    place = ("properties", "storageProfile", "osDisk", "deleteOption")
    site.deploy(changed("login", *place, to="Detach"))
    site.ended(site.ask("DELETE", f"{COMPUTE}/virtualMachines/login"))
    [disk] = [one for one in site.cloud.state()["resources"] if one["type"].endswith("/disks")]
    assert (disk["properties"]["diskState"], disk["id"] in site.cloud.state()["bills"]) == (
        "Unattached",
        True,
    )


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
    template["resources"] = [one for one in template["resources"] if one["name"] != "login"]
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
    assert (kinds["nodes"], kinds["login"], kinds["network"]) == ("NoChange", "Ignore", "Modify")


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
            changed(
                "network",
                "properties",
                "subnets",
                "1",
                "properties",
                "addressPrefix",
                to="10.42.1.0/24",
            ),
            "NetcfgSubnetRangesOverlap",
        ),
        (
            changed(
                "network",
                "properties",
                "subnets",
                "1",
                "properties",
                "addressPrefix",
                to="10.43.1.0/24",
            ),
            "NetcfgSubnetRangeOutsideVnet",
        ),
        (
            changed(
                "login-rules", "properties", "securityRules", "0", "properties", "priority", to=99
            ),
            "SecurityRuleInvalidPriority",
        ),
        (changed("login", "apiVersion", to="2019-01-01"), "NoRegisteredProviderFound"),
        (changed("login", "type", to="Microsoft.Compute/nosuch"), "InvalidResourceType"),
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
