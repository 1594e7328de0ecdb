"""Module parameters and inventory hosts from the variables of playbooks/cyclecloud.yml."""

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
# Further variables of the play.
_OWN = ("group", "ssh_user")


def problems(variables: Mapping[str, Any]) -> list[str]:
    """Why the variables cannot be meant, a sentence each: misspelt names, no cluster."""
    names = sorted(f"{_PREFIX}{name}" for name in (*_PARAMETERS, *_OWN))
    strange = sorted(set(variables) - set(names))
    sentences = []
    if strange:
        sentences.append(f"There is no {', '.join(strange)}; the variables are {', '.join(names)}.")
    if not variables.get(f"{_PREFIX}cluster"):
        sentences.append("cyclecloud_cluster is not set; write the name of the CycleCloud cluster.")
    return sentences


def arguments(variables: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of the module cyclecloud_nodes; a missing one is the module's default."""
    parameters = {
        name: variables[f"{_PREFIX}{name}"]
        for name in _PARAMETERS
        if f"{_PREFIX}{name}" in variables
    }
    return {"state": "present", **parameters}


def hosts(nodes: Sequence[Mapping[str, Any]], variables: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Arguments of add_host for the nodes that have an address.

    There are none unless the state is present: nodes that ``status`` shows may be anybody's, in any
    state.
    """
    if arguments(variables)["state"] != "present":
        return []
    user = variables.get(f"{_PREFIX}ssh_user")
    return [
        {
            "name": node["name"],
            "groups": variables.get(f"{_PREFIX}group", "cyclecloud"),
            "ansible_host": node["private_ip"],
            **({"ansible_user": user} if user else {}),
        }
        for node in nodes
        if node["private_ip"]
    ]
