"""The state of a node's GPUs; that of a Windows host, where no Python runs, is asked for by
windows_gpu_facts."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from trueup.node.identify import is_windows
from trueup.node.windows.actions import beside


class ActionModule(ActionBase):
    """Ansible's entry."""

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """The fact ``trueup_gpu``."""
        variables: dict[str, Any] = task_vars or {}
        node = self._templar.template(variables.get("trueup_node") or {})
        answer: dict[str, Any]
        if is_windows(node):
            names = ("expected", "settle_seconds")
            given = {name: self._task.args[name] for name in names if name in self._task.args}
            answer = beside(self, "windows_gpu_facts", given).run(task_vars=variables)
            return answer
        result: dict[str, Any] = super().run(tmp, task_vars)
        answer = self._execute_module(
            module_name="gpu_facts", module_args=dict(self._task.args), task_vars=variables
        )
        result.update(answer)
        return result
