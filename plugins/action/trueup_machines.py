"""Compare the machines of a play: one machine under two names is two nodes to a record."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from trueup_controller.machines import compare
from trueup_node.node.machine import machine_word

DOCUMENTATION = r"""
name: trueup_machines
short_description: Names of the play that are one machine
description:
  - Compares C(trueup_node.machine) of the play's hosts. Runs once, on the controller alone.
  - Returns C(refused), a sentence for each name that is the machine of another name too. The
    controller itself may have several names off Azure, which is a warning.
options: {}
"""


class ActionModule(ActionBase):
    """Ansible's entry."""

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """``refused``, and warnings."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        play: dict[str, Any] = task_vars or {}
        nodes = {
            name: play["hostvars"][name].get("ansible_facts", {}).get("trueup_node") or {}
            for name in play["ansible_play_hosts"]
        }
        compared = compare(
            {name: node.get("machine") for name, node in nodes.items()}, machine_word(None)
        )
        return {**result, "changed": False, **compared._asdict()}
