"""Install packages of the system; on Enterprise Linux 8, only see that they are there."""

from __future__ import annotations

import shlex
import time
from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from trueup_controller import package_failures
from trueup_controller.actions import node_of
from trueup_controller.project import full_name, short_name
from trueup_node.node import packages

if TYPE_CHECKING:
    from collections.abc import Mapping

DOCUMENTATION = r"""
name: trueup_packages
short_description: Packages of the system, or the names of those that are missing
description:
  - The only way in which roles and playbooks install packages. M(package_transaction) simulates
    each transaction first, and refuses it by name where it would remove or downgrade a package that
    the role did not install. Without a package the task is skipped.
  - While another program holds a lock of apt or dnf it says which, and waits. What fails, ends in
    one sentence (C(trueup_controller.package_failures)). An interrupted dpkg is ended first.
  - On a node whose packages no module can change (C(trueup_node.node.packages.verified_only)) it
    asks rpm by command, and fails with the names of those that are not installed.
options:
  name:
    description: Packages as the package manager takes them, or paths of files on the node.
    type: list
    elements: str
  transactions:
    description: In place of O(name), lists of packages, each list installed after the one before.
    type: list
    elements: list
  install:
    description: Whether missing packages are installed.
    type: bool
    default: true
  use:
    description: apt or dnf. Empty means that of C(ansible_package_use), or the node's.
    type: str
  recommended:
    description: Whether recommended packages are installed too.
    type: bool
    default: false
  allow_downgrade:
    description: Whether O(name) may get an older version.
    type: bool
    default: false
  replace_held:
    description: Whether held packages may change.
    type: bool
    default: false
  lists_age_seconds:
    description: How old apt's lists may be.
    type: int
    default: 3600
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
# Between two tries while a lock is held.
WAIT_SECONDS = 5
# dnf waits for ever, whatever it is told of some locks; they hold the number of a process.
DNF_LOCKED = (
    "for lock in /var/lib/dnf/*_lock.pid /var/cache/dnf/*_lock.pid; do"
    ' pid=$(cat "$lock" 2>/dev/null) && name=$(cat "/proc/$pid/comm" 2>/dev/null)'
    ' && echo "Could not get lock $lock. It is held by process $pid ($name)" && break; done; true'
)
# Says which repository cannot be read, and why: dnf may pass over it.
DNF_PROBE = (
    "dnf --noplugins --setopt=skip_if_unavailable=0 --setopt=timeout=10 --setopt=retries=1"
    " --setopt=exit_on_lock=1 makecache"
)
REPAIR = "env LC_ALL=C DEBIAN_FRONTEND=noninteractive dpkg --force-confdef --force-confold"


class ActionModule(ActionBase):
    """Ansible's entry."""

    _VALID_ARGS = frozenset(
        (
            *("name", "transactions", "install", "use", "recommended", "allow_downgrade"),
            *("replace_held", "lists_age_seconds", "lock_timeout", "pins", "repository", "offers"),
        )
    )

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """The result of the transactions, the last one's response in full."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables: dict[str, Any] = task_vars or {}
        options = self._task.args
        transactions = self._transactions()
        node = node_of(self, variables)
        every = [name for transaction in transactions for name in transaction]
        if every and packages.verified_only(node):
            self._verify(every, node)
            return {**result, "changed": False, "packages": every}
        if not (every and options.get("install", True)):
            skipped = {"skipped": True, "skip_reason": "There is none to install"}
            return {**result, "changed": False, **skipped}
        manager = self._manager(variables, node)
        changed, response = False, {}
        for transaction in transactions:
            response = self._installed(manager, transaction, variables)
            changed = changed or bool(response.get("changed"))
            if response.get("failed"):
                self._explain(response, manager, transaction)
                break
        return {**result, **response, "changed": changed}

    def _transactions(self) -> list[list[str]]:
        """The packages that are asked for, as lists that are installed one after the other."""
        entries = self._task.args.get("transactions") or [self._task.args.get("name") or []]
        return [[entry] if isinstance(entry, str) else list(entry) for entry in entries if entry]

    def _manager(self, variables: Mapping[str, Any], node: Mapping[str, Any]) -> str:
        usual = variables.get("ansible_package_use") or node.get("package_manager") or ""
        manager = str(self._task.args.get("use") or usual)
        if manager not in ("apt", "dnf"):
            message = (
                f"trueup installs packages with apt or dnf, and this node's package manager is"
                f" {manager or 'not known'}: install them by hand, or set ansible_package_use to"
                " one of these."
            )
            raise AnsibleActionFail(message)
        return manager

    def _installed(
        self, manager: str, names: list[str], variables: dict[str, Any]
    ) -> dict[str, Any]:
        """One transaction, when no other program is at work; its failure, where one is for ever."""
        seconds = float(self._task.args.get("lock_timeout") or LOCK_SECONDS)
        end, announced = time.monotonic() + seconds, ""
        while True:
            response = self._tried(manager, names, variables)
            if not (response.get("failed") and package_failures.is_locked(response)):
                return response
            if time.monotonic() > end:
                return {**response, "waited_seconds": round(seconds)}
            holder = package_failures.holder(response)
            if holder != announced:
                announced = holder
                self._display.display(
                    f"{variables.get('inventory_hostname')}: {manager} waits up to {seconds:.0f} s:"
                    f" {holder}",
                    color="bright purple",
                )
            time.sleep(WAIT_SECONDS)

    def _tried(self, manager: str, names: list[str], variables: dict[str, Any]) -> dict[str, Any]:
        """Run the transaction now. An interrupted run of dpkg is completed first, and a package
        that no list has is looked for in new ones."""
        if manager == "dnf":
            locked = str(self._low_level_execute_command(DNF_LOCKED)["stdout"]).strip()
            if locked:
                return {"failed": True, "msg": locked}
        response = self._transaction(manager, names, variables)
        if response.get("failed") and package_failures.is_interrupted(response):
            self._low_level_execute_command(f"{REPAIR} --configure -a")
            response = self._transaction(manager, names, variables)
        if manager == "apt" and response.get("failed") and package_failures.is_missing(response):
            # A list that lost power cut is empty, and apt takes it for whole.
            response = self._transaction(manager, names, variables, lists_age_seconds=0)
        return response

    def _transaction(
        self, manager: str, names: list[str], variables: dict[str, Any], **more: Any
    ) -> dict[str, Any]:
        passed = ("recommended", "allow_downgrade", "replace_held", "lists_age_seconds")
        options = {name: self._task.args[name] for name in passed if name in self._task.args}
        response: dict[str, Any] = self._execute_module(
            module_name=full_name("package_transaction"),
            module_args={
                "manager": manager,
                "names": names,
                "role": self._role(variables),
                **options,
                **more,
            },
            task_vars=variables,
        )
        return response

    def _role(self, variables: Mapping[str, Any]) -> str:
        """The role that asks; of one that another includes (vendor_packages), the including one."""
        role = self._task._role
        parents = variables.get("ansible_parent_role_names") or []
        if role is None:
            return str(parents[0]) if parents else ""
        return short_name(str(parents[0] if parents else role.get_name()))

    def _explain(self, response: dict[str, Any], manager: str, names: list[str]) -> None:
        """One sentence in place of the message, which stays as ``said``."""
        if response.get("refused"):
            return
        offers = ""
        if self._task.args.get("offers"):
            offers = self._low_level_execute_command(
                shlex.join(["env", "LC_ALL=C", *self._task.args["offers"]])
            )["stdout"]
        response["said"] = response.get("msg")
        unclear: dict[str, Any] | str = response
        if manager == "dnf" and package_failures.is_unclear(response):
            command = f"timeout 120 env LC_ALL=C {DNF_PROBE} 2>&1"
            probed = str(self._low_level_execute_command(command)["stdout"])
            unclear = probed if package_failures.is_known(probed) else response
        # Or Ansible shows the module's own error too, and first.
        response.pop("exception", None)
        response["msg"] = package_failures.sentence_of(
            unclear,
            self._task.args.get("pins") or [{"name": name, "version": ""} for name in names],
            manager,
            self._task.args.get("repository") or {},
            offers,
        )

    def _verify(self, names: list[str], node: dict[str, Any]) -> None:
        """Fail with the names of those that are not there."""
        command = shlex.join(["env", "LC_ALL=C", "rpm", "--query", "--whatprovides", *names])
        response = self._low_level_execute_command(command)
        missing = packages.not_provided(
            response["rc"], response["stdout"] + response["stderr"], names
        )
        if missing:
            raise AnsibleActionFail(packages.cannot_be_installed(missing, str(node.get("os"))))
