#!/usr/bin/python
"""Ansible module: a unit runs with its files as they are now, or a command has read them."""

from __future__ import annotations

DOCUMENTATION = r"""
module: service_current
author: trueup contributors
version_added: "0.4.0"
short_description: Brings files into force by starting, restarting or reloading what reads them
description:
  - Starts a unit of systemd, and restarts or reloads it where it began before its files were as
    they are now. Which files are in force is recorded on the node for each start, so that it does
    not matter which run wrote them, whether that run broke off, or whether the clock was set since.
  - Without a record, and for a start that the record does not know, a file that changed after the
    start is not in force.
  - systemd reads unit files anew if they have changed, and forgets earlier starts that failed
    before it starts a unit.
  - Without O(unit) a O(command) brings the files into force, until the next boot.
  - The records are in C(/var/lib/trueup/units), for root alone. C(TRUEUP_UNITS) in the environment
    names another folder, for tests.
  - The action of the same name adds in check mode what M(config_files) would have written.
attributes:
  check_mode:
    support: full
    description: It starts nothing.
  diff_mode:
    support: full
    description: The step, and which file is its reason.
  platform:
    support: full
    description: Linux with systemd.
    platforms: linux
extends_documentation_fragment: trueup_options.service_current
"""

EXAMPLES = r"""
- name: Start the server
  service_current:
    unit: example.service
    enabled: true
    files: [/etc/example.conf, /etc/systemd/system/example.service]

- name: Apply names of devices
  service_current:
    name: example-names
    reloaded: [/etc/udev/rules.d/60-example.rules]
    command: [udevadm, control, --reload]
"""

RETURN = r"""
step:
  description: What was done, V(none), V(start), V(stop), V(restart) or V(reload).
  returned: always
  type: str
why:
  description: The reasons, with the paths.
  returned: always
  type: list
  elements: str
  sample: [/etc/example.conf is another one than at the start]
not_restarted: {description: Why a restart that is owed was not done., returned: always, type: str}
problem: {description: "What went wrong, with O(lenient).", returned: always, type: str}
unrecorded:
  description:
    - Whether nothing is recorded of a unit that runs, as before this module's first run, or after a
      loss of power that took the record. In check mode it stays so.
  returned: always
  type: bool
"""

import os
import re
import time
from dataclasses import replace
from typing import Any, NoReturn

from ansible.module_utils.trueup_node.errors import BadInput
from ansible.module_utils.trueup_node.node import units
from ansible.module_utils.trueup_node.node.gpu_users import gpu_users
from ansible.module_utils.trueup_node.node.units import Decision, Run, Step, TargetState
from ansible.module_utils.trueup_node.options import Option, module_spec
from ansible.module_utils.trueup_node.run.answer import AnsibleModule

OPTIONS = (
    Option("unit", "Name of the unit."),
    Option("name", "Without O(unit), what the record is called."),
    Option(
        "state",
        "V(as_found) restarts or reloads a unit that runs, and leaves one that does not.",
        "started",
        choices=("started", "stopped", "as_found"),
    ),
    Option(
        "enabled", "Whether it starts at boot. Left as it is where it is not given.", type="bool"
    ),
    Option(
        "files",
        "Files that it reads at its start. Where one changed, it is restarted.",
        [],
        elements="path",
    ),
    Option(
        "reloaded",
        "Files that O(command) has it read again without a restart.",
        [],
        elements="path",
    ),
    Option("command", "An argv.", []),
    Option(
        "replaced", "Whether it is also restarted where its program's file was replaced.", False
    ),
    Option(
        "idle_gpus",
        "Whether it is not restarted while a process computes on the GPUs. RV(not_restarted) says"
        " it where a restart is owed, and it stays owed.",
        False,
    ),
    Option("lenient", "Whether RV(problem) takes the place of a failure.", False),
    Option("pending", "Files that other tasks would write, in check mode.", [], elements="path"),
)

