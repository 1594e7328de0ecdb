"""Parser of fio's default text output, versions 2 and 3.

Each job, or group of jobs with ``group_reporting``, has a heading ``name: (groupid=0, jobs=1): err=
0: pid=1: ...``. Below it stands for each direction, by fio's stat.c (show_ddir_status):

    read: IOPS=8962, BW=35.0MiB/s (36.7MB/s)(350MiB/10001msec)         fio 2.99 and newer
    read : io=1024.0MB, bw=100.5MB/s, iops=25728, runt= 10188msec      fio 2

with latencies and percentiles in the unit that each names, and ``issued rwts: total=R,W,T,S``. The
rates must be those of the bytes and I/Os in the time, within the printed digits. fio 2 calls 2^20
bytes MB.
"""

from __future__ import annotations

import re
from itertools import takewhile
from typing import Dict, List, Optional, Sequence, Tuple

from ...errors import ParseError
from ...reading import Line, lines_of

HEADING = r"^[ \t]*(\S[^\n:]{0,200}): \(groupid=\d+, jobs=(\d+)\): err= ?(\d+): pid=\d+"
_HEADING = re.compile(HEADING)
_JOB = re.compile(r"\s*(\S[^:]{0,200}): \(g=\d+\): (rw=.*)")
_VERSION = re.compile(r"^\s*fio-(\d\S*)$")
_NUMBER = r"\d{1,15}(?:\.\d{1,9})?"
_SIZE = rf"({_NUMBER})([KMGT]?i?B)"
_RATES = re.compile(
    rf"\s*(read|write|trim) *: *IOPS=({_NUMBER}[kM]?), BW={_SIZE}/s \([^()]*\)"
    rf"\({_SIZE}/(\d{{1,12}})msec\).*"
)
_OLD_RATES = re.compile(
    rf"\s*(read|write|trim) *: *io={_SIZE}, bw={_SIZE}/s, iops=({_NUMBER}[kM]?),"
    r" runt= *(\d{1,12})msec.*"
)
_ISSUED = re.compile(
    r"\s*issued (?:rwts|rwt|rwtd?) *: total=(\d{1,15}(?:,\d{1,15})*).*"
    r"|\s*issued *: total=r=(\d{1,15})/w=(\d{1,15})/.*"
)
_LATENCY = re.compile(
    rf"\s*(clat|lat) \((nsec|usec|msec|sec)\) *: min= *\S+, max= *\S+, avg= *({_NUMBER}[kM]?),.*"
)
_PERCENTILES = re.compile(r"\s*(clat|lat) percentiles \((nsec|usec|msec|sec)\):")
_LIKE_RATES = re.compile(r"\s*(?:read|write) *: *(?:IOPS|io)=")
_STATUS = re.compile(r"\s*Run status group")
_MOST_PERCENTILE_LINES = 40
_CELL = re.compile(r"(\d{1,3}\.\d{1,9})th=\[ *(\d{1,15})\]")
_SECONDS = {"nsec": 1e-9, "usec": 1e-6, "msec": 1e-3, "sec": 1.0}
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_COUNTS = {"k": 1e3, "M": 1e6}
_DIRECTIONS = ("read", "write", "trim")


class DirectionFigures:
    """One direction of one job while it is read: figures as printed, with the unit of their last
    digit."""

    def __init__(self, line: Line, rates: Sequence[str], *, old: bool) -> None:
        iops, rate, rate_unit, size, size_unit, time = rates
        self.line = line
        self.iops, self.iops_half = _scaled(iops)
        self.bandwidth, self.bandwidth_half = _bytes(rate, rate_unit, old=old)
        self.size, self.size_half = _bytes(size, size_unit, old=old)
        self.seconds = int(time) / 1000
        # fio 2 prints 3998.98 as 3998.2 (num2str of its lib): digits behind the point say nothing.
        if old and "." in rate:
            self.bandwidth_half *= 10.0 ** len(rate.partition(".")[2])
        self.is_size_exact = old and "." not in size
        self.all_iops = _with_carry(iops, self.iops)
        self.sizes = _with_carry(size, self.size)
        self.bandwidths = _with_carry(rate, self.bandwidth)
        self.ios: Optional[int] = None
        self.latency: Optional[float] = None
        self.percentiles: Dict[float, float] = {}
        self.percentiles_are = "lat_ns"

    def take(self, line: Line, below: Sequence[Line]) -> None:
        """Take a line of latencies or of percentiles, which go on in the lines below."""
        latency, percentiles = _LATENCY.fullmatch(line), _PERCENTILES.match(line)
        if latency and latency[1] == "lat":
            self.latency = _scaled(latency[3])[0] * _SECONDS[latency[2]]
        if percentiles:
            self.percentiles_are = f"{percentiles[1]}_ns"
            for each in takewhile(lambda other: other.lstrip().startswith("|"), below):
                for percent, value in _CELL.findall(each):
                    self.percentiles[float(percent)] = int(value) * _SECONDS[percentiles[2]]

    def check(self, name: str) -> None:
        """Refuse rates that are not those of the bytes and I/Os in the time."""
        if self.seconds <= 0 or self.bandwidth <= 0:
            raise self.line.error(f"{name} has no time or no bandwidth")
        # fio cuts a rate's digits, and a time to ms.
        slack = 0.001 / self.seconds
        rate_half = 2.02 * self.bandwidth_half + self.bandwidth * slack
        rate_half += self.size_half / self.seconds
        printed = (self.size, self.bandwidth)
        pairs = [(size, rate) for size in self.sizes for rate in self.bandwidths]
        self.size, self.bandwidth = next(
            (pair for pair in pairs if abs(pair[0] / self.seconds - pair[1]) <= rate_half), (0, 0)
        )
        if not self.bandwidth:
            raise self.line.error(
                f"{printed[1]:.4g} byte/s are not {printed[0]:.4g} bytes in {self.seconds:g} s"
            )
        if self.is_size_exact:
            self.bandwidth = self.size / self.seconds
        if self.ios is not None:
            iops_half = 2.02 * self.iops_half + self.iops * slack
            rate = self.ios / self.seconds
            if all(abs(rate - iops) > iops_half for iops in self.all_iops):
                raise self.line.error(
                    f"{self.iops:g} I/Os a second are not {self.ios} in {self.seconds:g} s"
                )
            self.iops = min(self.all_iops, key=lambda iops: abs(rate - iops))


