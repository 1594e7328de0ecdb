"""A run of three cases, and one of its processes killed at a random moment: nothing may be left, no
record lost, and the run that goes on measures what is missing and nothing else.

The benchmark is ``stream`` with a stand-in of its kernel. The node is this machine, or a container
of systemd that is reached by ssh, and killed itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orphans
from trueup_node import record as records

from torture import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WHOM = ("controller", "worker", "module", "driver", "container")
RUN = "20261123T140001Z-cafe"
_CONF = orphans.ROOT / "molecule" / "_shared" / "containers.conf"
_PRINTED = orphans.ROOT / "tests" / "data" / "stream" / "kernel_streaming.json"
_CASES = (("streaming", 1), ("regular", 1), ("streaming", 2))
_KERNEL = """#!/bin/sh
echo "${{0##*kernel-}}-t$OMP_NUM_THREADS-none" >> {folder}/starts
sleep 0.4
cat {folder}/printed
"""
_SSHD = (
    "podman exec -i {name} /usr/sbin/sshd -i -o UsePAM=no -o StrictModes=no"
    " -o PermitRootLogin=yes -o AuthorizedKeysFile={folder}/user.pub -o HostKey={folder}/host"
)
_PATIENCE_SECONDS = 120.0


def kills(count: int, seed: int) -> Tally:
    """Each of WHOM equally often; a quarter of the processes in the container."""
    tally = Tally()
    chance = random.Random(seed)
    took: dict[str, float] = {}
    killed: dict[str, int] = {}
    with tempfile.TemporaryDirectory(prefix="kills", dir="/tmp") as name, _node(Path(name)) as node:
        whom = WHOM if node else WHOM[:-1]
        if not node:
            tally.figures.append("no container: there is no podman as root, or no image of a node")
        spans: dict[bool, float] = {}
        for number in range(count):
            victim = whom[number % len(whom)]
            there = bool(node) and (victim == "container" or number // len(whom) % 4 == 1)
            attack = _Attack(Path(name), node if there else None)
            if there not in spans:
                begun = time.monotonic()
                attack.ended(attack.begin())
                spans[there] = time.monotonic() - begun
                attack.forget()
            where = "in the container" if there else "here"
            wrong, seconds = attack.carry_out(victim, chance.uniform(0, 0.9 * spans[there]))
            took[victim] = max(took.get(victim, 0.0), seconds)
            killed[victim] = killed.get(victim, 0) + 1
            if wrong:
                tally.lose(f"{victim} {where}, kill {number} of seed {seed}: {'; '.join(wrong)}")
            else:
                tally.survived()
            print(f"  {number + 1}: {victim} {where}, {seconds:.1f} s {wrong}", file=sys.stderr)
    for one, often in killed.items():
        tally.figures.append(f"{one}: {often} killed, nothing left after {took[one]:.1f} s")
    return tally


@dataclass(frozen=True)
class _Container:
    name: str
    variables: dict[str, Any]

    def up(self) -> None:
        """Start it where it does not run, and wait until a program can be started there."""
        _podman("start", self.name)
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while _podman("exec", self.name, "true").returncode:
            if time.monotonic() > deadline:
                raise SystemExit(f"{self.name} does not come up")
            time.sleep(0.1)


def _podman(*argv: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "CONTAINERS_CONF": str(_CONF)}
    return subprocess.run(
        ["podman", *argv], env=environment, capture_output=True, text=True, check=False
    )


@contextlib.contextmanager
def _node(folder: Path) -> Iterator[_Container | None]:
    """A container that sees the folder; None where there is no image of a node."""
    images: list[str] = []
    if shutil.which("podman") and os.geteuid() == 0:
        told = _podman("images", "--format", "{{.Repository}}:{{.Tag}}").stdout
        images = [one for one in told.split() if one.startswith("localhost/trueup-node:")]
    if not images:
        yield None
        return
    for key in ("host", "user"):
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key)]
        subprocess.run(argv, check=True)
    name = f"trueup-kills-{secrets.token_hex(4)}"
    (folder / "known").write_text(f"{name} {(folder / 'host.pub').read_text()}")
    args = f"-F none -o UserKnownHostsFile={folder}/known"
    args += f" -o ProxyCommand='{_SSHD.format(name=name, folder=folder)}'"
    variables = {
        "ansible_connection": "ssh",
        "ansible_host": name,
        "ansible_user": "root",
        "ansible_ssh_private_key_file": str(folder / "user"),
        "ansible_ssh_common_args": args,
        "ansible_control_path_dir": str(folder / "cp"),
        "ansible_python_interpreter": "/usr/bin/python3",
    }
    node = _Container(name, variables)
    run = ["run", "--detach", f"--name={name}", "--systemd=always", "--network=none"]
    begun = _podman(*run, f"--volume={folder}:{folder}", images[0])
    try:
        if begun.returncode:
            raise SystemExit(f"podman cannot start a node: {begun.stderr}")
        node.up()
        yield node
    finally:
        _podman("rm", "--force", "--time=0", name)


class _Attack:
    """A run in a folder, of which one process is killed, and the run that goes on."""

    def __init__(self, folder: Path, node: _Container | None) -> None:
        self.folder, self.node, self.mark = folder, node, secrets.token_hex(8)
        self.results = folder / "results"
        self.forget()
        for one in ("streaming", "regular"):
            kernel = folder / f"stream_kernel-{one}"
            kernel.write_text(_KERNEL.format(folder=folder))
            kernel.chmod(0o755)
        shutil.copy(_PRINTED, folder / "printed")
        (folder / "locks").mkdir(mode=0o700, exist_ok=True)
        cases = [
            {"prefix": str(folder), "stores": stores, "threads": threads, "binding": "none"}
            for stores, threads in _CASES
        ]
        play = {
            "hosts": "node",
            "gather_facts": False,
            "vars": {"trueup_run_id": RUN, "trueup_results": str(self.results)},
            "environment": {
                orphans.NAME: f"node-{self.mark}",
                "TRUEUP_LOCKS": str(folder / "locks"),
            },
            "tasks": [{"trueup_measure": {"benchmark": "stream", "case": one}} for one in cases],
        }
        (folder / "play.yml").write_text(json.dumps([play]))
        local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        hosts = {"all": {"hosts": {"node": node.variables if node else local}}}
        (folder / "hosts.json").write_text(json.dumps(hosts))

    def forget(self) -> None:
        """As if nothing had been measured."""
        shutil.rmtree(self.results, ignore_errors=True)
        (self.folder / "starts").unlink(missing_ok=True)

    def begin(self) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            orphans.NAME: self.mark,
            "ANSIBLE_CONFIG": str(orphans.ROOT / "ansible.cfg"),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_CACHE_PLUGIN": "memory",
            "CONTAINERS_CONF": str(_CONF),
            "TRUEUP_RESULTS": str(self.results),
        }
        playbook = str(Path(sys.executable).with_name("ansible-playbook"))
        with (self.folder / "log").open("w") as log:
            return subprocess.Popen(
                [playbook, "-i", str(self.folder / "hosts.json"), str(self.folder / "play.yml")],
                cwd=orphans.ROOT,
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
            )

    def ended(self, controller: subprocess.Popen[bytes]) -> None:
        """Wait for a run that must be whole."""
        if controller.wait(_PATIENCE_SECONDS):
            raise SystemExit(f"an undisturbed run failed: {self.said()}")

    def said(self) -> str:
        return (self.folder / "log").read_text()

    def carry_out(self, victim: str, delay: float) -> tuple[list[str], float]:
        """What was wrong, and after how long nothing was left."""
        controller = self.begin()
        begun = time.monotonic()
        while True:
            if controller.poll() is not None:
                # It was over before there was anything to kill: earlier, then.
                self.forget()
                controller, begun, delay = self.begin(), time.monotonic(), delay / 2
            if time.monotonic() - begun >= delay and self._kill(victim, controller):
                break
            time.sleep(0.02)
        killed = time.monotonic()
        wrong = []
        while rest := self._left(controller.pid):
            if time.monotonic() - killed > orphans.LEFT_SECONDS:
                wrong.append(f"left {rest}")
                break
            time.sleep(0.2)
        seconds = time.monotonic() - killed
        for one in rest:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(one.split()[0]), signal.SIGKILL)
        try:
            controller.wait(_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            controller.kill()
            wrong.append(f"the controller still ran {_PATIENCE_SECONDS:g} s later")
        if self.node:
            self.node.up()
        return [*wrong, *self._lost(), *self._resumed()], seconds

    def _left(self, controller: int) -> list[str]:
        """But for the controller, which may live on and end by itself."""
        found = orphans.left(self.mark) + orphans.left(f"node-{self.mark}")
        return [one for one in found if int(one.split()[0]) != controller]

    def _kill(self, victim: str, controller: subprocess.Popen[bytes]) -> bool:
        """Whether it was there."""
        if victim == "container":
            return self.node is not None and _podman("kill", self.node.name).returncode == 0
        pids = {
            "controller": lambda: [controller.pid],
            "worker": lambda: orphans.children(controller.pid),
            "module": lambda: self._of_node(lambda line: "python" in line.split()[0]),
            "driver": lambda: self._of_node(lambda line: "stream_kernel-" in line),
        }[victim]()
        try:
            os.kill(pids[-1], signal.SIGKILL)
        except (IndexError, ProcessLookupError):
            return False
        return True

    def _of_node(self, chosen: Callable[[str], bool]) -> list[int]:
        found = [one.partition(" ") for one in orphans.left(f"node-{self.mark}")]
        return [int(pid) for pid, _, line in found if line.strip() and chosen(line)]

    def _ok(self) -> dict[str, float]:
        """Cases that are recorded ok, and when each was written."""
        return {
            str(record["case"]): os.stat(path).st_mtime
            for path, record, _ in records.read_records(str(self.results / RUN))
            if record and record["outcome"] == "ok"
        }

    def _lost(self) -> list[str]:
        """What is wrong with the records after the kill."""
        found = {
            path: problem for path, _, problem in records.read_records(str(self.results / RUN))
        }
        wrong = [f"{path} cannot be read: {problem}" for path, problem in found.items() if problem]
        told = re.findall(r"recorded \w+: (\S+)", self.said())
        return wrong + [f"{path} was recorded and is gone" for path in told if path not in found]

    def _resumed(self) -> list[str]:
        """What is wrong with the run that goes on."""
        kept = self._ok()
        (self.folder / "starts").unlink(missing_ok=True)
        wrong = []
        if self.begin().wait(_PATIENCE_SECONDS):
            wrong.append(f"the run that went on failed: {self.said()[-1500:]}")
        begun = self.folder / "starts"
        measured = sorted(begun.read_text().split()) if begun.exists() else []
        cases = {f"{stores}-t{threads}-none" for stores, threads in _CASES}
        if measured != sorted(cases - set(kept)):
            wrong.append(f"{sorted(kept)} were recorded, and {measured} measured again")
        after = self._ok()
        if set(after) != cases or {case: after[case] for case in kept} != kept:
            wrong.append(f"recorded in the end: {sorted(after)}")
        return wrong + self._lost()
