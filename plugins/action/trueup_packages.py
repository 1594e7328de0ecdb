"""Install packages of the system; on Enterprise Linux 8, only see that they are there."""

from __future__ import annotations

import shlex
import time
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action.package import ActionModule as Package
from trueup.node import package_failures, packages

DOCUMENTATION = r"""
name: trueup_packages
short_description: Packages of the system, or the names of those that are missing
description:
  - Does what M(ansible.builtin.package) does with the same options, C(module_defaults) and
    C(ansible_package_use), and gathers no facts for it. Without a package it is skipped.
  - While another program holds a lock of apt or dnf it says which, and waits. What fails, ends in
    one sentence (C(trueup.node.package_failures)). What was interrupted in dpkg is ended first.
  - On a node whose packages no module can change (C(trueup.node.packages.verified_only)) it asks
    rpm by command, and fails with the names of those that are not installed.
options:
  transactions:
    description: In place of C(name), lists of packages, each list installed after the one before.
    type: list
    elements: list
  lock_timeout:
    description: Seconds to wait for other programs, of apt and of dnf, which has no limit itself.
    type: int
    default: 300
  pins:
    description: What is pinned, with C(name) and C(version), for what is said of a failure.
    type: list
    elements: dict
  repository:
    description: Where it comes from, with C(name), C(url) and C(key_fingerprint), for the same.
    type: dict
  offers:
    description: The command that prints which versions are offered, for the same.
    type: list
    elements: str
"""

LOCK_SECONDS = 300
# Of apt's own wait before it is said that it waits, and between two looks.
FIRST_SECONDS = 5
# A mirror that does not answer takes apt half a minute a try and list; its module tries five times.
UPDATE = {"update_cache_retries": 2, "update_cache_retry_max_delay": 5}
# dnf waits for ever, whatever its module is told; its locks hold the number of a process.
DNF_LOCKED = (
    "for lock in /var/lib/dnf/*_lock.pid /var/cache/dnf/*_lock.pid; do"
    ' pid=$(cat "$lock" 2>/dev/null) && name=$(cat "/proc/$pid/comm" 2>/dev/null)'
    ' && echo "Could not get lock $lock. It is held by process $pid ($name)" && break; done; true'
)
# Says which repository cannot be read, and why.
PROBES = {
    "apt": "apt-get --quiet -o Acquire::Retries=0 -o Acquire::http::Timeout=10"
    " -o Acquire::https::Timeout=10 update",
    "dnf": "dnf --noplugins --setopt=skip_if_unavailable=0 --setopt=timeout=10 --setopt=retries=1"
    " --setopt=exit_on_lock=1 makecache",
}
REPAIR = "env LC_ALL=C DEBIAN_FRONTEND=noninteractive dpkg --force-confdef --force-confold"


class ActionModule(Package):
    """Ansible's entry."""

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """What the module of the package manager returns."""
        variables: dict[str, Any] = task_vars or {}
        given = self._task.args
        told = {name: given.pop(name, None) for name in ("pins", "repository", "offers")}
        seconds = float(given.pop("lock_timeout", None) or LOCK_SECONDS)
        install = given.pop("install", True)
        transactions = self._transactions()
        node = self._templar.template(variables.get("trueup_node") or {})
        every = [name for part in transactions for name in part]
        if every and packages.verified_only(node):
            self._verify(every, node)
            return {"changed": False, "packages": every}
        if not (every and install):
            return {"changed": False, "skipped": True, "skip_reason": "There is none to install"}
        usual = variables.get("ansible_package_use") or node.get("package_manager") or ""
        manager = given.pop("use", None) or usual
        changed, answers = False, {}
        for part in transactions:
            self._task.args = {**({"use": manager} if manager else {}), **given, "name": part}
            answers = self._installed(manager, seconds, tmp, variables)
            changed = changed or bool(answers.get("changed"))
            if answers.get("failed"):
                self._explain(answers, manager, part, told)
                break
        return {**answers, "changed": changed}

    def _installed(
        self, manager: str, seconds: float, tmp: str | None, variables: dict[str, Any]
    ) -> dict[str, Any]:
        """One transaction, when no other program is at work; its failure, where one is for ever."""
        end, said = time.monotonic() + seconds, ""
        while True:
            answer = self._tried(manager, tmp, variables)
            if not (answer.get("failed") and package_failures.is_locked(answer)):
                return answer
            if time.monotonic() > end:
                return {**answer, "waited_seconds": round(seconds)}
            holder = package_failures.holder(answer)
            if holder != said:
                said = holder
                self._display.display(
                    f"{variables.get('inventory_hostname')}: {manager} waits up to {seconds:.0f} s:"
                    f" {holder}",
                    color="bright purple",
                )
            time.sleep(FIRST_SECONDS)

    def _tried(self, manager: str, tmp: str | None, variables: dict[str, Any]) -> dict[str, Any]:
        """The transaction now; what dpkg had begun before and did not end, is ended first, and
        a package that no list has is looked for in new ones."""
        if manager == "apt":
            self._task.args |= {"lock_timeout": FIRST_SECONDS, **UPDATE}
        if manager == "dnf":
            locked = str(self._low_level_execute_command(DNF_LOCKED)["stdout"]).strip()
            if locked:
                return {"failed": True, "msg": locked}
        answer: dict[str, Any] = super().run(tmp, variables)
        if answer.get("failed") and package_failures.is_interrupted(answer):
            self._low_level_execute_command(f"{REPAIR} --configure -a")
            answer = super().run(tmp, variables)
        if manager == "apt" and answer.get("failed") and package_failures.is_missing(answer):
            # A list that lost power cut is empty, and apt takes it for whole.
            self._task.args |= {"update_cache": True, "cache_valid_time": 0}
            answer = super().run(tmp, variables)
        return answer

    def _transactions(self) -> list[list[str]]:
        """The packages that are asked for, as lists that are installed one after the other."""
        names = self._task.args.pop("name", None) or []
        given = self._task.args.pop("transactions", None) or [names]
        return [[one] if isinstance(one, str) else list(one) for one in given if one]

    def _explain(
        self, answer: dict[str, Any], manager: str, names: list[str], told: dict[str, Any]
    ) -> None:
        """One sentence in place of the message, which stays as ``said``."""
        offers = ""
        if told["offers"]:
            offers = self._low_level_execute_command(
                shlex.join(["env", "LC_ALL=C", *told["offers"]])
            )["stdout"]
        answer["said"] = answer.get("msg")
        unclear: dict[str, Any] | str = answer
        if manager in PROBES and package_failures.is_unclear(answer):
            command = f"timeout 120 env LC_ALL=C {PROBES[manager]} 2>&1"
            probed = str(self._low_level_execute_command(command)["stdout"])
            unclear = probed if package_failures.is_known(probed) else answer
        # Or Ansible shows the module's own error too, and first.
        answer.pop("exception", None)
        answer["msg"] = package_failures.sentence_of(
            unclear,
            told["pins"] or [{"name": name, "version": ""} for name in names],
            manager,
            told["repository"] or {},
            offers,
        )

    def _verify(self, names: list[str], node: dict[str, Any]) -> None:
        """Fail with the names of those that are not there."""
        command = shlex.join(["env", "LC_ALL=C", "rpm", "--query", "--whatprovides", *names])
        answer = self._low_level_execute_command(command)
        missing = packages.not_provided(answer["rc"], answer["stdout"] + answer["stderr"], names)
        if missing:
            raise AnsibleActionFail(packages.cannot_be_installed(missing, str(node.get("os"))))
