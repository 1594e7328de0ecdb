"""The dead-man's switch: the login node deletes the run when its tag ``expires`` has passed, also
when the controller is dead.

The login node has an identity of its own, which is Contributor of the run's resource group and of
nothing else, and runs :mod:`expiry` by a timer of systemd. Nodes are made after both.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trueup_node.vm import expiry

from . import cloud_init

if TYPE_CHECKING:
    from .parameters import Parameters

# Microsoft's id of the role Contributor, which is the same everywhere.
CONTRIBUTOR = "b24988ac-6180-42a0-ab88-20f7382dd24c"
ASSIGNMENTS = "Microsoft.Authorization/roleAssignments"
PERMISSIONS = "Microsoft.Authorization/permissions"
_WRITE = f"{ASSIGNMENTS}/write"
PUBLIC = "https://management.azure.com"
METADATA = "http://169.254.169.254"
# The timer's minute, and one pass of the program.
WITHIN_MINUTES = 2
RIGHTS = (
    "its role assignment needs Owner of the subscription or of the group, or Contributor with Role"
    " Based Access Control Administrator; switch: none deploys without it"
)
NEED = f"right: {_WRITE} in the subscription or the group, for the login node's identity: {RIGHTS}"
_COMMAND = f"python3 {cloud_init.PROGRAMS}/expiry.py {cloud_init.PROGRAMS}/expiry.json"
CHECK = f"{_COMMAND} --check"
# Succeeds on a login node that ends the run.
ARMED = f"systemctl is-active trueup-expiry.timer && {CHECK}"

_SERVICE = f"""\
[Unit]
Description=trueup: end the run when its time has passed
After=network-online.target
Wants=network-online.target

[Service]
Type=oneshot
ExecStart=/usr/bin/{_COMMAND}
TimeoutStartSec=55
"""
_TIMER = """\
[Unit]
Description=trueup: look each minute whether the run's time has passed

[Timer]
OnBootSec=30
OnCalendar=minutely
AccuracySec=1
Persistent=true

[Install]
WantedBy=timers.target
"""


def missing(parameters: Parameters) -> str:
    """Why nothing in Azure ends the run by itself; empty where the switch does."""
    if parameters.switch == "none":
        return "switch is none"
    if not parameters.login.size:
        return "there is no login node, on which the switch runs"
    if parameters.outbound == "none" and not parameters.ssh_from:
        return "the login node, on which the switch runs, has no way out to Azure Resource Manager"
    return ""


def may_assign(permissions: Sequence[Mapping[str, Any]]) -> bool:
    """Whether permissions of a login allow it to assign a role.

    Args:
        permissions: ``value`` of Microsoft.Authorization/permissions: ``actions`` and
            ``notActions``, with * for any text.
    """

    def matches(permission: Mapping[str, Any], name: str) -> bool:
        patterns = permission.get(name)
        listed = patterns if isinstance(patterns, list) else []
        return any(fnmatch.fnmatch(_WRITE.lower(), str(each).lower()) for each in listed)

    return any(
        matches(permission, "actions") and not matches(permission, "notActions")
        for permission in permissions
    )


def promise(parameters: Parameters) -> list[str]:
    """The consequences of a dead controller, in sentences."""
    reason = missing(parameters)
    if reason:
        text = f"Nothing stops the machines when the controller dies ({reason})"
        return [f"{text}: they bill until `trueup azure leftovers --delete`."]
    deletion = (
        f"When the controller dies, the login node asks Azure within {WITHIN_MINUTES} minutes after"
        " the group's tag expires to delete nodes and then the group, as long as it runs itself;"
        " how long Azure takes to delete is not promised."
    )
    rest = (
        "Until Azure has deleted it, each line of the costs bills. Who can run a program on the"
        " login node is Contributor of the group."
    )
    return [deletion, rest]


def custom_data(run: str, expires: str, manager: str, versions: dict[str, str]) -> str:
    """The cloud-init document of the login node.

    Args:
        expires: holds where the group has no tag ``expires`` that is a time.
        manager: https://HOST of Azure Resource Manager.
        versions: of the API for ``groups`` and ``compute``.
    """
    config = {
        "metadata": METADATA,
        "manager": manager,
        "run": run,
        "expires": expires,
        "versions": versions,
    }
    files = {
        **cloud_init.program("expiry", expiry, config),
        "/etc/systemd/system/trueup-expiry.service": _SERVICE,
        "/etc/systemd/system/trueup-expiry.timer": _TIMER,
    }
    return cloud_init.document(files, "enable --now trueup-expiry.timer")


def assignment(machine: str, version: str, group_role: str) -> dict[str, Any]:
    """The properties of the role assignment.

    Args:
        machine: the login node's name.
        version: of the API that says its identity.
        group_role: the role's id.
    """
    resource_id = f"resourceId('Microsoft.Compute/virtualMachines', '{machine}')"
    return {
        "roleDefinitionId": "[subscriptionResourceId("
        f"'Microsoft.Authorization/roleDefinitions', '{group_role}')]",
        "principalId": f"[reference({resource_id}, '{version}', 'Full').identity.principalId]",
        "principalType": "ServicePrincipal",
    }
