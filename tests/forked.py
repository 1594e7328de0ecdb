"""Runs a Python program in a fork of a Python that has already imported what the program imports of
other packages: half of what the start of ansible-playbook costs. Ansible reads its settings as it
is imported: it is there before the fork, and the package ``trueup`` with it, only for runs with the
project's ansible.cfg or an empty one whose other settings are those of a run before, but for those
that can be set in the fork. What Ansible's own plugins can be told is read there too, and what the
project's plans are made with.

Such runs fork the modules that they start on this machine, too: Ansible's connection plugin local
starts everything but a shell that does no more than to start this Python for a module, with plain
variables. Its fork has of Ansible's files those that are in the zip of every module, and nothing of
ours.

A task runs in the process of its run, where Ansible forks one for each task and host: most of what
such a fork costs is the copies of what it shares. The tests of the scenarios have Ansible's forks.

As a program it is that Python: it gets its requests over the socket that it is told.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import importlib.util
import io
import json
import os
import pkgutil
import re
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
import typing
from pathlib import Path
from typing import IO, Any, NoReturn

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
# Of Python, what modules import beside what Ansible's files do.
_OF_MODULES = (
    *("base64", "concurrent.futures", "csv", "difflib", "getpass", "glob", "gzip", "http.client"),
    *("queue", "resource", "secrets", "ssl", "statistics", "tarfile", "urllib.request", "uuid"),
    "zipfile",
)
# Of Ansible's own plugins, those of any play, and those whose settings it looks up for any.
_PLUGINS = (
    *("action.normal", "become.runas", "become.su", "become.sudo", "cache.jsonfile"),
    *("cache.memory", "callback.default", "callback.junit", "callback.minimal"),
    *("callback.oneline", "callback.tree", "connection.local", "connection.paramiko_ssh"),
    *("connection.psrp", "connection.ssh", "connection.winrm", "filter.core", "filter.encryption"),
    *("filter.mathstuff", "filter.urls", "filter.urlsplit", "inventory.auto"),
    *("inventory.host_list", "inventory.ini", "inventory.script", "inventory.toml"),
    *("inventory.yaml", "lookup.env", "lookup.vars", "lookup.varnames", "shell.cmd"),
    *("shell.powershell", "shell.sh", "strategy.free", "strategy.linear", "test.core"),
    *("test.files", "test.mathstuff", "test.uri", "vars.host_group_vars"),
)
# Tasks that wait, in forks: no host waits for what another one waits for.
_WAITING = {f"ansible.builtin.{name}" for name in ("pause", "reboot", "wait_for")}
_WAITING |= {"ansible.builtin.wait_for_connection", "ansible.windows.win_reboot"}
# The variable of a run all of whose tasks are in forks.
ALL_IN_FORKS = "TRUEUP_TEST_FORKS"
# In a file of PowerShell or C#, what the search for what it imports looks at.
REQUIRES = re.compile(rb"(?im)^(?:#\s*(?:ansible)?requires|using)\s.*$")
# What Python reads as it starts, and no fork of it again.
_AT_START = ("PYTHON", "LANG", "LC_", "TRUEUP_WARM")
# What Ansible reads as it is imported.
_SETTINGS = ("ANSIBLE_",)
# Of that, what it looks at only in a run: the variable, and Ansible's names for what follows.
_LATER = {
    "ANSIBLE_BECOME_ALLOW_SAME_USER": ("BECOME_ALLOW_SAME_USER",),
    "ANSIBLE_CACHE_PLUGIN": ("CACHE_PLUGIN",),
    "ANSIBLE_CACHE_PLUGIN_CONNECTION": ("CACHE_PLUGIN_CONNECTION",),
    "ANSIBLE_ROLES_PATH": ("DEFAULT_ROLES_PATH",),
    "ANSIBLE_STDOUT_CALLBACK": ("DEFAULT_STDOUT_CALLBACK",),
    # The last is a folder that is made as it is asked for.
    "HOME": ("ANSIBLE_HOME", "COLLECTIONS_PATHS", "DEFAULT_LOCAL_TMP"),
}
# How Ansible starts a module on this machine where its variables need no quotes.
_MODULE = re.compile(r"/bin/sh -c '((?:\w+=[\w./:,-]* )*)(/[\w./-]+) && sleep 0'")
# A Python before whose programs others are found.
_INTERPRETER = '#!/bin/sh\nPATH="{folder}:$PATH" exec {python} "$@"\n'
_PROJECT_SETTINGS = Path(__file__).parent.parent / "ansible.cfg"


def run(
    argv: list[str], *, cwd: Path, env: dict[str, str], timeout: float = 900
) -> subprocess.CompletedProcess[str]:
    """Run the Python program ``argv[0]`` as subprocess.run would.

    Raises:
        subprocess.TimeoutExpired: it was ended after ``timeout`` seconds.
    """
    asked = {"argv": argv, "cwd": str(cwd), "env": env}
    status, *said = _asked(_server(env), asked, timeout)
    texts = (io.TextIOWrapper(io.BytesIO(text)).read() for text in said)
    return subprocess.CompletedProcess(argv, status, *texts)


def interpreter(folder: Path) -> Path:
    """A Python in a folder whose programs it finds before others: modules of it are forked."""
    path = folder / "python3"
    path.write_text(_INTERPRETER.format(folder=folder, python=sys.executable))
    path.chmod(0o755)
    return path


def _of_module(command: str) -> dict[str, str] | None:
    """The variables with which a command starts a module of this Python; None: it is another."""
    asked = _MODULE.fullmatch(command)
    if not asked:
        return None
    given = dict(word.split("=", 1) for word in asked[1].split())
    program, path = Path(asked[2]), given.get("PATH", os.environ["PATH"])
    if asked[2] != sys.executable:
        own = _INTERPRETER.format(folder=program.parent, python=sys.executable)
        if program.stat().st_size != len(own.encode()) or program.read_text() != own:
            return None
        path = f"{program.parent}:{path}"
    at_start = any(name.startswith(_AT_START) for name in given)
    return None if at_start else {**os.environ, **given, "PATH": path}


def _asked(
    server: socket.socket, asked: dict[str, Any], timeout: float | None
) -> tuple[int, bytes, bytes]:
    """Exit status and output of a run."""
    with (
        tempfile.TemporaryFile("w+") as request,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
    ):
        json.dump(asked, request)
        request.flush()
        ended, told = os.pipe()
        try:
            files = [request.fileno(), out.fileno(), err.fileno(), told]
            socket.send_fds(server, [b"r"], files)
        finally:
            os.close(told)
        with open(ended) as lines:
            status = _status(lines, asked["argv"], timeout)
        return status, _whole(out), _whole(err)


def _status(lines: IO[str], argv: list[str], timeout: float | None) -> int:
    """The exit status of a run that says its number and then how it ended."""
    number = int(lines.readline())
    if not select.select([lines], [], [], timeout)[0]:
        os.kill(number, signal.SIGKILL)
        raise subprocess.TimeoutExpired(argv, timeout or 0)
    return os.waitstatus_to_exitcode(int(lines.readline()))


def _whole(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


_servers: dict[tuple[int, tuple[tuple[str, str], ...]], socket.socket] = {}
_starting = threading.Lock()
# Those of the runs so far that had such an ansible.cfg, and those of nearly all runs.
_settings: list[dict[str, str]] = []
_USUAL = {"ANSIBLE_CONFIG", "ANSIBLE_NOCOLOR", "ANSIBLE_NOCOWS"}


def _server(env: dict[str, str]) -> socket.socket:
    """Where runs are asked for that start with this environment; it ends with this process."""
    start = _named(env, _AT_START)
    settings = _named(env, _SETTINGS)
    if _has_known_settings(env):
        # Of settings that do not come again, its start would cost more than it saves.
        if settings in _settings or set(settings) <= _USUAL:
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


def _has_known_settings(env: dict[str, str]) -> bool:
    """A copy of the repository has them too; or none at all."""
    path = Path(env.get("ANSIBLE_CONFIG", os.devnull))
    if path.name != _PROJECT_SETTINGS.name or not path.is_file():
        return False
    return path.read_bytes() in (_PROJECT_SETTINGS.read_bytes(), b"")


def _named(env: dict[str, str], begins: tuple[str, ...]) -> dict[str, str]:
    """The variables whose names begin so."""
    return {
        name: value for name, value in env.items() if name.startswith(begins) and name not in _LATER
    }


def _end(server: subprocess.Popen[bytes], requests: socket.socket) -> None:
    requests.close()
    server.wait()


def _serve(requests: socket.socket) -> None:
    """Answer requests, with what runs import imported."""
    modules = _server_of_modules(requests) if "ANSIBLE_CONFIG" in os.environ else None
    for name in _PACKAGES:
        importlib.import_module(name)
    if modules:
        _import_ansible(modules)
    _answer(requests)
    if modules:
        # What its runs cost is counted as this one's, and so as the tests'.
        modules.close()
        os.wait()


def _server_of_modules(requests: socket.socket) -> socket.socket:
    """Where a run asks for the modules that it starts on this machine."""
    mine, its = socket.socketpair()
    if os.fork() == 0:
        requests.close()
        mine.close()
        _import_of_modules()
        _answer(its)
        os._exit(0)
    its.close()
    return mine


def _import_of_modules() -> None:
    """What the zip of every module holds of Ansible's own files, from Ansible's package."""
    for name in _OF_MODULES:
        importlib.import_module(name)
    spec = importlib.util.find_spec("ansible")
    folder = str(Path(spec.origin or "").parent) if spec else ""
    for name in ("ansible", "ansible.module_utils"):
        # Not those of the controller, which no zip holds.
        package = sys.modules[name] = types.ModuleType(name)
        package.__path__ = [str(Path(folder, *name.split(".")[1:]))]
        package.__file__ = f"{package.__path__[0]}/__init__.py"
    internal = "ansible.module_utils._internal"
    loader: Any = importlib.import_module(f"{internal}._ansiballz._loader")
    for way in ("c2m", "m2c"):
        importlib.import_module(f"{internal}._json._profiles._module_legacy_{way}")
    plain = loader.run_module

    def run_module(*, modlib_path: str, **given: Any) -> None:
        """All others are in the zip, and these say that they are."""
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] == "ansible" and "__file__" in module.__dict__:
                module.__file__ = str(module.__file__).replace(folder, f"{modlib_path}/ansible", 1)
                if module.__dict__.get("__path__"):
                    module.__path__ = [str(Path(module.__file__).parent)]
        for name in ("ansible", "ansible.module_utils"):
            sys.modules[name].__path__ = pkgutil.extend_path(sys.modules[name].__path__, name)
        deprecator: Any = sys.modules[f"{internal}._deprecator"]
        deprecator._ANSIBLE_MODULE_BASE_PATH = Path(modlib_path, "ansible")
        plain(modlib_path=modlib_path, **given)

    loader.run_module = run_module


def _answer(requests: socket.socket) -> None:
    """Fork for each request; each run has a process that waits for it."""
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


def _import_ansible(modules: socket.socket) -> None:
    """What any play needs of it and of ours, and which of Ansible's own plugins have moved."""
    loaders: Any = importlib.import_module("ansible.plugins.loader")
    for name in _PLUGINS:
        module = importlib.import_module(f"ansible.plugins.{name}")
        kind, _, plugin = name.partition(".")
        # What it can be told, by both names that it goes by: YAML, a tenth of what a run costs.
        for called in (plugin, f"ansible_collections.ansible.builtin.plugins.{name}"):
            getattr(loaders, f"{kind}_loader")._load_config_defs(called, module, module.__file__)
    # Each run with a plan imports all rooms: 0.2 s. Where there is no such package, a run says so.
    ours = importlib.util.find_spec("trueup_node")
    if ours:
        for room in pkgutil.walk_packages(ours.submodule_search_locations, "trueup_node."):
            importlib.import_module(room.name)
    if ours and os.environ["ANSIBLE_CONFIG"] == str(_PROJECT_SETTINGS):
        # What plans are made with; a copy of the repository may be changed between two runs.
        name, path = "ansible.plugins.action.trueup_plan", "plugins/action/trueup_plan.py"
        place = str(_PROJECT_SETTINGS.parent / path)
        loaders.action_loader._load_module_source(python_module_name=name, path=place).preload()
    sys.modules["ansible.plugins.connection.local"].__dict__["subprocess"] = _Forking(modules)
    # Asked for with each string of the facts that are kept: an eighth of what some plays cost.
    tags: Any = importlib.import_module("ansible.module_utils._internal._datatag")
    hints = functools.cache(typing.get_type_hints)
    tags.t = types.SimpleNamespace(**{**vars(typing), "get_type_hints": hints})
    # Its worker takes what Ansible's is given, by name.
    workers: Any = importlib.import_module("ansible.executor.process.worker")
    forking = workers.WorkerProcess
    sys.modules["ansible.plugins.strategy"].__dict__["WorkerProcess"] = lambda **given: (
        forking(**given) if _is_to_be_forked(given["task"]) else _Worker(workers, **given)
    )
    _shorten_powershell()
    playbook = importlib.import_module("ansible.cli.playbook")
    # Made as it was imported; each run has one of its own.
    atexit.unregister(importlib.import_module("ansible.config.manager").cleanup_tmp_file)
    Path(playbook.C.DEFAULT_LOCAL_TMP).rmdir()
    finder: Any = importlib.import_module("ansible.utils.collection_loader._collection_finder")
    finder._meta_yml_to_dict = functools.cache(finder._meta_yml_to_dict)
    moved = Path(finder.import_module("ansible").__path__[0], "config/ansible_builtin_runtime.yml")
    finder._meta_yml_to_dict(moved.read_bytes(), ("ansible.builtin", "runtime.yml"))


