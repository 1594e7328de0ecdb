"""Parser of MPI micro-benchmarks: OSU (OMB 3 to 7) and Intel's MPI benchmarks (IMB-MPI1).

Both print a table with a row for each message size, and nothing after it.

- OSU: a banner ``# OSU MPI-CUDA Allreduce Latency Test v7.5``, settings in lines that begin with
  ``#``, and a header such as ``# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)``.
  MB/s is 10^6 byte/s. A latency is the mean of the iterations, of point-to-point tests one way.
  Tests of non-blocking collectives print the times with and without computation beside, and the
  share of the communication that the computation hides: ``Overall(us) Compute(us) Pure Comm.(us)
  Overlap(%)``. Their latency is that of the communication alone; ``Min Comm.`` and ``Max Comm.``
  beside it are of another quantity (in outputs of 5.7.1 the mean lies outside of them).
- IMB: ``# Benchmarking PingPong``, ``# #processes = 2``, and a header ``#bytes #repetitions
  t[usec] Mbytes/sec``. Mbytes/sec is 2^20 byte/s in old versions and 10^6 byte/s since; the time
  of the same row shows which. Sendrecv counts two messages a time, Exchange four. ``-multi``
  runs a test in several groups of processes at the same time (``# Benchmarking Multi-PingPong``).

Formats: the util sources of OMB 7.5 and of IMB 2021.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from trueup_node.errors import ParseError
from trueup_node.reading import Line, lines_of
from trueup_node.record import Metric

from .signatures import BANNER, BENCHMARKING

TOOL = "osu"
_LATENCY, _BANDWIDTH, _MESSAGE_RATE = "mpi_latency", "mpi_bandwidth", "mpi_message_rate"
_OVERLAP = "mpi_overlap"
_UNITS = {_LATENCY: "s", _BANDWIDTH: "byte/s", _MESSAGE_RATE: "1/s", _OVERLAP: "1"}
_USEC, _MB = 1e-6, 1e6
# Beyond any network: a second has 10^12 byte, a message takes an hour.
_MOST_MB, _MOST_USEC, _MOST_RATE = 1e8, 3.6e9, 1e15
# Of the share by which two printed figures may differ from their exact ratio: half a unit of the
# last digit of each, and the mean over ranks of IMB.
_ROUNDED = 0.005
_TOLERANCE = 0.02


class _Column(NamedTuple):
    """A column of figures.

    Attributes:
        factor: converts the printed unit into the base unit.
        most: the largest printed figure that can be.
    """

    metric: str
    statistic: str | None
    factor: float
    most: float


def _latency(statistic: str) -> _Column:
    return _Column(_LATENCY, statistic, _USEC, _MOST_USEC)


# By the header without blanks, in lower case.
_COLUMNS = {
    "latency(us)": _latency("mean"),
    "avglatency(us)": _latency("mean"),
    "minlatency(us)": _latency("min"),
    "maxlatency(us)": _latency("max"),
    "p50taillat(us)": _latency("median"),
    "p90taillat(us)": _latency("p90"),
    "p99taillat(us)": _latency("p99"),
    "bandwidth(mb/s)": _Column(_BANDWIDTH, None, _MB, _MOST_MB),
    "mb/s": _Column(_BANDWIDTH, None, _MB, _MOST_MB),
    "messages/s": _Column(_MESSAGE_RATE, None, 1.0, _MOST_RATE),
    "t[usec]": _latency("mean"),
    "t_avg[usec]": _latency("mean"),
    "t_min[usec]": _latency("min"),
    "t_max[usec]": _latency("max"),
    "mbytes/sec": _Column(_BANDWIDTH, None, _MB, _MOST_MB),
    "purecomm.(us)": _latency("mean"),
    "overlap(%)": _Column(_OVERLAP, None, 0.01, 100.0),
}
# Times that are checked against the figures and are none themselves.
_BESIDE = ("overall(us)", "compute(us)")
_SIZES = ("size", "#bytes")
_COUNTS = ("iterations", "#repetitions")
_VALIDATION = "validation"
# Messages that IMB counts in the time of one row.
_MESSAGES = (1, 2, 4)

_SETTING = re.compile(r"\[ ([a-z ]+): (\d+) \]")
_ONE_SIDED = re.compile(r"^\s*# (Window creation|Synchronization): (MPI_\w+(?:/\w+)?)\s*$")
_BUFFERS = re.compile(r"\s*# Send Buffer on (\w+) \(\w\) and Receive Buffer on (\w+) \(\w\)\s*")
_ACCELERATOR = re.compile(r"[A-Z]\w*-([A-Z0-9]+(?:[-/][A-Z0-9]+)*)")
_DATATYPE = re.compile(r"\s*# Datatype: (\w+)\.?\s*")
_PROCESSES = re.compile(r"\s*# #processes = (\d{1,7})\s*")
_GROUPS = re.compile(
    r"\s*# \( (\d{1,7}) groups of (\d{1,7}) processes each running simultaneous \)\s*"
)
_IMB_VERSION = re.compile(r"Intel ?\(R\) MPI Benchmarks? (?:Suite )?V?([\w. ]+?), MPI")
_ROW = re.compile(r"\s*\d[\d.]*(?:\s+\S+)*\s*")
# Both print two decimals.
_NUMBER = re.compile(r"\d{1,18}\.\d{2}")


class Row(NamedTuple):
    """One message size.

    Attributes:
        message_bytes: None of a test without messages (Barrier).
        figures: by (metric, statistic) in base units.
        iterations: behind it, None where they are not printed.
    """

    message_bytes: int | None
    figures: Mapping[tuple[str, str | None], float]
    iterations: int | None


@dataclass(frozen=True)
class OsuOutput:
    """One table of an MPI micro-benchmark.

    Attributes:
        suite: ``osu`` or ``imb``.
        test: its name as printed: "Allreduce Latency", "PingPong".
        rows: by message size, smallest first.
        ranks: the processes of the test, None where they are not printed.
        settings: other settings as printed: pairs, window size, buffers, datatype, accelerator.
        valid: the tool's own check of the data, None where it was not asked for.
        not_judged: columns and lines that are not known, by name.
        unverified: message sizes of OSU that do not double from row to row.
    """

    suite: str
    test: str
    rows: tuple[Row, ...]
    tool_version: str | None = None
    ranks: int | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    valid: bool | None = None
    not_judged: Mapping[str, str] = field(default_factory=dict)
    unverified: tuple[str, ...] = ()

    @property
    def parameters(self) -> dict[str, str]:
        """The suite, the test and its settings."""
        return {"suite": self.suite, "test": self.test, **self.settings}

    @property
    def checks(self) -> dict[str, bool]:
        """The tool's own check of the data."""
        return {} if self.valid is None else {"data_validates": self.valid}

    @property
    def warnings(self) -> list[str]:
        """None: the tables need no remark."""
        return []

    def metrics(self) -> list[Metric]:
        """mpi_latency [s], mpi_bandwidth [byte/s], mpi_message_rate [1/s] and mpi_overlap [1] of
        each message size."""
        return [
            Metric(
                name,
                value,
                _UNITS[name],
                "lower" if name == _LATENCY else "higher",
                message_bytes=row.message_bytes,
                statistic=statistic,
                n=row.iterations,
            )
            for row in self.rows
            for (name, statistic), value in row.figures.items()
        ]


