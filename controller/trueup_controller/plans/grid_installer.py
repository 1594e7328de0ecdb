"""NVIDIA's installer of a driver, a shell archive (makeself): its version, and whether it is whole.

Its head is a shell script with the archive's facts as variables (``skip=``, ``MD5=``, ``label=``),
its rest is that archive. It has no signature: only the TLS of the download host vouches for its
origin.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from trueup_node.errors import BadInput

if TYPE_CHECKING:
    from pathlib import Path

# Of a head, far above the 600 to 1000 lines that these have.
_HEAD_BYTES = 1024**2
_CHUNK = 1024**2


def sha256_of(path: Path, version: str) -> str:
    """The sha256 of the installer of driver ``version``.

    Raises:
        BadInput: it cannot be read, is the installer of something else, or is not whole.
    """
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
            start = _start_of(head, path, version)
            file_hash, archive = (
                hashlib.sha256(head),
                hashlib.md5(head[start:], usedforsecurity=False),
            )
            for chunk in iter(lambda: file.read(_CHUNK), b""):
                file_hash.update(chunk)
                archive.update(chunk)
    except OSError as error:
        raise BadInput(str(error)) from error
    stated, actual = _variable(head, b"MD5"), archive.hexdigest()
    if stated != actual:
        raise BadInput(
            f"{path} is not whole: its archive's MD5 is {actual}, its head says {stated or 'none'}:"
            " remove it and run again, or give its sha256 in gpu_grid_checksums"
        )
    return file_hash.hexdigest()


def _start_of(head: bytes, path: Path, version: str) -> int:
    """Where the archive begins: ``skip`` is its first line, counted from 1."""
    label, skip = _variable(head, b"label"), _variable(head, b"skip")
    if (
        not re.search(rf"Linux-x86_64[ -]{re.escape(version)}(-[a-z-]+)?$", label)
        or not skip.isdecimal()
    ):
        raise BadInput(
            f"{path} is no installer of the driver {version} for Linux-x86_64 (it calls itself"
            f" {label or 'nothing'}): see what gpu_grid_url or the manifest's address gives"
        )
    lines = head.split(b"\n", int(skip) - 1)
    return len(head) - len(lines[-1])


def _variable(head: bytes, name: bytes) -> str:
    """A variable of the head; empty where it has none."""
    match = re.search(rb'^%s="?([^"\n]*)"?$' % name, head, re.MULTILINE)
    return match.group(1).decode("utf-8", "replace") if match else ""
