"""Filter over the caps of copies that run at the same time."""

from __future__ import annotations

from typing import Any

from trueup.blob_copy import capped
from trueup.errors import BadInput

DOCUMENTATION = r"""
name: trueup_blob
short_description: The cap of each of several copies below an account's limit
description:
  - C(blob_cap) takes a number of copies, the account's limit and the cap of each copy, both in
    Mb/s, and returns C(cap_mbps) and C(problem). A cap of 0 means the most that stays below the
    limit. With a problem, a sentence that says the mend, the cap is 0.
"""


def blob_cap(copies: int, limit_mbps: float, cap_mbps: float = 0.0) -> dict[str, Any]:
    """The cap by the rule of ``trueup.blob_copy``."""
    try:
        cap = capped(int(copies), float(limit_mbps) * 1e6, float(cap_mbps) * 1e6 or None)
    except (BadInput, ValueError) as error:
        return {"cap_mbps": 0.0, "problem": f"{error}."}
    return {"cap_mbps": cap / 1e6, "problem": ""}


class FilterModule:
    """Ansible's entry."""

    def filters(self) -> dict[str, Any]:
        """Name to function."""
        return {"blob_cap": blob_cap}
