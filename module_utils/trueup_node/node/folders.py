"""A folder of a benchmark's own, on the storage that it is to be on, and gone after the case."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
from typing import Any, Iterator

from ..errors import BadInput

_GIB = 1024**3
# File systems reserve some of their space: for metadata, and for files written meanwhile.
_SPARE = 1.05


def require_folder(directory: str) -> None:
    """Refuse a folder that is not there, rather than make it on whichever disk.

    Raises:
        BadInput: it is missing, no folder, or not ours to write in.
    """
    if not os.path.isdir(directory):
        raise BadInput(f"{directory} is not a folder on this node: mount it, or set directory")
    if not os.access(directory, os.W_OK | os.X_OK):
        raise BadInput(f"{directory} cannot be written in: set directory to a folder of yours")


def require_space(directory: str, needed: int, mend: str) -> None:
    """Refuse files that do not fit.

    Args:
        directory: the target directory.
        needed: bytes.
        mend: the fix that the message proposes.

    Raises:
        BadInput: with both figures.
    """
    disk = os.statvfs(directory)
    free = disk.f_bavail * disk.f_frsize
    if free < needed * _SPARE:
        raise BadInput(
            f"{directory} has {free / _GIB:.2f} GiB free, and the files need "
            f"{needed * _SPARE / _GIB:.2f} GiB: {mend}"
        )


def placeholder(directory: str, tool: str) -> str:
    """How the folder's path will look, for check mode."""
    return os.path.join(directory, f"trueup-{tool}-XXXXXXXX")


@contextlib.contextmanager
def own_folder(directory: str, tool: str) -> Iterator[str]:
    """A new folder below ``directory``, removed at the end, also when we are told to end.

    Raises:
        BadInput: it cannot be made.
    """

    def end(number: int, _frame: Any) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        folder = tempfile.mkdtemp(prefix=f"trueup-{tool}-", dir=directory)
    except OSError as error:
        raise BadInput(f"no folder can be made in {directory}: {error.strerror}") from error
    try:
        yield folder
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        shutil.rmtree(folder)
