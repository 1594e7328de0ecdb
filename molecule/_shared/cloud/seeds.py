"""Machines that are only listed: rows of Resource Graph, without a machine or a deployment.

For tests of lists, at any number.
"""

from __future__ import annotations

import threading
import uuid
from typing import TYPE_CHECKING, Any

from .replies import SUBSCRIPTION, TENANT

if TYPE_CHECKING:
    from .kql import Row


class Seeds:
    """The rows.

    Attributes:
        tables: by table of Resource Graph.
        interfaces: of instances, by the id of their set in lower case.
    """

    def __init__(self) -> None:
        self.tables: dict[str, list[Row]] = {"resources": [], "computeresources": []}
        self.interfaces: dict[str, list[Row]] = {}
        self.lock = threading.RLock()
        self._addresses = 0

    def _row(self, kind: str, name: str, group: str, **more: Any) -> Row:
        """A resource as Resource Graph lists it: its type in lower case."""
        return {
            "id": f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{group}/providers/{kind}/{name}",
            "name": name.rpartition("/")[2],
            "type": kind.lower(),
            "tenantId": TENANT,
            "kind": "",
            "location": "southcentralus",
            "resourceGroup": group.lower(),
            "subscriptionId": SUBSCRIPTION,
            "managedBy": "",
            "tags": {},
            **more,
        }

    def _address(self) -> str:
        self._addresses += 1
        high, low = divmod(self._addresses + 3, 256)
        return f"10.{64 + high // 256}.{high % 256}.{low}"

    def add_vm(
        self,
        name: str,
        *,
        size: str = "Standard_HB120rs_v3",
        group: str = "hpc",
        power: str | None = "running",
        system: str = "Linux",
        public: str = "",
        interfaces: int = 1,
        properties: dict[str, Any] | None = None,
        **more: Any,
    ) -> Row:
        """A virtual machine with its interfaces and public address."""
        more = {key: value for key, value in more.items() if value is not None}
        vm = self._row("Microsoft.Compute/virtualMachines", name, group, **more)
        nics = []
        for number in range(interfaces):
            address = self._address()
            nic = self._row("Microsoft.Network/networkInterfaces", f"{name}-nic{number}", group)
            configuration: dict[str, Any] = {"privateIPAddress": address, "primary": True}
            if public and number == 0:
                ip = self._row("Microsoft.Network/publicIPAddresses", f"{name}-ip", group)
                ip["properties"] = {
                    "ipAddress": public,
                    "ipConfiguration": {"id": f"{nic['id']}/ipConfigurations/one"},
                    "dnsSettings": {"fqdn": f"{name}.southcentralus.cloudapp.azure.com"},
                }
                configuration["publicIPAddress"] = {"id": ip["id"]}
                self.tables["resources"].append(ip)
            nic["properties"] = {
                "primary": number == 0,
                "virtualMachine": {"id": vm["id"]},
                "macAddress": "00-0D-3A-00-00-01",
                "ipConfigurations": [{"name": "one", "properties": configuration}],
            }
            self.tables["resources"].append(nic)
            nics.append({"id": nic["id"], "properties": {"primary": number == 0}})
        view = {"powerState": {"code": f"PowerState/{power}"}} if power else {}
        vm["properties"] = {
            "vmId": str(uuid.uuid5(uuid.NAMESPACE_URL, vm["id"])),
            "provisioningState": "Succeeded",
            "timeCreated": "2026-11-20T09:13:00.1234567+00:00",
            "hardwareProfile": {"vmSize": size},
            "osProfile": {
                "computerName": name[:15],
                "windowsConfiguration" if system == "Windows" else "linuxConfiguration": {},
            },
            "storageProfile": {
                "osDisk": {"osType": system, "name": f"{name}-os", "managedDisk": {}},
                "imageReference": {"publisher": "microsoft-dsvm", "offer": "ubuntu-hpc"},
            },
            "networkProfile": {"networkInterfaces": nics},
            "extended": {"instanceView": view},
            **(properties or {}),
        }
        self.tables["resources"].append(vm)
        return vm

    def add_scale_set(
        self,
        name: str,
        count: int = 0,
        *,
        group: str = "hpc",
        size: str = "Standard_HB120rs_v3",
        uniform: bool = True,
        single: bool = True,
        proximity: str = "",
        priority: str = "",
    ) -> Row:
        """A scale set; a uniform one with its instances."""
        scale_set = self._row("Microsoft.Compute/virtualMachineScaleSets", name, group)
        profile: dict[str, Any] = {"storageProfile": {"osDisk": {"osType": "Linux"}}}
        if priority:
            profile["priority"] = priority
        scale_set |= {"sku": {"name": size, "capacity": count, "tier": "Standard"}}
        scale_set["properties"] = {
            "orchestrationMode": "Uniform" if uniform else "Flexible",
            "singlePlacementGroup": single,
            "virtualMachineProfile": profile,
        }
        if proximity:
            scale_set["properties"]["proximityPlacementGroup"] = {"id": proximity}
        self.tables["resources"].append(scale_set)
        nics = self.interfaces.setdefault(scale_set["id"].lower(), [])
        for number in range(count if uniform else 0):
            one = self._row(
                "Microsoft.Compute/virtualMachineScaleSets/virtualMachines", name, group
            )
            one |= {
                "id": f"{scale_set['id']}/virtualMachines/{number}",
                "name": f"{name}_{number}",
                "sku": {"name": size, "tier": "Standard"},
                "properties": {
                    "provisioningState": "Succeeded",
                    "vmId": str(uuid.uuid5(uuid.NAMESPACE_URL, f"{scale_set['id']}/{number}")),
                    "osProfile": {"computerName": f"{name}{number:06d}"[-15:]},
                    "storageProfile": {"osDisk": {"osType": "Linux"}},
                    "extended": {"instanceView": {"powerState": {"code": "PowerState/running"}}},
                },
            }
            self.tables["computeresources"].append(one)
            address = self._address()
            nics.append(
                {
                    "name": "nic1",
                    "id": f"{one['id']}/networkInterfaces/nic1",
                    "properties": {
                        "primary": True,
                        "virtualMachine": {"id": one["id"]},
                        # As Microsoft's own example has it: a block beside the address.
                        "ipConfigurations": [
                            {"properties": {"privateIPAddress": "10.0.0.16/28", "primary": False}},
                            {"properties": {"privateIPAddress": address, "primary": True}},
                        ],
                    },
                }
            )
        return scale_set
