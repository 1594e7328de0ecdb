"""Reader of bandwidthTest of the CUDA samples: in words (``Transfer Size (Bytes)
Bandwidth(GB/s)``) or with ``--csv``, in its modes quick (one size), range and shmoo (many).

It prints GB/s of 1e9 byte/s (bandwidthTest.cu). Before CUDA 10.1, and in extras/demo_suite of later
releases, it prints MB/s: of 2^20 byte/s in the samples of CUDA 5 (copyright 2013), and of 1,024,000
byte/s since CUDA 6.5 (2014), which take a second for 1024 ms. Only the samples since CUDA 7 (2015)
close with a NOTE. Times of ``--csv`` are bytes over the printed rate times 2^20 in all of these,
and in GB/s of CUDA 10.1 and 10.2.

For a copy within a GPU's memory it counts bytes read and written, twice the copied ones.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from typing import Deque, Optional

from ...errors import ParseError
from ...reading import STANDARD_ERROR, Line
from .result import GB, KINDS, GpuCopyOutput, possible

TWICE = (
    "{} counts what is read and written within a GPU's memory; d2d_bandwidth is half of what it"
    " prints: what is copied"
)
_TITLE = "[CUDA Bandwidth Test]"
_BLOCK = re.compile(r"(Host to Device|Device to Host|Device to Device) Bandwidth, (.*)")
_MEMORY = re.compile(r"(PINNED|PAGEABLE) Memory Transfers")
_COLUMNS = re.compile(
    r"(?:Write-Combined Memory Writes are Enabled\s*)?"
    r"Transfer Size \(Bytes\)\s+Bandwidth\((GB/s|MB/s)\)"
)
_SIZE_ROW = re.compile(r"([0-9]{1,18})\s+([0-9]+\.[0-9])")
_CSV = re.compile(
    r"bandwidthTest-(H2D|D2H|D2D)(?:-(?:Pinned|(Paged)))?(?:-WriteCombined)?, "
    r"Bandwidth = ([0-9]+\.[0-9]) (GB/s|MB/s), Time = ([0-9]+\.[0-9]{5}) s, "
    r"Size = ([0-9]{1,18}) bytes, NumDevsUsed = ([0-9]+)"
)
_DEVICE = re.compile(r"Device ([0-9]+): .+")
_MODE = re.compile(r"(Quick|Range|Shmoo) Mode")
_IGNORED = re.compile(r"\.+|Running on\.\.\.|!+Cumulative Bandwidth .*")
_KIND_OF = {"Host to Device": "h2d", "Device to Host": "d2h", "Device to Device": "d2d"}
_MIB = float(1 << 20)
_UNITS = {"GB/s": GB, "MB/s": 1_024_000.0}
# Factors from which the time in a line of CSV is derived.
_OF_TIMES = {"GB/s": (GB, _MIB), "MB/s": (_MIB,)}
_WHICH_MB = (
    "no line 'NOTE: The CUDA Samples ...' below: MB/s are read as 1,024,000 byte/s, as since CUDA"
    " 6.5; of CUDA 5 and 6.0 they are 2^20, and all figures are 2.4 % higher"
)


def bandwidth_test(lines: Sequence[Line]) -> GpuCopyOutput:
    """Read the output of one run.

    Raises:
        ParseError: the beginning or the end is missing, a direction, size or unit is doubled or
            does not fit the others, or a figure is of several GPUs.
    """
    return _Reader(deque(line for line in lines if line.strip())).output()


class _Reader:
    """The lines of a run in their order."""

    def __init__(self, lines: Deque[Line]) -> None:
        self.device: Optional[int] = None
        self.mode = ""
        self.begun = self.passed = self.noted = False
        self.memories: set[str] = set()
        self.units: set[str] = set()
        self.rates: dict[str, dict[int, float]] = {}
        while lines:
            line = lines.popleft()
            if self.passed and line.startswith(STANDARD_ERROR):
                break
            if self.passed:
                self._below(line)
            else:
                self._line(line, lines)

    def _below(self, line: Line) -> None:
        self.noted = self.noted or line.strip().startswith("NOTE: ")
        if not line.strip().startswith("NOTE: "):
            raise line.error("there is more after 'Result = PASS'")

    def _line(self, line: Line, lines: Deque[Line]) -> None:
        text = line.strip()
        if text.startswith(_TITLE):
            if self.begun:
                raise line.error("a second bandwidthTest begins: read one output at a time")
            self.begun = True
        elif match := _DEVICE.fullmatch(text):
            if self.device is not None:
                raise line.error("several GPUs, of which it prints the sum: run it for each")
            self.device = int(match[1])
        elif match := _MODE.fullmatch(text):
            self.mode = match[1]
        elif match := _BLOCK.fullmatch(text):
            self._block(_KIND_OF[match[1]], match[2], line, lines)
        elif match := _CSV.fullmatch(text):
            self._csv(match[1].lower(), match, line)
        elif text == "Result = PASS":
            self.passed = True
        elif self.begun and not _IGNORED.fullmatch(text):  # above stand the shell's messages
            raise line.error("not a line that bandwidthTest prints")

    def _block(self, kind: str, devices: str, line: Line, lines: Deque[Line]) -> None:
        if devices != "1 Device(s)":
            raise line.error("not the figure of one GPU ('1 Device(s)')")
        memory = _MEMORY.fullmatch(lines.popleft().strip()) if lines else None
        columns = _COLUMNS.fullmatch(lines.popleft().strip()) if lines else None
        if not memory or not columns:
            raise line.error(
                "expected the columns 'Transfer Size (Bytes)' and 'Bandwidth(GB/s)' below"
            )
        if not lines or not _SIZE_ROW.fullmatch(lines[0].strip()):
            raise line.error("expected a size in bytes and a figure with one decimal below")
        while lines and (row := _SIZE_ROW.fullmatch(lines[0].strip())):
            self._add(kind, row[1], row[2], columns[1], lines.popleft())
        self.memories |= {memory[1].lower()} if kind != "d2d" else set()

    def _csv(self, kind: str, match: re.Match[str], line: Line) -> None:
        if int(match[7]) != 1:
            raise line.error("not the figure of one GPU (NumDevsUsed = 1)")
        printed, seconds, size = float(match[3]), float(match[5]), int(match[6])
        # The time is the size over the bandwidth; both are rounded.
        if not any(
            size / ((printed + 0.05) * factor) - 5.1e-6
            <= seconds
            <= size / (max(printed - 0.05, 1e-9) * factor) + 5.1e-6
            for factor in _OF_TIMES[match[4]]
        ):
            raise line.error(f"{size} bytes at this bandwidth do not take {seconds:.5f} s")
        self._add(kind, match[6], match[3], match[4], line)
        self.memories |= {"pageable" if match[2] else "pinned"} if kind != "d2d" else set()

    def _add(self, kind: str, size: str, printed: str, unit: str, line: Line) -> None:
        if self.device is None:
            raise line.error("no line 'Device N: name' before the first figure")
        if not self.mode:
            raise line.error("no line 'Quick Mode', 'Range Mode' or 'Shmoo Mode' before it")
        rates = self.rates.setdefault(kind, {})
        # The directions stand in one order, so that swapped ones are seen.
        if int(size) in rates or kind != max(self.rates, key=KINDS.index):
            raise line.error(f"{size} bytes of {kind} stand twice or out of their order")
        rates[int(size)] = possible(float(printed) * _UNITS[unit], line, kind)
        self.units.add(unit)

    def output(self) -> GpuCopyOutput:
        """The run's figures."""
        self._check()
        output = GpuCopyOutput("bandwidthTest", statistic="mean")
        output.memory = self.memories.pop() if self.memories else output.memory
        if "MB/s" in self.units and not self.noted:
            output.unverified.append(_WHICH_MB)
        lacks = [name for name, kind in _KIND_OF.items() if kind not in self.rates]
        if lacks:
            output.warnings.append(f"bandwidthTest was not asked for {', '.join(lacks)}: no figure")
        if "d2d" in self.rates:
            output.warnings.append(TWICE.format(output.program))
        gpu = self.device or 0
        for kind, rates in self.rates.items():
            copied = {size: rate / 2 if kind == "d2d" else rate for size, rate in rates.items()}
            if self.mode == "Quick":
                output.add(kind, (gpu,), list(copied.values()))
            else:
                output.sizes[kind] = {(f"gpu{gpu}", size): rate for size, rate in copied.items()}
        return output

    def _check(self) -> None:
        if not self.passed:
            raise ParseError("no 'Result = PASS': the output is cut off, or the test failed")
        if not self.begun:
            raise ParseError(f"no line '{_TITLE}': the beginning is missing")
        if not self.rates:
            raise ParseError("no figure: bandwidthTest measured no direction")
        if len(self.memories) > 1:
            raise ParseError("pinned and pageable memory in one output")
        if len(self.units) > 1:
            raise ParseError("GB/s and MB/s in one output, of which a run prints one")
        sizes = [*next(iter(self.rates.values()))]
        for kind, rates in self.rates.items():
            if not self._fits([*rates]) or [*rates] != sizes:
                raise ParseError(
                    f"the sizes of {kind} are not those of {self.mode} Mode: a row is missing,"
                    " doubled or out of order"
                )
        memory = self.rates.get("d2d", {})
        size = max(memory, default=0)
        for kind in ("h2d", "d2h"):
            if size >= _MIB and self.rates.get(kind, {}).get(size, 0.0) > memory[size]:
                raise ParseError(f"{kind} is faster than the GPU's own memory: figures are swapped")

    def _fits(self, sizes: list[int]) -> bool:
        """Whether the sizes are those of the mode."""
        if self.mode == "Quick":
            return len(sizes) == 1
        if self.mode == "Shmoo":
            return sizes in (_shmoo_sizes(1000), _shmoo_sizes(1024))
        steps = {after - before for before, after in zip(sizes, sizes[1:])}
        return len(steps) < 2 and all(step > 0 for step in steps)


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
