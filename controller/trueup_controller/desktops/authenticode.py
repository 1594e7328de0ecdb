"""A look into a Windows program: whether it is whole by the digest of its own Authenticode
signature, and whose certificates stand in that.

It is only a look. No signature is computed and no certificate is followed to a root: the host does
that (signature.ps1). Source: Microsoft's "Windows Authenticode Portable Executable Signature
Format" and "PE Format" (learn.microsoft.com).
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from trueup_node.errors import BadInput

if TYPE_CHECKING:
    from pathlib import Path

# Whose programs NVIDIA's drivers on Microsoft's host are.
SIGNERS = ("NVIDIA Corporation", "Microsoft Corporation")
_CHUNK = 1024**2
# Limits on a program's head, far above usual headers; and on a signature, which has some 10 kB.
_HEAD_BYTES, _MOST_SIGNATURE = 64 * 1024, 1024**2
# Of the optional header: its magic to where the data directories begin. The fifth is signatures.
_DIRECTORIES = {0x10B: 96, 0x20B: 112}
_DIGESTS = ("sha256", "sha1", "sha384")


def sha256_of(path: Path) -> str:
    """The sha256 of a whole program that NVIDIA or Microsoft signed, by its looks.

    Raises:
        BadInput: it cannot be read, is no such program, or is not whole.
    """
    try:
        with path.open("rb") as file:
            return _looked_into(file, path, path.stat().st_size)
    except OSError as error:
        raise BadInput(str(error)) from error


def _looked_into(file: Any, path: Path, size: int) -> str:
    head: bytes = file.read(_HEAD_BYTES)
    checksum, entry, start, length = _signature_of(head, path)
    if start + length > size or length > _MOST_SIGNATURE or start < entry + 8:
        raise _not_whole(path, f"its signature is to end at byte {start + length} of {size}")
    file.seek(start)
    signature = file.read(length)
    signers = [name for name in SIGNERS if name.encode() in signature]
    if not signers:
        raise BadInput(
            f"{path} is signed by none of {' and '.join(SIGNERS)}: see what windows_gpu_url or the"
            " manifest's address gives"
        )
    # The bytes that a signature covers: all but the checksum, the entry of the signature, and
    # itself.
    parts = [(0, checksum), (checksum + 4, entry), (entry + 8, start), (start + length, size)]
    file_hash, digests = hashlib.sha256(), [hashlib.new(name) for name in _DIGESTS]
    file.seek(0)
    done = 0
    for chunk in iter(lambda: file.read(_CHUNK), b""):
        file_hash.update(chunk)
        for begin, end in parts:
            piece = chunk[max(begin - done, 0) : max(end - done, 0)]
            for digest in digests:
                digest.update(piece)
        done += len(chunk)
    if not any(digest.digest() in signature for digest in digests):
        raise _not_whole(path, "its digest is not that of its signature")
    return file_hash.hexdigest()


def _signature_of(head: bytes, path: Path) -> tuple[int, int, int, int]:
    """Where the checksum is, where the entry of the signature is, where that begins, its length."""
    try:
        (at,) = struct.unpack_from("<I", head, 0x3C)
        (magic,) = struct.unpack_from("<H", head, at + 24)
        if head[:2] != b"MZ" or head[at : at + 4] != b"PE\0\0" or magic not in _DIRECTORIES:
            raise struct.error("no program")
        entry = at + 24 + _DIRECTORIES[magic] + 4 * 8
        start, length = struct.unpack_from("<II", head, entry)
    except struct.error as error:
        raise BadInput(
            f"{path} is no program for Windows (it begins with {head[:8]!r}): see what"
            " windows_gpu_url or the manifest's address gives"
        ) from error
    if not start or not length:
        raise BadInput(f"{path} carries no signature: see what windows_gpu_url gives")
    return at + 24 + 64, entry, start, length


def _not_whole(path: Path, reason: str) -> BadInput:
    return BadInput(
        f"{path} is not whole: {reason}: remove it and run again, or give its sha256 in"
        " windows_gpu_checksums"
    )


def refusals(response: Any, path: str, signers: Sequence[str] = SIGNERS) -> list[str]:
    """Reasons in signature.ps1's result not to run a program, a sentence each.

    Args:
        path: the program's name in sentences.
        signers: organisations, one of which must have signed it.
    """
    signature = response if isinstance(response, dict) else {}
    status, signer = signature.get("status"), signature.get("signer")
    if status != "Valid":
        return [f"{path}: Windows calls its signature {status or 'unknown'}, expected is Valid."]
    # X.500 as .NET writes it: parts with ", " between them, a value with a comma in quotes.
    parts = re.findall(r'(?:^|, )([A-Za-z0-9.]+)=("(?:[^"]|"")*"|[^,]*)', str(signer))
    if not any(organization in parts for organization in (("O", name) for name in signers)):
        return [f"{path}: it is signed by {signer}, expected is {' or '.join(signers)}."]
    return []
