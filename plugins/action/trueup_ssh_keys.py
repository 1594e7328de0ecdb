"""The ssh keys of a run on its nodes: made on each, exchanged by the controller, taken away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from trueup_controller import launch_nodes
from trueup_controller.project import full_name
from trueup_node.errors import TrueupError
from trueup_node.node import ssh_keys
from trueup_node.node.identify import WINDOWS

if TYPE_CHECKING:
    from collections.abc import Mapping

DOCUMENTATION = r"""
name: trueup_ssh_keys
short_description: Let the nodes of a run reach each other by ssh while it lasts
description:
  - V(made), on all nodes of the play, makes a key on each and sees whether ssh works without it;
    V(present) lets the nodes in to each other, unless it works everywhere. Both do nothing in check
    mode and in a play of one node. Windows hosts are not among the nodes.
  - V(absent) takes away what this and any earlier run left. M(ssh_keys) does it.
options:
  state:
    description: What is to be.
    type: str
    choices: [made, present, absent]
    required: true
"""

# The variable that the task with V(made) registers.
MADE = "__ssh_keys"


class ActionModule(ActionBase):
    """Ansible's entry."""

    _VALID_ARGS = frozenset({"state"})

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """The module's result."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables: dict[str, Any] = task_vars or {}
        state = str(self._task.args.get("state"))
        arguments: dict[str, Any] = {"state": state}
        windows = set((variables.get("groups") or {}).get(WINDOWS) or ())
        if variables["inventory_hostname"] in windows:
            return {**result, "skipped": True, "skip_reason": "Windows hosts have no keys of a run"}
        if state != "absent":
            host = str(variables["inventory_hostname"])
            hosts = [name for name in variables["ansible_play_hosts"] if name not in windows]
            if len(hosts) < 2 or self._task.check_mode:
                reason = "in check mode, or with one node, nothing is made"
                return {**result, "skipped": True, "skip_reason": reason}
            arguments["run_id"] = self._templar.template(variables["trueup_run_id"])
            if state == "made":
                arguments.update(asked(host, hosts, variables["hostvars"]))
            else:
                arguments.update(exchanged(hosts, variables["hostvars"]))
        result.update(
            self._execute_module(
                module_name=full_name("ssh_keys"), module_args=arguments, task_vars=variables
            )
        )
        if result.get("peer"):
            try:
                ssh_keys.peer(result["peer"])
            except TrueupError as error:
                # Here, and not on every node that would let it in.
                raise AnsibleActionFail(str(error)) from error
        return result


def asked(host: str, hosts: list[str], hostvars: Mapping[str, Any]) -> dict[str, Any]:
    """The others' names of a host, and the host after it, which is tried."""
    called = launch_nodes.hosts(hosts, hostvars)
    position = hosts.index(host)
    address = hostvars[host].get("ansible_host") or host
    return {
        "names": [called[position], host, str(address)],
        "next": called[(position + 1) % len(hosts)],
    }


def exchanged(hosts: list[str], hostvars: Mapping[str, Any]) -> dict[str, Any]:
    """All nodes, for each of them; where ssh works without, nothing is to stay."""
    key_results = [hostvars[host].get(MADE) or {} for host in hosts]
    if all(key_result.get("reachable") for key_result in key_results):
        return {"state": "absent"}
    peers = [key_result["peer"] for key_result in key_results if key_result.get("peer")]
    if len(peers) < len(hosts):
        lacking = [
            host for host, key_result in zip(hosts, key_results) if not key_result.get("peer")
        ]
        message = f"ssh keys: none was made on {', '.join(lacking)}"
        raise AnsibleActionFail(message)
    return {"peers": peers}
