"""The state of a node's GPUs, with its XIDs judged by the catalog. Of a Windows host, where no
Python runs, windows_gpu_facts asks for it."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from trueup_controller import known_faults
from trueup_controller.actions import beside, node_of
from trueup_controller.project import full_name
from trueup_node.errors import TrueupError
from trueup_node.health.faults import judged
from trueup_node.node.identify import is_windows


class ActionModule(ActionBase):
    """Ansible's entry."""

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """The fact ``trueup_gpu``."""
        variables: dict[str, Any] = task_vars or {}
        node = node_of(self, variables)
        response: dict[str, Any]
        if is_windows(node):
            names = ("expected", "settle_seconds")
            arguments = {name: self._task.args[name] for name in names if name in self._task.args}
            response = beside(self, "windows_gpu_facts", arguments).run(task_vars=variables)
            return response
        result: dict[str, Any] = super().run(tmp, task_vars)
        response = self._execute_module(
            module_name=full_name("gpu_facts"),
            module_args=dict(self._task.args),
            task_vars=variables,
        )
        result.update(response)
        facts = response.get("ansible_facts") or {}
        if isinstance(facts.get("trueup_gpu"), dict):
            try:
                fact = judged(facts["trueup_gpu"], known_faults.codes())
            except TrueupError as error:
                raise AnsibleActionFail(str(error)) from error
            result["ansible_facts"] = {**facts, "trueup_gpu": fact}
        return result


def preload() -> None:
    """Read the list before workers are forked (callback trueup_records)."""
    known_faults.codes()
