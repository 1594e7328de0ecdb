"""Filters for launchers of several nodes."""

from __future__ import annotations

from typing import Any

from trueup.run import nodes

DOCUMENTATION = r"""
name: trueup_launcher
short_description: What launchers call nodes, and which of them they may use
description:
  - C(launcher_hosts) takes inventory names and hostvars, and gives the names by which ssh and Slurm
    know those nodes.
  - C(launcher_absent) takes inventory names, the play's hosts, hostvars and a role, and gives
    those of the nodes that are not to be used.
  - C(launcher_unlike) says in one sentence how nodes differ that one record is to hold; empty where
    they do not.
"""


class FilterModule:
    """Ansible's entry."""

    def filters(self) -> dict[str, Any]:
        return {
            "launcher_absent": nodes.absent,
            "launcher_hosts": nodes.hosts,
            "launcher_unlike": nodes.unlike,
        }
