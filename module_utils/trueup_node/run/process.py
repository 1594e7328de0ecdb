"""Run a benchmark so that it ends: with a time limit, and with nothing of it left behind.

``AnsibleModule.run_command`` has no time limit and waits for whoever still holds the pipe. Here
output is kept up to a limit (kept.py), every descendant is ended with the command (also one that
left its process group, as MPI ranks may), and the run is ended when whoever asked for it is gone:
a benchmark that nobody will read must not disturb the next one.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from ..node import events
from ..printable import printable
from ..reading import MOST_BYTES
from . import mpi_files, sentinel
from .orphan_guard import Lineage, Orphaned, die_with, prctl, proc_stat
from .output_buffer import BufferedOutput, Pipe

_PR_SET_CHILD_SUBREAPER = 36
_POLL_SECONDS = 0.05
# GOMP, KMP: variables that gcc's and LLVM's OpenMP read beside OMP_; PMIX, PRTE: Open MPI's
# launcher; UCX and the others below: libraries with which it and NCCL send data. /etc/nccl.conf
# stays in force.
_STEERING = (
    *("OMP_", "GOMP_", "KMP_", "OMPI_", "PMIX_", "PRTE_", "DEVITO_", "GMX_"),
    *("NCCL_", "UCX_", "HCOLL_", "SHARP_", "GLOO_", "TORCH_", "VLLM_"),
)
_WATCH_SECONDS = 1.0
# How often other nodes are asked while a run over several goes on; asking costs each some 20 ms.
_ASK_SECONDS = 30.0
# Between being asked to end, at the time limit, and being killed.
_GRACE_SECONDS = 3.0
# The same before an eviction: some programs write a checkpoint. The rest of its 30 s is the
# record's.
_NOTICE_SECONDS = 20.0


@dataclass(frozen=True)
class Completed:
    """How a command ended.

    Attributes:
        argv: the command as run.
        returncode: its exit status; negative is the signal that ended it.
        stdout: its standard output, undecodable bytes replaced.
        stderr: its standard error, likewise.
        seconds: wall time.
        timed_out: it was ended at the time limit.
        out_of_memory: the kernel's out-of-memory killer ended a process on this machine while it
            ran.
        reason: why it ended, where more is known than the exit status tells.
        warnings: events that could not be watched while it ran.
        beside: the output of the command that ran beside it.
        cut: of each output that was too long to be kept whole, a sentence; no parser may read it.
    """

    argv: Tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str = ""
    seconds: float = 0.0
    timed_out: bool = False
    out_of_memory: bool = False
    reason: Optional[str] = None
    warnings: Tuple[str, ...] = ()
    beside: str = ""
    cut: Tuple[str, ...] = ()

    def failure(self, timeout_seconds: float) -> Optional[str]:
        """Why the run counts as failed, as one sentence, or None when it ended with status 0 and
        its output is whole."""
        how = self._ended(timeout_seconds)
        return "; ".join(([how] if how else []) + list(self.cut)) or None

    def _ended(self, timeout_seconds: float) -> Optional[str]:
        name = os.path.basename(self.argv[0])
        if self.reason:
            return self.reason
        if self.timed_out:
            return f"{name} was ended at its time limit of {timeout_seconds:g} s"
        if self.returncode == 0:
            return None
        number = -self.returncode if self.returncode < 0 else self.returncode - 128
        try:
            how = f"was killed by {signal.Signals(number).name}"
        except ValueError:
            how = f"ended with exit status {self.returncode}"
        if self.out_of_memory:
            how += "; the kernel's out-of-memory killer acted while it ran"
        return f"{name} {how} after {self.seconds:.1f} s"

    def printable(self) -> Completed:
        """The same without credentials, and without the middle of a long output."""
        return replace(
            self,
            stdout=printable(self.stdout),
            stderr=printable(self.stderr),
            beside=printable(self.beside),
        )

    def tail(self, lines: int = 50) -> str:
        """The last lines of both outputs, for an error message."""
        return "\n".join((self.stdout + "\n" + self.stderr).strip().splitlines()[-lines:])


def run(
    argv: Sequence[str],
    *,
    timeout_seconds: float,
    environment: Mapping[str, str],
    cwd: Optional[str] = None,
    watch: Optional[Callable[[], Sequence[str]]] = None,
    beside: Sequence[str] = (),
    folder: str = "",
) -> Completed:
    """Run ``argv`` for at most ``timeout_seconds`` with ``environment`` added to our own.

    ``beside`` is a command that runs as long as it does, such as one that samples a GPU; where it
    cannot be run, this is a warning. ``folder`` is the case's own, for the files of
    Open MPI: it is removed also where this process is killed.

    Inherited variables that steer OpenMP, MPI, NCCL or Devito are left out: they would change the
    figures without standing in the record. When this returns, every process that the command
    started is gone.

    Raises:
        OSError: the program cannot be started.
        Orphaned: whoever started this process is gone, or a signal came.
    """
    prctl(
        _PR_SET_CHILD_SUBREAPER, 1
    )  # descendants that lose their parent become ours, so that we can end them
    lineage = Lineage()
    lineage.check()
    kills_before = _oom_kills()
    reason: Optional[str] = None
    started = time.monotonic()
    out, err, more = pipes = (Pipe(), Pipe(), Pipe())
    with _interruptible(), contextlib.ExitStack() as opened:
        for pipe in pipes:
            opened.callback(pipe.drop)
        mark = sentinel.new_mark()
        opened.enter_context(sentinel.watching(mark, folder))
        files = mpi_files.variables(folder) if folder else {}
        marked = {**_neutral(os.environ), **files, **environment, sentinel.NAME: mark}
        child = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=out.end,
            stderr=err.end,
            cwd=cwd,
            env=marked,
            start_new_session=True,
            # Two system calls, whose library is loaded.
            preexec_fn=functools.partial(die_with, os.getpid()),  # noqa: PLW1509 WHY: see above
        )
        companion, unwatched = _beside(beside, more, marked)
        # Threads only now: one that is started by fork must not find another's locks taken.
        for pipe in pipes:
            pipe.start()
        notice = notices()
        timed_out = False
        try:
            try:
                timed_out = not _wait(child, started + timeout_seconds, lineage, watch, notice)
            except _Ended as ended:
                reason = str(ended)
            if timed_out or reason:
                # The ranks of mpirun on other nodes are not its children: it has to be asked.
                child.terminate()
                grace = _NOTICE_SECONDS if notice and notice.seen else _GRACE_SECONDS
                _wait(child, time.monotonic() + grace, lineage)
        finally:
            warnings = notice.close() if notice else []
            _end_descendants()
            child.wait()
            if companion:
                companion.wait()
            seconds = time.monotonic() - started
        if notice and child.returncode != 0:
            # The node that goes may have ended it before it was seen here.
            reason = notice.seen or reason
        outputs = [pipe.close() for pipe in pipes]
        return Completed(
            argv=tuple(argv),
            returncode=child.returncode,
            stdout=outputs[0].text,
            stderr=outputs[1].text,
            seconds=seconds,
            timed_out=timed_out,
            out_of_memory=_oom_kills() > kills_before,
            reason=reason,
            warnings=(*warnings, *unwatched),
            beside=outputs[2].text,
            cut=told_cut(argv[0], outputs[0], outputs[1], most=MOST_BYTES)
            + told_cut((beside or [""])[0], outputs[2], most=MOST_BYTES),
        )


def told_cut(program: str, *outputs: BufferedOutput, most: int) -> Tuple[str, ...]:
    """Of each of a program's outputs that is not whole, since it has more than ``most`` bytes, a
    sentence; the second is its standard error."""
    name = os.path.basename(program)
    return tuple(
        f"{name} printed {output.size} bytes on its {where}: more than {most >> 20} MiB are not"
        f" read"
        for output, where in zip(outputs, ("standard output", "standard error"))
        if output.cut
    )


def _beside(
    argv: Sequence[str], out: Pipe, environment: Mapping[str, str]
) -> Tuple[Optional[subprocess.Popen[bytes]], List[str]]:
    """The command, started, and why it could not be."""
    try:
        if argv:
            return subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=out.end,
                stderr=subprocess.DEVNULL,
                env={**os.environ, sentinel.NAME: environment[sentinel.NAME]},
                start_new_session=True,
                preexec_fn=functools.partial(die_with, os.getpid()),  # noqa: PLW1509 WHY: above
            ), []
    except OSError as error:
        return None, [f"{argv[0]} cannot be run: {error.strerror}"]
    return None, []


# The machines beside this one whose eviction ends the present run; None where nothing is evicted.
_at_risk: Optional[Tuple[str, ...]] = None


@contextlib.contextmanager
def evictable(nodes: Optional[Sequence[str]]) -> Iterator[None]:
    """While the block lasts, runs end when Azure takes this machine or one of ``nodes``; None:
    whatever Azure does."""
    global _at_risk  # noqa: PLW0603 WHY: processes are started in many ways, some of them in forks
    before, _at_risk = _at_risk, None if nodes is None else tuple(nodes)
    try:
        yield
    finally:
        _at_risk = before


def notices() -> Optional[events.Watch]:
    """A watch of Azure's announcements, begun now; None where nothing is evicted."""
    return None if _at_risk is None else events.Watch(_at_risk)


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """A signal that would end this process ends the run first, and all that it started."""
    numbers = [
        number
        for number in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) == signal.SIG_DFL
        and threading.current_thread() is threading.main_thread()
    ]

    def interrupted(number: int, _frame: Any) -> None:
        # A second one must not keep the programs from being ended.
        for signal_number in numbers:
            signal.signal(signal_number, signal.SIG_IGN)
        raise Orphaned(f"interrupted by {signal.Signals(number).name}")

    for number in numbers:
        signal.signal(number, interrupted)
    try:
        yield
    except Orphaned:
        # It may have come while the run was being started.
        _end_descendants()
        raise
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def _neutral(inherited: Mapping[str, str]) -> Dict[str, str]:
    return {name: value for name, value in inherited.items() if not name.startswith(_STEERING)}


