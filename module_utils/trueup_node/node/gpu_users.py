"""Who computes on a node's GPUs."""

from __future__ import annotations

import re
from typing import Any

from . import tools

# nvidia-smi's messages where no driver runs, so that nothing can compute.
_NO_DRIVER = r"couldn't communicate with the NVIDIA driver|No devices were found"


def gpu_users(module: Any) -> str:
    """The processes that compute on the GPUs, by ``nvidia-smi --query-compute-apps=pid``; empty
    where there are none, no driver or no nvidia-smi. An answer that is not understood is not taken
    for nobody.

    Args:
        module: the AnsibleModule.
    """
    response = tools.ask(
        module, ["nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader"]
    )
    if response.absent:
        return ""
    output = response.output.strip()
    if response.ok:
        pids = re.findall(r"^[0-9]+$", output, re.MULTILINE)
        if pids:
            return f"process {', '.join(sorted(set(pids), key=int))}"
        return f"a process that nvidia-smi calls {output.splitlines()[0][:80]}" if output else ""
    if re.search(_NO_DRIVER, f"{output} {response.complaint}"):
        return ""
    return f"unknown, as {response.note}"
