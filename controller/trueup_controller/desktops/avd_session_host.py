"""The plan of the role avd_session_host: a Windows host in a host pool of Azure Virtual Desktop.

The action avd_host_pool carries it out with ``session_host`` and ``host_pools``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from trueup_node.options import Option, merged, misfits
from trueup_node.plan import Plan, PlanInputs, Skipped, sentences

from .avd_agent import AGENT_KEY, DOMAIN_KEY, ENTRA_KEY, SERVICE, agent_of, joined

_NAME = re.compile(r"[A-Za-z0-9@.\-_ ]{3,64}")
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
_GUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
# Hours that a token may be good for: an hour to 27 days.
_HOURS = (1, 27 * 24)
# Only administrators can write here, so the verified file is the installed file.
_FOLDER = r"C:\Program Files\trueup\avd"
# Either lets clients reach a host that Entra knows and no domain.
_ENTRA_RDP = ("targetisaadjoined:i:1", "enablerdsaadauth:i:1")
_DOMAIN_ONLY = "Windows Server"
# A host pool's properties by Azure's names.
_POOL = (
    Option("hostPoolType", "", "Pooled", choices=("Pooled", "Personal")),
    Option(
        "loadBalancerType",
        "",
        "BreadthFirst",
        choices=("BreadthFirst", "DepthFirst", "Persistent"),
    ),
    Option("preferredAppGroupType", "", "Desktop", choices=("Desktop", "RailApplications", "None")),
    Option("maxSessionLimit", "", 5, least=1),
    Option("customRdpProperty", "", "targetisaadjoined:i:1"),
    Option("startVMOnConnect", "", False),
)
_PROPERTIES = "avd_session_host_pool_properties"


def asks(inputs: PlanInputs) -> dict[str, dict[str, Any]]:
    """Queries for the agent's state and the host's join; none without a pool."""
    if not inputs.options["pool"] or inputs.node.get("system") != "windows":
        return {}
    return {
        "windows_facts": {"registry": [AGENT_KEY, ENTRA_KEY, DOMAIN_KEY], "services": [SERVICE]}
    }


def plan(inputs: PlanInputs) -> Plan:
    """The plan for the action avd_host_pool.

    Values: ``settings``, the role's options; ``packages`` that are missing, each ``name``, ``url``,
    ``path`` and ``sha256``, and the ``folder`` that they are downloaded to; ``pool`` and ``groups``
    in Azure's names; ``joined`` (entra, domain); ``registered``; and ``changes``: false, since the
    action does not disturb the users of a registered host.
    """
    options = inputs.options
    if not options["pool"]:
        reason = "no host pool is named: set avd_session_host_pool"
        return Plan(
            values={"settings": dict(options), "packages": [], "changes": False},
            skipped=[Skipped("avd_session_host", reason)],
        )
    if inputs.node.get("system") != "windows":
        machine = inputs.node.get("vm_size") or "this machine"
        wrong = f"avd_session_host: {machine} runs no Windows, and session hosts do: leave it out."
        return Plan(refused=[wrong])
    registry, services = inputs.found["registry"], inputs.found["services"]
    agent = agent_of(registry[AGENT_KEY], services[SERVICE])
    to = joined(registry[ENTRA_KEY], registry[DOMAIN_KEY])
    refused = [*_refused(inputs, to, registered=agent.registered), *_wrong_groups(options)]
    if refused:
        return Plan(refused=refused)
    packages = (("agent", agent.agent), ("boot_loader", agent.loader))
    return Plan(
        values={
            "settings": dict(options),
            "packages": [
                {
                    "name": name,
                    "url": options[f"{name}_url"],
                    "path": rf"{_FOLDER}\{name}.msi",
                    "sha256": options[f"{name}_sha256"].lower(),
                }
                for name, is_installed in packages
                if not is_installed
            ],
            "folder": _FOLDER,
            "pool": merged(_POOL, options["pool_properties"]),
            "groups": [_group(group) for group in options["groups"]],
            "joined": to,
            "registered": agent.registered,
            "changes": False,
        }
    )


def _group(group: Mapping[str, Any]) -> dict[str, Any]:
    """An application group in Azure's names."""
    named = {"friendlyName": group["friendly_name"]} if group.get("friendly_name") else {}
    return {
        "name": group["name"],
        "properties": {"applicationGroupType": group["type"], **named},
        "applications": [
            {
                "name": app["name"],
                "properties": {
                    "applicationType": "InBuilt",
                    "friendlyName": app.get("friendly_name") or app["name"],
                    "filePath": app["path"],
                    "commandLineSetting": app["command_line"],
                    "commandLineArguments": app.get("arguments") or "",
                    "showInPortal": True,
                },
            }
            for app in group.get("applications") or []
        ],
    }


