"""Windows nodes of a deployment: their checks, their additional resources, and how the controller
reaches them.

They are session hosts of Azure Virtual Desktop. WinRM listens on HTTP, and its messages are
encrypted by NTLM; Windows' own firewall lets in the login node's subnet alone, through whose ssh
the controller comes (SOCKS). Sources: azure-mgmt-compute 39.0.0 (OSProfile: lengths and forbidden
names; VirtualMachineRunCommand), about_Remote_Requirements of PowerShell (on a public network, as
Azure's is to Windows, WinRM's own rule lets in the local subnet alone); the extension's publisher
and type in public templates.
"""

from __future__ import annotations

import os
import secrets
import string
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .catalog import Catalog
    from .parameters import Parameters

# The billing of AVD hosts: the base rate, which is that of Linux.
LICENCE = "Windows_Client"
PORT = 5985
# Of the template, a secure one.
PASSWORD = "adminPassword"  # noqa: S105 WHY: a parameter's name
JOIN, REMOTING = "entra", "winrm"
FAMILIES = ("nv_a10_v5",)
# The image's own disk.
_LEAST_GIB = 127
_LONGEST_USER = 20
_RATE = (
    "Windows nodes are priced at the base rate, which is that of Linux: hosts of Azure Virtual"
    f" Desktop whose licence type is {LICENCE} are billed so. Their users need licences that"
    " entitle them; a fee for external users is not in it."
)


def wrong(parameters: Parameters, catalog: Catalog, _now: datetime) -> list[str]:
    """Problems of the parameters of Windows nodes, a sentence each."""
    nodes = parameters.nodes
    if not nodes.windows:
        return ["nodes.join is for nodes.system windows"] if nodes.join != "none" else []
    family, shared = catalog.family(nodes.size), parameters.storage.kind
    rules = [
        (
            bool(family) and family not in FAMILIES,
            f"nodes.system is windows, which trueup knows on NV A10 v5 alone: not on {nodes.size}",
        ),
        (
            nodes.placement != "single",
            f"nodes.placement is {nodes.placement}: session hosts are separate VMs; use single",
        ),
        (
            nodes.os_disk_gib < _LEAST_GIB,
            f"nodes.os_disk_gib is {nodes.os_disk_gib}: an image of Windows has {_LEAST_GIB}",
        ),
        (
            shared != "none",
            f"storage.kind is {shared}, which Windows nodes do not mount: give fslogix a share",
        ),
        (bool(parameters.cloud_init), "cloud_init is given, which Windows nodes do not run"),
        (bool(parameters.pull.release), "pull is given: Windows nodes do not configure themselves"),
        (
            nodes.join == JOIN and parameters.outbound == "none",
            "nodes.join is entra with outbound none: nodes cannot reach Microsoft Entra ID",
        ),
        (
            len(parameters.admin_user) > _LONGEST_USER,
            (
                f"admin_user is {parameters.admin_user!r}: of Windows it has {_LONGEST_USER}"
                f" characters"
            ),
        ),
        (
            not parameters.login.size,
            "login.size is empty: Windows nodes are reached through a login node",
        ),
    ]
    return [text for holds, text in rules if holds]


def rate(parameters: Parameters) -> list[str]:
    """At which rate nodes are priced, where that is not their system's."""
    return [_RATE] if parameters.nodes.windows else []


def password() -> str:
    """An administrator's password as Azure takes it: of all four kinds of characters."""
    letters = string.ascii_letters + string.digits
    while True:
        candidate = "-".join("".join(secrets.choice(letters) for _ in range(8)) for _ in range(4))
        if all(any(character in kind for character in candidate) for kind in _KINDS):
            return candidate


_KINDS = (string.ascii_lowercase, string.ascii_uppercase, string.digits)


def profile() -> dict[str, Any]:
    """The members of a Windows VM's osProfile that a Linux VM's lacks."""
    return {
        "adminPassword": f"[parameters('{PASSWORD}')]",
        "windowsConfiguration": {"provisionVMAgent": True},
    }


def remoting(login_range: str) -> dict[str, Any]:
    """The properties of the run command by which WinRM answers the login node's subnet."""
    path = os.path.join(os.path.dirname(__file__), "..", "desktops", "winrm.ps1")
    with open(path, encoding="utf-8") as stream:
        script = stream.read()
    return {
        "source": {"script": script},
        "parameters": [{"name": "From", "value": login_range}],
        "asyncExecution": False,
        "timeoutInSeconds": 600,
        "treatFailureAsDeploymentFailure": True,
    }


def joined() -> dict[str, Any]:
    """The properties of the extension that joins a VM to Microsoft Entra ID."""
    return {
        "publisher": "Microsoft.Azure.ActiveDirectory",
        "type": "AADLoginForWindows",
        "typeHandlerVersion": "2.0",
        "autoUpgradeMinorVersion": True,
    }


def listens(address: str) -> str:
    """Command that succeeds on the login node once WinRM at that address takes a connection."""
    return f"timeout 10 bash -c ': < /dev/tcp/{address}/{PORT}'"


def variables(user: str, password_path: str, port: int) -> dict[str, Any]:
    """How Ansible reaches the nodes.

    Args:
        password_path: the file that holds the password.
        port: of the SOCKS server on this machine.
    """
    return {
        "ansible_connection": "psrp",
        "ansible_port": PORT,
        "ansible_user": user,
        "ansible_password": "{{ lookup('ansible.builtin.file', " + repr(password_path) + ") }}",
        "ansible_psrp_protocol": "http",
        "ansible_psrp_auth": "ntlm",
        "ansible_psrp_message_encryption": "always",
        "ansible_psrp_proxy": f"socks5h://127.0.0.1:{port}",
    }
