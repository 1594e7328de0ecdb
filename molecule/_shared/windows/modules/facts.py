"""setup."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..arguments import Call, Option, module
from ..host import Host

_GROUPS = {
    "min": (
        "date_time",
        "distribution",
        "dns",
        "env",
        "local",
        "platform",
        "powershell_version",
        "user",
    ),
    "network": (
        "all_ipv4_addresses",
        "all_ipv6_addresses",
        "interfaces",
        "windows_domain",
        "winrm",
    ),
    "hardware": ("bios", "memory", "processor", "uptime", "virtual"),
}


@module(
    "ansible.windows.setup",
    {
        "_measure_subset": Option("bool", default=False, known=False),
        "fact_path": Option("path", known=False),
        "gather_subset": Option("list", default="all", elements="str"),
        "gather_timeout": Option("int", default=10),
    },
)
def setup(call: Call) -> dict[str, Any]:
    """The facts of the subsets that were asked for, as far as they are simulated."""
    known = {"all": tuple(name for names in _GROUPS.values() for name in names), **_GROUPS}
    chosen, excluded = set(known["all"]), set()
    for item in call.args["gather_subset"]:
        name = item.lstrip("!")
        if name not in known and name not in known["all"]:
            call.warnings.append(f"invalid value {name} specified in gather_subset")
        names = set(known.get(name, (name,)))
        if not item.startswith("!"):
            chosen |= names
        else:
            excluded |= names - set(_GROUPS["min"]) if name == "all" else names
    explicit = {item for item in call.args["gather_subset"] if item in known["all"]}
    facts: dict[str, Any] = {"gather_subset": call.args["gather_subset"], "module_setup": True}
    for subset in sorted((chosen - excluded) | explicit):
        if subset in _FACTS:
            facts.update(_FACTS[subset](call.host))
    return {"ansible_facts": facts}


def _distribution(host: Host) -> dict[str, Any]:
    return {
        "ansible_distribution": host.os_name,
        "ansible_distribution_version": host.os_version,
        "ansible_distribution_major_version": host.os_version.split(".")[0],
        "ansible_os_family": "Windows",
        "ansible_os_name": host.os_name,
        "ansible_os_product_type": "server" if "Server" in host.os_name else "workstation",
        "ansible_os_installation_type": "Server" if "Server" in host.os_name else "Client",
        "ansible_os_install_date": "2026-01-01T00:00:00Z",
    }


def _platform(host: Host) -> dict[str, Any]:
    name = host.environment()["COMPUTERNAME"]
    return {
        "ansible_architecture": "64-bit",
        "ansible_domain": "",
        "ansible_fqdn": host.name,
        "ansible_hostname": host.name,
        "ansible_kernel": host.os_version,
        "ansible_machine_id": "S-1-5-21-0-0-0",
        "ansible_netbios_name": name,
        "ansible_nodename": host.name,
        "ansible_owner_contact": "",
        "ansible_owner_name": "",
        "ansible_reboot_pending": host.pending_reboot,
        "ansible_system": "Win32NT",
        "ansible_system_description": "",
        "ansible_system_vendor": "Microsoft Corporation",
    }


def _processor(host: Host) -> dict[str, Any]:
    return {
        "ansible_processor": [
            part
            for index in range(host.processors)
            for part in (str(index), "AuthenticAMD", "AMD EPYC 74F3V 24-Core Processor")
        ],
        "ansible_processor_count": 1,
        "ansible_processor_cores": host.processors // 2,
        "ansible_processor_threads_per_core": 2,
        "ansible_processor_vcpus": host.processors,
    }


_FACTS: dict[str, Callable[[Host], dict[str, Any]]] = {
    "bios": lambda _: {
        "ansible_bios_version": "Hyper-V UEFI Release v4.1",
        "ansible_product_name": "Virtual Machine",
    },
    "distribution": _distribution,
    "env": lambda host: {"ansible_env": host.environment()},
    "memory": lambda host: {
        "ansible_memtotal_mb": host.memory_mib,
        "ansible_memfree_mb": host.memory_mib // 2,
        "ansible_swaptotal_mb": 0,
    },
    "platform": _platform,
    "powershell_version": lambda _: {"ansible_powershell_version": 5},
    "processor": _processor,
    "uptime": lambda host: {
        "ansible_uptime_seconds": round(host.uptime_seconds()),
        "ansible_lastboot": host.last_boot(),
    },
    "user": lambda _: {"ansible_user_id": "trueup", "ansible_user_dir": r"C:\Users\trueup"},
    "virtual": lambda _: {
        "ansible_virtualization_role": "guest",
        "ansible_virtualization_type": "Hyper-V",
    },
    "windows_domain": lambda _: {
        "ansible_windows_domain": "WORKGROUP",
        "ansible_windows_domain_member": False,
        "ansible_windows_domain_role": "Stand-alone workstation",
    },
}
