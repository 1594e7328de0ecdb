"""The emulated cloud: what Azure takes and refuses of a deployment, and what is left of one."""

from __future__ import annotations

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
