"""Is the NVIDIA driver one whole? Kernel module, user space, fabric manager, GPUs.

Reads procfs and sysfs; the module ``gpu_facts`` runs nvidia-smi, nv-fabricmanager and systemctl and
passes their output. Each disagreement is a named problem with the actual value, the expected value
and the fix.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from ..errors import ParseError
from .identify import read_gpus
from .nvidia_smi import rows_of
from .sysfs import text_of

DRIVER_QUERY = "pci.bus_id,driver_version,persistence_mode"
UNITS = ("nvidia-fabricmanager.service", "nvidia-persistenced.service", "nvidia-dcgm.service")
_MODULES = ("nvidia", "nvidia_uvm", "nvidia_peermem", "gdrdrv", "nouveau")
_VERSION = r"[0-9]+\.[0-9]+(?:\.[0-9]+)?"


class Driver(NamedTuple):
    """The driver as nvidia-smi reports it.

    Attributes:
        version: of the user-space libraries; only the first two numbers where they refuse the
            loaded kernel module; None where nvidia-smi cannot say.
        gpus: how many GPUs it shows; None where it failed.
        persistent: how many of them keep the driver loaded.
        error: its first line where it failed.
    """

    version: Optional[str]
    gpus: Optional[int]
    persistent: Optional[int]
    error: Optional[str] = None


@dataclass(frozen=True)
class DriverState:
    """Facts about a machine's driver. None is unknown or absent."""

    kernel_module: Optional[str]
    modules: Tuple[str, ...]
    gpus_on_pci: int
    driver: Optional[Driver] = None
    fabric_manager: Optional[str] = None
    units: Mapping[str, str] = field(default_factory=dict)


def read_found(sysfs_root: str, procfs_root: str) -> DriverState:
    """Facts from procfs and sysfs: the loaded modules, the driver's version, the GPUs on PCI."""
    folder = Path(sysfs_root, "module")
    modules = tuple(name for name in _MODULES if (folder / name).is_dir())
    return DriverState(
        kernel_module=_kernel_module(Path(procfs_root), folder) if "nvidia" in modules else None,
        modules=modules,
        gpus_on_pci=len(read_gpus(sysfs_root)),
    )


def _kernel_module(procfs: Path, modules: Path) -> Optional[str]:
    """The version of the loaded module nvidia.

    /proc/driver/nvidia/version begins "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64
    580.126.16  Release Build"; sysfs has the bare version.
    """
    for path, pattern in (
        (procfs / "driver" / "nvidia" / "version", rf"Kernel Module.*?\s({_VERSION})\s"),
        (modules / "nvidia" / "version", rf"^({_VERSION})\s*$"),
    ):
        match = re.search(pattern, text_of(path))
        if match:
            return match.group(1)
    return None


def parse_driver_query(status: int, text: str) -> Driver:
    """Output of ``nvidia-smi --query-gpu=DRIVER_QUERY --format=csv``, with its exit status.

    A failure is an answer: it says which library is installed when that does not fit the loaded
    kernel module ("NVML library version: 580.126").

    Raises:
        ParseError: status 0 with another header, or a row of another shape.
    """
    if status != 0:
        library = re.search(rf"NVML library version: *({_VERSION})", text)
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return Driver(
            version=library.group(1) if library else None,
            gpus=None,
            persistent=None,
            error=lines[0] if lines else f"exit status {status}",
        )
    gpus = []
    for cells, line in rows_of(text, DRIVER_QUERY.split(",")):
        if not re.fullmatch(_VERSION, cells[1]):
            raise line.error("nvidia-smi: expected a PCI address, a version and a mode")
        gpus.append(cells)
    return Driver(
        version=gpus[0][1],
        gpus=len(gpus),
        persistent=sum(1 for gpu in gpus if gpu[2] == "Enabled"),
    )


def parse_fabric_manager(text: str) -> str:
    """The version in ``nv-fabricmanager --version``: "Fabric Manager version is : 580.126.16".

    Raises:
        ParseError: it says no version.
    """
    match = re.search(rf"Fabric Manager version is\s*:\s*({_VERSION})\s*$", text, re.MULTILINE)
    if match is None:
        raise ParseError(
            "nv-fabricmanager --version: expected 'Fabric Manager version is : X'",
            1,
            text.strip().split("\n", 1)[0],
        )
    return match.group(1)


def parse_units(text: str) -> Dict[str, str]:
    """Unit -> ActiveState, from ``systemctl show --property=Id,LoadState,ActiveState``; a unit that
    is not installed is left out."""
    units = {}
    for block in text.split("\n\n"):
        fields = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if fields.get("LoadState") not in (None, "not-found"):
            units[fields.get("Id", "")] = fields.get("ActiveState", "unknown")
    return units


def unsettled(units: Mapping[str, str], expected: Mapping[str, Any]) -> List[str]:
    """The units that may yet change: neither active nor failed. An inactive one only counts where
    it is ``expected`` (as find_problems takes it): it is started in a moment, or by another unit.
    """
    required = {
        unit
        for unit, name in zip(UNITS, ("fabric_manager", "persistence", "dcgm"))
        if expected.get(name)
    }
    return [
        unit
        for unit, state in units.items()
        if state not in ("active", "failed") and (state != "inactive" or unit in required)
    ]


