"""The catalog of VM sizes: trueup.node.sizes as a filter."""

from __future__ import annotations

from typing import Any

from trueup.node import sizes

DOCUMENTATION = r"""
name: trueup_sizes
short_description: The catalog of VM sizes as a mapping
description:
  - C(trueup_sizes) takes the path of C(vm_sizes.csv) and returns what nodes need of it, by size.
"""


class FilterModule:
    """Ansible's entry."""

    def filters(self) -> dict[str, Any]:
        return {"trueup_sizes": sizes.read_sizes}
