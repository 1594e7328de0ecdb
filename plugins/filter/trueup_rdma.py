"""What is expected of a node's InfiniBand devices: trueup.node.rdma as a filter."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import yaml
from trueup.node import nccl_topology, rdma

DOCUMENTATION = r"""
name: trueup_rdma
short_description: What a size's InfiniBand devices must be
description:
  - C(trueup_rdma_expected) takes the fact C(trueup_node) and the path of C(topologies.yml), and
    returns the parameter C(expected) of the module M(ib_facts) - rate and number from the size's
    row of the catalog, NUMA nodes by PCI address from its layout. What neither says is left out.
"""


def rdma_expected(node: dict[str, Any], path: str) -> dict[str, Any]:
    """As ``rdma.expected_of``, with the layouts at ``path``."""
    return rdma.expected_of(node, _layouts(path))


# Each of a play's 600 hosts asks for the same file, which does not change meanwhile.
@functools.lru_cache(maxsize=1)
def _layouts(path: str) -> dict[str, nccl_topology.Layout]:
    return nccl_topology.read_layouts(yaml.safe_load(Path(path).read_text(encoding="utf-8")))


class FilterModule:
    """Ansible's entry."""

    def filters(self) -> dict[str, Any]:
        return {"trueup_rdma_expected": rdma_expected}
