"""What units of systemd hold: trueup.node.systemd as filters."""

from __future__ import annotations

from typing import Any

from trueup.node import systemd

DOCUMENTATION = r"""
name: trueup_systemd
short_description: The command line and the variables of a systemd service
description:
  - C(trueup_systemd_command) writes an argv as a unit's C(ExecStart).
  - C(trueup_systemd_environment) writes a mapping as a unit's C(Environment),
    C(trueup_systemd_environment_file) one as the file of C(EnvironmentFile).
"""


class FilterModule:
    """Ansible's entry."""

    def filters(self) -> dict[str, Any]:
        return {
            "trueup_systemd_command": systemd.command,
            "trueup_systemd_environment": systemd.environment,
            "trueup_systemd_environment_file": systemd.environment_file,
        }
