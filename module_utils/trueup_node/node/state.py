"""A node's facts and its state, as the figures that expectations speak of."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ..health.faults import metric_of
from ..record import Metric
from .gpu_state import is_registered
from .gpu_support import is_amd
from .vgpu import is_licensed
from .watched_log import Count

_GIGA = 1e9
_ECC = ("sram_corrected", "sram_uncorrected", "dram_corrected", "dram_uncorrected")
_REMAPPED = ("correctable", "uncorrectable")
# The kernel's name of a counter, and ours.
_COUNTERS = {
    "symbol_error": "symbol_errors",
    "link_error_recovery": "link_recoveries",
    "link_downed": "link_downs",
}


def metrics(
    node: Mapping[str, Any],
    gpu: Optional[Mapping[str, Any]],
    ib: Optional[Mapping[str, Any]],
    watched: Optional[Sequence[Count]] = None,
    units: Optional[Sequence[Count]] = None,
) -> List[Metric]:
    """A row for each known figure; an unknown one has no row.

    Args:
        node: the fact ``trueup_node``.
        gpu: the fact ``trueup_gpu``, None where nobody looked.
        ib: the fact ``trueup_rdma``, likewise.
        watched: lines of the kernel log (``watched_log``), likewise.
        units: missing units of systemd (``boot_units``), likewise.
    """
    rows: List[Optional[Metric]] = [
        _count("cpus", node.get("cpus")),
        _count("cores", node.get("cores")),
        _row("memory", node.get("memory_bytes"), "byte", "none"),
        _count("gpus", _gpus(node, gpu)),
        _count("nvme_disks", _number_of(node.get("nvme"), local=True)),
    ]
    for device in ib["devices"] if ib else []:
        rows += _of_device(device)
    if ib:
        of_infiniband = [item for item in ib["devices"] if item["kind"] == "infiniband"]
        rows.append(_count("rdma_nics", len(of_infiniband)))
        # None where the journal could not be read, or was not.
        rows += [
            _count("link_losses", row["losses"], str(row["device"]))
            for row in ib.get("flaps") or []
        ]
    rows += _of_kernel_log((gpu or {}).get("xids"))
    for kind, counts in (("kernel", watched), ("unit", units)):
        if counts is not None:
            rows.append(_count(f"{kind}_faults", sum(row.lines for row in counts)))
            rows += [_count(metric_of(row.id, kind), row.lines, row.device) for row in counts]
    for number, state in enumerate((gpu or {}).get("devices") or []):
        rows += _of_gpu(f"gpu{number}", state)
    return [row for row in rows if row is not None]


def _of_kernel_log(xids: Optional[Sequence[Mapping[str, Any]]]) -> List[Optional[Metric]]:
    """How many XIDs and SXids fail the node, and a row for each code that is to be watched; nothing
    where the kernel log could not be read or is not judged (``health.faults.judged``)."""
    if xids is None or any("severity" not in row for row in xids):
        return []
    failing = sum(row["count"] for row in xids if row["severity"] == "fail")
    watched: Dict[Tuple[str, str], int] = {}
    for row in xids:
        if row["severity"] == "warn":
            key = (f"{row['kind']}_{row['code']}", row["device"])
            watched[key] = watched.get(key, 0) + row["count"]
    return [
        _count("hardware_xids", failing),
        *(_count(name, count, device) for (name, device), count in watched.items()),
    ]


def _gpus(node: Mapping[str, Any], gpu: Optional[Mapping[str, Any]]) -> Optional[int]:
    """How many GPUs the node has; Windows shows none to identify before their driver is there, and
    to who looks after it was installed. None for AMD's, which nobody counts."""
    if is_amd(node.get("catalog") or {}):
        return None
    gpu_devices = (gpu or {}).get("devices")
    if node.get("system") == "windows" and gpu_devices:
        return len(gpu_devices)
    return _number_of(node.get("gpus"))


