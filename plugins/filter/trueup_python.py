"""What a role's own Python installs: trueup.node.own_python as filters."""

from __future__ import annotations

from typing import Any

from trueup.node import own_python

DOCUMENTATION = r"""
name: trueup_python
short_description: Where pip takes packages from
description:
  - C(trueup_pip_source) takes the folder or page of wheels and whether no index is asked, and
    returns pip's arguments.
"""


class FilterModule:
    """Ansible's entry."""

    def filters(self) -> dict[str, Any]:
        return {"trueup_pip_source": own_python.pip_source}
