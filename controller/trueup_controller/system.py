"""Facts of a node that several roles' plans use: its release, size, scratch, free space."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

from trueup_node.plan import PlanInputs


def as_comment(text: str, width: int = 110) -> str:
    """A reason as comment lines of a file."""
    return "\n".join(f"# {line}" for line in textwrap.wrap(text, width))


def local_scratch(inputs: PlanInputs) -> str:
    """Role nvme_scratch's mount point of the local disks, ``inputs.found["scratch"]``; empty
    without local disks. A container's disks are its host's."""
    node = inputs.node
    local = not node["container"] and any(disk["local"] for disk in node["nvme"])
    return inputs.found["scratch"] if local else ""


def others(pattern: str, texts: Iterable[str]) -> str:
    """The ``texts`` that do not match the pattern, with commas."""
    return ", ".join(text for text in texts if not re.fullmatch(pattern, text))


def release(node: Mapping[str, Any]) -> str:
    """Of apt's systems name and version, ``ubuntu-24.04``; of dnf's ``el`` and the major version,
    ``el-9``, whoever rebuilt it. Azure Linux is no rebuild of it: ``azurelinux-3``."""
    version = node["distribution_version"] or ""
    if node["package_manager"] == "apt":
        return f"{node['distribution']}-{version}"
    name = node["distribution"] if node["distribution"] == "azurelinux" else "el"
    return f"{name}-{version.split('.')[0]}"


def catalog_of(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """The size's row of the catalog; empty for a size that it lacks."""
    row: Mapping[str, Any] | None = node["catalog"]
    return row or {}


def in_image(node: Mapping[str, Any], *components: str) -> str:
    """The version that an Azure HPC image says it has of the first of ``components`` that it lists;
    empty where it lists none, or the image is another."""
    listed: dict[str, str] = node["hpc_image"] or {}
    return next((listed[name] for name in components if name in listed), "")


def headers(node: Mapping[str, Any]) -> str:
    """The package with the running kernel's headers, without which dkms builds nothing and says
    nothing."""
    name = "linux-headers" if node["package_manager"] == "apt" else "kernel-devel"
    return f"{name}-{node['kernel']}"


def free_of(node: Mapping[str, Any], path: str) -> int | None:
    """Bytes that are free where a path is; None where nobody knows."""
    free: int | None = (node["free_bytes"] or {}).get(path)
    return free


def short_of(node: Mapping[str, Any], needs: Mapping[str, int]) -> list[str]:
    """The paths with less free than ``needs`` says, in bytes. Unknown free space is not judged."""
    free: Mapping[str, int] = node["free_bytes"] or {}
    return [path for path, needed in needs.items() if free.get(path, needed) < needed]
