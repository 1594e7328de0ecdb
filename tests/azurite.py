"""Azurite, the emulator of Azure Storage: installed once into a cache, started on a free loopback
port; and a stand-in of the network before it, which throttles, cuts and alters.

Azurite 3.37.0 with everything that it needs is pinned with sha512 in tests/data/azurite; npm takes
it from where npm is configured to take packages from, and runs no installation scripts.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from helpers import ROOT, TOGETHER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PINS = ROOT / "tests" / "data" / "azurite"
DRIVER = ROOT / "roles" / "blob_checkpoint" / "files" / "blob_copy_driver.py"
VERSION = "3.37.0"
ACCOUNT = "devstoreaccount1"
# The emulator's own account key, the same everywhere and documented with it: no secret.
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
START_SECONDS = 300.0


class Unavailable(Exception):
    """Azurite cannot be had on this machine; the message says why."""


def connection_string(port: int, *, key: str = KEY) -> str:
    """Of the emulator's account at a port of the loopback."""
    return (
        f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={key};"
        f"BlobEndpoint=http://127.0.0.1:{port}/{ACCOUNT};"
    )


def install() -> Path:
    """The folder with Azurite in it, installed when it is not there.

    Raises:
        Unavailable: there is no npm or node, or npm could not install.
    """
    return npm_folder("azurite", VERSION, PINS)


def npm_folder(name: str, version: str, pins: Path) -> Path:
    """A folder of the cache with what a ``package-lock.json`` pins; also for other tests.

    Args:
        pins: the folder of package.json and package-lock.json.

    Raises:
        Unavailable: there is no npm or node, or npm could not install.
    """
    for program in ("node", "npm"):
        if not shutil.which(program):
            message = f"{program} is not installed: {name} {version} cannot be had"
            raise Unavailable(message)
    with _cached(f"{name}-{version}", pins / "package-lock.json") as (folder, there):
        if not there:
            for file in ("package.json", "package-lock.json"):
                shutil.copy(pins / file, folder / file)
            _install("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", cwd=folder)
    return folder


def driver_python() -> Path:
    """A Python with what the role blob_checkpoint installs beside its program.

    Raises:
        Unavailable: it could not be installed.
    """
    pins = DRIVER.with_name("requirements.txt")
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    with _cached(f"blob-copy-{version}", pins) as (folder, there):
        python = folder / "venv" / "bin" / "python"
        if not there:
            _install(sys.executable, "-m", "venv", "--clear", str(folder / "venv"))
            pip = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
            _install(str(python), *pip, "--require-hashes", "--no-deps", "-r", str(pins))
    return python


