"""A stand-in for the instance metadata service: a real HTTP server on the loopback."""

from __future__ import annotations

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Behaviour = Callable[[BaseHTTPRequestHandler], None]

COMPUTE = {
    "vmSize": "Standard_HB120rs_v3",
    "location": "southcentralus",
    "zone": "1",
    "priority": "Spot",
    "publisher": "microsoft-dsvm",
    "offer": "ubuntu-hpc",
    "sku": "2404",
    "version": "24.04.2026050801",
    "name": "a-secret-name",
    "vmId": "11111111-2222-3333-4444-555555555555",
    "subscriptionId": "66666666-7777-8888-9999-000000000000",
    "tags": "owner:someone",
}


@contextlib.contextmanager
def serving(behave: Behaviour) -> Iterator[tuple[str, list[tuple[str, dict[str, str]]]]]:
    """A server that does ``behave`` on each GET: its URL, and the paths and headers that came."""
    requests: list[tuple[str, dict[str, str]]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append((self.path, dict(self.headers)))
            # Whoever asked may be gone before the answer is.
            with contextlib.suppress(OSError):
                behave(self)

        def log_message(self, *_: Any) -> None:
            """Keep the tests' output clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.block_on_close = False
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        port = server.server_address[1]
        yield f"http://127.0.0.1:{port}/metadata/instance?api-version=1", requests
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def send(body: bytes, status: int = 200, headers: dict[str, str] | None = None) -> Behaviour:
    """A behaviour: this answer."""

    def behave(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)

    return behave


def document(**changes: Any) -> bytes:
    """What the service says of a VM, with these changes in ``compute``."""
    return json.dumps({"compute": {**COMPUTE, **changes}, "network": {"interface": []}}).encode()
