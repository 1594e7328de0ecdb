"""A deployment of the emulated cloud whose machines are containers; part of `make cloud`."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from emulated_cloud import SUBSCRIPTION, Cloud, containers, impact, serving
from helpers import ROOT
from stand_ins import left, podman

GROUP = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/one"
COMPUTE = f"{GROUP}/providers/Microsoft.Compute"
DEPLOYMENT = f"{GROUP}/providers/Microsoft.Resources/deployments/one"
NODE, LOGIN = (
    f"{COMPUTE}/virtualMachineScaleSets/nodes/virtualMachines/0",
    f"{COMPUTE}/virtualMachines/login",
)
EVENTS = "http://169.254.169.254/metadata/scheduledevents?api-version=2020-07-01"
TOKEN = (
    "http://169.254.169.254/metadata/identity/oauth2/token?api-version=2018-02-01"
    "&resource=https://management.azure.com/"
)


class Site:
    """The recipe devito-hbv3 on spot machines."""

    def __init__(self, cloud: Cloud, hardware: containers.Containers) -> None:
        self.cloud, self.hardware = cloud, hardware
        self.word = cloud.token()

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        version = "2024-07-01" if "/Microsoft.Compute/" in path else "2022-09-01"
        reply = self.cloud.call(method, path, {"api-version": version}, body, f"Bearer {self.word}")
        assert reply.status < 300, reply.document
        self.cloud.settle(600)
        assert self.cloud.broken == []
        return reply.document

    def power(self, path: str) -> list[str]:
        statuses = self.ask("GET", f"{path}/instanceView")["statuses"]
        return [one["code"] for one in statuses if one["code"].startswith("PowerState/")]

    def inside(self, path: str, *argv: str) -> str:
        """What a program says in a machine."""
        return podman("exec", self.hardware.container(path), *argv).stdout

    def metadata(self, path: str, url: str, *more: str) -> Any:
        argv = ("curl", "--silent", "--header", "Metadata: true", *more, url)
        said = self.inside(path, *argv)
        return json.loads(said) if said else None

    def runs(self, path: str) -> bool:
        name = self.hardware.container(path)
        return "true" in podman("inspect", "--format", "{{.State.Running}}", name).stdout


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder: Path = tmp_path_factory.mktemp("site")
    template = json.loads((ROOT / "tests/data/azure/template-devito-hbv3.json").read_text())
    [nodes] = [one for one in template["resources"] if one["name"] == "nodes"]
    profile = nodes["properties"]["virtualMachineProfile"]
    profile |= {"priority": "Spot", "evictionPolicy": "Deallocate"}
    hardware = containers.Containers()
    cloud = Cloud(hardware)
    with contextlib.closing(cloud), serving(cloud, folder, hardware.address):
        hardware.connect(cloud.metadata, folder / "authority.pem")
        made = Site(cloud, hardware)
        made.ask("PUT", GROUP, {"location": "southcentralus", "tags": {"run": "x"}})
        key = {"sshPublicKey": {"value": "ssh-ed25519 AAAA one"}}
        properties = {"mode": "Incremental", "template": template, "parameters": key}
        made.ask("PUT", DEPLOYMENT, {"properties": properties})
        yield made
        made.ask("DELETE", GROUP)
        there = [f"tu{hardware.id}", str(containers.CLOUDS / hardware.id)]
        assert left(hardware.id) == there
    assert left(hardware.id) == []


def test_the_login_nodes_identity_calls_azure_from_within(site) -> None:
    token = site.metadata(LOGIN, TOKEN)["access_token"]
    url = f"{site.cloud.url}{GROUP}?api-version=2022-09-01"
    header = f"Authorization: Bearer {token}"
    group = json.loads(site.inside(LOGIN, "curl", "--silent", "--header", header, url))
    assert group["tags"] == {"run": "x"}
    # Nodes have none.
    assert "access_token" not in site.metadata(NODE, TOKEN)


def test_instances_know_what_they_are(site) -> None:
    url = "http://169.254.169.254/metadata/instance/compute?api-version=2021-02-01"
    told = site.metadata(NODE, url)
    assert (told["vmSize"], told["vmScaleSetName"]) == ("Standard_HB120rs_v3", "nodes")
    network = "http://169.254.169.254/metadata/instance/network?api-version=2021-02-01"
    [card] = site.metadata(NODE, network)["interface"]
    address = card["ipv4"]["ipAddress"][0]["privateIpAddress"]
    assert f" {address}/" in site.inside(NODE, "ip", "-4", "addr", "show", "eth0")


def test_a_node_agrees_to_its_eviction_and_is_started_again(site) -> None:
    assert site.metadata(NODE, EVENTS)["Events"] == []
    site.cloud.evict(NODE)
    [event] = site.metadata(NODE, EVENTS)["Events"]
    assert (event["EventType"], event["Resources"]) == ("Preempt", ["nodes_0"])
    approval = json.dumps({"StartRequests": [{"EventId": event["EventId"]}]})
    site.metadata(NODE, EVENTS, "--data", approval)
    site.cloud.settle(600)
    assert (site.power(NODE), site.runs(NODE)) == (["PowerState/deallocated"], False)
    site.ask("POST", f"{NODE}/start")
    assert (site.power(NODE), site.runs(NODE)) == (["PowerState/running"], True)


def test_a_node_knows_its_physical_host_and_comes_back_on_another(site) -> None:
    pool = "tr -d '\\000' < /var/lib/hyperv/.kvp_pool_3"
    first = impact.host_of(site.cloud, NODE)
    assert f"PhysicalHostName{first}" in site.inside(NODE, "sh", "-c", pool)
    site.cloud.unhealthy.add(first)
    for action in ("deallocate", "start"):
        site.ask("POST", f"{NODE}/{action}")
    second = impact.host_of(site.cloud, NODE)
    told = site.inside(NODE, "sh", "-c", pool)
    assert (second != first, f"PhysicalHostName{second}" in told, first in told) == (
        *(True, True, False),
    )


def test_an_instance_is_deallocated_and_deleted(site) -> None:
    other = NODE.removesuffix("0") + "1"
    name = site.hardware.container(other)
    site.ask("POST", f"{other}/deallocate")
    assert (site.power(other), site.runs(other)) == (["PowerState/deallocated"], False)
    site.ask("DELETE", other)
    assert podman("container", "exists", name, check=False).returncode == 1
