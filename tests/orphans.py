"""Kill the controller between the fork of a benchmark's task and just after its driver's start.

``python tests/orphans.py --start slurm --count 100`` says how many processes were left 5 s later.
All run here: ``stand_ins`` has stand-ins of Slurm's commands that start and end a process,
``slurm`` a Slurm of its own (loopback_slurm.py), and ``ssh`` an sshd of its own (loopback_sshd.py),
whose sessions have the mark. ``beside`` is a case that is begun by ssh and runs beside the next
task.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import loopback_slurm
import loopback_sshd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

ROOT = Path(__file__).resolve().parent.parent
NAME = "TRUEUP_ORPHAN"
LEFT_SECONDS = 5.0
STARTS = ("local", "ssh", "beside", "slurm", "stand_ins")
_PATIENCE_SECONDS = 60.0

# A child in a session of its own, as ranks of MPI may be.
_DRIVER = """#!/bin/sh
setsid sleep 617 &
touch {folder}/driving
exec sleep 618
"""
_SLURM = {
    "sbatch": "touch {folder}/asked; echo 7",
    "scontrol": """state=CANCELLED; [ -e {folder}/job ] || state=PENDING
kill -0 "$(cat {folder}/job)" 2>/dev/null && state=RUNNING
echo "JobId=7 JobName=x JobState=$state Reason=None ExitCode=0:0 RunTime=00:00:01 BatchHost=n1" """,
    "sinfo": "echo 'n1|idle'",
    "scancel": "rm -f {folder}/asked; touch {folder}/cancel",
}
# Of a case that runs beside other tasks, what waits for it.
_WAIT = """      register: begun
    - trueup_measure: {{benchmark: devito, case: {case}, begun: "{{{{ begun.begun }}}}"}}
"""
_PLAY = """
- hosts: node
  gather_facts: false
  vars: {{trueup_run_id: 20261123T140001Z-cafe, trueup_results: {folder}/results}}
  tasks:
    - ansible.builtin.file: {{path: {folder}/begun, state: touch, mode: "0644"}}
    - trueup_measure:
        benchmark: devito
        case: {case}
        beside: {beside}