def _of_device(device: Mapping[str, Any]) -> List[Optional[Metric]]:
    name = str(device["device"])
    metric = {"infiniband": "link_rate", "ethernet": "ethernet_link_rate"}.get(device["kind"])
    rows: List[Optional[Metric]] = []
    if metric and device.get("rate_gbps") is not None:
        # A link that is down has a rate all the same, which it does not carry.
        rate = device["rate_gbps"] if device.get("state") == "ACTIVE" else 0
        rows.append(_row(metric, rate * _GIGA, "bit/s", "none", name))
    counters = device.get("counters") or {}
    rows.append(_count("carrier_losses", device.get("carrier_losses"), name))
    return rows + [
        _count(metric_name, counters.get(kernels), name)
        for kernels, metric_name in _COUNTERS.items()
    ]


def _of_gpu(name: str, state: Mapping[str, Any]) -> List[Optional[Metric]]:
    ecc, remap = state.get("ecc_by_memory") or {}, state.get("row_remap") or {}
    nvlinks, clocks = state.get("nvlinks") or {}, state.get("clocks") or {}
    fabric = state.get("fabric")
    return [
        *(_count(f"ecc_{kind}", ecc.get(kind), name) for kind in _ECC),
        *(_count(f"rows_remapped_{kind}", remap.get(kind), name) for kind in _REMAPPED),
        _row("gpu_memory", state.get("memory_bytes"), "byte", "none", name),
        _count("gpu_licensed", _licensed(state.get("licence")), name),
        _count("row_remap_pending", _whole(remap.get("pending")), name),
        _count("row_remap_failures", _whole(remap.get("failure")), name),
        _count("nvlinks_active", nvlinks.get("active"), name),
        _count("fabric_ready", None if fabric is None else int(is_registered(fabric)), name),
        _row("gpu_clock", _hertz(clocks.get("sm_mhz")), "Hz", "none", name),
        _row("gpu_clock_limit", _hertz(clocks.get("max_sm_mhz")), "Hz", "none", name),
    ]


def _licensed(state: Optional[str]) -> Optional[int]:
    return None if state is None else int(is_licensed(state))


def _whole(value: Any) -> Optional[int]:
    return None if value is None else int(value)


def _hertz(megahertz: Optional[float]) -> Optional[float]:
    return None if megahertz is None else megahertz * 1e6


def _number_of(items: Any, *, local: bool = False) -> Optional[int]:
    if items is None:
        return None
    return sum(1 for item in items if not local or item.get("local"))


def _count(name: str, value: Optional[float], device: Optional[str] = None) -> Optional[Metric]:
    return _row(name, value, "1", "none", device)


def _row(
    name: str, value: Optional[float], unit: str, direction: str, device: Optional[str] = None
) -> Optional[Metric]:
    if value is None:
        return None
    return Metric(name, float(value), unit, direction, device=device)


def software(
    node: Mapping[str, Any],
    gpu: Optional[Mapping[str, Any]],
    ib: Optional[Mapping[str, Any]],
) -> Dict[str, str]:
    """Versions in which the nodes of one size should not differ."""
    versions = {
        "kernel": node.get("kernel"),
        "nvidia_driver": (gpu or {}).get("kernel_module"),
        "fabric_manager": (gpu or {}).get("fabric_manager"),
    }
    firmware = {
        str(item["firmware"])
        for item in (ib or {}).get("devices", [])
        if item["kind"] == "infiniband" and item.get("firmware")
    }
    if firmware:
        versions["infiniband_firmware"] = "+".join(sorted(firmware))
    return {name: str(version) for name, version in versions.items() if version}


def problems(gpu: Optional[Mapping[str, Any]], ib: Optional[Mapping[str, Any]]) -> List[str]:
    """The problems from gpu_facts and ib_facts, a sentence each."""
    of_gpus = [str(item["message"]) for item in (gpu or {}).get("problems", [])]
    return of_gpus + [str(item) for item in (ib or {}).get("problems", [])]
