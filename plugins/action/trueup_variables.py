"""Check Ansible's release and the play's own variables before a node is asked anything."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.release import __version__
from trueup_controller.project import CATALOG
from trueup_controller.removed_options import removal_refusals
from trueup_controller.settings import INTERNAL, PREFIX, ansible_problem, problems
from trueup_node.options import unwritable

DOCUMENTATION = r"""
name: trueup_variables
short_description: Refuse misspelt and wrong variables of the plays
description:
  - Fails with all that is wrong with the variables C(trueup_*) of a node
    (C(trueup_controller.settings)), a sentence each with the nearest name or the right form, with
    a variable that holds a character which no file name can hold, with a role option that was
    removed (catalog/removed_options.yml), and where this release of Ansible is not supported. Runs
    on the controller alone.
options: {}
"""


# Ansible's own, which hold every host's variables again.
_AGAIN = frozenset({"group_names", "groups", "hostvars", "vars"})


def _of_ansible(name: str) -> bool:
    return name in _AGAIN or name.startswith(("ansible_", "play_"))


class ActionModule(ActionBase):
    """Ansible's entry."""

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Nothing, where nothing is wrong."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        unsupported = ansible_problem(__version__)
        if unsupported:
            raise AnsibleActionFail(unsupported)
        variables: dict[str, Any] = task_vars or {}
        trueup_variables = {
            # Variables that plays compute may not be known yet.
            name: None if name in INTERNAL else self._templar.template(value)
            for name, value in variables.items()
            if name.startswith(PREFIX)
        }
        wrong = problems(trueup_variables, allowed=variables.get("ansible_facts") or {})
        # Roles without a plan would ignore a removed option.
        wrong += removal_refusals(variables, CATALOG)
        # Of roles too: of some the first task already makes a folder.
        names = (name for name in variables if not _of_ansible(name))
        hidden = (unwritable(variables[name], name) for name in names)
        wrong += [f"{text}." for text in hidden if text and f"{text}." not in wrong]
        if wrong:
            raise AnsibleActionFail(" ".join(wrong))
        return result
