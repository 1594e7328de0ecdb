"""A look into a signed program. The programs are made here, by Microsoft's "PE Format"."""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path
from typing import Any

import pytest
from helpers import parametrized
from trueup_controller.desktops.authenticode import refusals, sha256_of
from trueup_node.errors import BadInput

BODY = b"not a driver\n" * 300_000


def program(
    *, signer: bytes = b"NVIDIA Corporation", body: bytes = BODY, magic: int = 0x20B
) -> bytearray:
    """A 64-bit (or 32-bit) program with a signature that holds its digest and a name."""
    directories = {0x20B: 112, 0x10B: 96}[magic]
    head = bytearray(0x80 + 24 + directories + 16 * 8)
    head[:2], head[0x80:0x84] = b"MZ", b"PE\0\0"
    struct.pack_into("<I", head, 0x3C, 0x80)
    struct.pack_into("<H", head, 0x80 + 24, magic)
    checksum, entry = 0x80 + 24 + 64, 0x80 + 24 + directories + 32
    whole = bytes(head) + body
    digest = hashlib.sha256(whole[:checksum] + whole[checksum + 4 : entry] + whole[entry + 8 :])
    signature = b"\x30\x82" + digest.digest() + b"\x0c" + signer + b"\0" * 5
    made = bytearray(whole + signature)
    struct.pack_into("<I", made, checksum, 0xDEADBEEF)
    struct.pack_into("<II", made, entry, len(whole), len(signature))
    return made


def test_a_signature_of_ten_kilobytes(tmp_path: Path) -> None:
    path = tmp_path / "x.exe"
    path.write_bytes(program(signer=b"\0" * 10_000 + b"NVIDIA Corporation"))
    assert sha256_of(path) == hashlib.sha256(path.read_bytes()).hexdigest()


def cut(made: bytearray, at: int) -> bytearray:
    return made[:at]


def flipped(made: bytearray, at: int) -> bytearray:
    made[at] ^= 1
    return made


ENTRY = 0x80 + 24 + 112 + 32


def entry(start: int, length: int) -> bytearray:
    made = program()
    struct.pack_into("<II", made, ENTRY, start, length)
    return made


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: cut(program(), -7), "is not whole: its signature is to end at byte"),
        (
            lambda: flipped(program(), 2_000_000),
            "is not whole: its digest is not that of its signature",
        ),
        (lambda: flipped(program(), 0x90), "is not whole: its digest"),
        (lambda: bytes(program()) + b"more", "is not whole: its digest"),
        (
            lambda: program(signer=b"Mallory Ltd"),
            "is signed by none of NVIDIA Corporation and Microsoft",
        ),
        (lambda: entry(0, 0), "carries no signature"),
        (lambda: entry(0, 100), "carries no signature"),
        (lambda: entry(5000, 0), "carries no signature"),
        (lambda: entry(4, 100), "is not whole: its signature"),
        (lambda: entry(ENTRY + 7, 100), "is not whole: its signature"),
        (lambda: entry(len(program()) - 10, 11), "is not whole: its signature"),
        (lambda: entry(0xFFFFFFFF, 0xFFFFFFFF), "is not whole: its signature"),
        (lambda: entry(500, 3_000_000), "is not whole: its signature"),
        (lambda: b"<html>Sorry</html>", "is no program for Windows"),
        (lambda: b"MZ", "is no program for Windows"),
        (lambda: b"MZ" + b"\xff" * 100, "is no program for Windows"),
        (lambda: b"", "is no program for Windows"),
        (None, "No such file"),
    ],
)
def test_a_file_that_is_not_that_gives_no_sha256(tmp_path: Path, made: Any, said: str) -> None:
    path = tmp_path / "x.exe"
    if made is not None:
        path.write_bytes(made())
    with pytest.raises(BadInput, match=said):
        sha256_of(path)


@parametrized(("answer", "said"))
def test_what_windows_says_of_a_signature(answer: Any, said: list[str]) -> None:
    found = refusals(answer, "x")
    assert [text[: len(start)] for text, start in zip(found, said, strict=True)] == said
