"""Which file system a folder is on: the kernel's table of mounts, and systemd's names for them."""

from __future__ import annotations

import os
import re
import string
import subprocess
from typing import Dict, List, NamedTuple, Sequence

from ..errors import BadInput

MOUNTINFO = "/proc/self/mountinfo"
# Options that name a node's own address: the same mount has others on each node.
_OF_THE_NODE = ("addr", "clientaddr", "mountaddr", "mountport")
_PLAIN = frozenset(string.ascii_letters + string.digits + ":_.")


class Mount(NamedTuple):
    """One line of the table.

    Attributes:
        point: where it is mounted.
        kind: the file system's type: xfs, nfs4, lustre.
        source: the device, or server and export.
        options: those of the mount and of the file system, in the kernel's order, each once.
    """

    point: str
    kind: str
    source: str
    options: Sequence[str]

    @property
    def values(self) -> Dict[str, str]:
        """Option to value; empty for one that has none."""
        return {
            name: value for name, _, value in (option.partition("=") for option in self.options)
        }

    @property
    def shared_options(self) -> str:
        """The options without those that name the node's own address, with commas."""
        return ",".join(
            option for option in self.options if option.partition("=")[0] not in _OF_THE_NODE
        )


def read_mounts(text: str) -> List[Mount]:
    """The mounts of ``/proc/self/mountinfo``, in its order (proc(5)).

    Raises:
        BadInput: a line that has not the fields.
    """
    mounts = []
    for number, line in enumerate(text.splitlines(), 1):
        before, dash, after = line.partition(" - ")
        fields, right = before.split(" "), after.split(" ")
        if not dash or len(fields) < 6 or len(right) != 3:
            raise BadInput(f"{MOUNTINFO} line {number} is not understood: {line}")
        options = [*fields[5].split(","), *right[2].split(",")]
        mounts.append(
            Mount(
                _plain(fields[4]),
                right[0],
                _plain(right[1]),
                tuple(dict.fromkeys(map(_plain, options))),
            )
        )
    return mounts


def _plain(text: str) -> str:
    """Blanks, tabs, line ends and backslashes are written in octal."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def mount_of(path: str, mounts: Sequence[Mount]) -> Mount:
    """The mount that an absolute path without links lies on.

    Raises:
        BadInput: none; every path has the root's.
    """
    covering = [
        mount for mount in mounts if mount.point == "/" or f"{path}/".startswith(f"{mount.point}/")
    ]
    if not covering:
        raise BadInput(f"{path} lies on no mount of {MOUNTINFO}")
    # Of several on one point, the last hides the others.
    longest = max(len(mount.point) for mount in covering)
    return [mount for mount in covering if len(mount.point) == longest][-1]


def require_answer(path: str, seconds: float) -> bool:
    """Refuse a folder whose file system does not answer, as that of a server that is gone.

    Returns:
        Whether it says how full it is; its answer may be an error, as that of an export that was
        made anew (ESTALE).

    Raises:
        BadInput: no answer in time.
    """
    process = subprocess.Popen(
        ["stat", "--file-system", "--", path],  # noqa: S607 (the node's own)
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "LC_ALL": "C"},
    )
    try:
        return process.wait(seconds) == 0
    except subprocess.TimeoutExpired:
        # Not waited for: a file system may keep it until its server is back.
        process.kill()
        raise BadInput(
            f"{path} has not answered in {seconds:g} s: its server is gone; see `findmnt {path}`"
        ) from None


def unit_name(path: str, kind: str = "mount") -> str:
    """systemd's name for the unit of a path, as ``systemd-escape --path`` gives it.

    Letters, digits, ``:``, ``_`` and ``.`` stay, but not a leading ``.``; ``/`` becomes ``-``; any
    other byte is written ``\\xNN`` (systemd.unit(5)).

    Raises:
        BadInput: not an absolute path, or one with . or .. in it.
    """
    parts = [component for component in path.split("/") if component]
    if not path.startswith("/") or {".", ".."} & set(parts):
        raise BadInput(f"{path} is not an absolute path without . and ..")
    text = "/".join(parts) or "/"
    if text == "/":
        return f"-.{kind}"
    escaped = ""
    for number, byte in enumerate(text.encode()):
        letter = chr(byte)
        if letter == "/":
            escaped += "-"
        elif letter in _PLAIN and not (number == 0 and letter == "."):
            escaped += letter
        else:
            escaped += f"\\x{byte:02x}"
    return f"{escaped}.{kind}"
