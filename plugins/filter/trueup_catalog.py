"""The filter that hands the catalog of VM sizes to modules."""

from __future__ import annotations

import csv
import functools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleFilterError

if TYPE_CHECKING:
    from collections.abc import Callable

DOCUMENTATION = r"""
name: catalog_sizes
author: trueup contributors
version_added: "0.1.0"
short_description: Reads the catalog of VM sizes as a mapping
description:
  - Reads C(catalog/vm_sizes.csv) on the controller and returns what nodes need of it, size by size.
  - Empty cells are left out. Sources and notes stay in the file, so that the result is small enough
    to be an argument of a module on every node.
positional: _input
options:
  _input:
    description: Path of the file.
    type: path
    required: true
"""

EXAMPLES = r"""
- name: Look the node up in the catalog
  azure_node_facts:
    catalog: "{{ (playbook_dir ~ '/../catalog/vm_sizes.csv') | catalog_sizes }}"
"""

RETURN = r"""
_value:
  description: Size, as Azure spells it, to its row. Numbers are numbers; units stand in the names.
  type: dict
"""

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
_WORDS = ("series", "family", "gpu_model", "gpu_fabric", "architecture", "status")
_REQUIRED = ("size", "series", "family", "vcpus", "memory_gib", "architecture", "source")


def catalog_sizes(path: str) -> dict[str, dict[str, Any]]:
    """Read the catalog of VM sizes at ``path``.

    Raises:
        AnsibleFilterError: the file cannot be read, or a cell is wrong (says file, line, column).
    """
    try:
        changed = Path(path).stat()
        return _read(str(path), changed.st_mtime_ns, changed.st_size)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        message = f"catalog {path} cannot be read: {error}"
        raise AnsibleFilterError(message) from error


# A play's 600 hosts ask for the same file; its time and size tell whether it is still the same.
@functools.lru_cache(maxsize=4)
def _read(path: str, _changed_ns: int, _size: int) -> dict[str, dict[str, Any]]:
    sizes: dict[str, dict[str, Any]] = {}
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
    if not sizes:
        raise _wrong(path, 2, "size", "there are no rows")
    return sizes


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


def _wrong(path: str, line: int, column: str, what: str) -> AnsibleFilterError:
    return AnsibleFilterError(f"catalog {path}, line {line}, column {column}: {what}")


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The filters of this file by name."""
        return {"catalog_sizes": catalog_sizes}
