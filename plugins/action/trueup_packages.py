"""Install packages of the system; on Enterprise Linux 8, only see that they are there."""

from __future__ import annotations

import shlex
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action.package import ActionModule as Package
from trueup.node import packages

DOCUMENTATION = r"""
name: trueup_packages
short_description: Packages of the system, or the names of those that are missing
description:
  - Does what M(ansible.builtin.package) does with the same options, C(module_defaults) and
    C(ansible_package_use), and gathers no facts for it. Without a package it is skipped.
  - On a node whose packages no module can change (C(trueup.node.packages.verified_only)) it asks
    rpm by command, and fails with the names of those that are not installed.
options:
  install:
    description: Whether packages are installed; else nothing is done on a node where they could be.
    type: bool
    default: true
"""


class ActionModule(Package):
    """Ansible's entry."""

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """What the module of the package manager returns."""
        variables: dict[str, Any] = task_vars or {}
        name = self._task.args.get("name") or []
        names = [name] if isinstance(name, str) else list(name)
        install = self._task.args.pop("install", True)
        node = self._templar.template(variables.get("trueup_node") or {})
        if names and packages.verified_only(node):
            self._verify(names, node)
            return {"changed": False, "packages": names}
        if not (names and install):
            return {"changed": False, "skipped": True, "skip_reason": "There is none to install"}
        manager = variables.get("ansible_package_use") or node.get("package_manager")
        self._task.args = {**({"use": manager} if manager else {}), **self._task.args}
        installed: dict[str, Any] = super().run(tmp, variables)
        return installed

    def _verify(self, names: list[str], node: dict[str, Any]) -> None:
        """Fail with the names of those that are not there."""
        command = shlex.join(["env", "LC_ALL=C", "rpm", "--query", "--whatprovides", *names])
        answer = self._low_level_execute_command(command)
        missing = packages.not_provided(answer["rc"], answer["stdout"] + answer["stderr"], names)
        if missing:
            raise AnsibleActionFail(packages.cannot_be_installed(missing, str(node.get("os"))))
