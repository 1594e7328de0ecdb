"""The role gpu_clocks, planned: the program that locks the GPUs' clocks, and its unit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from trueup_node.plan import Convergence, Look, Plan, PlanInputs, files_look, unit_look

from ..systemd import READING

_PROGRAM = "/usr/local/libexec/trueup/gpu_clocks"
_UNIT = "trueup-gpu-clocks.service"
_UNIT_FILE = f"/etc/systemd/system/{_UNIT}"
_SERVICE = f"""\
# Written by trueup (role gpu_clocks).
[Unit]
Description=Lock the GPUs' clocks to their maximum
Documentation=file://{_PROGRAM}
# Azure's HPC images load the driver anew in sku-customizations where NVLink is inactive.
After=nvidia-persistenced.service nvidia-fabricmanager.service sku-customizations.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart={_PROGRAM} lock
ExecStop={_PROGRAM} reset
# Eight GPUs, two clocks each; nvidia-smi takes about a second where nothing keeps the driver loaded.
TimeoutStartSec=180
{READING}
[Install]
WantedBy=multi-user.target
"""  # noqa: E501 WHY: a line of the file


def plan(inputs: PlanInputs) -> Plan:
    """When the clocks are locked.

    Values: ``files`` as config_files takes them, the installed ``program``, the ``unit`` and its
    ``unit_file``; ``enabled``, whether it starts at boot, and the ``state`` that it is in now:
    stopping it puts the clocks back.
    """
    locked = inputs.options["locked"]
    if locked != "never" and not inputs.node["gpus"]:
        message = (
            "gpu_clocks: this machine shows no NVIDIA GPU: see lspci -d 10de:, redeploy the VM, or"
            " set gpu_clocks_locked=never."
        )
        return Plan(refused=[message])
    program = {
        "path": _PROGRAM,
        "mode": "0755",
        "content": f"#!{inputs.python} -I\n",
        "source": "roles/gpu_clocks/files/gpu_clocks.py",
    }
    files = [program, {"path": _UNIT_FILE, "content": _SERVICE}]
    if locked == "never":
        files = [{"path": file["path"], "state": "absent"} for file in files]
    return Plan(
        values={
            "files": files,
            "program": _PROGRAM,
            "unit": _UNIT,
            "unit_file": _UNIT_FILE,
            "enabled": locked == "boot",
            "state": "started" if locked == "boot" else "stopped",
        }
    )


def convergence(planned: Mapping[str, Any], variables: Mapping[str, Any]) -> Convergence:
    """Whether the clocks are as wanted; a run that is no check proves locked ones under load, and
    renews a lock that was lost."""
    unit = unit_look(unit=planned["unit"], enabled=planned["enabled"], state=planned["state"])
    looks = [files_look(planned["files"]), unit]
    if planned["enabled"]:
        action = "status" if variables["ansible_check_mode"] else "verify"
        looks.append(
            Look(
                "ansible.builtin.command",
                {"argv": [planned["program"], action]},
                lambda response: _report(response).get("problems", True),
                reads=True,
                renewed=lambda response: _report(response)["renewed"],
                environment={"LC_ALL": "C"},
            )
        )
    return Convergence(looks)


def _report(response: Mapping[str, Any]) -> dict[str, Any]:
    """The program's report; empty where it could not be run."""
    text = response.get("stdout") or "{}"
    report: dict[str, Any] = json.loads(text)
    return report
