"""Parser of perftest's output: ib_write_bw, ib_read_bw, ib_send_lat and their kin, 4.5 to 26.

One end prints a banner (``RDMA_Write BW Test``), its settings, the addresses, a table and a line of
dashes. Read are

- one end alone, client or server;
- both ends under the labels ``[client]`` and ``[server]``, as the module ib_bench keeps them;
- both ends in one stream, one after the other, block by block or line by line.

A bandwidth test is measured by the client, which sends its figures to the server: both print the
same, and it counts once. The server prints the last size only. A latency test is measured by both,
and the client's figures count. Formats and units are those of perftest's src/perftest_parameters.h
and .c: MB/sec (until 24.01) and MiB/sec are 2^20 byte/s, Gb/sec is 10^9 bit/s, the message rate is
in 10^6/s. perftest prints no version.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ...errors import ParseError
from ...reading import Line, lines_of
from ...record import Metric

TOOL = "ib"
# Sizes of `--all`.
SIZES = tuple(1 << power for power in range(1, 24))

_UNKNOWN = "unknown"
_VERBS = {"RDMA_Write": "write", "RDMA_Read": "read", "Send": "send", _UNKNOWN: _UNKNOWN}
_UNITS = {"MB/sec": 2**20 * 8, "MiB/sec": 2**20 * 8, "Gb/sec": 10**9}
_PEAK, _AVERAGE, _RATE = "BW peak", "BW average", "MsgRate[Mpps]"
_BANDWIDTH = ("#bytes", "#iterations", _PEAK, _AVERAGE, _RATE)
_LATENCY = (
    *("#bytes", "#iterations", "t_min[usec]", "t_max[usec]", "t_typical[usec]", "t_avg[usec]"),
    *("t_stdev[usec]", "99% percentile[usec]", "99.9% percentile[usec]"),
)
_LATENCY_OF_A_DURATION = ("#bytes", "#iterations", "t_avg[usec]", "tps average")
_TABLES = {_BANDWIDTH: "BW", _LATENCY: "Latency", _LATENCY_OF_A_DURATION: "Latency"}
_STATISTICS = {
    "median": "t_typical[usec]",
    "mean": "t_avg[usec]",
    "min": "t_min[usec]",
    "max": "t_max[usec]",
    "p99": "99% percentile[usec]",
    "p99.9": "99.9% percentile[usec]",
}
_DEVIATION = "t_stdev[usec]"
# perftest takes no fewer iterations.
_LEAST_ITERATIONS = 5
# Iterations whose times are in no latency but the least and most.
_LATENCY_TAIL = 3
# Largest error of two rounded times together, and the first distance whose square overflows.
_ROUNDED, _MOST_DEVIATION = 0.011, 46340
# Of a test over a duration, which has whole seconds: at least one, at most eleven days.
_LEAST_SECONDS, _MOST_SECONDS = 0.5, 1e6
# Beyond any adapter, and beyond any message that arrives.
_MOST_BITS, _MOST_USEC = 1e13, 1e9
# Settings that the ends agree on before they measure.
_AGREED = ("Connection type", "Mtu", "Link type", "Number of qps")
# The client alone prints its send queue's depth, the server of a send its receive queue's.
_DEPTHS = (("TX depth", "client"), ("RX depth", "server"))
# Settings that figures or checks depend on.
_JUDGED = {"Device", *_AGREED, "TX depth", "RX depth"}
# In a stream of mixed lines each end draws four: around its banner, above its table and below.
_DASHED_LINES_OF_TWO = 8

_BANNER = re.compile(r" {2,}(\S+) ((?:(?!BW |Latency )[A-Z]\w* )*)(BW|Latency) ((?:\w+ )*)Test")
_HEADER_START = re.compile(r"\s*#bytes\b")
_COLUMN = re.compile(
    r"#\w+|99(?:\.9)?% percentile\[usec\]|BW (?:peak|average)\[[\w/]+\]|MsgRate\[Mpps\]"
    r"|\bt_\w+\[usec\]|tps average|CPU_Util\[%+\]|\S+"
)
_PLACES = re.compile(r"[0-9]{1,9}\.[0-9]{2}")
_GLUED = re.compile(r"[0-9]{1,9}\.[0-9]{2}(?=[0-9])|(?<=\.[0-9]{2})[0-9]{1,9}\.[0-9]{2}$")
_ROW = re.compile(r"\s*[0-9]+\s+[0-9]+(?:\s+\S+){2,}\s*")
_PROGRAM = re.compile(r"\bib_(write|read|send)_(bw|lat)\b")
_CLIENT_DEVICE = re.compile(r"\bib_\w+' for ([\w.-]+)")
_KINDS = {"bw": "BW", "lat": "Latency"}
_BOTH_WAYS = "Bidirectional"
_WHICH_GPU = "GPU memory, and no line that tells of which GPU"
_DASHES = re.compile(r"\s*-{20,}\s*")
_SETTING = re.compile(r"([A-Za-z][^:]*): ([^:]+)")
_LABEL = re.compile(r"\[(?:(server|client)(: standard error)?|(standard error))\]")
_GPU = re.compile(
    r"initializing CUDA|Listing all CUDA|CUDA device |Picking |\[pid = |creating CUDA|making it the"
    r"|cuMemAlloc\(\)|(?:de)?allocat(?:ed|ing) .*GPU buffer|destroying current CUDA"
    r"|using DMA-BUF for GPU|Using ROCm Device|allocated \d+ bytes of GPU"
)
_GPU_NUMBER = re.compile(
    r"Picking (?:device No\.|GPU number) (\d+)|Using ROCm Device with ID: (\d+),.*"
)
_ERROR = re.compile(
    r".*Couldn't|Unable|Failed|Failure|Problems? |Error|Completion |Bad wc|Assertion|Can't"
    r"|Unexpected|No such|Segmentation|Parser function|Did not detect|.* mismatch:|.*\bfailed\b"
    r"|.* returned \d|.*\berror[ =]",
    re.IGNORECASE,
)
# A client's message when it finds no server.
REFUSED = "Couldn't connect to "
# ibv_wc_status of rdma-core's libibverbs/verbs.h: statuses that end a measurement on a sick fabric.
_STATUS = re.compile(r"(?i)failed status (\d{1,3})\b")
_STATUSES = {
    4: "local protection error",
    5: "flushed after an error before",
    10: "remote access error",
    12: "no acknowledgement from the other end, tried again as often as allowed",
    13: "the other end had no buffer ready, tried again as often as allowed",
}


def explain(text: str) -> Optional[str]:
    """perftest's error messages, those of the first end first; None where it prints nothing beyond
    REFUSED."""
    lines = [" ".join(line.split())[:200] for line in text.splitlines()]
    error_lines = [line for line in lines if _ERROR.match(line) and REFUSED not in line]
    if not error_lines:
        return None
    words = "; ".join(dict.fromkeys(error_lines[:2]))
    status = _STATUS.search(words)
    meaning = _STATUSES.get(int(status.group(1))) if status else None
    return f"{words} ({meaning})" if meaning else words


class IbRow(NamedTuple):
    """One size's figures.

    Attributes:
        message_bytes: size of a message.
        iterations: messages in the measurement.
        figures: by the column's name: bit/s under ``BW peak`` (0 where not measured) and ``BW
            average``, 1/s under ``MsgRate[Mpps]`` and ``tps average``, s under the others.
        line: the row as printed.
    """

    message_bytes: int
    iterations: int
    figures: Mapping[str, float]
    line: Line

    @property
    def words(self) -> List[str]:
        """The cells."""
        return self.line.split()


@dataclass(frozen=True)
class IbOutput:
    """Results of one test.

    Attributes:
        verb: write, read or send.
        kind: BW or Latency.
        device: the client's RDMA device, or that of the only end there is.
        settings: the banner's settings, by perftest's names.
        rows: a row for each size, ascending.
        ends: the ends whose output this is: client, server, or one that does not say which.
        gpus: GPU whose memory each of the ends used, None for the host's.
        both_ways: figures are sums of both directions.
        lacks: parts of the text that are missing, and with them the checks of figures.
        not_judged: columns that are not known.
    """

    verb: str
    kind: str
    device: str
    settings: Mapping[str, str]
    rows: Tuple[IbRow, ...]
    ends: Tuple[str, ...]
    gpus: Tuple[Optional[int], ...]
    warnings: List[str] = field(default_factory=list)
    both_ways: bool = False
    lacks: Tuple[str, ...] = ()
    not_judged: Mapping[str, str] = field(default_factory=dict)

    @property
    def unverified(self) -> List[str]:
        """That sizes and iterations of a latency may be swapped: no other figure depends on them.
        Sizes are powers of two unless somebody asks for another."""
        unlikely = [
            row
            for row in self.rows
            if self.kind == "Latency" and not _is_power(row.message_bytes)
            if _is_power(row.iterations)
        ]
        return [*self.lacks] + [
            f"line {row.line.number}: {row.message_bytes} bytes and {row.iterations} iterations may"
            " be swapped: only the iterations are a power of two"
            for row in unlikely
        ]

    @property
    def tool_version(self) -> Optional[str]:
        """None: perftest's output does not tell."""
        return None

    @property
    def checks(self) -> Dict[str, bool]:
        """Empty: perftest does not look at the arriving data."""
        return {}

    @property
    def parameters(self) -> Dict[str, str]:
        """Whether GPU memory was used (gdr: yes, no, or the one end that did), and the link."""
        used = [end for end, gpu in zip(self.ends, self.gpus) if gpu is not None]
        gdr = "no" if not used else "yes" if len(used) == len(self.ends) else used[0]
        gdr = "unknown" if _WHICH_GPU in self.lacks else gdr
        return {
            "gdr": gdr,
            "link": self.settings["Link type"],
            "connection": self.settings["Connection type"],
            "mtu": self.settings["Mtu"].replace("[B]", ""),
            "queue_pairs": self.settings.get("Number of qps", "1"),
        }

    def metrics(self) -> List[Metric]:
        """For each size: ib_<verb>_bandwidth [bit/s], its peak where it was measured, and
        ib_<verb>_message_rate [1/s]; or ib_<verb>_latency [s] and its standard deviation."""
        latency = self.kind == "Latency"
        way = f"{self.verb}_bidirectional" if self.both_ways else self.verb
        name = f"ib_{way}_{'latency' if latency else 'bandwidth'}"
        # A bandwidth is one measurement over all its iterations.
        figures = (
            [(name, "s", "lower", *each) for each in _STATISTICS.items()]
            + [(f"{name}_deviation", "s", "lower", "single", _DEVIATION)]
            if latency
            else [
                (name, "bit/s", "higher", "single", _AVERAGE),
                (f"{name}_peak", "bit/s", "higher", "single", _PEAK),
                (f"ib_{way}_message_rate", "1/s", "higher", "single", _RATE),
            ]
        )
        return [
            Metric(
                *(metric, row.figures[column], unit, direction),
                message_bytes=row.message_bytes,
                device=self.device,
                statistic=statistic,
                n=row.iterations if latency else None,
            )
            for row in self.rows
            for metric, unit, direction, statistic, column in figures
            if column in row.figures and (row.figures[column] > 0 or column == _DEVIATION)
        ]


