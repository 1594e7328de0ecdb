"""Filters over Azure's driver manifest, for the role gpu_grid."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleFilterError
from trueup.errors import TrueupError
from trueup.node import grid_driver as grid

if TYPE_CHECKING:
    from collections.abc import Callable

DOCUMENTATION = r"""
name: trueup_grid
short_description: Which GRID driver a node gets
description:
  - C(grid_driver) takes the path of Azure's driver manifest on the controller, its sha256, the fact
    C(trueup_node), branch and version, and returns the driver's C(version), C(branch) and C(url).
  - C(grid_refusals) takes a branch, a kernel release and whether CUDA is needed, and returns why
    the branch cannot work on an A10, a sentence each.
"""


def grid_driver(
    path: str,
    sha256: str,
    node: dict[str, Any],
    branch: str,
    version: str,
    *,
    unlisted_allowed: bool = False,
) -> dict[str, str]:
    """The driver of the manifest for the node.

    Raises:
        AnsibleFilterError: the manifest cannot be read, is another one, or has no such driver.
    """
    try:
        content = Path(path).expanduser().read_bytes()
        found = hashlib.sha256(content).hexdigest()
        if found != sha256.lower():
            message = f"the driver manifest {path} has the sha256 {found}, expected {sha256}"
            raise AnsibleFilterError(message)
        driver = grid.choose(
            grid.parse_manifest(content.decode("utf-8-sig")),
            branch=branch,
            version=version,
            distribution=node.get("distribution") or "",
            distribution_version=node.get("distribution_version") or "",
            unlisted_allowed=unlisted_allowed,
        )
    except (OSError, UnicodeDecodeError, TrueupError) as error:
        message = f"gpu_grid: {error}"
        raise AnsibleFilterError(message) from error
    return {"version": driver.version, "branch": driver.branch, "url": driver.url}


def grid_refusals(branch: str, kernel: str, *, cuda_needed: bool) -> list[str]:
    """Why the branch cannot work, a sentence each."""
    return grid.refusals(str(branch), kernel=kernel, cuda_needed=cuda_needed)


class FilterModule:
    """Ansible's entry."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"grid_driver": grid_driver, "grid_refusals": grid_refusals}
