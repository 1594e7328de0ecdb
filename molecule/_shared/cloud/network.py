"""Microsoft.Network in the emulated cloud: addresses, ranges, and who uses what."""

from __future__ import annotations

import copy
import ipaddress
import uuid
from typing import TYPE_CHECKING, Any

from .replies import Refused
from .resources import Provider, Resource, at

if TYPE_CHECKING:
    from .cloud import Cloud
    from .resources import Call, Document

# Of each subnet, and the last one.
KEPT = 4
_LARGEST_BASTION = 26
# Of the range of public addresses; those before are the host's.
FIRST_PUBLIC = 99


def mac_of(name: str) -> str:
    digits = uuid.uuid5(uuid.NAMESPACE_URL, name.lower()).hex[:6].upper()
    return "-".join(("00", "0D", "3A", digits[:2], digits[2:4], digits[4:]))


def subnet(cloud: Cloud, path: str) -> tuple[Resource, Document]:
    """The network and the document of a subnet's id."""
    network = cloud.resource(path.rsplit("/", 2)[0])
    name = path.rpartition("/")[2].lower()
    for one in network.properties.get("subnets") or []:
        if one["name"].lower() == name:
            return network, one
    raise Refused(404, "NotFound", f"Resource {path} not found.")


def range_of(document: Document) -> ipaddress.IPv4Network:
    prefix = at(document, "properties", "addressPrefix")
    prefix = prefix or (at(document, "properties", "addressPrefixes") or [None])[0]
    try:
        return ipaddress.IPv4Network(prefix)
    except ValueError as error:
        said = f"The address prefix '{prefix}' is not valid: {error}."
        raise Refused(400, "InvalidAddressPrefixFormat", said) from None


def taken(cloud: Cloud) -> set[tuple[str, str]]:
    """(subnet's id, address) of everything that has one."""
    found = set()
    for one in cloud.resources.values():
        for name, address in one.state.get("addresses", {}).items():
            found.add((one.state["subnets"][name], address))
        for instance in one.state.get("instances", {}).values():
            found.add((instance["subnet"], instance["address"]))
    return found


def free_address(cloud: Cloud, path: str, wanted: str = "") -> str:
    """An address of a subnet: the one that is wanted, or the first free."""
    _, document = subnet(cloud, path)
    used = {address for where, address in taken(cloud) if where == path.lower()}
    addresses = range_of(document)
    first, last = int(addresses.network_address) + KEPT, int(addresses.broadcast_address) - 1
    if wanted:
        if not first <= int(ipaddress.IPv4Address(wanted)) <= last:
            said = f"{wanted} is reserved or not in subnet {document['name']} ({addresses})."
            raise Refused(400, "PrivateIPAddressNotInSubnet", said)
        if wanted in used:
            said = f"Private static IP address {wanted} is in use."
            raise Refused(400, "PrivateIPAddressInUse", said)
        return wanted
    for number in range(first, last + 1):
        address = str(ipaddress.IPv4Address(number))
        if address not in used:
            return address
    said = f"Subnet {document['name']} with address prefix {addresses} is already full."
    raise Refused(400, "SubnetIsFull", said)


class PublicAddress(Provider):
    kind = "Microsoft.Network/publicIPAddresses"
    held = (400, "PublicIPAddressCannotBeDeleted")
    rank = 6
    defaults = {"idleTimeoutInMinutes": 4}

    def alone(self, cloud: Cloud, asked: Resource, before: Resource | None) -> None:
        sku = at(asked.body, "sku", "name") or "Basic"
        if sku == "Basic":
            raise Refused(
                400,
                "IPv4BasicSkuPublicIpCountLimitReached",
                "Cannot create more than 0 IPv4 Basic SKU public IP addresses for this subscription"
                " in this region.",
            )
        if asked.properties.get("publicIPAllocationMethod") != "Static":
            said = f"Standard sku publicIp {asked.id} must have AllocationMethod set to Static."
            raise Refused(400, "StandardSkuPublicIPAddressesMustBeStatic", said)

    def make(self, cloud: Cloud, made: Resource, before: Document | None) -> None:
        with cloud.lock:
            if "address" not in made.state:
                used = {one.state.get("address") for one in cloud.resources.values()}
                free = list(ipaddress.IPv4Network(cloud.hardware.public_range).hosts())
                made.state["address"] = next(
                    str(one) for one in free[FIRST_PUBLIC:] if str(one) not in used
                )

    def add(self, cloud: Cloud, resource: Resource) -> Document:
        found: Document = {}
        if "address" in resource.state:
            found["ipAddress"] = resource.state["address"]
        for user in cloud.users(resource.id):
            if user.kind.endswith("/natGateways"):
                found["natGateway"] = {"id": user.id}
            else:
                for one in user.properties.get("ipConfigurations") or []:
                    path = str(at(one, "properties", "publicIPAddress", "id") or "").lower()
                    if path == resource.key:
                        where = f"{user.id}/ipConfigurations/{one['name']}"
                        found["ipConfiguration"] = {"id": where}
        settings = resource.properties.get("dnsSettings")
        if settings:
            name = f"{settings['domainNameLabel']}.{resource.location}.cloudapp.azure.com"
            found["dnsSettings"] = {**settings, "fqdn": name}
        return found


