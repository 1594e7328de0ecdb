"""The record of a node's state, by the plays' variables. Of a Windows host, which runs no Python,
the record is made here."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from trueup_controller import gate, known_faults
from trueup_node.errors import TrueupError
from trueup_node.node.identify import is_windows
from trueup_node.run.node_state import record_of


class ActionModule(ActionBase):
    """Ansible's entry."""

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """The result of the module node_state."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables: dict[str, Any] = task_vars or {}
        facts = variables.get("ansible_facts") or {}
        arguments = {
            "run_id": self._templar.template(variables.get("trueup_run_id")),
            "node_name": variables.get("inventory_hostname"),
            "node": self._templar.template(variables.get("trueup_node")),
            "gpu": facts.get("trueup_gpu") or {},
            "ib": facts.get("trueup_rdma") or {},
            # The task's own arguments override them.
            **self._task.args,
        }
        if not is_windows(arguments["node"] or {}):
            arguments.setdefault("watched", known_faults.watched())
            result.update(self._execute_module(module_args=arguments, task_vars=variables))
            return result
        try:
            record = None if self._task.check_mode else gate.checked(record_of(arguments))
        except TrueupError as error:
            raise AnsibleActionFail(str(error)) from error
        new_facts = {"trueup_node_state": record} if record else {}
        result.update(changed=False, record=record, raw=None, ansible_facts=new_facts)
        return result
