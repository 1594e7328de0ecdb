"""HTTP servers on the loopback that no deadline of a single read ends, or that send nonsense."""

from __future__ import annotations

import contextlib
import gzip
import socket
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Behaviour = Callable[[socket.socket], None]

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
# A server that drips holds its client so long.
DRIP_SECONDS = 60


@contextlib.contextmanager
def serving(behave: Behaviour) -> Iterator[str]:
    """A server that does ``behave`` with each connection once it has a request: its URL."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)

    def talk(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.recv(65536)
            behave(connection)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=talk, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def _drip(connection: socket.socket, start: bytes, piece: bytes) -> None:
    connection.sendall(start)
    for _ in range(DRIP_SECONDS * 10):
        connection.sendall(piece)
        time.sleep(0.1)


def _flood(connection: socket.socket, start: bytes, piece: bytes) -> None:
    connection.sendall(start)
    while True:
        connection.sendall(piece * (1 + 65536 // len(piece)))


def body_a_byte_at_a_time(connection: socket.socket) -> None:
    _drip(connection, OK + b"Content-Length: 1000000\r\n\r\n", b" ")


def headers_a_byte_at_a_time(connection: socket.socket) -> None:
    _drip(connection, OK + b"X-Long: ", b"x")


def chunks_of_a_byte(connection: socket.socket) -> None:
    _drip(connection, OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n")


def continue_without_end(connection: socket.socket) -> None:
    _drip(connection, b"", b"HTTP/1.1 100 Continue\r\n\r\n")


def silence(connection: socket.socket) -> None:
    time.sleep(DRIP_SECONDS)


def body_without_end(connection: socket.socket) -> None:
    _flood(connection, OK + b"\r\n", b" " * 65536)


def chunks_without_end(connection: socket.socket) -> None:
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
    _flood(connection, OK + b"Transfer-Encoding: chunked\r\n\r\n", chunk)


def compressed_without_end(connection: socket.socket) -> None:
    # 1 GiB of blanks in about 1 MB.
    packed = gzip.compress(b" " * 2**24) * 64
    head = OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
    connection.sendall(head + packed)


def sends(body: bytes, length: int | None = None, status: bytes = b"200 OK") -> Behaviour:
    """A whole answer; ``length`` is announced in place of the body's own."""
    size = len(body) if length is None else length
    head = b"HTTP/1.1 " + status + b"\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % size

    def behave(connection: socket.socket) -> None:
        connection.sendall(head + body)

    return behave


SLOW = (
    body_a_byte_at_a_time,
    headers_a_byte_at_a_time,
    chunks_of_a_byte,
    continue_without_end,
    silence,
)
ENDLESS = (body_without_end, chunks_without_end)
NO_JSON = {
    "nested too deeply": b"[" * 100_000 + b"]" * 100_000,
    "nested  too deeply": b'{"a":' * 30_000 + b"1" + b"}" * 30_000,
    "a number of 5,000 digits": b'{"a": ' + b"9" * 5000 + b"}",
    "the value NaN": b'{"a": NaN}',
    "the value -Infinity": b'{"a": -Infinity}',
    "is not UTF-8": b'{"a": "\xff\xfe"}',
    "is not JSON": b'{"a": ',
}
