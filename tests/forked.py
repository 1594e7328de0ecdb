"""Runs a Python program in a fork of a Python that has already imported what the program imports of
other packages: half of what the start of ansible-playbook costs. Nothing of ours is imported before
the fork. Ansible reads its settings as it is imported: it is there before the fork only for runs
with the project's ansible.cfg whose other settings are those of a run before.

As a program it is that Python: it gets its requests over the socket that it is told.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import IO, Any

# Of other packages, and of Python, what ansible-playbook imports for any play, and for Windows.
_PACKAGES = (
    *("argcomplete", "asyncio", "concurrent.futures", "configparser", "cryptography.x509"),
    *("cryptography.hazmat.backends.openssl", "ctypes.util", "curses", "decimal", "difflib"),
    *("distro", "getpass", "gettext", "http.client", "jinja2.nativetypes", "jinja2.sandbox"),
    *("logging.handlers", "multiprocessing.queues", "multiprocessing.shared_memory"),
    *("multiprocessing.synchronize", "packaging.specifiers", "pprint", "pypsrp.host", "requests"),
    *("shelve", "ssl", "syslog", "tarfile", "tomllib", "urllib.request", "xml.dom.minidom"),
    *("yaml", "zipfile"),
)
# What Python reads as it starts, and no fork of it again.
_AT_START = ("PYTHON", "LANG", "LC_", "TRUEUP_WARM")
# What Ansible reads as it is imported, but for what a plugin asks for as it is loaded.
_SETTINGS = ("ANSIBLE_", "HOME")
_ASKED_LATER = ("ANSIBLE_CACHE_PLUGIN_CONNECTION",)
_PROJECT_SETTINGS = str(Path(__file__).parent.parent / "ansible.cfg")


def run(
    argv: list[str], *, cwd: Path, env: dict[str, str], timeout: float = 900
) -> subprocess.CompletedProcess[str]:
    """Run the Python program ``argv[0]`` as subprocess.run would.

    Raises:
        subprocess.TimeoutExpired: it was ended after ``timeout`` seconds.
    """
    with (
        tempfile.TemporaryFile("w+") as request,
        tempfile.TemporaryFile("w+") as out,
        tempfile.TemporaryFile("w+") as err,
    ):
        json.dump({"argv": argv, "cwd": str(cwd), "env": env}, request)
        request.flush()
        ended, told = os.pipe()
        try:
            files = [request.fileno(), out.fileno(), err.fileno(), told]
            socket.send_fds(_server(env), [b"r"], files)
        finally:
            os.close(told)
        with open(ended) as lines:
            status = _status(lines, argv, timeout)
        texts = [_whole(file) for file in (out, err)]
    return subprocess.CompletedProcess(argv, status, *texts)


def _status(lines: IO[str], argv: list[str], timeout: float) -> int:
    """The exit status of a run that says its number and then how it ended."""
    number = int(lines.readline())
    if not select.select([lines], [], [], timeout)[0]:
        os.kill(number, signal.SIGKILL)
        raise subprocess.TimeoutExpired(argv, timeout)
    return os.waitstatus_to_exitcode(int(lines.readline()))


def _whole(file: IO[str]) -> str:
    file.seek(0)
    return file.read()


_servers: dict[tuple[int, tuple[tuple[str, str], ...]], socket.socket] = {}
_starting = threading.Lock()
# Those of the runs so far that had the project's ansible.cfg.
_settings: list[dict[str, str]] = []


def _server(env: dict[str, str]) -> socket.socket:
    """Where runs are asked for that start with this environment; it ends with this process."""
    start = _named(env, _AT_START)
    settings = _named(env, _SETTINGS)
    if env.get("ANSIBLE_CONFIG") == _PROJECT_SETTINGS:
        # Of settings that do not come again, its start would cost more than it saves.
        if settings in _settings:
            start |= settings
        else:
            _settings.append(settings)
    key = os.getpid(), tuple(sorted(start.items()))
    with _starting:
        if key not in _servers:
            mine, its = socket.socketpair()
            with its:
                server = subprocess.Popen(
                    [sys.executable, __file__, str(its.fileno())],
                    env=start,
                    pass_fds=[its.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                )
            atexit.register(_end, server, mine)
            _servers[key] = mine
        return _servers[key]


def _named(env: dict[str, str], begins: tuple[str, ...]) -> dict[str, str]:
    """The variables whose names begin so."""
    return {
        name: value
        for name, value in env.items()
        if name.startswith(begins) and name not in _ASKED_LATER
    }


def _end(server: subprocess.Popen[bytes], requests: socket.socket) -> None:
    requests.close()
    server.wait()


def _serve(requests: socket.socket) -> None:
    """Fork for each request; each run has a process that waits for it."""
    for name in _PACKAGES:
        importlib.import_module(name)
    if "ANSIBLE_CONFIG" in os.environ:
        _import_ansible()
    # No fork copies what is here only because it is collected.
    gc.collect()
    gc.freeze()
    waiting: list[int] = []
    while True:
        word, files, _, _ = socket.recv_fds(requests, 1, 4)
        if not word:
            break
        waiting = [number for number in waiting if os.waitpid(number, os.WNOHANG)[0] == 0]
        number = os.fork()
        if number == 0:
            requests.close()
            _wait(files)
        waiting.append(number)
        for file in files:
            os.close(file)
    for number in waiting:
        os.waitpid(number, 0)


def _import_ansible() -> None:
    """What any play needs of it, and which of its own plugins have moved."""
    playbook = importlib.import_module("ansible.cli.playbook")
    # Made as it was imported; each run has one of its own.
    atexit.unregister(importlib.import_module("ansible.config.manager").cleanup_tmp_file)
    Path(playbook.C.DEFAULT_LOCAL_TMP).rmdir()
    finder: Any = importlib.import_module("ansible.utils.collection_loader._collection_finder")
    finder._meta_yml_to_dict = functools.cache(finder._meta_yml_to_dict)
    moved = Path(finder.import_module("ansible").__path__[0], "config/ansible_builtin_runtime.yml")
    finder._meta_yml_to_dict(moved.read_bytes(), ("ansible.builtin", "runtime.yml"))


def _wait(files: list[int]) -> None:
    """Start the run, say its number, and how it ended."""
    *of_run, told = files
    number = os.fork()
    if number == 0:
        os.close(told)
        _become(*of_run)
    else:
        os.write(told, b"%d\n" % number)
        os.write(told, b"%d\n" % os.waitpid(number, 0)[1])
        os._exit(0)


def _become(request: int, out: int, err: int) -> None:
    """Be the program that is asked for."""
    with open(request) as file:
        file.seek(0)
        asked = json.load(file)
    for number, place in ((out, 1), (err, 2)):
        os.dup2(number, place)
        os.close(number)
    os.chdir(asked["cwd"])
    # Where the environment names no locale, Python adds one as it starts.
    added = {name: text for name, text in os.environ.items() if name == "LC_CTYPE"}
    os.environ.clear()
    os.environ.update({**asked["env"], **added})
    time.tzset()
    if "ansible" in sys.modules:
        constants: Any = sys.modules["ansible.constants"]
        constants.DEFAULT_LOCAL_TMP = constants.config.get_config_value("DEFAULT_LOCAL_TMP")
    sys.argv[:] = asked["argv"]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    runpy.run_path(sys.argv[0], run_name="__main__")
    sys.exit()


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
