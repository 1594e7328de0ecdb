"""Documentation that all read-only modules share: ``trueup_facts``."""

from __future__ import annotations


class ModuleDocFragment:
    """Ansible's entry."""

    DOCUMENTATION = r"""
author: trueup contributors (@trueup)
attributes:
  check_mode:
    support: full
    description: It only reads.
  diff_mode:
    support: none
    description: It only reads.
  platform:
    support: full
    description: Linux.
    platforms: linux
"""