def _shorten_powershell() -> None:
    """Send simulated Windows hosts no text of the PowerShell that they do not run: which files a
    module imports is worked out and sent as ever, and the first script, which they know, is whole.
    """
    manifest: Any = importlib.import_module("ansible.executor.powershell.module_manifest")
    plain, scan = manifest._get_powershell_script, manifest.PSModuleDepFinder.scan_module

    # It matches each line of each file with six patterns.
    @functools.cache
    def imports(text: bytes) -> bytes:
        return b"\n".join(REQUIRES.findall(text))

    @functools.cache
    def script(name: str) -> bytes:
        text: bytes = plain(name)
        return text if name == "bootstrap_wrapper.ps1" else imports(text)

    def scan_module(self: Any, data: bytes, fqn: str | None = None, powershell: bool = True) -> Any:
        return scan(self, imports(data), fqn, powershell)

    def without_text(self: Any, content: bytes) -> None:
        object.__setattr__(self, "script", "")

    manifest._get_powershell_script = script
    manifest._get_powershell_signed_hashlist = functools.cache(
        manifest._get_powershell_signed_hashlist
    )
    manifest.PSModuleDepFinder.scan_module = scan_module
    manifest._ScriptInfo.__post_init__ = without_text
    # Of each request requests looks through all of the environment.
    of_requests: Any = importlib.import_module("requests.utils")
    for name in ("should_bypass_proxies", "getproxies"):
        setattr(of_requests, name, functools.cache(getattr(of_requests, name)))
    ansible = Path(manifest.__file__).parents[2]
    for path in (ansible / "executor" / "powershell").glob("*.ps1"):
        script(path.name)
    for path in (ansible / "module_utils").glob("*s*/Ansible.*"):
        imports(path.read_bytes())


