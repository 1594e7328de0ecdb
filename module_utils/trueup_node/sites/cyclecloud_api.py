"""Calls to CycleCloud's REST API: credentials, repeated calls, and error messages.

Source: https://learn.microsoft.com/azure/cyclecloud/api (reference of 2026-06-19, read 2026-11-21)
for paths and statuses, https://learn.microsoft.com/azure/cyclecloud/how-to/use-rest-api for basic
authentication; RFC 9110 10.2.3 for Retry-After. The reference gives errors no content and says
nothing of 401, 403, 429 and 503, which a server or a gateway before it may answer all the same.

The reference shows no paging: a list is one document. ``nextLink`` and ``Link: <...>; rel="next"``
are followed all the same, so that a list is never taken for whole when it says that it is not.
"""

from __future__ import annotations

import ipaddress
import random
import re
import time
import urllib.parse
from base64 import b64encode
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Callable, Optional

from .. import rest
from ..errors import BadInput


@dataclass(frozen=True)
class Server:
    """Where CycleCloud is and who asks."""

    url: str
    username: str
    password: str
    validate_certs: bool = True
    ca_path: Optional[str] = None
    timeout_seconds: float = 30
    retry_limit_seconds: float = 120


def is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_url(url: str) -> str:
    """The URL without its last slash; BadInput where credentials must not be sent."""
    try:
        parts = urllib.parse.urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        raise BadInput(f"url is not a URL ({error}); write https://HOST[:PORT]") from None
    if parts.username is not None or parts.password is not None:
        raise BadInput("url holds a user name or a password; give them as username and password")
    if parts.scheme not in ("http", "https") or not host:
        raise BadInput(f"url is {url!r}; write https://HOST[:PORT]")
    if parts.query or parts.fragment:
        raise BadInput(f"url has a query or a fragment; write https://{parts.netloc}{parts.path}")
    if parts.scheme == "http" and not is_loopback(host):
        raise BadInput(
            f"url {url} is not https, and the password would go over the network readable; "
            f"write https://{host} (http is taken for a loopback address only)"
        )
    return url.rstrip("/")


def iso_date(text: Any) -> Optional[datetime]:
    """A date-time of the API (2020-01-01T12:34:56Z, with or without a fraction)."""
    match = re.match(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d)?$", str(text))
    if not match:
        return None
    zone = "+00:00" if match[2] in (None, "Z") else match[2]
    try:
        return datetime.fromisoformat(match[1] + zone)
    except ValueError:
        return None


class Api(rest.Client):
    """Calls with the user's name and password, which leave for this server only.

    Args:
        server: where and who.
        open_url: ``ansible.module_utils.urls.open_url``.
        sleep, clock: as of ``time``. jitter: a number from 0 to 1.
    """

    NAME = "CycleCloud"

    def __init__(
        self,
        server: Server,
        open_url: rest.OpenUrl,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        if ":" in server.username:
            raise BadInput("username has a colon, which HTTP's basic authentication cannot carry")
        super().__init__(
            check_url(server.url),
            open_url,
            connection={
                "timeout": server.timeout_seconds,
                "validate_certs": server.validate_certs,
                "ca_path": server.ca_path,
                "url_username": server.username,
                "url_password": server.password,
                "force_basic_auth": True,
            },
            patience_seconds=server.retry_limit_seconds,
            secrets=(
                server.password,
                b64encode(f"{server.username}:{server.password}".encode()).decode(),
            ),
            sleep=sleep,
            clock=clock,
            jitter=jitter,
        )
        self.server = server

    def trust_advice(self) -> str:
        return "give the certificate of its authority as ca_path, or check the host and the port"

    def patience_name(self) -> str:
        return "retry_limit_seconds"

    def redirect_advice(self) -> str:
        return " with a password; give the URL of CycleCloud itself as url"

    def elsewhere(self, url: str) -> str:
        return (
            f"{self.url} goes on with its list at {url}, which does not get the "
            "password; give the URL by which CycleCloud calls itself as url"
        )

    def refusal(self, call: str, response: rest.Response, message: str) -> str:
        if response.status == 401:
            return (
                f"{self.url} takes neither this user name nor this password (status 401); "
                f"check username ({self.server.username}) and password"
            )
        if response.status == 403:
            return (
                f"user {self.server.username} may not {call} at {self.url} (status 403"
                f"{': ' + message if message else ''}); give the user that right in CycleCloud"
            )
        return super().refusal(call, response, message)
