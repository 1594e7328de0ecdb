"""Parser of the output of programs that measure copies from, to and between GPUs.

Five forms are read, alone or as the sections of trueup's own program, which runs the tool once for
each GPU and once for all (roles/gpu_copy/files/gpu_copy.py):

- nvbandwidth's text (0.4 to 0.10): ``Running <test>.``, a heading, a matrix with a row of column
  numbers, and ``SUM <test> <sum>``, which the matrix must add up to;
- nvbandwidth's ``--json`` (since 0.5): the same matrices with 6 significant digits, and their sum;
- bandwidthTest of the CUDA samples, in words (``Transfer Size (Bytes) Bandwidth(GB/s)``) or with
  ``--csv``, in its modes quick (one size), range and shmoo (many);
- p2pBandwidthLatencyTest of the CUDA samples (peers.py), whose figures with peer access in one
  direction are reported;
- the JSON line of trueup's own PyTorch program.

Units, read in the sources: nvbandwidth (v0.8, memcpy.cpp) and bandwidthTest (bandwidthTest.cu) both
print GB/s of 1e9 byte/s. bandwidthTest before CUDA 10.1, and the one in extras/demo_suite of later
releases, print MB/s: of 2^20 byte/s in the samples of CUDA 5 (copyright 2013), and of 1,024,000
byte/s since CUDA 6.5 (2014), which take a second for 1024 ms. Only the samples since CUDA 7 (2015)
close with a NOTE. Times of ``--csv`` are bytes over the printed rate times 2^20 in all of these,
and in GB/s of CUDA 10.1 and 10.2. For a copy within a GPU's memory nvbandwidth counts the copied
bytes, and bandwidthTest the bytes read and written, twice as much; ``d2d_bandwidth`` is of the
copied bytes.

nvbandwidth's heading of a peer matrix does not say which way the data go: in its read test the
GPU of the row reads from the GPU of the column, in its write test it writes to it (testcases_ce.cpp
of v0.4 and v0.8). A device ``gpu0>gpu1`` here is always from, then to.
"""

from __future__ import annotations

import json
import math
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from re import Match, Pattern
from typing import Any, Callable, ClassVar, NoReturn, Optional

from ...errors import ParseError
from ...reading import (
    STANDARD_ERROR,
    Line,
    decoded,
    digest,
    is_number,
    lines_of,
    unique,
    whole_number,
)
from ...record import Metric, summarise
from .peers import TITLE, peer_bandwidths
from .signatures import MATRIX_OF_NVBANDWIDTH, MATRIX_OF_PEERS, OUR_MARK, OUR_TOOL

TOOL = "gpu_copy"
# Host to device, device to host, within a device's memory, and from one device to another.
KINDS = ("h2d", "d2h", "d2d", "p2p")

_FORMAT = 1
_GB = 1e9
# 100 TB/s: no memory or link of a GPU has a tenth of it.
_MOST = 1e14

Figures = dict[str, dict[str, tuple[float, ...]]]
_Kinds = Sequence[tuple[Pattern[str], Callable[[Match[str]], None]]]


@dataclass(frozen=True)
class GpuCopyOutput:
    """Bandwidths in byte/s.

    Attributes:
        program: nvbandwidth, bandwidthTest, p2pBandwidthLatencyTest or pytorch.
        figures: kind (KINDS) to device (``gpu0``; for peers ``gpu0>gpu1``) to its rates: one for
            each repeat where the program prints them, else the one that it prints.
        sizes: kind to device and bytes of a copy to its rate, where one program measured several.
        statistic: the statistic that a single rate is of its samples.
        samples: how many stand behind a single rate; None where the output does not say.
        peer_access: ``all`` where every GPU reaches every other, ``partial`` or ``none``; None
            where peers were not measured.
        cpus: section (``gpu0``) to the CPUs that it ran on; trueup's own program alone says.
        correct: no program found that copied data differ from the data sent.
        peer_test: which peer test the figures are of, ``read`` or ``write``.
        unverified: why figures may be of another unit.
    """

    program: str
    figures: Mapping[str, Mapping[str, tuple[float, ...]]]
    statistic: str
    sizes: Mapping[str, Mapping[tuple[str, int], float]] = field(default_factory=dict)
    tool_version: Optional[str] = None
    samples: Optional[int] = None
    peer_access: Optional[str] = None
    peer_test: Optional[str] = None
    memory: str = "pinned"
    cpus: Mapping[str, str] = field(default_factory=dict)
    correct: bool = True
    warnings: list[str] = field(default_factory=list)
    unverified: list[str] = field(default_factory=list)
    software: Mapping[str, str] = field(default_factory=dict)
    # Copies between nodes are not read.
    node_count: ClassVar[int] = 1

    @property
    def gpu_count(self) -> Optional[int]:
        """GPUs of which the output has a figure; None where it has none."""
        devices = [device for of_kind in self.figures.values() for device in of_kind]
        devices += [device for of_kind in self.sizes.values() for device, _ in of_kind]
        return len({gpu for device in devices for gpu in device.split(">")}) or None

    @property
    def parameters(self) -> dict[str, str]:
        """The program, its host memory, and how many GPUs reach each other."""
        parameters = {"program": self.program, "memory": self.memory}
        if self.peer_access is not None:
            parameters["peer_access"] = self.peer_access
        if self.peer_test is not None:
            parameters["peer_test"] = self.peer_test
        return parameters

    @property
    def checks(self) -> dict[str, bool]:
        """Whether the data arrived as sent, as far as the program looked."""
        return {"data_correct": self.correct}

    def metrics(self) -> list[Metric]:
        """For each kind a row a device and the least of them, which has no device.

        Peers have no least figure where some GPUs do not reach each other. Copies of several sizes
        give a row a size.
        """
        rows = [
            Metric(
                f"{kind}_bandwidth",
                value,
                "byte/s",
                "higher",
                message_bytes=size,
                statistic=self.statistic,
                device=device,
            )
            for kind, of_kind in self.sizes.items()
            for (device, size), value in of_kind.items()
        ]
        for kind in KINDS:
            name, typical = f"{kind}_bandwidth", []
            for device, rates in self.figures.get(kind, {}).items():
                of_device = summarise(name, rates, "byte/s", "higher", device=device)
                if len(rates) == 1:
                    of_device = [of_device[0]._replace(statistic=self.statistic, n=self.samples)]
                typical.append(of_device[0].value)
                rows += of_device
            if typical and not (kind == "p2p" and self.peer_access != "all"):
                least = min(typical)
                rows.append(
                    Metric(name, least, "byte/s", "higher", statistic="min", n=len(typical))
                )
        return rows