def _is_to_be_forked(task: Any) -> bool:
    waits = task.action in _WAITING or task.async_val or task.until
    return bool(waits or ALL_IN_FORKS in os.environ)


class _Worker:
    """Ansible's worker, without a process of its own: a task of a host, done when it is started.

    What Ansible's changes in its fork, the task and its variables, is a copy here.
    """

    exitcode = 0

    def __init__(self, workers: Any, **given: Any) -> None:
        self._workers, self._given = workers, given

    def start(self) -> None:
        """Do the task and send its result."""
        given = self._given
        task = given["task"].copy(exclude_parent=True, exclude_tasks=True)
        task._parent = given["task"]._parent
        with self._workers._task.TaskContext(task):
            executor = self._workers.TaskExecutor(
                given["host"],
                task,
                dict(given["task_vars"]),
                given["play_context"],
                given["loader"],
                given["shared_loader_obj"],
                given["final_q"],
                given["variable_manager"],
            )
            answer = executor.run()
        result = self._workers._RawTaskResult(
            host=given["host"], task=task, return_data=answer, task_fields=task.dump_attrs()
        )
        given["final_q"].send_task_result(result)

    def is_alive(self) -> bool:
        return False

    def close(self) -> None:
        """Nothing is left of it."""


class _Forking:
    """subprocess, for the connection plugin local: a module of this Python is forked."""

    PIPE = subprocess.PIPE

    def __init__(self, modules: socket.socket) -> None:
        self._modules = modules

    def Popen(self, command: str, **options: Any) -> Any:  # noqa: N802 WHY: its name there
        """Start a command."""
        environment = _of_module(command)
        if environment is not None:
            return _Module(self._modules, environment)
        return subprocess.Popen(command, **options)


