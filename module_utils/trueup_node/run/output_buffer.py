"""A program's output, kept up to a limit while it is counted and hashed to its end.

One that prints without end must fill neither the memory nor the disk of the node, and must not wait
for a pipe that nobody reads. Up to ``reading.MOST_BYTES`` all of an output is kept; of a longer one
only its beginning and end are, without credentials, with a line between them that gives the size
and the SHA-256 of the whole. No parser is given such a text.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import select
import tempfile
import threading
from collections import deque
from typing import IO, Deque, List, NamedTuple, Optional

from ..printable import ends
from ..reading import MOST_BYTES, ORDER_MARK
from ..redaction import redact

# Of an output that is too long, so much of its beginning and of its end is searched for
# credentials. The text that printable.py leaves of it is far from where it was cut.
SHOWN = 1 << 20
_CHUNK = 1 << 18
# fcntl.h of Linux; Python names it since 3.10. A burst need not wait for its reader.
_F_SETPIPE_SZ = 1031
_PIPE_BYTES = 1 << 20
_POLL_SECONDS = 0.2


class BufferedOutput(NamedTuple):
    """One output.

    Attributes:
        text: the whole, undecodable bytes replaced; or its beginning and end.
        size: bytes of the whole.
        cut: whether the text is not the whole.
    """

    text: str = ""
    size: int = 0
    cut: bool = False


class Keeper:
    """Takes an output chunk by chunk."""

    def __init__(self) -> None:
        self.size = 0
        self._digest = hashlib.sha256()
        # No name: it is gone with this process. ``kept`` closes it.
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 WHY: see above
        self._end: Deque[bytes] = deque()
        self._end_size = 0

    def take(self, chunk: bytes) -> None:
        """The next part of it."""
        self._digest.update(chunk)
        before, self.size = self.size, self.size + len(chunk)
        if self.size <= MOST_BYTES:
            self._file.write(chunk)
            return
        if before <= MOST_BYTES:
            fits = MOST_BYTES - before
            self._file.write(chunk[:fits])
            chunk = chunk[fits:]
            self._begin_to_drop()
        self._drop_but_end(chunk)

    def _begin_to_drop(self) -> None:
        size = self._file.tell()
        self._file.seek(max(size - SHOWN, 0))
        self._drop_but_end(self._file.read())
        self._file.truncate(min(size, SHOWN))

    def _drop_but_end(self, chunk: bytes) -> None:
        self._end.append(chunk)
        self._end_size += len(chunk)
        while self._end_size - len(self._end[0]) >= SHOWN:
            self._end_size -= len(self._end.popleft())

    def drop(self) -> None:
        """Close the file, if ``kept`` has not."""
        self._file.close()

    def kept(self) -> BufferedOutput:
        """The output, once all was taken."""
        with self._file as opened:
            opened.seek(0)
            begin = opened.read()
        if self.size <= MOST_BYTES:
            return BufferedOutput(_decoded(begin), self.size)
        return _cut(begin, b"".join(self._end), self.size, self._digest.hexdigest())


def of_ends(begin: bytes, end: bytes, size: int, sha256: str, *, most: int) -> BufferedOutput:
    """An output of which another program kept the first ``most`` bytes, and of the rest the end.

    Args:
        begin: its first bytes, up to ``most``.
        end: the end of the bytes after them, or nothing.
        size: bytes of the whole.
        sha256: of the whole.
        most: bytes of the longest output that is whole.
    """
    if size <= most:
        return BufferedOutput(_decoded(begin), size)
    return _cut(begin[:SHOWN], begin + end, size, sha256)


def _cut(begin: bytes, last: bytes, size: int, sha256: str) -> BufferedOutput:
    """The beginning and the end of an output, and between them a note of the missing part."""
    # Whole lines, where there are any.
    begin = begin[: begin.rfind(b"\n") + 1] or begin
    last = last[-SHOWN:]
    last = last[last.find(b"\n") + 1 :] or last
    text = ends(redact(_decoded(begin)), redact(_decoded(last)), size, sha256)
    return BufferedOutput(text, size, cut=True)


def of_file(stream: IO[bytes]) -> BufferedOutput:
    """The content of a file, read once."""
    keeper = Keeper()
    for chunk in iter(lambda: stream.read(_CHUNK), b""):
        keeper.take(chunk)
    return keeper.kept()


class Pipe:
    """A pipe to give a program as an output, read by a thread of its own.

    A signal may end any of this at any moment: a file that is closed twice is closed once, and a
    thread that was being started ends by itself.

    Attributes:
        end: the end to write to, for the program; ``start`` closes it here.
    """

    def __init__(self) -> None:
        source, end = os.pipe()
        self._source, self.end = open(source, "rb", 0), open(end, "wb", 0)  # noqa: SIM115 WHY: kept
        with contextlib.suppress(OSError):
            fcntl.fcntl(source, _F_SETPIPE_SZ, _PIPE_BYTES)
        self._keeper = Keeper()
        self._thread: Optional[threading.Thread] = None
        self._started = False
        self._stopped = threading.Event()
        self._wrong: List[OSError] = []

    def start(self) -> None:
        """Read from now on; the program has its end."""
        self.end.close()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()
        self._started = True

    def _follow(self) -> None:
        """To the end of the output, or until it is stopped where somebody else still holds the
        pipe."""
        with self._source as source:
            while True:
                # Asked first: what was written before the end is in the pipe by then.
                is_stopped = self._stopped.is_set()
                ready, _, _ = select.select([source], [], [], 0 if is_stopped else _POLL_SECONDS)
                if ready:
                    chunk = source.read(_CHUNK)
                    if not chunk:
                        return
                    self._take(chunk)
                elif is_stopped:
                    return

    def _take(self, chunk: bytes) -> None:
        """A full disk must not stop the program either; it is told at the end."""
        if not self._wrong:
            try:
                self._keeper.take(chunk)
            except OSError as error:
                message = (
                    f"what it prints cannot be kept in {tempfile.gettempdir()}: {error.strerror}"
                )
                self._wrong.append(OSError(error.errno, message))

    def close(self) -> BufferedOutput:
        """The output, once the program and all that it started are gone.

        Raises:
            OSError: it could not be kept.
        """
        self._end()
        if self._wrong:
            raise self._wrong[0]
        return self._keeper.kept()

    def drop(self) -> None:
        """Close the files that ``close`` has not closed."""
        self._end()
        if self._started or self._thread is None:
            self._keeper.drop()

    def _end(self) -> None:
        self._stopped.set()
        self.end.close()
        if self._thread is None:
            self._source.close()
        elif self._started:
            self._thread.join()


def _decoded(output: bytes) -> str:
    return output.decode("utf-8", errors="replace").replace(ORDER_MARK, "")
