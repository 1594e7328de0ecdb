"""The instance metadata service that a machine of the emulated cloud asks at 169.254.169.254.

Whoever runs the machine brings the request here (cloud.metadata). Fields: facts of the API of
2025-04-07; values are texts, as Azure gives them.
"""

from __future__ import annotations

import json
import time
import uuid
from email.utils import formatdate
from typing import TYPE_CHECKING, Any

from .compute import VM, VirtualMachine
from .replies import SUBSCRIPTION, Reply
from .resources import at
from .rights import identities, issue
from .sets import ScaleSet, single

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .cloud import Cloud
    from .machines import Machine
    from .resources import Document, Resource

VERSIONS = ("2018-02-01", "2019-08-01", "2020-07-01", "2021-01-01", "2021-02-01", "2025-04-07")
NOTICE = "Preempt"


def found(cloud: Cloud, machine: str) -> tuple[Resource, str, Document] | None:
    """The resource of a machine, the number of an instance of a set, and where its state is."""
    resource = cloud.resources.get(machine.lower())
    if resource is not None and resource.kind == VM:
        return resource, "", resource.state
    scale_set, _, number = machine.rpartition("/virtualMachines/")
    resource = cloud.resources.get(scale_set.lower())
    state = resource.state.get("instances", {}).get(number) if resource else None
    return None if resource is None or state is None else (resource, number, state)


def answer(
    cloud: Cloud, machine: str, method: str, path: str, query: Mapping[str, str], body: bytes = b""
) -> Reply:
    """What a machine is told."""
    there = found(cloud, machine)
    if there is None:
        return Reply(404, {"error": "Not found"})
    events = ["metadata", "scheduledevents"]
    version, words = query.get("api-version", ""), path.strip("/").split("/")
    if version not in VERSIONS:
        known = ", ".join(VERSIONS)
        return _bad(f"Bad request: api-version {version!r} is none of those known here: {known}")
    if words == events and method in ("GET", "POST"):
        return _events(cloud, machine, body if method == "POST" else None)
    if method != "GET":
        return Reply(405, {"error": "Method not allowed"})
    if words[:2] == ["metadata", "instance"]:
        return _leaf(_instance(cloud, *there), words[2:], query.get("format", "json"))
    if words == ["metadata", "identity", "oauth2", "token"]:
        return _token(cloud, there[0], query)
    return Reply(404, {"error": "Not found"})


def _bad(said: str) -> Reply:
    return Reply(400, {"error": said})


def _leaf(document: Any, words: list[str], form: str) -> Reply:
    for word in words:
        if isinstance(document, list) and word.isdigit() and int(word) < len(document):
            document = document[int(word)]
        elif isinstance(document, dict) and word in document:
            document = document[word]
        else:
            return Reply(404, {"error": "Not found"})
    if form == "text":
        if not isinstance(document, str):
            return _bad("format=text is for a leaf only")
        return Reply(200, document, {"Content-Type": "text/plain; charset=utf-8"})
    return Reply(200, document)


def _machine(cloud: Cloud, resource: Resource, number: str) -> Machine:
    provider = cloud.provider(resource.kind)
    if isinstance(provider, ScaleSet):
        return provider.machine(cloud, resource, number)
    assert isinstance(provider, VirtualMachine)
    return provider.machine(cloud, resource)


