"""Collect the traces of a fault on a node, and write them on the controller."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from trueup_controller import evidence
from trueup_controller.project import full_name
from trueup_node.errors import TrueupError
from trueup_node.node.identify import is_windows


class ActionModule(ActionBase):
    """Ansible's entry."""

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """The description of the archive."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables: dict[str, Any] = task_vars or {}
        host = str(variables["inventory_hostname"])
        node = (variables.get("ansible_facts") or {}).get("trueup_node") or {}
        if is_windows(node):
            message = "evidence is collected of Linux nodes only"
            raise AnsibleActionFail(message)
        results = Path(self._templar.template(variables["trueup_results"])).expanduser()
        arguments = {
            "folder": str(results / "evidence"),
            "node": node,
            "records": evidence.newest_records(results, host),
            **self._task.args,
        }
        url = self._templar.template(variables.get("trueup_metadata_url"))
        if url:
            arguments.setdefault("metadata_url", url)
        response: dict[str, Any] = self._execute_module(
            module_name=full_name("node_evidence"), module_args=arguments, task_vars=variables
        )
        result.update({name: value for name, value in response.items() if name != "archive"})
        if response.get("failed") or self._task.check_mode:
            return result
        folder = Path(str(arguments["folder"])).expanduser()
        try:
            description = evidence.write(folder, host, response)
        except (TrueupError, KeyError, TypeError, ValueError) as error:
            raise AnsibleActionFail(f"evidence: {error}") from error
        path = str(folder / description["archive"])
        missing = description["missing"]
        absent = f"; not there, or not whole: {', '.join(missing)}" if missing else ""
        result.update(path=path, sha256=description["sha256"], missing=missing, absent=absent)
        return result