def _is_power(number: int) -> bool:
    """Of two."""
    return number & (number - 1) == 0


def _below_median(row: IbRow) -> Optional[str]:
    """A caution where the mean lies below the median: no figure tells swapped ones then."""
    mean, median = (row.figures.get(name, 0.0) for name in ("t_avg[usec]", "t_typical[usec]"))
    if not 0 < mean < median:
        return None
    return (
        f"line {row.line.number}: the mean latency lies below the median, which is rare: t_avg and"
        " t_typical may be swapped"
    )


@dataclass
class _End:
    """One end's part of the output while it is read."""

    side: str
    banners: List[Tuple[Line, str, str, str]] = field(default_factory=list)
    settings: Dict[str, str] = field(default_factory=dict)
    where: Dict[str, Line] = field(default_factory=dict)
    headers: List[Tuple[Line, Tuple[str, ...], str]] = field(default_factory=list)
    rows: List[IbRow] = field(default_factory=list)
    dashes: List[Line] = field(default_factory=list)
    gpu_lines: List[Line] = field(default_factory=list)
    gpus: List[int] = field(default_factory=list)
    waits: bool = False
    warnings: List[str] = field(default_factory=list)
    lacks: List[str] = field(default_factory=list)


def parse_ib(text: str) -> IbOutput:
    """Read the output of one test: of its client, its server, or both.

    Raises:
        ParseError: a banner, setting, table, row or closing line is missing, damaged or of another
            test; a row contradicts itself; the ends contradict each other; perftest says that
            something failed.
    """
    parts = [end for side, lines in _labelled(lines_of(text)) for end in _ends(side, lines)]
    ends = [end for end in parts if end.banners or end.headers or end.rows]
    if not ends:
        raise ParseError("no banner such as 'RDMA_Write BW Test': perftest printed no test")
    if len(ends) == 1 and not ends[0].banners and ends[0].headers:
        _name_by_program(ends[0], text)
    for end in ends:
        _check_end(end)
    if len(ends) > 2:
        raise ends[2].headers[0][0].error("a third table: this is more than one test")
    first = _chosen(ends)
    if len(ends) == 2:
        _compare(*ends)
    _check_sizes(first)
    cautions = [caution for end in parts for caution in end.warnings]
    cautions += filter(None, map(_below_median, first.rows))
    return _output([first, *(end for end in ends if end is not first)], cautions)