def sas_token(python: Path, container: str) -> str:
    """A shared access signature for a container of the emulator's account, for an hour."""
    program = (
        "import datetime as d, sys; from azure.storage.blob import generate_container_sas as g;"
        "print(g(sys.argv[1], sys.argv[3], account_key=sys.argv[2], permission='racwdl',"
        "expiry=d.datetime.now(d.timezone.utc) + d.timedelta(hours=1)))"
    )
    done = subprocess.run(
        [str(python), "-c", program, ACCOUNT, KEY, container],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return done.stdout.strip()


@contextmanager
def _cached(name: str, pins: Path) -> Iterator[tuple[Path, bool]]:
    """A folder of the cache, ours alone meanwhile, and whether what is pinned is in it already."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = Path(os.environ.get("TRUEUP_CACHE") or os.path.join(home, "trueup")) / name
    stamp = folder / ".installed"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder, stamp.exists() and stamp.read_text() == pins.read_text()
        stamp.write_text(pins.read_text())


def _install(*argv: str, cwd: Path | None = None) -> None:
    done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, timeout=1800, check=False)
    if done.returncode != 0:
        told = " ".join(done.stderr.split())[-300:]
        message = f"{argv[0]} could not install what the tests need: {told or done.returncode}"
        raise Unavailable(message)


@contextmanager
def running(*options: str, host: str = "127.0.0.1") -> Iterator[int]:
    """Azurite's blob service on a free port of an address, its blobs in memory; stopped at the
    end."""
    folder = install()
    main = folder / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    command = ["node", str(main), "--blobHost", host, "--blobPort", "0"]
    command += ["--inMemoryPersistence", "--skipApiVersionCheck", "--silent", "--disableTelemetry"]
    with subprocess.Popen(
        [*command, *options], cwd=folder, **TOGETHER, start_new_session=True
    ) as server:
        try:
            yield _port(server)
        finally:
            server.send_signal(signal.SIGTERM)
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                server.kill()


def _port(server: subprocess.Popen[str]) -> int:
    """The port that it says it listens on."""
    said: list[str] = []
    timer = threading.Timer(START_SECONDS, server.kill)
    timer.start()
    try:
        assert server.stdout is not None
        for line in server.stdout:
            said.append(line)
            found = re.search(r"listens? on https?://[\d.]+:(\d+)", line)
            if found and found.group(1) != "0":
                # What it says from now on must not fill the pipe.
                threading.Thread(target=server.stdout.read, daemon=True).start()
                return int(found.group(1))
    finally:
        timer.cancel()
    message = f"Azurite did not start: {' '.join(said)[-300:]}"
    raise Unavailable(message)


# ---- the stand-in of a network and of a service under load --------------------------------------


@dataclass
class Request:
    """One request as it passes."""

    method: str
    target: str
    number: int

    @property
    def is_block(self) -> bool:
        return self.method == "PUT" and "comp=block&" in self.target + "&"


@dataclass
class Faults:
    """What the stand-in does, and what it has seen.

    Attributes:
        answer: of a request, the HTTP status that it is answered with instead of being passed on
            (0: passed on), or "cut" (the connection ends in the middle of its body), or "alter" (a
            byte of its body is another).
        bytes_per_second: of all connections together; None for no limit.
        delay_seconds: before each block.
        under_way: requests that have come and are not answered yet.
    """

    answer: Callable[[Request], int | str] = lambda _: 0
    bytes_per_second: float | None = None
    delay_seconds: float = 0.0
    blocks: list[str] = field(default_factory=list)
    block_bytes: int = 0
    requests: int = 0
    under_way: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    paid_until: float = 0.0


_ANSWERS = {
    429: ("429 Too Many Requests", "TooManyRequests"),
    500: ("500 Internal Server Error", "InternalError"),
    503: ("503 Server Busy", "ServerBusy"),
}


class StandIn:
    """Listens on a loopback port and passes HTTP/1.1 requests on to another."""

    def __init__(self, upstream: int, faults: Faults) -> None:
        self._upstream = upstream
        self.faults = faults
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError, _Ended):
            incoming = client.makefile("rb")
            while True:
                head, headers = _read_head(incoming)
                method, target, _ = head.split(" ", 2)
                with self.faults.lock:
                    self.faults.requests += 1
                    self.faults.under_way += 1
                    request = Request(method, target, self.faults.requests)
                    wanted = self.faults.answer(request)
                try:
                    if not self._answer(client, incoming, (head, headers), (request, wanted)):
                        return
                finally:
                    with self.faults.lock:
                        self.faults.under_way -= 1

    def _answer(
        self,
        client: socket.socket,
        incoming: BinaryIO,
        message: tuple[str, dict[str, str]],
        ordered: tuple[Request, int | str],
    ) -> bool:
        """Answer one request; False where the connection ends in the middle of it."""
        (head, headers), (request, wanted) = message, ordered
        length = int(headers.get("content-length", "0"))
        body = incoming.read(length)
        if len(body) < length:
            # The service would wait for the rest: 300 s.
            return False
        self._pace(len(body))
        if wanted == "cut":
            return False
        if isinstance(wanted, int) and wanted:
            client.sendall(_refusal(wanted))
            return True
        if wanted == "alter" and body:
            body = bytes([body[0] ^ 1]) + body[1:]
        if request.is_block:
            time.sleep(self.faults.delay_seconds)
        answer = self._pass_on(head, headers, body, request.method)
        if request.is_block:
            with self.faults.lock:
                self.faults.blocks.append(request.target)
                self.faults.block_bytes += len(body)
        client.sendall(answer)
        return True

    def _pace(self, count: int) -> None:
        rate = self.faults.bytes_per_second
        if not rate:
            return
        with self.faults.lock:
            self.faults.paid_until = max(self.faults.paid_until, time.monotonic()) + count / rate
            wait = self.faults.paid_until - time.monotonic()
        time.sleep(max(0.0, wait))

    def _pass_on(self, head: str, headers: dict[str, str], body: bytes, method: str) -> bytes:
        """The answer of the service behind, whole."""
        with socket.create_connection(("127.0.0.1", self._upstream)) as server:
            lines = [head, *(f"{name}: {value}" for name, value in headers.items())]
            server.sendall(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body)
            answer = server.makefile("rb")
            status, found = _read_head(answer)
            raw = [status, *(f"{name}: {value}" for name, value in found.items())]
            content = b""
            if method != "HEAD" and status.split(" ")[1] not in ("204", "304"):
                content = _read_body(answer, found)
            return ("\r\n".join(raw) + "\r\n\r\n").encode("latin-1") + content


class _Ended(Exception):
    """The other side has closed."""


def _read_head(stream: object) -> tuple[str, dict[str, str]]:
    first = stream.readline().decode("latin-1").strip()  # type: ignore[attr-defined]
    if not first:
        raise _Ended
    headers: dict[str, str] = {}
    while line := stream.readline().decode("latin-1").strip():  # type: ignore[attr-defined]
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    return first, headers


def _read_body(stream: object, headers: dict[str, str]) -> bytes:
    """As it came, chunks and all."""
    if headers.get("transfer-encoding", "").lower() != "chunked":
        return stream.read(int(headers.get("content-length", "0")))  # type: ignore[attr-defined,no-any-return]
    parts = []
    while True:
        line = stream.readline()  # type: ignore[attr-defined]
        size = int(line.strip() or b"0", 16)
        parts += [line, stream.read(size + 2)]  # type: ignore[attr-defined]
        if not size:
            return b"".join(parts)


def _refusal(status: int) -> bytes:
    said, code = _ANSWERS[status]
    # As from a front-end: without a message, over which the library trips.
    message = "" if status == 429 else f"<Message>{said}</Message>"
    body = f'<?xml version="1.0"?><Error><Code>{code}</Code>{message}</Error>'
    return (
        f"HTTP/1.1 {said}\r\nx-ms-error-code: {code}\r\nContent-Type: application/xml\r\n"
        f"Content-Length: {len(body)}\r\n\r\n{body}"
    ).encode()


@contextmanager
def stand_in(upstream: int, faults: Faults) -> Iterator[StandIn]:
    """The stand-in, closed at the end."""
    server = StandIn(upstream, faults)
    try:
        yield server
    finally:
        server.close()
