"""End a benchmark's processes in sessions of their own, where its module is killed by SIGKILL.

A module that ends as it should ends its descendants first (process.py). Killed (out of memory), it
ends its program by the kernel, but not that one's children: they lose every trace of a parent. All
have a variable of the program's environment, by which a process beside the module finds them.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import time
from typing import Iterator, List

from . import mpi_files

NAME = "TRUEUP_CASE_PROCESS"
_ROUNDS = 100
_QUIET_ROUNDS = 4
_POLL_SECONDS = 0.05


@contextlib.contextmanager
def watching(mark: str, folder: str = "") -> Iterator[None]:
    """While the block lasts, a process waits for the end of this one, ends all whose environment
    has NAME with this mark, and removes the folder. It is gone afterwards."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            _wait(reader, writer)
            _end(mark)
            if folder:
                mpi_files.remove(folder)
        finally:
            os._exit(0)
    os.close(reader)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.close(writer)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)


def new_mark() -> str:
    """One that no other process has."""
    return secrets.token_hex(16)


def _wait(reader: int, writer: int) -> None:
    """Until the other end, which nobody else has, is closed."""
    os.setsid()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    os.close(writer)
    # Whoever reads the module's answer waits for all that could write it.
    nothing = os.open(os.devnull, os.O_RDWR)
    for handle in (0, 1, 2):
        os.dup2(nothing, handle)
    os.closerange(3, reader)
    os.closerange(reader + 1, 4096)
    os.read(reader, 1)


def _end(mark: str) -> None:
    """Kill those with the mark until none is left: one may fork while it is killed."""
    quiet = 0
    for _round in range(_ROUNDS):
        pids = marked(mark)
        quiet = 0 if pids else quiet + 1
        if quiet >= _QUIET_ROUNDS:
            return
        for pid in pids:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)


def marked(mark: str) -> List[int]:
    """The processes of this user, root's too where this is root's, that have it."""
    marker = f"{NAME}={mark}".encode()
    pids = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as stream:
                if marker in stream.read().split(b"\0"):
                    pids.append(int(name))
        except OSError:
            continue
    return pids
