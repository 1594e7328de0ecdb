"""Why packages could not be installed: trueup.node.package_failures as a filter."""

from __future__ import annotations

from typing import Any

from trueup.node import package_failures

DOCUMENTATION = r"""
name: trueup_packages
short_description: Failures of apt and dnf
description:
  - C(trueup_package_failure) takes what apt or dnf returned, the pins, which of the two it was, the
    repository and what it offers, and returns one sentence.
"""


class FilterModule:
    """Ansible's entry."""

    def filters(self) -> dict[str, Any]:
        return {"trueup_package_failure": package_failures.sentence_of}
