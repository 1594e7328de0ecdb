"""The files of a publication: a git repository at its newest commit, a folder, or one file."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trueup_node.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_MOST_BYTES: Final = 2**26
_COMMIT: Final = re.compile(r"[0-9a-f]{7,40}")
_SECONDS: Final = 300


@dataclass(frozen=True)
class Tree:
    """The files of a publication, and where they are from.

    Attributes:
        path: a git repository (bare or not), a folder, or a file.
        repository: its public name, owner/name, or an address.
        commit, date: of the files; "" and the day as the user gives them where it is no repository.
    """

    path: Path
    repository: str
    commit: str
    date: str
    in_git: bool

    @cached_property
    def names(self) -> Sequence[str]:
        """Every file, by its path in the tree."""
        if self.in_git:
            return _git(self.path, "ls-tree", "-r", "-z", "--name-only", "HEAD").split("\0")[:-1]
        if self.path.is_file():
            return [self.path.name]
        return sorted(
            str(name.relative_to(self.path)) for name in self.path.rglob("*") if name.is_file()
        )

    def matching(self, pattern: str) -> list[str]:
        """The files whose whole path matches a regular expression."""
        expression = re.compile(pattern)
        return [name for name in self.names if expression.fullmatch(name)]

    def texts(self, names: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Each file and its text; bytes that are no UTF-8 are replaced."""
        if self.in_git:
            yield from _blobs(self.path, list(names))
            return
        for name in names:
            file = self.path if self.path.is_file() else self.path / name
            try:
                content = file.read_bytes()[:_MOST_BYTES]
            except OSError as error:
                raise BadInput(f"{file} cannot be read: {error.strerror}") from error
            yield name, content.decode("utf-8", "replace")


def opened(path: Path, repository: str, commit: str | None, day: str | None) -> Tree:
    """The tree at a path. A git repository tells its commit and date itself.

    Raises:
        BadInput: there is nothing at the path, or nothing says its date.
    """
    try:
        path.stat()
    except (OSError, ValueError) as error:
        cause = getattr(error, "strerror", None) or error
        raise BadInput(f"{path} cannot be read: {cause}; give a checkout or a file") from error
    if path.is_dir() and _is_repository(path):
        head, dated = _git(path, "log", "-1", "--format=%H %cs").split()
        return Tree(path, repository, commit or head[:12], day or dated, in_git=True)
    if day is None:
        raise BadInput(f"{path} is no git repository, so that nothing says its date: give --date")
    if commit is not None and not _COMMIT.fullmatch(commit):
        raise BadInput(f"--commit {commit} is no commit: 7 to 40 hexadecimal digits")
    return Tree(path, repository, commit or "", day, in_git=False)


def _is_repository(path: Path) -> bool:
    return (path / ".git").exists() or ((path / "HEAD").is_file() and (path / "objects").is_dir())


def _git(path: Path, *words: str) -> str:
    try:
        return subprocess.run(  # noqa: S603 WHY: a list of words; the user names the path
            ["git", "-C", str(path), *words],  # noqa: S607 WHY: git of the user's PATH
            check=True,
            capture_output=True,
            timeout=_SECONDS,
            encoding="utf-8",
            errors="replace",
        ).stdout
    except FileNotFoundError as error:
        raise BadInput("git is not installed: install it, or give the files as a folder") from error
    except subprocess.TimeoutExpired as error:
        raise BadInput(f"git {words[0]} of {path} took more than {_SECONDS} s") from error
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise BadInput(f"git {words[0]} of {path} failed: {last}") from error


def _blobs(path: Path, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The files of HEAD by one process of git; files that a partial copy lacks are left out."""
    queries = "".join(f"HEAD:{name}\n" for name in names)
    out = subprocess.run(  # noqa: S603 WHY: as above
        ["git", "-C", str(path), "cat-file", "--batch"],  # noqa: S607 WHY: as above
        input=queries.encode(),
        capture_output=True,
        check=False,
        timeout=_SECONDS,
    ).stdout
    start = 0
    for name in names:
        end = out.find(b"\n", start)
        head = out[start:end].split()
        start = end + 1
        if head[-1:] == [b"missing"] or len(head) != 3:
            continue
        size = int(head[2])
        yield name, out[start : start + size].decode("utf-8", "replace")
        start += size + 1