_RECORDS = "/var/lib/trueup/units"
_BOOT = "/proc/sys/kernel/random/boot_id"
_FOLDERS = ["/sbin", "/usr/sbin"]
_NAME = re.compile(r"[A-Za-z0-9:_.\\@-]+")
# States of `systemctl is-enabled` for a unit that `disable` changes.
_ENABLED = ("enabled", "enabled-runtime", "linked", "linked-runtime", "generated", "alias")


def main() -> None:
    """Look, decide, act, record."""
    module = AnsibleModule(
        argument_spec=module_spec(OPTIONS),
        required_one_of=[("unit", "name")],
        mutually_exclusive=[("unit", "name")],
        required_by={"name": "command"},
        supports_check_mode=True,
    )
    try:
        _InForce(module).go()
    except BadInput as error:
        module.fail_json(msg=f"{module.params['unit'] or module.params['name']}: {error}.")


class _InForce:
    def __init__(self, module: AnsibleModule) -> None:
        parameters = module.params
        self.module, self.unit = module, parameters["unit"] or ""
        self.name = self.unit or parameters["name"]
        if not _NAME.fullmatch(self.name):
            self.fail("not a name of a unit")
        self.wanted = TargetState(
            parameters["state"], tuple(parameters["files"]), tuple(parameters["reloaded"])
        )
        self.record_path = os.path.join(
            os.environ.get("TRUEUP_UNITS", _RECORDS), f"{self.name}.json"
        )
        self.systemctl = module.get_bin_path("systemctl") if self.unit else None
        with open(_BOOT, encoding="ascii") as stream:
            self.boot = stream.read().strip()

    def go(self) -> NoReturn:
        module = self.module
        try:
            record = units.read(self.record_path)
        except BadInput as error:
            module.warn(f"{self.name}: {error}; times of files decide, and it is written anew.")
            record = units.Record()
        run = self.run()
        if run.load != "loaded" and not self.may_lack(run):
            self.fail(self.why_not(run))
        paths = (*self.wanted.files, *self.wanted.reloaded, *record.files, *record.reloaded)
        files = {path: units.look_at(path) for path in paths}
        for path in set(files) & set(module.params["pending"]):
            # Of a file that a run would write this much is known.
            files[path] = units.File("to be written", time.time())
        decision = units.decide(self.wanted, run, record, files)
        held = self.held() if decision.step is Step.RESTART else ""
        step = Step.NONE if held else decision.step
        boot = self.boot_changes(run)
        changed = bool(step is not Step.NONE or boot or run.unread)
        unrecorded = run.active and not record.run
        if not module.check_mode:
            if step is Step.RESTART:
                units.write(self.record_path, units.begun(run, record))
            self.act(step, run, boot)
            if step in (Step.START, Step.RESTART):
                run = self.run()
            after = units.record_after(self.wanted, step, run, record, files)
            if run.active and step is not Step.STOP and not held and after != record:
                units.write(self.record_path, after)
        self.exit(
            Decision(step, decision.why),
            changed=changed,
            not_restarted=held,
            boot=boot,
            unrecorded=unrecorded,
        )

    def run(self) -> Run:
        now, monotonic = time.time(), time.clock_gettime(time.CLOCK_MONOTONIC)
        if not self.unit:
            uptime = time.clock_gettime(time.CLOCK_BOOTTIME)
            return Run(self.boot, since=now - uptime)
        output = ""
        if self.systemctl:
            argv = ["show", f"--property={','.join(units.PROPERTIES)}", "--", self.unit]
            _, output, _ = self.ask(*argv)
        run = units.run_of(output, now=now, monotonic=monotonic, boot=self.boot)
        if not self.module.params["replaced"] or not run.process:
            return run
        try:
            program = os.readlink(f"/proc/{run.process}/exe")
        except OSError:
            return run
        return replace(run, replaced=program.endswith(" (deleted)"))

    def held(self) -> str:
        """Why it must not be restarted."""
        if not self.module.params["idle_gpus"]:
            return ""
        used = gpu_users(self.module)
        return f"the GPUs are in use ({used})" if used else ""

    def may_lack(self, run: Run) -> bool:
        """Whether a unit that is not there is as wanted, or would come before this is done."""
        idle = not run.active and self.wanted.state != "started"
        if idle and not self.module.params["enabled"]:
            return True
        return self.module.check_mode and run.load in ("", "not-found")

    def why_not(self, run: Run) -> str:
        if not self.systemctl:
            return "there is no systemctl, and nothing else starts units here"
        if run.load == "not-found":
            return "systemd has no such unit: install what brings it, and run again"
        if run.load == "masked":
            return f"the unit is masked: `systemctl unmask {self.unit}`, and run again"
        if run.load:
            return f"systemd calls the unit {run.load}: see `systemctl status {self.unit}`"
        return "systemd does not answer: see `systemctl is-system-running`"

    def boot_changes(self, run: Run) -> str:
        """``enable`` or ``disable`` where the unit's start at boot is not as wanted."""
        enabled = self.module.params["enabled"]
        if enabled is None or not self.unit or (run.load != "loaded" and not enabled):
            return ""
        status, output, _ = (
            self.ask("is-enabled", "--", self.unit) if self.systemctl else (1, "", "")
        )
        if enabled:
            return "" if status == 0 and output.strip() != "enabled-runtime" else "enable"
        return "disable" if output.strip() in _ENABLED else ""

    def act(self, step: Step, run: Run, boot: str) -> None:
        if run.unread:
            self.do("daemon-reload")
        if boot and run.load == "loaded":
            self.do(boot, "--", self.unit)
        if step in (Step.START, Step.RESTART):
            # systemd counts starts that failed, and refuses one more by hand too.
            self.ask("reset-failed", "--", self.unit)
        if step is Step.RELOAD:
            self.command()
        elif step is not Step.NONE:
            self.do(step.value, "--", self.unit)

    def command(self) -> None:
        name, *words = self.module.params["command"] or ["systemctl", "reload", "--", self.unit]
        path = self.module.get_bin_path(name, opt_dirs=_FOLDERS)
        if path is None:
            self.fail(f"there is no {name}")
        self.checked([path, *words])

    def do(self, *words: str) -> None:
        self.checked([str(self.systemctl), *words])

    def checked(self, argv: list[str]) -> None:
        status, output, errors = self.module.run_command(argv, environ_update=_ENVIRONMENT)
        if status != 0:
            message = " ".join(f"{errors} {output}".split()) or "nothing"
            self.fail(f"`{' '.join(argv)}` failed with status {status} and said: {message}")

    def ask(self, *words: str) -> tuple[int, str, str]:
        argv = [str(self.systemctl), *words]
        response: tuple[int, str, str] = self.module.run_command(argv, environ_update=_ENVIRONMENT)
        return response

    def fail(self, message: str) -> NoReturn:
        if self.module.params["lenient"]:
            self.exit(Decision(Step.NONE), problem=f"{self.name}: {message}.")
        self.module.fail_json(msg=f"{self.name}: {message}.")
        raise AssertionError

    def exit(
        self,
        decision: Decision,
        *,
        changed: bool = False,
        not_restarted: str = "",
        problem: str = "",
        boot: str = "",
        unrecorded: bool = False,
    ) -> NoReturn:
        steps = [boot] if boot else []
        steps += [decision.step.value] if decision.step is not Step.NONE else []
        reasons = "; ".join(decision.why)
        module_result: dict[str, Any] = {
            "step": decision.step.value,
            "why": list(decision.why),
            "not_restarted": not_restarted,
            "problem": problem,
            "unrecorded": unrecorded,
        }
        step_lines = "".join(f"{step} {self.name}: {reasons}\n" for step in steps)
        diff = {
            "before_header": self.name,
            "after_header": self.name,
            "before": "",
            "after": step_lines,
        }
        self.module.exit_json(changed=changed, diff=[diff], **module_result)
        raise AssertionError


# Times in UTC are read; sentences are in English.
_ENVIRONMENT = {"TZ": "UTC", "LC_ALL": "C", "LANG": "C"}


if __name__ == "__main__":
    main()
