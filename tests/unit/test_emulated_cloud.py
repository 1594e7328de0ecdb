"""The emulated cloud: what Azure takes and refuses of a deployment, and what is left of one."""

from __future__ import annotations

import base64
import importlib.util
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from emulated_cloud import API_VERSIONS, SUBSCRIPTION, Cloud, Models, Reply, Scope
from helpers import ROOT, parametrized

if TYPE_CHECKING:
    pass

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


@parametrized(("name", "path", "value"))
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


# ---- the machine's own rights, and its metadata -------------------------------------------------


def with_role(**more: Any) -> dict[str, Any]:
    """A recipe whose role assignment has other members, and on which nothing depends."""
    template = recipe()
    [role] = [one for one in template["resources"] if one["type"].endswith("/roleAssignments")]
    role.update(more, properties={**role["properties"], **more.get("properties", {})})
    part(template, "nodes")["dependsOn"].pop()
    return template


@parametrized(("more", "code"))
def test_a_role_that_cannot_be_given_fails_the_deployment(
    site: Site, more: dict[str, Any], code: str
) -> None:
    site.cloud.pace = 0.05 if "dependsOn" in more else 0.0
    made = site.deploy(with_role(**more))
    assert (made["provisioningState"], made["error"]["code"]) == ("Failed", "DeploymentFailed")
    assert [one["code"] for one in made["error"]["details"]] == [code]


# ---- what goes wrong ----------------------------------------------------------------------------


@parametrized(("method", "path", "code"))
def test_a_call_that_is_not_known_is_refused(site: Site, method: str, path: str, code: str) -> None:
    site.deploy(recipe())
    assert site.code(method, path, {}) == code


# ---- Azure's models -----------------------------------------------------------------------------

MODELS = Models()


@pytest.mark.skipif(
    bool(MODELS.absent), reason=f"requirements/test.txt is not installed: {MODELS.absent}"
)
@parametrized(("path", "to", "word"))
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
@parametrized(("package", "namespace"))
def test_the_versions_that_azures_packages_ask_for_are_known(package: str, namespace: str) -> None:
    # Read and not imported: they are large.
    found = importlib.util.find_spec(f"azure.mgmt.{package}")
    assert found is not None
    [folder] = found.submodule_search_locations or []
    text = (Path(folder) / "operations" / "_operations.py").read_text(encoding="utf-8")
    asked = set(re.findall(r'"api-version", "([^"]+)"', text))
    assert asked - set(API_VERSIONS[namespace]) == set() != asked


# ---- at the same time ---------------------------------------------------------------------------


# ---- spoilt templates ---------------------------------------------------------------------------


# ---- expressions --------------------------------------------------------------------------------

SCOPE = Scope(
    {"id": GROUP, "name": "one", "location": "southcentralus"},
    "https://cloud",
    lambda path, full: {"path": path, "full": full},
    {"name": "x", "list": ["a", {"b": "c"}]},
    {"made": "[concat(parameters('name'), '-made')]"},
)


@parametrized(("text", "value"))
def test_an_expression_has_the_value_that_azure_documents(text: Any, value: Any) -> None:
    assert SCOPE.value(text) == value
