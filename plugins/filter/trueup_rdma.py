"""What the catalog says of a node's InfiniBand devices, as the module ib_facts takes it."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from ansible.errors import AnsibleFilterError
from trueup.errors import TrueupError
from trueup.node import nccl_topology, rdma

if TYPE_CHECKING:
    from collections.abc import Callable

DOCUMENTATION = r"""
name: trueup_rdma
short_description: What a size's InfiniBand devices must be
description:
  - C(rdma_expected) takes the fact C(trueup_node) and the path of C(topologies.yml), and returns
    the parameter C(expected) of the module M(ib_facts) - rate and number from the size's row of the
    catalog, NUMA nodes by PCI address from its layout. What neither says is left out.
"""


def rdma_expected(node: dict[str, Any], path: str) -> dict[str, Any]:
    """What is expected of the node's InfiniBand devices; empty for a size of neither catalog."""
    return rdma.expected_of(node, _layouts(path))


def _layouts(path: str) -> dict[str, nccl_topology.Layout]:
    try:
        changed = Path(path).stat()
        return _read(str(path), changed.st_mtime_ns, changed.st_size)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, TrueupError) as error:
        message = f"catalog {path} cannot be read: {error}"
        raise AnsibleFilterError(message) from error


# Each of a play's 600 hosts asks for the same file; its time and size tell whether it changed.
@functools.lru_cache(maxsize=4)
def _read(path: str, _changed_ns: int, _size: int) -> dict[str, nccl_topology.Layout]:
    return nccl_topology.read_layouts(yaml.safe_load(Path(path).read_text(encoding="utf-8")))


class FilterModule:
    """Ansible's entry."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"rdma_expected": rdma_expected}
