"""The way from this machine to a run's Windows nodes: a SOCKS server of ssh's on 127.0.0.1, whose
other end is the login node.

Whoever may run a program on this machine can use it while it is open, as far as the port; the nodes
ask for a password all the same. It ends with the login node, or with ``closed``.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from typing import Any

from trueup_node.errors import TrueupError

HERE = "127.0.0.1"
_OPEN_SECONDS, _ASK_SECONDS, _PAUSE_SECONDS = 60.0, 20, 0.2


def opened(config: str, host: str, state: Mapping[str, Any]) -> tuple[int, int]:
    """Port and process of the way, which is opened unless it is open.

    Args:
        config: a file of ssh's with the way to ``host``.
        state: ``socks`` and ``socks_process`` of the last time, where there was one.

    Raises:
        TrueupError: ssh does not open it.
    """
    process = int(state.get("socks_process") or 0)
    if _runs(config, process):
        return int(state["socks"]), process
    port = _free()
    options = ["ExitOnForwardFailure=yes", "BatchMode=yes", "ControlPath=none", "LogLevel=ERROR"]
    argv = ["ssh", "-F", config, "-N", "-D", f"{HERE}:{port}"]
    for option in options:
        argv += ["-o", option]
    try:
        # Its own session: Ctrl-C and the end of this program leave it.
        begun = subprocess.Popen(
            [*argv, host],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        raise TrueupError(f"ssh could not be run: {error.strerror}") from None
    ends = time.monotonic() + _OPEN_SECONDS
    while not _answers(port):
        if begun.poll() is not None or time.monotonic() > ends:
            begun.kill()
            raise TrueupError(f"ssh opens no way to the Windows nodes: ssh -F {config} {host}")
        time.sleep(_PAUSE_SECONDS)
    return port, begun.pid


def closed(config: str, state: Mapping[str, Any]) -> None:
    """End it, where it is open."""
    process = int(state.get("socks_process") or 0)
    if _runs(config, process):
        os.kill(process, signal.SIGTERM)


def _runs(config: str, process: int) -> bool:
    """Whether that process is still the ssh of this run."""
    if not process:
        return False
    argv = ("ps", "-ww", "-p", str(process), "-o", "args=")
    try:
        output = subprocess.run(
            argv, capture_output=True, text=True, timeout=_ASK_SECONDS, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return False
    return output.startswith("ssh ") and f" {config} " in output


def _free() -> int:
    with socket.socket() as listener:
        listener.bind((HERE, 0))
        return int(listener.getsockname()[1])


def _answers(port: int) -> bool:
    with socket.socket() as connection:
        connection.settimeout(1)
        return connection.connect_ex((HERE, port)) == 0
