"""The instance metadata service of one machine: 169.254.169.254 in its own network namespace.

What it says is the cloud's; here stands what Azure refuses of a request: one without `Metadata:
true`, one that came through a proxy, one from another machine.
"""

from __future__ import annotations

import contextlib
import json
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Callable

from .replies import Reply

if TYPE_CHECKING:
    import socket

# Method, path, query and body to an answer; what is no document is text.
Ask = Callable[[str, str, "dict[str, str]", bytes], Reply]


class Service:
    """Answers at a socket until it is closed."""

    def __init__(self, at: socket.socket, ask: Ask) -> None:
        own = at.getsockname()[0]

        class Handler(_Handler):
            asked = staticmethod(ask)
            address = own

        self._server = ThreadingHTTPServer((own, 0), Handler, bind_and_activate=False)
        self._server.socket.close()
        self._server.socket = at
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def refused(path: str, headers: Any, peer: str, own: str) -> str:
    """Why a request is not answered, or nothing."""
    if peer != own:
        return "The service answers the machine itself only."
    if not (headers.get("Content-Length") or "0").isdigit():
        return "Bad request. Content-Length is no number"
    if headers.get("X-Forwarded-For") is not None:
        return "Bad request. The request has a header X-Forwarded-For: no proxy may stand between."
    if (headers.get("Metadata") or "").lower() != "true" and path != "/metadata/versions":
        return "Bad request. Required metadata header not specified"
    return ""


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    asked: Ask
    address: str
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "IMDS/emulated", ""

    def do_GET(self) -> None:
        with contextlib.suppress(OSError):
            self.serve()

    do_POST = do_PUT = do_DELETE = do_HEAD = do_PATCH = do_GET  # noqa: N815 WHY: as the base class

    def serve(self) -> None:
        length = self.headers.get("Content-Length") or "0"
        body = self.rfile.read(int(length)) if length.isdigit() else b""
        parts = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))
        if not length.isdigit():
            self.close_connection = True
        problem = refused(parts.path, self.headers, self.client_address[0], self.address)
        if problem:
            reply = Reply(400, {"error": problem})
        else:
            reply = self.asked(self.command, parts.path, query, body)
        plain = isinstance(reply.document, str)
        said = reply.document if plain else json.dumps(reply.document)
        text = b"" if reply.document is None else said.encode()
        self.send_response(reply.status)
        kind = "text/plain" if plain else "application/json"
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(text)))
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        """Nothing on the screen."""