def parse_osu(text: str) -> OsuOutput:
    """Read one table.

    Raises:
        ParseError: there is no table or a second one, a row does not fit its header, sizes are out
            of order, or two figures of a row contradict each other.
    """
    lines = lines_of(text)
    banners = [
        (line, match)
        for line in lines
        if (match := BANNER.fullmatch(line) or BENCHMARKING.fullmatch(line))
    ]
    if not banners:
        raise ParseError("no banner '# OSU ... Test' and no '# Benchmarking ...'")
    if len(banners) > 1:
        raise banners[1][0].error("a second test: read one at a time")
    banner, match = banners[0]
    below = lines[banner.number :]
    header, columns = _header(below, banner)
    rows, unknown = _rows(below[header.number - banner.number :], header, columns)
    suite = "imb" if match.re is BENCHMARKING else "osu"
    if suite == "imb":
        rows = [_in_bytes(row, header) for row in rows]
    verdicts = [row.verdict for row in rows if row.verdict is not None]
    _check_order(rows)
    version = _IMB_VERSION.search(text) if suite == "imb" else None
    return OsuOutput(
        suite=suite,
        test=match["test"],
        rows=tuple(Row(row.message_bytes, row.figures, row.iterations) for row in rows),
        tool_version=version.group(1).strip() if version else match.groupdict().get("version"),
        ranks=_ranks(below),
        settings=_settings(match, lines[: header.number]),
        valid=all(verdicts) if verdicts else None,
        not_judged=unknown,
        unverified=_gaps(rows) if suite == "osu" else (),
    )


