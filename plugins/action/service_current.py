"""A unit and its files: in check mode, with the files that tasks before would have written."""

from __future__ import annotations

from typing import Any

from ansible.constants import DEFAULT_LOCAL_TMP
from ansible.plugins.action import ActionBase
from trueup_controller import check_mode_writes


class ActionModule(ActionBase):
    """Ansible's entry."""

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """The result of the module service_current."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        arguments = dict(self._task.args)
        if self._task.check_mode:
            host = (task_vars or {})["inventory_hostname"]
            arguments["pending"] = check_mode_writes.of(DEFAULT_LOCAL_TMP, host)
        result.update(self._execute_module(module_args=arguments, task_vars=task_vars))
        return result