class _Module:
    """A module that is to be run."""

    def __init__(self, modules: socket.socket, environment: dict[str, str]) -> None:
        self._modules, self._environment = modules, environment
        self.returncode: int | None = None

    def communicate(self, program: bytes) -> tuple[bytes, bytes]:
        """Run it: its output."""
        env = self._environment
        asked = {"argv": [], "program": program.decode(), "cwd": os.getcwd(), "env": env}
        status, out, err = _asked(self._modules, asked, None)
        # As the shell says it.
        killed = f"{signal.strsignal(-status)}\n".encode() if status < 0 else b""
        self.returncode = status if status >= 0 else 128 - status
        return out, err + killed


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
    if "ansible.constants" in sys.modules:
        constants: Any = sys.modules["ansible.constants"]
        for name in (name for names in _LATER.values() for name in names):
            setting = constants.config.get_config_value(name, variables=vars(constants))
            setattr(constants, name, setting)
    sys.argv[:] = asked["argv"] or [""]
    sys.path[0] = str(Path(sys.argv[0]).parent) if asked["argv"] else ""
    if not asked["argv"]:
        # A session of its own, as Ansible's worker has one.
        os.setsid()
    try:
        if asked["argv"]:
            runpy.run_path(sys.argv[0], run_name="__main__")
        else:
            main = sys.modules["__main__"] = types.ModuleType("__main__")
            exec(compile(asked["program"], "<stdin>", "exec"), main.__dict__)
    except SystemExit as ended:
        _exit(ended.code)
    _exit(0)


def _exit(code: Any) -> NoReturn:
    """End as sys.exit does, but take nothing apart: that would copy most of what a fork shares."""
    if code is not None and not isinstance(code, int):
        sys.stderr.write(f"{code}\n")
        code = 1
    threads: Any = threading
    threads._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit((code or 0) & 0xFF)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