def _output(ends: Sequence[_End], cautions: Sequence[str]) -> IbOutput:
    """The output of these ends, of which the first one's figures count."""
    first = ends[0]
    _, verb, words, kind = first.banners[0]
    columns = first.headers[0][1]
    unknown = [name for name in columns if name not in _known(columns)]
    return IbOutput(
        verb=_VERBS[verb],
        kind=kind,
        device=first.settings["Device"],
        settings=dict(first.settings),
        rows=tuple(first.rows),
        ends=tuple(end.side for end in ends),
        gpus=tuple(end.gpus[0] if end.gpus else None for end in ends),
        warnings=list(dict.fromkeys(cautions)),
        both_ways=_BOTH_WAYS in words,
        lacks=tuple(lack for end in ends for lack in end.lacks),
        not_judged=dict.fromkeys(unknown, "a column"),
    )


def _labelled(lines: Sequence[Line]) -> List[Tuple[str, List[Line]]]:
    """(side, lines) of each labelled part; the side is empty where no label tells."""
    parts: List[Tuple[str, List[Line]]] = [("", [])]
    for line in lines:
        label = _LABEL.fullmatch(line)
        if label is None:
            parts[-1][1].append(line)
        else:
            side = label.group(1) or ""
            # An end's messages on standard error belong to its output.
            if label.group(3) or (label.group(2) and side == parts[-1][0]):
                continue
            if side in [earlier_side for earlier_side, _ in parts]:
                raise line.error(f"the part {line} stands twice")
            parts.append((side, []))
    return parts


