"""Identify a node by the plays' variables; a task's own arguments override them. A Windows host,
which runs no Python, is asked by windows_node_facts."""

from __future__ import annotations

import json
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from trueup_controller.actions import beside
from trueup_controller.project import CATALOG
from trueup_controller.sizes import read_sizes
from trueup_node.node.identify import WINDOWS

_SIZES = CATALOG / "vm_sizes.csv"
# The module's options and the variables that say them.
_VARIABLES = {
    "vm_size": "trueup_vm_size",
    "metadata_url": "trueup_metadata_url",
    "sysfs_root": "trueup_sysfs_root",
    "procfs_root": "trueup_procfs_root",
    "mpi": "trueup_mpi",
    "hcoll": "hpcx_hcoll",
    "families": "trueup_families",
}


class ActionModule(ActionBase):
    """Ansible's entry."""

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """The result of the module azure_node_facts, or of the action windows_node_facts."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables: dict[str, Any] = task_vars or {}
        options = {
            option: self._templar.template(variables[name])
            for option, name in _VARIABLES.items()
            if name in variables
        }
        if self._is_windows(variables):
            result.update(self._of_windows(options, variables))
            return result
        # As text: the module's own form of it takes longer for each node.
        module_args = {"vm_size": "", "catalog": json.dumps(read_sizes(str(_SIZES)))}
        # A variable without a value says nothing.
        module_args.update(
            {option: value for option, value in options.items() if value is not None}
        )
        arguments = {**module_args, **self._task.args}
        result.update(self._execute_module(module_args=arguments, task_vars=task_vars))
        return result

    def _is_windows(self, variables: dict[str, Any]) -> bool:
        """Whether the host is in the group of Windows hosts, which its connection must fit."""
        marked = WINDOWS in variables.get("group_names", ())
        if marked != bool(getattr(self._connection._shell, "_IS_WINDOWS", False)):
            host = variables.get("inventory_hostname")
            raise AnsibleActionFail(
                f"{host} is in the group windows, and its connection"
                f" ({self._connection.transport}) brings no PowerShell: leave ansible_connection"
                " and ansible_shell_type to that group, or take the host out of it."
                if marked
                else f"{host} is reached by PowerShell and is not in the group windows: put it"
                " there, and trueup treats it as a Windows host (docs/guides/windows.md)."
            )
        return marked

    def _of_windows(self, options: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        option_names = ("vm_size", "metadata_url")
        arguments = {name: options[name] for name in option_names if options.get(name) is not None}
        action = beside(self, "windows_node_facts", arguments)
        response: dict[str, Any] = action.run(task_vars=variables)
        return response
