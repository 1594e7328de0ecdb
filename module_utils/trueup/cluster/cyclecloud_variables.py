"""What the variables of playbooks/cyclecloud.yml ask for, and the inventory that comes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PREFIX = "cyclecloud_"
# Parameters of the module cyclecloud_nodes that the play hands on.
_PARAMETERS = (
    *("ca_path", "cluster", "count", "counting", "ids", "machine_type", "name", "name_format"),
    *("names", "nodearray", "password", "placement_group_id", "poll_seconds", "recreate"),
    *("request_id", "state", "url", "username", "validate_certs", "wait_timeout_seconds"),
)
# What the play needs besides.
_OWN = ("group", "ssh_user")


def problems(given: Mapping[str, Any]) -> list[str]:
    """Why the variables cannot be meant, a sentence each: misspelt names, no cluster."""
    known = sorted(f"{_PREFIX}{name}" for name in (*_PARAMETERS, *_OWN))
    strange = sorted(set(given) - set(known))
    found = []
    if strange:
        found.append(f"There is no {', '.join(strange)}; the variables are {', '.join(known)}.")
    if not given.get(f"{_PREFIX}cluster"):
        found.append("cyclecloud_cluster is not set; write the name of the CycleCloud cluster.")
    return found


def arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of the module cyclecloud_nodes; what is not given is the module's default."""
    asked = {name: given[f"{_PREFIX}{name}"] for name in _PARAMETERS if f"{_PREFIX}{name}" in given}
    return {"state": "present", **asked}


def hosts(nodes: Sequence[Mapping[str, Any]], given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the inventory is told of the nodes that have an address, for add_host.

    None where the nodes were not asked to be there: what ``status`` shows may be anybody's, in any
    state.
    """
    if arguments(given)["state"] != "present":
        return []
    user = given.get(f"{_PREFIX}ssh_user")
    return [
        {
            "name": node["name"],
            "groups": given.get(f"{_PREFIX}group", "cyclecloud"),
            "ansible_host": node["private_ip"],
            **({"ansible_user": user} if user else {}),
        }
        for node in nodes
        if node["private_ip"]
    ]
