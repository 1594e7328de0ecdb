"""A Windows host as declared: registry, services, local groups, files and credentials."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from trueup_controller import actions
from trueup_controller.desktops import answers, registry
from trueup_node.errors import BadInput

DOCUMENTATION = r"""
name: windows_settings
short_description: The registry, services, local groups and files of a Windows host, as declared
description:
  - One task for what would be a loop over each of several modules of ansible.windows. What is as
    declared already is asked for and not touched. In this order - shares are tried, and nothing is
    written where one does not answer; credentials, files, registry, services, groups.
  - Check mode says what would change. Diff mode shows it, without secrets.
options:
  settings:
    description: The options below in one dictionary, as a plan has them.
    type: dict
    default: {}
  reach:
    description: What must answer first - O(reach[].host), O(reach[].port), and how many seconds
      each may take.
    type: list
    elements: dict
    default: []
  credentials:
    description: >-
      Entries of the credential manager of the user that the task becomes, by O(credentials[].name);
      the passwords stand in O(secrets). M(ansible.windows.win_credential) cannot compare these.
    type: list
    elements: dict
    default: []
  secrets:
    description: The passwords of O(credentials), by name.
    type: dict
    default: {}
  files:
    description: Texts, by O(files[].folder) and O(files[].name); the folder is made.
    type: list
    elements: dict
    default: []
  registry:
    description: Values as M(ansible.windows.win_regedit) takes them; a whole key is never removed.
    type: list
    elements: dict
    default: []
  services:
    description: Services, by O(services[].name), and their state and start mode.
    type: list
    elements: dict
    default: []
  groups:
    description: >-
      Local groups, by O(groups[].name) - all their members, or those to add and those to remove.
    type: list
    elements: dict
    default: []
"""

EXAMPLES = r"""
- name: Configure the driver
  windows_settings:
    registry:
      - {path: 'HKLM:\SOFTWARE\FSLogix\Profiles', name: Enabled, type: dword, data: 1}
      - {path: 'HKLM:\SOFTWARE\FSLogix\Profiles', name: SizeInMBs, state: absent}
    services:
      - {name: frxsvc, state: started, start_mode: auto}
    groups:
      - {name: FSLogix Profile Exclude List, add: [Administrators]}
"""

RETURN = r"""
changes:
  description: What was changed, or in check mode would be, a sentence each.
  returned: always
  type: list
