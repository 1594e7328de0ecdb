"""The GPUs of a Windows host, from Windows' device manager and nvidia-smi, and their problems.

``devices.ps1`` asks the device manager; nvidia-smi is asked as on Linux (``gpu_look``). Sources:
learn.microsoft.com, Win32_PnPEntity, Win32_VideoController, and the problem codes of devices;
nvidia-smi(1) of the driver models.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from trueup_node.errors import ParseError
from trueup_node.node import gpu_look, gpu_state, tools, vgpu
from trueup_node.node.nvidia_driver import Driver

from ..plans import grid_driver

_MODEL = ("driver_model.current",)
# Where the driver puts its program: those of DCH and those before.
PROGRAMS = (
    r"C:\Windows\System32\nvidia-smi.exe",
    r"C:\Program Files\NVIDIA Corporation\NVSMI\nvidia-smi.exe",
)
_LICENCE = (
    "see that the driver is one of Azure's and that the service NVDisplay.ContainerLocalSystem runs"
)
_NO_DRIVER, _STOPPED, _DISABLED, _RESTART = 28, 43, 22, 14
_REBOOT = (
    "windows_gpu_reboot_required: restart the host, then run again (or set"
    " windows_gpu_reboot_allowed to true)."
)
_MEND = {
    _NO_DRIVER: "no driver is installed for it: install one (role windows_gpu)",
    _DISABLED: "it is disabled: enable it in Device Manager",
    _RESTART: "it works after the next restart: reboot",
}


class Adapter(NamedTuple):
    """One of NVIDIA's devices, as Windows' device manager has it.

    Attributes:
        device: its path, ``PCI\\VEN_10DE&...``.
        name: as Windows shows it; None where it has no name.
        error_code: ConfigManagerErrorCode, 0 where it works; None where Windows does not say.
        driver: NVIDIA's version of the installed driver, ``574.24``; None where there is none.
    """

    device: str
    name: str | None
    error_code: int | None
    driver: str | None


class Devices(NamedTuple):
    """The result of devices.ps1. Its times are UTC, as ``2026-11-23T18:00:00``."""

    adapters: tuple[Adapter, ...]
    booted: str
    asked_at: str


def parse_devices(result: Any) -> Devices:
    """The result of devices.ps1.

    Raises:
        ParseError: it is of another shape.
    """
    try:
        adapters = tuple(
            Adapter(
                device=_text(device["device"]),
                name=None if device["name"] is None else _text(device["name"]),
                error_code=_code(device["error_code"]),
                driver=nvidias_version(device["driver_version"]),
            )
            for device in result["devices"]
        )
        return Devices(adapters, _time(result["booted"]), _time(result["now"]))
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        raise ParseError(f"devices.ps1: its result is not as expected ({error})") from error


def nvidias_version(windows: str | None) -> str | None:
    """NVIDIA's version in Windows' own: 574.24 of 32.0.15.7424, whose last five digits it is. None
    for a driver that is not NVIDIA's, such as Windows' basic one, and for none."""
    if not windows:
        return None
    match = re.fullmatch(r"[0-9]+\.[0-9]+\.[0-9]*([0-9])\.([0-9]{2})([0-9]{2})", windows)
    # Microsoft's drivers carry the numbers of Windows: 10.0.26100.1.
    return None if match is None else f"{match[1]}{match[2]}.{match[3]}"


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _code(value: Any) -> int | None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise TypeError(f"{value!r} is no error code")
    return value


def _time(value: Any) -> str:
    if re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", _text(value), re.ASCII) is None:
        raise ValueError(f"{value!r} is no time")
    return str(value)


def installed(adapters: Sequence[Adapter]) -> str:
    """The version of the driver that Windows has for the GPUs; empty where there is none."""
    return next((adapter.driver for adapter in adapters if adapter.driver), "")


def look(
    module: Any, result: Any, expected: Mapping[str, Any], settle_seconds: int
) -> dict[str, Any]:
    """The fact ``trueup_gpu`` of a host.

    Args:
        module: the module that ``tools.ask`` runs commands with.
        result: of devices.ps1.
        expected: as ``problems`` takes it.
        settle_seconds: how long to wait for nvidia-smi of a GPU that works, and so long again for
            the licences of slices.

    Raises:
        TrueupError: an answer that is not understood.
    """
    notes: list[str] = []
    devices = parse_devices(result)
    works = any(adapter.error_code == 0 and adapter.driver for adapter in devices.adapters)
    driver, end = gpu_look.ask_driver(module), time.monotonic() + settle_seconds
    while works and driver is not None and driver.error and time.monotonic() < end:
        time.sleep(5)
        driver = gpu_look.ask_driver(module)
    gpus = None
    if driver is not None and driver.gpus:
        gpus = gpu_look.ask_devices(module, notes, has_links=False)
        gpus = gpu_look.ask_licences(module, gpus or [], settle_seconds, notes) or gpus
        models = _models(module, notes)
        gpus = gpus and [{**gpu, "driver_model": models.get(gpu["pci"])} for gpu in gpus]
    return fact(devices, driver, gpus, notes, expected)


def _models(module: Any, notes: list[str]) -> dict[str, str | None]:
    """PCI address to WDDM, TCC or MCDM."""
    argv = ["nvidia-smi", f"--query-gpu=pci.bus_id,{_MODEL[0]}", "--format=csv"]
    response = tools.ask(module, argv)
    try:
        if response.ok:
            cells = gpu_state.parse_query(response.output, _MODEL)
            return {pci: None if cell.startswith("[") else cell for pci, (cell,) in cells.items()}
        notes.append(f"driver models of the GPUs: {response.note}")
    except ParseError as error:
        notes.append(f"driver models of the GPUs: {error}")
    return {}


def fact(
    devices: Devices,
    driver: Driver | None,
    gpus: Sequence[Mapping[str, Any]] | None,
    notes: Sequence[str],
    expected: Mapping[str, Any],
) -> dict[str, Any]:
    """The fact ``trueup_gpu`` in the shape of gpu_facts, with ``adapters``, ``booted``,
    ``asked_at`` and a ``verdict`` for a reader, and of each device its ``driver_model``. A member
    without meaning on Windows is null or empty.

    Args:
        devices: the device manager's result.
        driver: nvidia-smi's driver; None where it is not installed.
        gpus: nvidia-smi's facts of each GPU, with ``driver_model``; None where it does not run.
        notes: questions that failed.
        expected: as ``problems`` takes it.
    """
    findings = problems(devices, driver, gpus or (), expected)
    reboot = any(problem["reboot"] for problem in findings)
    return {
        "kernel_module": installed(devices.adapters) or None,
        "user_space": None if driver is None else driver.version,
        "fabric_manager": None,
        "modules": [],
        "units": {},
        "gpus_on_pci": len(devices.adapters),
        "gpus": None if driver is None else driver.gpus,
        "persistent": None,
        "devices": None if gpus is None else list(gpus),
        "xids": None,
        "notes": list(notes),
        "reboot_required": reboot,
        "problems": findings,
        "verdict": " ".join([_REBOOT] * reboot + [problem["message"] for problem in findings]),
        "adapters": [
            {"device": adapter.device, "name": adapter.name, "error_code": adapter.error_code}
            for adapter in devices.adapters
        ],
        "booted": devices.booted,
        "asked_at": devices.asked_at,
    }


def problems(
    devices: Devices,
    driver: Driver | None,
    gpus: Sequence[Mapping[str, Any]],
    expected: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """The problems: ``name``, ``message`` and whether a ``reboot`` fixes it.

    ``expected`` may hold ``driver_version``, ``gpus`` (a count), ``gpu_memory_gib`` (of each) and
    ``booted_after`` (a time as ``booted`` has it); an absent one is not judged.
    """
    findings: list[dict[str, Any]] = []

    def problem(name: str, message: str, *, reboot: bool = False) -> None:
        findings.append({"name": name, "message": message, "reboot": reboot})

    on_pci, target = len(devices.adapters), expected.get("gpus")
    if target and on_pci < target:
        problem(
            "gpus_missing",
            f"{on_pci} GPUs are on PCI, the catalog says {target}: deallocate the VM and start it"
            " again, so that it comes to another host, and report it.",
        )
    for adapter in devices.adapters:
        _judge_adapter(adapter, problem)
    _judge_versions(devices, driver, expected, problem)
    for gpu in gpus:
        if gpu["driver_model"] not in {"WDDM", None}:
            problem(
                "driver_model",
                f"GPU {gpu['pci']} has the driver model {gpu['driver_model']}, expected is WDDM,"
                " without which no session renders on it: `nvidia-smi -fdm 0`, then reboot.",
            )
    if devices.booted < expected.get("booted_after", ""):
        problem(
            "restart_pending",
            f"This host has not been restarted since {expected['booted_after']} UTC, when its"
            " driver or graphics policies were changed: they take effect with a restart.",
            reboot=True,
        )
    findings += gpu_state.judge(gpus)
    findings += vgpu.judge(gpus, expected.get("gpu_memory_gib"), _LICENCE)
    return findings


def _judge_adapter(adapter: Adapter, problem: Any) -> None:
    code = adapter.error_code
    if not code:
        return
    name = adapter.name or adapter.device
    mend = _MEND.get(code, "see Device Manager, and the list of its codes at learn.microsoft.com")
    if code == _STOPPED and adapter.driver and grid_driver.is_too_old(adapter.driver):
        mend = (
            f"its driver {adapter.driver} is of a GRID release before 18, which the hosts of NV A10"
            " v5 take no longer: set windows_gpu_working_driver to replace, and run again"
        )
    elif code == _STOPPED:
        mend = (
            f"Windows has stopped it: its driver {adapter.driver or ''} and the vGPU manager of the"
            " Azure host do not agree, or it failed: reboot; then deallocate the VM and start it"
            " again, so that it comes to another host, and report it"
        )
    problem(f"gpu_code_{code}", f"GPU {name} has code {code}: {mend}.", reboot=code == _RESTART)


def _judge_versions(
    devices: Devices, driver: Driver | None, expected: Mapping[str, Any], problem: Any
) -> None:
    target, has = expected.get("driver_version"), installed(devices.adapters)
    if target and has and has != target:
        problem(
            "driver_version",
            f"The driver of the GPUs is {has}, expected is {target}: reboot, so that the installed"
            " one is loaded.",
            reboot=True,
        )
    if driver is None:
        problem(
            "user_space_missing",
            f"There is no nvidia-smi, expected is the driver {target or 'of the role windows_gpu'}:"
            " install it.",
        )
    elif driver.error is not None:
        problem(
            "nvidia_smi_failed",
            f"nvidia-smi failed ({driver.error}): see the GPU in Device Manager.",
        )
    elif target and driver.version != target:
        problem(
            "user_space_version",
            f"nvidia-smi is of the driver {driver.version}, expected is {target}: reboot, so that"
            " the installed one is loaded.",
            reboot=True,
        )
