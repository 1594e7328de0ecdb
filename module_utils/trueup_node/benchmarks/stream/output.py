"""Parser of memory-bandwidth benchmarks of the STREAM kind.

Three forms are read:

- the JSON object of trueup's own kernel (roles/stream/files/stream_kernel.c), every repeat's time;
- NVIDIA's STREAM for GPUs (``NVIDIA-STREAM 24.3.0``): that table with four decimals, no verdict,
  and ``Array size (double)=ELEMENTS*8*8``;
- the table of McCalpin's STREAM: ``Function Best Rate MB/s Avg time Min time Max time`` (5.10), or
  ``Rate (MB/s)`` and times of four decimals (5.8, 5.9 and Fortran's 5.6), and its verdict
  ``Solution Validates``. Its rates are best-of-n; the mean is recomputed from the bytes counted and
  the average time. Bytes counted are 2 arrays for copy and scale, 3 for add and triad: the rate of
  a row is those over its least time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, ClassVar, Dict, List, Mapping, Optional, Sequence, Tuple

from ...errors import ParseError
from ...reading import Line, decoded, lines_of
from ...record import Metric, summarise
from .signatures import HEADER, OUR_TOOL

TOOL = "stream"
KERNELS = ("copy", "scale", "add", "triad")
# STREAM's own bound for doubles.
_LARGEST_ERROR = 1e-13
_MB = 1e6
# No figure of a run is larger; rates made of such are finite.
_MOST = 1e100

# The kernel prints times with nine decimals, and nothing else of them.
_SECONDS = re.compile(r'"seconds": \[([^\[\]]*)\]')
_NINE_DECIMALS = re.compile(r"[0-9]+\.[0-9]{9}(?:, [0-9]+\.[0-9]{9})*")
_NVIDIA = re.compile(r"^NVIDIA-STREAM v?(\d[\d.]*)", re.MULTILINE)
_NVIDIA_ARRAY = re.compile(r"Array size \(\w+\) ?= ?(\d{1,18})\*(\d{1,2})\b")
_BANNER = re.compile(r"STREAM [Vv]ersion \$?Revision: ([\d.]+)")
_NO_ARRAY = "no line 'Array size = ...': rates are not checked against the bytes counted"
_NO_HEADER = "no names of the columns above the rows: those of STREAM are assumed"
_NO_VERDICT = "no verdict 'Solution Validates' below the table: the values were not checked"
_ROW = re.compile(r"(Copy|Scale|Add|Triad):\s+(\S+)\s+(\S+)\s+(\S+)\s+(\S+)\s*")
_KERNELS = ("Copy:", "Scale:", "Add:", "Triad:")
_ELEMENTS = re.compile(r"Array size = +(\d{1,18})(?: \(elements\))?(?:,|\s|$)")
_WORD = re.compile(r"(?:uses|Assuming) +(\d{1,3}) bytes per")
_TIMES = re.compile(r"(?:will be executed|test is run|each test) +(\d{1,18}) times")
_ARRAYS = {"copy": 2, "scale": 2, "add": 3, "triad": 3}
_THREADS = re.compile(r"Number of Threads (?:requested |counted )?= +(\d{1,18})")


@dataclass(frozen=True)
class StreamOutput:
    """Rates of the four kernels.

    Attributes:
        rates: kernel to its rate in byte/s, one per repeat; STREAM's table gives best, mean and
            worst only.
        repeats: how many repeats stand behind the rates; None where the tool does not say.
        best_mean_worst: the rates are STREAM's best, mean and worst, not single repeats.
        error: largest relative error of the arrays, None where the tool says only that they
            validate.
        valid: the tool's own check of the arrays; None where it makes none.
        cpus: the CPU that each thread ran on.
        unverified: facts that the text lacks for checks of the figures.
    """

    rates: Mapping[str, Tuple[float, ...]]
    repeats: Optional[int]
    best_mean_worst: bool
    valid: Optional[bool]
    tool_version: Optional[str] = None
    stores: str = "unknown"
    error: Optional[float] = None
    threads: Optional[int] = None
    array_bytes: Optional[int] = None
    cpus: Tuple[int, ...] = ()
    software: Mapping[str, str] = field(default_factory=dict)
    unverified: Tuple[str, ...] = ()
    # STREAM is one process.
    node_count: ClassVar[int] = 1
    ranks: ClassVar[int] = 1

    @property
    def parameters(self) -> Dict[str, str]:
        """Whether stores go past the caches, and whether every cache had a thread: of STREAM's own
        output neither is known. The size of an array where it is printed."""
        array = {} if self.array_bytes is None else {"array_bytes": str(self.array_bytes)}
        return {"stores": self.stores, "spread": "unknown", **array}

    @property
    def checks(self) -> Dict[str, bool]:
        """Whether the arrays hold the values that the kernels must leave."""
        return {} if self.valid is None else {"solution_validates": self.valid}

    @property
    def warnings(self) -> List[str]:
        """Warnings for the reader of the figures."""
        if self.best_mean_worst:
            return ["STREAM prints the best of its repeats and the mean, no median"]
        return []

    def metrics(self) -> List[Metric]:
        """copy_rate, scale_rate, add_rate, triad_rate [byte/s]."""
        rows: List[Metric] = []
        for kernel in KERNELS:
            name, rates = f"{kernel}_rate", self.rates[kernel]
            if self.best_mean_worst:
                for statistic, rate in zip(("max", "mean", "min"), rates):
                    rows.append(
                        Metric(name, rate, "byte/s", "higher", statistic=statistic, n=self.repeats)
                    )
            else:
                rows += summarise(name, rates, "byte/s", "higher")
        return rows


def parse_stream(text: str) -> StreamOutput:
    """Read the output of one run.

    Raises:
        ParseError: a kernel, the verdict or a figure is missing, stands twice or is no number, or
            a rate is not the bytes counted over the least time; or there is a second run.
    """
    lines = lines_of(text)
    ours = [line for line in lines if line.startswith(f'{{"tool": "{OUR_TOOL}"')]
    tables = [line for line in lines if HEADER.fullmatch(line.strip())]
    if len(ours) + len(tables) > 1:
        raise (ours + tables)[1].error("a second run: read one at a time")
    return _ours(ours[0]) if ours else _classic(lines, tables)


def _ours(line: Line) -> StreamOutput:
    data = decoded(line, "", "the kernel's line", version=1, role="stream")
    try:
        if set(data["kernels"]) != set(KERNELS):
            raise line.error(f"kernels are {sorted(data['kernels'])}, not {sorted(KERNELS)}")
        rates = {
            kernel: tuple(
                _positive(data["kernels"][kernel]["bytes"], "bytes", line)
                / _positive(seconds, f"{kernel} time", line)
                for seconds in data["kernels"][kernel]["seconds"]
            )
            for kernel in KERNELS
        }
        for kernel, arrays in _ARRAYS.items():
            if data["kernels"][kernel]["bytes"] != arrays * data["array_bytes"]:
                raise line.error(f"{kernel}: bytes are not {arrays} arrays of array_bytes")
        counts = {len(values) for values in rates.values()}
        if len(counts) != 1 or 0 in counts:
            raise line.error("the kernels have no or different numbers of repeats")
        if not all(_NINE_DECIMALS.fullmatch(times) for times in _SECONDS.findall(line)):
            raise line.error("a time of the kernel's line has not nine decimals")
        largest_error = float(data["error"])
        return StreamOutput(
            rates=rates,
            repeats=counts.pop(),
            best_mean_worst=False,
            valid=0 <= largest_error <= _LARGEST_ERROR,
            tool_version=f"{OUR_TOOL} {data['format']} ({data['stores']})",
            stores=str(data["stores"]),
            error=largest_error,
            threads=int(data["threads"]),
            array_bytes=int(data["array_bytes"]),
            cpus=tuple(int(cpu) for cpu in data["cpus"]),
            software={"stream_kernel": str(data["stores"]), "compiler": f"gcc {data['compiler']}"},
        )
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise line.error(f"the kernel's line lacks or spoils {error}") from None


def _positive(value: Any, name: str, line: Line) -> float:
    try:
        result = float(value)
    except (TypeError, ValueError):
        raise line.error(f"{name} {value!r} is not a number") from None
    if not 1 / _MOST < result < _MOST:
        raise line.error(f"{name} {value!r} is not a positive number")
    return result


def _classic(lines: Sequence[Line], tables: Sequence[Line]) -> StreamOutput:
    text = "\n".join(lines)
    version, nvidia = _BANNER.search(text), _NVIDIA.search(text)
    below = _below_header(lines, tables, has_banner=bool(version or nvidia))
    array, times, threads = _array(text), _count(_TIMES, text), _count(_THREADS, text)
    rates = _table(below, array)
    verdicts = ("Solution Validates", "Failed Validation")
    has_verdict = any(line.strip().startswith(verdicts) for line in lines)
    lacks = {
        _NO_ARRAY: not array,
        _NO_HEADER: not tables,
        _NO_VERDICT: not has_verdict and not nvidia,
    }
    return StreamOutput(
        rates=rates,
        # STREAM leaves its first iteration out of the times.
        repeats=max(1, times - 1) if times else None,
        best_mean_worst=True,
        valid="Failed Validation" not in text if has_verdict else None,
        tool_version=f"NVIDIA {nvidia[1]}" if nvidia else version[1] if version else None,
        threads=threads,
        array_bytes=array,
        unverified=tuple(text for text, is_lacking in lacks.items() if is_lacking),
    )


def _below_header(
    lines: Sequence[Line], tables: Sequence[Line], *, has_banner: bool
) -> Sequence[Line]:
    """The lines from the first row on; rows may stand alone where all else of STREAM is lost."""
    if tables:
        return lines[tables[0].number :]
    rows = [line for line in lines if line.strip().startswith(_KERNELS)]
    header = next((line for line in lines if line.split()[:1] == ["Function"]), None)
    if not rows:
        raise ParseError("no table 'Function Best Rate MB/s Avg time Min time Max time'")
    if has_banner or header:
        raise (header or rows[0]).error("this form of the table's header is not known")
    return lines[rows[0].number - 1 :]


def _count(pattern: re.Pattern[str], text: str) -> Optional[int]:
    match = pattern.search(text)
    return int(match[1]) if match else None


def _array(text: str) -> Optional[int]:
    """The bytes of an array, where they are printed."""
    sizes = _NVIDIA_ARRAY.search(text) if _NVIDIA.search(text) else None
    if sizes:
        return int(sizes[1]) * int(sizes[2])
    elements = _count(_ELEMENTS, text)
    return elements * (_count(_WORD, text) or 8) if elements else None


def _table(lines: Sequence[Line], array: Optional[int]) -> Dict[str, Tuple[float, ...]]:
    """Best, mean and worst rate of each kernel, from the lines below the header."""
    rates: Dict[str, Tuple[float, ...]] = {}
    for line in lines:
        row = _ROW.fullmatch(line.strip())
        if not row:
            if line.strip().startswith(_KERNELS):
                raise line.error("a row of the table is cut off or damaged")
            break
        kernel = row.group(1).lower()
        if kernel in rates:
            raise line.error(f"{row.group(1)} stands twice")
        best, mean_time, least_time, most_time = (
            _positive(text, f"{kernel} figure", line) for text in row.groups()[1:]
        )
        if len({len(text.partition(".")[2]) for text in row.groups()[2:]}) > 1:
            raise line.error("times with different numbers of decimals")
        if not least_time <= mean_time <= most_time:
            raise line.error("average time is not between least and most")
        # best x least time is the bytes counted: with it the printed times become rates.
        counted = best * _MB * least_time
        if array is not None:
            counted = _counted(_ARRAYS[kernel] * array, row, line)
        rates[kernel] = (best * _MB, counted / mean_time, counted / most_time)
    if set(rates) != set(KERNELS):
        missing = ", ".join(kernel for kernel in KERNELS if kernel not in rates)
        raise ParseError(f"the table ends without {missing}")
    return rates


def _counted(size: int, row: re.Match[str], line: Line) -> float:
    """The bytes, where they make the rate in the least time within the printed rounding."""
    rate, least = float(row.group(2)) * _MB, float(row.group(4))
    rate_half, least_half = (
        0.5 * 10.0 ** -len(text.partition(".")[2]) * 1.001 for text in (row.group(2), row.group(4))
    )
    lowest, highest = size / (least + least_half), size / max(least - least_half, 1e-12)
    if not lowest <= rate + rate_half * _MB or not rate - rate_half * _MB <= highest:
        raise line.error(f"{size} bytes in {row.group(4)} s are not {row.group(2)} MB/s")
    return float(size)
