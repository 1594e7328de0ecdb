"""The kernel log's lines on NVIDIA's GPUs and NVSwitches: XIDs, SXids, GPUs that did not start.

The codes are not judged here: catalog/faults/xid.yml is not on the node. Sources of the formats:
NVIDIA/open-gpu-kernel-modules@df1c9a3 (kernel_rc.c, gpu.c, osapi.c, osinit.c, nv.c, nv-pci.c,
common_nvswitch.h) and the kernel's driver core (really_probe).
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ..reading import Line, lines_of
from .nvidia_smi import address_of

# The time at the begin of a line: seconds since boot or a date in brackets, an ISO time, or
# syslog's date.
_TIME = re.compile(
    r"\s{0,8}(?:\[([^\]]{1,64})\]|([0-9]{4}-[0-9]{2}-[0-9]{2}T\S+)"
    r"|([A-Z][a-z]{2} [ 0-9][0-9] [0-9:]{8}))"
)
_XID = re.compile(
    r"NVRM: Xid \((?:PCI:)?([0-9A-Fa-f:.]+)(?:[^0-9A-Fa-f:.()][^()]*)?\): ([0-9]+)\b(.*)"
)
_SXID = re.compile(r"SXid \(PCI:([0-9A-Fa-f:.]+)\): 0*([0-9]+), ?(.*)")
# "145, RLW_RXPIPE Nonfatal XC0 i0 Link 13 (...)" and "20034, Fatal, Link 30 LTSSM Fault Up".
_FATAL = re.compile(r"\b(Non-?fatal|Fatal)\b")
_RECOVERY = re.compile(r"recovery action changed from .* to 0x[0-9A-Fa-f]+ \(([^()]*)\)")
_RECOVERY_XID = 154
# Printed at the begin of each loading of the driver, before its other lines.
_LOADING = "nvidia-nvlink: Nvlink Core is being initialized"
_MOST_LINE = 300

_ADDRESS = r"([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])"
# A sentence that the driver prints in lines of their own.
_UNUSED_GPU = re.compile(rf"NVRM: The NVIDIA v?GPU {_ADDRESS}(.*)")
_UNUSED_LINES = 4
_UNUSED = (
    (re.compile(r"fallen off the bus"), "it has fallen off the bus and does not answer"),
    (
        re.compile(r"not supported by\s+open"),
        "the open kernel modules do not support it: install the driver's proprietary ones",
    ),
    (
        re.compile(r"not supported by the\s+(NVIDIA \S+ driver release)"),
        "the {} does not recognise it (where it runs the node's other GPUs, this GPU is at fault)",
    ),
)
_FAILED = (
    (
        re.compile(rf"NVRM: GPU {_ADDRESS}: RmInitAdapter failed! \(([^()]*)\)"),
        "the driver could not initialise it (RmInitAdapter {})",
    ),
    (
        re.compile(rf"NVRM: GPU {_ADDRESS}: (GPU has fallen off the bus)"),
        "it has fallen off the bus and does not answer",
    ),
    (
        re.compile(rf"nvidia: probe of {_ADDRESS} failed with error (-?[0-9]+)"),
        "the driver's probe of it failed with error {}",
    ),
    (
        re.compile(rf"nvidia {_ADDRESS}: probe with driver nvidia failed with error (-?[0-9]+)"),
        "the driver's probe of it failed with error {}",
    ),
)
_NO_REGION = re.compile(rf"NVRM: (BAR[0-9]) is ([0-9]+M @ 0x[0-9A-Fa-f]+) \(PCI:{_ADDRESS}\)")
_NAMELESS = re.compile(
    r"NVRM: The NVIDIA probe routine (failed|was not called) for ([0-9]+) device"
)


class KernelLog(NamedTuple):
    """Codes and failed starts of GPUs in the kernel log, oldest first.

    Attributes:
        codes: XIDs and SXids; one row for equal ones of a device. ``kind`` (xid or sxid),
            ``device`` (PCI address), ``code``, ``count``, the first ``line``, its ``time`` as the
            log writes it, ``age_seconds`` of the last line where that is known, ``fatal`` as the
            line says (None where it says nothing), ``action`` (of XID 154: the recovery it asks
            for) and ``before_reset``.
        failures: GPUs that the driver could not start: ``gpu`` (PCI address, None where no line
            names it), ``reason`` and ``line``.
    """

    codes: List[Dict[str, Any]]
    failures: List[Dict[str, Any]]


def parse_kernel_log(text: str, uptime_seconds: Optional[float] = None) -> KernelLog:
    """Parse the output of dmesg or ``journalctl -k``, or a syslog file.

    Raises:
        ParseError: a line of an XID or SXid that has another form.
    """
    lines = lines_of(text)
    codes = _Codes(uptime_seconds)
    for line in lines:
        if "NVRM: Xid" in line:
            codes.add_xid(line)
        elif "SXid (" in line:
            codes.add_sxid(line)
        elif _LOADING in line:
            codes.reset(None)
    return KernelLog(codes.rows, _failures(lines))


class _Codes:
    """The rows of the codes while the log is read."""

    def __init__(self, uptime_seconds: Optional[float]) -> None:
        self._uptime = uptime_seconds
        self._rows: Dict[Tuple[Any, ...], Dict[str, Any]] = {}

    @property
    def rows(self) -> List[Dict[str, Any]]:
        return list(self._rows.values())

    def add_xid(self, line: Line) -> None:
        match = _XID.search(line)
        if match is None:
            raise line.error("kernel log: expected 'NVRM: Xid (PCI:...): N'")
        device, code = _device_address(match.group(1)), int(match.group(2))
        action = _RECOVERY.search(match.group(3)) if code == _RECOVERY_XID else None
        if action is not None:
            # The driver's last word on this GPU replaces those before.
            for key in [key for key in self._rows if key[:3] == ("xid", device, code)]:
                del self._rows[key]
            if action.group(1) == "None":
                self.reset(device)
                return
        fatal = _FATAL.search(match.group(3))
        self._add("xid", device, code, fatal, line, action and action.group(1))

    def add_sxid(self, line: Line) -> None:
        match = _SXID.search(line)
        if match is None:
            raise line.error("kernel log: expected 'SXid (PCI:...): N, ...'")
        # Each error has lines of its severity and its registers beside the line that says it.
        if not match.group(3).startswith(("Severity ", "Data {")):
            fatal = _FATAL.match(match.group(3))
            self._add("sxid", _device_address(match.group(1)), int(match.group(2)), fatal, line)

    def reset(self, device: Optional[str]) -> None:
        """Mark the rows of a GPU, or of all, as logged before a reset."""
        for key, row in list(self._rows.items()):
            if device in (None, row["device"]) and not row["before_reset"]:
                del self._rows[key]
                earlier = self._rows.setdefault((*key, "before"), {**row, "count": 0})
                earlier.update(
                    count=earlier["count"] + row["count"],
                    age_seconds=row["age_seconds"],
                    before_reset=True,
                )

    def _add(
        self,
        kind: str,
        device: str,
        code: int,
        fatal: Optional[re.Match[str]],
        line: Line,
        action: Optional[str] = None,
    ) -> None:
        is_fatal = None if fatal is None else fatal.group(1) == "Fatal"
        key = (kind, device, code, is_fatal)
        time = _time_of(line)
        row = self._rows.setdefault(
            key,
            {
                "kind": kind,
                "device": device,
                "code": code,
                "count": 0,
                "time": time,
                "line": line.strip()[:_MOST_LINE],
                "fatal": is_fatal,
                "action": action,
                "before_reset": False,
            },
        )
        row["count"] += 1
        row["age_seconds"] = self._age(time)

    def _age(self, time: Optional[str]) -> Optional[float]:
        """How long ago a line was logged that has the seconds since boot."""
        if self._uptime is None or not re.fullmatch(r"[0-9]{1,10}\.[0-9]+", time or ""):
            return None
        return round(max(0.0, self._uptime - float(time or 0)), 1)


def _time_of(line: str) -> Optional[str]:
    time = _TIME.match(line)
    return next((stamp.strip() for stamp in time.groups() if stamp), None) if time else None


def _device_address(text: str) -> str:
    """``0001:00:00`` has no function; that of a GPU is 0."""
    return address_of(text) or address_of(f"{text.rstrip('.')}.0") or text


def _failures(lines: List[Line]) -> List[Dict[str, Any]]:
    """The GPUs that did not start, each with every reason once."""
    rows: Dict[Optional[str], Dict[str, Any]] = {}

    def add(gpu: Optional[str], reason: str, line: Line) -> None:
        row = rows.setdefault(gpu, {"gpu": gpu, "reasons": [], "line": line.strip()[:_MOST_LINE]})
        if reason not in row["reasons"]:
            row["reasons"].append(reason)

    for number, line in enumerate(lines):
        if "NVRM: " not in line and "nvidia" not in line:
            continue
        unused, region = _UNUSED_GPU.search(line), _NO_REGION.search(line)
        nameless = _NAMELESS.search(line)
        if unused:
            following = lines[number + 1 : number + 1 + _UNUSED_LINES]
            add(address_of(unused.group(1)), _reason_of([unused.group(2), *following]), line)
        elif region:
            reason = f"its memory region {region.group(1)} has no address ({region.group(2)})"
            add(address_of(region.group(3)), reason, line)
        elif nameless:
            how = "failed" if nameless.group(1) == "failed" else "was not called, since another"
            how += "" if how == "failed" else " driver holds them,"
            add(None, f"the driver's probe {how} for {nameless.group(2)} device(s)", line)
        else:
            for pattern, reason in _FAILED:
                match = pattern.search(line)
                if match:
                    add(address_of(match.group(1)), reason.format(match.group(2)), line)
    named = [row for gpu, row in rows.items() if gpu is not None]
    # The count says nothing more where each GPU is named.
    return [
        {"gpu": row["gpu"], "reason": "; ".join(row["reasons"]), "line": row["line"]}
        for row in named or rows.values()
    ]


def _reason_of(parts: List[str]) -> str:
    """Why the driver does not use a GPU, from the end of that line and the lines after it."""
    text = " ".join(re.sub(r"^.*NVRM:", "", _TIME.sub("", line, count=1)).strip() for line in parts)
    matches = [(pattern.search(text), reason) for pattern, reason in _UNUSED]
    # The lines after it may speak of the next GPU.
    first = min((match.start() for match, _ in matches if match), default=None)
    for match, reason in matches:
        if match and match.start() == first:
            return reason.format(*match.groups())
    return "the driver does not use it"
