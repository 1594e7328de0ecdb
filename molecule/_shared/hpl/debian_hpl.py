#!/usr/bin/env python3
"""An archive of HPL for tests, from Debian's source package hpcc: HPL's own release cannot be
downloaded where only package registries can be reached.

    debian_hpl.py FOLDER      writes FOLDER/hpl.tar.gz, and prints its sha256

hpcc contains HPL 2.0, and calls it as a function. Its files are taken as they are, but for the
names of input and output, and two functions of MPI-1 that MPI libraries have no more. ``main`` is
added.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

_SOURCE = "deb-src http://deb.debian.org/debian {suite} main\n"
_INSIDE = re.compile(r"hpcc-[^/]+/hpl/((?:src|testing|include)/.*\.[ch])")
# Old texts to new ones, in each file.
_CHANGED = {
    "MPI_Address(": "MPI_Get_address(",
    "MPI_Type_struct(": "MPI_Type_create_struct(",
    '"hpccinf.txt"': '"HPL.dat"',
    "fid = 8;": "",
}
_MAIN = """\
#include <stdio.h>
#include <stdlib.h>
#include "hpl.h"
/* hpcc would run a problem of its own. */
int HPCC_Defaults() { fputs("HPL.dat is not as HPL wants it\\n", stderr); exit(1); }
int main(int argc, char **argv)
{
   HPL_RuntimeData data = {0};
   int failure = 0;
   MPI_Init(&argc, &argv);
   HPL_main(argc, argv, &data, &failure);
   MPI_Finalize();
   return 0;
}
"""


def source(folder: Path, suite: str) -> Path:
    """Debian's orig tarball, by apt with lists of its own."""
    for name in ("lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True)
    (folder / "sources.list").write_text(_SOURCE.format(suite=suite), encoding="utf-8")
    options = {
        "Dir::Etc::sourcelist": folder / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": folder / "lists",
        "Dir::Cache": folder / "cache",
        "APT::Sandbox::User": "",
    }
    apt = [
        "apt-get",
        "--quiet",
        *(word for name in options for word in ("-o", _set(options, name))),
    ]
    subprocess.run([*apt, "update"], check=True, capture_output=True, cwd=folder)  # noqa: S603 WHY: argv of this file
    # A mirror may have the upstream part of a package without Debian's changes.
    subprocess.run(  # noqa: S603 WHY: argv of this file
        [*apt, "source", "--download-only", "--tar-only", "hpcc"],
        check=True,
        capture_output=True,
        cwd=folder,
    )
    return next(folder.glob("hpcc_*.orig.tar.*"))


def _set(options: dict[str, object], name: str) -> str:
    return f"{name}={options[name]}"


def repacked(archive: Path) -> bytes:
    """The files of HPL in a folder, packed the same each time."""
    files: dict[str, str] = {"testing/ptest/main.c": _MAIN}
    with tarfile.open(archive) as opened:
        for member in opened:
            inside = _INSIDE.fullmatch(member.name)
            stream = opened.extractfile(member) if inside else None
            if inside and stream:
                text = stream.read().decode("latin-1")
                for old, new in _CHANGED.items():
                    text = text.replace(old, new)
                files[inside.group(1)] = text
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as packed:
        for name, text in sorted(files.items()):
            content = text.encode("latin-1")
            entry = tarfile.TarInfo(f"hpl/{name}")
            entry.size = len(content)
            packed.addfile(entry, io.BytesIO(content))
    return gzip.compress(made.getvalue(), mtime=0)


def make(folder: Path, suite: str = "bookworm") -> str:
    """The sha256 of the archive, which is downloaded once."""
    target = folder / "hpl.tar.gz"
    if not target.exists():
        with tempfile.TemporaryDirectory() as temporary:
            content = repacked(source(Path(temporary), suite))
        folder.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    return hashlib.sha256(target.read_bytes()).hexdigest()


if __name__ == "__main__":
    sys.stdout.write(make(Path(sys.argv[1])) + "\n")
