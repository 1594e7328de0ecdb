#!/usr/bin/python
"""Ansible module: packages are installed where nothing else is removed or downgraded for them."""

from __future__ import annotations

DOCUMENTATION = r"""
module: package_transaction
author: trueup contributors
version_added: "0.4.0"
short_description: Installs packages and removes or downgrades no other package
description:
  - Simulates the transaction of apt or dnf first. Where it would remove or downgrade a package that
    the same role of trueup did not install, nothing is changed, and the module fails with the names
    (RV(removed), RV(downgraded)). No dependency is removed as a side effect.
  - Packages that it installs are recorded on the node in C(/var/lib/trueup/packages), which only
    its user (root) can read and write.
  - Where all packages are installed, apt and dnf are not started. apt's lists are read again where
    they are old.
  - The action M(trueup_packages) waits for locks, and words failures. Roles use that.
attributes:
  check_mode:
    support: full
    description: The simulation, which reads no lists.
  diff_mode:
    support: none
    description: It shows no difference.
  platform:
    support: full
    description: Linux with apt or dnf.
    platforms: linux
extends_documentation_fragment: trueup_options.package_transaction
"""

EXAMPLES = r"""
- name: Install the compiler
  package_transaction:
    manager: apt
    names: [gcc, libc6-dev]
    role: compiler
"""

RETURN = r"""
installed: {description: New packages with their versions., returned: always, type: dict}
upgraded: {description: Packages that get a newer version., returned: always, type: dict}
removed:
  description: Packages that are removed for it; with RV(refused), would be.
  returned: always
  type: dict
  sample: {doca-ofed: 2.10.0-0.0.1}
downgraded:
  description: The same of those that get an older version.
  returned: always
  type: dict
refused: {description: Whether these keep it from being installed., returned: always, type: bool}
unknown: {description: "Why there is no simulation, with O(asked).", returned: always, type: str}
"""

import os
import time
from typing import Any, Dict, List, Mapping, NoReturn

from ansible.module_utils.trueup_node.errors import TrueupError
from ansible.module_utils.trueup_node.node import packages, tools, transactions
from ansible.module_utils.trueup_node.node.transactions import Entry, Request, Transaction
from ansible.module_utils.trueup_node.options import Option, module_spec
from ansible.module_utils.trueup_node.run.answer import AnsibleModule

OPTIONS = (
    Option("manager", "Which one installs.", choices=("apt", "dnf"), required=True),
    Option(
        "names",
        "Packages as the package manager takes them: a name, a name with a version, or the absolute"
        " path of a file.",
        [],
        filled=True,
    ),
    Option("role", "The role that asks for them. Only what it installed, it may remove.", ""),
    Option("recommended", "Whether recommended packages are installed too.", False),
    Option("allow_downgrade", "Whether O(names) may get an older version.", False),
    Option("replace_held", "Whether held packages may change.", False),
    Option(
        "lists_age_seconds",
        "How old apt's lists may be. V(0) makes dnf read the repositories' indexes again too.",
        3600,
    ),
    Option(
        "asked",
        "Whether a refusal is only returned (RV(refused)), to know it before anything is changed."
        " Nothing is installed, and no package counts as one that the role installed.",
        False,
    ),
)

_LISTS = "/var/lib/apt/lists"
# Written by apt's own hook, where it is configured; the folder's time tells otherwise.
_STAMP = "/var/lib/apt/periodic/update-success-stamp"
# apt waits this long for a lock; the action tries again and says for whom it waits.
_LOCK_SECONDS = 5
_ENVIRONMENT = {"LC_ALL": "C", "LANG": "C", "DEBIAN_FRONTEND": "noninteractive"}
# A large repository's index takes dnf a minute to read.
_SIMULATION_SECONDS = 600


