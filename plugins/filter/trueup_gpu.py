"""What NVIDIA's units are brought to: trueup.node.gpu_driver as a filter."""

from __future__ import annotations

from typing import Any

from trueup.node import gpu_driver

DOCUMENTATION = r"""
name: trueup_gpu
short_description: Which units of the GPU driver are started, and which are restarted
description:
  - C(trueup_gpu_units) takes the units of a plan, the paths that were written, the result of
    C(nvidia-smi --query-compute-apps=pid), and whether packages were replaced. It returns the units
    with the C(state) to bring each to and, where the GPUs are in use, C(not_restarted), why.
"""


class FilterModule:
    """Ansible's entry."""

    def filters(self) -> dict[str, Any]:
        return {"trueup_gpu_units": gpu_driver.unit_states}
