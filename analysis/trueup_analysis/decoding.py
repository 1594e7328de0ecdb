"""A tool's output as it stands in a file or a pipe, to the text that parsers take.

One pass, so that a long log needs little memory. It decompresses (gzip, bzip2, xz, zstd), decodes
(UTF-8 with or without a byte order mark, UTF-16, UTF-32), and removes a terminal's colours, text
that a progress bar has overwritten, the long stretch of other programs' lines before the first line
that any tool's room marks as its own, and lines of a log that its parser skips or has seen before.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import re
import tarfile
import zlib
from array import array
from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, AnyStr, Final

from trueup_node.errors import BadInput
from trueup_node.reading import MOST_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from typing_extensions import Buffer

_CHUNK: Final = 1 << 20
# Chunks kept before the first mark: a tool's first lines need not be marked.
_CHUNKS_BEFORE: Final = 2
# Limit of the kept text: Megatron-LM's log of a million iterations is 345 MiB long.
_MOST_KEPT: Final = 2 * MOST_BYTES
# So many times that limit may be read: a log may be long, or never end.
_MOST_READ: Final = 8
# A log with fewer lines in a chunk is left as it is; so many different ones are remembered.
_FEW: Final = 1000
_MOST_SEEN: Final = 100_000

_UNPACK: Final = "unpack it and read the files in it"
_NO_TEXT: Final = {
    b"PK\x03\x04": f"is a zip archive: {_UNPACK}",
    b"7z\xbc\xaf": f"is a 7z archive: {_UNPACK}",
    b"LPKSHHRH": "is a journal of systemd: read what `journalctl --file` prints of it",
}
# POSIX.1-1988: the mark of a tar archive, and where it begins.
_TAR: Final = b"ustar"
_TAR_AT: Final = 257
# Control characters that no program prints, and the zeros that a power loss leaves in a log. Random
# bytes have one in nine; of the first bytes of a text fewer than one in fifty are such.
_CONTROLS: Final = bytes({*range(1, 8), *range(14, 27), *range(28, 32), 127})
_LOOKED_AT: Final = 1 << 16
_MOST_CONTROLS: Final = 0.02
_ORDER_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# ECMA-48: control sequences, operating system commands, and escapes of two characters.
_ESCAPES: Final = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[()][0-9A-B]|[@-Z\\^_=>78])"
)
# Tells an overwritten progress bar from a line that ends in a carriage return alone.
_BAR: Final = re.compile(rb"\d ?%|\d/\d+ |\beta\b|it/s", re.IGNORECASE)
# NeMo 1 prints the figures of each step in its bar.
_FIGURES: Final = b"train_step_timing in s="


class Gaps:
    """Where lines of an output are left out of its text. A log may have one at every other line:
    they take 16 bytes each, not the 120 of a tuple."""

    def __init__(self) -> None:
        self._lines = array("q")  # the first one below each gap
        self._lacking = array("q")  # in all gaps down to there

    @property
    def total(self) -> int:
        """How many lines are left out."""
        return self._lacking[-1] if self._lacking else 0

    def add(self, line: int, count: int) -> None:
        """So many are left out right above a line."""
        self._lines.append(line)
        self._lacking.append(self.total + count)

    def extend(self, below: Gaps, line: int) -> None:
        """Those of the lines from this one on, which have numbers of their own."""
        total = self.total
        self._lines.extend(line + at for at in below._lines)
        self._lacking.extend(total + lacking for lacking in below._lacking)

    def above(self, line: int) -> int:
        """How many lines are left out above a line of the text."""
        at = bisect_right(self._lines, line)
        return self._lacking[at - 1] if at else 0


@dataclass(frozen=True)
class _Part:
    """Some lines of an output, and where others are left out; the first one has number 0."""

    text: bytes
    gaps: Gaps = field(default_factory=Gaps)


def decoded(
    stream: IO[bytes], name: str, marks: Sequence[str], logs: Sequence[tuple[str, str, str]] = ()
) -> tuple[str, Gaps]:
    """The text of one output, and where lines of it were left out.

    Args:
        stream: its source, which is read once.
        name: its name in messages.
        marks: strings of which one stands near the first line of any tool's output.
        logs: of logs between the lines: a string in each line, the pattern of all text before
            it, with the host, and the pattern that begins the text behind it that a parser reads.

    Raises:
        BadInput: it cannot be decompressed, is not a text file, its kept text is longer than
            _MOST_KEPT, the whole many times as long, or a line longer than MOST_BYTES.
        OSError: it cannot be read.
    """
    plain = plain_chunks(stream, name)
    text, size, gaps = "", 0, Gaps()
    line, numbered = 1, 0  # of a character, which few parts ask for
    for chunk in _near_mark(_thinned(plain, logs), name, marks):
        size += len(chunk.text)
        if size > _MOST_KEPT:
            raise _too_long(name, _MOST_KEPT)
        if chunk.gaps.total:
            line += text.count("\n", numbered)
            numbered = len(text)
            gaps.extend(chunk.gaps, line)
        # Grows in place: parts and the whole at the end would be twice the memory. All but the last
        # end where a line does, which no character goes beyond.
        text += chunk.text.decode("utf-8", errors="replace")
    return text, gaps


def plain_chunks(stream: IO[bytes], name: str) -> Iterator[bytes]:
    """An output in UTF-8, whole lines at a time, nothing left out but a terminal's controls.

    Raises:
        BadInput: it cannot be decompressed, is not a text file, has a line longer than MOST_BYTES,
            or has no end.
        OSError: it cannot be read.
    """
    plain = _utf8(_no_archive(_limited(_unpacked(stream, name), name), name))
    return _plain(_whole_lines(_text_alone(plain, name), name))


def files(stream: IO[bytes], name: str) -> Iterator[tuple[str, IO[bytes]]]:
    """The only file of a stream, or each one in its tar archive, with its name; to be read before
    the next one is asked for.

    Raises:
        BadInput: it cannot be decompressed, or is an archive that is empty or damaged.
        OSError: it cannot be read.
    """
    unpacked = io.BufferedReader(_Chunks(_unpacked(stream, name)), _CHUNK)
    if not unpacked.peek().startswith(_TAR, _TAR_AT):
        yield name, unpacked
        return
    is_empty = True
    try:
        with tarfile.open(fileobj=unpacked, mode="r|") as archive:
            for member in archive:
                if (file := archive.extractfile(member)) is not None:
                    is_empty = False
                    yield f"{name}/{member.name}", file
    except tarfile.TarError as error:
        raise BadInput(f"{name} cannot be unpacked to its end: {error}") from error
    # The sum of a compressed file stands at its end.
    while unpacked.read(_CHUNK):
        pass
    if is_empty:
        raise BadInput(f"{name} is empty")


def _near_mark(parts: Iterator[_Part], name: str, marks: Sequence[str]) -> Iterator[_Part]:
    """The same from shortly before the first mark on."""
    encoded_marks = [mark.encode() for mark in marks]
    front: deque[_Part] = deque()
    dropped = 0
    for chunk in parts:
        front.append(chunk)
        if held(encoded_marks, chunk.text):
            break
        if len(front) > _CHUNKS_BEFORE:
            dropped_chunk = front.popleft()
            dropped += dropped_chunk.text.count(b"\n") + dropped_chunk.gaps.total
        if sum(len(each.text) for each in front) > _MOST_KEPT:
            raise _too_long(name, _MOST_KEPT)
    first = _Part(b"")
    first.gaps.add(0, dropped)
    yield first
    while front:
        yield front.popleft()
    yield from parts


def held(marks: Iterable[AnyStr], text: AnyStr) -> set[AnyStr]:
    """Those of the marks that stand in a text. A letter is looked for ten times as fast as a mark,
    and a mark with one that the text lacks is not looked for."""
    different = set(marks)
    letters = {letter for mark in different for letter in mark}
    letters = {letter for letter in letters if letter in text}
    return {mark for mark in different if letters.issuperset(mark) and mark in text}


def _thinned(chunks: Iterable[bytes], logs: Sequence[tuple[str, str, str]]) -> Iterator[_Part]:
    """Without lines of logs that no parser reads, or that were there before."""
    thinning = [_Thinning(*log) for log in logs]
    for chunk in chunks:
        thinned = _Part(chunk)
        for log in thinning:
            if chunk.count(log.mark) > _FEW:
                thinned = log.thinned(chunk)
        yield thinned


class _Thinning:
    """A log, of which lines are left out. The first line of each host stays: a cut row right before
    a host's name makes a host that is none."""

    def __init__(self, mark: str, head: str, read: str) -> None:
        self.mark = mark.encode()
        self._is_head = re.compile(head.encode()).fullmatch
        self._is_read = re.compile(read.encode()).match
        self._hosts: dict[bytes, bytes | None] = {}  # by the text before the mark
        self._seen: set[bytes] = set()  # hosts and lines

    def thinned(self, chunk: bytes) -> _Part:
        """A chunk of whole lines without those of the log that say nothing new."""
        mark, hosts, seen_lines, is_read = self.mark, self._hosts, self._seen, self._is_read
        kept_lines: list[bytes] = []
        gaps = Gaps()
        dropped = 0
        for line in chunk.splitlines(keepends=True):
            head, of_log, message = line.partition(mark)
            if of_log:
                host = hosts[head] if head in hosts else self._host(head)
                if host in seen_lines and (line in seen_lines or not is_read(message)):
                    dropped += 1
                    continue
                if host and len(seen_lines) < _MOST_SEEN:
                    seen_lines.update((host, line))
            if dropped:
                gaps.add(len(kept_lines), dropped)
                dropped = 0
            kept_lines.append(line)
        if dropped:
            gaps.add(len(kept_lines), dropped)
        return _Part(b"".join(kept_lines), gaps)

    def _host(self, head: bytes) -> bytes | None:
        match = self._is_head(head)
        if len(self._hosts) >= _MOST_SEEN:
            self._hosts.clear()
        self._hosts[head] = host = match[1] if match else None
        return host


