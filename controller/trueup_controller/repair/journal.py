"""The files of repair cases: ``cases/<id>.jsonl`` beside the results, one step a line.

A file only grows. A step is on the disk before its action's next part begins, and a line that a
kill left unfinished was never a step: readers leave it out, the next step takes its place.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from trueup_node.errors import BadInput, TrueupError
from trueup_node.record import is_run_id

from . import case as cases
from .case import Case
from .steps import Opened, Step, line_of, step_of

FOLDER: Final = "cases"
_SUFFIX: Final = ".jsonl"
_MODE: Final = 0o640
# A case has some dozen steps.
_MOST_BYTES: Final = 2**24


class Listed(NamedTuple):
    """All cases of a folder, oldest first, and a sentence on each file that cannot be read."""

    cases: list[Case]
    refused: list[str]


class Journal:
    """The file of one case.

    Args:
        results: the folder of results.
        case_id: such as 20261130T091300Z-7c1e.
    """

    def __init__(self, results: Path, case_id: str) -> None:
        self.folder = results / FOLDER
        self.id = case_id
        self.path = self.folder / f"{case_id}{_SUFFIX}"

    def read(self) -> Case:
        """The case.

        Raises:
            BadInput: the file cannot be read, or is not a case's; says which line.
        """
        steps: list[Step] = []
        content = _content(self.path)
        for number, line in enumerate(content.split(b"\n")[:-1], 1):
            try:
                steps.append(step_of(line))
            except BadInput as error:
                raise BadInput(f"{self.path} line {number}: {error}") from None
        try:
            case = cases.of_steps(steps)
        except BadInput as error:
            raise BadInput(f"{self.path} cannot be used: {error}") from None
        if case.id != self.id:
            raise BadInput(f"{self.path} is the case {case.id}: a file was renamed")
        return case

    def open(self, step: Opened) -> Case:
        """Begin the case."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            aside = self.folder / f".{self.id}.new"
            with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _MODE), "wb") as stream:
                stream.write(line_of(step))
                stream.flush()
                os.fsync(stream.fileno())
            os.rename(aside, self.path)
            _sync(self.folder)
        except OSError as error:
            raise TrueupError(f"{self.path} could not be written: {error.strerror}") from error
        return self.read()

    def append(self, case: Case, step: Step) -> Case:
        """One more step, on the disk.

        Raises:
            BadInput: the step cannot follow.
            TrueupError: the disk refuses.
        """
        changed = cases.after(case, step)
        try:
            with open(self.path, "r+b") as stream:
                length = _whole_bytes(stream.read(_MOST_BYTES))
                stream.seek(length)
                stream.truncate()
                stream.write(line_of(step))
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            raise TrueupError(f"{self.path} could not be written: {error.strerror}") from error
        return changed

    @contextlib.contextmanager
    def alone(self) -> Iterator[int]:
        """Lock the case; the lock's file descriptor, which a program that must end first inherits.

        Raises:
            BadInput: another process works on the case.
        """
        with _locked(self.folder / f".{self.id}.lock", waits=False) as lock:
            yield lock


@contextlib.contextmanager
def together(results: Path) -> Iterator[None]:
    """While the block lasts, no other process opens a case or begins an action."""
    (results / FOLDER).mkdir(parents=True, exist_ok=True)
    with _locked(results / FOLDER / ".lock", waits=True):
        yield


@contextlib.contextmanager
def _locked(path: Path, *, waits: bool) -> Iterator[int]:
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE)
    except OSError as error:
        raise TrueupError(f"{path} could not be made: {error.strerror}") from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
        except BlockingIOError:
            name = path.name.removeprefix(".").removesuffix(".lock")
            raise BadInput(
                f"another process works on case {name}, or a check that it started still runs:"
                " wait for it"
            ) from None
        yield handle
    finally:
        os.close(handle)


def read_all(results: Path) -> Listed:
    """All cases beside these results.

    Raises:
        BadInput: the folder of results does not exist.
    """
    if not results.is_dir():
        raise BadInput(f"{results} is no folder of results: give --results, or open a case")
    listed, refused = [], []
    for path in sorted((results / FOLDER).glob(f"*{_SUFFIX}")):
        name = path.name.removesuffix(_SUFFIX)
        try:
            if not is_run_id(name):
                raise BadInput(f"{path} is not named after a case (20261130T091300Z-7c1e.jsonl)")
            listed.append(Journal(results, name).read())
        except BadInput as error:
            refused.append(str(error))
    return Listed(listed, refused)


def find(results: Path, name: str) -> Case:
    """A case by its id, the beginning of one, or the node of an open one.

    Raises:
        BadInput: there is none, or more than one.
    """
    listed = read_all(results)
    matches = [case for case in listed.cases if case.id.startswith(name)]
    matches = matches or [case for case in listed.cases if case.node == name and not case.closed]
    matches = matches or [case for case in listed.cases if case.node == name][-1:]
    if len(matches) == 1:
        return matches[0]
    for sentence in listed.refused:
        if name in sentence:
            raise BadInput(sentence)
    if matches:
        ids = ", ".join(case.id for case in matches[:5])
        raise BadInput(f"{name!r} may be the case {ids}: write more of the id")
    raise BadInput(
        f"there is no case {name!r} in {results / FOLDER}: `trueup case list` names them, and"
        " `trueup case open` opens one"
    )


def _content(path: Path) -> bytes:
    """The whole lines of a file."""
    try:
        with path.open("rb") as stream:
            content = stream.read(_MOST_BYTES + 1)
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from None
    if len(content) > _MOST_BYTES:
        raise BadInput(f"{path} is larger than {_MOST_BYTES >> 20} MiB, which no case is")
    return content[: _whole_bytes(content)]


def _whole_bytes(content: bytes) -> int:
    """Where the last whole line ends."""
    return content.rfind(b"\n") + 1


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