def find_problems(facts: DriverState, expected: Mapping[str, Any]) -> List[Dict[str, Any]]:
    """The problems: ``name``, ``message`` and whether a ``reboot`` fixes it.

    ``expected`` may hold ``driver_version``, ``gpus`` (a count), and the booleans
    ``fabric_manager``, ``peermem``, ``persistence``, ``dcgm`` and ``secure_boot``; an absent one is
    not judged.
    """
    problems: List[Dict[str, Any]] = []

    def problem(name: str, message: str, *, reboot: bool = False) -> None:
        problems.append({"name": name, "message": message, "reboot": reboot})

    _judge_kernel(facts, expected, problem)
    _judge_user_space(facts, expected, problem)
    if expected.get("fabric_manager"):
        _judge_fabric_manager(facts, expected, problem)
    _judge_rest(facts, expected, problem)
    return problems


def _judge_kernel(facts: DriverState, expected: Mapping[str, Any], problem: Any) -> None:
    target = expected.get("driver_version")
    if "nouveau" in facts.modules:
        problem(
            "nouveau_loaded",
            "The kernel module nouveau is loaded and holds the GPUs, expected is NVIDIA's: it is"
            " kept off from the next boot: reboot.",
            reboot=True,
        )
    if facts.kernel_module is None:
        reason = (
            "Secure Boot is on and refuses a module that is not signed: switch Secure Boot off for"
            " this VM"
            if expected.get("secure_boot")
            else "after an installation, reboot; else see `modprobe nvidia` and `dmesg`"
        )
        problem(
            "kernel_module_missing",
            f"The kernel module nvidia is not loaded, expected is {target or 'a loaded one'}:"
            f" {reason}.",
            reboot=not expected.get("secure_boot"),
        )
    elif target and facts.kernel_module != target:
        problem(
            "kernel_module_version",
            f"The loaded kernel module nvidia is {facts.kernel_module}, expected is {target}:"
            f" reboot, so that the installed one is loaded.",
            reboot=True,
        )


def _judge_user_space(facts: DriverState, expected: Mapping[str, Any], problem: Any) -> None:
    driver, target = facts.driver, expected.get("driver_version")
    if driver is None:
        problem(
            "user_space_missing",
            f"There is no nvidia-smi, expected is the driver {target or ''}: install it.".replace(
                " :", ":"
            ),
        )
        return
    if driver.version is not None and facts.kernel_module is not None:
        # Libraries that are as expected leave the kernel module to blame, which is said already.
        fits = [version for version in (facts.kernel_module, target) if version]
        if not any((version + ".").startswith(driver.version + ".") for version in fits):
            problem(
                "driver_mismatch",
                f"The loaded kernel module is {facts.kernel_module} and the user-space libraries"
                f" are {driver.version}, expected is the same: reboot, so that the kernel module"
                f" of the installed driver is loaded.",
                reboot=True,
            )
    elif driver.error is not None and facts.kernel_module is not None:
        problem(
            "nvidia_smi_failed",
            f"nvidia-smi failed ({driver.error}) although the kernel module is loaded: see"
            f" `nvidia-smi` and `dmesg | grep -i nvrm`.",
        )
    if target and driver.gpus and driver.version != target:
        problem(
            "user_space_version",
            f"The user-space libraries are {driver.version}, expected is {target}: install the"
            f" driver {target}.",
        )


def _judge_fabric_manager(facts: DriverState, expected: Mapping[str, Any], problem: Any) -> None:
    target = expected.get("driver_version") or facts.kernel_module
    unit = "nvidia-fabricmanager.service"
    state = facts.units.get(unit, "not installed")
    if facts.fabric_manager is None:
        problem(
            "fabric_manager_missing",
            f"There is no nv-fabricmanager, expected is {target}: without it cuInit fails on GPUs"
            f" behind NVSwitch: install nvidia-fabricmanager {target}.",
        )
    elif target and facts.fabric_manager != target:
        problem(
            "fabric_manager_version",
            f"The fabric manager is {facts.fabric_manager} and the driver is {target}, expected is"
            f" the same: cuInit fails until they are: install nvidia-fabricmanager {target} and"
            f" restart {unit}.",
        )
    elif state != "active" and facts.kernel_module == facts.fabric_manager:
        problem(
            "fabric_manager_stopped",
            f"{unit} is {state}, expected is active: cuInit fails until it runs: see"
            f" `journalctl -u {unit}` and start it.",
        )


def _judge_rest(facts: DriverState, expected: Mapping[str, Any], problem: Any) -> None:
    driver, loaded = facts.driver, facts.kernel_module is not None
    if loaded and expected.get("peermem") and "nvidia_peermem" not in facts.modules:
        problem(
            "peermem_missing",
            "The kernel module nvidia_peermem is not loaded, expected for RDMA from GPU memory:"
            " `modprobe nvidia-peermem` after the RDMA drivers, or reboot.",
        )
    if driver is not None and driver.gpus is not None:
        if expected.get("persistence") and driver.persistent != driver.gpus:
            problem(
                "persistence_off",
                f"Persistence mode is on for {driver.persistent} of {driver.gpus} GPUs, expected"
                f" is all: start nvidia-persistenced.service.",
            )
        if driver.gpus < facts.gpus_on_pci:
            problem(
                "gpus_without_driver",
                f"nvidia-smi shows {driver.gpus} GPUs of the {facts.gpus_on_pci} on PCI: see"
                f" `dmesg | grep -i -e nvrm -e xid`; a GPU that stays away needs a new VM.",
            )
    if expected.get("gpus") and facts.gpus_on_pci < expected["gpus"]:
        problem(
            "gpus_missing",
            f"{facts.gpus_on_pci} GPUs are on PCI, the catalog says {expected['gpus']}: deallocate"
            f" the VM and start it again, so that it comes to another host, and report it.",
        )
    state = facts.units.get("nvidia-dcgm.service", "not installed")
    if expected.get("dcgm") and state != "active":
        problem(
            "dcgm_stopped",
            f"nvidia-dcgm.service is {state}, expected is active: see `journalctl -u nvidia-dcgm`.",
        )
