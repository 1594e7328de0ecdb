"""Everything outside of its file that a repair case touches: the scheduler, Azure, and plays."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from trueup_node.errors import BadInput, TrueupError

from .case import Case
from .impact import Insight, Machine
from .steps import Finding, Way

_MOST_REASON: Final = 300
_SECONDS: Final = 60
_STATE: Final = re.compile(r"\bState=(\S+)")
_REASON: Final = re.compile(r"\bReason=(.*?)(?: \[\S+@\S+\])?$", re.MULTILINE)
# Soft fixes of the dictionary: module and arguments of Ansible.
FIXES: Final[Mapping[str, tuple[str, str]]] = {
    "restart_fabric_manager": (
        "ansible.builtin.systemd_service",
        "name=nvidia-fabricmanager state=restarted",
    ),
    "reset_gpus": ("ansible.builtin.command", "nvidia-smi --gpu-reset"),
    "reboot": ("ansible.builtin.reboot", ""),
}


class Outcome(NamedTuple):
    """The outcome of a test.

    Attributes:
        failed: nothing where the node is well.
        physical_host: as the node tells it; empty where it does not.
    """

    failed: list[Finding]
    physical_host: str


class Collected(NamedTuple):
    """The archive of a node's evidence.

    Attributes:
        physical_host: as the node tells it, empty where it does not. The node's own word on its
            VM's id is not taken: that VM will be deallocated.
    """

    archive: Path
    physical_host: str = ""


class Scheduler(Protocol):
    """Takes nodes out of service."""

    def drained(self, node: str) -> str | None:
        """The reason for which a node is drained; None where it takes jobs."""

    def drain(self, node: str, reason: str) -> None:
        """Give it no new jobs."""

    def resume(self, node: str) -> None:
        """Let it take jobs again."""


class Cloud(Protocol):
    """Takes reports."""

    way: Way

    def machine(self, node: str) -> Machine:
        """The node's VM."""

    def report(self, case: Case, name: str) -> None:
        """Send the case's report under a name, once, however often it is called."""

    def insights(self, case: Case, name: str) -> list[Insight]:
        """Answers to it."""

    def move(self, case: Case) -> None:
        """Bring the node to another host."""


class Plays(Protocol):
    """Runs playbooks on one node."""

    def evidence(self, case: Case, lock: int) -> Collected:
        """Collect the node's evidence."""

    def mend(self, case: Case, lock: int) -> None:
        """Apply the soft fix."""

    def test(self, case: Case, number: str, lock: int) -> str:
        """Test the node again; the run's id."""


class Judge(Protocol):
    """Judges a run."""

    def __call__(self, run: str, case: Case) -> Outcome:
        """The outcome of a run for a case's node.

        Raises:
            BadInput: the run did not measure it.
        """


class Ports(NamedTuple):
    """All of them."""

    scheduler: Scheduler
    cloud: Cloud
    plays: Plays
    judge: Judge


class Slurm:
    """Slurm by its command ``scontrol``.

    Args:
        command: such as ``scontrol``, or ``ssh login scontrol``.
    """

    def __init__(self, command: str = "scontrol") -> None:
        self._argv = shlex.split(command)
        if not self._argv:
            raise BadInput("--scontrol is empty")

    def drained(self, node: str) -> str | None:
        text = self._run("show", "node", node)
        state = _STATE.search(text)
        if not state:
            raise TrueupError(f"scontrol shows no state of node {node}: {text[:200]!r}")
        if not {"DRAIN", "FAIL"} & set(re.split(r"[^A-Z]+", state[1])):
            return None
        reason = _REASON.search(text)
        return (reason[1] if reason else "").strip() or "no reason"

    def drain(self, node: str, reason: str) -> None:
        self._run("update", f"NodeName={node}", "State=DRAIN", f"Reason={reason}")

    def resume(self, node: str) -> None:
        self._run("update", f"NodeName={node}", "State=RESUME")

    def _run(self, *words: str) -> str:
        argv = [*self._argv, *words]
        if self._argv[0] == "ssh":
            # The shell at the other end splits words once more.
            argv = [*self._argv, *map(shlex.quote, words)]
        try:
            done = subprocess.run(
                argv, capture_output=True, text=True, timeout=_SECONDS, check=False
            )
        except FileNotFoundError:
            raise BadInput(
                f"{self._argv[0]} is not on this machine: run it on a login node, or give"
                " --scontrol 'ssh LOGIN scontrol', or --no-scheduler where no jobs are scheduled"
            ) from None
        except (OSError, subprocess.TimeoutExpired) as error:
            raise TrueupError(f"{shlex.join(argv)}: {error}") from None
        if done.returncode:
            output = " ".join((done.stderr or done.stdout).split())[:300]
            raise TrueupError(f"{shlex.join(argv)} ended with {done.returncode}: {output}")
        return done.stdout


class NoScheduler:
    """Nodes that no scheduler gives jobs to."""

    def drained(self, _node: str) -> str | None:
        return None

    def drain(self, node: str, reason: str) -> None:
        """Nobody gives it jobs."""

    def resume(self, node: str) -> None:
        """Nobody gives it jobs."""


