"""Scale sets of the emulated cloud: uniform ones with instances, flexible ones with VMs."""

from __future__ import annotations

import copy
import uuid
from typing import TYPE_CHECKING, Any

from . import impact
from .capacity import demand, refuse_profile, refuse_quota, refuse_size
from .compute import (
    _LOWER,
    VM,
    add_disk,
    custom_data,
    end,
    identity_of,
    instance_view,
    keyed,
    name_disk,
    network_of,
    profile_of,
    seen,
    shown,
    tell,
)
from .machines import Machine
from .network import free_address, mac_of
from .replies import Refused, Reply
from .resources import Provider, Resource, at, need, now

if TYPE_CHECKING:
    from .cloud import Cloud
    from .resources import Call, Document, Operation

SET = "Microsoft.Compute/virtualMachineScaleSets"
NETWORK_VERSION = "2023-11-01"
# Instances: of one placement group, of several, of a flexible set with and without max spreading.
SINGLE, SEVERAL, SPREAD, FLEXIBLE = 100, 1000, 1000, 200


def uniform(body: Document) -> bool:
    return bool(at(body, "properties", "orchestrationMode") != "Flexible")


def single(body: Document) -> bool:
    found = at(body, "properties", "singlePlacementGroup")
    return uniform(body) if found is None else bool(found)