"""


class Attack:
    """One play of one benchmark, whose controller is killed."""

    def __init__(self, folder: Path, start: str, host: dict[str, Any], mark: str) -> None:
        self.folder, self.mark, self.over = folder, mark or secrets.token_hex(8), False
        case: dict[str, Any] = {
            "prefix": str(folder),
            "program": str(folder / "driver"),
            "timeout_seconds": 900,
        }
        self.slurm = start == "slurm"
        if start in ("slurm", "stand_ins"):
            node = os.uname().nodename.split(".")[0] if self.slurm else "n1"
            case |= {"launcher": "slurm", "nodes": [node], "job_directory": str(folder)}
            case |= {} if self.slurm else {"launcher_path": str(folder)}
        programs = {"driver": _DRIVER.removeprefix("#!/bin/sh\n"), **_SLURM}
        for name, text in programs.items():
            (folder / name).write_text("#!/bin/sh\n" + text.format(folder=folder) + "\n")
            (folder / name).chmod(0o755)
        play = _PLAY + (_WAIT if start == "beside" else "")
        told = {"folder": folder, "case": json.dumps(case), "beside": start == "beside"}
        (folder / "play.yml").write_text(play.format(**told))
        variables = host or {"ansible_connection": "local"}
        variables = {"ansible_python_interpreter": sys.executable, **variables}
        threading.Thread(target=self._slurmd, daemon=True).start()
        (folder / "hosts.json").write_text(json.dumps({"all": {"hosts": {"node": variables}}}))

    def _slurmd(self) -> None:
        """Start what sbatch has asked for, a process that is no descendant of who asked, and end
        it with all that it started where scancel asks."""
        mark = "job-" + self.mark
        while not self.over:
            time.sleep(0.02)
            with contextlib.suppress(FileNotFoundError):
                (self.folder / "asked").unlink()
                job = subprocess.Popen(
                    [str(self.folder / "driver")],
                    env={**os.environ, NAME: mark},
                    stdout=subprocess.DEVNULL,
                    start_new_session=True,
                )
                (self.folder / "job").write_text(str(job.pid))
                while not (self.folder / "cancel").exists() and not self.over:
                    time.sleep(0.02)
                _end(left(mark))
                job.wait()

    def begin(self) -> subprocess.Popen[bytes]:
        """Until the benchmark's task is next."""
        environment = {
            **os.environ,
            NAME: self.mark,
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(self.folder / "facts"),
            "TRUEUP_RESULTS": str(self.folder / "results"),
            "TRUEUP_LOCKS": str(self.folder),
            # What is said must be in the log at once without it.
            "PYTHONUNBUFFERED": "",
        }
        playbook = str(Path(sys.executable).with_name("ansible-playbook"))
        log = (self.folder / "log").open("w")
        controller = subprocess.Popen(
            [playbook, "-i", str(self.folder / "hosts.json"), str(self.folder / "play.yml")],
            cwd=ROOT,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )
        self.until("begun")
        return controller

    def until(self, name: str) -> None:
        self._wait(name, (self.folder / name).exists)

    def until_said(self, text: str) -> str:
        """What the controller has said, on one line, once it has said this."""
        self._wait(text, lambda: text in self._said())
        return self._said()

    def _said(self) -> str:
        return " ".join((self.folder / "log").read_text().split())

    def _wait(self, what: str, is_there: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not is_there():
            if time.monotonic() > deadline:
                raise SystemExit(f"{what}: waited in vain; {(self.folder / 'log').read_text()}")
            time.sleep(0.005)

    def left(self) -> list[str]:
        """What has the mark, or that of the job."""
        found = left(self.mark) + left("job-" + self.mark)
        if self.slurm:
            queue = loopback_slurm.told("squeue", "--noheader", "--format=job %i is %T")
            found += queue.splitlines()
        return found

    def kill(self, delay: float, whom: str = "controller") -> tuple[bool, float, list[str]]:
        """Whether the driver had started, how long until nothing was left, and what is after
        LEFT_SECONDS; that is ended then."""
        controller = self.begin()
        time.sleep(delay)
        victims = [controller.pid]
        if whom == "worker":
            victims = children(controller.pid) or victims
        started = (self.folder / "driving").exists()
        for victim in victims:
            os.kill(victim, signal.SIGKILL)
        if whom == "controller":
            controller.wait()
        killed = time.monotonic()
        while (rest := self.left()) and time.monotonic() - killed < LEFT_SECONDS:
            time.sleep(0.05)
        took = time.monotonic() - killed
        # Late, or for ever?
        while rest and self.left() and time.monotonic() - killed < _PATIENCE_SECONDS:
            time.sleep(0.05)
        if rest and not self.left():
            rest.append(f"gone after {time.monotonic() - killed:.1f} s")
        _end(self.left())
        self.over = True
        controller.kill()
        controller.wait()
        return started, took, rest


def left(mark: str) -> list[str]:
    """Processes with that mark, also of a session of ssh; not a connection that ssh keeps."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "environ").read_bytes().split(b"\0")
            line = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            state = (place / "stat").read_text().rpartition(")")[2].split()[0]
        except (OSError, IndexError):
            continue
        if f"{NAME}={mark}".encode() in words and state != "Z" and "[mux]" not in line:
            found.append(f"{place.name} {line[:120]}")
    return found


def _end(found: list[str]) -> None:
    for one in found:
        if one.startswith("job "):
            subprocess.run(["scancel", "--signal=KILL", one.split()[1]], check=False)
            continue
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(one.split()[0]), signal.SIGKILL)


def children(parent: int) -> list[int]:
    """Processes that this one started."""
    told = Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="ascii")
    return [int(pid) for pid in told.split()]


def window(start: str, host: dict[str, Any], mark: str) -> float:
    """How long it takes from the task's begin to the driver's, in seconds."""
    with tempfile.TemporaryDirectory() as folder:
        attack = Attack(Path(folder), start, host, mark)
        controller = attack.begin()
        begun = time.monotonic()
        attack.until("driving")
        took = time.monotonic() - begun
        controller.kill()
        controller.wait()
        deadline = time.monotonic() + LEFT_SECONDS
        while (rest := attack.left()) and time.monotonic() < deadline:
            time.sleep(0.05)
        _end(rest)
        attack.over = True
        return took


def attacks(
    start: str,
    count: int,
    *,
    whom: str = "controller",
    seed: int = 0,
    moments: Sequence[float] = (),
) -> list[tuple[float, bool, float, list[str]]]:
    """Of each kill: after how long, whether the driver ran, how long until all was gone, the
    rest. ``moments`` are parts of the time until the driver starts; random ones without any."""
    chance = random.Random(seed)
    found = []
    with node(start) as (host, mark):
        whole = window(start, host, mark)
        for part in moments or [chance.uniform(0, 1.2) for _ in range(count)]:
            delay = part * whole
            with tempfile.TemporaryDirectory() as folder:
                attack = Attack(Path(folder), start, host, mark)
                found.append((delay, *attack.kill(delay, whom)))
    return found


@contextlib.contextmanager
def node(start: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Variables of the node, and the mark that its sessions have; empty where none must."""
    if start == "slurm":
        with loopback_slurm.serving():
            yield {}, ""
        return
    if start not in ("ssh", "beside"):
        yield {}, ""
        return
    mark = secrets.token_hex(8)
    with tempfile.TemporaryDirectory() as locks:
        environment = {NAME: mark, "TRUEUP_LOCKS": locks}
        with loopback_sshd.serving(environment) as host:
            yield host, mark


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--start", choices=STARTS, default="local")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--whom", choices=("controller", "worker"), default="controller")
    parser.add_argument("--seed", type=int, default=0)
    given = vars(parser.parse_args())
    done = attacks(**given)
    for delay, started, _, rest in done:
        if rest:
            print(f"{delay:.3f} s, driver {'ran' if started else 'had not started'}: {rest}")
    early = sum(not one[1] for one in done)
    last = max((one[2] for one in done if not one[3]), default=0.0)
    print(
        f"{given['start']}, {given['whom']}: {len(done)} kills, {early} before the driver's start;"
        f" {sum(bool(one[3]) for one in done)} left something after {LEFT_SECONDS:g} s,"
        f" the others nothing after {last:.1f} s"
    )


if __name__ == "__main__":
    main()
