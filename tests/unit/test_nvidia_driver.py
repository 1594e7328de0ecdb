"""The parts of the NVIDIA driver, and each way in which they disagree."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import machines
import pytest
from helpers import parametrized
from trueup_node.errors import ParseError
from trueup_node.node.nvidia_driver import (
    Driver,
    DriverState,
    find_problems,
    parse_driver_query,
    parse_fabric_manager,
    read_found,
)

VERSION = "580.173.02"
UNITS = {
    "nvidia-fabricmanager.service": "active",
    "nvidia-persistenced.service": "active",
    "nvidia-dcgm.service": "active",
}
WHOLE = DriverState(
    kernel_module=VERSION,
    modules=("nvidia", "nvidia_uvm", "nvidia_peermem"),
    gpus_on_pci=8,
    driver=Driver(version=VERSION, gpus=8, persistent=8),
    fabric_manager=VERSION,
    units=UNITS,
)
EXPECTED = {
    "driver_version": VERSION,
    "gpus": 8,
    "fabric_manager": True,
    "peermem": True,
    "persistence": True,
    "dcgm": True,
}


def problems(expected: dict[str, Any] | None = None, **changes: Any) -> list[dict[str, Any]]:
    return find_problems(dataclasses.replace(WHOLE, **changes), {**EXPECTED, **(expected or {})})


def test_a_whole_driver_has_no_problem() -> None:
    assert problems() == []


def test_a_recorded_machine_with_its_driver_loaded() -> None:
    machine = machines.description("nd96asr_v4")
    root = machines.root_of("nd96asr_v4")
    found = read_found(str(root / "sys"), str(root / "proc"))
    assert found.kernel_module == machine["nvidia_driver"]["version"]
    assert set(machine["nvidia_driver"]["modules"]) & {"nvidia", "nvidia_peermem"} <= set(
        found.modules
    )
    # The NVSwitches are NVIDIA's too and no GPUs.
    assert found.gpus_on_pci == 8


def test_the_version_in_sysfs_does_where_procfs_has_none(tmp_path: Path) -> None:
    folder = tmp_path / "sys" / "module" / "nvidia"
    folder.mkdir(parents=True)
    (folder / "version").write_text("580.126.16\n")
    found = read_found(str(tmp_path / "sys"), str(tmp_path / "proc"))
    assert (found.kernel_module, found.modules) == ("580.126.16", ("nvidia",))


@pytest.mark.parametrize(
    ("name", "reboot", "parts", "changes"),
    [
        (
            "kernel_module_missing",
            True,
            ["not loaded", VERSION, "reboot"],
            {"kernel_module": None, "modules": (), "driver": Driver(None, None, None, "x")},
        ),
        (
            "kernel_module_version",
            True,
            ["580.126.16", f"expected is {VERSION}", "reboot"],
            # NVML says only the first two numbers of its own version.
            {"kernel_module": "580.126.16", "driver": Driver("580.173", None, None, "mismatch")},
        ),
        (
            "nouveau_loaded",
            True,
            ["nouveau", "reboot"],
            {"modules": ("nvidia", "nvidia_peermem", "nouveau")},
        ),
        ("user_space_missing", False, ["no nvidia-smi", "install it"], {"driver": None}),
        (
            "nvidia_smi_failed",
            False,
            ["No devices were found"],
            {"driver": Driver(None, None, None, "No devices were found")},
        ),
        (
            "fabric_manager_version",
            False,
            [
                "fabric manager is 580.126.16",
                f"driver is {VERSION}",
                f"install nvidia-fabricmanager {VERSION}",
                "restart nvidia-fabricmanager.service",
            ],
            {"fabric_manager": "580.126.16"},
        ),
        ("fabric_manager_missing", False, [f"expected is {VERSION}"], {"fabric_manager": None}),
        (
            "fabric_manager_stopped",
            False,
            ["is failed, expected is active", "journalctl"],
            {"units": {**UNITS, "nvidia-fabricmanager.service": "failed"}},
        ),
        ("peermem_missing", False, ["modprobe nvidia-peermem"], {"modules": ("nvidia",)}),
        (
            "persistence_off",
            False,
            ["3 of 8 GPUs", "nvidia-persistenced"],
            {"driver": Driver(VERSION, 8, 3)},
        ),
        ("gpus_without_driver", False, ["7 GPUs of the 8"], {"driver": Driver(VERSION, 7, 7)}),
        (
            "gpus_missing",
            False,
            ["7 GPUs are on PCI", "catalog says 8"],
            {"gpus_on_pci": 7, "driver": Driver(VERSION, 7, 7)},
        ),
        (
            "dcgm_stopped",
            False,
            ["nvidia-dcgm.service is not installed"],
            {"units": {"nvidia-fabricmanager.service": "active"}},
        ),
    ],
)
def test_a_part_that_disagrees_is_the_only_problem(
    name: str, reboot: bool, parts: list[str], changes: dict[str, Any]
) -> None:
    found = problems(**changes)
    assert [(one["name"], one["reboot"]) for one in found] == [(name, reboot)]
    assert [part for part in parts if part not in found[0]["message"]] == []


def test_libraries_that_fit_neither_the_kernel_module_nor_the_expectation() -> None:
    found = problems(driver=Driver("575.57", None, None, "mismatch"))
    assert [(one["name"], one["reboot"]) for one in found] == [("driver_mismatch", True)]


def test_secure_boot_is_named_as_the_cause_and_no_reboot_mends_it() -> None:
    found = problems(
        {"secure_boot": True}, kernel_module=None, driver=Driver(None, None, None, "x")
    )
    assert [(one["name"], one["reboot"]) for one in found] == [("kernel_module_missing", False)]
    assert "switch Secure Boot off" in found[0]["message"]


def test_another_version_everywhere_is_an_installation_that_is_wrong() -> None:
    old = "580.126.16"
    found = problems(
        kernel_module=old, driver=Driver(old, 8, 8), fabric_manager=old, modules=WHOLE.modules
    )
    assert [one["name"] for one in found] == [
        "kernel_module_version",
        "user_space_version",
        "fabric_manager_version",
    ]


def test_a_failure_without_words() -> None:
    assert parse_driver_query(255, "\n").error == "exit status 255"


@parametrized("text")
def test_an_unusable_answer_is_refused(text: str) -> None:
    with pytest.raises(ParseError, match="nvidia-smi"):
        parse_driver_query(0, text)


@pytest.mark.parametrize("text", ["", "nv-fabricmanager 580", "Fabric Manager version is : x"])
def test_no_version_of_the_fabric_manager(text: str) -> None:
    with pytest.raises(ParseError, match="Fabric Manager version is"):
        parse_fabric_manager(text)
