"""Microsoft.Compute in the emulated cloud: VMs, disks, and what a machine is told to do.

Sets are in sets.py.
"""

from __future__ import annotations

import base64
import binascii
import copy
import uuid
from typing import TYPE_CHECKING, Any

from . import impact, windows
from .capacity import demand, refuse_profile, refuse_quota, refuse_size
from .machines import Machine
from .network import subnet
from .replies import TENANT, Refused, Reply
from .resources import Provider, Resource, at, need, now

if TYPE_CHECKING:
    from .cloud import Cloud
    from .resources import Call, Document, Operation

VM = windows.VM
MOST_CUSTOM_DATA = 65535
# What a machine is told, to what it then is.
POWER = {
    "start": "running",
    "restart": "running",
    "powerOff": "stopped",
    "deallocate": "deallocated",
}
_LOWER = {name.lower(): name for name in POWER}


def keyed(profile: Document) -> None:
    """Refuse public keys that have no text."""
    keys = at(profile, "osProfile", "linuxConfiguration", "ssh", "publicKeys") or []
    for number in range(len(keys)):
        need(profile, f"osProfile.linuxConfiguration.ssh.publicKeys.{number}.keyData")


def custom_data(profile: Document) -> bytes:
    """What stands in a machine's customData.

    Raises:
        Refused: it is no base64, or too much.
    """
    text = str(at(profile, "osProfile", "customData") or "")
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        said = "Custom data in OSProfile must be in Base64 encoding."
        raise Refused(400, "InvalidParameter", said, target="customData") from None
    if len(data) > MOST_CUSTOM_DATA:
        said = f"Custom data in OSProfile must be at most {MOST_CUSTOM_DATA} bytes long."
        raise Refused(400, "InvalidParameter", said, target="customData")
    return data


def shown(properties: Document) -> Document:
    """Properties as a GET gives them: without secrets, and with the system of the disk."""
    found = unsecret(properties)
    profile = found.get("virtualMachineProfile") or found
    disk = profile["storageProfile"].setdefault("osDisk", {})
    disk.setdefault("osType", windows.system_of(profile))
    return found


def unsecret(properties: Document) -> Document:
    """Properties without what a GET does not give."""
    found = copy.deepcopy(properties)
    for profile in (found, found.get("virtualMachineProfile") or {}):
        for name in ("customData", "adminPassword"):
            (profile.get("osProfile") or {}).pop(name, None)
    return found


def profile_of(profile: Document) -> Document:
    """What of a Machine its VM's properties, or its set's profile, say."""
    system = profile.get("osProfile") or {}
    keys = at(system, "linuxConfiguration", "ssh", "publicKeys") or []
    image = at(profile, "storageProfile", "imageReference") or {}
    spot = profile.get("priority") in ("Spot", "Low")
    return {
        "image": ":".join(str(image.get(k)) for k in ("publisher", "offer", "sku", "version")),
        "system": windows.system_of(profile),
        "user": system.get("adminUsername", ""),
        "password": system.get("adminPassword", ""),
        "keys": tuple(one["keyData"] for one in keys),
        "custom_data": custom_data(profile),
        "priority": "Spot" if spot else "Regular",
        "eviction": profile.get("evictionPolicy", "Deallocate") if spot else "",
    }


def network_of(cloud: Cloud, path: str) -> Document:
    """What of a Machine its subnet says."""
    network, own = subnet(cloud, path)
    # A subnet that does not say so has Azure's own way out, where its API is older than 2025-07-01.
    leads_out = at(own, "properties", "defaultOutboundAccess") is not False
    return {
        "outbound": leads_out or bool(at(own, "properties", "natGateway")),
        "network": network.id,
        "range": network.properties["addressSpace"]["addressPrefixes"][0],
    }


