"""Hosts to begin with."""

from __future__ import annotations

import uuid
from typing import Any

from .errors import UnknownError
from .host import File, Gpu, Host, Service
from .products import Product
from .registry import Registry

# vCPUs, GiB, name of the GPU, its MiB, how many (Microsoft's page nvadsa10v5-series).
_SIZES = {
    "Standard_NV6ads_A10_v5": (6, 55, "NVIDIA A10-4Q", 4096, 1),
    "Standard_NV12ads_A10_v5": (12, 110, "NVIDIA A10-8Q", 8192, 1),
    "Standard_NV18ads_A10_v5": (18, 220, "NVIDIA A10-12Q", 12288, 1),
    "Standard_NV36ads_A10_v5": (36, 440, "NVIDIA A10-24Q", 24576, 1),
    "Standard_NV36adms_A10_v5": (36, 880, "NVIDIA A10-24Q", 24576, 1),
    "Standard_NV72ads_A10_v5": (72, 880, "NVIDIA A10-24Q", 24576, 2),
}


def nv_a10(vm_size: str, name: str) -> Host:
    """A fresh Windows 11 25H2 AVD host: no GRID driver, no FSLogix, no AVD agent.

    Raises:
        UnknownError: for another size.
    """
    if vm_size not in _SIZES:
        raise UnknownError(f"VM size {vm_size}")
    processors, gib, gpu, mib, count = _SIZES[vm_size]
    host = Host(
        name=name,
        vm_size=vm_size,
        processors=processors,
        memory_mib=gib * 1024,
        registry=Registry(_REGISTRY),
        services={
            "WinRM": Service("Windows Remote Management (WS-Management)"),
            "TermService": Service("Remote Desktop Services", start_mode="manual"),
        },
        groups={
            "Administrators": [f"{name}\\trueup"],
            "Remote Desktop Users": [],
            "Users": ["NT AUTHORITY\\Authenticated Users"],
        },
        features={},
        # Basic display adapter: nothing drives the GPU before the driver is there (error 28).
        gpus=[
            Gpu(gpu, mib, error_code=28, uuid=f"GPU-00000000-0000-0000-0000-00000000000{index + 1}")
            for index in range(count)
        ],
        metadata=metadata(vm_size, name),
        products={"Microsoft Edge": Product("140.0.3485.54", "Microsoft Corporation")},
    )
    for folder in (
        r"C:\Windows\Temp",
        r"C:\Program Files",
        r"C:\ProgramData",
        r"C:\Users\trueup",
        "D:\\",
    ):
        host.write(folder, File(None))
    return host


def metadata(vm_size: str, name: str) -> dict[str, Any]:
    """Its instance metadata (api-version 2021-02-01), licence type Windows_Client."""
    group = "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/simulated"
    return {
        "compute": {
            "azEnvironment": "AzurePublicCloud",
            "isHostCompatibilityLayerVm": "false",
            "licenseType": "Windows_Client",
            "location": "eastus",
            "name": name,
            "offer": "windows-11",
            "osProfile": {"adminUsername": "trueup", "computerName": name},
            "osType": "Windows",
            "placementGroupId": "",
            "platformFaultDomain": "0",
            "platformUpdateDomain": "0",
            "priority": "",
            "provider": "Microsoft.Compute",
            "publisher": "microsoftwindowsdesktop",
            "resourceGroupName": "simulated",
            "resourceId": f"{group}/providers/Microsoft.Compute/virtualMachines/{name}",
            "sku": "win11-25h2-avd",
            "storageProfile": {
                "imageReference": {
                    "offer": "windows-11",
                    "publisher": "microsoftwindowsdesktop",
                    "sku": "win11-25h2-avd",
                    "version": "latest",
                }
            },
            "subscriptionId": "00000000-0000-0000-0000-000000000000",
            "tags": "",
            "tagsList": [],
            "version": "26200.6584.250915",
            "vmId": str(uuid.uuid5(uuid.NAMESPACE_DNS, name)),
            "vmScaleSetName": "",
            "vmSize": vm_size,
            "zone": "",
        },
        "network": {
            "interface": [
                {
                    "ipv4": {
                        "ipAddress": [{"privateIpAddress": "10.0.0.4", "publicIpAddress": ""}],
                        "subnet": [{"address": "10.0.0.0", "prefix": "24"}],
                    },
                    "ipv6": {"ipAddress": []},
                    "macAddress": "000D3A000001",
                }
            ]
        },
    }


_REGISTRY: dict[str, dict[str, list[Any]]] = {
    r"HKLM:\SOFTWARE\Policies\Microsoft": {},
    r"HKLM:\SOFTWARE\Microsoft\Windows\CurrentVersion\Uninstall": {},
    r"HKLM:\SOFTWARE\Microsoft\Windows NT\CurrentVersion": {
        "ProductName": ["string", "Windows 10 Enterprise multi-session"],
        "DisplayVersion": ["string", "25H2"],
        "CurrentBuild": ["string", "26200"],
        "CurrentBuildNumber": ["string", "26200"],
        "UBR": ["dword", 6584],
        "EditionID": ["string", "ServerRdsh"],
        "InstallationType": ["string", "Client"],
    },
    r"HKLM:\SYSTEM\CurrentControlSet\Control\Terminal Server\WinStations": {},
    r"HKLM:\SYSTEM\CurrentControlSet\Control\Session Manager": {},
    r"HKLM:\SYSTEM\CurrentControlSet\Control\Lsa\Kerberos\Parameters": {},
}