class Rules(Provider):
    kind = "Microsoft.Network/networkSecurityGroups"
    held = (400, "InUseNetworkSecurityGroupCannotBeDeleted")
    rank = 7

    def alone(self, cloud: Cloud, asked: Resource, before: Resource | None) -> None:
        seen = set()
        for one in asked.properties.get("securityRules") or []:
            rule = one.get("properties") or {}
            priority, direction = rule.get("priority"), rule.get("direction")
            if not isinstance(priority, int) or not 100 <= priority <= 4096:
                said = f"Security rule {one.get('name')} has invalid priority {priority}: 100-4096."
                raise Refused(400, "SecurityRuleInvalidPriority", said)
            if (priority, direction) in seen:
                said = f"Security rule {one.get('name')} conflicts with another: same priority."
                raise Refused(400, "SecurityRuleConflict", said)
            seen.add((priority, direction))


class Gateway(Provider):
    kind = "Microsoft.Network/natGateways"
    held = (400, "InUseNatGatewayCannotBeDeleted")
    rank = 5

    def alone(self, cloud: Cloud, asked: Resource, before: Resource | None) -> None:
        if at(asked.body, "sku", "name") not in ("Standard", "StandardV2"):
            said = "NAT gateway must have a SKU: Standard or StandardV2."
            raise Refused(400, "NatGatewaySkuNotSpecified", said)


class Network(Provider):
    """A virtual network, of which subnets are parts."""

    kind = "Microsoft.Network/virtualNetworks"
    held = (400, "InUseSubnetCannotBeDeleted")
    rank = 4
    defaults = {"enableDdosProtection": False}

    def alone(self, cloud: Cloud, asked: Resource, before: Resource | None) -> None:
        prefixes = at(asked.body, "properties", "addressSpace", "addressPrefixes") or []
        spaces = [range_of({"properties": {"addressPrefix": one}}) for one in prefixes]
        if not spaces:
            raise Refused(400, "InvalidAddressSpace", "A virtual network needs an address space.")
        found: dict[str, ipaddress.IPv4Network] = {}
        for one in asked.properties.get("subnets") or []:
            own = range_of(one)
            name = one["name"]
            if not isinstance(name, str):
                raise TypeError(name)
            if not any(own.subnet_of(space) for space in spaces):
                said = f"Subnet '{name}' is not valid because its IP address range is outside the"
                raise Refused(
                    400,
                    "NetcfgSubnetRangeOutsideVnet",
                    f"{said} IP address range of virtual network '{asked.name}'.",
                )
            for other, range_ in found.items():
                if own.overlaps(range_):
                    said = f"Subnet '{name}' is not valid because its IP address range overlaps"
                    raise Refused(
                        400, "NetcfgSubnetRangesOverlap", f"{said} with that of subnet '{other}'."
                    )
            if name == "AzureBastionSubnet" and own.prefixlen > _LARGEST_BASTION:
                said = "The subnet AzureBastionSubnet needs a prefix of /26 or larger."
                raise Refused(400, "BastionSubnetTooSmall", said)
            found[name] = own
        if before:
            self._keep_used(cloud, before, found)

    def _keep_used(
        self, cloud: Cloud, before: Resource, found: dict[str, ipaddress.IPv4Network]
    ) -> None:
        """Refuse to take a subnet away, or another range to it, that something is in."""
        for one in before.properties.get("subnets") or []:
            user = next(cloud.users(f"{before.id}/subnets/{one['name']}"), None)
            if user and found.get(one["name"]) != range_of(one):
                said = f"Subnet {one['name']} is in use by {user.id} and cannot be"
                if one["name"] in found:
                    raise Refused(400, "InUsePrefixCannotBeDeleted", f"{said} given another range.")
                raise Refused(400, "InUseSubnetCannotBeDeleted", f"{said} deleted.")

    def part(self, cloud: Cloud, resource: Resource, words: list[str]) -> bool:
        names = [one["name"].lower() for one in resource.properties.get("subnets") or []]
        return words[0] == "subnets" and words[1] in names

    def add(self, cloud: Cloud, resource: Resource) -> Document:
        if not resource.properties.get("subnets"):
            return {"subnets": []}
        return {"subnets": [self._subnet(resource, one) for one in resource.properties["subnets"]]}

    def _subnet(self, resource: Resource, one: Document) -> Document:
        found = copy.deepcopy(one)
        found["id"] = f"{resource.id}/subnets/{one['name']}"
        found["type"] = f"{self.kind}/subnets"
        found.setdefault("properties", {})["provisioningState"] = "Succeeded"
        return found

    def act(self, cloud: Cloud, resource: Resource, call: Call) -> Any:
        if call.words[0].lower() != "subnets" or len(call.words) > 2:
            return None
        every = resource.properties.get("subnets") or []
        if len(call.words) == 1:
            return {"value": [self._subnet(resource, one) for one in every]}
        others = [one for one in every if one["name"].lower() != call.words[1].lower()]
        if call.method == "GET":
            return self._subnet(
                resource, subnet(cloud, f"{resource.id}/subnets/{call.words[1]}")[1]
            )
        if call.method == "PUT":
            others.append({**call.body, "name": call.words[1]})
        elif call.method != "DELETE":
            return None
        changed = {**resource.body, "properties": {**resource.properties, "subnets": others}}
        made, _ = cloud.put(resource.id, changed, resource.version)
        return made.busy


