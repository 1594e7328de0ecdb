"""The machines that Azure lists: virtual machines, and instances of uniform scale sets.

Resource Graph has virtual machines (members of flexible scale sets among them) and their network
interfaces in its table Resources, and instances of uniform sets in ComputeResources, with power
state, without addresses: the interfaces of such a set are one call of Azure Resource Manager.

Source: https://learn.microsoft.com/azure/governance/resource-graph/concepts/query-language (three
joins a query, of which one may be over tables; no union of these two; ``summarize`` ends paging, so
that rows are joined and not gathered) and .../samples for ComputeResources; field names from
Microsoft's specification (api-versions 2024-07-01 of Compute, 2023-11-01 of Network).
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from trueup_node.errors import BadInput, TrueupError

if TYPE_CHECKING:
    from .manager import Manager, Row

NETWORK_VERSION = "2023-11-01"

# The set of a machine: the same join in both queries.
_SETS = """
| join kind=leftouter (
    Resources
    | where type =~ 'microsoft.compute/virtualmachinescalesets'
    | project setId = tolower(id), setName = name, setTags = tags,
        single = tostring(properties.singlePlacementGroup),
        setPriority = tostring(properties.virtualMachineProfile.priority),
        setOs = tostring(properties.virtualMachineProfile.storageProfile.osDisk.osType),
        setProximity = tostring(properties.proximityPlacementGroup.id)
  ) on setId"""

_COLUMNS = """
| project id, name, location, resourceGroup, subscriptionId, tags, zones, size, power, setId,
    setName, setTags, single, setPriority, setOs, setProximity,
    state = tostring(properties.provisioningState),
    computer = tostring(properties.osProfile.computerName),
    os = tostring(properties.storageProfile.osDisk.osType),
    image = properties.storageProfile.imageReference,
    priority = tostring(properties.priority),
    proximity = tostring(properties.proximityPlacementGroup.id),
    vmid = tostring(properties.vmId)"""

_VMS = (
    """Resources
| where type =~ 'microsoft.compute/virtualmachines'{groups}
| extend machine = tolower(id), setId = tolower(tostring(properties.virtualMachineScaleSet.id)),
    size = tostring(properties.hardwareProfile.vmSize),
    power = tostring(properties.extended.instanceView.powerState.code)
| join kind=leftouter (
    Resources
    | where type =~ 'microsoft.network/networkinterfaces'
    | where tostring(properties.primary) !~ 'false'
    | project machine = tolower(tostring(properties.virtualMachine.id)), interface = tolower(id),
        addresses = properties.ipConfigurations
  ) on machine
| join kind=leftouter (
    Resources
    | where type =~ 'microsoft.network/publicipaddresses'
    | project publicAddress = tostring(properties.ipAddress),
        publicName = tostring(properties.dnsSettings.fqdn),
        interface = tostring(split(tolower(tostring(properties.ipConfiguration.id)),
            '/ipconfigurations/')[0])
    | where isnotempty(interface)
  ) on interface"""
    + _SETS
    + _COLUMNS
    + """, addresses, publicAddress, publicName
| order by id asc"""
)

_INSTANCES = (
    """ComputeResources
| where type =~ 'microsoft.compute/virtualmachinescalesets/virtualmachines'{groups}
| extend setId = tostring(split(tolower(id), '/virtualmachines/')[0]), size = tostring(sku.name),
    power = tostring(properties.extended.instanceView.powerState.code)"""
    + _SETS
    + _COLUMNS
    + """