def _gaps(rows: Sequence[_Read]) -> tuple[str, ...]:
    """OSU doubles the message from row to row."""
    sizes = [row.message_bytes for row in rows if row.message_bytes]
    gaps = [
        f"{least} and {most} bytes" for least, most in zip(sizes, sizes[1:]) if most != 2 * least
    ]
    return (f"rows are missing between messages of {', '.join(gaps)}",) if gaps else ()


class _Read(NamedTuple):
    """A row with its line, and the verdict on its data."""

    line: Line
    message_bytes: int | None
    figures: dict[tuple[str, str | None], float]
    iterations: int | None
    verdict: bool | None


def _header(below: Sequence[Line], banner: Line) -> tuple[Line, list[str]]:
    """The header below the banner and its columns, without blanks and in lower case."""
    for line in below:
        if line.lstrip().startswith(("#bytes", "#repetitions")):
            return line, line.lower().split()
        if any(unit in line for unit in ("(us)", "(MB/s)", "MB/s ")):
            cells = re.split(r"\s{2,}", line.strip().lstrip("#").strip())
            names = [cell.replace(" ", "").lower() for cell in cells]
            # The header of a test without messages lacks the "#".
            if line.lstrip().startswith("#") or names[0] in (*_COLUMNS, *_BESIDE):
                return line, names
    raise banner.error("no header with a latency or bandwidth below this line")


def _rows(
    below: Sequence[Line], header: Line, columns: Sequence[str]
) -> tuple[list[_Read], dict[str, str]]:
    """The rows of the table, and what of it is not known."""
    if not any(name in _COLUMNS for name in columns):
        raise header.error("this header has no column that is known")
    unknown = {
        name: "a column"
        for name in columns
        if name not in _COLUMNS and name not in (*_SIZES, *_COUNTS, *_BESIDE, _VALIDATION)
    }
    rows: list[_Read] = []
    strange = 0
    for line in below:
        if _ROW.fullmatch(line) and len(line.split()) == len(columns):
            rows.append(_row(line, columns))
        elif line.strip() and not line.lstrip().startswith("#"):
            strange += 1
    if not rows:
        raise header.error("no row stands below this header: the test did not measure")
    if strange:
        unknown["lines that are no rows"] = str(strange)
    _check_alignment([row.line for row in rows])
    return rows, unknown


def _check_alignment(lines: Sequence[Line]) -> None:
    """Refuse a row that ends elsewhere than the others: two rows run into one. In a table whose
    blanks were collapsed rows end anywhere."""
    ends = Counter(len(line.rstrip()) for line in lines)
    usual, count = ends.most_common(1)[0]
    if count * 5 >= len(lines) * 4:
        for line in lines:
            if len(line.rstrip()) != usual:
                raise line.error("this row ends elsewhere than the others: a part of it is lost")


def _row(line: Line, columns: Sequence[str]) -> _Read:
    """One row. Cells of unknown columns may be anything."""
    figures: dict[tuple[str, str | None], float] = {}
    beside: dict[str, float] = {}
    size = count = verdict = None
    for name, cell in zip(columns, line.split()):
        if name in (*_SIZES, *_COUNTS):
            if not cell.isdecimal() or len(cell) > 18:
                raise line.error(f"{name} {cell!r} is not a whole number")
            if name in _SIZES:
                size = int(cell)
            else:
                count = int(cell) or None
        elif name == _VALIDATION:
            if cell not in ("Pass", "Fail"):
                raise line.error(f"the validation {cell!r} is neither Pass nor Fail")
            verdict = cell == "Pass"
        elif name in _COLUMNS:
            column = _COLUMNS[name]
            printed = _figure(line, name, cell, column.most)
            figures[column.metric, column.statistic] = printed * column.factor
        elif name in _BESIDE:
            beside[name] = _figure(line, name, cell, _MOST_USEC) * _USEC
    _check_row(line, size, figures)
    _check_overlap(line, figures, beside)
    return _Read(line, size, figures, count, verdict)


def _figure(line: Line, name: str, cell: str, most: float) -> float:
    if not _NUMBER.fullmatch(cell) or float(cell) > most:
        raise line.error(f"{name} {cell!r} is not a possible figure of two decimals")
    return float(cell)