def _unpacked(stream: IO[bytes], name: str) -> Iterator[bytes]:
    """The bytes, a MiB at a time."""
    first = stream.read(_CHUNK)
    for magic, kind in _NO_TEXT.items():
        if first.startswith(magic):
            raise BadInput(f"{name} {kind}")
    for magic, (method, opened) in _COMPRESSED.items():
        if first.startswith(magic):
            yield from _decompressed(opened, _Rejoined(first, stream), name, method)
            return
    while first:
        yield first
        first = stream.read(_CHUNK)


def _decompressed(
    opened: Callable[[Any], Any], source: _Rejoined, name: str, method: str
) -> Iterator[bytes]:
    try:
        with opened(source) as stream:
            while chunk := stream.read(_CHUNK):
                yield chunk
    except ImportError:
        raise BadInput(
            f"{name} is compressed with {method}, which needs pyarrow here: decompress it first"
        ) from None
    except (EOFError, OSError, lzma.LZMAError, zlib.error) as error:
        raise BadInput(f"{name} is cut off or damaged: {method} says {error}") from error


def _zstd(source: _Rejoined) -> Any:
    import pyarrow as pa  # noqa: PLC0415

    return pa.CompressedInputStream(source, "zstd")


_COMPRESSED: Final[dict[bytes, tuple[str, Callable[[Any], Any]]]] = {
    b"\x1f\x8b": ("gzip", lambda source: gzip.GzipFile(fileobj=source)),
    b"BZh": ("bzip2", bz2.BZ2File),
    b"\xfd7zXZ\x00": ("xz", lzma.LZMAFile),
    b"\x28\xb5\x2f\xfd": ("zstd", _zstd),
}


