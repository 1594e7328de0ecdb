"""Kill the controller between a written file and the restart that it is owed, and run again.

``python tests/restarts.py --host '{"ansible_connection": "containers.podman.podman"}' --name NODE``
writes to NODE: a machine for tests with systemd, munge and Slurm. There the role slurm makes a
cluster of one host, and the tasks of role vllm a service that is a stand-in (``sleep``). Each round
gives vllm's API key, munge's key or slurm.conf a new value, kills ``ansible-playbook`` (SIGKILL,
the whole process group) at the result of the task that wrote it, or up to ``--window`` seconds
later, and runs again. It prints a line a round and ends with status 1 if a unit goes on with what
is old.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import random
import re
import secrets
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
UNIT = "trueup-restarts-test.service"
_KILLER = """
import os, signal, threading
from ansible.plugins.callback import CallbackBase

class CallbackModule(CallbackBase):
    CALLBACK_VERSION, CALLBACK_TYPE, CALLBACK_NAME = 2.0, "aggregate", "killer"
    CALLBACK_NEEDS_ENABLED = True

    def v2_runner_on_ok(self, result):
        if result._task.name == os.environ.get("KILL_AFTER"):
            threading.Timer(float(os.environ["KILL_DELAY"]), os.killpg, (0, signal.SIGKILL)).start()
"""
_PLAY = [
    {"ansible.builtin.import_playbook": str(ROOT / "playbooks" / "identify.yml")},
    {
        "hosts": "all",
        "gather_facts": False,
        "vars": {
            "trueup_node": "{{ ansible_facts['trueup_node'] }}",
            "vllm_user": "root",
            "vllm_restart_seconds": 5,
            "__vllm_name": "test",
            "__vllm_plan": {
                "pins": "none",
                "cache": "/var/lib/trueup-restarts",
                "compiled": "/var/cache/trueup-restarts",
                "namespace": "trueup-restarts",
                "endpoints": [
                    {
                        "name": "test",
                        "recipe_name": "stand-in",
                        "unit": UNIT,
                        "secrets": "/etc/trueup/restarts.env",
                        "command": ["/bin/sleep", "infinity"],
                        "environment": {},
                    }
                ],
            },
        },
        "tasks": [
            {
                "name": "Create the folder",
                "ansible.builtin.file": {"path": "/var/lib/trueup-restarts", "state": "directory"},
            },
            {
                "name": "Start the stand-in of a server",
                "ansible.builtin.include_role": {"name": "vllm", "tasks_from": "service.yml"},
            },
            {"name": "Make a cluster", "ansible.builtin.include_role": {"name": "slurm"}},
        ],
    },
]
# What is given a new value: its variable, the task that writes it, and the unit that reads it.
_KINDS = {
    "key of vllm": ("vllm_api_key", "Configure the keys", UNIT),
    "key of munge": ("slurm_munge_key", "Configure munge's key", "munge.service"),
    "slurm.conf": ("slurm_conf_extra", "Configure Slurm", "slurmctld.service"),
}


@dataclass
class Node:
    """A node of an inventory, and the values that it was given last."""

    name: str
    variables: dict[str, Any]
    folder: Path
    values: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        groups = {
            part: {"hosts": {self.name: {}}} for part in ("slurm_controller", "slurm_compute")
        }
        inventory = {"all": {"hosts": {self.name: self.variables}, "children": groups}}
        (self.folder / "hosts.json").write_text(json.dumps(inventory))
        (self.folder / "play.json").write_text(json.dumps(_PLAY))
        (self.folder / "killer.py").write_text(_KILLER)

    def run(self, kill_after: str = "", delay: float = 0.0) -> tuple[int, str]:
        """``ansible-playbook`` with the values, killed after that task where one is named."""
        environment = {
            **os.environ,
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_CALLBACK_PLUGINS": str(self.folder),
            "ANSIBLE_CALLBACKS_ENABLED": "killer",
            "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(self.folder / "facts"),
            "KILL_AFTER": kill_after,
            "KILL_DELAY": str(delay),
        }
        argv = ["ansible-playbook", "-i", str(self.folder / "hosts.json"), "-e"]
        argv += [json.dumps(self.values), str(self.folder / "play.json")]
        done = subprocess.run(
            argv,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            start_new_session=True,
        )
        return done.returncode, done.stdout + done.stderr

    def inside(self, *argv: str) -> str:
        """The output of a command on the node, by Ansible's ad-hoc."""
        words = ["ansible", "-i", str(self.folder / "hosts.json"), self.name, "-m", "command", "-a"]
        shown = subprocess.run([*words, " ".join(argv)], capture_output=True, text=True, check=True)
        return shown.stdout

    def invocation(self, unit: str) -> str:
        return self.inside("systemctl", "show", "--property=InvocationID", unit)

    def service_current(self, kind: str) -> bool:
        """Whether what runs has the value that was given last."""
        value = self.values[_KINDS[kind][0]]
        if kind == "key of vllm":
            shown = self.inside("systemctl", "show", "--property=MainPID", "--value", UNIT)
            pid = re.findall(r"^\d+$", shown, re.MULTILINE)[0]
            return f"VLLM_API_KEY={value}\0" in self.inside("cat", f"/proc/{pid}/environ")
        if kind == "slurm.conf":
            timeout = value["MessageTimeout"]
            shown = self.inside("scontrol", "show", "config")
            return bool(re.search(rf"^MessageTimeout\s+= {timeout} sec", shown, re.MULTILINE))
        # munged does not tell its key; what started before the file has another.
        started = self.inside("stat", "--format=%Y", "/run/munge/munged.pid")
        written = self.inside("stat", "--format=%Z", "/etc/munge/munge.key")
        return int(started.split()[-1]) >= int(written.split()[-1])