def _ends(side: str, lines: Sequence[Line]) -> List[_End]:
    """The end or ends whose lines these are: two where one stream holds both."""
    banners = [index for index, line in enumerate(lines) if _banner(line)]
    if len(banners) > 2 or (len(banners) == 2 and side):
        raise lines[banners[-1]].error("one more banner: this is more than one test")
    if len(banners) < 2:
        return [_read(side, lines)]
    cut = _cut(lines, banners)
    if cut is not None:
        return [_read("", lines[:cut]), _read("", lines[cut:])]
    apart = _blocks(lines)
    if apart is not None:
        return [_read("", end) for end in apart]
    return _mixed(_read("", lines, mixed=True))


def _blocks(lines: Sequence[Line]) -> Optional[List[List[Line]]]:
    """The lines of each end where both are in one stream and no block is mixed, else None.

    Dashes part the blocks: banner with settings, addresses, table. A bandwidth test's client prints
    all sizes, its server the last: the longer table is the client's. Of equally long ones, and of
    addresses, it does not matter whose they are.
    """
    parts = _parted(lines)
    banners = [block for block in parts if any(_banner(line) for line in block)]
    tables = [block for block in parts if any(_HEADER_START.match(line) for line in block)]
    if (len(banners), len(tables)) != (2, 2) or {_kind(block) for block in banners} != {"BW"}:
        return None
    # Each begins below dashes, each table ends above some, and both banners are above the tables.
    if parts[0] in (*banners, *tables) or parts[-1] in tables:
        return None
    if parts.index(banners[1]) > parts.index(tables[0]):
        return None
    banners.sort(key=lambda block: not any(line.strip().startswith("TX depth") for line in block))
    tables.sort(key=len, reverse=True)
    shared_lines = [line for block in parts if block not in (*banners, *tables) for line in block]
    ends = []
    for rest, banner, table in zip(([], shared_lines), banners, tables):
        ends.append([*rest, *banner, *table, Line(banner[0], table[-1].number + 1)])
    return ends


def _parted(lines: Sequence[Line]) -> List[List[Line]]:
    """Blocks of lines, each but the first beginning with dashes."""
    parts: List[List[Line]] = [[]]
    for line in lines:
        if _DASHES.fullmatch(line):
            parts.append([])
        parts[-1].append(line)
    return parts


def _kind(block: Sequence[Line]) -> str:
    """BW or Latency, where the part holds one banner."""
    kinds = [match[2] for match in map(_banner, block) if match]
    return kinds[0] if len(kinds) == 1 else ""


def _cut(lines: Sequence[Line], banners: Sequence[int]) -> Optional[int]:
    """Where the second end's output begins, or None where lines are mixed.

    Written to a pipe, an end's text comes in pieces: all up to its last row, and the closing line
    when it ends. So the first end's closing line may be missing here and stand at the end.
    """
    if not any(_ROW.fullmatch(line) for line in lines[: banners[1]]):
        return None
    if any(_ROW.fullmatch(line) for line in lines[: banners[0]]):
        return None
    headers = [index for index, line in enumerate(lines) if _HEADER_START.match(line)]
    if len(headers) != 2 or not banners[0] < headers[0] < banners[1] < headers[1]:
        return None
    cut = banners[1]
    while cut > headers[0] and not _ROW.fullmatch(lines[cut - 1]):
        cut -= 1
    # The first end keeps one line of dashes below its rows: its own, or else the one that opens
    # the second banner, which is there in any case.
    closing = next((i for i in range(cut, banners[1]) if _DASHES.fullmatch(lines[i])), None)
    return None if closing is None else closing + 1