def identity_of(cloud: Cloud, resource: Resource) -> Document | None:
    """The identity of a resource's document, as a GET gives it."""
    asked = resource.body.get("identity")
    if not asked or asked.get("type") in (None, "None"):
        return None
    found: Document = {"type": asked["type"]}
    if "SystemAssigned" in asked["type"]:
        found["principalId"] = resource.state.setdefault("principal", str(uuid.uuid4()))
        found["tenantId"] = TENANT
    users = {}
    for path in asked.get("userAssignedIdentities") or {}:
        own = cloud.resources.get(path.lower())
        if own:
            users[path] = {key: own.state[key] for key in ("principalId", "clientId")}
    if users:
        found["userAssignedIdentities"] = users
    return found


def seen(cloud: Cloud, resource: Resource, found: Document) -> Document:
    """The document of a machine, or of a set of them, as a GET gives it: with no secret of its
    properties, and with its identity where it has one."""
    found["properties"] = shown(found["properties"])
    found.pop("identity", None)
    identity = identity_of(cloud, resource)
    return {**found, "identity": identity} if identity else found


def instance_view(state: Document, name: str) -> Document:
    """Of a machine's state: its power and provisioning."""
    word = state.get("provisioningState", "Succeeded").lower()
    statuses = [{"code": f"ProvisioningState/{word}", "level": "Info", "time": now()}]
    if state.get("power"):
        power = state["power"]
        statuses.append(
            {"code": f"PowerState/{power}", "level": "Info", "displayStatus": f"VM {power}"}
        )
    return {"computerName": name, "statuses": statuses}


def tell(cloud: Cloud, machine: str, state: Document, action: str) -> Operation:
    """Begin to start, stop or restart a machine.

    Args:
        state: of the machine, where its power is kept.
    """
    wanted = POWER[action]
    on_the_way = {"running": "starting", "stopped": "stopping", "deallocated": "deallocating"}
    begun = state.get("power")
    if begun in (None, "creating", "deleting") or state["provisioningState"] == "Deleting":
        said = f"{machine} has not been made, or is being deleted."
        raise Refused(409, "OperationNotAllowed", said)
    if state.get("busy") and not state["busy"].done.is_set():
        said = f"{machine} is {begun}."
        raise Refused(409, "AnotherOperationInProgress", said)
    if action == "restart" and begun != "running":
        said = f"VM '{machine.rpartition('/')[2]}' is not running."
        raise Refused(409, "OperationNotAllowed", said)
    state["power"] = on_the_way[wanted]

    def work() -> None:
        ended = begun
        try:
            if action == "restart":
                cloud.hardware.restart(machine)
            elif wanted != "running":
                cloud.hardware.stop(machine)
            elif begun != "running":
                if begun == "deallocated":
                    cloud.trouble.allocate(**state["place"])
                    impact.placed_again(cloud, machine)
                cloud.hardware.resume(machine, impact.host_of(cloud, machine))
            ended = wanted
        finally:
            with cloud.lock:
                state["power"] = ended

    operation = cloud.operate(work, 2.0, machine)
    state["busy"] = operation
    return operation


def end(cloud: Cloud, machine: str, state: Document) -> None:
    """Remove a machine, when what it was told is done."""
    with cloud.lock:
        busy = state.get("busy")
        state["power"] = "deleting"
    if busy:
        busy.done.wait()
        state["power"] = "deleting"
    cloud.hardware.delete(machine)


class Disk(Provider):
    """Made with a machine; it stays where nobody asked for its deletion."""

    kind = "Microsoft.Compute/disks"
    rank = 3

    def add(self, cloud: Cloud, resource: Resource) -> Document:
        user = str(resource.body.get("managedBy", ""))
        return {"diskState": "Attached" if user and cloud.exists(user) else "Unattached"}

    def view(self, cloud: Cloud, resource: Resource) -> Document:
        found = super().view(cloud, resource)
        if found["properties"]["diskState"] == "Unattached":
            found.pop("managedBy", None)
        return found


def add_disk(
    cloud: Cloud, made: Resource, user: str, name: str, disk: Document, tags: dict[str, str]
) -> Resource:
    """A disk of a machine, or of a set's instance (``user``), as a resource of its group."""
    path = f"{made.id.rsplit('/providers/', 1)[0]}/providers/{Disk.kind}/{name}"
    body = {
        "location": made.body["location"],
        **({"tags": tags} if tags else {}),
        "managedBy": user,
        "sku": {"name": at(disk, "managedDisk", "storageAccountType") or "Standard_LRS"},
        "properties": {
            "diskSizeGB": disk.get("diskSizeGB", 30),
            "creationData": {"createOption": disk.get("createOption", "Empty")},
        },
    }
    if made.zone:
        body["zones"] = [made.zone]
    one = Resource(path, Disk.kind, body, "2024-03-02", {"provisioningState": "Succeeded"})
    cloud.resources[one.key] = one
    return one