def new_value(kind: str, chance: random.Random) -> Any:
    """One that was not given before."""
    if kind == "key of vllm":
        return secrets.token_hex(16)
    if kind == "key of munge":
        return base64.b64encode(secrets.token_bytes(64)).decode()
    # Slurm takes at most 65535.
    return {"MessageTimeout": chance.randint(10, 9999)}


def main() -> int:
    """The rounds; the status is 1 if something old went on, or a restart was one too many."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", required=True, help="of the node in the inventory")
    parser.add_argument("--host", default="{}", help="its variables, as JSON")
    parser.add_argument("--count", type=int, default=9)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--window", type=float, default=0.0, help="seconds after the write")
    given = parser.parse_args()
    chance, bad = random.Random(given.seed), 0
    usual = {"slurm_select": "CR_Core", "slurm_ready_seconds": 120}
    usual["ansible_python_interpreter"] = "/usr/bin/python3"
    with tempfile.TemporaryDirectory(prefix="trueup-restarts-") as folder:
        node = Node(given.name, {**usual, **json.loads(given.host)}, Path(folder))
        node.values = {_KINDS[kind][0]: new_value(kind, chance) for kind in _KINDS}
        for expected in ("", "changed=0 "):
            status, output = node.run()
            if status or expected not in output:
                sys.exit(f"the node cannot be made, or not twice:\n{output[-4000:]}")
        for number in range(given.count):
            kind = list(_KINDS)[number % len(_KINDS)]
            variable, task, unit = _KINDS[kind]
            node.values[variable] = new_value(kind, chance)
            before, delay = node.invocation(unit), chance.uniform(0, given.window)
            status, output = node.run(task, delay)
            between = node.invocation(unit)
            again, output = node.run()
            after = node.invocation(unit)
            third, same = node.run() if number >= given.count - len(_KINDS) else (0, "changed=0 ")
            well = not again and node.service_current(kind) and not third and "changed=0 " in same
            bad += not well
            restarts = (between != before) + (after != between)
            first = "by the first run" if between != before else "by the second"
            print(
                f"{kind}: killed {delay:.2f} s after the write (status {status}), restarted"
                f" {first}, in all {restarts}"
                f" times: {'in force' if well else 'OLD'}",
                flush=True,
            )
            if not well:
                print(output[-3000:], same[-2000:])
    print(f"{given.count} kills, {bad} units that went on with what is old")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
