"""Who uses the GPUs: trueup.node.gpu_driver as a filter."""

from __future__ import annotations

from typing import Any

from trueup.node import gpu_driver

DOCUMENTATION = r"""
name: trueup_gpu
short_description: Why services of the GPU driver must not be restarted
description:
  - C(trueup_gpu_in_use) takes the result of C(nvidia-smi --query-compute-apps=pid) and says who
    uses the GPUs; empty where nobody does.
"""


class FilterModule:
    """Ansible's entry."""

    def filters(self) -> dict[str, Any]:
        return {"trueup_gpu_in_use": gpu_driver.in_use}
