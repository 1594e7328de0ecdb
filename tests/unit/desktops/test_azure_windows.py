"""Windows nodes on Azure: parameters, template, price, password; the emulated cloud's refusals."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import pytest
from emulated_cloud import SUBSCRIPTION, Cloud, Models
from helpers import parametrized
from provisioning import DATA, RUN, known, made
from trueup_controller.azure import parameters, template, windows
from trueup_node.errors import BadInput

VM = "Microsoft.Compute/virtualMachines"
HOST = {
    "size": "Standard_NV12ads_A10_v5",
    "system": "windows",
    "placement": "single",
    "join": "entra",
}


def hosts(nodes: dict[str, Any] | None = None, **given: Any) -> parameters.Parameters:
    return made({**HOST, **(nodes or {})}, region="eastus", **given)


def resources(found: parameters.Parameters, kind: str) -> dict[str, dict[str, Any]]:
    every = template.template(found, known(), RUN)["resources"]
    return {one["name"]: one for one in every if one["type"] == kind}


def test_the_password_is_a_secure_parameter_and_of_linux_nodes_none() -> None:
    found = template.template(hosts(), known(), RUN)["parameters"]
    assert {name: one["type"] for name, one in found.items()} == {
        "sshPublicKey": "string",
        "adminPassword": "secureString",
    }
    assert list(template.template(made(), known(), RUN)["parameters"]) == ["sshPublicKey"]


def test_winrm_answers_the_login_nodes_subnet_and_the_join_comes_after() -> None:
    [command] = resources(hosts(), f"{VM}/runCommands").values()
    [join] = resources(hosts(), f"{VM}/extensions").values()
    assert command["properties"]["parameters"] == [{"name": "From", "value": "10.42.128.0/24"}]
    script = command["properties"]["source"]["script"]
    assert (script.count("-RemoteAddress $From"), "AllowUnencrypted -" in script) == (1, False)
    name = "[resourceId('Microsoft.Compute/virtualMachines/runCommands', 'node001', 'winrm')]"
    assert name in join["dependsOn"]
    assert (join["properties"]["type"], join["name"]) == ("AADLoginForWindows", "node001/entra")
    assert resources(hosts({"join": "none"}), f"{VM}/extensions") == {}
    assert "identity" not in resources(hosts({"join": "none"}), VM)["node001"]


def test_trusted_launch_of_windows_has_its_virtual_tpm_and_may_have_secure_boot() -> None:
    machines = resources(hosts(security="trusted_launch", secure_boot=True), VM)
    settings = machines["node001"]["properties"]["securityProfile"]["uefiSettings"]
    assert settings == {"secureBootEnabled": True, "vTpmEnabled": True}


@parametrized(("nodes", "given", "sentence"))
def test_what_windows_nodes_cannot_be_is_a_sentence(
    nodes: dict[str, Any], given: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(BadInput, match=re.escape(sentence)):
        hosts(nodes, **given)


def test_a_password_is_long_of_all_kinds_and_never_the_same() -> None:
    found = {windows.password() for _ in range(200)}
    assert len(found) == 200
    for one in found:
        assert len(one) == 35
        for kind in (r"[a-z]", r"[A-Z]", r"\d", r"[\W_]"):
            assert re.search(kind, one) is not None


def refused(*path: Any, to: Any, name: str = "node001") -> str:
    """What the emulated cloud says of the recipe's template with another value at a place."""
    found = json.loads((DATA / "template-nx-avd.json").read_text())
    [place] = [one for one in found["resources"] if one["name"] == name]
    for word in path[:-1]:
        place = place[word]
    if to is None:
        del place[path[-1]]
    else:
        place[path[-1]] = copy.deepcopy(to)
    cloud = Cloud()
    cloud.validate = Models()
    word = cloud.token()
    group = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/one"
    ask = {"api-version": "2022-09-01"}
    cloud.call("PUT", group, ask, {"location": "eastus"}, f"Bearer {word}")
    given = {"sshPublicKey": {"value": "ssh-ed25519 A"}, "adminPassword": {"value": "Abcd-12345"}}
    where = f"{group}/providers/Microsoft.Resources/deployments/one"
    body = {"properties": {"mode": "Incremental", "template": found, "parameters": given}}
    reply = cloud.call("PUT", where, ask, body, f"Bearer {word}")
    cloud.settle()
    assert cloud.broken == []
    state = cloud.call("GET", where, ask, None, f"Bearer {word}").document
    return json.dumps(reply.document if reply.status >= 400 else state["properties"].get("error"))


@parametrized(("path", "to", "name", "said"))
def test_the_emulated_cloud_refuses_what_azure_refuses(
    path: tuple[str, ...], to: Any, name: str, said: str
) -> None:
    assert said in refused(*path, to=to, name=name)


def test_the_recipe_as_it_stands_is_deployed() -> None:
    assert refused("tags", "more", to="x") == "null"
