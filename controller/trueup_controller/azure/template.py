"""From parameters to an ARM deployment template: the same parameters and run give the same text.

A template holds no secret and no key: the run's public key is its one parameter. Shapes:
azure-mgmt-compute 39.0.0, azure-mgmt-network 33.1.0, azure-mgmt-netapp 18.0.0,
azure-mgmt-storagecache 4.1.0 and azure-mgmt-authorization 4.0.0; tests/azure_sdk.py holds templates
against them.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from . import nfs, self_destruct, windows
from .catalog import Catalog
from .cloud_init import encoded
from .parameters import MOST_IN_ONE_GROUP, Parameters, started

# Of `Disk`: the disks of the shared storage itself.
NFS_DATA = "NFS data"
SCHEMA = "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#"
KEY = "sshPublicKey"
# The oldest network API with which a flexible set takes its network from the set's profile.
_FLEXIBLE_NETWORK = "2020-11-01"
_TIB = 1024**4
_GIB_A_TIB = 1024
_COMPUTE, _NETWORK = "Microsoft.Compute", "Microsoft.Network"
_MACHINES = f"{_COMPUTE}/virtualMachines"
_EXTENSIONS, _COMMANDS = f"{_MACHINES}/extensions", f"{_MACHINES}/runCommands"
_SETS = f"{_COMPUTE}/virtualMachineScaleSets"
_GROUPS = f"{_COMPUTE}/proximityPlacementGroups"
_ANF = "Microsoft.NetApp/netAppAccounts"
_POOL = f"{_ANF}/capacityPools"
_AMLFS = "Microsoft.StorageCache/amlFilesystems"
# Names within the resource group.
NETWORK, PREFIX, LOGIN, SET = "network", "node", "login", "nodes"
_ANF_NAMES, _LUSTRE = ("files", "pool", "shared"), "lustre"
# The purpose of a machine or a set: its tag ``role``.
ROLES = {LOGIN: "login", nfs.SERVER: "storage"}
_RESOURCES = "Microsoft.Resources/resourceGroups"

Resource = dict[str, Any]


@dataclass(frozen=True)
class Disk:
    """Managed disks of one kind: their owner, how many, GiB each, their SKU."""

    of: str
    count: int
    gib: int
    sku: str


class ScaleSet(NamedTuple):
    """One scale set of the nodes: its name, the prefix of its machines' names, its capacity."""

    name: str
    prefix: str
    capacity: int


def one_group(parameters: Parameters, catalog: Catalog) -> bool:
    """Whether a scale set is one placement group: always a uniform one, and where InfiniBand is."""
    nodes = parameters.nodes
    return nodes.placement == "uniform" or bool(catalog.sizes[nodes.size].get("rdma_nics"))


