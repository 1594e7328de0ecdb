"""The record of a node's state. The module looks at nothing: of a Windows host, where no Python
runs, it is made here."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from trueup.node.identify import is_windows
from trueup.run.node_state import record_of


class ActionModule(ActionBase):
    """Ansible's entry."""

    TRANSFERS_FILES = False

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """What the module node_state returns."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        given = self._task.args
        if not is_windows(given.get("node") or {}):
            result.update(self._execute_module(task_vars=task_vars))
            return result
        record = None if self._task.check_mode else record_of({"gpu": {}, "ib": {}, **given})
        facts = {"trueup_node_state": record} if record else {}
        result.update(changed=False, record=record, raw=None, ansible_facts=facts)
        return result
