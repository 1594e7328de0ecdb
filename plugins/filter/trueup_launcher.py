"""Filters for launchers of several nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DOCUMENTATION = r"""
name: trueup_launcher
short_description: What launchers call nodes
description:
  - C(launcher_hosts) takes inventory names and hostvars, and gives the names by which ssh and Slurm
    know those nodes.
"""


def launcher_hosts(nodes: Sequence[str], hostvars: Mapping[str, Any]) -> list[str]:
    """Each node's ``slurm_node_name`` where the inventory gives it one, else its own name."""
    return [str(hostvars.get(node, {}).get("slurm_node_name") or node) for node in nodes]


class FilterModule:
    """Ansible's entry."""

    def filters(self) -> dict[str, Any]:
        return {"launcher_hosts": launcher_hosts}
