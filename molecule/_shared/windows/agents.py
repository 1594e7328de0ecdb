"""The simulated agent of Azure Virtual Desktop: it registers when its boot loader starts.

By Microsoft's pages: both MSIs are there, and the key RDInfraAgent has RegistrationToken and
IsRegistered 0. A broker says what the token is worth; without one the host's broker_tokens do. A
wrong or expired token is event 3277 of WVD-Agent with INVALID_REGISTRATION_TOKEN.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

from .products import Product

if TYPE_CHECKING:
    from .host import Host

KEY = r"HKLM:\SOFTWARE\Microsoft\RDInfraAgent"
SERVICE = "RDAgentBootLoader"
AGENT = "Remote Desktop Services Infrastructure Agent"
BOOT_LOADER = "Remote Desktop Agent Boot Loader"
# What the agent brings itself once it is registered.
_BRINGS = (
    "Remote Desktop Services Infrastructure Geneva Agent",
    "Remote Desktop Services SxS Network Stack",
)
_PATIENCE_SECONDS = 10


def started(host: Host) -> None:
    """What the agent does when its boot loader has (re)started."""
    service = host.service(SERVICE)
    if service is None or service.state != "started":
        return
    if not {AGENT, BOOT_LOADER} <= set(host.products):
        return
    token = host.registry.value(KEY, "RegistrationToken")
    if host.registry.value(KEY, "IsRegistered") == 1 or not token:
        return
    refused = _refused(host, str(token))
    if refused is None:
        host.registry.set(KEY, "IsRegistered", "dword", 1)
        host.registry.set(KEY, "RegistrationToken", "string", "")
        host.add_products({name: Product("1.0.0.0", "Microsoft Corporation") for name in _BRINGS})
        return
    host.registry.set(KEY, "IsRegistered", "dword", 0)
    host.log("Application", "WVD-Agent", 3277, refused, level="Error")


def _refused(host: Host, token: str) -> str | None:
    """Why the broker does not take the host; None: it does."""
    if host.broker_url is None:
        worth = host.broker_tokens.get(token)
        return None if worth == "valid" else "INVALID_REGISTRATION_TOKEN"
    compute = (host.metadata or {}).get("compute", {})
    body = json.dumps({"token": token, "vmId": compute.get("vmId"), "name": host.name}).encode()
    headers = {"Content-Type": "application/json"}
    asked = urllib.request.Request(host.broker_url, body, headers)  # noqa: S310 (a test's own)
    try:
        with urllib.request.urlopen(asked, timeout=_PATIENCE_SECONDS):  # noqa: S310
            return None
    except urllib.error.HTTPError as error:
        known = error.code in (400, 401, 403)
        return "INVALID_REGISTRATION_TOKEN" if known else f"ENDPOINT_NOT_FOUND: {error.code}"
    except OSError:
        return "ENDPOINT_NOT_FOUND"