def _banner(line: str) -> Optional[Tuple[str, str, str]]:
    """Verb, further words and kind of a test's title; None where the line is none."""
    match = _BANNER.fullmatch(line.rstrip())
    if match is None:
        return None
    return match.group(1), match.group(2) + match.group(4), match.group(3)


def _read(side: str, lines: Sequence[Line], *, mixed: bool = False) -> _End:
    """One end's lines, or those of both mixed; each is a part of the table or tells of the test."""
    end = _End(side)
    in_table = False
    for line in lines:
        if not line.strip():
            continue
        if re.fullmatch(r"\*{20,}|\* Waiting for client to connect\.\.\. \*", line.strip()):
            # Below a banner it is the other end's, in the same stream.
            end.waits = end.waits or not end.banners
        elif _DASHES.fullmatch(line):
            if in_table and not mixed and not end.rows:
                raise line.error("the table has no rows")
            end.dashes.append(line)
            in_table = in_table and mixed
        elif _HEADER_START.match(line):
            end.headers.append((line, *_header(line)))
            in_table = True
        elif _ROW.fullmatch(line):
            if not in_table:
                raise line.error("a row outside its table")
            end.rows.append(_row(line, end.headers[-1]))
        else:
            _read_remark(end, line, in_table=in_table and not mixed, mixed=mixed)
    return end


def _read_remark(end: _End, line: Line, *, in_table: bool, mixed: bool) -> None:
    banner = _banner(line)
    if banner:
        end.banners.append((line, *banner))
    elif re.match(r"\s*(?:\w+: )?(?:Conflicting CPU frequency|WARNING|Warning)", line):
        end.warnings.append(f"perftest: {line.strip()}")
    elif _ERROR.match(line.strip()):
        raise line.error("perftest says that something failed")
    elif in_table and line.lstrip()[:1].isdigit():
        raise line.error("this form of a row is not known")
    elif in_table:
        end.warnings.append(f"in the table, line {line.number}: {line.strip()}")
    else:
        _read_setting(end, line, mixed=mixed)


def _read_setting(end: _End, line: Line, *, mixed: bool) -> None:
    gpu = _GPU_NUMBER.fullmatch(line.strip())
    if gpu:
        end.gpus.append(int(gpu.group(1) or gpu.group(2)))
    if gpu or _GPU.match(line.strip()):
        end.gpu_lines.append(line)
        return
    if re.match(r"\s*(?:local|remote) address: |\s*M?GID: ", line):
        return
    # Two settings in a line have tabs between them, or blanks where these were lost; one name ends
    # in a tab: "rdma_cm QPs\t : OFF".
    fields = re.split(r"\t|(?<=\S) {2,}(?=[A-Za-z])", line.replace("\t :", " :"))
    matches = [_SETTING.fullmatch(field.strip()) for field in fields if field.strip()]
    pairs = [(match[1].rstrip(), match[2].lstrip()) for match in matches if match]
    if len(pairs) < len(matches):
        end.warnings.append(f"perftest also printed, line {line.number}: {line.strip()}")
        return
    for name, value in pairs:
        if name in _JUDGED:
            if end.settings.get(name, value) != value or (name in end.settings and not mixed):
                raise line.error(f"{name} stands twice")
            end.where[name] = line
        end.settings.setdefault(name, value)


def _header(line: Line) -> Tuple[Tuple[str, ...], str]:
    """The columns, the bandwidth's without their unit, and that unit."""
    columns, units = [], set()
    for column in _COLUMN.findall(line):
        name, _, rest = column.partition("[")
        if name in (_PEAK, _AVERAGE):
            units.add(rest.rstrip("]"))
            columns.append(name)
        else:
            columns.append(column.replace("%%", "%"))
    unit = units.pop() if units else ""
    table_columns = _known(columns)
    if table_columns not in _TABLES or units or len(set(columns)) != len(columns):
        raise line.error("this form of the table's columns is not known")
    if _TABLES[table_columns] == "BW" and unit not in _UNITS:
        raise line.error(f"the unit {unit or 'of the bandwidth'} is not known")
    return tuple(columns), unit


def _known(columns: Sequence[str]) -> Tuple[str, ...]:
    """The columns that every version of perftest prints."""
    return tuple(name for name in columns if any(name in table for table in _TABLES))


