"""Copy files to a container of Azure Blob storage: several at once, each below a bandwidth cap.

One process a copy, on cores of its own, sends its files in blocks. A blob appears when all of its
blocks are there, or not at all. Blocks of an interrupted run are not sent again: a block's id is
its index and the MD5 of its bytes, and the service has compared that MD5 with the block. At the
end the MD5 of the file is compared with the blob's.

The last line on standard output is `trueup-blob_copy ` and a JSON object, which
benchmarks/blob_copy/output.py reads. The credential comes from the environment or from a file that
only its owner can read, never from an argument; azcopy takes a SAS only as an argument, so it is
used with the node's managed identity alone.

Exit status: 0; 1 a copy failed; 2 the arguments cannot be used; 3 a checksum differs.
"""

from __future__ import annotations

import argparse
import base64
import collections
import concurrent.futures
import contextlib
import ctypes
import hashlib
import ipaddress
import json
import math
import multiprocessing
import os
import platform
import queue
import random
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Optional

# Path, blob and bytes of a file; azcopy's messages; a copy's arguments; a name and its value.
File = tuple[str, str, int]
Message = tuple[str, str]
Job = dict[str, Any]
Credential = tuple[Optional[str], Optional[str]]

NAME = "trueup-blob-copy"
PREFIX = "trueup-blob_copy "
FORMAT = 1
CONNECTION_STRING = "AZURE_STORAGE_CONNECTION_STRING"
SAS_TOKEN = "AZURE_STORAGE_SAS_TOKEN"  # noqa: S105 WHY: the name of a variable
SDK, AZCOPY = "azure-storage-blob", "azcopy"

LIBC = ctypes.CDLL(None)
MIB = 1024**2
MOST_BLOCKS = 50_000  # of one blob, by the service
MOST_BLOCK_BYTES = 4000 * MIB
CAP_STEP = 100e6
PROGRESS_SECONDS = 5.0
LONGEST_WAIT_SECONDS = 30.0
# The service asks for less (429 by its resource provider, 503), or is for a moment not there.
THROTTLED = (429, 503)
PASSING = (408, 500, 502, 504)
VERIFY, PROGRAMS = ("properties", "download"), ("auto", AZCOPY, SDK)
# Settings that a file may hold, each of its default's type; of two, one of some words.
SETTINGS: dict[str, str | int | float] = {
    "account_url": "",
    "container": "",
    "copies": 0,
    "limit_mbps": 20000.0,
    "cap_mbps": 0.0,
    "cores_kept": -1,
    "block_mib": 8,
    "connections": 4,
    "verify": "properties",
    "retries": 8,
    "program": "auto",
}
WORDS: dict[str, tuple[str, ...]] = {"verify": VERIFY, "program": PROGRAMS}


class Refused(Exception):
    """The request cannot be fulfilled; the message is one sentence."""


class Failed(Exception):
    """A copy did not come to its end; the message is one sentence."""


# ---- the request --------------------------------------------------------------------------------


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=NAME,
        description=(__doc__ or "").splitlines()[0],
        epilog=f"The credential: {CONNECTION_STRING} or {SAS_TOKEN} in the environment, or a file "
        "of such lines with mode 0600 (--credentials); without one azcopy, managed identity.",
    )
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--account-url", help="https://ACCOUNT.blob.core.windows.net")
    parser.add_argument("--container", help="an existing container")
    parser.add_argument("--name", default="", help="folder of the blobs, such as run7/step1000")
    parser.add_argument("--credentials", help="file of NAME=value lines, mode 0600")
    parser.add_argument("--settings", help="JSON file of defaults for the options below")
    parser.add_argument("--copies", type=int, help="files at once (default: all of them)")
    parser.add_argument("--limit-mbps", type=float, help="the account's ingress limit (20000)")
    parser.add_argument("--cap-mbps", type=float, help="of each copy (0: the most below the limit)")
    parser.add_argument("--cores-kept", type=int, help="for others (-1: a sixth of the cores)")
    parser.add_argument("--block-mib", type=int, help="size of a block (8)")
    parser.add_argument("--connections", type=int, help="blocks in flight of each copy (4)")
    parser.add_argument("--retries", type=int, help="of one request (8)")
    parser.add_argument("--verify", choices=VERIFY)
    parser.add_argument("--program", choices=PROGRAMS)
    parser.add_argument(
        "--azcopy-option", action="append", default=[], help="one more option of azcopy itself"
    )
    parser.add_argument("--backoff-seconds", type=float, default=1.0, help="before the first retry")
    parser.add_argument(
        "--benchmark",
        action="store_true",
        help="remove the blobs at the end; a checksum that differs stands in the result line only",
    )
    arguments = parser.parse_args(argv)
    chosen = {**SETTINGS, **read_settings(arguments.settings)}
    for name in SETTINGS:
        if getattr(arguments, name) is None:
            setattr(arguments, name, chosen[name])
    return arguments


