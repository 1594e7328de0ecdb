"""InfiniBand links that come and go: messages of the system's log about their network interfaces,
and how often the kernel saw these lose their carrier.

AzNHC fails a node whose log has a second ``ib... lost carrier`` within six hours of the one before
(azure_ib_link_flapping.nhc, check_ib_link_flapping 6); one alone is a cable that was moved, or the
driver that was loaded anew. So it is here, by interface.
"""

from __future__ import annotations

import re
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import tools
from .infiniband import INFINIBAND, has_infiniband
from .sysfs import text_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Messages of systemd-networkd, NetworkManager and drivers. NetworkManager logs it twice, the second
# time when it acts on it.
_LOST = re.compile(
    r"\blost carrier\b|\bcarrier: link disconnected(?! \(calling)|\blink (?:is )?down\b",
    re.IGNORECASE,
)
# journalctl --output=short-unix: seconds since 1970, host, program, message.
_LINE = re.compile(r"([0-9]{9,11}(?:\.[0-9]+)?) \S+ ([^:]+): (.*)")
# The kernel and the network's service speak of the same event.
_SAME_SECONDS = 5.0
_MOST = 1
FAULT = "NHC2005"


def asked(
    module: Any, devices: Sequence[Mapping[str, Any]], hours: int
) -> list[dict[str, Any]] | None:
    """The result of ``losses`` for the journal of so many hours; None for 0 hours, or if the
    journal cannot be read.

    Args:
        module: the module that ``tools.ask`` runs commands with.
    """
    if not hours or not has_infiniband(devices):
        return None
    # Who says it, and at most so many lines: a node may log much in six hours.
    says = [f"--identifier={who}" for who in ("kernel", "systemd-networkd", "NetworkManager")]
    argv = ["journalctl", "--no-pager", "--quiet", "--output=short-unix", "--lines=50000"]
    response = tools.ask(module, [*argv, f"--since=-{hours}h", *says])
    return losses(response.output, devices) if response.ok else None


def losses(text: str, devices: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """How often each interface of an InfiniBand device lost its carrier, by the log.

    Args:
        text: output of ``journalctl --output=short-unix``; other lines are ignored.
        devices: as infiniband.read_devices gives them.

    Returns:
        for each interface ``device``, ``interface``, ``losses`` and ``last`` (UTC, ISO 8601; None
        where it lost none).
    """
    times: dict[str, list[float]] = {}
    owners = {
        name: row["device"]
        for row in devices
        if row["kind"] == INFINIBAND
        for name in row["interfaces"]
    }
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is None or not _LOST.search(match.group(3)):
            continue
        when = float(match.group(1))
        for name in owners.keys() & set(re.findall(r"[\w.-]+", match.group(3))):
            if not times.get(name) or when - times[name][-1] > _SAME_SECONDS:
                times.setdefault(name, []).append(when)
    return [
        {
            "device": device,
            "interface": name,
            "losses": len(times.get(name, [])),
            "last": _utc(times[name][-1]) if name in times else None,
        }
        for name, device in sorted(owners.items())
    ]


def carrier_losses(interfaces: Sequence[str], sysfs_root: str) -> int | None:
    """How often these interfaces lost their carrier since they are there; None where no kernel
    says it (``carrier_down_count``, since Linux 4.16)."""
    texts = [
        text_of(Path(sysfs_root, "class", "net", name, "carrier_down_count")) for name in interfaces
    ]
    counts = [int(text) for text in texts if text.isdecimal()]
    return sum(counts) if counts else None


def problems(rows: Sequence[Mapping[str, Any]], hours: int) -> list[str]:
    """A sentence for each interface that lost its carrier more than once within these hours."""
    return [
        f"{row['device']} ({row['interface']}): its link was lost {row['losses']} times within"
        f" {hours} hours, last at {row['last']}, expected {_MOST} at most: measure it, and report"
        f" the VM to Azure if it goes on ({FAULT})."
        for row in rows
        if row["losses"] > _MOST
    ]


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