class ScaleSet(Provider):
    kind = SET
    seconds = 3.0
    rank = 1
    fixed = (
        ("zones",),
        ("sku", "name"),
        ("properties", "orchestrationMode"),
        ("properties", "platformFaultDomainCount"),
        ("properties", "proximityPlacementGroup"),
        ("properties", "virtualMachineProfile", "priority"),
    )
    defaults = {"orchestrationMode": "Uniform"}

    # -- what is taken --

    def alone(self, cloud: Cloud, asked: Resource, before: Resource | None) -> None:
        wanted = demand(self.kind, asked.body)
        assert wanted is not None
        location, size, count, _ = wanted
        profile = at(asked.body, "properties", "virtualMachineProfile") or {}
        refuse_size(cloud, location, size, asked.zone)
        refuse_profile(cloud, size, profile)
        custom_data(profile)
        if uniform(asked.body):
            most = SINGLE if single(asked.body) else SEVERAL
            if not at(asked.body, "properties", "upgradePolicy"):
                said = "Required parameter 'upgradePolicy' is missing (null)."
                raise Refused(400, "InvalidParameter", said, target="upgradePolicy")
        else:
            most = self.most_of_flexible(asked, profile)
        if count > most:
            said = f"The capacity {count} of {asked.name} is above {most}, the most of such a set."
            raise Refused(400, "InvalidParameter", said, target="sku.capacity")
        if before and single(asked.body) and not single(before.body):
            said = "Changing property 'singlePlacementGroup' to true is not allowed."
            raise Refused(409, "PropertyChangeNotAllowed", said, target="singlePlacementGroup")
        if not at(profile, "networkProfile", "networkInterfaceConfigurations"):
            said = "Required parameter 'networkInterfaceConfigurations' is missing (null)."
            raise Refused(400, "InvalidParameter", said)
        card = "networkProfile.networkInterfaceConfigurations.0"
        place = f"{card}.properties.ipConfigurations.0"
        need(profile, f"{card}.name", f"{place}.name", f"{place}.properties.subnet.id")
        need(profile, "osProfile.computerNamePrefix", "osProfile.adminUsername")
        keyed(profile)

    def check(self, cloud: Cloud, asked: Resource, before: Resource | None) -> None:
        wanted = demand(self.kind, asked.body)
        assert wanted is not None
        location, size, count, spot = wanted
        more = count - (before.body["sku"].get("capacity", 0) if before else 0)
        refuse_quota(cloud, [(location, size, max(0, more), spot)])

    def most_of_flexible(self, asked: Resource, profile: Document) -> int:
        domains = at(asked.body, "properties", "platformFaultDomainCount")
        if domains is None:
            said = "Required parameter 'platformFaultDomainCount' is missing (null)."
            raise Refused(400, "InvalidParameter", said, target="platformFaultDomainCount")
        if "SystemAssigned" in str(at(asked.body, "identity", "type")):
            said = "A scale set of orchestration mode Flexible has user-assigned identities only."
            raise Refused(400, "InvalidParameter", said, target="identity")
        version = at(profile, "networkProfile", "networkApiVersion")
        if version is None or version < "2020-11-01":
            said = "networkApiVersion must be 2020-11-01 or later in mode Flexible."
            raise Refused(400, "InvalidParameter", said, target="networkApiVersion")
        return SPREAD if domains == 1 else FLEXIBLE

    # -- machines --

    def make(self, cloud: Cloud, made: Resource, before: Document | None) -> None:
        wanted = made.body["sku"].get("capacity", 0)
        if uniform(made.body):
            with cloud.lock:
                have = made.state.setdefault("instances", {})
                identity_of(cloud, made)
                new = [self.instance(cloud, made) for _ in range(wanted - len(have))]
                gone = list(have)[wanted:]
            cloud.each(lambda number: self.remove_instance(cloud, made, number), gone)
            cloud.each(lambda number: self.start_instance(cloud, made, number), new)
        else:
            members = self.members(cloud, made)
            new = [uuid.uuid4().hex[:8] for _ in range(wanted - len(members))]
            for one in members[wanted:]:
                self.end(cloud.delete(one.id))
            cloud.each(lambda word: self.add_member(cloud, made, word), new)

    def end(self, operation: Operation | None) -> None:
        """Wait for an operation; what it failed with is raised."""
        if operation:
            operation.done.wait()
            if operation.error:
                error = dict(operation.error)
                raise Refused(409, error.pop("code"), error.pop("message"), **error)

    def nic(self, made: Resource) -> Document:
        profile = made.properties["virtualMachineProfile"]
        return dict(profile["networkProfile"]["networkInterfaceConfigurations"][0])

    def instance(self, cloud: Cloud, made: Resource) -> str:
        """A place for one more instance: its number."""
        number = made.state.get("next", 0)
        made.state["next"] = number + 1
        place = self.nic(made)["properties"]["ipConfigurations"][0]["properties"]["subnet"]["id"]
        profile = made.properties["virtualMachineProfile"]
        made.state["instances"][str(number)] = {
            "computer": f"{profile['osProfile']['computerNamePrefix']}{number:06d}",
            "subnet": place.lower(),
            "address": free_address(cloud, place),
            "vmId": str(uuid.uuid4()),
            "timeCreated": now(),
            "provisioningState": "Creating",
            "power": "creating",
            "place": {
                "location": made.location,
                "zone": made.zone,
                "size": made.body["sku"]["name"],
                "name": f"{made.name}_{number}",
            },
        }
        disk = profile["storageProfile"].get("osDisk") or {}
        if not at(disk, "diffDiskSettings"):
            word = f"{made.name}_{made.name}_{number}_OsDisk_1_{uuid.uuid4().hex}"
            user = f"{made.id}/virtualMachines/{number}"
            made.state["instances"][str(number)]["disk"] = add_disk(
                cloud, made, user, word, disk, {}
            ).key
        return str(number)

    def drop(self, cloud: Cloud, made: Resource, number: str) -> None:
        """Forget an instance, whose disk goes with it."""
        with cloud.lock:
            gone = made.state["instances"].pop(number, {})
            cloud.resources.pop(gone.get("disk"), None)

    def machine(self, cloud: Cloud, made: Resource, number: str) -> Machine:
        one = made.state["instances"][number]
        return Machine(
            id=f"{made.id}/virtualMachines/{number}",
            name=one["computer"],
            size=made.body["sku"]["name"],
            location=made.location,
            zone=made.zone,
            group=made.group,
            address=one["address"],
            tags=dict(made.tags),
            scale_set=made.name,
            identity=made.state.get("principal", ""),
            host=impact.host_of(cloud, f"{made.id}/virtualMachines/{number}"),
            **profile_of(made.properties["virtualMachineProfile"]),
            **network_of(cloud, one["subnet"]),
        )

    def start_instance(self, cloud: Cloud, made: Resource, number: str) -> None:
        one = made.state["instances"][number]
        try:
            cloud.trouble.allocate(**one["place"])
            with cloud.lock:
                machine = self.machine(cloud, made, number)
            cloud.hardware.start(machine)
        except Exception:
            self.drop(cloud, made, number)
            raise
        one.update(provisioningState="Succeeded", power="running")

    def remove_instance(self, cloud: Cloud, made: Resource, number: str) -> None:
        if number in made.state["instances"]:
            end(cloud, f"{made.id}/virtualMachines/{number}", made.state["instances"][number])
            self.drop(cloud, made, number)

    def members(self, cloud: Cloud, made: Resource) -> list[Resource]:
        with cloud.lock:
            return [one for one in cloud.users(made.id) if one.kind == VM]

    def add_member(self, cloud: Cloud, made: Resource, word: str) -> None:
        """One more VM of a flexible set, with its adapter."""
        profile = copy.deepcopy(made.properties["virtualMachineProfile"])
        scope = made.id.rsplit("/providers/", 1)[0]
        card = self.nic(made)
        nic = f"{scope}/providers/Microsoft.Network/networkInterfaces/{card['name']}-{word}"
        head = {"location": made.body["location"], "tags": dict(made.tags)}
        keep = {"enableAcceleratedNetworking", "ipConfigurations", "networkSecurityGroup"}
        body = {key: one for key, one in card["properties"].items() if key in keep}
        added, _ = cloud.put(nic, {**head, "properties": body}, NETWORK_VERSION)
        self.end(added.busy)
        system = profile.pop("osProfile")
        system["computerName"] = f"{system.pop('computerNamePrefix')}{word[:6].upper()}"
        profile.pop("networkProfile")
        option = {"primary": True, "deleteOption": card["properties"].get("deleteOption", "Detach")}
        properties = {
            **profile,
            "hardwareProfile": {"vmSize": made.body["sku"]["name"]},
            "osProfile": system,
            "networkProfile": {"networkInterfaces": [{"id": nic, "properties": option}]},
            "virtualMachineScaleSet": {"id": made.id},
        }
        for key in ("zones", "identity", "plan"):
            if key in made.body:
                head[key] = copy.deepcopy(made.body[key])
        name = f"{scope}/providers/{VM}/{made.name}_{word}"
        machine, _ = cloud.put(name, {**head, "properties": properties}, made.version)
        self.end(machine.busy)

    def remove(self, cloud: Cloud, gone: Resource) -> None:
        for operation in [cloud.delete(one.id) for one in self.members(cloud, gone)]:
            self.end(operation)
        numbers = list(gone.state.get("instances", {}))
        cloud.each(lambda number: self.remove_instance(cloud, gone, number), numbers)

    # -- what is said --

    def view(self, cloud: Cloud, resource: Resource) -> Document:
        found = seen(cloud, resource, super().view(cloud, resource))
        found["properties"]["singlePlacementGroup"] = single(resource.body)
        return found

    def expanded(self, cloud: Cloud, resource: Resource) -> Document:
        every = resource.state.get("instances", {}).values()
        counts: dict[str, int] = {}
        for one in every:
            code = f"ProvisioningState/{one['provisioningState'].lower()}"
            counts[code] = counts.get(code, 0) + 1
        summary = [{"code": code, "count": count} for code, count in counts.items()]
        return {"virtualMachine": {"statusesSummary": summary}, "statuses": []}

    def one(self, cloud: Cloud, resource: Resource, number: str, *, view: bool = False) -> Document:
        """An instance of a uniform set."""
        state = resource.state["instances"][number]
        profile = shown({"virtualMachineProfile": resource.properties["virtualMachineProfile"]})
        profile = profile["virtualMachineProfile"]
        if state.get("disk") in cloud.resources:
            name_disk(profile["storageProfile"]["osDisk"], cloud.resources[state["disk"]])
        system = profile["osProfile"]
        system.pop("computerNamePrefix")
        where = f"{resource.id}/virtualMachines/{number}"
        nic = {"id": f"{where}/networkInterfaces/{self.nic(resource)['name']}"}
        found: Document = {
            "id": where,
            "name": f"{resource.name}_{number}",
            "type": f"{SET}/virtualMachines",
            "instanceId": number,
            "location": resource.body["location"],
            "tags": dict(resource.tags),
            "sku": {"name": resource.body["sku"]["name"], "tier": "Standard"},
            "properties": {
                "vmId": state["vmId"],
                "timeCreated": state["timeCreated"],
                "latestModelApplied": True,
                "provisioningState": state["provisioningState"],
                "osProfile": {**system, "computerName": state["computer"]},
                "storageProfile": profile["storageProfile"],
                "networkProfile": {"networkInterfaces": [nic]},
            },
        }
        if "securityProfile" in profile:
            found["properties"]["securityProfile"] = profile["securityProfile"]
        if resource.body.get("zones"):
            found["zones"] = list(resource.body["zones"])
        if view:
            found["properties"]["instanceView"] = instance_view(state, state["computer"])
        return found

    def adapter(self, resource: Resource, number: str) -> Document:
        """Its interface: without location and tags, as Azure gives it."""
        state = resource.state["instances"][number]
        card = self.nic(resource)
        where = f"{resource.id}/virtualMachines/{number}"
        name = f"{where}/networkInterfaces/{card['name']}"
        first = card["properties"]["ipConfigurations"][0]
        address = {**first["properties"], "primary": True, "privateIPAddress": state["address"]}
        address["privateIPAllocationMethod"] = "Dynamic"
        one = {"id": f"{name}/ipConfigurations/{first['name']}", "name": first["name"]}
        return {
            "id": name,
            "name": card["name"],
            "properties": {
                "provisioningState": "Succeeded",
                "primary": True,
                "macAddress": mac_of(name),
                "virtualMachine": {"id": where},
                "ipConfigurations": [{**one, "properties": address}],
            },
        }

    def part(self, cloud: Cloud, resource: Resource, words: list[str]) -> bool:
        return words[0] == "virtualmachines" and words[1] in resource.state.get("instances", {})

    # -- what it is told --

    def act(self, cloud: Cloud, resource: Resource, call: Call) -> Any:
        every = resource.state.get("instances", {})
        view = "instanceview" in call.query.get("$expand", "").lower()
        first, *rest = (word.lower() for word in call.words)
        if first == "virtualmachines" and rest:
            if rest[0] not in every:
                said = f"The entity {call.words[1]} was not found in scale set {resource.name}."
                raise Refused(404, "NotFound", said)
            return self.act_on_one(cloud, resource, call.method, rest[0], rest[1:], view=view)
        if rest:
            return None
        if (call.method, first) == ("GET", "instanceview"):
            return self.expanded(cloud, resource)
        if (call.method, first) == ("GET", "virtualmachines"):
            if not uniform(resource.body):
                return {"value": [cloud.view(one) for one in self.members(cloud, resource)]}
            return {"value": [self.one(cloud, resource, number, view=view) for number in every]}
        if (call.method, first) == ("GET", "networkinterfaces"):
            return {"value": [self.adapter(resource, number) for number in every]}
        if call.method == "POST" and uniform(resource.body) and first in (*_LOWER, "delete"):
            numbers = (call.body or {}).get("instanceIds")
            return self.tell_several(cloud, resource, first, list(every), numbers)
        return None

    def act_on_one(
        self,
        cloud: Cloud,
        resource: Resource,
        method: str,
        number: str,
        rest: list[str],
        *,
        view: bool,
    ) -> Any:
        state = resource.state["instances"][number]
        if not rest:
            if method == "DELETE":
                return self.tell_several(cloud, resource, "delete", [number], [number])
            return self.one(cloud, resource, number, view=view) if method == "GET" else None
        if len(rest) > 1:
            return None
        if (method, rest[0]) == ("GET", "instanceview"):
            return instance_view(state, state["computer"])
        if (method, rest[0]) == ("GET", "networkinterfaces"):
            return {"value": [self.adapter(resource, number)]}
        where = f"{resource.id}/virtualMachines/{number}"
        if (method, rest[0]) == ("POST", "simulateeviction"):
            cloud.evict(where)
            return Reply(204, None)
        if method == "POST" and rest[0] in _LOWER:
            return tell(cloud, where, state, _LOWER[rest[0]])
        return None

    def tell_several(
        self, cloud: Cloud, resource: Resource, action: str, known: list[str], asked: Any
    ) -> Operation:
        """Tell instances, or all of them, what to do."""
        numbers = known if asked in (None, ["*"]) and action != "delete" else asked or []
        strange = [str(one) for one in numbers if str(one) not in known]
        if strange or (action == "delete" and not numbers):
            said = f"The instance ids {', '.join(strange) or '(none)'} are not of {resource.name}."
            raise Refused(400, "InvalidParameter", said, target="instanceIds")
        if resource.state["provisioningState"] == "Deleting":
            said = f"{resource.name} is being deleted."
            raise Refused(409, "OperationNotAllowed", said)
        if action == "delete":
            resource.body["sku"]["capacity"] -= len(numbers)

            def work() -> None:
                cloud.each(lambda one: self.remove_instance(cloud, resource, one), numbers)

            return cloud.operate(work, 2.0, resource.id)
        every = resource.state.get("instances", {})
        begun = [
            tell(cloud, f"{resource.id}/virtualMachines/{one}", every[one], _LOWER[action])
            for one in numbers
        ]

        def wait() -> None:
            for operation in begun:
                self.end(operation)

        return cloud.operate(wait, 0.0, resource.id)
