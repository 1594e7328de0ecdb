"""The fragment of PowerShell that reads the event log of Azure Virtual Desktop's agent."""

from __future__ import annotations

from typing import Any

from ..arguments import Call
from ..errors import UnknownError
from .powershell import fragment


@fragment("controller/trueup_controller/desktops/avd_events.ps1")
def avd_events(call: Call, given: dict[str, Any]) -> dict[str, Any]:
    """The entries of WVD-Agent, newest first; the simulated log knows no times."""
    if set(given) != {"Minutes"}:
        raise UnknownError(f"parameters {sorted(given)} of avd_events.ps1")
    found = [
        {"id": event.id, "message": event.message, "when": None}
        for event in call.host.events
        if (event.log, event.source) == ("Application", "WVD-Agent")
    ]
    return {"result": found[::-1][:20], "changed": False}
