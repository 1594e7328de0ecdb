"""The variables of playbooks/cyclecloud.yml: trueup.cluster.cyclecloud_variables as filters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trueup.cluster import cyclecloud_variables

if TYPE_CHECKING:
    from collections.abc import Callable

DOCUMENTATION = r"""
name: trueup_cyclecloud
short_description: Variables of the play that creates nodes of CycleCloud
description:
  - C(trueup_cyclecloud_problems) takes the variables C(cyclecloud_*) and returns why they cannot be
    meant.
  - C(trueup_cyclecloud_arguments) takes the same and returns the parameters of the module
    M(cyclecloud_nodes).
  - C(trueup_cyclecloud_hosts) takes the nodes that the module returned and the variables, and
    returns what the inventory is told.
"""


class FilterModule:
    """Ansible's entry."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "trueup_cyclecloud_arguments": cyclecloud_variables.arguments,
            "trueup_cyclecloud_hosts": cyclecloud_variables.hosts,
            "trueup_cyclecloud_problems": cyclecloud_variables.problems,
        }