| order by id asc"""
)

_GROUP_NAME = re.compile(r"[-\w.()]{1,90}")


@dataclass(frozen=True)
class Machine:
    """One machine as Azure lists it; texts are empty where it says nothing.

    Attributes:
        power: ``running``, ``deallocated``, ...; ``unknown`` where Azure has not said.
        system: ``linux``, ``windows`` or empty.
        priority: ``Regular``, ``Spot`` or ``Low``.
        scale_set, scale_set_id: of its scale set.
        placement: a name for the machines that were placed together: those of one scale set with a
            single placement group, or else of one proximity placement group.
    """

    id: str
    name: str
    location: str = ""
    resource_group: str = ""
    subscription: str = ""
    size: str = ""
    power: str = "unknown"
    provisioning: str = ""
    system: str = ""
    computer: str = ""
    priority: str = "Regular"
    zones: tuple[str, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    private: tuple[str, ...] = ()
    public: tuple[str, ...] = ()
    public_names: tuple[str, ...] = ()
    scale_set: str = ""
    scale_set_id: str = ""
    proximity: str = ""
    placement: str = ""
    image: Mapping[str, Any] = field(default_factory=dict)
    vmid: str = ""

    @property
    def uniform(self) -> bool:
        """Whether it is an instance of a uniform scale set."""
        return "/virtualmachinescalesets/" in self.id.lower()


def machines(
    manager: Manager, vm_groups: Sequence[str], set_groups: Sequence[str]
) -> list[Machine]:
    """All machines of the login's subscriptions, by id.

    Args:
        vm_groups: resource groups of virtual machines, ``*`` for all, none for no machine.
        set_groups: the same of instances of uniform scale sets.
    """
    by_id = without_addresses(manager, vm_groups, set_groups)
    sets = {
        machine.scale_set_id: machine.subscription for machine in by_id.values() if machine.uniform
    }
    for scale_set in sorted(sets):
        for machine, addresses in set_addresses(manager, scale_set).items():
            if machine in by_id:
                by_id[machine] = replace(by_id[machine], private=addresses)
    return [by_id[key] for key in sorted(by_id)]


def without_addresses(
    manager: Manager, vm_groups: Sequence[str], set_groups: Sequence[str]
) -> dict[str, Machine]:
    """The same by id in lower case; instances of uniform sets have no address, which would be a
    call for each set."""
    by_id: dict[str, Machine] = {}
    for query in queries(vm_groups, set_groups):
        for row in manager.query(query):
            machine = machine_of(row)
            # A row for each public address of the machine.
            before = by_id.get(machine.id.lower())
            by_id[machine.id.lower()] = machine if before is None else _together(before, machine)
    return by_id


def queries(vm_groups: Sequence[str], set_groups: Sequence[str]) -> list[str]:
    """The Resource Graph queries for the machines of these resource groups."""
    templates = ((_VMS, vm_groups), (_INSTANCES, set_groups))
    return [text.format(groups=_within(groups)) for text, groups in templates if groups]


def _within(groups: Sequence[str]) -> str:
    """The line of a query that keeps these resource groups."""
    if "*" in groups:
        return ""
    for name in groups:
        if not _GROUP_NAME.fullmatch(name):
            raise BadInput(f"{name!r} is no name of a resource group; write names, or * for all")
    names = ", ".join(f"'{name}'" for name in groups)
    return f"\n| where resourceGroup in~ ({names})"


def set_addresses(manager: Manager, scale_set: str) -> dict[str, tuple[str, ...]]:
    """The private addresses of a uniform set's instances, by their ids in lower case."""
    addresses: dict[str, tuple[str, ...]] = {}
    for interface in manager.every(f"{scale_set}/networkInterfaces", NETWORK_VERSION):
        properties = _dict(interface.get("properties"))
        machine = _text(_dict(properties.get("virtualMachine")).get("id")).lower()
        if properties.get("primary") is not False and machine:
            addresses[machine] = private_addresses(properties.get("ipConfigurations"))
    return addresses


def private_addresses(configurations: Any) -> tuple[str, ...]:
    """The addresses of an interface's configurations, IPv4 before IPv6 and the primary one first.

    A prefix behind an address (Azure gives it for a block) is left out; so is any other text.
    """
    ranked: list[tuple[int, bool, int, str]] = []
    entries = configurations if isinstance(configurations, list) else []
    for position, entry in enumerate(entries):
        properties = _dict(_dict(entry).get("properties"))
        text = _text(properties.get("privateIPAddress")).partition("/")[0]
        try:
            version = ipaddress.ip_address(text).version
        except ValueError:
            continue
        ranked.append((version, properties.get("primary") is not True, position, text))
    return tuple(address for *_, address in sorted(ranked))


def machine_of(row: Row) -> Machine:
    """A row of either query.

    Raises:
        TrueupError: it has no id or no name.
    """
    name, resource = _text(row.get("name")), _text(row.get("id"))
    if not name or not resource.startswith("/subscriptions/"):
        raise TrueupError(f"Resource Graph gives a machine without id or name ({str(row)[:120]})")
    scale_set = _text(row.get("setName"))
    group = _text(row.get("resourceGroup")).lower()
    proximity = (_text(row.get("proximity")) or _text(row.get("setProximity"))).rpartition("/")[2]
    together = scale_set if _text(row.get("single")).lower() == "true" else proximity
    public, public_name = _text(row.get("publicAddress")), _text(row.get("publicName"))
    # No source says whether an instance carries the tags of its set: it has them here.
    tags = {**_dict(row.get("setTags")), **_dict(row.get("tags"))}
    return Machine(
        id=resource,
        name=name,
        location=_text(row.get("location")).lower(),
        resource_group=group,
        subscription=_text(row.get("subscriptionId")),
        size=_text(row.get("size")),
        power=_text(row.get("power")).rpartition("/")[2].lower() or "unknown",
        provisioning=_text(row.get("state")).lower(),
        system=(_text(row.get("os")) or _text(row.get("setOs"))).lower(),
        computer=_text(row.get("computer")),
        priority=_text(row.get("priority")) or _text(row.get("setPriority")) or "Regular",
        zones=tuple(str(zone) for zone in row.get("zones") or ()),
        tags={str(key): _text(value) for key, value in tags.items()},
        private=private_addresses(row.get("addresses")),
        public=(public,) if public else (),
        public_names=(public_name,) if public_name else (),
        scale_set=scale_set,
        scale_set_id=_text(row.get("setId")),
        proximity=proximity,
        placement=re.sub(r"[^A-Za-z0-9._-]", "_", f"{group}-{together}".lower())
        if together
        else "",
        image=_dict(row.get("image")),
        vmid=_text(row.get("vmid")),
    )


