"""Who computes on a node's GPUs."""

from __future__ import annotations

import re
from typing import Any

from . import tools

# What nvidia-smi says where no driver runs, so that nothing can compute.
_NO_DRIVER = r"couldn't communicate with the NVIDIA driver|No devices were found"


def gpu_users(module: Any) -> str:
    """The processes that compute on the GPUs, by ``nvidia-smi --query-compute-apps=pid``; empty
    where there are none, no driver or no nvidia-smi. An answer that is not understood is not taken
    for nobody.

    Args:
        module: the AnsibleModule.
    """
    answer = tools.ask(module, ["nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader"])
    if answer.absent:
        return ""
    said = answer.output.strip()
    if answer.ok:
        pids = re.findall(r"^[0-9]+$", said, re.MULTILINE)
        if pids:
            return f"process {', '.join(sorted(set(pids), key=int))}"
        return f"a process that nvidia-smi calls {said.splitlines()[0][:80]}" if said else ""
    if re.search(_NO_DRIVER, f"{said} {answer.complaint}"):
        return ""
    return f"unknown, as {answer.note}"