def name_disk(shown_disk: Document, disk: Resource) -> None:
    """Add to the disk of a machine's model what Azure calls it."""
    shown_disk["name"] = disk.name
    shown_disk.setdefault("managedDisk", {})["id"] = disk.id


class VirtualMachine(Provider):
    kind = VM
    seconds = 3.0
    rank = 1
    fixed = (
        ("zones",),
        ("properties", "hardwareProfile", "vmSize"),
        ("properties", "osProfile", "customData"),
        ("properties", "osProfile", "computerName"),
        ("properties", "osProfile", "adminUsername"),
        ("properties", "osProfile", "linuxConfiguration"),
        ("properties", "osProfile", "windowsConfiguration"),
        ("properties", "storageProfile", "imageReference"),
        ("properties", "priority"),
        ("properties", "virtualMachineScaleSet"),
    )

    def alone(self, cloud: Cloud, asked: Resource, before: Resource | None) -> None:
        wanted = demand(self.kind, asked.body)
        assert wanted is not None
        location, size, *_ = wanted
        if before is None:
            refuse_size(cloud, location, size, asked.zone)
        refuse_profile(cloud, size, asked.properties)
        custom_data(asked.properties)
        need(asked.properties, "osProfile.computerName", "osProfile.adminUsername")
        keyed(asked.properties)

    def check(self, cloud: Cloud, asked: Resource, before: Resource | None) -> None:
        wanted = demand(self.kind, asked.body)
        if before is None and wanted:
            refuse_quota(cloud, [wanted])
        every = at(asked.body, "properties", "networkProfile", "networkInterfaces") or []
        if not every:
            said = "The entity name 'networkProfile' in property 'networkInterfaces' is missing."
            raise Refused(400, "InvalidParameter", said)
        for one in every:
            for user in cloud.users(one["id"]):
                if user.key != asked.key:
                    said = f"Network Interface {one['id']} is used by existing resource {user.id}."
                    raise Refused(400, "NicInUse", said)

    def make(self, cloud: Cloud, made: Resource, before: Document | None) -> None:
        if before is not None and made.state.get("power"):
            with cloud.lock:
                self.place_disks(cloud, made)
            return
        with cloud.lock:
            machine, nics = self.machine(cloud, made), self.interfaces(cloud, made)
            made.state["nics"] = nics
            made.state["place"] = {
                "location": made.location,
                "zone": made.zone,
                "size": machine.size,
                "name": made.name,
            }
            made.state.setdefault("vmId", str(uuid.uuid4()))
            made.state.setdefault("timeCreated", now())
            made.state["power"] = "creating"
            self.place_disks(cloud, made, dict(made.tags))
        try:
            cloud.trouble.allocate(**made.state["place"])
            cloud.hardware.start(machine)
        except Exception:
            made.state["power"] = None
            raise
        made.state["power"] = "running"

    def interfaces(self, cloud: Cloud, resource: Resource) -> list[Resource]:
        every = resource.properties["networkProfile"]["networkInterfaces"]
        first = sorted(every, key=lambda one: at(one, "properties", "primary") is not True)
        return [cloud.resource(one["id"]) for one in first]

    def machine(self, cloud: Cloud, resource: Resource) -> Machine:
        nic = self.interfaces(cloud, resource)[0]
        first = nic.properties["ipConfigurations"][0]
        path = at(first, "properties", "publicIPAddress", "id")
        public = cloud.resource(path).state["address"] if path else ""
        identity = identity_of(cloud, resource) or {}
        member = str(at(resource.body, "properties", "virtualMachineScaleSet", "id") or "")
        return Machine(
            id=resource.id,
            name=resource.properties["osProfile"]["computerName"],
            size=resource.properties["hardwareProfile"]["vmSize"],
            location=resource.location,
            zone=resource.zone,
            group=resource.group,
            address=nic.state["addresses"][first["name"]],
            tags=dict(resource.tags),
            scale_set=member.rpartition("/")[2],
            identity=identity.get("principalId", ""),
            **profile_of(resource.properties),
            public=public,
            host=impact.host_of(cloud, resource.id),
            **network_of(cloud, first["properties"]["subnet"]["id"]),
        )

    def place_disks(self, cloud: Cloud, made: Resource, tags: dict[str, str] | None = None) -> None:
        """The disks of a machine as resources of its group: what its document has and lacks.

        Azure copies a machine's tags to the disks that it makes with it (hashicorp's
        terraform-provider-azurerm, issue 8162). A disk that is made when the machine is there, as
        by ``az vm disk attach --new``, has none here.
        """
        storage = made.properties["storageProfile"]
        asked = {"OsDisk": storage.get("osDisk") or {}}
        asked |= {f"lun_{one.get('lun')}": one for one in storage.get("dataDisks") or ()}
        disks = made.state.setdefault("disks", {})
        for slot in set(disks) - set(asked):
            key, _ = disks.pop(slot)
            if key in cloud.resources:
                cloud.resources[key].body.pop("managedBy", None)
        for number, (slot, disk) in enumerate(asked.items(), 1):
            if at(disk, "diffDiskSettings"):
                continue
            goes = disk.get("deleteOption") == "Delete"
            if slot in disks:
                disks[slot] = disks[slot][0], goes
                continue
            path = at(disk, "managedDisk", "id")
            if path:
                one = cloud.resource(path)
                one.body["managedBy"] = made.id
            else:
                name = disk.get("name") or f"{made.name}_{slot}_{number}_{uuid.uuid4().hex}"
                one = add_disk(cloud, made, made.id, name, disk, tags or {})
            disks[slot] = one.key, goes

    def remove(self, cloud: Cloud, gone: Resource) -> None:
        end(cloud, gone.id, gone.state)
        nics = [
            one["id"]
            for one in at(gone.body, "properties", "networkProfile", "networkInterfaces") or ()
            if at(one, "properties", "deleteOption") == "Delete"
        ]
        with cloud.lock:
            cloud.resources.pop(gone.key, None)
            for key in [key for key in cloud.resources if key.startswith(f"{gone.key}/")]:
                cloud.resources.pop(key)
            for key, goes in gone.state.get("disks", {}).values():
                if goes:
                    cloud.resources.pop(key, None)
            begun = [cloud.delete(path) for path in nics]
        for operation in begun:
            if operation:
                operation.done.wait()

    def add(self, cloud: Cloud, resource: Resource) -> Document:
        return {
            key: resource.state[key] for key in ("vmId", "timeCreated") if key in resource.state
        }

    def view(self, cloud: Cloud, resource: Resource) -> Document:
        found = seen(cloud, resource, super().view(cloud, resource))
        storage = found["properties"]["storageProfile"]
        disks = resource.state.get("disks", {})
        for slot, disk in (
            ("OsDisk", storage["osDisk"]),
            *((f"lun_{one.get('lun')}", one) for one in storage.get("dataDisks") or ()),
        ):
            if slot in disks and disks[slot][0] in cloud.resources:
                name_disk(disk, cloud.resources[disks[slot][0]])
        return found

    def expanded(self, cloud: Cloud, resource: Resource) -> Document:
        name = at(resource.body, "properties", "osProfile", "computerName") or ""
        return instance_view(resource.state, name)

    def act(self, cloud: Cloud, resource: Resource, call: Call) -> Any:
        word = call.words[0].lower()
        if len(call.words) != 1:
            return None
        if (call.method, word) == ("GET", "instanceview"):
            return self.expanded(cloud, resource)
        if (call.method, word) == ("POST", "simulateeviction"):
            cloud.evict(resource.id)
            return Reply(204, None)
        if call.method == "POST" and word in _LOWER:
            return tell(cloud, resource.id, resource.state, _LOWER[word])
        return None
