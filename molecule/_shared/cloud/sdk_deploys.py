"""Deploys templates to a cloud with Microsoft's packages, unmodified: what held.py runs.

Each template: group, what-if, deployment, lists, deallocation, the group's end. What the packages
parse of each answer is printed as JSON, by template.
"""

from __future__ import annotations

import contextlib
import json
import os
import ssl
import sys
import urllib.request
from pathlib import Path
from typing import Any

from azure.core.exceptions import HttpResponseError
from azure.identity import ManagedIdentityCredential
from azure.mgmt.compute import ComputeManagementClient
from azure.mgmt.network import NetworkManagementClient
from azure.mgmt.resource.deployments import DeploymentsMgmtClient
from azure.mgmt.resource.deployments.models import Deployment, DeploymentWhatIf
from azure.mgmt.resource.resources import ResourceManagementClient

POLL = {"polling_interval": 0.1}


def _given(template: dict[str, Any]) -> dict[str, Any]:
    """Values of a template's parameters."""
    known = {"sshPublicKey": "ssh-ed25519 AAAA one", "adminPassword": "Abcd-1234-efgh"}
    return {name: {"value": known[name]} for name in template["parameters"]}


class Clients:
    """The packages' clients of one cloud."""

    def __init__(self, url: str, subscription: str) -> None:
        self.url = url
        credential = ManagedIdentityCredential()
        more = {"base_url": url, "credential_scopes": [f"{url}/.default"]}
        self.groups = ResourceManagementClient(credential, subscription, **more)
        self.deployments = DeploymentsMgmtClient(credential, subscription, **more)
        self.compute = ComputeManagementClient(credential, subscription, **more)
        self.network = NetworkManagementClient(credential, subscription, **more)

    def whole(self, group: str, template: dict[str, Any]) -> dict[str, Any]:
        """Everything with one template."""
        tags = {"run": group}
        made = self.groups.resource_groups.create_or_update(
            group, {"location": "southcentralus", "tags": tags}
        )
        said: dict[str, Any] = {"group": [made.name, made.tags == tags]}
        properties = {"mode": "Incremental", "template": template, "parameters": _given(template)}
        would = self.deployments.deployments.begin_what_if(
            group, "one", DeploymentWhatIf({"properties": properties}), **POLL
        ).result()
        said["what-if"] = [would.status, sorted({one.change_type.value for one in would.changes})]
        done = self.deployments.deployments.begin_create_or_update(
            group, "one", Deployment({"properties": properties}), **POLL
        ).result()
        said["deployment"] = [
            done.properties.provisioning_state,
            len(done.properties.output_resources),
        ]
        steps = list(self.deployments.deployment_operations.list(group, "one"))
        said["steps"] = sorted({one.properties.provisioning_state for one in steps})
        said |= self.listed(group)
        said["as kept"] = self.kept() == {key: said[key] for key in ("machines", "public")}
        said["stopped"] = self.stopped(group)
        self.groups.resource_groups.begin_delete(group, **POLL).result()
        said["left"] = [one.name for one in self.groups.resource_groups.list()]
        return said

    def listed(self, group: str) -> dict[str, Any]:
        """What the packages parse of machines and addresses."""
        machines, addresses = [], {}
        for one in self.compute.virtual_machines.list(group):
            view = self.compute.virtual_machines.instance_view(group, one.name)
            power = [status.code for status in view.statuses]
            size = one.properties.hardware_profile.vm_size
            machines.append([one.id, str(size), power[-1], one.tags.get("recipe")])
        for found in self.compute.virtual_machine_scale_sets.list(group):
            if found.properties.orchestration_mode != "Uniform":
                continue
            for one in self.compute.virtual_machine_scale_set_vms.list(
                group, found.name, expand="instanceView"
            ):
                power = [status.code for status in one.properties.instance_view.statuses]
                machines.append([one.id, one.sku.name, power[-1], one.tags.get("recipe")])
            cards = self.network.network_interfaces
            for card in cards.list_virtual_machine_scale_set_network_interfaces(group, found.name):
                addresses[card.properties.virtual_machine.id] = address_of(card)
        for card in self.network.network_interfaces.list(group):
            addresses[card.properties.virtual_machine.id] = address_of(card)
        public = [one.properties.ip_address for one in self.network.public_ip_addresses.list(group)]
        return {"machines": sorted(machines), "addresses": addresses, "public": sorted(public)}

    def emulated(self, word: str, fault: dict[str, Any] | None = None) -> Any:
        """A call that Azure has not: state, or a fault."""
        head = {"Emulated-Secret": os.environ["EMULATED_CLOUD_SECRET"]}
        data = json.dumps(fault).encode() if fault else None
        asked = urllib.request.Request(f"{self.url}/emulated/{word}", data, head)  # noqa: S310
        context = ssl.create_default_context(cafile=os.environ["REQUESTS_CA_BUNDLE"])
        with urllib.request.urlopen(asked, context=context) as answer:  # noqa: S310
            return json.loads(answer.read() or b"null")

    def kept(self) -> dict[str, Any]:
        """The same as the cloud keeps it."""
        state = self.emulated("state")
        machines = [
            [one["id"], one["size"], f"PowerState/{one['power']}", one["tags"].get("recipe")]
            for one in state["machines"]
        ]
        public = [
            one["properties"]["ipAddress"]
            for one in state["resources"]
            if one["type"] == "Microsoft.Network/publicIPAddresses"
        ]
        return {"machines": sorted(machines), "public": sorted(public)}

    def stopped(self, group: str) -> list[str]:
        """Power states after everything was deallocated."""
        for one in self.compute.virtual_machines.list(group):
            self.compute.virtual_machines.begin_deallocate(group, one.name, **POLL).result()
        for found in self.compute.virtual_machine_scale_sets.list(group):
            if found.properties.orchestration_mode == "Uniform":
                self.compute.virtual_machine_scale_sets.begin_deallocate(
                    group, found.name, **POLL
                ).result()
        return sorted({power for _, _, power, _ in self.listed(group)["machines"]})

    def refused(self, template: dict[str, Any]) -> list[str]:
        """The codes of a template that is not taken."""
        self.groups.resource_groups.create_or_update("refused", {"location": "southcentralus"})
        properties = {"mode": "Incremental", "template": template}
        try:
            self.deployments.deployments.begin_create_or_update(
                "refused", "one", Deployment({"properties": properties}), **POLL
            ).result()
        except HttpResponseError as error:
            codes = [str(error.error.code), *(str(one.code) for one in error.error.details or ())]
            self.groups.resource_groups.begin_delete("refused", **POLL).result()
            return codes
        return []

    def canceled(self, template: dict[str, Any]) -> list[str]:
        """How a deployment that was canceled stands, what its poller says, and what a second
        cancellation is answered with."""
        self.emulated("faults", {"kind": "slow", "what": "virtualNetworks", "seconds": 5})
        self.groups.resource_groups.create_or_update("canceled", {"location": "southcentralus"})
        properties = {"mode": "Incremental", "template": template, "parameters": _given(template)}
        began = self.deployments.deployments.begin_create_or_update(
            "canceled", "one", Deployment({"properties": properties}), **POLL
        )
        self.deployments.deployments.cancel("canceled", "one")
        kept = self.deployments.deployments.get("canceled", "one")
        with contextlib.suppress(HttpResponseError):
            began.wait()
        said = [kept.properties.provisioning_state.value, began.status()]
        try:
            self.deployments.deployments.cancel("canceled", "one")
        except HttpResponseError as error:
            said.append(str(error.error.code))
        self.groups.resource_groups.begin_delete("canceled", **POLL).result()
        return [*said, *(one.name for one in self.groups.resource_groups.list())]


def address_of(card: Any) -> str:
    return str(card.properties.ip_configurations[0].properties.private_ip_address)


def main() -> None:
    url, subscription, *paths = sys.argv[1:]
    clients = Clients(url, subscription)
    said = {}
    for path in paths:
        template = json.loads(Path(path).read_text(encoding="utf-8"))
        name = Path(path).stem.removeprefix("template-")
        said[name] = clients.whole(name, template)
    said["canceled"] = {"codes": clients.canceled(template)}
    said["refused"] = {"codes": clients.refused({"resources": [], "nosuch": 1})}
    print(json.dumps(said))


if __name__ == "__main__":
    main()
