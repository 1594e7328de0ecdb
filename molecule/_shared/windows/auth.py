"""How a client shows who it is: Basic, or NTLM (bare or in SPNEGO) with message encryption.

pyspnego answers NTLM; the passwords are the host's own users'.
"""

from __future__ import annotations

import base64
import hmac
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import spnego
from pypsrp.encryption import WinRMEncryption
from pypsrp.exceptions import WinRMError
from spnego._ntlm_raw.crypto import lmowfv1, ntowfv1
from spnego.exceptions import SpnegoError

from .host import Host

_BOUNDARY = "Encrypted Boundary"
# The environment, by which pyspnego finds the accounts, is one for all hosts of this process.
_ENVIRONMENT = threading.Lock()


class Client:
    """Who is at the other end of one connection."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._context: spnego.ContextProxy | None = None
        self._encryption: WinRMEncryption | None = None
        self.user: str | None = None
        self.encrypted = False

    def shown(self, header: str) -> list[str]:
        """Take an Authorization header; what WWW-Authenticate says then."""
        kind, _, word = header.partition(" ")
        try:
            token = base64.b64decode(word, validate=True)
        except ValueError:
            token = b""
        if kind.lower() == "basic" and self._host.unencrypted:
            self.user = self._basic(token)
        elif kind.lower() in ("negotiate", "ntlm") and token:
            answer = self._negotiated(token)
            if answer:
                return [f"{kind} {base64.b64encode(answer).decode()}"]
        if self.user is not None:
            return []
        basic = ['Basic realm="WSMAN"'] if self._host.unencrypted else []
        return ["Negotiate", *basic]

    def opened(self, body: bytes, kind: str) -> bytes:
        """A body without its encryption.

        Raises:
            ValueError: it cannot be decrypted, or it is not encrypted and has to be.
        """
        self.encrypted = kind.startswith("multipart/encrypted")
        if not self.encrypted:
            if body and not self._host.unencrypted:
                raise ValueError("unencrypted traffic is disabled on this host")
            return body
        if self._encryption is None:
            raise ValueError("the message is encrypted, and nobody has signed in")
        try:
            opened: bytes = self._encryption.unwrap_message(body, _BOUNDARY)
        except (LookupError, SpnegoError, WinRMError) as error:
            raise ValueError(f"the message cannot be decrypted: {error}") from None
        return opened

    def closed(self, body: bytes) -> tuple[str, bytes]:
        """The content type and the bytes of an answer."""
        if not self.encrypted or self._encryption is None or not body:
            return "application/soap+xml;charset=UTF-8", body
        kind, wrapped = self._encryption.wrap_message(body)
        return f'{kind};protocol="{WinRMEncryption.SPNEGO}";boundary="{_BOUNDARY}"', wrapped

    def _basic(self, token: bytes) -> str | None:
        user, _, password = token.decode(errors="replace").partition(":")
        name = user.rpartition("\\")[2]
        known = self._host.users.get(name)
        right = known is not None and hmac.compare_digest(known.encode(), password.encode())
        return name if right else None

    def _negotiated(self, token: bytes) -> bytes | None:
        """One step; None: nothing more to say, with a user or without one."""
        with _ENVIRONMENT, _accounts(self._host):
            try:
                if self._context is None:
                    self._context = spnego.server(protocol="negotiate")
                answer = self._context.step(token)
            except (SpnegoError, LookupError, ValueError, TypeError):
                # Also what is no token at all; the next attempt begins anew.
                self._context = None
                return None
        if self._context.complete:
            self.user = (self._context.client_principal or "").rpartition("\\")[2]
            self._encryption = WinRMEncryption(self._context, WinRMEncryption.SPNEGO)
        return answer


@contextmanager
def _accounts(host: Host) -> Iterator[None]:
    """The users' hashes, in a file where pyspnego looks for them."""
    lines = [
        f"{domain}{user}:0:{lmowfv1(password).hex()}:{ntowfv1(password).hex()}:[U]:LCT-0"
        for user, password in host.users.items()
        for domain in ("", ".\\", f"{host.name}\\")
    ]
    before = os.environ.get("NTLM_USER_FILE")
    with tempfile.NamedTemporaryFile("w", prefix="simulated-windows-") as file:
        file.write("\n".join(lines))
        file.flush()
        os.environ["NTLM_USER_FILE"] = file.name
        try:
            yield
        finally:
            if before is None:
                del os.environ["NTLM_USER_FILE"]
            else:
                os.environ["NTLM_USER_FILE"] = before
