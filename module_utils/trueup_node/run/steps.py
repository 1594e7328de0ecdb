"""Change a node for a moment: commands in their order, and then those that put it back.

The commands that restore the node run whatever came before: a step that failed or did not end, a
signal, a
controller that went away. Only the kernel can prevent it (SIGKILL, a power failure).
"""

from __future__ import annotations

import os
import re
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

from ..node.gpu_users import gpu_users
from ..node.sysfs import text_of
from .orphan_guard import Orphaned
from .process import run

_C_LOCALE = {"LC_ALL": "C", "LANG": "C"}
# Where a shell that nobody logged in to may not look: ip, sysctl.
_FOLDERS = "/usr/sbin:/sbin"
_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_MOST_CHARACTERS = 8192
# The session's leader and a shell or two can go away one after the other.
_MOST_ORPHANED = 10

# A command: ``run``, its argv, and the ``seconds`` that it may take.
Step = Mapping[str, Any]


@dataclass
class Done:
    """The result of the steps.

    Attributes:
        refused: why nothing was begun, or why it was not gone on with; None where it was done.
        steps, restored: of each command that was started ``command``, ``status`` (None where it
            did not end by itself), ``note`` (why that is not 0, or None) and ``output``.
    """

    refused: Optional[str] = None
    steps: List[Dict[str, Any]] = field(default_factory=list)
    restored: List[Dict[str, Any]] = field(default_factory=list)


def perform(steps: Sequence[Step], restore: Sequence[Step], busy: Callable[[], str]) -> Done:
    """Do the steps until one fails, and put the node back.

    Args:
        steps: the commands that change the node.
        restore: the commands that restore it; each runs, also when one before it fails.
        busy: says before each step who works on this node; empty where nobody does.
    """
    done = Done()
    caught = {number: signal.signal(number, _stop) for number in _SIGNALS}
    try:
        _forward(steps, busy, done)
    except (Orphaned, _Stopped) as error:
        done.refused = str(error)
    finally:
        for number in _SIGNALS:
            signal.signal(number, _go_on)
        if done.steps:
            for step in restore:
                done.restored.append(_put_back(step))
        for number, handler in caught.items():
            signal.signal(number, handler)
    return done


def _forward(steps: Sequence[Step], busy: Callable[[], str], done: Done) -> None:
    for step in steps:
        who = busy()
        if who:
            done.refused = f"this node is at work ({who}): repeat it when it is idle"
            return
        # It is listed before it is started: a step that has begun is undone.
        begun: Dict[str, Any] = {"command": _joined(step), "status": None, "note": "it was stopped"}
        done.steps.append({**begun, "output": ""})
        done.steps[-1] = _command(step)
        if done.steps[-1]["note"]:
            return


def _put_back(step: Step) -> Dict[str, Any]:
    """How a command ended that nothing may prevent: it is begun again where whoever asked for it
    went away meanwhile."""
    for _again in range(_MOST_ORPHANED):
        try:
            return _command(step)
        except Orphaned:
            continue
    return {"command": _joined(step), "status": None, "output": "", "note": "it was ended"}


def _command(step: Step) -> Dict[str, Any]:
    """How a command ended."""
    outcome: Dict[str, Any] = {"command": _joined(step), "status": None, "output": ""}
    environment = {**_C_LOCALE, "PATH": f"{os.environ.get('PATH', os.defpath)}:{_FOLDERS}"}
    try:
        ended = run(step["run"], timeout_seconds=step["seconds"], environment=environment)
    except OSError as error:
        return {**outcome, "note": f"{step['run'][0]} cannot be started: {error.strerror}"}
    outcome["output"] = (ended.stdout + ended.stderr)[-_MOST_CHARACTERS:]
    if not (ended.timed_out or ended.returncode < 0):
        outcome["status"] = ended.returncode
    return {**outcome, "note": ended.failure(step["seconds"])}


def _joined(step: Step) -> str:
    return " ".join(step["run"])


class _Stopped(BaseException):
    """A signal came; nobody else takes it for a failure of his."""


def _stop(number: int, _frame: Any) -> None:
    raise _Stopped(f"it was ended by {signal.Signals(number).name}")


def _go_on(_number: int, _frame: Any) -> None:
    """While the node is put back nothing ends it."""


# ---- who works on a node ------------------------------------------------------------------------


def at_work(module: Any, proc: str = "/proc") -> str:
    """A job of Slurm, or a process that computes on a GPU; empty where there is none. An answer
    that is not understood is not taken for nobody."""
    jobs = _slurm_jobs(proc)
    if jobs:
        return f"a job of Slurm, process {', '.join(jobs)}"
    used = gpu_users(module)
    return f"on its GPUs: {used}" if used else ""


def _slurm_jobs(proc: str) -> List[str]:
    """The processes slurmstepd, of which each step of a job has one. `slurmstepd infinity`, which
    holds Slurm's control group from boot on (slurm.schedmd.com/cgroup_v2.html), is none."""
    pids = []
    for pid in filter(str.isdigit, os.listdir(proc)):
        name = text_of(Path(proc, pid, "comm"))
        if name == "slurmstepd" and not re.search(
            r"\binfinity\b", text_of(Path(proc, pid, "cmdline"))
        ):
            pids.append(pid)
    return sorted(pids, key=int)
