"""The role gpu_clocks, planned for the families and systems that get it."""

from __future__ import annotations

import dataclasses

import pytest
from role_plans import ROOT, SYSTEMS, asked, families_of, node
from trueup_controller.plans.gpu_clocks import plan

UNIT = "/etc/systemd/system/trueup-gpu-clocks.service"


@pytest.mark.parametrize("family", families_of("gpu_clocks"))
@pytest.mark.parametrize("system", SYSTEMS)
def test_clocks_are_locked_from_each_boot_on(family: str, system: str) -> None:
    planned = plan(asked("gpu_clocks", node(family, system)))
    assert (planned.refused, planned.skipped) == ([], [])
    result = planned.as_result()
    program, unit = result["files"]
    assert (program["path"], program["mode"]) == (result["program"], "0755")
    assert program["content"] == "#!/usr/bin/python3 -I\n"
    assert (ROOT / program["source"]).read_text().startswith('"""')
    assert (unit["path"], result["unit_file"]) == (UNIT, UNIT)
    assert result["unit"] == "trueup-gpu-clocks.service"
    assert f"ExecStart={result['program']} lock\n" in unit["content"]
    assert f"ExecStop={result['program']} reset\n" in unit["content"]
    (after,) = (line for line in unit["content"].splitlines() if line.startswith("After="))
    # azhpc-images@8e9d055 ncv5.sh unloads the driver at boot, and the clocks with it.
    assert "sku-customizations.service" in after.removeprefix("After=").split()
    assert (result["enabled"], result["state"]) == (True, "started")


def test_the_program_runs_with_the_python_that_ansible_uses() -> None:
    on = dataclasses.replace(asked("gpu_clocks", node("ndv4")), python="/opt/python3.11")
    assert plan(on).values["files"][0]["content"].startswith("#!/opt/python3.11 -I\n")


def test_around_measurements_the_unit_is_there_and_stopped() -> None:
    values = plan(asked("gpu_clocks", node("ndv4"), locked="benchmark")).values
    assert (values["enabled"], values["state"]) == (False, "stopped")
    assert [sorted(file) for file in values["files"]] == [
        ["content", "mode", "path", "source"],
        ["content", "path"],
    ]


@pytest.mark.parametrize("family", ["ndv4", "hbv3"])
def test_never_removes_both_files_also_where_no_gpu_is_left(family: str) -> None:
    planned = plan(asked("gpu_clocks", node(family), locked="never"))
    assert planned.refused == []
    assert planned.values["files"] == [
        {"path": planned.values["program"], "state": "absent"},
        {"path": UNIT, "state": "absent"},
    ]


def test_a_machine_that_shows_no_gpu_is_refused() -> None:
    (refused,) = plan(asked("gpu_clocks", node("ndv4", gpus=[]))).refused
    assert refused.startswith("gpu_clocks: this machine shows no NVIDIA GPU: see lspci -d 10de:")
