"""Labels of a place as dcgm-exporter has them, so that series of both can be joined.

Source: NVIDIA/dcgm-exporter 4.5.3-4.8.2, internal/pkg/rendermetrics/render_metrics.go: ``gpu`` is
the index, ``device`` nvidia0, ``modelName`` the GPU's name and ``Hostname`` the node.
"""

from __future__ import annotations

import re
from typing import Final

_GPU: Final = re.compile(r"gpu([0-9]+)")


def hostname(node: str) -> dict[str, str]:
    """The label of a node; of several their names in one."""
    return {"Hostname": node}


def device(name: str | None) -> dict[str, str]:
    """The labels of a GPU, or that of another device; none of a whole node."""
    if name is None:
        return {}
    gpu = _GPU.fullmatch(name)
    if gpu is None:
        return {"device": name}
    return {"gpu": gpu.group(1), "device": f"nvidia{gpu.group(1)}"}


def model(name: object) -> dict[str, str]:
    """The label of a GPU's name; none where it is not known."""
    return {"modelName": str(name)} if name else {}