def _refused(inputs: PlanInputs, to: str, *, registered: bool) -> list[str]:
    options, node = inputs.options, inputs.node
    unfit = misfits(_POOL, options["pool_properties"], f"{_PROPERTIES}.")
    if unfit:
        return [f"{text}." if text[-1] != "?" else text for _, text in unfit]
    pool = merged(_POOL, options["pool_properties"])
    personal, balancer = pool["hostPoolType"] == "Personal", pool["loadBalancerType"]
    manages, rdp = options["azure"] == "manage", pool["customRdpProperty"].lower()
    none = options["azure"] == "none"
    name, hours = options["pool"], options["token_hours"]
    wrong = {
        "avd_session_host: Windows Server needs the feature RDS-RD-Server, which this role does not"
        " install: use Windows 11 Enterprise multi-session.": (
            _DOMAIN_ONLY in str(node.get("os") or "")
        ),
        "avd_session_host: this host is joined neither to Entra ID nor to a domain, and cannot"
        " register: join it (extension AADLoginForWindows, or JsonADDomainExtension), restart it,"
        " and run again.": not to and not registered,
        f"avd_session_host_pool is {name!r}: give 3 to 64 letters, digits, blanks and"
        " @.-_ .": not _NAME.fullmatch(name),
        f"{_PROPERTIES}.loadBalancerType is {balancer}, and Persistent is that of Personal pools,"
        " and of no other: set it or hostPoolType.": personal != (balancer == "Persistent"),
        f"avd_session_host_token_hours is {hours}: a token is good for {_HOURS[0]} to {_HOURS[1]}"
        " hours.": not _HOURS[0] <= hours <= _HOURS[1],
        "avd_session_host: this host is joined to Entra ID alone, and"
        f" {_PROPERTIES}.customRdpProperty has neither {_ENTRA_RDP[0]} nor {_ENTRA_RDP[1]}, without"
        " which clients do not reach it: add one.": (
            manages
            and to == "entra"
            and not any(rdp_property in rdp for rdp_property in _ENTRA_RDP)
        ),
        "avd_session_host_azure is none, and this host is not registered: give a registration token"
        " (avd_session_host_token), or let Azure be asked.": (
            none and not registered and not inputs.secrets.get("token")
        ),
    }
    for package in ("agent", "boot_loader"):
        sha256, url = options[f"{package}_sha256"], options[f"{package}_url"]
        wrong[f"avd_session_host_{package}_sha256 is {sha256!r}: give 64 hexadecimal digits."] = (
            bool(sha256) and not _SHA256.fullmatch(sha256)
        )
        # Without https the file needs a pinned sha256.
        wrong[f"avd_session_host_{package}_url is {url!r}: give an https address."] = (
            not url.startswith("https://") and not sha256
        )
    return sentences(wrong)


def _wrong_groups(options: Mapping[str, Any]) -> list[str]:
    """Problems of the declared groups, applications and users."""
    groups: Sequence[Mapping[str, Any]] = options["groups"]
    names = [group["name"].lower() for group in groups]
    users: Sequence[Mapping[str, Any]] = options["users"]
    desktops = [group["name"] for group in groups if group["type"] == "Desktop"]
    wrong = {
        f"avd_session_host_groups names {', '.join(sorted(set(names)))} and one of them twice: give"
        " each group its own name.": len(set(names)) < len(names),
        f"avd_session_host_groups has the desktop groups {', '.join(desktops)}: a host pool has"
        " one.": len(desktops) > 1,
        "avd_session_host_workspace is given without avd_session_host_groups: a workspace shows"
        " groups.": bool(options["workspace"]) and not groups,
        "avd_session_host_users are given without avd_session_host_groups: a user is let into a"
        " group.": bool(users) and not groups,
    }
    for group in groups:
        apps = group.get("applications") or []
        label = f"the group {group['name']!r} of avd_session_host_groups"
        wrong[f"{label}: give 3 to 64 letters, digits, blanks and @.-_ ."] = not _NAME.fullmatch(
            group["name"]
        )
        wrong[f"{label} is a desktop and has applications: those are of a RemoteApp group."] = (
            group["type"] == "Desktop" and bool(apps)
        )
        wrong[f"{label} is of type RemoteApp and has no applications: give some."] = (
            group["type"] == "RemoteApp" and not apps
        )
    for user in users:
        wrong[
            f"avd_session_host_users: {user['id']!r} is no object id: give that of a user or group"
            " in Entra ID, 8-4-4-4-12 hexadecimal digits."
        ] = not _GUID.fullmatch(user["id"])
    return sentences(wrong)
