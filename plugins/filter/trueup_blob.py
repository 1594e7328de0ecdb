"""Filters over copies to Blob storage: their caps, files and account."""

from __future__ import annotations

from typing import Any

from trueup.benchmarks.blob_copy.case import account, capped, listed
from trueup.errors import BadInput

DOCUMENTATION = r"""
name: trueup_blob
short_description: Caps, files and account of copies to Blob storage
description:
  - C(blob_cap) takes a number of copies, the account's limit and the cap of each copy, both in
    Mb/s, and returns C(cap_mbps) and C(problem). A cap of 0 means the most that stays below the
    limit. With a problem, a sentence that says the mend, the cap is 0.
  - C(blob_files) gives the list of files that a variable means; a text is one file.
  - C(blob_listed) gives the record's parameters of files from the results of
    P(ansible.builtin.stat#module) for them.
  - C(blob_account) gives the address of the account that an address or a connection string names.
"""


def blob_cap(copies: int, limit_mbps: float, cap_mbps: float = 0.0) -> dict[str, Any]:
    """The cap by the rule of ``trueup.benchmarks.blob_copy.case``."""
    try:
        cap = capped(int(copies), float(limit_mbps) * 1e6, float(cap_mbps) * 1e6 or None)
    except (BadInput, ValueError) as error:
        return {"cap_mbps": 0.0, "problem": f"{error}."}
    return {"cap_mbps": cap / 1e6, "problem": ""}


def blob_files(files: list[str] | str) -> list[str]:
    """``-e blob_checkpoint_files=/data/a`` is text, and its length that of the path."""
    return ([files] if files else []) if isinstance(files, str) else list(files)


def blob_listed(found: list[dict[str, Any]]) -> dict[str, str]:
    """As the module writes them into its record, of the node's own words for path and size."""
    stats = [{"path": one["item"], "size": 0, **one["stat"]} for one in found]
    return listed([one["path"] for one in stats], [one["size"] for one in stats])


class FilterModule:
    """Ansible's entry."""

    def filters(self) -> dict[str, Any]:
        """Name to function."""
        return {
            "blob_cap": blob_cap,
            "blob_files": blob_files,
            "blob_listed": blob_listed,
            "blob_account": account,
        }