def _row(line: Line, header: Tuple[Line, Tuple[str, ...], str]) -> IbRow:
    _, columns, unit = header
    words = line.split()
    if len(words) < len(columns) and _DEVIATION in columns:
        # A deviation of seven characters fills its column.
        words = [text for cell in words for text in _GLUED.findall(cell) or [cell]]
    if len(words) != len(columns):
        raise line.error(f"{len(words)} figures under {len(columns)} columns")
    named = dict(zip(columns, words))
    size = _whole(named["#bytes"], 1, line)
    iterations = _whole(named["#iterations"], _LEAST_ITERATIONS, line)
    figures: Dict[str, float] = {}
    if _PEAK in named:
        figures = _bandwidth(size, named, _UNITS[unit], line)
    elif "t_min[usec]" in named:
        figures = _latency(named, iterations, line)
    else:
        figures = {
            "t_avg[usec]": _decimal(named["t_avg[usec]"], 2, line) * 1e-6,
            "tps average": _decimal(named["tps average"], 2, line),
        }
    return IbRow(size, iterations, figures, line)


def _bandwidth(size: int, named: Mapping[str, str], unit: int, line: Line) -> Dict[str, float]:
    """The figures in bit/s and 1/s, where they agree."""
    # Below 0.1 Gb/s perftest prints six places.
    places = len(named[_AVERAGE].partition(".")[2])
    small = unit == _UNITS["Gb/sec"] and places == 6
    average = _decimal(named[_AVERAGE], 6 if small else 2, line)
    peak = _decimal(named[_PEAK], 6 if small else 2, line)
    rate = _decimal(named[_RATE], 6, line)
    if unit == _UNITS["Gb/sec"] and small != (average < 0.1 or named[_AVERAGE] == "0.100000"):
        raise line.error("the average has not the places that perftest gives it")
    if average <= 0 or average * unit > _MOST_BITS:
        raise line.error(f"{average:g} is no bandwidth")
    half = 0.5 * 10.0 ** (-6 if small else -2)
    allowed = (half * unit + 0.5 * size * 8) * (1 + 1e-6)
    if abs(average * unit - rate * 1e6 * size * 8) > allowed:
        raise line.error("message rate times size is not the average bandwidth")
    # The peak is not measured over a duration or more than 20000 iterations.
    if 0 < peak < average - 2 * half:
        raise line.error("the peak is below the average")
    return {_PEAK: peak * unit, _AVERAGE: average * unit, _RATE: rate * 1e6}


def _latency(named: Mapping[str, str], iterations: int, line: Line) -> Dict[str, float]:
    """The times in seconds, where they are in order and can be of so many iterations."""
    times = {
        column: _decimal(text, 2, line)
        for column, text in named.items()
        if column.endswith("[usec]") and column != _DEVIATION
    }
    order = [
        times[column]
        for column in (
            *("t_min[usec]", "t_typical[usec]"),
            *("99% percentile[usec]", "99.9% percentile[usec]", "t_max[usec]"),
        )
    ]
    if not 0 < order[0] <= order[-1] <= _MOST_USEC:
        raise line.error("no latencies above 0")
    if order != sorted(order) or not order[0] <= times["t_avg[usec]"] <= order[-1]:
        raise line.error("least, typical, percentiles and most are out of order")
    deviation = named[_DEVIATION]
    _check_spread(order, times["t_avg[usec]"], deviation, iterations, line)
    if _PLACES.fullmatch(deviation):
        times[_DEVIATION] = float(deviation)
    return {column: value * 1e-6 for column, value in times.items()}


def _check_spread(
    order: Sequence[float], mean: float, deviation: str, iterations: int, line: Line
) -> None:
    """That mean and deviation can be of times with this least, median, percentiles and most, as
    print_report_lat of perftest makes them (src/perftest_parameters.c, 4.1 to 26.04).

    It sorts the ``iterations - 1`` times, takes mean and median of all but the last two, and the
    percentiles at ceil(0.99 n) and ceil(0.999 n) of these n, and calls the next to last the most.
    """
    least, typical, p99, p999, most = order
    count = iterations - _LATENCY_TAIL
    at_99, at_999 = (math.ceil(count * share) for share in (0.99, 0.999))
    for name, value, at in (("99 %", p99, at_99), ("99.9 %", p999, at_999)):
        if at == count and value != most:
            raise line.error(f"of {iterations} iterations t_max is the {name} percentile")
    half = count // 2
    lowest = [(half, least), (at_99 - half, typical), (at_999 - at_99, p99), (count - at_999, p999)]
    ends = [0, count - half, min(at_99 + 1, count), min(at_999 + 1, count), count]
    parts = [after - before for before, after in zip(ends, ends[1:])]
    low = sum(many * value for many, value in lowest) / count
    high = sum(many * value for many, value in zip(parts, order[1:])) / count
    if not low - _ROUNDED <= mean <= high + _ROUNDED:
        raise line.error(f"a mean of {mean:g} is not possible between these percentiles")
    # Each distance from the mean is cut to whole microseconds, and its square must fit in 32 bits.
    widest = [int(max(abs(mean - a), abs(mean - b)) + _ROUNDED) for a, b in zip(order, order[1:])]
    square = sum(many * wide**2 for many, wide in zip(parts, widest)) / count
    deviation_match = _PLACES.fullmatch(deviation)
    if (
        deviation_match
        and max(widest) < _MOST_DEVIATION
        and float(deviation) > math.sqrt(square) + _ROUNDED
    ):
        raise line.error(f"a deviation of {deviation} is not possible between these percentiles")