@dataclass
class _Part:
    """Results of one run of one program, GPUs numbered as that run saw them."""

    program: str
    version: Optional[str] = None
    statistic: str = "median"
    memory: str = "pinned"
    peer_access: Optional[str] = None
    peer_test: Optional[str] = None
    correct: bool = True
    # Kind to (GPU,) or, for peers, (from, to).
    figures: dict[str, dict[tuple[int, ...], tuple[float, ...]]] = field(default_factory=dict)
    # Kind to (device, bytes of a copy), of a run over several sizes.
    sizes: dict[str, dict[tuple[str, int], float]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    unverified: list[str] = field(default_factory=list)
    software: dict[str, str] = field(default_factory=dict)

    def add(self, kind: str, gpus: tuple[int, ...], rates: Sequence[float]) -> None:
        self.figures.setdefault(kind, {})[gpus] = tuple(rates)


class _Lines:
    """Lines that are taken one after the other."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self.lines = list(lines)
        self.at = 0

    def more(self) -> bool:
        return self.at < len(self.lines)

    def peek(self) -> str:
        return self.lines[self.at].strip() if self.more() else ""

    def take(self) -> str:
        line = self.peek()
        self.at += 1
        return line

    def fail(self, message: str, back: int = 1) -> NoReturn:
        """Refuse the line that was taken last (or ``back`` lines before the next)."""
        index = self.at - back
        if 0 <= index < len(self.lines):
            raise self.lines[index].error(message)
        raise ParseError(f"{message}: the output ends before")

    def handle(self, kinds: _Kinds) -> None:
        """Take a line; the first of the kinds that fits it is told."""
        line = self.take()
        for pattern, kind in kinds:
            match = pattern.fullmatch(line)
            if match:
                kind(match)
                return


def parse_gpu_copy(text: str) -> GpuCopyOutput:
    """Read the output of one run.

    Raises:
        ParseError: a section, a matrix, a sum or a figure is missing, damaged, doubled or does not
            fit the others; or there is nothing that is reported.
    """
    lines = lines_of(text, "\n")
    if OUR_MARK in text:
        return _of_sections(_Lines(lines))
    section = _part(lines, _form_of(text))
    return _joined([(section, None)], cpus={}, samples=None)


# --- sections of trueup's own program ------------------------------------------------------------

_BEGIN = re.compile(
    r"\[trueup-gpu-copy 1\] begin (gpu[0-9]{1,3}|peers) gpus=([0-9]+(?:,[0-9]+)*) "
    r"tool=(nvbandwidth|bandwidthTest|pytorch) cpus=([0-9,-]+) samples=([0-9]{1,6})"
)
_END = re.compile(
    r"\[trueup-gpu-copy 1\] end (gpu[0-9]{1,3}|peers) status=([0-9]+) lines=([0-9]+) "
    r"crc32=([0-9a-f]{8})"
)
_DONE = re.compile(r"\[trueup-gpu-copy 1\] done sections=([0-9]+) crc32=([0-9a-f]{8})")


def _crc(lines: Sequence[str]) -> str:
    return format(zlib.crc32("\n".join(lines).encode("utf-8", "replace")) & 0xFFFFFFFF, "08x")


def _of_sections(reader: _Lines) -> GpuCopyOutput:
    parts: list[tuple[_Part, Optional[list[int]]]] = []
    cpus: dict[str, str] = {}
    samples: Optional[int] = None
    ends: list[str] = []
    while reader.more():
        line = reader.take()
        done = _DONE.fullmatch(line)
        if done:
            if int(done.group(1)) != len(parts) or done.group(2) != _crc(ends):
                reader.fail("the sections are not those that were written")
            _refuse_more(reader.lines[reader.at :], "there is more after the line 'done'")
            if not parts:
                raise reader.lines[0].error("no section: nothing was measured")
            return _joined(parts, cpus=cpus, samples=samples)
        begin = _BEGIN.fullmatch(line)
        if begin is None:
            reader.fail("expected the beginning of a section, or the line 'done'")
        name, gpus = begin.group(1), [int(gpu) for gpu in begin.group(2).split(",")]
        if name in cpus or name not in ("peers", f"gpu{gpus[0]}"):
            reader.fail(f"section {name} stands twice or is of another GPU")
        section, end = _section(reader, begin)
        if parts and section.program != parts[0][0].program:
            reader.fail(f"section {name} is the output of {section.program}")
        cpus[name], samples = begin.group(4), int(begin.group(5))
        parts.append((section, gpus))
        ends.append(end)
    raise ParseError("no line 'done' of trueup's program: the output is cut off")


def _refuse_more(lines: Sequence[Line], message: str) -> None:
    rest = [line for line in lines if line.strip()]
    if rest and not rest[0].startswith(STANDARD_ERROR):
        raise rest[0].error(message)


def _section(reader: _Lines, begin: Match[str]) -> tuple[_Part, str]:
    """The content of a section, and its closing line."""
    name, start = begin.group(1), reader.at
    while reader.more() and not reader.peek().startswith(OUR_MARK):
        reader.take()
    body = reader.lines[start : reader.at]
    line = reader.take()
    end = _END.fullmatch(line)
    if end is None or end.group(1) != name:
        reader.fail(f"expected the end of section {name}")
    if int(end.group(3)) != len(body) or end.group(4) != _crc([begin.group(0), *body]):
        reader.fail(f"section {name} is not what was written: it is damaged")
    section = _part(body, begin.group(3))
    if section.sizes:
        reader.fail(f"section {name} is of several sizes: expected bandwidthTest's quick mode")
    if int(end.group(2)) and section.correct:
        reader.fail(f"the program of section {name} ended with status {end.group(2)}")
    return section, line


def _joined(
    parts: Sequence[tuple[_Part, Optional[list[int]]]],
    *,
    cpus: dict[str, str],
    samples: Optional[int],
) -> GpuCopyOutput:
    figures: Figures = {}
    warnings: list[str] = []
    software: dict[str, str] = {}
    for section, gpus in parts:
        _number(section, gpus, figures)
        warnings += [warning for warning in section.warnings if warning not in warnings]
        software.update(section.software)
    correct = all(section.correct for section, _ in parts)
    first = parts[0][0]
    if correct:
        _check_figures(figures, first, warnings)
    peers = next((section for section, _ in parts if section.peer_access is not None), first)
    return GpuCopyOutput(
        program=first.program,
        figures={kind: figures[kind] for kind in KINDS if kind in figures},
        statistic=first.statistic,
        sizes=first.sizes,
        tool_version=first.version,
        samples=samples,
        peer_access=peers.peer_access,
        peer_test=peers.peer_test,
        memory=first.memory,
        cpus=cpus,
        correct=correct,
        warnings=warnings,
        unverified=[sentence for section, _ in parts for sentence in section.unverified],
        software=software,
    )


def _check_figures(figures: Figures, first: _Part, warnings: Sequence[str]) -> None:
    if not figures and not first.sizes:
        raise ParseError("no test that is reported: " + ("; ".join(warnings) or "none ran"))
    measured = {tuple(sorted(figures[kind])) for kind in ("h2d", "d2h") if kind in figures}
    if len(measured) > 1:
        raise ParseError("host to device and device to host were measured on different GPUs")


def _number(section: _Part, gpus: Optional[list[int]], figures: Figures) -> None:
    """Add a part's figures under the node's own numbers of its GPUs."""
    for kind, of_kind in section.figures.items():
        for numbers, rates in of_kind.items():
            if gpus is not None and max(numbers) >= len(gpus):
                raise ParseError(f"a figure of GPU {max(numbers)} in a section of {len(gpus)}")
            device = ">".join(f"gpu{n if gpus is None else gpus[n]}" for n in numbers)
            if device in figures.setdefault(kind, {}):
                raise ParseError(f"{kind} of {device} stands twice")
            figures[kind][device] = rates


def _form_of(text: str) -> str:
    if f'"tool": "{OUR_TOOL}"' in text:
        return "pytorch"
    if "[CUDA Bandwidth Test]" in text or "bandwidthTest-" in text:
        return "bandwidthTest"
    if TITLE in text or MATRIX_OF_PEERS.search(text):
        return "p2pBandwidthLatencyTest"
    if "nvbandwidth" in text or MATRIX_OF_NVBANDWIDTH.search(text):
        return "nvbandwidth"
    raise ParseError("neither nvbandwidth's, bandwidthTest's nor trueup's own output")


def _part(lines: Sequence[Line], form: str) -> _Part:
    if form == "p2pBandwidthLatencyTest":
        return _peer_test(lines)
    if form == "nvbandwidth":
        return _nvbandwidth(lines)
    return _BandwidthTest(lines).read() if form == "bandwidthTest" else _pytorch(lines)


def _rate(text: str, label: str, lines: _Lines, unit: str = "GB/s") -> float:
    """A printed figure as byte/s."""
    if not re.fullmatch(r"[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?", text):
        lines.fail(f"{label} {text!r} is not a bandwidth")
    value = float(text) * _UNITS[unit]
    if not 0 < value < _MOST:
        lines.fail(f"{label} {text} {unit} is not a bandwidth that a GPU can have")
    return value


# --- nvbandwidth ---------------------------------------------------------------------------------

_VERSION = re.compile(r"nvbandwidth Version: v?([0-9][0-9.]*)")
_RUNNING = re.compile(r"Running ([a-z0-9_]+)\.")
_AFTER_SUM = re.compile(r"(?:MIN|MAX|AVG|COEFFICIENT_OF_VARIATION) [a-z0-9_]+ [-+.0-9e]+")
_HEADING = re.compile(r".*\((?:GB/s|ns|us)\)")
_WRONG_DATA = "Invalid value when checking the pattern"
# The last line since 0.6; before, nothing tells a whole output from one that ends after a test.
_CLOSING = "Performance can vary"
_ROW = re.compile(r"([0-9]+)((?:\s+(?:[0-9]+\.[0-9]{2}|N/A))+)")
# Test to its kind and heading. Other tests of nvbandwidth are checked and not reported.
_TESTS = {
    "host_to_device_memcpy_ce": ("h2d", "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)"),
    "device_to_host_memcpy_ce": ("d2h", "memcpy CE CPU(row) <- GPU(column) bandwidth (GB/s)"),
    "device_local_copy": ("d2d", "memcpy local GPU(column) bandwidth (GB/s)"),
    "device_to_device_memcpy_read_ce": (
        "p2p",
        "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)",
    ),
    "device_to_device_memcpy_write_ce": (
        "p2p",
        "memcpy CE GPU(row) <- GPU(column) bandwidth (GB/s)",
    ),
}
# Other tests that the JSON may name, with no heading that confirms the name (v0.5 to v0.8).
# The headings above and the other tests that have them too.
_SAME_HEADING = {
    _TESTS["host_to_device_memcpy_ce"][1]: re.compile(r"host_to_all_memcpy_ce"),
    _TESTS["device_to_host_memcpy_ce"][1]: re.compile(r"all_to_host_memcpy_ce"),
    _TESTS["device_local_copy"][1]: re.compile(r"(?!)"),
    _TESTS["device_to_device_memcpy_read_ce"][1]: re.compile(
        r"(?:all_to_one_read|one_to_all_write|multinode_device_to_device_memcpy_read)_ce"
    ),
    _TESTS["device_to_device_memcpy_write_ce"][1]: re.compile(
        r"(?:all_to_one_write|one_to_all_read|multinode_device_to_device_memcpy_write)_ce"
    ),
}
# The first line of nvbandwidth, or of a text without it.
_FIRST = re.compile(rf"{_VERSION.pattern}|{_RUNNING.pattern}|Waiv.*|{_HEADING.pattern}|SUM .*")
_NO_VERSION = (
    "no line 'nvbandwidth Version: ...': tests may be missing above the first, and version"
)
_NO_VERSION += " and driver are not known"
_READ, _WRITE = "device_to_device_memcpy_read_ce", "device_to_device_memcpy_write_ce"
_Matrix = list[list[Optional[float]]]
_UNEVEN = "test {}: the rows of the matrix are not of one length"


def _nvbandwidth(lines: Sequence[Line]) -> _Part:
    """Its text or its JSON, above which the GPU prints that it found wrong data."""
    first = next((line for line in lines if line.strip()), "")
    if first.startswith("{"):
        return _nvbandwidth_json(lines)
    if _WRONG_DATA in first:
        part = _Part("nvbandwidth")
        part.correct = False
        return part
    return _Text(lines).read()


class _Text:
    """nvbandwidth's text, read line by line."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self.lines = _Lines(lines)
        self.part = _Part("nvbandwidth")
        self.found: dict[str, _Matrix] = {}
        self.started = self.begun = self.closed = self.ended = False
        # The first that fits a line gives its kind.
        self._kinds: _Kinds = (
            (_VERSION, self._version),
            (re.compile(r"(?:NOTE: .*)?"), self._nothing),
            (_RUNNING, self._test),
            (re.compile(r"Waived:.*|Waiving (?P<name>[a-z0-9_]+)\."), self._waived),
            (re.compile(r"ERROR: Testcase (?P<name>\w+) not found!"), self._no_test),
            (re.compile(rf".*{_WRONG_DATA}.*"), self._wrong_data),
            (re.compile(r"(?i:error).*|\[CUDA_ERROR.*|NVML_ERROR.*"), self._error),
            (re.compile(rf"{_HEADING.pattern}|SUM .*|{_ROW.pattern}"), self._loose),
            (re.compile(rf"{_CLOSING}.*"), self._close),
            (re.compile(r"\[standard error\].*"), self._end),
            (re.compile(r".*"), self._other),
        )

    def read(self) -> _Part:
        """The whole output."""
        while self.lines.more() and self.part.correct and not self.ended:
            line = self.lines.peek()
            if not self.started and not _FIRST.fullmatch(line):
                self.lines.take()  # the command, or messages of the shell and the launcher
                continue
            self.started = True
            self.lines.handle(self._kinds)
        section = self.part
        if not self.started:
            raise ParseError("no line 'nvbandwidth Version: v...'")
        if section.version is None:
            section.unverified.append(_NO_VERSION)
        elif section.correct and not self.closed:
            if not re.match(r"0\.[0-5](?:\.|$)", section.version):
                raise ParseError(f"no closing line '{_CLOSING} ...': the output is cut off")
            section.warnings.append(
                f"nvbandwidth {section.version} prints no closing line: tests may lack at its end"
            )
        _take_matrices(section, self.found)
        return section

    def _version(self, match: Match[str]) -> None:
        if self.part.version is not None or self.begun:
            self.lines.fail("a second nvbandwidth begins: read one output at a time")
        self.part.version = match.group(1)

    def _nothing(self, _match: Match[str]) -> None:
        pass

    def _test(self, match: Match[str]) -> None:
        self.begun, self.closed = True, False
        name = match.group(1)
        if name in self.found:
            self.lines.fail(f"test {name} stands twice")
        matrix = _text_test(self.lines, name)
        if matrix is None:
            self.part.correct = False
        else:
            self.found[name] = matrix

    def _waived(self, match: Match[str]) -> None:
        self.begun = True
        name = match.group("name") or "a test, which it does not name"
        self.part.warnings.append(f"nvbandwidth waived {name}: this machine cannot run it")

    def _no_test(self, match: Match[str]) -> None:
        self.begun = True
        name = match.group("name")
        self.part.warnings.append(f"nvbandwidth {self.part.version} has no test {name}")

    def _wrong_data(self, _match: Match[str]) -> None:
        self.part.correct = False

    def _error(self, _match: Match[str]) -> None:
        self.lines.fail("nvbandwidth reports an error")

    def _loose(self, _match: Match[str]) -> None:
        self.lines.fail("a matrix of no test: a line 'Running' is missing")

    def _close(self, _match: Match[str]) -> None:
        self.closed = self.begun

    def _end(self, _match: Match[str]) -> None:
        self.ended = True

    def _other(self, _match: Match[str]) -> None:
        """Before the first test these are versions, the host and its devices."""
        if self.begun:
            self.lines.fail("not a line that nvbandwidth prints between tests")


def _text_test(lines: _Lines, name: str) -> Optional[_Matrix]:
    """The matrix of one test, checked against its sum; of a bidirectional one, its last.

    None where nvbandwidth found wrong data.
    """
    kind, expected_heading = _TESTS.get(name, ("", ""))
    matrix: _Matrix = []
    first = True
    while first or _HEADING.fullmatch(lines.peek()):
        heading = lines.take()
        if _WRONG_DATA in heading:
            return None
        if not _HEADING.fullmatch(heading) or (expected_heading and heading != expected_heading):
            lines.fail(f"test {name}: expected the heading {expected_heading or 'of a matrix'!r}")
        matrix = _text_matrix(lines, name)
        _check_sum(lines, name, matrix)
        first = False
    _check_shape(matrix, name, lines)
    for value in _values(matrix) if kind else ():
        _rate(f"{value:.2f}", name, lines)
    return matrix


def _values(matrix: _Matrix) -> list[float]:
    return [value for row in matrix for value in row if value is not None]


def _check_sum(lines: _Lines, name: str, matrix: _Matrix) -> None:
    total = re.fullmatch(r"SUM ([a-z0-9_]+) ([0-9]+\.[0-9]{2})", lines.take())
    # The three matrices of a bidirectional test have keys of their own.
    suffix = "" if name in _TESTS else r"(?:_[a-z0-9]+)?"
    if total is None or not re.fullmatch(re.escape(name) + suffix, total.group(1)):
        lines.fail(f"expected 'SUM {name}' with two decimals after the matrix")
    figures = _values(matrix)
    # Each printed figure is within half a unit of its last place, and so is the sum. The errors are
    # not independent: GPUs of one kind sit at one value, and add up to the most that is possible.
    slack = 0.005 * (len(figures) + 1) + 1e-6
    if abs(sum(figures) - float(total.group(2))) > slack:
        lines.fail(f"the matrix adds up to {sum(figures):.2f}, and its sum says {total.group(2)}")
    while _AFTER_SUM.fullmatch(lines.peek()):
        lines.take()
    while lines.more() and not lines.peek():
        lines.take()


def _text_matrix(lines: _Lines, name: str) -> _Matrix:
    columns = lines.take().split()
    if columns != [str(number) for number in range(len(columns) or 1)]:
        lines.fail(f"test {name}: expected the numbers of the columns, 0 1 ...")
    matrix: _Matrix = []
    while lines.more() and lines.peek():
        row = _ROW.fullmatch(lines.take())
        if row is None:
            lines.fail(f"test {name}: expected a row of the matrix, two decimals a figure")
        figures = row.group(2).split()
        if int(row.group(1)) != len(matrix) or len(figures) != len(columns):
            lines.fail(f"test {name}: expected row {len(matrix)} with {len(columns)} figures")
        matrix.append([None if figure == "N/A" else float(figure) for figure in figures])
    if not matrix:
        lines.fail(f"test {name}: the matrix has no rows", 0)
    if not lines.more():
        lines.fail(f"expected 'SUM {name}' after the matrix", 0)
    lines.take()
    return matrix


def _check_shape(matrix: _Matrix, name: str, lines: _Lines) -> None:
    """A host has one row, peers as many rows as columns and nothing on the diagonal."""
    kind = _TESTS.get(name, ("", ""))[0]
    if kind == "p2p":
        if any(len(row) != len(matrix) for row in matrix):
            lines.fail(f"test {name}: the matrix of peers is not square")
        if any(matrix[number][number] is not None for number in range(len(matrix))):
            lines.fail(f"test {name}: a figure on the diagonal, where N/A stands")
    elif kind and (len(matrix) != 1 or None in matrix[0]):
        lines.fail(f"test {name}: expected one row, with a figure for each GPU")


def _take_matrices(section: _Part, matrices: Mapping[str, _Matrix]) -> None:
    """Put the reported matrices into the part, and name the others."""
    ignored = [name for name in matrices if name not in _TESTS]
    if _READ in matrices and _WRITE in matrices:
        ignored.append(_WRITE)
    for name, matrix in matrices.items():
        if name in ignored:
            section.warnings.append(f"nvbandwidth's test {name} is not reported")
            continue
        kind = _TESTS[name][0]
        if kind == "p2p":
            _take_peers(section, matrix, reads=name == _READ)
        else:
            for gpu, value in enumerate(matrix[0]):
                section.add(kind, (gpu,), [(value or 0.0) * _GB])


def _take_peers(section: _Part, matrix: _Matrix, *, reads: bool) -> None:
    section.peer_test = "read" if reads else "write"
    missing = []
    for row, cells in enumerate(matrix):
        for column, value in enumerate(cells):
            pair = (column, row) if reads else (row, column)
            if value is not None:
                section.add("p2p", pair, [value * _GB])
            elif row != column:
                missing.append(f"gpu{pair[0]}>gpu{pair[1]}")
    _say_missing(section, missing, len(matrix))


def _say_missing(section: _Part, missing: Sequence[str], gpus: int) -> None:
    pairs = gpus * (gpus - 1)
    section.peer_access = "all" if not missing else "none" if len(missing) == pairs else "partial"
    if missing:
        section.warnings.append(
            f"{len(missing)} of {pairs} pairs of GPUs do not reach each other and have no figure:"
            f" {', '.join(missing)}"
        )


def _loads(lines: Sequence[Line]) -> Any:
    """The JSON object that the lines are."""
    end = next((n for n, line in enumerate(lines) if line.startswith(STANDARD_ERROR)), len(lines))
    try:
        text = "\n".join(lines[:end])
        return json.loads(text, object_pairs_hook=unique, parse_int=whole_number)
    except json.JSONDecodeError as error:
        # Behind the last line break there is none to show.
        line = next(filter(str.strip, reversed(lines[: error.lineno])), lines[0])
        raise line.error(f"the JSON is cut off or damaged ({error.msg})") from None
    except (ValueError, RecursionError) as error:
        raise lines[0].error(f"the JSON is damaged: {error}") from None


def _nvbandwidth_json(raw_lines: Sequence[Line]) -> _Part:
    section = _Part("nvbandwidth")
    data = _loads(raw_lines)
    lines = _Lines(raw_lines)
    lines.take()
    matrices: dict[str, Optional[_Matrix]] = {}
    try:
        data = data["nvbandwidth"]
        if "error" in data:
            lines.fail(f"nvbandwidth reports an error: {str(data['error'])[:200]}")
        section.version = str(data.get("version", "")).lstrip("v") or None
        if "warning" in data:
            section.warnings.append(f"nvbandwidth: {str(data['warning'])[:200]}")
        if not isinstance(data["testcases"], list) or not data["testcases"]:
            lines.fail("no testcases")
        for case in data["testcases"]:
            if str(case["name"]) in matrices:
                lines.fail(f"test {case['name']} stands twice")
            matrices[str(case["name"])] = _json_test(case, section, lines)
    except (AttributeError, KeyError, TypeError) as error:
        raise raw_lines[0].error(f"the JSON lacks or spoils {error}") from None
    _take_matrices(
        section, {name: matrix for name, matrix in matrices.items() if matrix is not None}
    )
    return section


def _json_test(case: Mapping[str, Any], section: _Part, lines: _Lines) -> Optional[_Matrix]:
    """The matrix of one test; None, and a warning, where it has none that is reported."""
    name, status = str(case["name"]), str(case["status"])
    if status in {"ERROR", "Not Found"}:
        section.warnings.append(f"this nvbandwidth has no test {name}")
        return None
    if status == "Waived":
        section.warnings.append(f"nvbandwidth waived {name}: this machine cannot run it")
        return None
    if status != "Passed":
        lines.fail(f"test {name} has status {status}: {str(case.get('error', ''))[:200]}")
    if name not in _TESTS:
        for heading, names_pattern in _SAME_HEADING.items():
            if str(
                case["bandwidth_description"]
            ).strip() == heading and not names_pattern.fullmatch(name):
                lines.fail(f"test {name} has the description of another test")
        section.warnings.append(f"nvbandwidth's test {name} is not reported")
        return None
    return _json_matrix(case, name, lines)


def _json_matrix(case: Mapping[str, Any], name: str, lines: _Lines) -> _Matrix:
    if str(case["bandwidth_description"]).strip() != _TESTS[name][1]:
        lines.fail(f"test {name} has the description {str(case['bandwidth_description'])[:80]!r}")
    matrix = [_json_row(row, name, lines) for row in case["bandwidth_matrix"]]
    if not matrix:
        lines.fail(f"test {name}: the matrix has no rows")
    if len({len(row) for row in matrix}) > 1:
        lines.fail(_UNEVEN.format(name))
    values = _values(matrix)
    # Six significant digits are printed.
    slack = 1e-6 + sum(0.5 * 10.0 ** (math.floor(math.log10(value)) - 5) for value in values)
    added, total = sum(values), case["sum"]
    if not is_number(total):
        lines.fail(f"test {name}: its sum is no number")
    if not abs(added - total) <= slack:
        lines.fail(f"test {name}: the matrix adds up to {added:.6g}, and its sum says {total:.6g}")
    _check_shape(matrix, name, lines)
    return matrix


def _json_row(row: Any, name: str, lines: _Lines) -> list[Optional[float]]:
    if not isinstance(row, list) or not row:
        lines.fail(_UNEVEN.format(name))
    return [None if cell == "N/A" else _rate(str(cell), name, lines) / _GB for cell in row]


# --- bandwidthTest -------------------------------------------------------------------------------

_BLOCK = re.compile(r"(Host to Device|Device to Host|Device to Device) Bandwidth, ([0-9]+) .*")
_COLUMNS = re.compile(
    r"(?:Write-Combined Memory Writes are Enabled\s*)?"
    r"Transfer Size \(Bytes\)\s+Bandwidth\((GB/s|MB/s)\)"
)
_SIZE_ROW = re.compile(r"([0-9]{1,18})\s+([0-9]+\.[0-9])")
_CSV = re.compile(
    r"bandwidthTest-(H2D|D2H|D2D)(?:-(Pinned|Paged))?(-WriteCombined)?, Bandwidth = ([0-9.]+) "
    r"(GB/s|MB/s), Time = ([0-9.]+) s, Size = ([0-9]{1,18}) bytes, NumDevsUsed = ([0-9]+)"
)
_DEVICE = re.compile(r"Device ([0-9]+): (.+)")
_KIND_OF = {"Host to Device": "h2d", "Device to Host": "d2h", "Device to Device": "d2d"}
_MIB = float(1 << 20)
_UNITS = {"GB/s": _GB, "MB/s": 1_024_000.0}
# Factors from which the time in a line of CSV is derived.
_OF_TIMES = {"GB/s": (_GB, _MIB), "MB/s": (_MIB,)}
_WHICH_MB = (
    "no line 'NOTE: The CUDA Samples ...' below: MB/s are read as 1,024,000 byte/s, as since CUDA"
    " 6.5; of CUDA 5 and 6.0 they are 2^20, and all figures are 2.4 % higher"
)
_TWICE = (
    "bandwidthTest counts what is read and written within a GPU's memory; d2d_bandwidth is half of"
    " what it prints: what is copied"
)


def _shmoo_sizes(kilo: int) -> list[int]:
    """Sizes of shmoo mode; a kilobyte has 1024 bytes before CUDA 10.1."""
    mega, sizes = kilo * kilo, [kilo]
    for limit, step in (
        *((20 * kilo, kilo), (50 * kilo, 2 * kilo), (100 * kilo, 10 * kilo), (mega, 100 * kilo)),
        *((16 * mega, mega), (32 * mega, 2 * mega), (64 * mega + 1, 4 * mega)),
    ):
        while sizes[-1] < limit:
            sizes.append(sizes[-1] + step)
    return sizes


class _BandwidthTest:
    """bandwidthTest's output, in words or as CSV."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self.lines = _Lines(lines)
        self.part = _Part("bandwidthTest", statistic="mean")
        self.device: Optional[int] = None
        self.mode = ""
        self.dots = 0
        self.begun = self.passed = self.noted = self.ended = False
        self.memories: set[str] = set()
        self.units: set[str] = set()
        self.rates: dict[str, dict[int, float]] = {}
        self._kinds: _Kinds = (
            (re.compile(r"\[CUDA Bandwidth Test\].*"), self._begin),
            (_DEVICE, self._device),
            (_BLOCK, self._words),
            (_CSV, self._csv),
            (re.compile(r"Result = PASS"), self._pass),
            (re.compile(r"(Quick|Range|Shmoo) Mode"), self._mode),
            (re.compile(r"\.+"), self._dots),
            (re.compile(r"(?:Running on\.\.\.|!+Cumulative Bandwidth .*)?"), self._nothing),
            (re.compile(r".*"), self._other),
        )

    def read(self) -> _Part:
        """The whole output."""
        while self.lines.more() and not self.ended:
            if self.passed:
                self._after(self.lines.take())
            else:
                self.lines.handle(self._kinds)
        if not self.passed:
            raise ParseError("no 'Result = PASS': the output is cut off, or the test failed")
        if not self.begun:
            raise ParseError("no line '[CUDA Bandwidth Test]': the beginning is missing")
        if not self.rates:
            raise ParseError("no figure: bandwidthTest measured no direction")
        if len(self.memories) > 1:
            raise ParseError("pinned and pageable memory in one output")
        if len(self.units) > 1:
            raise ParseError("GB/s and MB/s in one output, of which a run prints one")
        self._refuse_faster_than_memory()
        if "MB/s" in self.units and not self.noted:
            self.part.unverified.append(_WHICH_MB)
        self._fill()
        return self.part

    def _refuse_faster_than_memory(self) -> None:
        """A copy from or to the host that is faster than the GPU's own memory reads and writes is
        another direction's figure."""
        memory = self.rates.get("d2d", {})
        size = max(memory, default=0)
        for kind in ("h2d", "d2h"):
            if size >= _MIB and self.rates.get(kind, {}).get(size, 0.0) > memory[size]:
                raise ParseError(f"{kind} is faster than the GPU's own memory: figures are swapped")

    def _fill(self) -> None:
        """Put the rates into the part, which knows runs of one size and of several."""
        section, gpu = self.part, self.device or 0
        section.memory = self.memories.pop() if self.memories else section.memory
        lacks = [name for name, kind in _KIND_OF.items() if kind not in self.rates]
        if lacks:
            section.warnings.append(
                f"bandwidthTest was not asked for {', '.join(lacks)}: no figure"
            )
        if "d2d" in self.rates:
            section.warnings.append(_TWICE)
        for kind, rates in self.rates.items():
            halved = {size: rate / 2 if kind == "d2d" else rate for size, rate in rates.items()}
            if self.mode == "Quick":
                section.add(kind, (gpu,), list(halved.values()))
            else:
                section.sizes[kind] = {(f"gpu{gpu}", size): rate for size, rate in halved.items()}

    def _after(self, line: str) -> None:
        if line.startswith(STANDARD_ERROR):
            self.ended = True
        elif line.startswith("NOTE: "):
            self.noted = True
        elif line:
            self.lines.fail("there is more after 'Result = PASS'")

    def _begin(self, _match: Match[str]) -> None:
        if self.begun:
            self.lines.fail("a second bandwidthTest begins: read one output at a time")
        self.begun = True

    def _device(self, match: Match[str]) -> None:
        if self.device is not None:
            self.lines.fail("several GPUs, of which it prints the sum: run it for each")
        self.device = int(match.group(1))

    def _mode(self, match: Match[str]) -> None:
        if self.mode:
            self.lines.fail("a second mode")
        self.mode = match.group(1)

    def _dots(self, match: Match[str]) -> None:
        self.dots = len(match.group(0))

    def _words(self, match: Match[str]) -> None:
        kind = _KIND_OF[match.group(1)]
        self._expect(kind)
        rates, memory, unit = _block(self.lines, match)
        self.units.add(unit)
        self._add(kind, rates, memory)

    def _csv(self, match: Match[str]) -> None:
        kind = match.group(1)
        self._expect(kind.lower())
        rates: dict[int, float] = {}
        of_kind: Optional[Match[str]] = match
        while of_kind is not None and of_kind.group(1) == kind:
            _csv_row(self.lines, of_kind, rates)
            self.units.add(of_kind.group(5))
            of_kind = _CSV.fullmatch(self.lines.peek())
            self.lines.at += of_kind is not None and of_kind.group(1) == kind
        self._add(kind.lower(), rates, "pageable" if match.group(2) == "Paged" else "pinned")

    def _expect(self, kind: str) -> None:
        """The directions stand in one order, so that swapped ones are seen."""
        if self.device is None:
            self.lines.fail("no line 'Device N: name' before the first figure")
        if not self.mode:
            self.lines.fail("no line 'Quick Mode', 'Range Mode' or 'Shmoo Mode' before it")
        if any(KINDS.index(done) >= KINDS.index(kind) for done in self.rates):
            self.lines.fail(f"{kind} stands twice or out of its order")

    def _add(self, kind: str, rates: dict[int, float], memory: str) -> None:
        """Take a direction, whose sizes must be those of its mode and of the directions before."""
        sizes = list(rates)
        steps = {after - before for before, after in zip(sizes, sizes[1:])}
        fits = {
            "Quick": len(sizes) == 1,
            "Range": len(steps) < 2 and all(step > 0 for step in steps),
            "Shmoo": sizes in (_shmoo_sizes(1000), _shmoo_sizes(1024))
            and self.dots in {0, len(sizes)},
        }
        if not fits[self.mode] or any(list(before) != sizes for before in self.rates.values()):
            self.lines.fail(
                f"the sizes of {kind} are not those of {self.mode} Mode: a row is missing, doubled "
                "or out of order"
            )
        if kind != "d2d":
            self.memories.add(memory)
        self.rates[kind] = rates

    def _pass(self, _match: Match[str]) -> None:
        self.passed = True

    def _nothing(self, _match: Match[str]) -> None:
        pass

    def _other(self, _match: Match[str]) -> None:
        if self.begun:  # above stand the shell's messages
            self.lines.fail("not a line that bandwidthTest prints")


def _block(lines: _Lines, block: Match[str]) -> tuple[dict[int, float], str, str]:
    if int(block.group(2)) != 1 or not lines.lines[lines.at - 1].rstrip().endswith("Device(s)"):
        lines.fail("not the figure of one GPU ('1 Device(s)')")
    memory = re.fullmatch(r"(PINNED|PAGEABLE) Memory Transfers", lines.take())
    if memory is None:
        lines.fail("expected 'PINNED Memory Transfers'")
    columns = _COLUMNS.fullmatch(lines.take())
    if columns is None:
        lines.fail("expected the columns 'Transfer Size (Bytes)' and 'Bandwidth(GB/s)'")
    rates: dict[int, float] = {}
    while lines.peek() or not rates:
        row = _SIZE_ROW.fullmatch(lines.take())
        if row is None:
            lines.fail("expected a size in bytes and a figure with one decimal")
        _take_rate(rates, row.group(1), _rate(row.group(2), "bandwidth", lines, columns[1]), lines)
    return rates, memory.group(1).lower(), columns[1]


def _take_rate(rates: dict[int, float], size: str, rate: float, lines: _Lines) -> None:
    if int(size) in rates:
        lines.fail(f"{size} bytes stand twice")
    rates[int(size)] = rate


def _csv_row(lines: _Lines, csv: Match[str], rates: dict[int, float]) -> None:
    if int(csv.group(8)) != 1:
        lines.fail("not the figure of one GPU (NumDevsUsed = 1)")
    rate = _rate(csv.group(4), "bandwidth", lines, csv.group(5))
    if not re.fullmatch(r"[0-9]+\.[0-9]{5}", csv.group(6)) or not re.fullmatch(
        r"[0-9]+\.[0-9]", csv.group(4)
    ):
        lines.fail("expected one decimal of the bandwidth and five of the time")
    size, seconds, printed = int(csv.group(7)), float(csv.group(6)), float(csv.group(4))
    # The time is the size over the bandwidth; both are rounded.
    if not any(
        size / ((printed + 0.05) * unit) - 5.1e-6
        <= seconds
        <= size / (max(printed - 0.05, 1e-9) * unit) + 5.1e-6
        for unit in _OF_TIMES[csv.group(5)]
    ):
        lines.fail(f"{size} bytes at this bandwidth do not take {seconds:.5f} s")
    _take_rate(rates, csv.group(7), rate, lines)


# --- p2pBandwidthLatencyTest ----------------------------------------------------------------------


def _peer_test(raw_lines: Sequence[Line]) -> _Part:
    bandwidths, lines = peer_bandwidths(raw_lines), _Lines(raw_lines)
    section = _Part("p2pBandwidthLatencyTest", statistic="mean")
    section.peer_test = "read" if bandwidths.reads else "write"
    section.unverified += bandwidths.unverified
    for pair, rate in bandwidths.peers.items():
        section.add("p2p", pair, [_rate(f"{rate:.2f}", "bandwidth", lines)])
    for gpu, rate in bandwidths.local.items():
        section.add("d2d", (gpu,), [_rate(f"{rate:.2f}", "bandwidth", lines) / 2])
    if bandwidths.local:
        section.warnings.append(_TWICE.replace("bandwidthTest", section.program))
    if not bandwidths.unverified:
        missing = [f"gpu{start}>gpu{end}" for start, end in bandwidths.unreachable]
        _say_missing(section, missing, bandwidths.gpus)
    section.warnings.append(
        "bandwidths in both directions at once and without peer access, and latencies, are not"
        " reported"
    )
    return section


# --- trueup's own PyTorch program ----------------------------------------------------------------


def _pytorch(raw_lines: Sequence[Line]) -> _Part:
    section = _Part("pytorch")
    line = next((line for line in raw_lines if line.strip()), None)
    if line is None or not line.startswith(f'{{"tool": "{OUR_TOOL}"'):
        raise ParseError("expected the JSON line of trueup's PyTorch program")
    lines = _Lines(raw_lines)
    lines.at = raw_lines.index(line) + 1
    _refuse_more(lines.lines[lines.at :], "there is more after it")
    data = decoded(line, "", "the line", version=_FORMAT, role="gpu_copy")
    if data.pop("sha256", None) != digest(data)[:16]:
        raise line.error("its checksum is not that of its content: it is damaged")
    try:
        section.version = f"torch {data['torch']}"
        section.software = {"torch": str(data["torch"]), "cuda": str(data["cuda"])}
        section.correct = data["correct"] is True
        missing = [pair for test in data["tests"] for pair in _torch_test(test, section, lines)]
        peers, gpus = len(section.figures.get("p2p", {})) + len(missing), int(data["gpus"])
        if peers:
            section.peer_test = "write"
            if peers != gpus * (gpus - 1):
                lines.fail(f"{peers} pairs, which is not all of {gpus} GPUs")
            _say_missing(section, missing, gpus)
    except (AttributeError, KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise line.error(f"the line lacks or spoils {error}") from None
    return section


def _torch_test(test: Mapping[str, Any], section: _Part, lines: _Lines) -> list[str]:
    """Take one test's figures; returns the pair of GPUs if they do not reach each other."""
    kind, gpus = str(test["test"]), tuple(int(gpu) for gpu in test["gpus"])
    if kind not in KINDS or len(gpus) != (2 if kind == "p2p" else 1):
        lines.fail(f"test {kind} of {len(gpus)} GPUs is not known")
    if gpus in section.figures.get(kind, {}):
        lines.fail(f"{kind} of GPU {gpus} stands twice")
    if test["seconds"] is None and kind == "p2p":
        return [f"gpu{gpus[0]}>gpu{gpus[1]}"]
    moved = int(test["bytes"]) * int(test["copies"])
    rates = [moved / float(seconds) for seconds in test["seconds"]]
    if len(rates) < 3 or not all(0 < rate < _MOST for rate in rates):
        lines.fail(f"{kind} of GPU {gpus}: fewer than 3 repeats, or no possible time")
    section.add(kind, gpus, rates)
    return []
