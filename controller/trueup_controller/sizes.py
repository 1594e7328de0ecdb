"""The catalog of VM sizes, as nodes are told it."""

from __future__ import annotations

import csv
import functools
import re
from pathlib import Path
from typing import Any

from trueup_node.errors import BadInput

_INTEGERS = (
    "vcpus",
    "numa_nodes",
    "cores_per_numa",
    "gpus",
    "nvme_disks",
    "rdma_nics",
)
_DECIMALS = (
    "memory_gib",
    "memory_bandwidth_gbps",
    "gpu_memory_gib",
    "nvme_gib_each",
    "rdma_gbps_per_nic",
    "peak_fp64_gflops",
)
_WORDS = ("series", "family", "gpu_model", "gpu_fabric", "architecture", "status", "closed_since")
_REQUIRED = ("size", "series", "family", "vcpus", "memory_gib", "architecture", "source")


def read_sizes(path: str) -> dict[str, dict[str, Any]]:
    """The catalog of VM sizes at ``path``: size, as Azure spells it, to its row.

    Numbers are numbers, with units in the names; empty cells are left out, and sources and notes,
    so that the result is small enough to be an argument of a module on every node.

    Raises:
        BadInput: the file cannot be read, or a cell is wrong (says file, line, column).
    """
    return _content(path)[0]


def read_sources(path: str) -> dict[str, str]:
    """Sources of the catalog's rows by size, as Azure spells it.

    Raises:
        BadInput: as ``read_sizes``.
    """
    return _content(path)[1]


def _content(path: str) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    try:
        changed = Path(path).stat()
        return _read(str(path), changed.st_mtime_ns, changed.st_size)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"catalog {path} cannot be read: {error}") from error


# A play's 600 hosts ask for the same file; its time and size tell whether it is still the same.
@functools.lru_cache(maxsize=4)
def _read(
    path: str, _changed_ns: int, _size: int
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    sizes: dict[str, dict[str, Any]] = {}
    sources: dict[str, str] = {}
    with Path(path).open(encoding="utf-8", newline="") as stream:
        reader = csv.DictReader(stream, strict=True)
        header = reader.fieldnames or []
        missing = [name for name in (*_REQUIRED, *_INTEGERS, *_DECIMALS) if name not in header]
        if missing:
            raise _wrong(path, 1, missing[0], "the header has no such column")
        for row in reader:
            line = reader.line_num
            # DictReader files surplus cells under the key None, and fills missing ones with None.
            if None in row or None in row.values():
                raise _wrong(path, line, "size", f"the row does not have {len(header)} cells")
            for name in _REQUIRED:
                if not row[name].strip():
                    raise _wrong(path, line, name, "must not be empty")
            if not re.fullmatch(r"[a-z][a-z0-9_]*", row["family"]):
                raise _wrong(path, line, "family", f"{row['family']!r} cannot be a group's name")
            if row["size"].lower() in (size.lower() for size in sizes):
                raise _wrong(path, line, "size", f"{row['size']} stands there twice")
            sizes[row["size"]] = _typed(path, line, row)
            sources[row["size"]] = row["source"]
    if not sizes:
        raise _wrong(path, 2, "size", "there are no rows")
    return sizes, sources


def _typed(path: str, line: int, row: dict[str, str]) -> dict[str, Any]:
    typed: dict[str, Any] = {name: row[name] for name in _WORDS if row.get(name)}
    for name in (*_INTEGERS, *_DECIMALS):
        text = row[name].strip()
        if not text:
            continue
        pattern = r"[0-9]+" if name in _INTEGERS else r"[0-9]+(\.[0-9]+)?"
        if not re.fullmatch(pattern, text):
            kind = "a whole number" if name in _INTEGERS else "a number"
            raise _wrong(path, line, name, f"{text!r} is not {kind}")
        typed[name] = float(text) if "." in text else int(text)
    return typed


def _wrong(path: str, line: int, column: str, problem: str) -> BadInput:
    return BadInput(f"catalog {path}, line {line}, column {column}: {problem}")
