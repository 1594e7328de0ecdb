r"""Azure Virtual Desktop's agent on a Windows host, from its registry and services.

Source: Microsoft's page on troubleshooting the agent (``HKLM:\SOFTWARE\Microsoft\RDInfraAgent``
with IsRegistered and RegistrationToken, service RDAgentBootLoader, event 3277 of WVD-Agent).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, NamedTuple

AGENT_KEY = r"HKLM:\SOFTWARE\Microsoft\RDInfraAgent"
SERVICE = "RDAgentBootLoader"
# A key below it for each Entra tenant that the host is joined to; and the DNS domain of an AD.
ENTRA_KEY = r"HKLM:\SYSTEM\CurrentControlSet\Control\CloudDomainJoin\JoinInfo"
DOMAIN_KEY = r"HKLM:\SYSTEM\CurrentControlSet\Services\Tcpip\Parameters"
# Ours: when trueup drained the host.
MARK_KEY, MARK = r"HKLM:\SOFTWARE\trueup\avd_session_host", "Drained"
INVALID_TOKEN = "INVALID_REGISTRATION_TOKEN"  # noqa: S105 WHY: a word of the event log


@dataclass(frozen=True)
class Agent:
    """How the agent stands: ``agent`` and ``loader``, whether each is installed."""

    agent: bool
    loader: bool
    registered: bool
    running: bool

    @property
    def installed(self) -> bool:
        return self.agent and self.loader


class Event(NamedTuple):
    """An entry of the agent's event log; ``when`` is None where it says no time."""

    id: int
    message: str
    when: datetime | None

    def since(self, begin: datetime) -> bool:
        """Whether it is of this time or later; one without a time is."""
        return self.when is None or self.when >= begin.replace(microsecond=0)


def value_of(key: Mapping[str, Any] | None, name: str) -> Any:
    """The data of a value of a key as windows_facts gives it; None where it is not there."""
    values = (key or {}).get("values") or {}
    registry_value = {str(value_name).lower(): value for value_name, value in values.items()}.get(
        name.lower()
    )
    return registry_value["data"] if registry_value else None


def agent_of(key: Mapping[str, Any] | None, service: Mapping[str, Any] | None) -> Agent:
    """How it stands, by the registry key and the service as windows_facts gives them."""
    return Agent(
        agent=key is not None,
        loader=service is not None,
        registered=value_of(key, "IsRegistered") in (1, "1"),
        running=bool(service) and str((service or {}).get("state")) == "started",
    )


def joined(entra: Mapping[str, Any] | None, domain: Mapping[str, Any] | None) -> str:
    """The directory that a host joined: ``entra``, ``domain`` (also when both), or nothing."""
    if value_of(domain, "Domain"):
        return "domain"
    return "entra" if (entra or {}).get("keys") else ""


def events_of(result: Any) -> list[Event]:
    """The events of avd_events.ps1: a list of ``id``, ``message`` and ``when`` (UTC, ISO 8601)."""
    events = []
    for row in result if isinstance(result, list) else [result]:
        if not isinstance(row, Mapping):
            continue
        text = re.sub(r"\.\d+", "", str(row.get("when") or "")).replace("Z", "+00:00")
        try:
            when: datetime | None = datetime.fromisoformat(text)
        except ValueError:
            when = None
        if when is not None and when.tzinfo is None:
            when = when.replace(tzinfo=timezone.utc)
        number = row.get("id")
        message = str(row.get("message") or "")
        events.append(Event(number if isinstance(number, int) else 0, message, when))
    return events
