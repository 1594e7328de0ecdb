"""Filters over catalog/topologies.yml: a size's NCCL topology file, and what is wrong with one."""

from __future__ import annotations

import base64
import binascii
import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from ansible.errors import AnsibleFilterError
from trueup.errors import TrueupError
from trueup.node import nccl_topology

if TYPE_CHECKING:
    from collections.abc import Callable

DOCUMENTATION = r"""
name: trueup_topology
short_description: NCCL topology files of VM sizes
description:
  - C(nccl_layout) takes the path of C(topologies.yml) and a VM size, and returns what a role needs
    of the size's layout, with the whole topology file as C(xml); empty where the size has none.
  - C(nccl_topology_used) takes such a layout and the choice C(by_context), C(always) or C(never),
    and returns for each context, and for C(conf) (/etc/nccl.conf), whether NCCL is given the file.
  - C(nccl_settings) takes the settings of role nccl, a context, a layout's name and whether there
    is RDMA, and returns those that apply, each variable once; of several the last.
  - C(nccl_topology_findings) takes a topology file's content (text, or with C(encoded=true)
    base64), the same path and size, and returns a sentence for each thing that is wrong with it.
    With C(severity=warning) it returns what NCCL can work with.
"""


def nccl_layout(path: str, size: str | None) -> dict[str, Any]:
    """The layout of ``size``: name, file, link, xml, gpu_masks, used (by context) and why.

    Raises:
        AnsibleFilterError: the catalog cannot be read, or is wrong.
    """
    layout = nccl_topology.layout_of(size or "", _layouts(path))
    if layout is None:
        return {}
    return {
        "name": layout.name,
        "file": layout.file,
        "link": layout.link,
        "xml": nccl_topology.generate(layout),
        "gpu_masks": nccl_topology.gpu_masks(layout),
        "used": dict(layout.used),
        "why": layout.why,
    }


def nccl_topology_used(layout: dict[str, Any], choice: str) -> dict[str, bool]:
    """Whether NCCL is given the file: by context, and ``conf`` for /etc/nccl.conf.

    That file reaches every job that sources no profile. It goes by what jobs on several nodes
    want, since those lose most without the file.
    """
    by_catalog = layout.get("used", dict.fromkeys(nccl_topology.CONTEXTS, False))
    chosen = {
        context: used if choice == "by_context" else bool(layout) and choice == "always"
        for context, used in by_catalog.items()
    }
    return {"conf": chosen["multi_node"], **chosen}


def nccl_settings(
    settings: list[dict[str, Any]], context: str, layout: str, rdma: bool
) -> list[dict[str, Any]]:
    """Those of ``settings`` that apply in a context, each variable once; of several the last.

    A setting without ``in``, ``for`` or ``rdma`` applies in every context, layout and machine.
    NCCL's own file takes NCCL's variables only.
    """
    chosen: dict[str, dict[str, Any]] = {}
    for setting in settings:
        name = setting["name"]
        if (
            context in setting.get("in", [context])
            and layout in setting.get("for", [layout])
            and (rdma or not setting.get("rdma"))
            and (context != "conf" or name.startswith("NCCL_"))
        ):
            chosen.pop(name, None)
            chosen[name] = setting
    return list(chosen.values())


def nccl_topology_findings(
    content: str, path: str, size: str, *, encoded: bool = False, severity: str = "error"
) -> list[str]:
    """What is wrong with a topology file, one sentence each, of one severity."""
    layouts = _layouts(path)
    layout = nccl_topology.layout_of(size, layouts)
    if layout is None:
        raise AnsibleFilterError(f"{path}: there is no layout for size {size}")
    try:
        raw = base64.b64decode(content, validate=True) if encoded else content.encode("utf-8")
    except (ValueError, binascii.Error) as error:
        raise AnsibleFilterError(f"nccl_topology_findings: not base64 ({error})") from error
    found = nccl_topology.check(raw, layout, layouts.values())
    return [finding.sentence() for finding in found if finding.severity == severity]


def _layouts(path: str) -> dict[str, nccl_topology.Layout]:
    try:
        changed = Path(path).stat()
        return _read(str(path), changed.st_mtime_ns, changed.st_size)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, TrueupError) as error:
        raise AnsibleFilterError(f"catalog {path} cannot be read: {error}") from error


# Each of a play's 600 hosts asks for the same file; its time and size tell whether it changed.
@functools.lru_cache(maxsize=4)
def _read(path: str, _changed_ns: int, _size: int) -> dict[str, nccl_topology.Layout]:
    return nccl_topology.read_layouts(yaml.safe_load(Path(path).read_text(encoding="utf-8")))


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The filters of this file by name."""
        return {
            "nccl_layout": nccl_layout,
            "nccl_settings": nccl_settings,
            "nccl_topology_findings": nccl_topology_findings,
            "nccl_topology_used": nccl_topology_used,
        }
