"""Download a file of known sha256, or say in one sentence why it could not be had."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from trueup_controller import download_failures
from trueup_controller.project import full_name

DOCUMENTATION = r"""
name: trueup_download
short_description: Downloads by M(download), whose failures name the mend
description:
  - Does what M(download) does with the same options. A failure ends in one sentence with the
    address, the cause and O(variable), in which another address may stand.
options:
  variable:
    description: The variable of the role that says where from.
    type: str
    required: true
"""


class ActionModule(ActionBase):
    """Ansible's entry."""

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """The module's result."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        arguments = dict(self._task.args)
        variable = arguments.pop("variable")
        response = self._execute_module(
            module_name=full_name("download"), module_args=arguments, task_vars=task_vars
        )
        result.update(response)
        if response.get("failed"):
            # Or Ansible shows the module's own error too, and first.
            result.pop("exception", None)
            result["said"] = response.get("msg")
            result["msg"] = download_failures.sentence_of(
                response, arguments["url"], arguments["dest"], variable
            )
        return result
