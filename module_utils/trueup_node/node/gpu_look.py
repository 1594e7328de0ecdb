"""Ask everything that says whether the NVIDIA driver of this node is one whole."""

from __future__ import annotations

import dataclasses
import itertools
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ParseError
from . import gpu_state, kernel_log, nvidia_driver, sysfs, tools, vgpu

if TYPE_CHECKING:
    from collections.abc import Sequence

# 8 GPUs without persistence mode take some 20 s to answer.
_DRIVER_SECONDS = 60
# Groups of fields that a driver knows together or not at all.
_GROUPS = {name: fields for name, fields in gpu_state.QUERIES.items() if name != "throttle_old"}


def look(
    module: Any,
    expected: dict[str, Any],
    *,
    settle_seconds: int = 0,
    sysfs_root: str = "/sys",
    procfs_root: str = "/proc",
    has_log: bool = True,
) -> dict[str, Any]:
    """The fact ``trueup_gpu``, as the module gpu_facts describes it; everything is asked once.

    Args:
        module: the module that ``tools.ask`` runs commands with.
        expected: as ``nvidia_driver.find_problems`` takes it.
        settle_seconds: how long to wait for units that are neither active nor failed, and so
            long again for the licences of slices.
        has_log: whether the kernel log is that of the machine.

    Raises:
        TrueupError: an answer that is not understood.
    """
    notes: list[str] = []
    # The units first: one of them sets persistence mode. The loaded modules last: units that are
    # still starting, and nvidia-smi, load modules.
    units = _units(module, settle_seconds, expected)
    driver, fabric_manager = ask_driver(module), _fabric_manager(module)
    state = dataclasses.replace(
        nvidia_driver.read_found(sysfs_root, procfs_root),
        units=units,
        driver=driver,
        fabric_manager=fabric_manager,
    )
    # A driver that does not answer one question answers none, and would hang at each.
    devices = None
    if driver is not None and driver.gpus:
        devices = ask_devices(module, notes, settle_seconds=settle_seconds)
    devices = ask_licences(module, devices or [], settle_seconds, notes) or devices
    log = None
    if has_log:
        log = _kernel_log(module, procfs_root, notes)
    else:
        notes.append("XIDs are not known: a recorded machine has no kernel log")
    problems = nvidia_driver.find_problems(state, expected)
    problems += gpu_state.judge(devices or [])
    running = [gpu["pci"] for gpu in devices or []]
    is_complete = driver is not None and (driver.gpus or 0) >= state.gpus_on_pci
    failures = log.failures if log else []
    problems += gpu_state.judge_failures(failures, running, is_complete=is_complete)
    problems += vgpu.judge(devices or [], expected.get("gpu_memory_gib"))
    return {
        "kernel_module": state.kernel_module,
        "user_space": None if driver is None else driver.version,
        "fabric_manager": state.fabric_manager,
        "modules": list(state.modules),
        "units": dict(state.units),
        "gpus_on_pci": state.gpus_on_pci,
        "gpus": None if driver is None else driver.gpus,
        "persistent": None if driver is None else driver.persistent,
        "devices": devices,
        "xids": log.codes if log else None,
        "notes": notes,
        "reboot_required": any(problem["reboot"] for problem in problems),
        "problems": problems,
    }


class _Hangs(Exception):
    """A question that nvidia-smi does not answer: it would hang at the next one too."""


def ask_driver(module: Any) -> nvidia_driver.Driver | None:
    """The driver as nvidia-smi reports it; None where it is not installed."""
    response = tools.ask(
        module,
        ["nvidia-smi", f"--query-gpu={nvidia_driver.DRIVER_QUERY}", "--format=csv"],
        limit_seconds=_DRIVER_SECONDS,
    )
    if response.absent:
        return None
    if response.status is None:
        return nvidia_driver.Driver(version=None, gpus=None, persistent=None, error=response.note)
    text = response.output if response.ok else response.output + response.complaint
    if response.ok and not text.strip():
        # As a file without content does, which lost power leaves.
        error = "nvidia-smi printed nothing"
        return nvidia_driver.Driver(version=None, gpus=None, persistent=None, error=error)
    return nvidia_driver.parse_driver_query(response.status, text)


def _fabric_manager(module: Any) -> str | None:
    """The version of nv-fabricmanager; None where it is not installed."""
    response = tools.ask(module, ["nv-fabricmanager", "--version"])
    if response.absent:
        return None
    return nvidia_driver.parse_fabric_manager(response.output + response.complaint)


def _units(module: Any, settle_seconds: int, expected: dict[str, Any]) -> dict[str, str]:
    """The units' states, once they have settled."""
    end = time.monotonic() + settle_seconds
    argv = ["systemctl", "show", "--property=Id,LoadState,ActiveState", *nvidia_driver.UNITS]
    while True:
        units = nvidia_driver.parse_units(tools.ask(module, argv).output)
        if not nvidia_driver.unsettled(units, expected) or time.monotonic() > end:
            return units
        time.sleep(1)


