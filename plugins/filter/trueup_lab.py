"""The controller's system packages for playbooks/lab.yml: trueup.cluster.lab as filters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trueup.cluster import lab

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

DOCUMENTATION = r"""
name: trueup_lab
short_description: System packages of the controller
description:
  - C(trueup_lab_set) takes the hosts of the lab and returns the set of packages that is installed
    unless another one is chosen.
  - C(trueup_lab) takes Ansible's facts of the machine, the packages by set, those that releases do
    not offer, and the chosen set, and returns what is C(wanted) and what is C(left_out).
  - C(trueup_lab_packages) takes that, what dpkg-query printed, whether the user is C(root) and
    whether C(sudo) asks no password, and whether this is check mode; it returns what is C(missing),
    whether it is to C(install), and what to C(report).
"""


class FilterModule:
    """Ansible's entry."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "trueup_lab": lab.wanted,
            "trueup_lab_packages": lab.packages,
            "trueup_lab_set": lab.default_set,
        }