def _whole(text: str, least: int, line: Line) -> int:
    if not re.fullmatch(r"[1-9][0-9]{0,17}", text) or int(text) < least:
        raise line.error(f"{text!r} is no count of {least} or more")
    return int(text)


def _decimal(text: str, places: int, line: Line) -> float:
    match = re.fullmatch(r"(?:0|[1-9][0-9]{0,17})\.([0-9]+)", text)
    if match is None or len(match.group(1)) != places:
        raise line.error(f"{text!r} is not a number with {places} places")
    return float(text)


def _name_by_program(end: _End, text: str) -> None:
    """The test of a table without banner: by its columns, and the program that the text names."""
    line, columns, _ = end.headers[0]
    kind = _TABLES[_known(columns)]
    programs = {match for match in _PROGRAM.findall(text) if _KINDS[match[1]] == kind}
    verb = programs.pop()[0] if len(programs) == 1 else _UNKNOWN
    title = {word: name for name, word in _VERBS.items()}[verb]
    device = _CLIENT_DEVICE.search(text)
    end.settings.setdefault("Device", device[1] if device else _UNKNOWN)
    end.settings.setdefault("TX depth", _UNKNOWN)
    end.banners.append((line, title, "", kind))
    end.lacks.append(
        "no banner above the table, and the text does not name its program"
        if verb == _UNKNOWN
        else "no banner above the table: the test is that of the program in the text"
    )


def _check_end(end: _End) -> None:
    """That one end's output is whole."""
    if not end.banners:
        raise (end.headers[0][0] if end.headers else end.rows[0].line).error(
            "no banner such as 'RDMA_Write BW Test' above the table"
        )
    line, verb, words, kind = end.banners[0]
    title = f"{verb} {words}{kind} Test"
    if verb not in _VERBS or set(words.split()) - {"Post", "List", _BOTH_WAYS}:
        raise line.error(f"the test {title} is not read: only Write, Read, Send")
    _check_table(end, title, kind)
    missing = [name for name in ("Device", *_AGREED) if name not in end.settings]
    if missing and not end.lacks:
        end.lacks.append(f"the banner lacks {', '.join(missing)}")
    for name in missing:
        end.settings[name] = _UNKNOWN
    if not re.fullmatch(r"[A-Za-z0-9_.-]+", end.settings["Device"]):
        end.warnings.append(f"the device is called {end.settings['Device']}")
        end.settings["Device"] = _UNKNOWN
    if end.gpu_lines and len(end.gpus) != 1:
        if end.gpus or not end.lacks:
            raise end.gpu_lines[0].error("GPU memory, and not one line that tells of which GPU")
        end.lacks.append(_WHICH_GPU)
    _check_duration(end, verb)
    _settle_side(end)


def _check_table(end: _End, title: str, kind: str) -> None:
    if not end.headers:
        raise ParseError(f"the output ends before the table of {title}")
    if len(end.headers) > 1:
        raise end.headers[1][0].error("a second table: this is more than one test")
    line, columns, _ = end.headers[0]
    if _TABLES[_known(columns)] != kind:
        raise line.error(f"the table is not that of {title}")
    if not end.rows:
        raise line.error("the table has no rows: the output is cut off, or this end was")
    if not end.dashes or end.dashes[-1].number < end.rows[-1].line.number:
        end.lacks.append("no closing line of dashes below the last row: it may be cut off")


