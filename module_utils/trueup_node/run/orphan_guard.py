"""Who asked for a benchmark, and whether he still waits for it.

Ansible's controller forks a worker for a task, the worker starts the module here or through ssh,
and reads its output. A worker ends with its controller (``follow``), and a module sees that nobody
reads its answer any more (``answers``): that holds from its first moment on, whereas only a process
that was there before sees a change of parents.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import stat
from typing import Any, Dict, Iterator, List, Mapping, Optional

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1
_ANSWER = 1
_GONE = "the process that asked for this run is gone"


class Orphaned(Exception):
    """The process that asked for this run is gone; the run was ended."""


def prctl(option: int, value: int) -> None:
    """prctl(2).

    Raises:
        OSError: the kernel refuses.
    """
    if _LIBC.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}) failed")


def die_with(parent: int, number: int = signal.SIGKILL) -> None:
    """Get the signal when ``parent``, which must be the parent of this process, ends.

    Raises:
        Orphaned: it has.
    """
    prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        raise Orphaned(_GONE)


# ---- who a process is, also to another machine --------------------------------------------------


def of(pid: int) -> Dict[str, Any]:
    """The facts that tell a process of this machine from all others, those that get its number
    later too: ``host``, ``boot``, ``pids`` (its namespace), ``pid`` and ``started`` (in ticks)."""
    fields = proc_stat(pid)
    return {
        "host": os.uname().nodename,
        "boot": _boot(),
        "pids": _namespace(),
        "pid": pid,
        "started": int(fields[19]) if fields else 0,
    }


def gone(who: Mapping[str, Any]) -> Optional[bool]:
    """Whether a process that ``of`` told of has ended; None where it cannot be seen from here."""
    if not who.get("boot") or (who["boot"], who["pids"]) != (_boot(), _namespace()):
        return None
    fields = proc_stat(who["pid"])
    if fields:
        return fields[0] == "Z" or int(fields[19]) != who["started"]
    try:
        os.kill(who["pid"], 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    # There, and hidden (/proc with hidepid).
    return False


def _boot() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as stream:
            return stream.read().strip()
    except OSError:
        return ""


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def follow() -> Dict[str, Any]:
    """Of a worker of Ansible's: end it with its controller, and tell who that is.

    Raises:
        Orphaned: the controller has ended already.
    """
    import multiprocessing  # noqa: PLC0415 WHY: modules, which are no workers, need it not

    controller = multiprocessing.parent_process()
    if controller is None or controller.pid is None:
        return of(os.getpid())
    # Ansible's own handler hands it on to the worker's process group, ssh among it.
    die_with(controller.pid, signal.SIGTERM)
    return of(controller.pid)


# ---- the module's view --------------------------------------------------------------------------

# The controller of this process; None where its output is no answer to anybody.
_asker: Optional[Mapping[str, Any]] = None


def answers(controller: Mapping[str, Any]) -> None:
    """From now on programs of this process end when nobody reads its standard output any more, or
    ``controller`` (``of``; may be empty) is gone."""
    global _asker  # noqa: PLW0603 WHY: programs are started in many ways
    _asker = dict(controller)


@contextlib.contextmanager
def regardless() -> Iterator[None]:
    """While the block lasts, programs run to their end even if nobody waits: the way back."""
    global _asker  # noqa: PLW0603 WHY: as above
    before, _asker = _asker, None
    try:
        yield
    finally:
        _asker = before


class Lineage:
    """Whoever waits for this process: the reader of its answer and the controller, and the
    processes from this one up to its session leader, which must stay as they are while we run.

    Ansible's local worker and sshd both make the command's session; a leader whose parent changes
    means that the
    controller or the connection is gone. Above the session leader (a user's shell, make) processes
    come and go.
    """

    def __init__(self) -> None:
        self._asker = _asker
        self._parents: Dict[int, int] = {}
        pid, session = os.getpid(), os.getsid(0)
        while pid > 1:
            parent = parent_of(pid)
            if parent is None:
                break
            self._parents[pid] = parent
            if pid == session:
                break
            pid = parent

    def check(self) -> None:
        """Raises:
        Orphaned: one of them is gone.
        """
        controller_gone = self._asker is not None and (gone(self._asker) or not _is_read(_ANSWER))
        if controller_gone or any(
            parent_of(pid) != parent for pid, parent in self._parents.items()
        ):
            raise Orphaned(_GONE)


def _is_read(handle: int) -> bool:
    """Whether somebody reads the output of a handle; asked by an empty line, which Ansible passes
    over: between here and a worker that was killed ssh would wait for something to hand on."""
    try:
        kind = os.fstat(handle).st_mode
        if not (stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)):
            return True
        poll = select.poll()
        poll.register(handle, select.POLLOUT)
        poll_events = [event for _, event in poll.poll(0)]
        if any(event & (select.POLLERR | select.POLLHUP) for event in poll_events):
            return False
        # Not where it is full: that would wait.
        if poll_events:
            os.write(handle, b"\n")
    except BlockingIOError:
        return True
    except OSError:
        return False
    return True


def proc_stat(pid: int) -> Optional[List[str]]:
    """Fields of /proc/PID/stat from the state on (proc(5)), or None when the process is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stream:
            # The name in parentheses may hold blanks and parentheses: fields count from the last
            # ")".
            return stream.read().rpartition(")")[2].split()
    except OSError:
        return None


def parent_of(pid: int) -> Optional[int]:
    """Its parent, or None when the process is gone."""
    fields = proc_stat(pid)
    return int(fields[1]) if fields else None