"""

_STATE = {"type": "str", "choices": ["present", "absent"], "default": "present"}
_NAME = {"type": "str", "required": True}
_MEMBERS = {"type": "list", "elements": "str"}
_OPTIONS = {
    "reach": {
        "host": _NAME,
        "port": {"type": "int", "required": True},
        "seconds": {"type": "int", "default": 15},
    },
    "credentials": {
        "name": _NAME,
        "username": {"type": "str"},
        "update_secret": {
            "type": "str",
            "choices": ["always", "on_create"],
            "default": "on_create",
        },
        "state": _STATE,
    },
    "files": {"folder": _NAME, "name": _NAME, "content": _NAME},
    "registry": {
        "path": _NAME,
        "name": _NAME,
        "type": {"type": "str", "choices": list(registry.TYPES), "default": "string"},
        "data": {"type": "raw"},
        "state": _STATE,
    },
    "services": {
        "name": _NAME,
        "state": {"type": "str", "choices": ["started", "stopped"]},
        "start_mode": {"type": "str", "choices": ["auto", "delayed", "manual", "disabled"]},
    },
    "groups": {"name": _NAME, "members": _MEMBERS, "add": _MEMBERS, "remove": _MEMBERS},
}


class ActionModule(ActionBase):
    """Ansible's entry."""

    _VALID_ARGS = frozenset({"settings", "secrets", *_OPTIONS})

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """``changed``, ``changes`` and in diff mode ``diff``."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        self._variables: dict[str, Any] = task_vars or {}
        self._changes: list[str] = []
        self._diff: list[dict[str, str]] = []
        settings = self._wanted()
        for kind, put in (
            ("reach", self._reach),
            ("credentials", self._credential),
            ("files", self._file),
        ):
            for entry in settings[kind]:
                put(entry, settings)
        self._registry(settings["registry"])
        for entry in settings["services"]:
            self._service(entry)
        for entry in settings["groups"]:
            self._group(entry)
        result.update(changed=bool(self._changes), changes=self._changes)
        if self._task.diff:
            result["diff"] = self._diff
        return result

    def _wanted(self) -> dict[str, Any]:
        """The options with their types."""
        arguments = dict(self._task.args)
        arguments = {**(arguments.pop("settings", None) or {}), **arguments}
        spec: dict[str, Any] = {
            name: {"type": "list", "elements": "dict", "options": options, "default": []}
            for name, options in _OPTIONS.items()
        }
        spec["secrets"] = {"type": "dict", "default": {}, "no_log": True}
        for name in set(arguments) - set(spec):
            raise AnsibleActionFail(f"windows_settings: there is no option {name}")
        self._task.args = arguments
        _, typed = self.validate_argument_spec(argument_spec=spec)
        settings: dict[str, Any] = typed
        return settings

    def _module(self, module: str, **arguments: Any) -> dict[str, Any]:
        """The response of a module of ansible.windows."""
        return actions.ask(self, self._variables, module, **arguments)

    def _ask(self, module: str, subject: str, **arguments: Any) -> dict[str, Any]:
        """The same; ``subject`` names the setting where it fails."""
        return self._good(self._module(module, **arguments), subject)

    def _good(self, response: dict[str, Any], subject: str) -> dict[str, Any]:
        if response.get("failed"):
            details = {**response, "changed": bool(self._changes), "changes": self._changes}
            raise AnsibleActionFail(f"{subject}: {response.get('msg')}", result=details)
        return response

    def _changed(self, subject: str, before: str, after: str) -> None:
        self._changes.append(f"{subject}: {before or 'absent'} -> {after or 'absent'}")
        heads = {"before_header": subject, "after_header": subject}
        texts = {"before": before and f"{before}\n", "after": after and f"{after}\n"}
        self._diff.append({**heads, **texts})

    def _reach(self, entry: dict[str, Any], _: Any) -> None:
        host, port, seconds = entry["host"], entry["port"], entry["seconds"]
        problem = (
            f"{host} does not answer at port {port} within {seconds} s, and nothing was written:"
            " check its name, its firewall and the private endpoint"
        )
        self._ask("win_wait_for", problem, host=host, port=port, timeout=seconds)

    def _credential(self, entry: dict[str, Any], settings: dict[str, Any]) -> None:
        is_wanted = entry["state"] == "present"
        name, secret = entry["name"], settings["secrets"].get(entry["name"])
        if is_wanted and not secret:
            raise AnsibleActionFail(f"credential {name}: secrets has none of that name")
        arguments = {"username": entry["username"], "secret": secret} if is_wanted else {}
        response = self._ask(
            "win_credential",
            f"credential {name}",
            name=name,
            type="domain_password",
            state=entry["state"],
            update_secret=entry["update_secret"] if is_wanted else None,
            **arguments,
        )
        if response.get("changed"):
            self._changed(f"credential {name}", "", "written" if is_wanted else "")

    def _file(self, entry: dict[str, Any], _: Any) -> None:
        path = rf"{entry['folder']}\{entry['name']}"
        self._ask("win_file", entry["folder"], path=entry["folder"], state="directory")
        task = self._task.copy()
        task.args = {"content": entry["content"], "dest": path}
        copy = self._shared_loader_obj.action_loader.get(
            "ansible.windows.win_copy",
            task=task,
            connection=self._connection,
            play_context=self._play_context,
            loader=self._loader,
            templar=self._templar,
            shared_loader_obj=self._shared_loader_obj,
        )
        try:
            response = self._good(copy.run(task_vars=self._variables), path)
        finally:
            # The folder for the transfer is that action's.
            copy.cleanup()
        if response.get("changed"):
            self._changed(path, "", entry["content"].rstrip("\n"))

    def _registry(self, items: list[dict[str, Any]]) -> None:
        try:
            paths = {item["path"]: answers.provider_path(item["path"]) for item in items}
            keys = {
                path: answers.registry_key(self._ask("win_reg_stat", path, path=full_path))
                for path, full_path in paths.items()
            }
            due = registry.due(items, keys)
        except BadInput as error:
            raise AnsibleActionFail(str(error)) from error
        for item in due:
            path, name = paths[item["path"]], item["name"]
            subject = f"{path} {name}"
            is_wanted = item["state"] == "present"
            new_value = {"type": item["type"], "data": item["data"]} if is_wanted else {}
            self._ask(
                "win_regedit", subject, path=path, name=name, state=item["state"], **new_value
            )
            before = registry.shown(registry.value_of(keys, path, name))
            now = {"type": registry.TYPES[item["type"]], "data": item["data"]}
            self._changed(subject, before, registry.shown(now if is_wanted else None))

    def _service(self, entry: dict[str, Any]) -> None:
        response = self._ask("win_service", f"service {entry['name']}", **entry)
        if response.get("changed"):
            states = (entry[key] for key in ("state", "start_mode") if entry.get(key))
            self._changed(f"service {entry['name']}", "another state", ", ".join(states))

    def _group(self, entry: dict[str, Any]) -> None:
        option_by_state = {"pure": "members", "present": "add", "absent": "remove"}
        for state, key in option_by_state.items():
            if not entry.get(key):
                continue
            subject, members = f"local group {entry['name']}", entry[key]
            response = self._module(
                "win_group_membership", name=entry["name"], members=members, state=state
            )
            if self._task.check_mode and answers.no_such_group(response):
                # The package that is to be installed makes the group.
                response = {"changed": True, "added": members}
            if self._good(response, subject).get("changed"):
                removed = ", ".join(map(str, response.get("removed") or []))
                added = ", ".join(map(str, response.get("added") or []))
                self._changed(subject, removed and f"has {removed}", added and f"has {added}")
