"""A command as a Slurm job: submitted, waited for, cancelled when it must not go on.

Written against Slurm 22.05 (Debian 12); ``scontrol --oneliner show job`` prints key=value words, of
which JobState, Reason, ExitCode, RunTime and BatchHost are read (slurm.schedmd.com/scontrol.html).
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import time
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from ..errors import ParseError
from ..reading import MOST_BYTES
from . import output_buffer, process
from .orphan_guard import Lineage, Orphaned, regardless

# Where sbatch is told to put the job's outputs; %j is the job's number.
OUTPUT = "trueup-%j.out"
ERRORS = "trueup-%j.err"

_COMMAND_SECONDS = 60.0
# slurmctld may be restarted while a job runs.
_SILENT_SECONDS = 120.0
# After its end a job's output may take this long to show over NFS.
_OUTPUT_SECONDS = 30.0
# While it runs, whether its output shows here at all: a prologue may take minutes, and NFS shows a
# new file within one.
_UNSEEN_SECONDS = 300.0
_END_SECONDS = 90.0
# A node that does not answer slurmctld for this long is taken for lost: one under load may miss a
# ping, and Slurm's own SlurmdTimeout is 300 s unless a site sets another.
_LOST_SECONDS = 60.0
_POLL_SECONDS = 1.0
_WAITING = (
    *("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD"),
    *("SPECIAL_EXIT", "RESV_DEL_HOLD"),
)
# Whatever else Slurm says is a job that has not ended.
_ENDED = (
    *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL"),
    *("OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT"),
)
# States of a node (sinfo --Format=StateLong, without the marks below) that a rank of it is lost in,
_DEAD = ("down", "error", "powered_down", "powering_down", "power_down", "future")
# and those that it takes no new job in; its running jobs go on.
_CLOSED = ("drained", "draining", "fail", "failing", "inval", "unknown", "reboot", "maint")
_MARKS = "*~#!%$@^-+"
# Of this process' environment: where Slurm is and who the user is. The rest of Slurm's variables
# would change the job: they are those of a job around it, and a user's own defaults for its
# commands.
_SETTINGS = ("SLURM_", "SBATCH_", "SCANCEL_", "SINFO_")
_KEPT = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT")


@dataclass(frozen=True)
class State:
    """Slurm's state of a job.

    Attributes:
        name: JobState: PENDING, RUNNING, COMPLETED, FAILED, NODE_FAIL, ...
        reason: why it waits, or why it ended; None where Slurm gives none.
        status: the batch script's exit status.
        signal: the signal that ended it, 0 for none.
        host: the node that its batch script was given; None where it got none.
        seconds: how long it has run; None where Slurm does not say.
    """

    name: str
    reason: Optional[str]
    status: int
    signal: int
    host: Optional[str] = None
    seconds: Optional[float] = None

    @property
    def waits(self) -> bool:
        """Whether it has not started."""
        return self.name in _WAITING

    @property
    def ended(self) -> bool:
        """Whether nothing of it runs or will run."""
        return self.name in _ENDED

    @property
    def goes(self) -> bool:
        """Whether it runs, or is being ended."""
        return not self.waits and not self.ended


def parse_state(text: str) -> State:
    """Read ``scontrol --oneliner show job``.

    Raises:
        ParseError: no JobState or ExitCode in it.
    """
    words: Dict[str, str] = {}
    # A job's name stands before them, its comment after: both may hold blanks and such words.
    match = re.search(r"\sJobState=\S+\sReason=.*", text)
    for name, value in re.findall(r"\s([A-Za-z]+)=(\S*)", match.group() if match else ""):
        words.setdefault(name, value)
    ended = re.fullmatch(r"(\d+):(\d+)", words.get("ExitCode", ""), re.ASCII)
    if not ended:
        raise ParseError(f"scontrol's answer has no JobState and ExitCode: {text.strip()[:200]!r}")
    reason = words.get("Reason", "None")
    return State(
        name=words["JobState"],
        reason=None if reason in ("None", "") else reason,
        status=int(ended.group(1)),
        signal=int(ended.group(2)),
        host=words.get("BatchHost") or None,
        seconds=_seconds(words.get("RunTime", "")),
    )


def _seconds(text: str) -> Optional[float]:
    """Of a time as in 1-02:03:04."""
    match = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d\d):(\d\d)", text, re.ASCII)
    if not match:
        return None
    days, hours, minutes, seconds = (int(number or 0) for number in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def parse_nodes(text: str) -> Dict[str, str]:
    """Read ``sinfo --Node --noheader --format='%N|%T'``: node to state, each once."""
    states: Dict[str, str] = {}
    for line in text.splitlines():
        name, separator, state = line.strip().partition("|")
        if separator:
            states[name] = state
    return states


def lost(hosts: Sequence[str], *, commands: str, names: Mapping[str, str]) -> List[str]:
    """Of each of ``hosts`` that Slurm cannot start a job on now, a sentence.

    Args:
        hosts: Slurm's names; empty leaves the choice to Slurm.
        commands: folder of Slurm's commands; empty means PATH.
        names: the records' names of the hosts.
    """
    for name in ("sbatch", "scontrol", "scancel", "sinfo"):
        program = _program(commands, name)
        if shutil.which(program) is None:
            where = "" if commands else " on PATH"
            return [f"launcher slurm needs {program}, which is not{where or ' there'}"]
    try:
        return _unfit(hosts, _DEAD + _CLOSED, commands=commands, names=names)
    except ParseError as error:
        return [f"Slurm does not say how its nodes are: {error}"]


def _unfit(
    hosts: Sequence[str],
    bad: Sequence[str],
    *,
    commands: str,
    names: Mapping[str, str],
) -> List[str]:
    """Of each of ``hosts`` in one of the states ``bad``, or that does not answer, a sentence.

    Raises:
        ParseError: Slurm does not say.
    """
    if not hosts:
        return []
    argv = [_program(commands, "sinfo"), "--Node", "--noheader", "--format=%N|%T"]
    states = parse_nodes(_told([*argv, f"--nodes={','.join(hosts)}"]))
    problems = []
    for host in hosts:
        state = states.get(host)
        if state is None:
            problems.append(f"node {names.get(host, host)} is not known to Slurm")
        elif state.endswith("*") or state.rstrip(_MARKS) in bad:
            problems.append(f"node {names.get(host, host)} is {state} in Slurm")
    return problems


def run(
    argv: Sequence[str],
    *,
    timeout_seconds: float,
    queue_seconds: float,
    environment: Mapping[str, str],
    directory: str,
    commands: str,
    names: Mapping[str, str],
) -> process.Completed:
    """Submit ``argv`` (of sbatch, with --parsable) and wait for the end of its job.

    Whatever ends this function but the job's own end cancels the job.

    Args:
        timeout_seconds: how long the job may run; waiting for its nodes does not count.
        queue_seconds: how long it may wait.
        environment: variables for sbatch, which passes them on.
        directory: where OUTPUT and ERRORS are.
        commands: folder of Slurm's commands; empty means PATH.
        names: Slurm's names of the nodes to those of records.

    Returns:
        The job's output and how it ended; ``seconds`` is the time that it ran.

    Raises:
        OSError: sbatch cannot be run.
        Orphaned: this process was interrupted, or whoever started it is gone; the job was
            cancelled.
    """
    outputs = _Outputs(directory)
    job = _Job(commands, dict(names))
    with job:
        refused = job.submit(argv, environment)
        if refused:
            return refused
        reason = job.wait(timeout_seconds, queue_seconds, outputs)
    return job.completed(argv, outputs, reason)


class _Forgotten(ParseError):
    """Slurm has no job of this number."""


class _Job:
    """A job of ours; it is cancelled when the block is left before its end."""

    def __init__(self, commands: str, names: Mapping[str, str]) -> None:
        self._commands = commands
        self._names = names
        self._watch = Lineage()
        self._notice = process.notices()
        self._before: Dict[int, Any] = {}
        self._number = ""
        self._interrupt: Optional[str] = None
        self._over = False
        self._unserved = False
        self._submitted = self._answered = 0.0
        self._gone_since: Optional[float] = None
        # Why it may still run after being cancelled.
        self._left: Optional[str] = None
        self.state = State("PENDING", None, 0, 0)
        self.started: Optional[float] = None
        self.seconds = 0.0
        self.timed_out = False

    def __enter__(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                self._before[number] = signal.signal(number, self._interrupted)

    def __exit__(self, _kind: object, error: Optional[BaseException], _trace: object) -> None:
        # A second signal must not keep the job from being cancelled.
        for number in self._before:
            signal.signal(number, signal.SIG_IGN)
        try:
            if self._number and not self._over:
                self._cancel()
        finally:
            for number, handler in self._before.items():
                signal.signal(number, handler)
        if isinstance(error, Orphaned) and self._number:
            raise Orphaned(
                f"{error}; Slurm job {self._number} {self._left or 'was cancelled'}"
            ) from None

    def _interrupted(self, number: int, _frame: object) -> None:
        self._interrupt = f"interrupted by {signal.Signals(number).name}"
        # Before its number is known it cannot be cancelled.
        if self._number:
            raise Orphaned(self._interrupt)

    def submit(
        self, argv: Sequence[str], environment: Mapping[str, str]
    ) -> Optional[process.Completed]:
        """Hand it to sbatch; returns how that failed where there is no job."""
        self._watch.check()
        with _alone():
            submission = process.run(
                argv, timeout_seconds=_COMMAND_SECONDS, environment=environment
            )
        # A site's own wrapper may say more than --parsable prints.
        taken = re.findall(r"(?m)^([0-9]+)(?:;\S*)?\s*$", submission.stdout)
        if taken:
            self._number = taken[-1]
        if self._interrupt:
            raise Orphaned(self._interrupt)
        if self._number:
            return None
        reason = submission.printable().tail(1) or f"exit status {submission.returncode}"
        if submission.timed_out:
            reason = (
                f"{submission.failure(_COMMAND_SECONDS)}; squeue shows whether it did all the same"
            )
        return process.Completed(
            argv=tuple(argv),
            returncode=submission.returncode or 1,
            stdout=submission.stdout,
            stderr=submission.stderr,
            seconds=submission.seconds,
            timed_out=False,
            out_of_memory=False,
            reason=f"Slurm did not take the job: {reason}",
        )

    def wait(
        self, timeout_seconds: float, queue_seconds: float, outputs: _Outputs
    ) -> Optional[str]:
        """Until the job has ended: None; or until it must not go on: why."""
        self._submitted = self._answered = time.monotonic()
        while True:
            silent = self._look()
            now = time.monotonic()
            if not silent and self._clocked(now):
                return None
            reason = silent or self._late(now, queue_seconds, timeout_seconds) or self._lost(now)
            reason = (
                (self._notice and self._notice.seen) or reason or outputs.too_long(self._number)
            )
            reason = reason or self._unseen(now, outputs)
            if reason:
                return reason
            # Slurm is asked seldom where a job takes long, and whoever waits for it is not.
            for _ in range(1 if now - self._submitted < 60 else 5):
                self._watch.check()
                time.sleep(_POLL_SECONDS)

    def _look(self) -> str:
        """Ask how it is; why nobody can say, where that has lasted."""
        try:
            self.state = self._ask()
            self._answered = time.monotonic()
        except _Forgotten as error:
            self._over = True
            return f"Slurm does not know it any more ({error})"
        except ParseError as error:
            if time.monotonic() - self._answered > _SILENT_SECONDS:
                return f"Slurm said nothing of it for {_SILENT_SECONDS:.0f} s ({error})"
        return ""

    def _late(self, now: float, queue_seconds: float, timeout_seconds: float) -> str:
        """Why its time is over: that of waiting, or of running."""
        if self.state.waits and now - self._submitted > queue_seconds:
            self._unserved = True
            return (
                f"it was still {self.state.name} after {queue_seconds:g} s"
                f" (Slurm's reason: {self.state.reason or 'none'})"
            )
        # A node's epilogue is no part of the run; but it may never end.
        more = _END_SECONDS if self.state.name == "COMPLETING" else 0.0
        if self.started is not None and now - self.started > timeout_seconds + more:
            self.timed_out = True
            return f"it was ended at its time limit of {timeout_seconds:g} s"
        return ""

    def _lost(self, now: float) -> str:
        """Which of its nodes have been gone for long. While it waits, Slurm may still be waking
        nodes up."""
        dead_nodes = self._dead() if self.state.goes else []
        self._gone_since = (self._gone_since or now) if dead_nodes else None
        lasted = self._gone_since and now - self._gone_since > _LOST_SECONDS
        return "; ".join(dead_nodes) if lasted else ""

    def _unseen(self, now: float, outputs: _Outputs) -> str:
        """Why a job that has run for long is not let run on unseen."""
        late = self.started is not None and now - self.started > _UNSEEN_SECONDS
        return outputs.missing() if late and not outputs.shown(self._number) else ""

    def _clocked(self, now: float) -> bool:
        """Keep its time; whether it has ended."""
        state = self.state
        if state.goes and self.started is None:
            self.started = now
        if self.started is not None and state.name != "COMPLETING" and not state.ended:
            self.seconds = now - self.started
        if state.ended:
            self._over = True
            # Slurm's own count leaves out how long we took to notice.
            self.seconds = state.seconds or self.seconds
        return state.ended

    def _dead(self) -> List[str]:
        # Its silence is counted where the job is asked for.
        with contextlib.suppress(ParseError):
            return self._unfit(_DEAD)
        return []

    def _unfit(self, bad: Sequence[str]) -> List[str]:
        return _unfit(list(self._names), bad, commands=self._commands, names=self._names)

    def _ask(self) -> State:
        show = [_program(self._commands, "scontrol"), "--oneliner", "show", "job"]
        try:
            return parse_state(_told([*show, self._number]))
        except ParseError as error:
            if "Invalid job id" in str(error):
                raise _Forgotten(str(error)) from None
            raise

    def _cancel(self) -> None:
        deadline = time.monotonic() + _END_SECONDS
        is_requested, reason = False, ""
        # Nothing of it must disturb the next one.
        while True:
            try:
                if not is_requested:
                    _told([_program(self._commands, "scancel"), self._number])
                    is_requested = True
                self.state = self._ask()
                if self.state.ended:
                    return
                reason = f"it was still {self.state.name} {_END_SECONDS:.0f} s after"
            except _Forgotten:
                return
            except ParseError as error:
                reason = str(error)
            if time.monotonic() > deadline:
                self._left = f"could not be cancelled and may still run ({reason})"
                return
            time.sleep(_POLL_SECONDS)

    def completed(
        self, argv: Sequence[str], outputs: _Outputs, reason: Optional[str]
    ) -> process.Completed:
        """How it ended, with its output."""
        state = self.state
        returncode = -state.signal or state.status
        ran = self.started is not None or (reason is None and state.host is not None)
        is_completed = state.name == "COMPLETED"
        if reason is None and not is_completed:
            reason = (self._notice and self._notice.seen) or self._ending()
        out, err = (
            outputs.read(self._number)
            if ran or is_completed
            else (None, output_buffer.BufferedOutput())
        )
        if reason is None and out is None:
            reason = outputs.missing()
        reason = self._at_last(reason)
        return process.Completed(
            argv=tuple(argv),
            returncode=returncode or int(bool(reason)),
            stdout=out.text if out else "",
            stderr=err.text,
            seconds=self.seconds,
            timed_out=self.timed_out,
            out_of_memory=state.name == "OUT_OF_MEMORY",
            reason=f"Slurm job {self._number}: {reason}" if reason else None,
            warnings=tuple(self._notice.close() if self._notice else ()),
            cut=process.told_cut(
                "the job", out or output_buffer.BufferedOutput(), err, most=MOST_BYTES
            ),
        )

    def _at_last(self, reason: Optional[str]) -> Optional[str]:
        # It may have got its nodes while it was being cancelled.
        if self._unserved and self.state.host is None:
            reason = f"{reason}, and never ran"
        return f"{reason}; it {self._left}" if reason and self._left else reason

    def _ending(self) -> str:
        """How a job ended that did not complete, and problems of the nodes that it waited for."""
        state = self.state
        reason = f"it ended {state.name}"
        reason += f" with exit status {state.status}" if state.status else ""
        reason += f" by {_signal(state.signal)}" if state.signal else ""
        reason += f" ({state.reason})" if state.reason else ""
        with contextlib.suppress(ParseError):
            reason += "".join(f"; {sentence}" for sentence in self._unfit(_DEAD + _CLOSED))
        return reason


class _Outputs:
    """The outputs of jobs in a shared folder.

    A new cluster counts its jobs from 1 again: files from before a job are another one's.
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self._before: Dict[str, Tuple[int, ...]] = {}
        with contextlib.suppress(OSError):
            for entry in os.scandir(directory):
                if entry.name.startswith("trueup-"):
                    with contextlib.suppress(OSError):
                        self._before[entry.name] = _print(entry.stat())

    def too_long(self, number: str) -> str:
        """Of a job that fills the shared folder, why it must not go on."""
        for path, size in self._sizes(number):
            if size > MOST_BYTES:
                return f"it printed more than {MOST_BYTES >> 20} MiB into {path}"
        return ""

    def shown(self, number: str) -> bool:
        """Whether anything of a job's output is here; Slurm makes its files as the job starts."""
        # A listing makes an NFS client look again.
        with contextlib.suppress(OSError):
            os.listdir(self.directory)
        return bool(list(self._sizes(number)))

    def missing(self) -> str:
        """The message for a job whose output is not here."""
        return f"its output is not to be seen in {self.directory} here: is the folder shared?"

    def _sizes(self, number: str) -> Iterator[Tuple[str, int]]:
        """Path and bytes of each output of a job that is here."""
        for name in (OUTPUT, ERRORS):
            path = os.path.join(self.directory, name.replace("%j", number))
            with contextlib.suppress(OSError):
                status = os.stat(path)
                if _print(status) != self._before.get(os.path.basename(path)):
                    yield path, status.st_size

    def read(
        self, number: str
    ) -> Tuple[Optional[output_buffer.BufferedOutput], output_buffer.BufferedOutput]:
        """The job's output, None where there is none to be seen, and its errors."""
        deadline = time.monotonic() + _OUTPUT_SECONDS
        while True:
            out, err = (self._own(name.replace("%j", number)) for name in (OUTPUT, ERRORS))
            if (out is not None and err is not None) or time.monotonic() > deadline:
                return out, err or output_buffer.BufferedOutput()
            # A listing makes an NFS client look again.
            with contextlib.suppress(OSError):
                os.listdir(self.directory)
            time.sleep(_POLL_SECONDS)

    def _own(self, name: str) -> Optional[output_buffer.BufferedOutput]:
        with contextlib.suppress(OSError), open(os.path.join(self.directory, name), "rb") as stream:
            if _print(os.fstat(stream.fileno())) != self._before.get(name):
                return output_buffer.of_file(stream)
        return None


def _print(status: os.stat_result) -> Tuple[int, ...]:
    return status.st_ino, status.st_size, status.st_mtime_ns


def _told(argv: Sequence[str]) -> str:
    """The output of one of Slurm's commands.

    Raises:
        ParseError: nothing of use, and why.
    """
    name = os.path.basename(argv[0])
    try:
        with _alone():
            completed = process.run(argv, timeout_seconds=_COMMAND_SECONDS, environment={})
    except OSError as error:
        raise ParseError(f"{name} cannot be run: {error.strerror}") from None
    failure = completed.failure(_COMMAND_SECONDS)
    if failure:
        raise ParseError(
            failure if completed.timed_out else completed.printable().tail(1) or failure
        )
    return completed.stdout


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """For Slurm's commands: a signal that ends the job must not end the command that cancels it."""
    with _neutral(), process.evictable(None), regardless():
        yield


@contextlib.contextmanager
def _neutral() -> Iterator[None]:
    names = [name for name in os.environ if name.startswith(_SETTINGS) and name not in _KEPT]
    taken = {name: os.environ.pop(name) for name in names}
    try:
        yield
    finally:
        os.environ.update(taken)


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _program(commands: str, name: str) -> str:
    return os.path.join(commands, name) if commands else name
