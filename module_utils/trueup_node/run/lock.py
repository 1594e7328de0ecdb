"""One benchmark at a time on a node, and who it is.

The lock and its holder's description of itself are in a folder that its user alone can write:
/run/trueup for root, /run/user/UID/trueup for others (~/.cache/trueup where there is none).
In a folder that everybody writes, a link of that name would have root truncate another file,
and whoever likes could hold the node for ever.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import stat
import tempfile
import time
from typing import Any, Dict, Mapping, Optional, Tuple

from . import orphan_guard

# A folder to use in the place of these; checked as they are.
FOLDER = "TRUEUP_LOCKS"
_ROOTS = "/run/trueup"
_LOCK, _HOLDER = "benchmark.lock", "benchmark.json"
_POLL_SECONDS = 0.2
# Time for a holder to end its programs, before it is killed.
_END_SECONDS = 10.0
_MOST_BYTES = 65536


class Taken(TimeoutError):
    """The node is held by another benchmark.

    Attributes:
        holder: its description of itself; empty where it gave none.
    """

    def __init__(self, message: str, holder: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.holder = dict(holder)


def node_lock() -> str:
    """The file that holds a node for one benchmark, or for the steps of one row; its folder is
    made.

    Raises:
        OSError: the folder cannot be made, or is not its user's alone.
    """
    return os.path.join(_own(os.environ.get(FOLDER) or _folder()), _LOCK)


def _folder() -> str:
    user = os.geteuid()
    if user == 0:
        return _ROOTS
    session = f"/run/user/{user}"
    if os.path.isdir(session):
        return os.path.join(session, "trueup")
    # Homes are shared between nodes.
    home = os.path.expanduser("~")
    return os.path.join(home, ".cache", f"trueup-{os.uname().nodename}")


def _own(folder: str) -> str:
    os.makedirs(os.path.dirname(folder) or "/", exist_ok=True)
    with contextlib.suppress(FileExistsError):
        # Other users may read root's locks.
        os.mkdir(folder, 0o755 if os.geteuid() == 0 else 0o700)
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode):
        reason = "is no folder"
    elif status.st_uid != os.geteuid():
        reason = f"belongs to user {status.st_uid}"
    elif status.st_mode & 0o022:
        reason = "can be written by others"
    else:
        return folder
    raise OSError(f"the lock's folder {folder} {reason}: remove it")


class locked:  # noqa: N801 WHY: reads as a statement, `with locked(path):`
    """Hold the node for one benchmark at a time: two at once would measure each other.

    A user also waits for root's. Users do not wait for each other, nor root for them: any user
    could hold such a lock for ever.

    Args:
        path: the lock file; it stays, the kernel frees the lock when its holder ends, however it
            ends.
        timeout_seconds: how long to wait for another benchmark to end.
        who: the holder's description for others: ``run_id``, ``benchmark``, ``case`` and its
            ``controller`` (``orphan_guard.of``).
        end: a holder, as ``Taken`` has it, that is to be ended where it still holds the node.

    Raises:
        Taken: the node is still taken; the message says by whom.
        OSError: the file cannot be opened.
    """

    def __init__(
        self,
        path: str,
        timeout_seconds: float,
        who: Optional[Mapping[str, Any]] = None,
        end: Optional[Mapping[str, Any]] = None,
    ) -> None:
        self._path = path
        self._told = os.path.join(os.path.dirname(path), _HOLDER)
        self._timeout_seconds = timeout_seconds
        self._who = dict(who or {})
        self._end = end
        self._handle: Optional[int] = None

    def __enter__(self) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            handle = os.open(self._path, flags, 0o600)
            try:
                self._wait(handle)
                self._tell()
            except BaseException:
                os.close(handle)
                raise
        except Taken:
            raise
        except OSError as error:
            message = f"{error.strerror or error}: the node's lock {self._path} cannot be held"
            raise OSError(error.errno, message) from error
        self._handle = handle

    def __exit__(self, *_exception: object) -> None:
        if self._handle is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._told)
            os.close(self._handle)
            self._handle = None

    def _wait(self, handle: int) -> None:
        deadline = time.monotonic() + self._timeout_seconds
        while True:
            holder, path = self._holder(handle)
            if holder is None:
                return
            if self._end and holder.get("process") == self._end.get("process"):
                _ended(self._end["process"])
                self._end, deadline = None, time.monotonic() + self._timeout_seconds
            elif time.monotonic() > deadline:
                raise Taken(_sentence(holder, path), holder)
            time.sleep(_POLL_SECONDS)

    def _holder(self, handle: int) -> Tuple[Optional[Dict[str, Any]], str]:
        """The description of the node's holder; None where there was none, and this process holds
        it."""
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return read_holder(self._told), self._path
        roots = os.path.join(_ROOTS, _HOLDER)
        if os.geteuid() != 0 and roots != self._told:
            holder = read_holder(roots)
            if holder and orphan_guard.gone(holder["process"]) is False:
                fcntl.flock(handle, fcntl.LOCK_UN)
                return holder, roots
        return None, ""

    def _tell(self) -> None:
        holder = {
            **self._who,
            "process": orphan_guard.of(os.getpid()),
            "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        folder = os.path.dirname(self._told)
        number, beside = tempfile.mkstemp(prefix=".", dir=folder)
        try:
            with os.fdopen(number, "w", encoding="utf-8") as stream:
                json.dump(holder, stream)
            os.chmod(beside, 0o644)
            os.replace(beside, self._told)
        except BaseException:
            os.unlink(beside)
            raise


def read_holder(path: str) -> Dict[str, Any]:
    """A holder's description of itself; empty where that cannot be read."""
    try:
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        with os.fdopen(os.open(path, flags), "rb") as stream:
            holder = json.loads(stream.read(_MOST_BYTES))
        if all(name in holder["process"] for name in ("boot", "pids", "pid", "started")):
            return dict(holder)
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        pass
    return {}


def _sentence(holder: Mapping[str, Any], path: str) -> str:
    words = [str(holder[name]) for name in ("benchmark", "case") if holder.get(name)]
    benchmark = " ".join(words) or "another benchmark"
    run = f" of run {holder['run_id']}" if holder.get("run_id") else ""
    pid = holder["process"]["pid"] if holder else "unknown"
    since = f", since {holder['since']}" if holder.get("since") else ""
    controller = holder.get("controller") or {}
    by = (
        f", started by process {controller['pid']} on {controller['host']}"
        if controller.get("pid")
        else ""
    )
    return f"{benchmark}{run} holds this node (process {pid}{since}{by}, lock {path})"


def _ended(process: Mapping[str, Any]) -> None:
    """End a benchmark, which ends its programs; kill it where it does not."""
    deadline = time.monotonic() + _END_SECONDS
    number = signal.SIGTERM
    while orphan_guard.gone(process) is False:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process["pid"], number)
        if number == signal.SIGKILL:
            return
        while time.monotonic() < deadline and orphan_guard.gone(process) is False:
            time.sleep(_POLL_SECONDS)
        number = signal.SIGKILL
