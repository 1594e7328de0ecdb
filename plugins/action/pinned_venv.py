"""A role's environment: its requirements are read here, from files/ of the role that wants it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    """Ansible's entry."""

    _VALID_ARGS = frozenset({"path", "python", "requirements", "find_links", "no_index"})

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """What the module pinned_venv returns; ``requirements`` are names of files here."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        parents = (task_vars or {}).get("ansible_parent_role_paths")
        if not parents:
            raise AnsibleActionFail("include pinned_venv from a role with requirements in files/")
        folder = Path(parents[0], "files")
        files = [
            {"name": name, "content": (folder / name).read_text(encoding="utf-8")}
            for name in self._task.args["requirements"]
        ]
        given = {**self._task.args, "requirements": files}
        result.update(self._execute_module(module_args=given, task_vars=task_vars))
        return result
