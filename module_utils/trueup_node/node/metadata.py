"""Ask Azure's instance metadata service about this machine.

The service answers ``GET http://169.254.169.254/metadata/instance`` with JSON to a caller on the
machine who sends ``Metadata: true`` and no ``X-Forwarded-For``; proxies must be bypassed, and more
than five requests a second get status 429. All its values are strings. Off Azure that address
answers nothing, or belongs to another cloud's service. Source:
learn.microsoft.com/azure/virtual-machines/instance-metadata-service.
"""

from __future__ import annotations

import contextlib
import http.client
import re
import socket
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from .. import bounded_http
from ..errors import BadInput

METADATA_URL = "http://169.254.169.254/metadata/instance?api-version=2025-04-07"

# A real answer is 3 to 5 kB; tags and data disks can make it some tens of kB.
_MAX_BYTES = 256 * 1024
_SHOWN_CHARACTERS = 60
_WORDS = ("location", "zone", "priority", "publisher", "offer", "sku", "version", "licenseType")
_REDIRECTS = range(300, 400)
SPOT = "spot"
_OFFERS = {"": "payg", "regular": "payg", "spot": SPOT}


@dataclass(frozen=True)
class Metadata:
    """The answer, without names, owner and network of the machine.

    Attributes:
        status: ``ok``; ``absent`` (nothing listens there: not on Azure, or the service is blocked);
            or ``unusable`` (something answered, but not with a usable document).
        detail: the answer that came instead, or remarks beside usable members, without a full stop;
            else empty.
        vm_size, region, image, zone: as Azure names them; None when the document does not say.
        offer: ``payg``, ``spot``, or None for a priority that is neither.
        licence_type: such as ``Windows_Client``; None where the VM was made without one.
        vm_id: the VM's id, of which only a hash is published (``machine``).
    """

    status: str
    detail: str = ""
    vm_size: str | None = None
    region: str | None = None
    zone: str | None = None
    offer: str | None = None
    image: str | None = None
    licence_type: str | None = None
    vm_id: str | None = None


@dataclass(frozen=True)
class Document:
    """A JSON object of the service.

    Attributes:
        status, detail: as Metadata's.
        content: the object; empty unless ok.
    """

    status: str
    detail: str = ""
    content: dict[str, Any] = field(default_factory=dict)


def ask(
    url: str = METADATA_URL, connect_seconds: float = 2.0, answer_seconds: float = 10.0
) -> Metadata:
    """Ask ``url`` once about this machine; arguments and errors as of ``document``."""
    return _of_document(document(url, connect_seconds, answer_seconds))


def of_body(body: str) -> Metadata:
    """The metadata from an answer with status 200 that the machine's own client got."""
    return _of_document(_parsed(bounded_http.Reply(http.client.OK, "", {}, body.encode())))


def _of_document(came: Document) -> Metadata:
    return _understand(came.content) if came.status == "ok" else Metadata(came.status, came.detail)


def document(url: str, connect_seconds: float = 2.0, answer_seconds: float = 10.0) -> Document:
    """Ask ``url`` once and return the answer.

    Whatever answers, however slowly, no error leaves this function but for a bad ``url``.

    Args:
        connect_seconds: where nothing accepts the connection, as on every machine that is not of
            Azure, no longer is waited.
        answer_seconds: for the whole answer after that; a busy node gets it late.

    Raises:
        BadInput: ``url`` is not an http URL.
    """
    host, port, target = _split(url)
    # http.client, because it follows no redirect and knows no proxy.
    connection = http.client.HTTPConnection(host, port, timeout=connect_seconds + answer_seconds)

    def open_response() -> http.client.HTTPResponse:
        # With "close" the response alone holds the socket, and closing it ends the connection.
        headers = {"Metadata": "true", "Connection": "close"}
        connection.request("GET", target, headers=headers)
        return connection.getresponse()

    try:
        bounded_http.within(connect_seconds, connection.connect)
        connected = connection.sock
    except (OSError, http.client.HTTPException):
        return Document("absent", "nothing listens at the metadata address")
    try:
        return _parsed(bounded_http.ask(open_response, answer_seconds, _MAX_BYTES))
    except (bounded_http.Overdue, bounded_http.TooLarge, bounded_http.Truncated) as error:
        # Ends the abandoned thread: scheduled events are asked for as long as a benchmark runs.
        with contextlib.suppress(OSError):
            connected.shutdown(socket.SHUT_RDWR)
        return Document("unusable", str(error))
    except (OSError, http.client.HTTPException) as error:
        return Document("unusable", f"the answer broke off or is not HTTP ({_shown(repr(error))})")


def _split(url: str) -> tuple[str, int, str]:
    message = f"metadata_url {url!r} is not a URL like {METADATA_URL}"
    try:
        parts = urlsplit(url)
        port = parts.port or 80
    except ValueError as error:
        raise BadInput(message) from error
    if parts.scheme != "http" or not parts.hostname or not url.isascii() or not url.isprintable():
        raise BadInput(message)
    return parts.hostname, port, (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _parsed(reply: bounded_http.Reply) -> Document:
    problem = _refusal(reply)
    if problem:
        return Document("unusable", problem)
    try:
        content = bounded_http.parse_json(reply.body)
    except bounded_http.NotJson as error:
        return Document("unusable", f"an answer that {error} ({_shown(reply.body)})")
    if not isinstance(content, dict):
        return Document("unusable", "JSON that is no object")
    return Document("ok", content=content)


def _understand(content: dict[str, Any]) -> Metadata:
    compute = content.get("compute")
    if not isinstance(compute, dict):
        return Metadata("unusable", "JSON without a 'compute' object")
    vm_size = _word(compute, "vmSize")
    if vm_size is None:
        return Metadata("unusable", f"a vmSize that is no size ({_shown(compute.get('vmSize'))})")
    image = [_word(compute, key) for key in ("publisher", "offer", "sku", "version")]
    priority = compute.get("priority")
    return Metadata(
        status="ok",
        detail=", ".join(
            f"{key} {_shown(compute[key])}"
            for key in _WORDS
            if compute.get(key) not in (None, "") and _word(compute, key) is None
        ),
        vm_size=vm_size,
        region=_word(compute, "location"),
        zone=_word(compute, "zone"),
        offer=_OFFERS.get(priority.lower()) if isinstance(priority, str) else None,
        image=":".join(image_field or "" for image_field in image) if image[0] else None,
        licence_type=_word(compute, "licenseType"),
        vm_id=_word(compute, "vmId"),
    )


def _refusal(reply: bounded_http.Reply) -> str:
    if reply.status in _REDIRECTS:
        target = _shown(reply.headers.get("Location", ""))
        return f"a redirect (status {reply.status} to {target})"
    if reply.status == http.client.TOO_MANY_REQUESTS:
        return "status 429: asked more often than five times a second"
    if reply.status != http.client.OK:
        return f"status {reply.status} {_shown(reply.reason)}"
    return ""


def _word(compute: dict[str, Any], key: str) -> str | None:
    """A value that is one plain word, as all those are that we use; None for anything else, such as
    ``..`` or an option."""
    value = compute.get(key)
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", value):
        return value
    return None


def _shown(value: object) -> str:
    """A short, printable form of something foreign."""
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    printable = "".join(character if character.isprintable() else " " for character in text)
    short = printable.strip()[:_SHOWN_CHARACTERS]
    return repr(short) + ("..." if len(printable) > _SHOWN_CHARACTERS else "")