def read_settings(path: str | None) -> dict[str, Any]:
    if not path:
        return {}
    try:
        with open(path, encoding="utf-8") as stream:
            settings: dict[str, Any] = json.load(stream)
    except (OSError, ValueError) as error:
        raise Refused(f"{path} cannot be read: {error}") from error
    unknown = sorted(set(settings) - set(SETTINGS)) if isinstance(settings, dict) else ["its form"]
    if unknown:
        raise Refused(f"{path} holds {', '.join(unknown)}; known are {', '.join(SETTINGS)}")
    for name, value in settings.items():
        if not is_setting(name, value):
            raise Refused(f"{path}: {name} cannot be {json.dumps(value)}")
    return settings


def is_setting(name: str, value: object) -> bool:
    if name in WORDS:
        return value in WORDS[name]
    kind = type(SETTINGS[name])
    kinds = (int, float) if kind is float else kind
    return isinstance(value, kinds) and not isinstance(value, bool)


def read_credentials(path: str | None, environment: Mapping[str, str]) -> Credential:
    """The credential as (name, value); (None, None) where there is none."""
    credentials = {name: environment.get(name, "") for name in (CONNECTION_STRING, SAS_TOKEN)}
    if path and not any(credentials.values()):
        credentials.update(read_credentials_file(path))
    credentials = {name: value for name, value in credentials.items() if value}
    if len(credentials) > 1:
        raise Refused(f"{CONNECTION_STRING} and {SAS_TOKEN} are both set: keep one of them")
    return next(iter(credentials.items()), (None, None))


def read_credentials_file(path: str) -> dict[str, str]:
    try:
        with open(path, encoding="utf-8") as stream:
            mode = stat.S_IMODE(os.fstat(stream.fileno()).st_mode)
            lines = stream.read().splitlines()
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}") from error
    if mode & 0o077:
        raise Refused(f"{path} can be read by others (mode {mode:04o}): chmod 600 it")
    credentials = {}
    for number, line in enumerate(lines, 1):
        name, _, value = line.partition("=")
        if line.strip() and not line.startswith("#"):
            if name not in (CONNECTION_STRING, SAS_TOKEN):
                raise Refused(
                    f"{path} line {number} is neither {CONNECTION_STRING}=... nor {SAS_TOKEN}=..."
                )
            credentials[name] = value.strip()
    return credentials


def most_cap(copies: int, limit: float) -> float:
    """The most that each copy may take, in steps of 100 Mb/s, with all of them below the limit.

    The same rule as benchmarks/blob_copy/case.py, which no node program can import; a test compares
    the two.
    """
    return (math.ceil(limit / copies / CAP_STEP) - 1) * CAP_STEP


def choose_cap(copies: int, limit: float, cap: float) -> float:
    """The cap of each copy, bit/s; 0 means the most."""
    if not (math.isfinite(limit) and limit > 0):
        raise Refused(f"--limit-mbps {limit / 1e6:g} is not a positive rate")
    if not (math.isfinite(cap) and cap >= 0):
        raise Refused(f"--cap-mbps {cap / 1e6:g} is not a rate")
    most = most_cap(copies, limit)
    if not cap and most <= 0:
        raise Refused(
            f"{copies} copies share {limit / 1e6:g} Mb/s, less than 100 Mb/s each: take fewer "
            "with --copies, or set --cap-mbps"
        )
    cap = cap or most
    if copies * cap >= limit:
        raise Refused(
            f"{copies} copies of {cap / 1e6:g} Mb/s are {copies * cap / 1e9:g} Gb/s, and the "
            f"account takes {limit / 1e9:g} Gb/s: it would throttle them; "
            + (f"cap each at {most / 1e6:g} Mb/s" if most > 0 else "take fewer copies")
        )
    return cap


