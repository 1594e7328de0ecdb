"""A role's environment: its requirements are read here, from files of the project."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from trueup_controller.project import FOLDER


class ActionModule(ActionBase):
    """Ansible's entry."""

    _VALID_ARGS = frozenset({"path", "python", "requirements", "find_links", "no_index"})

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """The result of the module pinned_venv; ``requirements`` are names of files here."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        paths = [FOLDER / name for name in self._task.args["requirements"]]
        files = [{"name": path.name, "content": path.read_text(encoding="utf-8")} for path in paths]
        arguments = {**self._task.args, "requirements": files}
        result.update(self._execute_module(module_args=arguments, task_vars=task_vars))
        return result
