"""Find out about a Windows host: registry keys, services, files and local groups."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from trueup_controller import actions
from trueup_controller.desktops import answers
from trueup_node.errors import BadInput

DOCUMENTATION = r"""
name: windows_facts
short_description: Registry keys, services, files and local groups of a Windows host
description:
  - Asks the host with modules of ansible.windows, and changes nothing. Each of the results has the
    name of its option; what is not there is null. For plans of roles, whose C(asks) names it.
options:
  registry:
    description: >-
      Registry keys, such as C(HKLM:\SOFTWARE\FSLogix\Profiles). Of each, C(values) by name with
      C(type) and C(data), and the names of its C(keys).
    type: list
    elements: str
    default: []
  services:
    description: Names of services. Of each, C(state) and C(start_mode).
    type: list
    elements: str
    default: []
  files:
    description: Paths. Of each, C(size) in bytes and C(is_dir).
    type: list
    elements: str
    default: []
  checksums:
    description: Whether C(files) get their C(sha256) too.
    type: bool
    default: false
  groups:
    description: Names of local groups. Of each, the names of its members.
    type: list
    elements: str
    default: []
"""

# Everyone, which every host knows by this number (learn.microsoft.com, well-known SIDs).
_EVERYONE = "S-1-1-0"


class ActionModule(ActionBase):
    """Ansible's entry."""

    _VALID_ARGS = frozenset({"registry", "services", "files", "checksums", "groups"})

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """``registry``, ``services``, ``files`` and ``groups``."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables: dict[str, Any] = task_vars or {}
        options = self._task.args
        checksums = bool(options.get("checksums", False))

        def ask(module: str, **arguments: Any) -> dict[str, Any]:
            response = actions.ask(self, variables, module, **arguments)
            if response.get("failed") and not answers.no_such_group(response):
                # The module's own message, which says more than its result here.
                raise AnsibleActionFail(f"{module}: {response.get('msg')}", result=response)
            return response

        try:
            keys = {name: answers.provider_path(name) for name in options.get("registry") or []}
        except BadInput as error:
            raise AnsibleActionFail(str(error)) from error
        result["registry"] = {
            name: answers.registry_key(ask("win_reg_stat", path=path))
            for name, path in keys.items()
        }
        result["services"] = {
            name: answers.service(ask("win_service_info", name=name))
            for name in options.get("services") or []
        }
        stat = {"get_checksum": checksums, "checksum_algorithm": "sha256"}
        result["files"] = {
            name: answers.file(ask("win_stat", path=name, **stat))
            for name in options.get("files") or []
        }
        result["groups"] = self._groups(ask, options.get("groups") or [])
        result["changed"] = False
        return result

    def _groups(self, ask: Any, names: list[str]) -> dict[str, list[str] | None]:
        """The members of local groups. The module reports them only for a change: it is asked
        for one in check mode."""
        with actions.in_check_mode(self, check_mode=True):
            responses = {
                name: ask("win_group_membership", name=name, members=[_EVERYONE], state="present")
                for name in names
            }
        return {
            name: None if answers.no_such_group(response) else answers.group_members(response)
            for name, response in responses.items()
        }