class _Rejoined(io.BufferedIOBase):
    """A stream of which the beginning was already read."""

    def __init__(self, first: bytes, rest: IO[bytes]) -> None:
        self._first, self._rest = first, rest

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        count = _CHUNK if size is None or size < 0 else size
        taken, self._first = self._first[:count], self._first[count:]
        return taken or self._rest.read(count)


class _Chunks(io.RawIOBase):
    """A stream of chunks."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._rest = chunks, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer, /) -> int:
        view = memoryview(buffer)
        self._rest = self._rest or next(self._chunks, b"")
        taken, self._rest = self._rest[: len(view)], self._rest[len(view) :]
        view[: len(taken)] = taken
        return len(taken)


def _no_archive(chunks: Iterable[bytes], name: str) -> Iterator[bytes]:
    """The same, unless it begins as a tar archive does."""
    for number, chunk in enumerate(chunks):
        if number == 0 and chunk.startswith(_TAR, _TAR_AT):
            raise BadInput(f"{name} is a tar archive: {_UNPACK}")
        yield chunk


def _text_alone(chunks: Iterable[bytes], name: str) -> Iterator[bytes]:
    """The same, unless it begins as no text does."""
    for number, chunk in enumerate(chunks):
        if number == 0:
            begin = chunk[:_LOOKED_AT].replace(b"\0", b"")
            controls = len(begin) - len(begin.translate(None, _CONTROLS))
            if controls > _MOST_CONTROLS * len(begin):
                raise BadInput(f"{name} is not a text file")
        yield chunk


def _utf8(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same text in UTF-8."""
    decoder: codecs.IncrementalDecoder | None = None
    for number, chunk in enumerate(chunks):
        if number == 0:
            encoding = _encoding(chunk)
            if encoding is None:
                yield chunk
                continue
            decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
        yield chunk if decoder is None else decoder.decode(chunk).encode("utf-8", "replace")
    if decoder is not None:
        yield decoder.decode(b"", final=True).encode("utf-8", "replace")