class _Ended(Exception):
    """The message of a run's watch that ends it."""


def _wait(
    child: subprocess.Popen[bytes],
    deadline: float,
    lineage: Lineage,
    watch: Optional[Callable[[], Sequence[str]]] = None,
    notice: Optional[events.Watch] = None,
) -> bool:
    """Wait for the child: True when it ended, False at the deadline."""
    look = time.monotonic() + _WATCH_SECONDS
    ask = time.monotonic() + _ASK_SECONDS
    while child.poll() is None:
        now = time.monotonic()
        if now >= deadline:
            return False
        if notice and notice.seen:
            raise _Ended(notice.seen)
        if now >= look:
            look = now + _WATCH_SECONDS
            lineage.check()
        if watch and now >= ask:
            reasons = watch()
            if reasons and child.poll() is None:
                raise _Ended("; ".join(reasons))
            ask = time.monotonic() + _ASK_SECONDS
        time.sleep(_POLL_SECONDS)
    return True


def _descendants(root: int) -> List[int]:
    children: Dict[int, List[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = proc_stat(int(name))
            if fields and fields[0] != "Z":
                children.setdefault(int(fields[1]), []).append(int(name))
    pids: List[int] = []
    queue = [root]
    while queue:
        for pid in children.get(queue.pop(), []):
            pids.append(pid)
            queue.append(pid)
    return pids


def _end_descendants() -> None:
    """Kill all descendants until none is left: one that forks while being killed shows up in the
    next round."""
    for _round in range(50):
        pids = _descendants(os.getpid())
        if not pids:
            return
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(_POLL_SECONDS)


def _oom_kills() -> int:
    """How often the out-of-memory killer has acted: since boot on this machine, or in this control
    group."""
    total = 0
    for path, key in (("/proc/vmstat", "oom_kill"), ("/sys/fs/cgroup/memory.events", "oom_kill")):
        try:
            with open(path, encoding="ascii") as stream:
                for line in stream:
                    name, _, value = line.partition(" ")
                    if name == key:
                        total += int(value)
        except OSError:
            continue
    return total
