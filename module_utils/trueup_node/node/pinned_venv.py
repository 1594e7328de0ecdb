"""A virtual environment with the packages that its requirements pin: the changes that are due, and
making them under a lock, on this node or on another that shares its folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Sequence, Tuple

from ..errors import BadInput, TrueupError

# Argv to exit status, output and complaint.
Run = Callable[[Sequence[str]], Tuple[int, str, str]]

# How long another node may take that makes the same environment: an hour, for source builds.
WAIT_SECONDS = 3600.0
_POLL_SECONDS = 1.0
# pip's messages about an index that cannot be read, and about one that answers with an error.
_LOST_INDEX = (
    r"^WARNING: Retrying .*(\[Errno -?\d+\] [^'\")]+|[Rr]ead timed out|timed out"
    r"|certificate verify failed|Connection reset by peer|Remote end closed connection)"
)
_NO_VERSION = "(from versions: none)"
# pip's message about a file with another hash; also where its server was lost amid the file.
_OTHER_CONTENT = "DO NOT MATCH THE HASHES"
_VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"
# Prints, as JSON: whether the environment is this one, of this Python, with a complete pip; which
# pins it lacks; and the folders of partial packages, which pip takes for installed. A file counts
# as there when it has the size that a RECORD says (packages may share one). INSTALLER is written
# last: a RECORD without it is of an installation that did not end.
_COMPARE = """\
import csv, importlib.metadata as metadata, json, os, re, sys
version, path, *pins = sys.argv[1:]

def plain(name):
    return re.sub("[-_.]+", "-", name).lower()

def version_of(one):
    try:
        return one.version or "nothing"
    except Exception:
        return "nothing"

def rows_of(one):
    try:
        rows = list(csv.reader((one.read_text("RECORD") or "").splitlines()))
        root = str(one.locate_file(""))
        # A wheel may bring compiled files, which pip compiles anew.
        rows = [row for row in rows if row and not row[0].endswith(".pyc")]
        return {os.path.join(root, row[0]): int(row[2]) if row[2] else None for row in rows}
    except (csv.Error, IndexError, ValueError):
        return {}

def is_there(file):
    try:
        size = os.stat(file).st_size
    except OSError:
        return False
    return None in sizes[file] or size in sizes[file]

installed, sizes = {}, {}
for one in metadata.distributions():
    folder = str(one._path)
    if folder.endswith(".dist-info"):
        rows = rows_of(one)
        name = plain(os.path.basename(folder).partition("-")[0])
        installed.setdefault(name, {})[folder] = (version_of(one), rows)
        for file, size in rows.items():
            sizes.setdefault(file, set()).add(size)
lacking, parts, pip_is_whole = [], [], False
for pin in ["pip", *dict.fromkeys(pins)]:
    name, _, wanted = pin.partition("==")
    found = installed.get(plain(name), {})
    gone = [
        file
        for folder, (_, rows) in found.items()
        for file in rows or [folder + "/RECORD"]
        if not is_there(file)
    ] if all(rows for _, rows in found.values()) else ["its RECORD"]
    unfinished = [
        folder for folder, (_, rows) in found.items() if folder + "/INSTALLER" not in rows
    ]
    whole = not gone and not unfinished and len(found) == 1
    if not wanted:
        pip_is_whole = whole
        continue
    versions = " and ".join(sorted(at for at, _ in found.values())) or "nothing"
    if found and not whole:
        parts += found
        what = f"{len(gone)} of its files, as {gone[0]}" if gone else "its end: pip was interrupted"
        lacking.append(f"{name} {wanted} (there is {versions} without {what})")
    elif versions != wanted:
        lacking.append(f"{name} {wanted} (there is {versions})")