class _Installation:
    """One transaction on this node."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        options = module.params
        self.role: str = options["role"]
        self.request = Request(
            manager=options["manager"],
            names=options["names"],
            recommended=options["recommended"],
            downgrade_allowed=options["allow_downgrade"],
            replace_held=options["replace_held"],
            renewed=options["manager"] == "dnf" and options["lists_age_seconds"] == 0,
        )
        self.record_path = os.environ.get("TRUEUP_PACKAGES", transactions.RECORD)

    def go(self) -> NoReturn:
        module, request = self.module, self.request
        if self.is_there():
            self.end(Transaction({}, {}, {}, {}))
        if module.check_mode and any(
            "/" in name and not os.path.exists(name) for name in request.names
        ):
            # Check mode has not downloaded the file.
            self.end(Transaction({}, {}, {}, {}), changed=True)
        if request.manager == "apt" and not (module.check_mode or module.params["asked"]):
            self.update()
        transaction = self.simulated()
        record = self.record()
        removed, downgraded = transactions.lost(transaction, request, record, self.role)
        if removed or downgraded:
            self.refuse(transaction, removed, downgraded)
        if transaction.changes and not (module.check_mode or module.params["asked"]):
            # Before, so that a package of an installation that broke off is trueup's too.
            after = transactions.recorded(record, transaction, self.role)
            if after != record:
                transactions.write_record(self.record_path, after)
            self.run(transactions.installation(request, transaction))
        self.end(transaction)

    def is_there(self) -> bool:
        """Whether all packages are installed, as far as dpkg or rpm alone can tell."""
        names = list(self.request.names)
        if any("/" in name for name in names):
            return False
        if self.request.manager == "dnf":
            return tools.ask(self.module, ["rpm", "--query", "--whatprovides", *names]).ok
        installed = self.installed([transactions.name_of(name) for name in names])
        pins = dict(name.partition("=")[::2] for name in names)
        return all(
            transactions.name_of(name) in installed
            and packages.satisfies(installed[transactions.name_of(name)], version or "*")
            for name, version in pins.items()
        )

    def installed(self, names: List[str]) -> Dict[str, str]:
        """The versions of those that are installed."""
        if not names:
            return {}
        if self.request.manager == "apt":
            format_option = f"--showformat={packages.DPKG_FORMAT}"
            return packages.parse_dpkg(
                tools.ask(self.module, ["dpkg-query", "--show", format_option, *names]).output
            )
        argv = ["rpm", "--query", "--queryformat", packages.RPM_FORMAT, *names]
        return packages.parse_rpm(tools.ask(self.module, argv).output)

    def update(self) -> None:
        """apt's lists, where they are older than they may be or there are none."""
        age = self.module.params["lists_age_seconds"]
        times = [os.path.getmtime(path) for path in (_LISTS, _STAMP) if os.path.exists(path)]
        elapsed = time.time() - max(times, default=0.0)
        # A clock that was set back makes them younger than now.
        if elapsed >= age or elapsed < 0:
            self.run(transactions.update_command())

    def simulated(self) -> Transaction:
        """The simulated installation; or fail with the message of apt or dnf."""
        argv = transactions.simulation(self.request)
        response = tools.ask(self.module, argv, limit_seconds=_SIMULATION_SECONDS)
        try:
            return transactions.parse(self.request.manager, response.status, response.output)
        except TrueupError as error:
            reason = response.note or str(error)
        if self.module.params["asked"]:
            self.end(Transaction({}, {}, {}, {}), unknown=reason)
        self.module.fail_json(
            msg=f"'{' '.join(argv)}' failed: {response.complaint.strip() or reason}",
            rc=response.status,
            stdout=response.output,
            stderr=response.complaint,
        )
        raise AssertionError

    def record(self) -> Dict[str, Entry]:
        """The packages that trueup installed; none for a question, which needs no root."""
        if self.module.params["asked"]:
            return {}
        try:
            record = transactions.read_record(self.record_path)
        except TrueupError as error:
            self.module.warn(f"{error}: no package counts as one that trueup installed.")
            return {}
        return transactions.still_there(record, self.installed(list(record)))

    def refuse(
        self, transaction: Transaction, removed: Mapping[str, str], downgraded: Mapping[str, str]
    ) -> NoReturn:
        sentence = transactions.refusal(self.request, removed, downgraded, self.role)
        refused = transaction._replace(removed=removed, downgraded=downgraded)
        if self.module.params["asked"]:
            self.end(refused, refused=True)
        self.module.fail_json(msg=sentence, refused=True, **refused._asdict())
        raise AssertionError

    def run(self, argv: List[str]) -> None:
        """Run a command to its end, however long; or fail with its message."""
        program = self.module.get_bin_path(argv[0], required=True)
        lock = ["-o", f"DPkg::Lock::Timeout={_LOCK_SECONDS}"] if argv[0] == "apt-get" else []
        command = [program, *lock, *argv[1:]]
        status, output, complaint = self.module.run_command(command, environ_update=_ENVIRONMENT)
        if status:
            lines = (complaint.strip() or output.strip()).splitlines() or ["it said nothing"]
            self.module.fail_json(
                msg=f"'{' '.join(command)}' failed: {lines[-1]}",
                rc=status,
                stdout=output,
                stderr=complaint,
            )

    def end(self, transaction: Transaction, **more: Any) -> NoReturn:
        changed = transaction.changes and not self.module.params["asked"]
        module_result = {
            "changed": changed,
            "refused": False,
            "unknown": "",
            **transaction._asdict(),
        }
        self.module.exit_json(**{**module_result, **more})
        raise AssertionError


def main() -> None:
    """Look, simulate, refuse or install."""
    module = AnsibleModule(argument_spec=module_spec(OPTIONS), supports_check_mode=True)
    try:
        _Installation(module).go()
    except TrueupError as error:
        module.fail_json(msg=f"{error}.")


if __name__ == "__main__":
    main()