def scale_sets(parameters: Parameters, catalog: Catalog) -> list[ScaleSet]:
    """The scale sets of the nodes; none of separate VMs. More nodes than one placement group holds
    are several sets of about the same size."""
    nodes = parameters.nodes
    if nodes.placement == "single":
        return []
    number = -(-nodes.count // MOST_IN_ONE_GROUP) if one_group(parameters, catalog) else 1
    if number == 1:
        return [ScaleSet(SET, PREFIX, nodes.count)]
    each, more = divmod(nodes.count, number)
    return [
        ScaleSet(f"{SET}-{set_number}", f"{PREFIX}{set_number}-", each + (set_number <= more))
        for set_number in range(1, number + 1)
    ]


def tags(parameters: Parameters, run: str) -> dict[str, str]:
    """The tags of every resource and of the group."""
    return {
        "owner": parameters.owner,
        "run": run,
        "expires": parameters.expires,
        "recipe": parameters.recipe,
    }


def resource_group(parameters: Parameters, run: str) -> dict[str, Any]:
    """The body of the request that makes the resource group."""
    return {"location": parameters.region, "tags": tags(parameters, run)}


def template(
    parameters: Parameters, catalog: Catalog, run: str, manager: str = self_destruct.PUBLIC
) -> dict[str, Any]:
    """The template that is deployed into the resource group.

    Args:
        parameters: of the deployment.
        catalog: versions of the API.
        run: the run's id.
        manager: https://HOST of Azure Resource Manager, which the login node asks too.

    Raises:
        BadInput: the catalog pins no version of a type.
    """
    resources = _Writer(parameters, catalog, run, manager).resources()
    template_parameters = {KEY: ("string", "Public key of the run.")}
    if parameters.nodes.windows:
        template_parameters[windows.PASSWORD] = (
            "secureString",
            "The administrator's of Windows nodes.",
        )
    return {
        "$schema": SCHEMA,
        "contentVersion": "1.0.0.0",
        "parameters": {
            name: {"type": kind, "metadata": {"description": text}}
            for name, (kind, text) in template_parameters.items()
        },
        "resources": resources,
    }


def disks(parameters: Parameters) -> list[Disk]:
    """Every managed disk, of which each bills by itself."""
    nodes, storage = parameters.nodes, parameters.storage
    managed_disks = [Disk("nodes", nodes.count, nodes.os_disk_gib, nodes.os_disk)]
    if parameters.login.size:
        managed_disks.append(Disk("login node", 1, parameters.login.os_disk_gib, "StandardSSD_LRS"))
    if storage.server:
        managed_disks.append(Disk("NFS server", 1, parameters.login.os_disk_gib, "StandardSSD_LRS"))
        managed_disks.append(
            Disk(NFS_DATA, storage.server_disks, data_disk_gib(parameters), "Premium_LRS")
        )
    return managed_disks


def data_disk_gib(parameters: Parameters) -> int:
    """GiB of each data disk of the NFS server, together no less than asked for."""
    return -(-parameters.storage.tib * _GIB_A_TIB // parameters.storage.server_disks)


def public_addresses(parameters: Parameters) -> list[str]:
    """The public addresses, by name."""
    need_by_name = {
        "login-ip": bool(parameters.login.size and parameters.ssh_from),
        "nat-ip": parameters.outbound == "nat",
        "bastion-ip": parameters.bastion,
    }
    return [name for name, needed in need_by_name.items() if needed]


def shared(parameters: Parameters) -> tuple[str, str] | None:
    """Type and path, within the group, of the storage service that nodes mount; None without."""
    if parameters.storage.kind == "anf":
        account, pool, volume = _ANF_NAMES
        path = f"{_ANF}/{account}/capacityPools/{pool}/volumes/{volume}"
        return f"{_POOL}/volumes", path
    return (_AMLFS, f"{_AMLFS}/{_LUSTRE}") if parameters.storage.kind == "amlfs" else None


def identifier(kind: str, *names: str) -> str:
    """The expression that ARM makes a resource's id of."""
    quoted = ", ".join(f"'{text}'" for text in (kind, *names))
    return f"[resourceId({quoted})]"


class _Writer:
    """Writes the resources of one deployment."""

    def __init__(self, parameters: Parameters, catalog: Catalog, run: str, manager: str) -> None:
        self._made = parameters
        self._catalog = catalog
        self._run = run
        self._manager = manager
        self._switched = not self_destruct.missing(parameters)
        # To ARM a text that begins with a bracket is an expression; a second bracket prevents that.
        self._tags = {
            name: f"[{text}" if text.startswith("[") else text
            for name, text in tags(parameters, run).items()
        }

    def resources(self) -> list[Resource]:
        parameters = self._made
        resources = [self._address(name) for name in public_addresses(parameters)]
        resources += [self._rules("nodes", []), self._rules("login", self._ssh_rules())]
        if parameters.outbound == "nat":
            resources.append(self._nat())
        resources.append(self._network())
        if parameters.bastion:
            resources.append(self._bastion())
        if parameters.login.size:
            resources += self._machine(
                LOGIN, LOGIN, parameters.login.size, parameters.login.os_disk_gib
            )
        if self._switched:
            resources.append(self._assignment())
        resources += self._storage()
        if parameters.nodes.proximity:
            resources.append(self._group())
        return resources + self._nodes()

    # ---- the switch -----------------------------------------------------------------------------

    def _assignment(self) -> Resource:
        """The login node's right to delete the group; of such a resource Azure keeps no tags."""
        return {
            "type": self_destruct.ASSIGNMENTS,
            "apiVersion": self._catalog.api_version(self_destruct.ASSIGNMENTS),
            "name": self._assignment_name(),
            "dependsOn": [identifier(_MACHINES, LOGIN)],
            "properties": self_destruct.assignment(
                LOGIN, self._catalog.api_version(_MACHINES), self_destruct.CONTRIBUTOR
            ),
        }

    def _assignment_name(self) -> str:
        return f"[guid(resourceGroup().id, '{self._run}', '{self_destruct.CONTRIBUTOR}')]"

    def _armed(self) -> list[str]:
        """The resources made before any other machine: the login node, and its right to end the
        run."""
        if not self._switched:
            return []
        name = self._assignment_name()[1:-1]
        return [
            identifier(_MACHINES, LOGIN),
            f"[resourceId('{self_destruct.ASSIGNMENTS}', {name})]",
        ]

    def _resource(
        self,
        kind: str,
        name: str,
        properties: Mapping[str, Any],
        *needs: str,
        zonal: bool = False,
        role: str = "",
        **more: Any,
    ) -> Resource:
        zones = {"zones": [self._made.zone]} if zonal and self._made.zone else {}
        return {
            "type": kind,
            "apiVersion": self._catalog.api_version(kind),
            "name": name,
            "location": self._made.region,
            "tags": {**self._tags, **({"role": role} if role else {})},
            **zones,
            **more,
            **({"dependsOn": list(needs)} if needs else {}),
            "properties": properties,
        }

    # ---- the network ----------------------------------------------------------------------------

    def _address(self, name: str) -> Resource:
        return self._resource(
            f"{_NETWORK}/publicIPAddresses",
            name,
            {"publicIPAllocationMethod": "Static", "publicIPAddressVersion": "IPv4"},
            zonal=True,
            sku={"name": "Standard"},
        )

    def _rules(self, of: str, rules: list[dict[str, Any]]) -> Resource:
        kind = f"{_NETWORK}/networkSecurityGroups"
        return self._resource(kind, f"{of}-rules", {"securityRules": rules})

    def _ssh_rules(self) -> list[dict[str, Any]]:
        if not self._made.ssh_from:
            return []
        return [
            {
                "name": "ssh",
                "properties": {
                    "priority": 100,
                    "direction": "Inbound",
                    "access": "Allow",
                    "protocol": "Tcp",
                    "sourceAddressPrefixes": list(self._made.ssh_from),
                    "sourcePortRange": "*",
                    "destinationAddressPrefix": "*",
                    "destinationPortRange": "22",
                },
            }
        ]

    def _nat(self) -> Resource:
        address = identifier(f"{_NETWORK}/publicIPAddresses", "nat-ip")
        return self._resource(
            f"{_NETWORK}/natGateways",
            "nat",
            {"publicIpAddresses": [{"id": address}], "idleTimeoutInMinutes": 10},
            address,
            zonal=True,
            sku={"name": "Standard"},
        )

    def _network(self) -> Resource:
        parameters = self._made
        rules = {
            name: identifier(f"{_NETWORK}/networkSecurityGroups", f"{name}-rules")
            for name in ("nodes", "login")
        }
        nat = [identifier(f"{_NETWORK}/natGateways", "nat")] if parameters.outbound == "nat" else []
        subnets = []
        for name, prefix in _subnets(parameters).items():
            properties: dict[str, Any] = {"addressPrefix": prefix}
            if name in rules:
                # Where the VMs are; a subnet of a service has a way out of its own.
                properties["defaultOutboundAccess"] = False
                properties["networkSecurityGroup"] = {"id": rules[name]}
                if nat:
                    properties["natGateway"] = {"id": nat[0]}
            elif parameters.storage.kind == "anf" and name == "storage":
                service = {"serviceName": "Microsoft.NetApp/volumes"}
                properties["delegations"] = [{"name": "anf", "properties": service}]
            subnets.append({"name": name, "properties": properties})
        space = {"addressPrefixes": [parameters.network]}
        return self._resource(
            f"{_NETWORK}/virtualNetworks",
            NETWORK,
            {"addressSpace": space, "subnets": subnets},
            *rules.values(),
            *nat,
        )

    def _bastion(self) -> Resource:
        address = identifier(f"{_NETWORK}/publicIPAddresses", "bastion-ip")
        ip_configuration = {
            "subnet": {"id": _subnet("AzureBastionSubnet")},
            "publicIPAddress": {"id": address},
            "privateIPAllocationMethod": "Dynamic",
        }
        configuration = {"name": "bastion", "properties": ip_configuration}
        return self._resource(
            f"{_NETWORK}/bastionHosts",
            "bastion",
            {"ipConfigurations": [configuration], "enableTunneling": True},
            _network(),
            address,
            sku={"name": "Standard"},
        )

    # ---- storage --------------------------------------------------------------------------------

    def _storage(self) -> list[Resource]:
        storage = self._made.storage
        if storage.kind == "anf":
            return self._anf()
        if storage.kind == "amlfs":
            properties = {
                "storageCapacityTiB": storage.tib,
                "filesystemSubnet": _subnet("storage"),
                "maintenanceWindow": {"dayOfWeek": "Sunday", "timeOfDayUTC": "03:00"},
            }
            sku = {"name": storage.amlfs_sku}
            lustre = self._resource(
                _AMLFS,
                _LUSTRE,
                properties,
                _network(),
                zonal=True,
                role="storage",
                sku=sku,
            )
            return [lustre]
        if storage.server:
            gib = data_disk_gib(self._made)
            data = [
                {
                    "lun": lun,
                    "createOption": "Empty",
                    "diskSizeGB": gib,
                    "managedDisk": {"storageAccountType": "Premium_LRS"},
                    "deleteOption": "Delete",
                }
                for lun in range(storage.server_disks)
            ]
            gib_of_system = self._made.login.os_disk_gib
            return self._machine(nfs.SERVER, "nodes", storage.server, gib_of_system, data=data)
        return []

    def _anf(self) -> list[Resource]:
        account, pool, volume = _ANF_NAMES
        storage = self._made.storage
        level, size = storage.anf_level, storage.tib * _TIB
        rule = {
            "ruleIndex": 1,
            "allowedClients": self._made.network,
            "unixReadWrite": True,
            "nfsv3": True,
            "nfsv41": False,
            "cifs": False,
            "hasRootAccess": True,
        }
        shared = {
            "creationToken": volume,
            "serviceLevel": level,
            "usageThreshold": size,
            "subnetId": _subnet("storage"),
            "protocolTypes": ["NFSv3"],
            "networkFeatures": "Standard",
            "exportPolicy": {"rules": [rule]},
        }
        needs = (identifier(_ANF, account), identifier(_POOL, account, pool))
        capacity = {"serviceLevel": level, "size": size, "qosType": "Auto"}
        return [
            self._resource(_ANF, account, {}, role="storage"),
            self._resource(_POOL, f"{account}/{pool}", capacity, needs[0], role="storage"),
            self._resource(
                f"{_POOL}/volumes",
                f"{account}/{pool}/{volume}",
                shared,
                needs[1],
                _network(),
                zonal=True,
                role="storage",
            ),
        ]

    # ---- machines -------------------------------------------------------------------------------

    def _group(self) -> Resource:
        return self._resource(
            _GROUPS,
            "together",
            {
                "proximityPlacementGroupType": "Standard",
                "intent": {"vmSizes": [self._made.nodes.size]},
            },
            zonal=True,
        )

    def _nodes(self) -> list[Resource]:
        nodes = self._made.nodes
        if nodes.placement != "single":
            return [self._set(scale_set) for scale_set in scale_sets(self._made, self._catalog)]
        numbers = range(1, nodes.count + 1)
        return [
            resource
            for number in numbers
            for resource in self._machine(
                f"{PREFIX}{number:03d}", "nodes", nodes.size, nodes.os_disk_gib, node=True
            )
        ]

    def _machine(
        self,
        name: str,
        subnet: str,
        size: str,
        gib: int,
        *,
        node: bool = False,
        data: list[dict[str, Any]] | None = None,
    ) -> list[Resource]:
        """A VM and its adapter."""
        address = name == LOGIN and "login-ip" in public_addresses(self._made)
        adapter = identifier(f"{_NETWORK}/networkInterfaces", f"{name}-nic")
        ip_configuration = self._ip(subnet, f"{name}-ip" if address else "")
        needs = [_network()]
        if address:
            needs.append(ip_configuration["properties"]["publicIPAddress"]["id"])
        nic = {"ipConfigurations": [ip_configuration], "enableAcceleratedNetworking": True}
        kind = self._made.nodes.os_disk if node else "StandardSSD_LRS"
        storage = self._disks(gib, kind, node=node)
        if data:
            storage["dataDisks"] = data
        properties = {
            "hardwareProfile": {"vmSize": size},
            **self._profile(storage, node=node),
            "osProfile": {"computerName": name, **self._login_as(node=node)},
            "networkProfile": {
                "networkInterfaces": [
                    {"id": adapter, "properties": {"primary": True, "deleteOption": "Delete"}}
                ]
            },
        }
        together = self._together(node=node)
        if together:
            properties["proximityPlacementGroup"] = {"id": together[0]}
        more: dict[str, Any] = {}
        if name == LOGIN and self._switched:
            more["identity"] = {"type": "SystemAssigned"}
            properties["osProfile"]["customData"] = encoded(self._start_of_login())
        if data:
            properties["osProfile"]["customData"] = encoded(nfs.custom_data(self._made))
        if node:
            more.update(self._identity())
        windowed = node and self._made.nodes.windows
        if windowed:
            properties["licenseType"] = windows.LICENCE
        role = ROLES.get(name, "compute")
        armed = [] if name == LOGIN else self._armed()
        return [
            self._resource(f"{_NETWORK}/networkInterfaces", f"{name}-nic", nic, *needs),
            self._resource(
                _MACHINES,
                name,
                properties,
                adapter,
                *together,
                *armed,
                zonal=True,
                role=role,
                **more,
            ),
            *(self._windows(name, role) if windowed else []),
        ]

    def _windows(self, machine: str, role: str) -> list[Resource]:
        """The commands in a Windows VM: WinRM for the login node, then the join."""
        needs = identifier(_MACHINES, machine)
        login = _subnets(self._made)["login"]
        resources = [
            self._resource(
                _COMMANDS,
                f"{machine}/{windows.REMOTING}",
                windows.remoting(login),
                needs,
                role=role,
            )
        ]
        if self._made.nodes.join == windows.JOIN:
            # One at a time: Azure runs extensions of a VM side by side.
            before = identifier(_COMMANDS, machine, windows.REMOTING)
            name = f"{machine}/{windows.JOIN}"
            resources.append(
                self._resource(_EXTENSIONS, name, windows.joined(), needs, before, role=role)
            )
        return resources

    def _start_of_login(self) -> str:
        versions = {
            "groups": self._catalog.api_version(_RESOURCES),
            "compute": self._catalog.api_version(_MACHINES),
        }
        return self_destruct.custom_data(self._run, self._made.expires, self._manager, versions)

    def _set(self, scale_set: ScaleSet) -> Resource:
        nodes = self._made.nodes
        flexible = nodes.placement == "flexible"
        ip_configuration = self._ip("nodes", "")
        ip_configuration["properties"].pop("privateIPAllocationMethod")
        adapter = {
            "name": "nic",
            "properties": {
                "primary": True,
                "enableAcceleratedNetworking": True,
                "ipConfigurations": [ip_configuration],
                **({"deleteOption": "Delete"} if flexible else {}),
            },
        }
        network: dict[str, Any] = {"networkInterfaceConfigurations": [adapter]}
        if flexible:
            network["networkApiVersion"] = _FLEXIBLE_NETWORK
        disks_of = self._disks(nodes.os_disk_gib, nodes.os_disk, node=True)
        if not flexible:
            disks_of["osDisk"].pop("deleteOption")
        profile = {
            **self._profile(disks_of, node=True),
            "osProfile": {"computerNamePrefix": scale_set.prefix, **self._login_as(node=True)},
            "networkProfile": network,
        }
        properties: dict[str, Any] = {
            "orchestrationMode": nodes.placement.capitalize(),
            "singlePlacementGroup": one_group(self._made, self._catalog),
            "virtualMachineProfile": profile,
        }
        if flexible:
            properties["platformFaultDomainCount"] = 1
        else:
            properties.update(overprovision=False, upgradePolicy={"mode": "Manual"})
        together = self._together(node=True)
        if together:
            properties["proximityPlacementGroup"] = {"id": together[0]}
        return self._resource(
            _SETS,
            scale_set.name,
            properties,
            _network(),
            *together,
            *self._armed(),
            zonal=True,
            role="compute",
            sku={"name": nodes.size, "tier": "Standard", "capacity": scale_set.capacity},
            **self._identity(),
        )

    def _identity(self) -> dict[str, Any]:
        """The nodes' identity in Azure; its rights are granted where it is defined."""
        identity = self._made.pull.identity
        if self._made.nodes.join == windows.JOIN:
            # The extension asks for a token in its name.
            return {"identity": {"type": "SystemAssigned"}}
        user_assigned = {"type": "UserAssigned", "userAssignedIdentities": {identity: {}}}
        return {"identity": user_assigned} if identity else {}

    def _together(self, *, node: bool) -> list[str]:
        is_grouped = node and self._made.nodes.proximity
        return [identifier(_GROUPS, "together")] if is_grouped else []

    def _ip(self, subnet: str, address: str) -> dict[str, Any]:
        properties: dict[str, Any] = {
            "primary": True,
            "privateIPAllocationMethod": "Dynamic",
            "subnet": {"id": _subnet(subnet)},
        }
        if address:
            public = identifier(f"{_NETWORK}/publicIPAddresses", address)
            properties["publicIPAddress"] = {"id": public}
        return {"name": "ip", "properties": properties}

    def _disks(self, gib: int, sku: str, *, node: bool) -> dict[str, Any]:
        image = (node and self._made.nodes.image) or self._made.image
        words = zip(("publisher", "offer", "sku", "version"), image.split(":"))
        disk = {
            "createOption": "FromImage",
            "diskSizeGB": gib,
            "caching": "ReadWrite",
            "managedDisk": {"storageAccountType": sku},
            # Else the disk stays, and bills, when its VM is gone.
            "deleteOption": "Delete",
        }
        return {"imageReference": dict(words), "osDisk": disk}

    def _profile(self, storage: dict[str, Any], *, node: bool) -> dict[str, Any]:
        """The common part of a VM and a set's profile: disks, security, spot, reservation."""
        parameters, nodes = self._made, self._made.nodes
        profile: dict[str, Any] = {"storageProfile": storage}
        if parameters.security == "trusted_launch":
            # An absent profile means standard, which needs no feature of the subscription.
            family = self._catalog.family(nodes.size)
            without = node and not nodes.windows and family in self._catalog.facts["vtpm_off"]
            profile["securityProfile"] = {
                "securityType": "TrustedLaunch",
                "uefiSettings": {
                    "secureBootEnabled": parameters.secure_boot,
                    "vTpmEnabled": not without,
                },
            }
        if node and nodes.spot:
            profile["priority"] = "Spot"
            profile["evictionPolicy"] = nodes.eviction.capitalize()
            profile["billingProfile"] = {"maxPrice": nodes.max_price}
        if node and nodes.reservation:
            group = {"id": nodes.reservation}
            profile["capacityReservation"] = {"capacityReservationGroup": group}
        return profile

    def _login_as(self, *, node: bool) -> dict[str, Any]:
        user = self._made.admin_user
        if node and self._made.nodes.windows:
            return {"adminUsername": user, **windows.profile()}
        start = started(self._made, self._run, self._catalog)
        key = {"path": f"/home/{user}/.ssh/authorized_keys", "keyData": f"[parameters('{KEY}')]"}
        profile: dict[str, Any] = {
            "adminUsername": user,
            "linuxConfiguration": {
                "disablePasswordAuthentication": True,
                "ssh": {"publicKeys": [key]},
            },
        }
        if node and start:
            profile["customData"] = encoded(start)
        return profile


def _subnets(parameters: Parameters) -> dict[str, str]:
    """The ranges of the subnets: half of the network for nodes, a /24 of the rest for others."""
    nodes, rest = ipaddress.IPv4Network(parameters.network).subnets(prefixlen_diff=1)
    free = iter(rest.subnets(new_prefix=24))
    used_subnets = {
        "login": True,
        "AzureBastionSubnet": parameters.bastion,
        "storage": parameters.storage.kind in ("anf", "amlfs"),
    }
    # A range for each, used or not: a subnet that is added later moves no other.
    ranges = {name: str(next(free)) for name in used_subnets}
    return {
        "nodes": str(nodes),
        **{name: ranges[name] for name in used_subnets if used_subnets[name]},
    }


def _subnet(name: str) -> str:
    return identifier(f"{_NETWORK}/virtualNetworks/subnets", NETWORK, name)


def _network() -> str:
    return identifier(f"{_NETWORK}/virtualNetworks", NETWORK)