def _instance(cloud: Cloud, resource: Resource, number: str, state: Document) -> Document:
    machine = _machine(cloud, resource, number)
    publisher, offer, sku, version = machine.image.split(":")
    profile = resource.properties.get("virtualMachineProfile") or resource.properties
    security = profile.get("securityProfile") or {}
    launched = security.get("securityType") == "TrustedLaunch"
    member = str(at(resource.body, "properties", "virtualMachineScaleSet", "id") or "")
    owner = cloud.resources.get(member.lower()) if member else (resource if number else None)
    place = ""
    if owner is not None and single(owner.body):
        place = str(uuid.uuid5(uuid.NAMESPACE_URL, owner.key))
    compute: Document = {
        "azEnvironment": "AzurePublicCloud",
        "customData": "",
        "evictionPolicy": machine.eviction,
        "isHostCompatibilityLayerVm": "false",
        "licenseType": profile.get("licenseType", ""),
        "location": machine.location,
        "name": f"{resource.name}_{number}" if number else resource.name,
        "offer": offer,
        "osProfile": {
            "adminUsername": machine.user,
            "computerName": machine.name,
            "disablePasswordAuthentication": str(not machine.password).lower(),
        },
        "osType": machine.system,
        "placementGroupId": place,
        "platformFaultDomain": "0",
        "platformUpdateDomain": "0",
        "priority": machine.priority if machine.priority == "Spot" else "",
        "provider": "Microsoft.Compute",
        "publicKeys": [{"keyData": key, "path": ""} for key in machine.keys],
        "publisher": publisher,
        "resourceGroupName": machine.group,
        "resourceId": machine.id,
        "securityProfile": {
            "secureBootEnabled": str(
                launched and bool(at(security, "uefiSettings", "secureBootEnabled"))
            ).lower(),
            "virtualTpmEnabled": str(
                launched and bool(at(security, "uefiSettings", "vTpmEnabled"))
            ).lower(),
        },
        "sku": sku,
        "storageProfile": {"dataDisks": [], "osDisk": {}, "resourceDisk": {}},
        "subscriptionId": SUBSCRIPTION,
        "tags": ";".join(f"{key}:{value}" for key, value in machine.tags.items()),
        "tagsList": [{"name": key, "value": value} for key, value in machine.tags.items()],
        "userData": profile.get("userData", ""),
        "version": version,
        "virtualMachineScaleSet": {"id": member},
        "vmId": state["vmId"],
        "vmScaleSetName": machine.scale_set,
        "vmSize": machine.size,
        "zone": machine.zone,
    }
    address, _, prefix = machine.range.partition("/")
    ipv4 = {
        "ipAddress": [{"privateIpAddress": machine.address, "publicIpAddress": machine.public}],
        "subnet": [{"address": address, "prefix": prefix}],
    }
    nic: Document = {"ipv4": ipv4, "ipv6": {"ipAddress": []}, "macAddress": "000D3A000001"}
    return {"compute": compute, "network": {"interface": [nic]}}


def _events(cloud: Cloud, machine: str, body: bytes | None) -> Reply:
    said = cloud.events.setdefault(machine.lower(), {"DocumentIncarnation": 1, "Events": []})
    if body is None:
        return Reply(200, said)
    try:
        asked = json.loads(body)["StartRequests"]
        wanted = {one["EventId"] for one in asked}
    except (ValueError, KeyError, TypeError):
        return _bad("StartRequests is a list of objects with an EventId")
    known = {one["EventId"] for one in said["Events"]}
    if not wanted <= known:
        return _bad(f"no such event: {', '.join(sorted(map(str, wanted - known)))}")
    cloud.approve(machine)
    return Reply(200, None)


def _token(cloud: Cloud, resource: Resource, query: Mapping[str, str]) -> Reply:
    if "resource" not in query:
        return Reply(400, {"error": "invalid_request", "error_description": "resource is missing"})
    known = identities(cloud, resource)
    asked = query.get("client_id") or query.get("msi_res_id") or query.get("mi_res_id")
    if asked:
        principal = known.get(asked.lower())
    else:
        others = set(known.values())
        principal = known.get("system") or (others.pop() if len(others) == 1 else None)
    if principal is None:
        said = "Identity not found"
        return Reply(400, {"error": "invalid_request", "error_description": said})
    word = issue(cloud, principal, query["resource"])
    seconds = int(cloud.lifetime_seconds)
    return Reply(
        200,
        {
            "access_token": word,
            "client_id": principal,
            "expires_in": str(seconds),
            "expires_on": str(int(cloud.tokens[word].expires)),
            "not_before": str(int(cloud.tokens[word].expires) - seconds),
            "resource": query["resource"],
            "token_type": "Bearer",
        },
    )


def notice(machine: str, name: str, seconds: float) -> Document:
    """The event of an eviction."""
    return {
        "EventId": str(uuid.uuid4()).upper(),
        "EventStatus": "Scheduled",
        "EventType": NOTICE,
        "ResourceType": "VirtualMachine",
        "Resources": [name],
        "NotBefore": formatdate(time.time() + seconds, usegmt=True),
        "Description": f"Spot eviction of {machine.rpartition('/')[2]} in {seconds:g} s",
        "EventSource": "Platform",
        "DurationInSeconds": -1,
    }
