"""The role nvme_scratch, planned for the families and systems that get it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from role_plans import ROOT, asked, node
from trueup_controller.new_machine import LOCAL_NVME
from trueup_controller.plans.nvme_scratch import plan
from trueup_controller.systemd import RESTRICTED

PROGRAMS = {"programs": {"mdadm": "/sbin/mdadm", "mkfs.xfs": "/sbin/mkfs.xfs"}}
UUID = "c25b211f-add0-5772-b403-f6827eb1a18b"


def values(on: dict[str, Any], **options: Any) -> dict[str, Any]:
    planned = plan(asked("nvme_scratch", on, **options))
    assert (planned.refused, planned.skipped) == ([], [])
    return planned.as_result()


def settings(result: dict[str, Any]) -> dict[str, Any]:
    """What scratch_facts is told at once, and the program at each boot."""
    told: dict[str, Any] = result["settings"]
    (file,) = (one for one in result["files"] if one["path"] == "/etc/trueup/nvme_scratch.json")
    assert json.loads(file["content"]) == told
    return told


def disk(device: str, model: str | None = LOCAL_NVME) -> dict[str, Any]:
    return {"device": device, "model": model, "size_bytes": 1, "local": True}


def test_the_files_of_a_node_are_a_program_that_runs(tmp_path: Path) -> None:
    result = values(node("ndv4", **PROGRAMS))
    there = str(tmp_path)
    for file in result["files"][:5]:
        path = Path(file["path"].replace("/usr/local/libexec/trueup", there))
        path.parent.mkdir(exist_ok=True)
        text = file.get("content", "")
        text += (ROOT / file["source"]).read_text() if "source" in file else ""
        path.write_text(text.replace("/usr/local/libexec/trueup", there))
    program = result["files"][4]
    assert (program["mode"], result["packages"]) == ("0755", [])
    assert program["content"].startswith("#!/usr/bin/python3 -I\n")
    argv = [sys.executable, "-I", str(tmp_path / "nvme_scratch"), "--settings", "{"]
    ran = subprocess.run(argv, cwd="/", capture_output=True, text=True, check=False)
    assert (ran.returncode, json.loads(ran.stdout)["state"]) == (1, "failed")
    assert ran.stderr.startswith("the configuration cannot be read")


def test_the_units_wait_for_the_file_system() -> None:
    result = values(node("ndv4"), mount_point="/scratch/a-b")
    service, mount, device = (file["content"] for file in result["files"][6:])
    assert result["unit"] == "scratch-a\\x2db.mount"
    assert result["files"][7]["path"] == "/etc/systemd/system/scratch-a\\x2db.mount"
    uuid = settings(result)["uuid"]
    assert uuid != UUID
    assert f"What=/dev/disk/by-uuid/{uuid}\nWhere=/scratch/a-b\n" in mount
    assert "Type=xfs\nOptions=noatime,nofail\n" in mount
    assert "ExecStart=/usr/local/libexec/trueup/nvme_scratch --wait\n" in service
    assert service.endswith(f"\nTimeoutStartSec=900\n{RESTRICTED}")
    assert device.splitlines()[-1] == "JobRunningTimeoutSec=900"


def test_only_disks_of_the_models_are_used() -> None:
    others = [disk("nvme1n1", "MSFT NVMe Accelerator"), disk("nvme2n1", None)]
    on = node("ndv4", nvme=[disk("nvme0n1"), *others])
    assert values(on)["disks"] == ["nvme0n1"]


def test_of_an_unknown_size_those_that_are_there_count() -> None:
    on = node("local", nvme=[disk("nvme0n1"), disk("nvme1n1")])
    assert settings(values(on))["expected_disks"] == 2
