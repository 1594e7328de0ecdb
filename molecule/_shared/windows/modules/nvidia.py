"""NVIDIA's driver: its nvidia-smi, and trueup's fragments about it."""

from __future__ import annotations

import time
from typing import Any

from ..arguments import Call
from ..errors import FailError, UnknownError
from ..host import EPOCH, Gpu, Host
from .commands import MissingError, joined, program
from .powershell import fragment

# What a slice of a GPU does not say: the field, and the head of its column.
_SAYS_NOT = {
    "persistence_mode": "persistence_mode",
    "clocks.sm": "clocks.current.sm [MHz]",
    "clocks.max.sm": "clocks.max.sm [MHz]",
    "clocks.mem": "clocks.current.memory [MHz]",
    "temperature.gpu": "temperature.gpu",
    "clocks_event_reasons.active": "clocks_event_reasons.active",
    **{
        name: name
        for kind in ("corrected", "uncorrected")
        for name in (
            f"ecc.errors.{kind}.volatile.total",
            f"ecc.errors.{kind}.aggregate.total",
            f"ecc.errors.{kind}.volatile.sram",
            f"ecc.errors.{kind}.volatile.dram",
        )
    },
    "remapped_rows.correctable": "remapped_rows.correctable",
    "remapped_rows.uncorrectable": "remapped_rows.uncorrectable",
    "remapped_rows.pending": "remapped_rows.pending",
    "remapped_rows.failure": "remapped_rows.failure",
}
_QUERIES = ("--query-gpu", "--query-remapped-rows")


@program("nvidia-smi")
def nvidia_smi(host: Host, argv: list[str]) -> tuple[int, str, str]:
    """One question (--query-gpu or --query-remapped-rows) with --format=csv[,noheader][,nounits],
    and -q."""
    if not host.gpu_driver:
        raise MissingError
    if not any(gpu.error_code == 0 for gpu in host.gpus):
        return 6, "No devices were found\n", ""
    options = dict(word.partition("=")[::2] for word in argv[1:])
    if list(options) == ["-q"]:
        return 0, _query(host), ""
    asked = [options[name] for name in _QUERIES if name in options]
    if len(asked) != 1 or len(options) != 2 or "--format" not in options:
        raise UnknownError(f"command {joined(argv)}")
    form = options["--format"].split(",")
    if form[0] != "csv" or set(form[1:]) - {"noheader", "nounits"}:
        raise UnknownError(f"format {options['--format']} of nvidia-smi")
    tables = [_fields(host, gpu, index) for index, gpu in enumerate(host.gpus)]
    names = asked[0].split(",")
    unknown = [name for name in names if name not in tables[0]]
    if unknown:
        raise UnknownError(f"field {unknown[0]} of nvidia-smi")
    rows = [] if "noheader" in form else [[tables[0][name][0] for name in names]]
    rows += [[_cell(*table[name], bare="nounits" in form) for name in names] for table in tables]
    return 0, "".join(", ".join(row) + "\r\n" for row in rows), ""


def _cell(head: str, value: str, *, bare: bool) -> str:
    """A value with the unit of its column, or without one."""
    unit = head.partition(" [")[2].rstrip("]")
    return value if bare or not unit or value.startswith("[") else f"{value} {unit}"


def _fields(host: Host, gpu: Gpu, index: int) -> dict[str, tuple[str, str]]:
    """The head of each column that is simulated, and a GPU's value in it."""
    values = {
        "index": ("index", str(index)),
        "name": ("name", gpu.name),
        "uuid": ("uuid", gpu.uuid),
        "pci.bus_id": ("pci.bus_id", _address(index)),
        "gpu_bus_id": ("gpu_bus_id", _address(index)),
        "driver_version": ("driver_version", str(host.gpu_driver)),
        "memory.total": ("memory.total [MiB]", str(gpu.memory_mib)),
        "driver_model.current": ("driver_model.current", gpu.driver_model),
        "encoder.stats.sessionCount": ("encoder.stats.sessionCount", str(gpu.encoder_sessions)),
        "encoder.stats.averageFps": ("encoder.stats.averageFps", str(gpu.encoder_fps)),
        "encoder.stats.averageLatency": (
            "encoder.stats.averageLatency",
            str(gpu.encoder_latency_us),
        ),
    }
    return {**{name: (head, "[N/A]") for name, head in _SAYS_NOT.items()}, **values}


def _address(index: int) -> str:
    return f"0000000{index}:00:00.0"


def _query(host: Host) -> str:
    """The blocks of ``nvidia-smi -q`` that trueup reads, in its layout."""
    lines = [
        "",
        "==============NVSMI LOG==============",
        "",
        f"Driver Version                            : {host.gpu_driver}",
        f"Attached GPUs                             : {len(host.gpus)}",
    ]
    for index, gpu in enumerate(host.gpus):
        lines += [
            f"GPU {_address(index)}",
            f"    Product Name                          : {gpu.name}",
            "    Driver Model",
            f"        Current                           : {gpu.driver_model}",
            f"        Pending                           : {gpu.driver_model}",
            f"    GPU UUID                              : {gpu.uuid}",
            "    GPU Virtualization Mode",
            "        Virtualization Mode               : VGPU",
            "    vGPU Software Licensed Product",
            f"        Product Name                      : {gpu.product}",
            f"        License Status                    : {gpu.licence}",
            "    FB Memory Usage",
            f"        Total                             : {gpu.memory_mib} MiB",
        ]
    return "\r\n".join(lines) + "\r\n"


@fragment("controller/trueup_controller/desktops/devices.ps1")
def devices(call: Call, _: dict[str, Any]) -> dict[str, Any]:
    """What Windows' device manager says of NVIDIA's devices, and when it booted."""
    host = call.host
    # 574.24 is 32.0.15.7424.
    digits = (host.gpu_driver or "").replace(".", "")
    version = f"32.0.1{digits[0]}.{digits[1:]}" if digits else None
    now = EPOCH + int(time.time() * 10_000_000)
    return {
        "changed": False,
        "result": {
            "devices": [
                {
                    "device": rf"PCI\VEN_10DE&DEV_2236&SUBSYS_14D010DE&REV_A1\{index}&0&00000000",
                    "name": gpu.name if version else "3D Video Controller",
                    "error_code": gpu.error_code,
                    "driver_version": version,
                }
                for index, gpu in enumerate(host.gpus)
            ],
            "booted": _iso(host.boot_time),
            # The simulated clock is never before the boot.
            "now": _iso(max(now, host.boot_time + 10_000_000)),
        },
    }


def _iso(filetime: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime((filetime - EPOCH) / 10_000_000))


@fragment("controller/trueup_controller/desktops/signature.ps1")
def signature(call: Call, parameters: dict[str, Any]) -> dict[str, Any]:
    """Whether a file is signed, and by whom."""
    file = call.host.file(parameters["Path"])
    if file is None:
        raise FailError(f"Cannot find path '{parameters['Path']}' because it does not exist.")
    status = "Valid" if file.signer else "NotSigned"
    return {"changed": False, "result": {"status": status, "signer": file.signer or ""}}