def ask_devices(
    module: Any, notes: list[str], *, has_links: bool = True, settle_seconds: int = 0
) -> list[dict[str, Any]] | None:
    """The state of each GPU. A question that the driver refuses becomes a note; after one that it
    does not answer in time no more are asked. ``has_links``: whether to ask for NVLinks too, and
    for their fabric, which may take so long to settle."""
    tables: dict[str, dict[str, list[str]]] = {}
    reasons: dict[str, str] = {}

    def put(name: str, fields: Sequence[str], **asked_as: str) -> None:
        table, reason = _query(module, fields, **asked_as)
        if reason:
            reasons[name] = f"{name} of the GPUs: {reason}"
        else:
            tables[name] = table

    try:
        tables.update(_at_once(module))
        if not tables:
            for name, fields in _GROUPS.items():
                put(name, fields)
        if reasons.pop("throttle", None):
            # Before driver 535 the reasons have another name.
            put("throttle_old", gpu_state.QUERIES["throttle_old"])
        put("remap", gpu_state.REMAP_QUERY, option="query-remapped-rows", key="gpu_bus_id")
    except _Hangs as error:
        reasons["rest"] = f"figures of the GPUs: {error}; it is asked no more"
        has_links = False
    notes += reasons.values()
    nvlinks = _nvlinks(module, notes) if has_links else None
    try:
        devices = gpu_state.devices(tables, nvlinks) if tables else None
    except ParseError as error:
        notes.append(str(error))
        return None
    if devices and has_links:
        devices = _with_fabric(module, devices, settle_seconds, notes)
    return devices


def _query(
    module: Any, fields: Sequence[str], *, option: str = "query-gpu", key: str = "pci.bus_id"
) -> tuple[dict[str, list[str]], str]:
    """PCI address to its cells; or why there are none.

    Raises:
        _Hangs: nvidia-smi did not end in time.
    """
    argv = ["nvidia-smi", f"--{option}={','.join((key, *fields))}", "--format=csv"]
    response = tools.ask(module, argv, limit_seconds=_DRIVER_SECONDS)
    if response.status is None:
        raise _Hangs(response.note)
    if not response.ok:
        return {}, str(response.note)
    try:
        return gpu_state.parse_query(response.output, fields, key), ""
    except ParseError as error:
        return {}, str(error)


def _at_once(module: Any) -> dict[str, dict[str, list[str]]]:
    """All groups by one question, since a driver without persistence mode starts anew at each;
    nothing where it does not know all of their fields."""
    fields = [field for group in _GROUPS.values() for field in group]
    rows, _reason = _query(module, fields)
    tables: dict[str, dict[str, list[str]]] = {}
    for address, row in rows.items():
        cells = iter(row)
        for name, group in _GROUPS.items():
            tables.setdefault(name, {})[address] = list(itertools.islice(cells, len(group)))
    return tables


def _nvlinks(module: Any, notes: list[str]) -> list[dict[str, Any] | None] | None:
    links = tools.ask(module, ["nvidia-smi", "nvlink", "-s"])
    try:
        if links.ok and links.output.strip():
            return gpu_state.parse_nvlinks(links.output)
        # So does driver 580 of an H200 or H100 whose NVLinks its virtual machine does not get.
        reason = links.note or "nvidia-smi nvlink -s printed nothing, so that no GPU shows any"
        notes.append(f"NVLinks: {reason}")
    except ParseError as error:
        notes.append(f"NVLinks: {error}")
    return None


def ask_licences(
    module: Any, devices: list[dict[str, Any]], settle_seconds: int, notes: list[str]
) -> list[dict[str, Any]]:
    """The GPUs with the licences of those that are slices, which come some time after the boot."""
    if not any(vgpu.is_virtual(gpu["name"]) for gpu in devices):
        return devices
    end = time.monotonic() + settle_seconds
    while True:
        response = tools.ask(module, ["nvidia-smi", "-q"])
        try:
            licences = vgpu.parse_licences(response.output) if response.ok else {}
        except ParseError as error:
            response = dataclasses.replace(response, note=str(error))
            licences = {}
        if not licences:
            notes.append(f"licences of the GPUs: {response.note}")
            return devices
        gpus = [{**gpu, "licence": licences.get(gpu["pci"])} for gpu in devices]
        held = [vgpu.is_licensed(gpu["licence"]) for gpu in gpus if gpu["licence"] is not None]
        if all(held) or time.monotonic() > end:
            return gpus
        time.sleep(2)


def _with_fabric(
    module: Any, devices: list[dict[str, Any]], settle_seconds: int, notes: list[str]
) -> list[dict[str, Any]]:
    """The GPUs with their state in the NVLink fabric; one GPU alone has no fabric, nor do slices.
    The fabric manager registers GPUs some time after the boot."""
    if sum(not vgpu.is_virtual(gpu["name"]) for gpu in devices) < 2:
        return devices
    end = time.monotonic() + settle_seconds
    while True:
        response = tools.ask(module, ["nvidia-smi", "-q"], limit_seconds=_DRIVER_SECONDS)
        reason = response.note
        try:
            fabrics = gpu_state.parse_fabric(response.output) if response.ok else {}
        except ParseError as error:
            fabrics, reason = {}, str(error)
        if not fabrics:
            notes.append(f"NVLink fabric of the GPUs: {reason}")
            return devices
        registering = any(map(gpu_state.is_registering, filter(None, fabrics.values())))
        if not registering or time.monotonic() > end:
            return [{**gpu, "fabric": fabrics.get(gpu["pci"])} for gpu in devices]
        time.sleep(2)


def _kernel_log(module: Any, procfs_root: str, notes: list[str]) -> kernel_log.KernelLog | None:
    """The kernel log since boot; None where it cannot be read."""
    response = tools.ask(module, ["dmesg"])
    if not response.ok:
        notes.append(f"XIDs are not known: {response.note}")
        return None
    uptime = sysfs.text_of(Path(procfs_root, "uptime")).split(" ")[0]
    try:
        seconds = float(uptime) if uptime else None
        return kernel_log.parse_kernel_log(response.output, seconds)
    except (ParseError, ValueError) as error:
        notes.append(f"XIDs are not known: {error}")
        return None