class Playbooks:
    """trueup's playbooks by ansible-playbook.

    Args:
        plays: as ``project.plays`` gives them.
        program: ansible-playbook; ``ansible`` lies beside it.
        inventory: of the node.
        results: the folder of results.
        short_check: the benchmarks of a size's short check.
        tell: gets a sentence before a program starts.
    """

    def __init__(
        self,
        plays: tuple[Path, str],
        program: str,
        inventory: str,
        results: Path,
        short_check: Callable[[str], Sequence[str]],
        tell: Callable[[str], None],
    ) -> None:
        (self._project, self._name), self._program = plays, program
        self._inventory = inventory
        self._results, self._short_check, self._tell = results.resolve(), short_check, tell

    def evidence(self, case: Case, lock: int) -> Collected:
        folder = self._results / "evidence"
        before = {item.archive for item in _collected(folder, case.node)}
        self._run(self.evidence_command(case), case, "evidence", lock)
        new = [item for item in _collected(folder, case.node) if item.archive not in before]
        if not new:
            raise TrueupError(f"the playbook evidence left no archive in {folder}")
        return new[-1]

    def evidence_command(self, case: Case) -> list[str]:
        """The command that collects the evidence."""
        return self._playbook("evidence", case, {"trueup_results": str(self._results)})

    def mend(self, case: Case, lock: int) -> None:
        argv = self.mend_command(case)
        self._run(argv, case, "mend", lock)

    def mend_command(self, case: Case) -> list[str]:
        """The command of the soft fix."""
        module, arguments = FIXES[case.opened.soft_fix]
        program = str(Path(self._program).with_name("ansible"))
        argv = [program, case.node, "-i", self._inventory, "-b", "-m", module]
        return [*argv, "-a", arguments] if arguments else argv

    def test(self, case: Case, number: str, lock: int) -> str:
        run_file = self._results / "cases" / f".{case.id}.{number}.run"
        before = self._finished(run_file)
        if before:
            return before
        run_file.unlink(missing_ok=True)
        # The check's status is its verdict, which the records hold too.
        status = self._run(
            self.test_command(case),
            case,
            f"test-{number}",
            lock,
            may_fail=True,
            TRUEUP_RUN_FILE=str(run_file),
        )
        run = self._finished(run_file)
        if not run:
            raise TrueupError(
                f"the check of {case.node} ended with {status} before it measured:"
                f" {self._log(case, f'test-{number}')}"
            )
        return run

    def test_command(self, case: Case) -> list[str]:
        """The command of a test."""
        variables = {
            "trueup_health_benchmarks": self.benchmarks(case),
            "trueup_results": str(self._results),
        }
        return self._playbook("check", case, variables)

    def benchmarks(self, case: Case) -> list[str]:
        """The benchmarks of a test: those that failed, and the size's short check. The check looks
        at the node's parts, counters and log in any case."""
        failed = {finding.benchmark for finding in case.findings} - {"", "node_state"}
        return list(dict.fromkeys([*sorted(failed), *self._short(case)]))

    def _short(self, case: Case) -> Sequence[str]:
        return self._short_check(case.opened.vm_size) if case.opened.vm_size else ()

    def _playbook(self, name: str, case: Case, variables: Mapping[str, Any]) -> list[str]:
        playbook = self._name.format(name)
        if "/" in playbook and not (self._project / playbook).is_file():
            raise BadInput(
                f"{self._project} has no {playbook}: start this command in trueup's checkout, or"
                " by the collection trueup.azure_hpc"
            )
        return [
            *(self._program, "-i", self._inventory, playbook),
            *("--limit", case.node, "-e", json.dumps(variables)),
        ]

    def _finished(self, run_file: Path) -> str:
        """The run in a file, where it measured to its end; else nothing."""
        try:
            run = run_file.read_text(encoding="utf-8").strip()
            manifest = json.loads((self._results / run / "run.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return ""
        ended = isinstance(manifest, dict) and manifest.get("finished_at")
        return run if run and ended else ""

    def _log(self, case: Case, name: str) -> Path:
        return self._results / "cases" / f"{case.id}.{name}.log"

    def _run(
        self,
        argv: Sequence[str],
        case: Case,
        name: str,
        lock: int,
        *,
        may_fail: bool = False,
        **environment: str,
    ) -> int:
        """Run a program to its end. It holds the case's lock too: if this process is killed, no
        second program starts on the node beside it."""
        log = self._log(case, name)
        self._tell(f"{shlex.join(argv)}  (in {self._project}; output in {log})")
        try:
            with log.open("ab") as output:
                begin = output.tell()
                status = subprocess.call(
                    list(argv),
                    cwd=self._project,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **environment},
                    pass_fds=(lock,),
                )
        except OSError as error:
            raise BadInput(f"{argv[0]} cannot be started: {error.strerror}") from None
        if status and not may_fail:
            reason = _reason(log, begin)
            raise TrueupError(f"{Path(argv[0]).name} ended with {status}{reason} (see {log})")
        return status


def _reason(log: Path, begin: int) -> str:
    """The last error that Ansible printed from byte ``begin`` of the log on, shortened."""
    lines = log.read_bytes()[begin:].decode("utf-8", "replace").splitlines()
    errors = [line for line in lines if line.startswith(("ERROR", "[ERROR]", "fatal: ", "FAILED"))]
    return f": {errors[-1][:_MOST_REASON]}" if errors else ""


def _collected(folder: Path, node: str) -> list[Collected]:
    """The archives of a node's evidence, oldest first. One without its description is not whole."""
    archives = []
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
        try:
            description = json.loads(path.read_text(encoding="utf-8"))
            if description["node"] == node:
                archive = folder / Path(str(description["archive"])).name
                host = description["machine"].get("physical_host")
                archives.append(Collected(archive, str(host or "")))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
    return archives


def sha256_of(path: Path) -> str:
    """Of an archive.

    Raises:
        BadInput: it cannot be read.
    """
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from None