here = "%d.%d" % sys.version_info[:2] == version
here = here and os.path.realpath(sys.prefix) == os.path.realpath(path)
print(json.dumps({"usable": here and pip_is_whole, "lacking": lacking, "parts": parts}))
"""
# An emptying that was interrupted leaves some of these.
_PARTS = {"bin", "include", "lib", "lib64", "share", "pyvenv.cfg", ".gitignore"}


class Environment(NamedTuple):
    """The required environment.

    Attributes:
        path: its folder, absolute.
        python: the Python that it is made with, a path or a name.
        requirements: names of files beside it to their texts, in the order of installing.
        source: pip's arguments that say where packages come from.
    """

    path: str
    python: str
    requirements: Mapping[str, str]
    source: Sequence[str]

    @property
    def interpreter(self) -> str:
        """Its own Python."""
        return os.path.join(self.path, "bin", "python")

    @property
    def pins(self) -> List[str]:
        """``name==version`` of everything that is pinned."""
        return [pin for text in self.requirements.values() for pin in pins(text)]

    @property
    def files(self) -> Dict[str, str]:
        """Path of each file of requirements to its text."""
        folder = os.path.dirname(self.path)
        return {os.path.join(folder, name): text for name, text in self.requirements.items()}

    @property
    def unfinished(self) -> str:
        """A file that is there while packages are installed, until they are on the disk."""
        return f"{self.path}.unfinished"


def pins(requirements: str) -> List[str]:
    """``name==version`` of everything that a file of requirements pins."""
    return re.findall(r"(?m)^[A-Za-z0-9_.-]+==\S+", requirements)


def due(environment: Environment, run: Run) -> str:
    """``make``, ``install`` or ``nothing``.

    Raises:
        BadInput: the folder is somebody else's.
    """
    path = environment.path
    if os.path.islink(path):
        raise BadInput(
            f"{path} is a link to {os.path.realpath(path)}, whose owner wants it unchanged:"
            " remove the link"
        )
    taken = os.listdir(path) if os.path.isdir(path) else [path] if os.path.exists(path) else []
    if taken and "pyvenv.cfg" not in taken and not _PARTS.issuperset(taken):
        raise BadInput(f"{path} holds something else than a virtual environment: move it away")
    state = _state(environment, run)
    if not state["usable"]:
        return "make"
    # pip never syncs to disk: after a power loss the files that it installed may have no content,
    # in packages that look installed.
    if os.path.exists(environment.unfinished):
        return "make"
    if any(_text(file) != text for file, text in environment.files.items()):
        return "install"
    return "install" if state["lacking"] else "nothing"


def installed(environment: Environment, run: Run, seconds: float = WAIT_SECONDS) -> str:
    """Make the changes that are due, and return their name.

    Raises:
        BadInput: the folder is somebody else's.
        TrueupError: a program failed, with its message; or another process does not finish.
    """
    if due(environment, run) == "nothing":
        return "nothing"
    os.makedirs(os.path.dirname(environment.path), mode=0o755, exist_ok=True)
    with _alone(f"{environment.path}.lock", seconds):
        # Another node that shares the folder may have made it meanwhile.
        todo = due(environment, run)
        if todo == "nothing":
            return todo
        # Empty: a journal keeps the order of names, so no file of a package is there before it.
        Path(environment.unfinished).touch(mode=0o644)
        if todo == "make":
            _done(run, [environment.python, "-m", "venv", "--clear", environment.path])
        _install(environment, run)
        _done(run, ["sync", "--file-system", os.path.dirname(environment.path)])
        os.unlink(environment.unfinished)
    return todo


def _install(environment: Environment, run: Run) -> None:
    for folder in _state(environment, run)["parts"]:
        shutil.rmtree(folder)
    for file, text in environment.files.items():
        Path(file).write_text(text, encoding="utf-8")
        os.chmod(file, 0o644)
        _done(
            run,
            [
                *(environment.interpreter, "-m", "pip", "install", "--quiet"),
                *("--disable-pip-version-check", "--requirement", file),
                *("--require-hashes", "--no-deps", "--no-build-isolation", *environment.source),
            ],
        )
    state = _state(environment, run)
    if state["lacking"] or not state["usable"]:
        lacking = ", ".join(state["lacking"]) or "pip itself"
        raise TrueupError(f"{environment.path} does not hold what is pinned after pip: {lacking}")


def _state(environment: Environment, run: Run) -> Dict[str, Any]:
    """The output of ``_COMPARE``; an environment that cannot run it is not usable."""
    code, version, _ = run([environment.python, "-c", _VERSION])
    # Without that Python nothing can be asked: making it says so.
    if code == 0:
        argv = [
            environment.interpreter,
            "-c",
            _COMPARE,
            version.strip(),
            environment.path,
            *environment.pins,
        ]
        code, output, _ = run(argv)
        if code == 0:
            with contextlib.suppress(ValueError, IndexError):
                state: Dict[str, Any] = json.loads(output.splitlines()[-1])
                return state
    return {"usable": False, "lacking": [], "parts": []}


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _done(run: Run, argv: Sequence[str]) -> None:
    code, output, complaint = run(argv)
    if code != 0:
        output_lines = (complaint.strip() or output.strip() or "it said nothing").splitlines()
        message_lines = [line for line in output_lines if not line.startswith("WARNING: Retrying")]
        reason = f"exit status {code} of {' '.join(argv)}: {' '.join(message_lines[-10:])}"
        causes = re.findall(_LOST_INDEX, complaint, re.MULTILINE)
        if causes:
            reason = f"this node cannot read the package index ({causes[-1]}): {reason}"
        elif _NO_VERSION in complaint:
            reason += "; an index that answers with an error is told so too: name another"
        if _OTHER_CONTENT in complaint:
            reason += "; a download that broke off is told so too: run again"
        raise TrueupError(reason)


@contextlib.contextmanager
def _alone(path: str, seconds: float) -> Iterator[None]:
    """Nobody else in the meantime; a lock of NFS holds for other nodes too.

    Raises:
        TrueupError: somebody else is still at it after the time.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        end = time.monotonic() + seconds
        while not _locked(descriptor):
            if time.monotonic() > end:
                raise TrueupError(
                    f"another node or run has been at work here for {seconds:.0f} s (it holds"
                    f" {path}): see what it does, and run again"
                )
            time.sleep(_POLL_SECONDS)
        yield
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True
