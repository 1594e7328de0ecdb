"""Checks whether machines answer by ssh and cloud-init has finished their first start.

Source: cloud-init's documentation of ``cloud-init status --wait``, whose exit status is 0 when it
is done, 1 after an error and 2 when it is done with errors that it went on after.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Callable

# How many are asked at once: a login node's sshd turns away more that come in together.
_TOGETHER = 8
_PAUSE_SECONDS = 5
_NO_ANSWER, _RECOVERED = 255, 2
_SAID_CHARACTERS = 200
NO_ANSWER = "no answer by ssh"
_ASK = (
    "command -v cloud-init >/dev/null || exit 0; cloud-init status --wait >/dev/null 2>&1; code=$?;"
    " [ $code = 0 ] || cloud-init status --long 2>&1 | tail -n 4; exit $code"
)

# (argv, seconds) -> exit status and output.
Run = Callable[[tuple[str, ...], float], tuple[int, str]]
Tell = Callable[[str], None]


def run(argv: tuple[str, ...], seconds: float) -> tuple[int, str]:
    """The exit status of a command and the end of its output; after the time limit the status of
    ssh without an answer."""
    try:
        done = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return _NO_ANSWER, "no answer in time"
    except OSError as error:
        return _NO_ANSWER, f"ssh could not be run: {error.strerror}"
    output = " ".join((done.stdout + done.stderr).split())
    return done.returncode, output[-_SAID_CHARACTERS:]


def unmet(
    config: str,
    host: str,
    ask: str,
    *,
    limit_seconds: float,
    run: Run = run,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> str:
    """Why a machine does not answer a question with exit status 0 in time; empty where it does.

    Args:
        config: a file of ssh's with the way to it.
    """
    ends = clock() + limit_seconds
    argv = ("ssh", "-F", config, "-o", "BatchMode=yes", "-o", "LogLevel=ERROR", host, ask)
    while True:
        code, output = run(argv, max(1.0, ends - clock()))
        if code == 0 or clock() >= ends:
            return "" if code == 0 else output or f"status {code}"
        sleep(_PAUSE_SECONDS)


def silent(
    nodes: Mapping[str, str],
    config: str,
    tell: Tell,
    *,
    limit_seconds: float,
    run: Run = run,
    clock: Callable[[], float] = time.monotonic,
) -> dict[str, str]:
    """The nodes that do not answer, or whose cloud-init failed, each with why.

    Args:
        nodes: addresses by name.
        config: a file of ssh's with the way to them.
        limit_seconds: how long all of them may take.
    """
    ends, over, reasons = clock() + limit_seconds, threading.Event(), {}

    def ask_node(address: str) -> str:
        argv = ("ssh", "-F", config, "-o", "BatchMode=yes", "-o", "LogLevel=ERROR", address, _ASK)
        while True:
            code, output = run(argv, max(1.0, ends - clock()))
            if code in (0, _RECOVERED):
                return ""
            if code != _NO_ANSWER:
                return f"cloud-init failed: {output or f'status {code}'}"
            if clock() >= ends or over.wait(_PAUSE_SECONDS):
                return f"{NO_ANSWER}: {output or 'without a word'}"

    with ThreadPoolExecutor(_TOGETHER) as pool:
        try:
            waiting = {pool.submit(ask_node, address): name for name, address in nodes.items()}
            for number, done in enumerate(as_completed(waiting), 1):
                reason = done.result()
                if reason:
                    reasons[waiting[done]] = reason
                tell(f"{number - len(reasons)} of {len(nodes)} nodes answer by ssh")
        finally:
            over.set()
    return reasons
