"""Install a program of known sha256 on a Windows host, and know whether it still needs a reboot."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from trueup_controller import actions

DOCUMENTATION = r"""
name: windows_package
short_description: Download, unpack and install a program on a Windows host
description:
  - The host downloads the file, compares its sha256, unpacks a zip, runs the installer and removes
    what it downloaded. The plan of the role says whether that is due; here nothing is compared.
  - An installer that asks for a reboot (status 3010) leaves a value in the registry, by which a
    later run knows that the host has not been rebooted since.
options:
  package:
    description:
      - Of a plan. C(install), whether it is due; C(record), the role's key in the registry;
        C(name), for sentences; C(url) and C(sha256); C(folder) of the host, in which only
        administrators write; C(setup), the installer in the zip, empty where the file is the
        installer; C(arguments).
      - Empty, nothing is done.
    type: dict
    required: true
"""

RETURN = r"""
reboot_required:
  description: Whether the host has not been rebooted since the installer asked for it.
  returned: always
  type: bool
"""

# The boot in which an installer asked for a reboot: seconds since it, its time by the host's clock.
_OWED = "RebootOwedInBoot"


class ActionModule(ActionBase):
    """Ansible's entry."""

    _VALID_ARGS = frozenset({"package"})

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """``changed`` and ``reboot_required``."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        self._variables: dict[str, Any] = task_vars or {}
        package: dict[str, Any] = self._task.args["package"]
        result.update(changed=bool(package.get("install")), reboot_required=False)
        if package.get("install") and not self._task.check_mode:
            result["reboot_required"] = self._install(package)
        elif package:
            result["reboot_required"] = self._owed(package["record"])
        return result

    def _install(self, package: dict[str, Any]) -> bool:
        folder, name = package["folder"], package["name"]
        archive, unpacked = rf"{folder}\{package['url'].rpartition('/')[2]}", rf"{folder}\unpacked"
        self._ask("win_file", name, path=folder, state="directory")
        self._ask(
            "win_get_url",
            f"{name}: {package['url']}",
            url=package["url"],
            dest=archive,
            checksum=package["sha256"],
            checksum_algorithm="sha256",
            force=False,
            url_timeout=600,
        )
        setup = rf"{unpacked}\{package['setup']}" if package["setup"] else archive
        if package["setup"]:
            unzip = {"src": archive, "dest": unpacked, "creates": setup}
            self._ask("community.windows.win_unzip", name, **unzip)
        response = self._ask(
            "win_package",
            f"{name}: its installer failed",
            path=setup,
            arguments=package["arguments"],
            # A path that never exists: the plan knows the installed version, and the module
            # would compare versions as texts.
            creates_path=rf"{folder}\installed",
            expected_return_code=[0, 3010],
        )
        if response.get("reboot_required"):
            self._ask(
                "win_regedit",
                name,
                path=package["record"],
                name=_OWED,
                type="string",
                data=self._boot(name).written(),
            )
        self._ask("win_file", name, path=folder, state="absent")
        return bool(response.get("reboot_required"))

    def _owed(self, key: str) -> bool:
        """Whether the host is still in the boot in which an installer asked for a reboot."""
        record = self._ask("win_reg_stat", key, path=key, name=_OWED)
        if not record.get("exists"):
            return False
        return self._boot(key).is_that_of(str(record["value"]))

    def _boot(self, subject: str) -> _Boot:
        """The host's uptime and time of boot."""
        response = self._ask("setup", subject, gather_subset=["!all", "!min", "uptime"])
        facts = response["ansible_facts"]
        begun = datetime.fromisoformat(facts["ansible_lastboot"].replace("Z", "+00:00"))
        return _Boot(int(facts["ansible_uptime_seconds"]), int(begun.timestamp()))

    def _ask(self, module: str, subject: str, **arguments: Any) -> dict[str, Any]:
        """The response of a module; ``subject`` names the failed step in a message."""
        response = actions.ask(self, self._variables, module, **arguments)
        if response.get("failed"):
            raise AnsibleActionFail(f"{subject}: {response.get('msg')}", result=response)
        return response


class _Boot(NamedTuple):
    """A boot as its host tells it: no other machine's clock counts."""

    seconds: int
    begun: int

    def written(self) -> str:
        """For the registry."""
        return f"{self.seconds} {self.begun}"

    def is_that_of(self, written: str) -> bool:
        """Whether no boot came between: the host is up for longer, and its boot began before."""
        seconds, begun = map(int, written.split())
        return self.seconds >= seconds and self.begun <= begun + seconds