def core_shares(cpus: Iterable[int], copies: int, cores_kept: int) -> list[list[int]]:
    """The cores of each copy, spread evenly over the machine; empty lists where there are too few.

    floor((cores - kept) / copies) each: 10 of 96 for 8 copies with the sixth of them kept.
    """
    cores = sorted(cpus)
    if cores_kept < 0:
        cores_kept = len(cores) // 6
    each = (len(cores) - cores_kept) // copies
    if each < 1:
        return [[] for _ in range(copies)]
    # Evenly spread, a share lies within one NUMA node where the copies are a multiple of the nodes.
    starts = [number * len(cores) // copies for number in range(copies)]
    return [cores[start : start + each] for start in starts]


def format_cpus(cpus: Iterable[int]) -> str:
    """CPUs as in 0-3,8."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def block_size(file_bytes: int, requested: int) -> int:
    """Bytes of a block: as wanted, or more where the file would have too many of them."""
    least = -(-file_bytes // MOST_BLOCKS)
    size = max(requested, -(-least // MIB) * MIB)
    if size > MOST_BLOCK_BYTES:
        raise Refused(f"a file of {file_bytes} bytes is larger than a blob can be")
    return size


def plan(arguments: argparse.Namespace) -> list[list[File]]:
    """Which files each copy sends: (path, blob, bytes), largest first onto the least loaded."""
    by_blob: dict[str, File] = {}
    for path in arguments.files:
        try:
            status = os.stat(path)
        except OSError as error:
            raise Refused(f"{path} cannot be read: {error.strerror}") from error
        if not stat.S_ISREG(status.st_mode):
            raise Refused(f"{path} is not a file")
        if not status.st_size:
            raise Refused(f"{path} is empty: a checkpoint that was cut off?")
        blob = "/".join(filter(None, [arguments.name.strip("/"), os.path.basename(path)]))
        if blob in by_blob:
            raise Refused(f"{by_blob[blob][0]} and {path} would both be the blob {blob}")
        by_blob[blob] = (os.path.abspath(path), blob, status.st_size)
    for name, least in (("copies", 0), ("connections", 1), ("block_mib", 1), ("retries", 0)):
        if getattr(arguments, name) < least:
            raise Refused(f"--{name.replace('_', '-')} {getattr(arguments, name)} is not a count")
    count = min(arguments.copies or len(by_blob), len(by_blob))
    copies: list[list[File]] = [[] for _ in range(count)]
    for file in sorted(by_blob.values(), key=lambda file: -file[2]):
        min(copies, key=lambda copy: sum(size for _, _, size in copy)).append(file)
    return copies


def check_address(account_url: str, container: str, credential: str | None) -> None:
    if "?" in account_url or "?" in container:
        raise Refused(f"an address with a SAS would stand in argv: give the SAS in {SAS_TOKEN}")
    if not container:
        raise Refused("no container: set --container")
    if credential == CONNECTION_STRING:
        if account_url:
            raise Refused(f"{CONNECTION_STRING} names the account already: leave --account-url out")
        return
    if not account_url:
        raise Refused("no account: set --account-url https://ACCOUNT.blob.core.windows.net")
    parts = urllib.parse.urlsplit(account_url)
    if parts.scheme == "http" and is_loopback(parts.hostname):
        return
    if parts.scheme != "https" or not parts.hostname:
        raise Refused(f"--account-url {account_url} is not an https address")


def is_loopback(host: str | None) -> bool:
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return host == "localhost"


def choose_program(program: str, credential: str | None) -> str:
    if program == AZCOPY and credential:
        raise Refused(
            f"azcopy takes a SAS or key only as an argument, which every user of the node can "
            f"read: leave {credential} out (managed identity), or take --program {SDK}"
        )
    if program == SDK and not credential:
        raise Refused(f"no credential: set {CONNECTION_STRING} or {SAS_TOKEN} in the environment")
    if program != SDK and not credential:
        if not shutil.which(AZCOPY):
            raise Refused(
                f"no credential: set {CONNECTION_STRING} or {SAS_TOKEN} in the environment, or "
                "install azcopy for the node's managed identity"
            )
        return AZCOPY
    return SDK


# ---- pace, counts, retries ----------------------------------------------------------------------


class Pace:
    """Hands out the right to send bytes at a rate: a block is paid before it is sent, so from the
    beginning on the average is never above the rate, and a pause is not made up for."""

    def __init__(
        self,
        bytes_per_second: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate = bytes_per_second
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._paid_until = clock()

    def take(self, count: int) -> None:
        with self._lock:
            self._paid_until = max(self._paid_until, self._clock()) + count / self._rate
            wait = self._paid_until - self._clock()
        if wait > 0:
            self._sleep(wait)


class Counts(collections.Counter[str]):
    """Counts of one copy, from several threads."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()

    def add(self, name: str, count: int = 1) -> None:
        with self.lock:
            self[name] += count


class Retrier:
    """Repeats a request that may be repeated, a bounded number of times."""

    def __init__(
        self,
        counts: Counts,
        retries: int,
        backoff_seconds: float,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._counts = counts
        self._retries = retries
        self._backoff = backoff_seconds
        self._sleep = sleep

    def __call__(self, request: Callable[[], Any], problem: str) -> Any:
        for attempt in range(self._retries + 1):
            try:
                return request()
            except Exception as error:
                kind, reason, requested_wait = classify(error)
                if kind is None:
                    raise Failed(f"{problem}: {reason}") from error
                self._counts.add(kind)
                if attempt == self._retries:
                    raise Failed(
                        f"{problem}: {reason}, also after {self._retries} retries"
                    ) from error
                self._counts.add("retries")
            wait = min(LONGEST_WAIT_SECONDS, self._backoff * 2**attempt)
            # Copies that were refused together must not come back together.
            wait *= random.uniform(0.5, 1.0)  # noqa: S311 WHY: nothing depends on its secrecy
            self._sleep(max(wait, min(requested_wait, LONGEST_WAIT_SECONDS)))
        raise AssertionError("not reached")


def classify(error: BaseException) -> tuple[str | None, str, float]:
    """Why a request failed: (kind, why, seconds asked for); kind None where a repeat is of no use.

    The words are ours: those of the library hold addresses, and addresses a SAS.
    """
    from azure.core import exceptions

    # The library trips over an answer without a message and raises TypeError while handling it.
    behind: BaseException | None = error
    while behind is not None and not isinstance(behind, exceptions.AzureError):
        behind = behind.__context__
    error = behind or error
    if isinstance(error, exceptions.HttpResponseError):
        return classify_answer(error)
    if isinstance(error, (exceptions.ServiceRequestError, exceptions.ServiceResponseError)):
        return "lost", "the connection was lost or not made", 0.0
    if isinstance(error, exceptions.AzureError):
        return "lost", f"the answer was cut off ({type(error).__name__})", 0.0
    if isinstance(error, (OSError, ValueError)):
        return None, f"{type(error).__name__}: {getattr(error, 'strerror', '') or 'bad input'}", 0.0
    return None, type(error).__name__, 0.0


OF_CODES = {
    "ContainerNotFound": ": there is no such container",
    "InvalidBlobOrBlock": ": another program's blocks wait under this name; give another",
}


def classify_answer(error: Any) -> tuple[str | None, str, float]:
    status = error.status_code or 0
    if error.response is None:
        return None, "the key or SAS cannot be used: is it whole?", 0.0
    headers = error.response.headers
    code = headers.get("x-ms-error-code") or ""
    message = f"the service answered {status}{' ' + code if code else ''}"
    try:
        requested_wait = max(0.0, float(headers.get("Retry-After") or 0))
    except ValueError:
        requested_wait = 0.0
    if status in THROTTLED:
        return "throttled", f"{message}: it asks for less", requested_wait
    if status in PASSING:
        return "server_errors", message, requested_wait
    if code == "Md5Mismatch":
        return "corrupted", f"{message}: a block was altered on the way", 0.0
    if status in (401, 403):
        return None, f"{message}: wrong key, or a SAS without this right or past its end", 0.0
    return None, message + OF_CODES.get(code, ""), 0.0


# ---- one copy -----------------------------------------------------------------------------------


class Progress:
    """A line on standard error now and then."""

    def __init__(self, number: int, total: int) -> None:
        self._number = number
        self._total = total
        self._done = 0
        self._begun = self._last = time.monotonic()
        self._lock = threading.Lock()

    def __call__(self, count: int) -> None:
        with self._lock:
            self._done += count
            now = time.monotonic()
            if now - self._last < PROGRESS_SECONDS:
                return
            self._last = now
            done, total = self._done // MIB, self._total // MIB
            rate = self._done * 8 / (now - self._begun) / 1e6
        say(f"copy {self._number}: {done} of {total} MiB, {rate:.0f} Mb/s")


def say(text: object) -> None:
    # One write: lines of several processes stay whole.
    sys.stderr.write(f"{NAME}: {text}\n")
    sys.stderr.flush()


def block_id(index: int, md5: bytes) -> str:
    """Index and checksum: equal ids are equal bytes at the same place. Of one length, as the
    service wants it."""
    return f"{index:06d}-{md5.hex()}"


class SdkCopy:
    """Sends one copy's files with azure-storage-blob."""

    def __init__(self, job: Job) -> None:
        from azure.storage.blob import BlobBlock, ContainerClient, ContentSettings

        self.job = job
        self.counts = Counts()
        self.pace = Pace(job["cap"] / 8)
        self.retry = Retrier(self.counts, job["retries"], job["backoff_seconds"])
        self._block, self._settings = BlobBlock, ContentSettings
        # Our own retries, which count; the library's would repeat 503 only, unseen.
        options = {"retry_total": 0, "connection_timeout": 20, "read_timeout": 120}
        name, value = job["credential"]
        try:
            if name == CONNECTION_STRING:
                self.container = ContainerClient.from_connection_string(
                    value, job["container"], **options
                )
            else:
                self.container = ContainerClient(
                    job["account_url"], job["container"], credential=value, **options
                )
        except Exception as error:  # noqa: BLE001 WHY: its words may hold the credential
            raise Failed(f"{name} cannot be used ({type(error).__name__})") from None

    def send(self, path: str, blob: str, size: int, progress: Progress) -> dict[str, Any]:
        """Send one file; the result, not yet verified."""
        client = self.container.get_blob_client(blob)
        length = block_size(size, self.job["block_bytes"])
        waiting = self._waiting(client, blob)
        file_md5 = hashlib.md5(usedforsecurity=False)
        ids: list[str] = []
        resumed, uploaded = 0, 0
        with open(path, "rb") as stream:
            before = os.fstat(stream.fileno())
            with Sender(self, client, blob, progress) as sender:
                while True:
                    data = stream.read(length)
                    if not data:
                        break
                    file_md5.update(data)
                    identity = block_id(len(ids), hashlib.md5(data, usedforsecurity=False).digest())
                    ids.append(identity)
                    if waiting.get(identity) == len(data):
                        resumed += len(data)
                        progress(len(data))
                    else:
                        uploaded += len(data)
                        sender.put(identity, data)
            after = os.fstat(stream.fileno())
        if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns) or (
            resumed + uploaded != before.st_size
        ):
            raise Failed(f"{path} changed while it was read: nothing was committed; copy it again")
        settings = self._settings(
            content_type="application/octet-stream", content_md5=bytearray(file_md5.digest())
        )
        blocks = [self._block(identity) for identity in ids]
        self.retry(
            lambda: client.commit_block_list(blocks, content_settings=settings),
            f"{blob} could not be committed",
        )
        return {
            "blob": blob,
            "bytes": before.st_size,
            "blocks": len(ids),
            "uploaded_bytes": uploaded,
            "resumed_bytes": resumed,
            "md5": file_md5.hexdigest(),
        }

    def _waiting(self, client: Any, blob: str) -> dict[str, int]:
        """Blocks of an earlier run that were not committed: id to size."""
        from azure.core.exceptions import ResourceNotFoundError

        def ask() -> Any:
            try:
                return client.get_block_list("uncommitted")[1]
            except ResourceNotFoundError as error:
                if error.response.headers.get("x-ms-error-code") == "ContainerNotFound":
                    raise
                return []

        return {block.id: block.size for block in self.retry(ask, f"{blob} could not be begun")}

    def stage(self, client: Any, blob: str, progress: Progress, identity: str, data: bytes) -> None:
        """Send one block; each try is paid for."""

        def request() -> None:
            self.pace.take(len(data))
            self.counts.add("sent_bytes", len(data))
            # The service compares the block's MD5 with the bytes that arrived.
            client.stage_block(identity, data, length=len(data), validate_content=True)

        self.retry(request, f"block {int(identity[:6])} of {blob} could not be sent")
        progress(len(data))

    def verify(self, file: dict[str, Any]) -> None:
        """Put into ``file`` the size and MD5 that the service holds."""
        client = self.container.get_blob_client(file["blob"])
        problem = f"{file['blob']} could not be verified"
        properties = self.retry(client.get_blob_properties, problem)
        md5 = properties.content_settings.content_md5
        file["stored_bytes"] = properties.size
        file["stored_md5"] = bytes(md5).hex() if md5 else None
        if self.job["verify"] == "download":
            file["stored_md5"] = self.retry(lambda: self._read_back(client), problem)

    def _read_back(self, client: Any) -> str:
        digest = hashlib.md5(usedforsecurity=False)
        for chunk in client.download_blob(max_concurrency=1).chunks():
            digest.update(chunk)
        return digest.hexdigest()

    def remove(self, blob: str) -> None:
        client = self.container.get_blob_client(blob)
        self.retry(client.delete_blob, f"{blob} could not be removed")


class Sender:
    """Some threads that send blocks; it holds no more blocks than it has threads."""

    def __init__(self, copy: SdkCopy, client: Any, blob: str, progress: Progress) -> None:
        self._copy, self._where = copy, (client, blob, progress)
        count = copy.job["connections"]
        self._pool = concurrent.futures.ThreadPoolExecutor(count)
        self._free = threading.Semaphore(count)
        self._running: set[concurrent.futures.Future[None]] = set()

    def __enter__(self) -> Sender:  # noqa: PYI034 WHY: typing has Self since Python 3.11
        return self

    def put(self, identity: str, data: bytes) -> None:
        self._free.acquire()
        self._raise_failure(wait=False)
        future = self._pool.submit(self._copy.stage, *self._where, identity, data)
        future.add_done_callback(lambda _: self._free.release())
        self._running.add(future)

    def _raise_failure(self, *, wait: bool) -> None:
        done = {future for future in self._running if wait or future.done()}
        self._running -= done
        for future in done:
            future.result()

    def __exit__(self, kind: object, *_rest: object) -> None:
        try:
            if kind is None:
                self._raise_failure(wait=True)
        finally:
            self._pool.shutdown(wait=True, cancel_futures=True)


class AzcopyCopy:
    """Sends one copy's files with azcopy and the node's managed identity. azcopy keeps its own
    retries and does not say how many; an interrupted file is sent anew."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.counts = Counts()
        self._paths: dict[str, str] = {}

    def _address(self, blob: str) -> str:
        base = self.job["account_url"].rstrip("/")
        return f"{base}/{self.job['container']}/{urllib.parse.quote(blob)}"

    def _run(self, words: list[str], problem: str) -> list[Message]:
        parent = os.getpid()
        with tempfile.TemporaryDirectory(prefix="trueup-azcopy-") as folder:
            done = subprocess.run(  # noqa: S603 WHY: no shell; paths and names of blobs
                [AZCOPY, *words, "--output-type=json", *self.job["azcopy_options"]],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                env={
                    "AZCOPY_AUTO_LOGIN_TYPE": "MSI",
                    **os.environ,
                    "AZCOPY_LOG_LOCATION": folder,
                    "AZCOPY_JOB_PLAN_LOCATION": folder,
                    "AZCOPY_DISABLE_SYSLOG": "true",
                    "AZCOPY_CONCURRENCY_VALUE": str(self.job["connections"]),
                },
                check=False,
                preexec_fn=lambda: end_with(parent),
            )
        messages = azcopy_messages(done.stdout)
        if done.returncode != 0:
            raise Failed(
                f"{problem}: azcopy ended with status {done.returncode}{why_not(messages)}"
            )
        return messages

    def send(self, path: str, blob: str, size: int, progress: Progress) -> dict[str, Any]:
        length = block_size(size, self.job["block_bytes"])
        before = os.stat(path)
        problem = f"{blob} could not be sent"
        words = ["copy", path, self._address(blob), "--from-to=LocalBlob", "--put-md5"]
        words += [f"--cap-mbps={self.job['cap'] / 1e6!r}", f"--block-size-mb={length // MIB}"]
        messages = self._run([*words, "--overwrite=true", "--log-level=NONE"], problem)
        summary = azcopy_summary(messages, problem)
        after = os.stat(path)
        if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
            raise Failed(f"{path} changed while it was read: copy it again")
        self._paths[blob] = path
        self.counts.add("sent_bytes", int(summary["BytesOverWire"]))
        progress(size)
        return {
            "blob": blob,
            "bytes": before.st_size,
            "blocks": -(-size // length),
            "uploaded_bytes": int(summary["TotalBytesTransferred"]),
            "resumed_bytes": 0,
        }

    def verify(self, file: dict[str, Any]) -> None:
        """Put into ``file`` its MD5, whose time is none of the copy's, and the size and MD5 that
        the service holds."""
        file["md5"] = md5_of(self._paths[file["blob"]])
        problem = f"{file['blob']} could not be verified"
        if self.job["verify"] == "download":
            with tempfile.TemporaryDirectory(prefix="trueup-azcopy-") as folder:
                path = os.path.join(folder, "blob")
                words = ["copy", self._address(file["blob"]), path, "--from-to=BlobLocal"]
                self._run([*words, "--log-level=NONE", "--check-md5=FailIfDifferent"], problem)
                file["stored_bytes"], file["stored_md5"] = os.path.getsize(path), md5_of(path)
            return
        words = ["list", self._address(file["blob"]), "--properties=ContentMD5"]
        words.append("--location=Blob")
        size_and_md5 = azcopy_listed(self._run([*words, "--machine-readable"], problem), problem)
        file["stored_bytes"], file["stored_md5"] = size_and_md5

    def remove(self, blob: str) -> None:
        words = ["remove", self._address(blob), "--from-to=BlobTrash", "--log-level=NONE"]
        self._run(words, f"{blob} could not be removed")


def azcopy_messages(text: str) -> list[Message]:
    """azcopy's JSON lines: (type, content)."""
    messages = []
    for line in text.splitlines():
        with contextlib.suppress(ValueError, KeyError, TypeError):
            entry = json.loads(line)
            messages.append((entry["MessageType"], entry["MessageContent"]))
    return messages


def why_not(messages: list[Message]) -> str:
    """azcopy's own words for its failure, without tokens that may hold an address."""
    for kind, content in messages:
        if kind == "Error":
            words = " ".join(
                token for token in content.split() if "://" not in token and "=" not in token
            )
            return f" ({words[:200]})"
        if kind == "EndOfJob":
            with contextlib.suppress(ValueError, KeyError, TypeError, IndexError):
                failed = json.loads(content)["FailedTransfers"][0]["ErrorCode"]
                return f" (the service answered {failed})"
    return ""


def azcopy_summary(messages: list[Message], problem: str) -> dict[str, Any]:
    ended = [content for kind, content in messages if kind == "EndOfJob"]
    try:
        [content] = ended
        summary: dict[str, Any] = json.loads(content)
        complete = summary["JobStatus"] == "Completed" and int(summary["TransfersCompleted"]) == 1
        complete = complete and int(summary["BytesOverWire"]) >= 0
        int(summary["TotalBytesTransferred"])
    except (ValueError, KeyError, TypeError) as error:
        raise Failed(f"{problem}: azcopy's output is not understood") from error
    if not complete:
        raise Failed(f"{problem}: azcopy says {str(summary['JobStatus'])[:60]}")
    return summary


def azcopy_listed(messages: list[Message], problem: str) -> tuple[int, str | None]:
    """Size and MD5 of the one blob that azcopy listed."""
    try:
        [content] = [content for kind, content in messages if kind == "ListObject"]
        listing = json.loads(content)
        md5 = base64.b64decode(listing["ContentMD5"], validate=True).hex()
        return int(listing["ContentLength"]), md5 or None
    except (ValueError, KeyError, TypeError) as error:
        raise Failed(f"{problem}: azcopy's output is not understood") from error


def md5_of(path: str) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    with open(path, "rb") as stream:
        for chunk in iter(lambda: stream.read(4 * MIB), b""):
            digest.update(chunk)
    return digest.hexdigest()


COUNTED = ("sent_bytes", "retries", "throttled", "lost", "corrupted", "server_errors")


def make_copy(job: Job, started: Any) -> SdkCopy | AzcopyCopy:
    """The program that sends one copy's files, on its cores."""
    if job["cpus"]:
        os.sched_setaffinity(0, job["cpus"])
    try:
        return (AzcopyCopy if job["program"] == AZCOPY else SdkCopy)(job)
    except Exception:
        started.abort()  # the others wait for this one
        raise


def copy_files(job: Job, started: Any) -> dict[str, Any]:
    """One copy's result, as it stands in the result line."""
    copy = make_copy(job, started)
    started.wait()
    begun = time.monotonic()
    progress = Progress(job["number"], sum(size for _, _, size in job["files"]))
    files = [copy.send(path, blob, size, progress) for path, blob, size in job["files"]]
    ended = time.monotonic()
    for file in files:
        copy.verify(file)
        stored = (file["stored_md5"], file["stored_bytes"])
        file["verified"] = stored == (file["md5"], file["bytes"])
    verified = time.monotonic()
    if job["remove"]:
        for file in files:
            copy.remove(file["blob"])
    return {
        "copy": job["number"],
        "cpus": format_cpus(os.sched_getaffinity(0)),
        "bound": bool(job["cpus"]),
        "begun": begun,
        "ended": ended,
        "seconds": ended - begun,
        "verify_seconds": verified - ended,
        "bytes": sum(file["bytes"] for file in files),
        "uploaded_bytes": sum(file["uploaded_bytes"] for file in files),
        "resumed_bytes": sum(file["resumed_bytes"] for file in files),
        **{name: copy.counts[name] for name in COUNTED},
        "files": files,
    }


def end_with(parent: int) -> None:
    """Let this process be killed when its parent ends."""
    LIBC.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(1)


def work(job: Job, results: Any, started: Any, parent: int) -> None:
    """A copy's process: ends with its parent."""
    end_with(parent)
    try:
        results.put((job["number"], copy_files(job, started), None))
    except (Failed, Refused) as error:
        results.put((job["number"], None, str(error)))
    except threading.BrokenBarrierError:
        results.put((job["number"], None, "another copy could not begin"))
    except Exception as error:  # noqa: BLE001 WHY: its words may hold the credential
        results.put((job["number"], None, f"unexpected {type(error).__name__}"))


# ---- all copies ---------------------------------------------------------------------------------


def run(arguments: argparse.Namespace, environment: Mapping[str, str]) -> dict[str, Any]:
    """Copy everything; the result line's object."""
    credential = read_credentials(arguments.credentials, environment)
    check_address(arguments.account_url, arguments.container, credential[0])
    copies = plan(arguments)
    limit = arguments.limit_mbps * 1e6
    cap = choose_cap(len(copies), limit, arguments.cap_mbps * 1e6)
    shares = core_shares(os.sched_getaffinity(0), len(copies), arguments.cores_kept)
    program = choose_program(arguments.program, credential[0])
    version = program_version(program)
    jobs = [
        {
            "number": number,
            "files": files,
            "cpus": shares[number],
            "cap": cap,
            "program": program,
            "credential": credential,
            "account_url": arguments.account_url,
            "container": arguments.container,
            "block_bytes": arguments.block_mib * MIB,
            "connections": arguments.connections,
            "retries": arguments.retries,
            "backoff_seconds": arguments.backoff_seconds,
            "verify": arguments.verify,
            "remove": arguments.benchmark,
            "azcopy_options": arguments.azcopy_option,
        }
        for number, files in enumerate(copies)
    ]
    rows = run_copies(jobs)
    result = {
        "format": FORMAT,
        "program": program,
        "version": version,
        "python": platform.python_version(),
        "checksum": "md5",
        "verify": arguments.verify,
        "limit_bits_per_second": limit,
        "cap_bits_per_second": cap,
        "cores_per_copy": len(shares[0]),
        "block_bytes": arguments.block_mib * MIB,
        "connections": arguments.connections,
        "seconds": max(row["ended"] for row in rows) - min(row["begun"] for row in rows),
        "copies": rows,
    }
    for name in ("bytes", "uploaded_bytes", "resumed_bytes", *COUNTED):
        result[name] = sum(row[name] for row in rows)
    for row in rows:
        del row["begun"], row["ended"]
    return result


def program_version(program: str) -> str:
    if program == SDK:
        from azure.storage.blob import __version__

        return str(__version__)
    done = subprocess.run(  # noqa: S603 WHY: constant
        [AZCOPY, "--version"], capture_output=True, text=True, check=False
    )
    words = done.stdout.split()
    if done.returncode != 0 or not words:
        raise Refused(f"azcopy does not start (status {done.returncode}): install it again")
    return words[-1]


def ended_badly(workers: Iterable[Any]) -> list[tuple[int, int]]:
    """Numbers of the processes that ended otherwise than well, and how."""
    statuses = [worker.exitcode for worker in workers]
    return [(number, status) for number, status in enumerate(statuses) if status]


def start_copies(jobs: list[Job]) -> tuple[list[Any], Any, Any]:
    """The processes, the queue of their results, and the barrier that they begin at."""
    context = multiprocessing.get_context("fork")  # modules imported now are imported once
    results, started = context.Queue(), context.Barrier(len(jobs))
    workers = [
        context.Process(target=work, args=(job, results, started, os.getpid())) for job in jobs
    ]
    for worker in workers:
        worker.start()
    return workers, results, started


def run_copies(jobs: list[Job]) -> list[dict[str, Any]]:
    """One process a copy; their results, in their order. One that fails does not stop the others:
    the blocks that they send are kept for the next run."""
    workers, results, started = start_copies(jobs)
    rows: dict[int, dict[str, Any]] = {}
    failures: dict[int, str] = {}
    while len(rows) + len(failures) < len(jobs):
        try:
            number, row, failure = results.get(timeout=1.0)
        except queue.Empty:
            for number, status in ended_badly(workers):
                if number not in {*rows, *failures}:
                    failures[number] = f"its process ended ({status})"
                    started.abort()
            continue
        if failure:
            failures[number] = failure
        else:
            rows[number] = row
    for worker in workers:
        worker.join()
    if failures:
        raise Failed(
            "; ".join(f"copy {number}: {reason}" for number, reason in sorted(failures.items()))
        )
    return [rows[job["number"]] for job in jobs]


def sealed(result: Mapping[str, Any]) -> dict[str, Any]:
    """The result with a checksum over the rest, by which a damaged line is told."""
    text = json.dumps(result, sort_keys=True, separators=(",", ":"))
    return {**result, "digest": hashlib.sha256(text.encode()).hexdigest()}


def main() -> int:
    try:
        arguments = parse_arguments()
        result = run(arguments, os.environ)
    except Refused as error:
        say(error)
        return 2
    except Failed as error:
        say(error)
        return 1
    print(PREFIX + json.dumps(sealed(result)), flush=True)
    wrong = [
        file["blob"] for row in result["copies"] for file in row["files"] if not file["verified"]
    ]
    if wrong:
        say(f"the checksum of {', '.join(wrong)} differs from the file's: copy it again")
    return 3 if wrong and not arguments.benchmark else 0


if __name__ == "__main__":
    sys.exit(main())