def _check_row(
    line: Line, size: int | None, figures: Mapping[tuple[str, str | None], float]
) -> None:
    """Refuse figures of one row that contradict each other."""
    least, mean, most = (figures.get((_LATENCY, name)) for name in ("min", "mean", "max"))
    slack = _ROUNDED * _USEC
    if mean is not None:
        if least is not None and least > mean + slack:
            raise line.error("the least latency is above the mean")
        if most is not None and most < mean - slack:
            raise line.error("the greatest latency is below the mean")
    rate, messages = figures.get((_BANDWIDTH, None)), figures.get((_MESSAGE_RATE, None))
    if not size or rate is None or messages is None:
        return
    if abs(messages * size - rate) > _TOLERANCE * rate + size + _ROUNDED * _MB:
        raise line.error("MB/s is not the message size times Messages/s")


def _check_overlap(
    line: Line, figures: Mapping[tuple[str, str | None], float], beside: Mapping[str, float]
) -> None:
    """Refuse an overlap that the times of its row contradict: it is the share of the pure
    communication that did not add to the time of the computation, 0 at the least."""
    overlap, pure = figures.get((_OVERLAP, None)), figures.get((_LATENCY, "mean"))
    if overlap is None or not pure or len(beside) < len(_BESIDE):
        return
    overall, compute = (beside[name] for name in _BESIDE)
    expected = max(0.0, 1 - (overall - compute) / pure)
    # Three rounded times, and the rounded share.
    slack = (2 + abs(overall - compute) / pure) * _ROUNDED * _USEC / pure + _ROUNDED / 100
    if abs(overlap - min(expected, 1.0)) > 2 * slack:
        raise line.error("the overlap is not what the times of its row give")


def _in_bytes(row: _Read, header: Line) -> _Read:
    """IMB's row with its bandwidth in byte/s, whichever megabyte its version has."""
    rate = row.figures.get((_BANDWIDTH, None))
    time = row.figures.get((_LATENCY, "max"), row.figures.get((_LATENCY, "mean")))
    if rate is None:
        return row
    if not row.message_bytes or not time:
        return row._replace(
            figures={key: value for key, value in row.figures.items() if key[0] != _BANDWIDTH}
        )
    for unit in (_MB, 2.0**20):
        actual = rate / _MB * unit
        slack = _ROUNDED * unit * time + actual * _ROUNDED * _USEC
        for messages in _MESSAGES:
            moved = row.message_bytes * messages
            if abs(actual * time - moved) <= slack + _TOLERANCE / 10 * moved:
                return row._replace(figures={**row.figures, (_BANDWIDTH, None): actual})
    raise row.line.error(f"Mbytes/sec is not #bytes over the time (header in line {header.number})")


def _check_order(rows: Sequence[_Read]) -> None:
    for before, row in zip(rows, rows[1:]):
        if row.message_bytes is None or before.message_bytes is None:
            raise row.line.error("several rows, and no column of message sizes that is known")
        if row.message_bytes <= before.message_bytes:
            raise row.line.error("the message sizes do not rise: a row stands twice, or two tables")


def _ranks(below: Sequence[Line]) -> int | None:
    if match := next(filter(None, map(_PROCESSES.fullmatch, below)), None):
        return int(match.group(1))
    match = next(filter(None, map(_GROUPS.fullmatch, below)), None)
    return int(match.group(1)) * int(match.group(2)) if match else None


def _settings(banner: re.Match[str], head: Sequence[Line]) -> dict[str, str]:
    """Settings of the banner and the lines above the table."""
    settings: dict[str, str] = {}
    kind = banner.groupdict().get("kind") or banner["test"].split()[0]
    if accelerator := _ACCELERATOR.fullmatch(kind):
        settings["accelerator"] = accelerator.group(1).lower()
    for line in head:
        for name, value in _SETTING.findall(line):
            settings[name.strip().replace(" ", "_")] = value
        if buffers := _BUFFERS.fullmatch(line):
            settings["buffers"] = f"{buffers.group(1)} {buffers.group(2)}".lower()
        if datatype := _DATATYPE.fullmatch(line):
            settings["datatype"] = datatype.group(1)
        if groups := _GROUPS.fullmatch(line):
            settings["groups"] = groups.group(1)
        for name, value in _ONE_SIDED.findall(line):
            settings[name.replace(" ", "_").lower()] = value
    return settings
