"""A role's files: the text of those that are named by ``source`` is read on the controller."""

from __future__ import annotations

from typing import Any

from ansible.constants import DEFAULT_LOCAL_TMP
from ansible.plugins.action import ActionBase
from trueup_controller import check_mode_writes
from trueup_controller.project import file


class ActionModule(ActionBase):
    """Ansible's entry."""

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """The result of the module config_files."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        files = [_filled(**entry) for entry in self._task.args["files"]]
        result.update(self._execute_module(module_args={"files": files}, task_vars=task_vars))
        if self._task.check_mode and result.get("paths_changed"):
            host = (task_vars or {})["inventory_hostname"]
            check_mode_writes.add(DEFAULT_LOCAL_TMP, host, result["paths_changed"])
        return result


def _filled(source: str = "", **entry: Any) -> dict[str, Any]:
    """The entry with the text of ``source``, a file of the project, behind its content."""
    if source:
        text = file(source).read_text(encoding="utf-8")
        entry["content"] = entry.get("content", "") + text
    return entry
