"""The way to Windows nodes: what ssh is told, that it is opened once, and that it ends."""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from trueup_controller.azure import socks_tunnel
from trueup_node.errors import TrueupError

# Instead of ssh: listens at the port of -D, and says what it was told.
SSH = """#!/bin/bash
exec -a ssh {python} {folder}/server.py "$@"
"""
SERVER = """
import socket, sys
words = sys.argv[1:]
open("{told}", "a").write(" ".join(words) + "\\n")
if "{fails}":
    sys.exit(255)
host, port = words[words.index("-D") + 1].split(":")
server = socket.create_server((host, int(port)))
while True:
    server.accept()
"""


def program(folder: Path, fails: str = "") -> Path:
    told = folder / "told"
    text = SERVER.replace("{told}", str(told)).replace("{fails}", fails)
    (folder / "server.py").write_text(text)
    path = folder / "ssh"
    path.write_text(SSH.format(python=sys.executable, folder=folder))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return told


def gone(process: int) -> bool:
    """Whether it ended; it is a child of this one, which reaps it."""
    for _ in range(100):
        with contextlib.suppress(ChildProcessError):
            if os.waitpid(process, os.WNOHANG)[0]:
                return True
        time.sleep(0.05)
    return False


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return str(tmp_path / "ssh_config")


def test_it_is_opened_once_and_ends(config: str, tmp_path: Path) -> None:
    told = program(tmp_path)
    port, process = socks_tunnel.opened(config, "login", {})
    kept = {"socks": port, "socks_process": process}
    assert socks_tunnel.opened(config, "login", kept) == (port, process)
    [line] = told.read_text().splitlines()
    assert line.startswith(f"-F {config} -N -D 127.0.0.1:{port} ")
    assert line.endswith(" login")
    assert "ExitOnForwardFailure=yes" in line
    socks_tunnel.closed(config, kept)
    assert gone(process)
    again, other = socks_tunnel.opened(config, "login", kept)
    assert other != process
    socks_tunnel.closed(config, {"socks": again, "socks_process": other})
    assert gone(other)


def test_a_process_of_somebody_else_is_left_alone(config: str) -> None:
    other = subprocess.Popen(["sleep", "60"])
    try:
        socks_tunnel.closed(config, {"socks": 1, "socks_process": other.pid})
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()
    socks_tunnel.closed(config, {})


def test_ssh_that_opens_none_is_a_sentence(config: str, tmp_path: Path) -> None:
    program(tmp_path, fails="yes")
    with pytest.raises(TrueupError, match="ssh opens no way to the Windows nodes"):
        socks_tunnel.opened(config, "login", {})