def _check_duration(end: _End, verb: str) -> None:
    """Of a latency over a duration, that rate and time are one figure."""
    for row in end.rows:
        if "tps average" in row.figures:
            seconds, rate = row.figures["t_avg[usec]"], row.figures["tps average"]
            ways = 1 if verb == "RDMA_Read" else 2
            if not seconds or not rate:
                raise row.line.error("no latency above 0")
            allowed = 1.000001 * (0.005e-6 / seconds + 0.005 / rate)
            if abs(seconds * ways * rate - 1) > allowed:
                raise row.line.error("rate times latency is not 1")
            length = row.iterations / rate
            if not _LEAST_SECONDS < length < _MOST_SECONDS:
                raise row.line.error(
                    f"{row.iterations} iterations at {rate:g} a second take {length:g} s, which no"
                    " test does: are columns swapped?"
                )


def _settle_side(end: _End) -> None:
    """Which end it is: the client alone prints its send queue's depth."""
    sides = [side for depth, side in _DEPTHS if depth in end.settings]
    sides += ["server"] if end.waits else []
    for side in sides:
        if side != (end.side or sides[0]):
            raise end.banners[0][0].error(f"the {end.side or sides[0]}'s part is that of a {side}")
    end.side = end.side or (sides or ["server"])[0]


def _chosen(ends: Sequence[_End]) -> _End:
    """The end whose figures count: the client."""
    clients = [end for end in ends if end.side == "client"]
    if len(ends) > 1 and len(clients) != 1:
        line = ends[1].banners[0][0]
        raise line.error(f"{len(clients)} of {len(ends)} ends are the client, not 1")
    line, _, _, kind = ends[0].banners[0]
    if kind == "Latency" and not clients:
        raise line.error("the server's end alone: of a latency the client's figures count")
    return clients[0] if clients else ends[0]


def _compare(first: _End, two: _End) -> None:
    """That two ends were in one test."""
    line = two.banners[0][0]
    if first.banners[0][1:] != two.banners[0][1:]:
        raise line.error("the ends ran different tests")
    for name in _AGREED:
        if first.settings[name] != two.settings[name]:
            raise two.where.get(name, line).error(f"{name} is not the same at both ends")
    if first.headers[0][1:] != two.headers[0][1:]:
        raise two.headers[0][0].error("the ends print different columns or units")
    client, server = (first, two) if first.side == "client" else (two, first)
    # Each end measures latency for itself; their settings are the same.
    latency = first.banners[0][3] == "Latency"
    mine, its = (
        [row.words[: 2 if latency else None] for row in end.rows] for end in (client, server)
    )
    if not latency and len(its) == 1:
        mine = mine[-1:]
    if mine != its:
        raise server.rows[-1].line.error("the rows of server and client contradict each other")


def _check_sizes(end: _End) -> None:
    """That a table of all sizes has them all, each once."""
    sizes = [row.message_bytes for row in end.rows]
    if len(sizes) == 1:
        return
    line = end.rows[-1].line
    if len(set(sizes)) < len(sizes):
        raise line.error("a size stands twice (--run_infinitely is not read)")
    last = SIZES[-1]
    if end.settings["Connection type"] == "UD":
        last = int(re.sub(r"\D", "", end.settings["Mtu"]) or 0)
    if sizes != sorted(sizes):
        raise line.error("the sizes do not ascend")
    if sizes != [size for size in SIZES if size <= last]:
        end.lacks.append(f"the sizes are not all of 2, 4, 8, ... {last}: rows may be missing")


def _mixed(both: _End) -> List[_End]:
    """One end made of two whose lines are mixed: each line of the table must say the same."""
    tests = {banner[1:] for banner in both.banners}
    layouts = {header[1:] for header in both.headers}
    if len(tests) != 1 or len(layouts) != 1 or len(both.headers) != 2:
        raise both.banners[1][0].error("two banners without two equal tables")
    if len(both.dashes) < _DASHED_LINES_OF_TWO:
        line = both.rows[-1].line if both.rows else both.headers[-1][0]
        raise line.error("the mixed lines of two ends lack a line of dashes")
    rows: Dict[str, IbRow] = {}
    for row in both.rows:
        if rows.setdefault(row.words[0], row).words != row.words:
            raise row.line.error(
                "the lines of server and client are mixed and their figures differ: which are the "
                "client's cannot be told"
            )
    kind = both.banners[0][3]
    # The server of a bandwidth test repeats the last size only.
    expected = len(rows) + 1 if kind == "BW" else 2 * len(rows)
    if both.rows and len(both.rows) != expected:
        raise both.rows[-1].line.error(f"{len(both.rows)} rows of two ends, not {expected}")
    both.rows = list(rows.values())
    both.banners, both.headers, both.side = both.banners[:1], both.headers[:1], "client"
    both.settings.pop("RX depth", None)
    both.waits = False
    if len(both.gpus) == 2 and len(set(both.gpus)) == 1:
        both.gpus.pop()
    return [both]