class Interface(Provider):
    kind = "Microsoft.Network/networkInterfaces"
    held = (400, "NicInUse")
    rank = 2
    defaults = {"enableIPForwarding": False}

    def check(self, cloud: Cloud, asked: Resource, before: Resource | None) -> None:
        every = asked.properties.get("ipConfigurations") or []
        if not every:
            said = f"Network interface {asked.id} must have one or more IP configurations."
            raise Refused(400, "NetworkInterfaceMustHaveAtLeastOneIpConfiguration", said)
        for one in every:
            place = str(at(one, "properties", "subnet", "id") or "")
            if not place:
                said = f"IP configuration {one.get('name')} of {asked.id} names no subnet."
                raise Refused(400, "SubnetIsRequired", said)
            network, _ = subnet(cloud, place)
            if network.location != asked.location:
                raise Refused(
                    400,
                    "InvalidResourceReference",
                    f"Resource {network.id} referenced by resource {asked.id} was not found in"
                    f" region {asked.location}.",
                )
            address = str(at(one, "properties", "publicIPAddress", "id") or "")
            for user in cloud.users(address) if address else ():
                if user.key != asked.key:
                    said = f"Resource {asked.id} is referencing public IP address {address} that is"
                    raise Refused(
                        400, "PublicIPAddressInUse", f"{said} already allocated to {user.id}."
                    )
            if before is None and not at(one, "properties", "privateIPAddress"):
                free_address(cloud, place)

    def make(self, cloud: Cloud, made: Resource, before: Document | None) -> None:
        with cloud.lock:
            old = made.state.get("addresses", {}), made.state.get("subnets", {})
            made.state["addresses"], made.state["subnets"] = {}, {}
            for one in made.properties["ipConfigurations"]:
                name, place = one["name"], one["properties"]["subnet"]["id"].lower()
                kept = old[0].get(name, "") if old[1].get(name) == place else ""
                wanted = one["properties"].get("privateIPAddress") or kept
                made.state["addresses"][name] = free_address(cloud, place, wanted)
                made.state["subnets"][name] = place

    def add(self, cloud: Cloud, resource: Resource) -> Document:
        found: Document = {"ipConfigurations": []}
        given = resource.state.get("addresses", {})
        for number, one in enumerate(resource.properties["ipConfigurations"]):
            properties = {"primary": number == 0, **one["properties"]}
            if one["name"] in given:
                properties["privateIPAddress"] = given[one["name"]]
            properties["provisioningState"] = "Succeeded"
            where = f"{resource.id}/ipConfigurations/{one['name']}"
            found["ipConfigurations"].append({**one, "id": where, "properties": properties})
        for user in cloud.users(resource.id):
            if user.kind == "Microsoft.Compute/virtualMachines":
                found["virtualMachine"] = {"id": user.id}
                every = user.properties["networkProfile"]["networkInterfaces"]
                own = next(one for one in every if one["id"].lower() == resource.key)
                primary = at(own, "properties", "primary")
                found["primary"] = len(every) == 1 if primary is None else primary
        if given:
            found["macAddress"] = mac_of(resource.id)
        return found


class Bastion(Provider):
    kind = "Microsoft.Network/bastionHosts"
    seconds = 5.0
    rank = 2

    def check(self, cloud: Cloud, asked: Resource, before: Resource | None) -> None:
        for one in asked.properties.get("ipConfigurations") or []:
            place = str(at(one, "properties", "subnet", "id") or "")
            if not place.endswith("/AzureBastionSubnet"):
                said = f"Bastion {asked.name} needs a subnet named AzureBastionSubnet, not {place}."
                raise Refused(400, "BastionHostSubnetNameInvalid", said)