def _together(first: Machine, other: Machine) -> Machine:
    """One machine of two rows."""
    return replace(
        first,
        private=tuple(dict.fromkeys(first.private + other.private)),
        public=tuple(dict.fromkeys(first.public + other.public)),
        public_names=tuple(dict.fromkeys(first.public_names + other.public_names)),
    )


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def facts(machine: Machine) -> dict[str, Any]:
    """A machine's facts for expressions, under the names that azure.azcollection's azure_rm uses
    where it has one."""
    return {
        "id": machine.id,
        "name": machine.name,
        "computer_name": machine.computer,
        "location": machine.location,
        "zone": machine.zones[0] if machine.zones else "",
        "availability_zone": list(machine.zones),
        "resource_group": machine.resource_group,
        "subscription_id": machine.subscription,
        "resource_type": "Microsoft.Compute/virtualMachine"
        + ("ScaleSets/virtualMachines" if machine.uniform else "s"),
        "virtual_machine_size": machine.size,
        "powerstate": machine.power,
        "provisioning_state": machine.provisioning,
        "os_profile": {"system": machine.system or "unknown"},
        "priority": machine.priority,
        "tags": dict(machine.tags),
        "private_ipv4_addresses": [address for address in machine.private if ":" not in address],
        "private_ipv6_addresses": [address for address in machine.private if ":" in address],
        "public_ipv4_addresses": [address for address in machine.public if ":" not in address],
        "public_dns_hostnames": list(machine.public_names),
        "vmss": {"id": machine.scale_set_id, "name": machine.scale_set}
        if machine.scale_set_id
        else {},
        "proximity_placement_group": machine.proximity,
        "placement": machine.placement,
        "image": dict(machine.image),
        "vmid": machine.vmid,
    }


def hostvars(machine: Machine, connect_to: str) -> dict[str, Any]:
    """The variables of a host: Azure's facts with the prefix ``azure_``, and the variables that
    Ansible and the roles read.

    Args:
        connect_to: ``private`` or ``public``, the address that Ansible connects to; without a
            public one the private one.
    """
    machine_facts = facts(machine)
    variables = {f"azure_{name}": value for name, value in machine_facts.items()}
    private = machine.private[0] if machine.private else ""
    public = machine.public[0] if machine.public and connect_to == "public" else ""
    if public or private:
        variables["ansible_host"] = public or private
    if private:
        variables["slurm_node_address"] = private
    if machine.placement:
        variables["slurm_placement_group"] = machine.placement
    return variables


def own_groups(machine: Machine) -> list[str]:
    """The groups that a machine is in without being asked; none is a family's."""
    words = {
        "location": machine.location,
        "size": machine.size,
        "zone": f"{machine.location}_{machine.zones[0]}" if machine.zones else "",
        "resource_group": machine.resource_group,
        "scale_set": machine.scale_set,
        "placement": machine.placement,
        "priority": machine.priority,
    }
    named = [f"azure_{kind}_{text}" for kind, text in words.items() if text]
    # By the group windows plays tell Windows hosts apart.
    system = [f"azure_{machine.system}"] * bool(machine.system)
    marked = ["windows"] * (machine.system == "windows")
    return [*system, *marked, *(safe(name) for name in named)]


def safe(name: str) -> str:
    """A group's name as Ansible takes it."""
    return re.sub(r"\W", "_", name.lower(), flags=re.ASCII)


def host_names(listed: Sequence[Machine]) -> dict[str, str]:
    """The machines' names by id: their own, and where several machines have one name, with four
    hexadecimal digits of the id behind it."""
    counts: dict[str, int] = {}
    for machine in listed:
        counts[machine.name.lower()] = counts.get(machine.name.lower(), 0) + 1
    return {
        machine.id: machine.name
        if counts[machine.name.lower()] == 1
        else f"{machine.name}_{_digest(machine.id)}"
        for machine in listed
    }


def _digest(text: str) -> str:
    return hashlib.sha256(text.lower().encode()).hexdigest()[:4]