class Group:
    """One heading and the directions below it."""

    def __init__(self, name: str, line: Line) -> None:
        self.name, self.line = name, line
        self.options: Dict[str, str] = {}
        self.directions: Dict[str, DirectionFigures] = {}

    def check(self) -> None:
        """Refuse a group without figures, or with figures that contradict each other."""
        if not self.directions:
            raise self.line.error(f"job {self.name} neither read nor wrote anything")
        for name, figures in self.directions.items():
            figures.check(name)

    def take(self, line: Line, below: Sequence[Line]) -> None:
        """Take a line below the heading."""
        if match := _RATES.fullmatch(line):
            self._begin(match[1], DirectionFigures(line, match.group(2, 3, 4, 5, 6, 7), old=False))
        elif match := _OLD_RATES.fullmatch(line):
            self._begin(match[1], DirectionFigures(line, match.group(6, 4, 5, 2, 3, 7), old=True))
        elif _LIKE_RATES.match(line):
            raise line.error("this form of the rates is not known")
        elif match := _ISSUED.fullmatch(line):
            counts = match[1].split(",") if match[1] else [match[2], match[3]]
            for name, count in zip(_DIRECTIONS, counts):
                if name in self.directions:
                    self.directions[name].ios = int(count)
        elif self.directions:
            [*_, last] = self.directions.values()
            last.take(line, below)

    def _begin(self, direction: str, figures: DirectionFigures) -> None:
        if direction in self.directions:
            raise figures.line.error(f"{direction} stands twice")
        self.directions[direction] = figures


def read_text_output(text: str) -> Tuple[List[Group], Optional[str]]:
    """The groups of the output, and fio's version where it is printed.

    Raises:
        ParseError: there is no group, a job failed, or rates contradict their bytes and times.
    """
    groups: List[Group] = []
    options: Dict[str, Dict[str, str]] = {}
    version: Optional[str] = None
    lines = lines_of(text)
    for at, line in enumerate(lines):
        if heading := _HEADING.match(line):
            if heading[3] != "0":
                raise line.error(f"job {heading[1]} ended with error {heading[3]}")
            groups.append(Group(heading[1], line))
        elif job := _JOB.match(line):
            options[job[1]] = _options(job[2])
        elif fio := _VERSION.match(line):
            version = fio[1]
        elif _STATUS.match(line):
            _refuse_second(lines[at:])
            break
        elif groups:
            groups[-1].take(line, lines[at + 1 : at + _MOST_PERCENTILE_LINES])
    if not groups:
        raise ParseError("no job '...: (groupid=0, jobs=1): err= 0: ...': fio did not end")
    for group in groups:
        group.check()
        group.options = options.get(group.name, {})
    return groups, version


def _refuse_second(below: Sequence[Line]) -> None:
    """Refuse another run below the summary of the groups, which ends a run."""
    for line in below:
        if _HEADING.match(line):
            raise line.error("a second run of fio: read one at a time")


def _options(text: str) -> Dict[str, str]:
    """The options that fio repeats of a job: ``rw=randread, bs=(R) 4096B-4096B, ...``."""
    options = dict(re.findall(r"(rw|ioengine|iodepth)=([\w-]+)", text))
    size = re.search(r"\bbs=(?:\(R\) )?([\dKMGB.i]+)-\1", text)
    return {**options, **({"bs": size[1]} if size else {})}


def _with_carry(text: str, value: float) -> List[float]:
    """The value as printed, and what it is where fio lost the carry of its digits: num2str of its
    lib prints 29.97 as 29.0."""
    whole = re.match(r"(\d*[1-9]\d*)\.0+(?!\d)", text)
    return [value, value * (1 + 1 / int(whole[1]))] if whole else [value]


def _scaled(text: str) -> Tuple[float, float]:
    """A number with k or M behind it, and half of its last digit."""
    digits = text.rstrip("kM")
    factor = _COUNTS.get(text[len(digits) :], 1.0)
    return float(digits) * factor, 0.5 * 10.0 ** -len(digits.partition(".")[2]) * factor


def _bytes(text: str, unit: str, *, old: bool) -> Tuple[float, float]:
    power = _POWERS[unit.rstrip("iB")]
    factor = float((1024 if old or "i" in unit else 1000) ** power)
    return float(text) * factor, 0.5 * 10.0 ** -len(text.partition(".")[2]) * factor
