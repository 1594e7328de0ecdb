"""A virtual environment that holds what its requirements pin: what is to be done to one, and doing
it while nobody else does, on this node or on another that shares its folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Mapping, Sequence, Tuple

from ..errors import BadInput, TrueupError

# Argv to exit status, output and complaint.
Run = Callable[[Sequence[str]], Tuple[int, str, str]]

# How long another node may take that makes the same environment: an hour, for source builds.
WAIT_SECONDS = 3600.0
_POLL_SECONDS = 1.0
_VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"
_SAME = "import pip, sys; sys.exit('%d.%d' % sys.version_info[:2] != sys.argv[1])"
# Prints what is not installed as pinned; exit status 1 then.
_COMPARE = """\
import importlib.metadata as metadata, sys
wrong = []
for pin in sys.argv[1:]:
    name, _, version = pin.partition("==")
    try:
        found = metadata.version(name)
    except metadata.PackageNotFoundError:
        found = "nothing"
    if found != version:
        wrong.append(f"{name} {version} (there is {found})")
sys.exit(", ".join(wrong) or 0)
"""
# An emptying that was interrupted leaves some of these.
_PARTS = {"bin", "include", "lib", "lib64", "share", "pyvenv.cfg", ".gitignore"}


@dataclass(frozen=True)
class Environment:
    """What is wanted.

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


def pins(requirements: str) -> List[str]:
    """``name==version`` of everything that a file of requirements pins."""
    return re.findall(r"(?m)^[A-Za-z0-9_.-]+==\S+", requirements)


def due(wanted: Environment, run: Run) -> str:
    """``make``, ``install`` or ``nothing``.

    Raises:
        BadInput: the folder is somebody else's.
    """
    path = wanted.path
    if os.path.islink(path):
        raise BadInput(
            f"{path} is a link to {os.path.realpath(path)}, whose owner wants it unchanged:"
            " remove the link"
        )
    taken = os.listdir(path) if os.path.isdir(path) else [path] if os.path.exists(path) else []
    if taken and "pyvenv.cfg" not in taken and not _PARTS.issuperset(taken):
        raise BadInput(f"{path} holds something else than a virtual environment: move it away")
    code, version, _ = run([wanted.python, "-c", _VERSION])
    # Without that Python nothing can be asked: making it says so.
    if code != 0 or run([wanted.interpreter, "-c", _SAME, version.strip()])[0] != 0:
        return "make"
    if any(_text(file) != text for file, text in wanted.files.items()):
        return "install"
    return "install" if _lacking(wanted, run) else "nothing"


def installed(wanted: Environment, run: Run, seconds: float = WAIT_SECONDS) -> str:
    """Do what is due, and say what it was.

    Raises:
        BadInput: the folder is somebody else's.
        TrueupError: a program failed, with what it said; another one does not come to its end.
    """
    if due(wanted, run) == "nothing":
        return "nothing"
    os.makedirs(os.path.dirname(wanted.path), mode=0o755, exist_ok=True)
    with _alone(f"{wanted.path}.lock", seconds):
        # Another node that shares the folder may have made it meanwhile.
        todo = due(wanted, run)
        if todo == "make":
            _done(run, [wanted.python, "-m", "venv", "--clear", wanted.path])
        if todo != "nothing":
            _install(wanted, run)
    return todo


def _install(wanted: Environment, run: Run) -> None:
    for file, text in wanted.files.items():
        Path(file).write_text(text, encoding="utf-8")
        os.chmod(file, 0o644)
        _done(
            run,
            [
                *(wanted.interpreter, "-m", "pip", "install", "--quiet"),
                *("--disable-pip-version-check", "--requirement", file),
                *("--require-hashes", "--no-deps", "--no-build-isolation", *wanted.source),
            ],
        )
    lacking = _lacking(wanted, run)
    if lacking:
        raise TrueupError(f"{wanted.path} does not hold what is pinned after pip: {lacking}")


def _lacking(wanted: Environment, run: Run) -> str:
    """What is not installed as pinned, or why that cannot be said; empty where all of it is."""
    code, output, complaint = run([wanted.interpreter, "-c", _COMPARE, *wanted.pins])
    return "" if code == 0 else complaint.strip() or output.strip() or f"exit status {code}"


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _done(run: Run, argv: Sequence[str]) -> None:
    code, output, complaint = run(argv)
    if code != 0:
        said = (complaint.strip() or output.strip() or "it said nothing").splitlines()
        raise TrueupError(f"exit status {code} of {' '.join(argv)}: {' '.join(said[-10:])}")


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