def _encoding(first: bytes) -> str | None:
    """UTF-16 or UTF-32 by its mark, or UTF-16 by its zeros; None for UTF-8."""
    for mark, encoding in _ORDER_MARKS:
        if first.startswith(mark):
            return None if encoding == "utf-8" else encoding
    begin = first[:256]
    zeros = len(begin) * 2 // 5
    odd, even = begin[1::2].count(0) > zeros, begin[::2].count(0) > zeros
    # Both: zeros that a power loss has left.
    return None if odd == even else "utf-16-le" if odd else "utf-16-be"


def _too_long(name: str, most: int) -> BadInput:
    return BadInput(f"{name} has more than {most >> 20} MiB: cut out the run to read")


def _limited(chunks: Iterable[bytes], name: str) -> Iterator[bytes]:
    """The same, not without end."""
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > _MOST_READ * _MOST_KEPT:
            raise _too_long(name, _MOST_READ * _MOST_KEPT)
        yield chunk


def _whole_lines(chunks: Iterable[bytes], name: str) -> Iterator[bytes]:
    """Chunks that end where a line does."""
    pending: list[bytes] = []
    size = 0
    for chunk in chunks:
        size = 0 if b"\n" in chunk else size + len(chunk)
        if size > MOST_BYTES:
            raise _too_long(f"a line of {name}", MOST_BYTES)
        end = chunk.rfind(b"\n") + 1
        if end:
            yield b"".join((*pending, memoryview(chunk)[:end]))
            pending = []
        if end < len(chunk):
            pending.append(chunk[end:])
    if pending:
        yield b"".join(pending)


def _plain(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Without control sequences of terminals, byte order marks, and zeros of a power loss."""
    for chunk in chunks:
        text = chunk.replace(codecs.BOM_UTF8, b"").replace(b"\0", b"")
        text = _ESCAPES.sub(b"", text) if b"\x1b" in text else text
        if b"\r" in text:
            text = text.replace(b"\r\n", b"\n")
        if b"\r" in text:
            text = b"\n".join(map(_settled, text.split(b"\n")))
        yield text


def _settled(line: bytes) -> bytes:
    """A line after its carriage returns: its last text, and earlier ones but progress bars."""
    if b"\r" not in line:
        return line
    *earlier, last = [piece for piece in line.split(b"\r") if piece.strip()] or [b""]
    pieces = [piece for piece in earlier if _FIGURES in piece or not _BAR.search(piece)]
    return b"\n".join([*pieces, last])
