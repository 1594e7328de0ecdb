"""An output's text, however it was kept: one text for the parsers."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import random
import re
import sys
import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from helpers import parametrized
from trueup_analysis import decoding
from trueup_analysis.read import read
from trueup_analysis.rooms import logs, marks, tools
from trueup_node.errors import BadInput, TrueupError

DATA = Path(__file__).resolve().parents[2] / "data"
REAL = Path(__file__).resolve().parents[4] / "shared" / "real_outputs"
TEXT = (DATA / "nccl" / "nvlink.txt").read_text(encoding="utf-8")
OTHER_LINE = "2026-11-22T19:00:00 worker[7]: loaded shard 4711 of the dataset in 1.5 ms\n"


def decoded(data: bytes, tool: str | None = None) -> str:
    return decoding.decoded(io.BytesIO(data), "x", marks(tool))[0]


def coloured(text: str) -> str:
    """As a terminal would colour it: each line in red, with a title of the window at first."""
    lines = "".join(f"\x1b[1;31m{line}\x1b[0m\x1b[K\n" for line in text.splitlines())
    return f"\x1b]0;a window\x07\x1b(B{lines}"


def zstd(data: bytes) -> bytes:
    return bytes(pa.compress(data, codec="zstd", asbytes=True))


PLAIN = TEXT.encode()
KEPT = {
    "UTF-8": PLAIN,
    "UTF-8 with a mark": codecs.BOM_UTF8 + PLAIN,
    "UTF-16, little": codecs.BOM_UTF16_LE + TEXT.encode("utf-16-le"),
    "UTF-16, big": codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"),
    "UTF-16 without a mark, little": TEXT.encode("utf-16-le"),
    "UTF-16 without a mark, big": TEXT.encode("utf-16-be"),
    "UTF-32": TEXT.encode("utf-32"),
    "UTF-16 of Windows": TEXT.replace("\n", "\r\n").encode("utf-16"),
    "line ends of Windows": PLAIN.replace(b"\n", b"\r\n"),
    "zeros before it, of a power loss": bytes(5000) + PLAIN,
    "colours": coloured(TEXT).encode(),
    "a progress bar": PLAIN.replace(b"#", b"\r 10%|#   |\r100%|####|\r                \r#", 1),
    "gzip": gzip.compress(PLAIN),
    "gzip in two parts": gzip.compress(PLAIN[:999]) + gzip.compress(PLAIN[999:]),
    "bzip2": bz2.compress(PLAIN),
    "xz": lzma.compress(PLAIN),
    "gzip of UTF-16": gzip.compress(TEXT.encode("utf-16")),
    "zstd": zstd(PLAIN),
}


@pytest.mark.parametrize("kept", KEPT)
def test_a_text_is_the_same_however_it_was_kept(kept: str) -> None:
    assert decoded(KEPT[kept]) == TEXT


@parametrized(("text", "left"))
def test_what_a_progress_bar_has_overwritten_is_left_out(text: str, left: str) -> None:
    assert decoded(text.encode()) == left


@pytest.mark.parametrize("packed", ["gzip", "bzip2", "xz", "zstd"])
@pytest.mark.parametrize("part", [0.1, 0.5, 0.99])
def test_a_damaged_file_is_one_sentence(packed: str, part: float) -> None:
    data = KEPT[packed]
    with pytest.raises(BadInput) as cut:
        decoded(data[: int(len(data) * part)])
    assert str(cut.value).startswith(f"x is cut off or damaged: {packed} says ")


@pytest.mark.parametrize("packed", ["gzip", "bzip2", "xz"])  # pyarrow's zstd has no checksum
def test_a_changed_byte_is_one_sentence(packed: str) -> None:
    data = KEPT[packed]
    place = len(data) // 2
    changed = data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]
    with pytest.raises(BadInput, match=r"\Ax is cut off or damaged: .*\Z"):
        decoded(changed)


def tar(**options: Any) -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", **options) as opened:
        for name in ("a.log", "b.log"):
            member = tarfile.TarInfo(name)
            member.size = len(PLAIN)
            opened.addfile(member, io.BytesIO(PLAIN))
    return archive.getvalue()


NO_TEXTS = {
    "zip": (b"PK\x03\x04...", "is a zip archive: unpack it and read the files in it"),
    "tar": (tar(), "is a tar archive: unpack it and read the files in it"),
    "tar of GNU": (
        tar(format=tarfile.GNU_FORMAT),
        "is a tar archive: unpack it and read the files in it",
    ),
    "tar.gz": (gzip.compress(tar()), "is a tar archive: unpack it and read the files in it"),
    "a journal": (
        b"LPKSHHRH\0\0",
        "is a journal of systemd: read what `journalctl --file` prints of it",
    ),
    "a program": (Path(sys.executable).resolve().read_bytes(), "is not a text file"),
    "random bytes": (random.Random(1).randbytes(100_000), "is not a text file"),
    "random bytes, packed": (gzip.compress(random.Random(2).randbytes(9000)), "is not a text file"),
}


@pytest.mark.parametrize("kind", NO_TEXTS)
def test_what_is_no_text_is_named(kind: str) -> None:
    data, sentence = NO_TEXTS[kind]
    with pytest.raises(BadInput) as refused:
        decoded(data)
    assert str(refused.value) == f"x {sentence}"


@pytest.mark.parametrize("encoding", ["latin-1", "gbk", "shift-jis", "utf-8"])
def test_a_log_of_another_language_is_text(encoding: str) -> None:
    line = {"latin-1": "échec à l'étape 3\n", "gbk": "内存不足\n"}.get(encoding, "メモリ不足\n")
    text = decoded(PLAIN + line.encode(encoding) * 3000)
    assert text.startswith(TEXT)


def test_zstd_without_its_library_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(BadInput, match=r"^x is compressed with zstd, which needs pyarrow here"):
        decoded(KEPT["zstd"])


def test_more_than_can_be_kept_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "_MOST_KEPT", len(PLAIN) - 1)
    with pytest.raises(BadInput, match=r"^x has more than 0 MiB"):
        decoded(PLAIN)


def test_what_never_ends_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "MOST_BYTES", 1 << 20)
    with Path("/dev/zero").open("rb") as endless, pytest.raises(BadInput) as refused:
        decoding.decoded(endless, "x", ["mark"])
    assert str(refused.value) == "a line of x has more than 1 MiB: cut out the run to read"
    monkeypatch.setattr(decoding, "_MOST_KEPT", 4 << 20)
    # Longer than a line may be.
    several = b"mark\n" * (1 << 19)
    assert len(decoding.decoded(io.BytesIO(several), "x", ["mark"])[0]) == len(several)
    monkeypatch.setattr(decoding, "_MOST_READ", 2)
    lines = io.BytesIO(b"y\n" * (9 << 20))
    with pytest.raises(BadInput, match=r"^x has more than 8 MiB: cut out the run to read"):
        decoding.decoded(lines, "x", ["mark"])


def outputs() -> list[Path]:
    """Each recorded output that some parser recognises."""
    rooms = tools().values()
    return [
        path
        for folder in (*(DATA / name for name in tools()), *sorted(REAL.glob("*")))
        for path in sorted(folder.glob("*"))
        if path.is_file()
        and path.suffix != ".md"
        and any(room.recognises(path.read_text("utf-8", errors="replace")) for room in rooms)
    ]


@pytest.fixture
def front(monkeypatch: pytest.MonkeyPatch) -> str:
    """More of other programs' lines than are kept before an output."""
    monkeypatch.setattr(decoding, "_CHUNK", 4096)
    return OTHER_LINE * (4 * 4096 // len(OTHER_LINE))


@pytest.mark.parametrize("path", outputs(), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_other_programs_lines_before_an_output_change_nothing(path: Path, front: str) -> None:
    """A mark of its room stands where the first line is that the parser needs."""
    text = path.read_text(encoding="utf-8", errors="replace")
    tool = path.parent.name
    long = decoded((front + text).encode(), tool)
    assert len(long) < len(text) + len(front)
    assert said(long, tool) == said(OTHER_LINE + text, tool)


def said(text: str, tool: str) -> object:
    """What is read, or the error without the number of its line and the digest of all lines."""
    try:
        reading = read(text, source="x", tool=tool)
    except TrueupError as error:
        return re.sub(r"line \d+|[0-9a-f]{64}", "", str(error))
    return reading.rows, reading.checks, reading.parameters, reading.unverified


@pytest.fixture
def thin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs of any length are thinned, in short chunks."""
    monkeypatch.setattr(decoding, "_CHUNK", 4096)
    monkeypatch.setattr(decoding, "_FEW", 0)


def thinned(text: str) -> tuple[str, decoding.Gaps]:
    return decoding.decoded(io.BytesIO(text.encode()), "x", marks(), logs())


IDLE = "gpu-1:4000:4100 [0] NCCL INFO AllReduce: opCount {} sendbuff 0x7f datatype 7 op 0\n"


@pytest.mark.usefixtures("thin")
@pytest.mark.parametrize("path", outputs(), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_thinned_log_says_the_same(path: Path) -> None:
    text = path.read_text(encoding="utf-8", errors="replace")
    # NCCL's log stands between any two lines of the tool, and says everything twice.
    twice = [
        line + line if "NCCL INFO" in line else line for line in text.splitlines(keepends=True)
    ]
    long = "".join(
        line + IDLE.format(number) if line.startswith("gpu-1:") else line
        for number, line in enumerate(twice)
    )
    assert said(thinned(text)[0], path.parent.name) == said(text, path.parent.name)
    assert said(thinned(long)[0], path.parent.name) == said(text, path.parent.name)


@pytest.mark.usefixtures("thin")
def test_a_line_has_its_own_number_between_what_is_left_out() -> None:
    first, rest = TEXT.replace("1048576", "1048577", 1).split("gpu-1:", 1)
    idle = "".join(IDLE.format(number) for number in range(999))
    whole = f"{idle}{OTHER_LINE * 400}{first}{idle}gpu-1:{rest}"
    text, gaps = thinned(whole)
    assert text.count("AllReduce") == 1
    at = whole[: whole.index("1048577")].count("\n") + 1
    with pytest.raises(BadInput, match=rf"\(line {at}: "):
        read(text, source="x", gaps=gaps)


@pytest.mark.usefixtures("thin")
def test_a_cut_row_before_a_line_of_the_log_stays() -> None:
    kept = [
        "     1048576        262144  " + IDLE.format(1),
        "0.5" + IDLE.format(1),
        "float" + IDLE.format(1),
        IDLE.format(1),
    ]
    assert thinned("".join(kept))[0] == "".join(kept)
    assert thinned("".join(kept) + IDLE.format(2))[0] == "".join(kept)
