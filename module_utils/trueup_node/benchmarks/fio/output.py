"""Parser of the output of fio 2 and 3: ``--output-format=json`` or ``json+``, and the default text.

One JSON object, which fio lays out with one key a line; notes and warnings of fio (``fio: ...``,
``note: ...``) may stand before it. Of each job and direction it gives io_bytes, bw_bytes (byte/s),
bw (KiB/s), iops, runtime (ms), total_ios and latencies in ns. ``lat`` is the time from the issue of
an I/O to its completion as the application sees it, ``clat`` without the submission (``slat``).
json+ adds the histogram that fio computes its percentiles from.

The engines filecreate, filestat and filedelete (fio 3.33 and newer have all three) make one
operation of a file where others make an I/O of a block: open with O_CREAT, stat, unlink. fio counts
that as one I/O of a block, whose bytes nothing moved, and gives the time of the system call as
``clat``; ``lat`` and ``slat`` are empty.

The keys and their arithmetic are those of fio's stat.c: bw_bytes is 1000 * io_bytes / runtime cut
to a whole number, iops 1000 * total_ios / runtime. Older versions (stat.c of 2.1.4 to 3.18):

- before 3.18 a latency has no N; before 3.13 percentiles stand in ``clat_ns``, and with
  lat_percentiles fio does not say of which latency they are;
- before 3.4 the percentiles end with ``"0.00" : 0``, as often as entries of the list are left;
- before 3.2 there is no bw_bytes;
- before 2.99 latencies are ``slat``, ``clat`` and ``lat``, in whole us; before 2.21 io_bytes is in
  KiB and there is no io_kbytes; 2.1 has iops as a whole number, and no total_ios to 2.1.13.

With ramp_time, I/Os in flight at its end count in the bytes and latencies and not in total_ios.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Any, ClassVar, NamedTuple, NoReturn, Optional

from ...errors import ParseError
from ...reading import Line, each_line, is_count, is_number, lines_of, only_json, unique
from ...record import Metric
from .text_output import HEADING, read_text_output

TOOL = "fio"
# No figure of a run is larger; sums and rates of such are finite.
_MOST = 1e100
_DIRECTIONS = ("read", "write")
_LATENCIES = ("slat_ns", "clat_ns", "lat_ns")
_OLD_LATENCIES = ("slat", "clat", "lat")
# Before 3.31 fio takes the time of issue of an asynchronous I/O a second time after it submitted
# it: clat begins after the end of slat, by 0.1 to 1.1 us on public outputs (fio@4e7e7898).
_ISSUED_ONCE = (3, 31)
_BETWEEN_NS = 2000
_NS = 1e-9
# fio's histogram has 64 bins for each power of two: a bin's middle is off by 1/128 at most.
_BIN_ERROR = 1 / 64
# fio's percentiles without percentile_list.
_DEFAULT_PERCENTILES = "1:5:10:20:30:40:50:60:70:80:90:95:99:99.5:99.9:99.95:99.99"
_MOST_DIGITS = 18  # of a bin's name
_BEGIN = re.compile(r"(?:\A|\n)\{")
_OTHER_ENDS = "\r\v\f\x1c\x1d\x1e"  # of lines, beside the line feed
# Engines that make one operation of a file where others move a block.
_OPERATIONS = {"filecreate": "create", "filestat": "stat", "filedelete": "delete"}
# Options of a job that the output may hold.
_OPTIONS = ("rw", "bs", "ioengine", "iodepth", "numjobs", "direct")


class Direction(NamedTuple):
    """Figures of one job in one direction.

    Attributes:
        bandwidth: byte/s.
        iops: I/Os per second.
        total_ios: number of I/Os; None where fio does not say (to 2.1.13).
        runtime_seconds: time behind the counts.
        mean_latency: seconds, None where fio was told not to measure it.
        percentiles: percentile to seconds, as printed; of the whole latency, or of the completion
            latency where ``percentiles_are`` says "clat_ns"; none where it says "unclear".
    """

    bandwidth: int
    iops: float
    total_ios: Optional[int]
    runtime_seconds: float
    mean_latency: Optional[float]
    latency_count: Optional[int]
    percentiles: Mapping[float, float]
    percentiles_are: str


class Job(NamedTuple):
    """One entry of fio's ``jobs``: a job, or a group of jobs with ``group_reporting``."""

    name: str
    options: Mapping[str, str]
    directions: Mapping[str, Direction]

    @property
    def operation(self) -> Optional[str]:
        """create, stat or delete where each I/O is one such operation of a file, else None."""
        return _OPERATIONS.get(self.options.get("ioengine", ""))


@dataclass(frozen=True)
class FioOutput:
    """All jobs of one run; none failed."""

    jobs: tuple[Job, ...]
    tool_version: Optional[str] = None
    warnings: list[str] = field(default_factory=list)
    # Outputs of several clients are not read.
    node_count: ClassVar[int] = 1

    @property
    def parameters(self) -> dict[str, str]:
        """The job's name and options (rw, bs, ioengine, iodepth, numjobs, direct) where all jobs
        have the same."""
        parameters = {"job": "+".join(job.name for job in self.jobs)}
        for name in _OPTIONS:
            values = {job.options.get(name) for job in self.jobs}
            value = values.pop()
            if value is not None and not values:
                parameters[name] = value
        return parameters

    @property
    def checks(self) -> dict[str, bool]:
        """That no job ended with an error: output of one that did is refused."""
        return {"no_io_error": True}

    def metrics(self) -> list[Metric]:
        """read_bandwidth, write_bandwidth [byte/s], read_iops, write_iops [1/s], read_latency,
        write_latency [s] (or ..._completion_latency, for percentiles of fio's clat). Of operations
        of files create_rate [1/s] and create_latency [s], or stat_ and delete_; never bytes. Of
        several jobs each row has the job's name as its device."""
        rows: list[Metric] = []
        several = len(self.jobs) > 1
        for job in self.jobs:
            device = re.sub(r"[^A-Za-z0-9_.:-]", "_", job.name) if several else None
            for name in job.directions:
                rows += _figures(job, name, device)
        return rows


def _figures(job: Job, name: str, device: Optional[str]) -> list[Metric]:
    """Rates and latencies of one direction; of operations of files, whose bytes were not moved,
    creates, stats or deletes."""
    done, files = job.directions[name], job.operation is not None
    percentiles = "latency" if files or done.percentiles_are == "lat_ns" else "completion_latency"
    figures: list[tuple[str, Optional[float], str, str]] = [
        ("bandwidth", None if files else float(done.bandwidth), "byte/s", "single"),
        ("rate" if files else "iops", done.iops, "1/s", "single"),
        ("latency", done.mean_latency, "s", "mean"),
        (percentiles, done.percentiles.get(50.0), "s", "median"),
        (percentiles, done.percentiles.get(99.0), "s", "p99"),
    ]
    return [
        Metric(
            *(f"{job.operation or name}_{metric}", value, unit),
            "lower" if unit == "s" else "higher",
            device=device,
            statistic=statistic,
            n=done.latency_count if unit == "s" else 1,
        )
        for metric, value, unit, statistic in figures
        if value is not None
    ]


def parse_fio(text: str) -> FioOutput:
    """Read the output of one run.

    Raises:
        ParseError: no JSON object or one cut off, a version before 2, no jobs, a job that failed or
            did no I/O, a figure that is missing or no number, or figures that contradict each
            other.
    """
    first = next((line for line in each_line(text) if line.strip()), "")
    if not first.startswith("{") and re.search(HEADING, text, re.MULTILINE):
        return _in_words(text)
    if not text.isascii() or any(end in text for end in _OTHER_ENDS):
        text = "\n".join(lines_of(text))
    return _Reader(text).output()


def _in_words(text: str) -> FioOutput:
    """The same of fio's default output, whose rates have three or four digits."""
    groups, version = read_text_output(text)
    jobs = [
        Job(
            group.name,
            group.options,
            {
                name: Direction(
                    bandwidth=round(figures.bandwidth),
                    iops=figures.iops,
                    total_ios=figures.ios,
                    runtime_seconds=figures.seconds,
                    mean_latency=figures.latency,
                    latency_count=figures.ios,
                    percentiles=figures.percentiles,
                    percentiles_are=figures.percentiles_are,
                )
                for name, figures in group.directions.items()
                if name in _DIRECTIONS
            },
        )
        for group in groups
    ]
    warnings = ["fio's output in words rounds rates to three or four digits"]
    return FioOutput(jobs=tuple(jobs), tool_version=version, warnings=warnings)


class _Reader:
    """The text with its lines, so that a refusal can name one."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._job = -1
        self.old = self.issued_twice = False

    @cached_property
    def _lines(self) -> list[Line]:
        """Needed where something is wrong: they take six times the memory of the text."""
        return lines_of(self._text)

    def output(self) -> FioOutput:
        begin = _BEGIN.search(self._text)
        if begin is None:
            raise ParseError("no JSON object: the output ends before a line that begins with {")
        data = only_json(self._text, begin.end() - 1, pairs=_members)
        version = data.get("fio version")
        match = re.fullmatch(r"fio-(([23])\.(\d+)\S*)", str(version))
        if not match:
            self.refuse(f"fio version is {version!r}, not a fio-2 or fio-3", "fio version")
        number = (int(match[2]), int(match[3]))
        self.old, self.issued_twice = number < (2, 99), number < _ISSUED_ONCE
        found_jobs = data.get("jobs")
        if not isinstance(found_jobs, list) or not found_jobs:
            self.refuse("there are no jobs in the output", "jobs")
        common = _options(data.get("global options"))
        jobs = []
        for self._job, job in enumerate(found_jobs):
            jobs.append(self._read_job(job, common))
        warnings = [
            line.strip() for line in self._text[: begin.start()].splitlines() if line.strip()
        ]
        if self.old:
            warnings.append(
                f"fio {match[1]} is older than 3: latencies are in whole microseconds, and rates "
                "are rounded"
            )
        warnings += [warning for job in jobs for warning in _unlike_others(job)]
        return FioOutput(tuple(jobs), match[1], list(dict.fromkeys(warnings)))

    def _read_job(self, job: Any, common: Mapping[str, str]) -> Job:
        if not isinstance(job, dict):
            self.refuse("a job is no JSON object", "jobs")
        name = job.get("jobname")
        if not isinstance(name, str) or not name:
            self.refuse("a job has no jobname", "jobname")
        error = job.get("error")
        if not isinstance(error, int) or isinstance(error, bool):
            self.refuse(f"job {name} does not say whether it failed (error {error!r})", "error")
        if error:
            self.refuse(f"job {name} ended with error {error}", "error")
        # fio prints them in this order; another one means that lines were moved.
        order = [key for key in job if key in (*_DIRECTIONS, "trim")]
        if order[:2] != list(_DIRECTIONS):
            self.refuse(f"job {name} has not read and write, in this order", "jobname")
        options = {**common, **_options(job.get("job options"))}
        block = _Block(self, _as_fio3(job) if self.old else job, f"job {name}")
        directions = {name: _direction(block.below(name), options) for name in _DIRECTIONS}
        done = {name: direction for name, direction in directions.items() if direction}
        if not done:
            self.refuse(f"job {name} neither read nor wrote anything", "jobname")
        return Job(name, options, done)

    def refuse(self, message: str, *path: str) -> NoReturn:
        """An error that shows the line of the last of these keys, found as fio lays out its JSON: a
        key a line, one below the other."""
        at = 0
        if self._job >= 0:
            names = [line for line in self._lines if '"jobname"' in line]
            at = names[self._job].number - 1 if len(names) > self._job else at
        key_line: Optional[Line] = None
        for key in path:
            below = (line for line in self._lines[at:] if f'"{key}" :' in line)
            key_line = next(below, key_line)
            at = key_line.number - 1 if key_line else at
        raise key_line.error(message) if key_line else ParseError(message)


class _Block(NamedTuple):
    """An object within a job's, and where it stands.

    Attributes:
        job: the job's name: "job random".
        path: the keys to it: "read", "lat_ns".
    """

    reader: _Reader
    data: Mapping[str, Any]
    job: str
    path: tuple[str, ...] = ()

    def refuse(self, message: str, *keys: str) -> NoReturn:
        self.reader.refuse(f"{', '.join((self.job, *self.path))}: {message}", *self.path, *keys)

    def below(self, key: str) -> _Block:
        """The object under a key; an empty one where there is no such key."""
        data = self.data.get(key, {})
        if not isinstance(data, dict):
            self.refuse(f"{key} is no JSON object", key)
        return _Block(self.reader, data, self.job, (*self.path, key))

    def number(self, key: str) -> float:
        """A figure, 0 or more."""
        value: Any = self.data.get(key)
        if key not in self.data:
            self.refuse(f"{key} is missing")
        if not _is_figure(value):
            self.refuse(f"{key} {value!r} is not a positive number", key)
        return float(value)

    def count(self, key: str) -> int:
        """A whole figure, 0 or more."""
        value: Any = self.data.get(key, 0)
        if type(value) is not int:
            self.refuse(f"{key} {value!r} is not a whole number", key)
        self.number(key)
        return int(value)


class _Times(NamedTuple):
    """One of a direction's three latencies, in ns, of so many I/Os."""

    block: _Block
    least: int
    most: int
    mean: float
    ios: int
    percentiles: Mapping[float, float]


def _as_fio3(job: Mapping[str, Any]) -> dict[str, Any]:
    """A job of fio 2 in the keys and units of fio 3."""
    converted = dict(job)
    for name in _DIRECTIONS:
        if isinstance(job.get(name), dict):
            figures = {key: value for key, value in job[name].items() if key not in _LATENCIES}
            for key in [key for key in figures if key in _OLD_LATENCIES]:
                figures[f"{key}_ns"] = _times_1000(figures.pop(key))
            if "io_kbytes" not in figures and is_count(figures.get("io_bytes")):
                figures["io_kbytes"] = figures["io_bytes"]
                figures["io_bytes"] *= 1024
            converted[name] = figures
    return converted


def _times_1000(value: Any) -> Any:
    """us as ns, also those that name the bins of a histogram."""
    if not isinstance(value, dict):
        return 1000 * value if is_number(value) else value
    bins = value.get("bins")
    converted = {key: _times_1000(below) for key, below in value.items() if key != "bins"}
    if isinstance(bins, dict):
        converted["bins"] = {f"{key}000": number for key, number in bins.items()}
    return converted


def _unlike_others(job: Job) -> list[str]:
    """Warnings for the reader of a job's latencies."""
    warnings = []
    for name, done in job.directions.items():
        if done.mean_latency is None:
            warnings.append(f"job {job.name}: fio measured no {name} latency")
        elif done.percentiles_are == "unclear":
            warnings.append(
                f"job {job.name}: fio before 3.13 does not say of which latency its percentiles "
                "are: they are left out"
            )
        elif done.percentiles_are == "clat_ns" and done.percentiles and not job.operation:
            warnings.append(f"job {job.name}: percentiles are of the completion latency (clat)")
    return warnings


def _direction(block: _Block, options: Mapping[str, str]) -> Optional[Direction]:
    """The figures of one direction; None where nothing was done."""
    io_bytes, runtime = block.count("io_bytes"), block.count("runtime")
    total = block.count("total_ios") if "total_ios" in block.data or not block.reader.old else None
    bandwidth = _check_rates(block, io_bytes, runtime, total)
    # I/Os in flight at the end of ramp_time count in the bytes and latencies, not in total_ios.
    in_flight = _whole(options.get("iodepth")) * _whole(options.get("numjobs"))
    in_flight *= "ramp_time" in options
    _check_block_size(block, io_bytes, total, in_flight, options)
    slat, clat, lat = _latencies(block, total)
    if not io_bytes:
        return None
    _check_percentiles(block, (clat, lat), options)
    _agree(slat, clat, lat, in_flight)
    if lat.ios and total is not None and not 0 <= lat.ios - total <= in_flight:
        block.refuse(f"latency of {lat.ios} of {total} I/Os", "lat_ns", "N")
    latency = _whole_latency(block, (clat, lat), total, options)
    of = lat if lat.percentiles else clat
    # Before 3.13 they stand in clat_ns, whichever of the two they are of.
    unclear = options.get("lat_percentiles", "0") != "0" and of is clat and bool(of.percentiles)
    return Direction(
        bandwidth=bandwidth,
        iops=block.number("iops"),
        total_ios=total,
        runtime_seconds=runtime / 1000,
        mean_latency=latency.mean * _NS if latency.ios else None,
        latency_count=None if total is None else lat.ios or clat.ios,
        percentiles={
            percent: value * _NS for percent, value in of.percentiles.items() if not unclear
        },
        percentiles_are="unclear" if unclear else of.block.path[-1],
    )


def _whole_latency(
    block: _Block, latencies: Sequence[_Times], total: Optional[int], options: Mapping[str, str]
) -> _Times:
    """Which of clat and lat is the whole latency: of operations of files the first."""
    clat, lat = latencies
    if options.get("ioengine") in _OPERATIONS:
        if lat.ios or clat.ios not in (0, total):
            block.refuse(f"latency of {clat.ios} of {total} operations of files", "clat_ns", "N")
        return clat
    if clat.ios and not lat.ios and not {"ioengine", "disable_lat"} & set(options):
        block.refuse("no ioengine, and latencies as of operations of files", "clat_ns")
    return lat


def _check_rates(block: _Block, io_bytes: int, runtime: int, total: Optional[int]) -> int:
    """io_bytes, bw_bytes, runtime, total_ios and iops say the same twice; returns byte/s."""
    kbytes, bw, iops = block.count("io_kbytes"), block.count("bw"), block.number("iops")
    old = block.reader.old
    rate = io_bytes * 1000 // runtime if runtime else 0
    bandwidth = block.count("bw_bytes") if "bw_bytes" in block.data else rate
    if kbytes != io_bytes // 1024:
        block.refuse(f"io_kbytes {kbytes} is not io_bytes {io_bytes} / 1024", "io_kbytes")
    # Where bytes are cut to KiB, a rate of KiB/s is exact to one KiB over that time.
    if not 0 <= bw - bandwidth // 1024 <= (1000 // runtime + 1 if old and runtime else 0):
        block.refuse(f"bw {bw} KiB/s is not bw_bytes {bandwidth} / 1024", "bw")
    if total is not None and (total == 0) != (io_bytes == 0):
        block.refuse(f"{total} I/Os moved {io_bytes} bytes", "total_ios")
    if io_bytes and not runtime:
        block.refuse(f"{io_bytes} bytes in a runtime of 0 ms", "runtime")
    if bandwidth != rate:
        block.refuse(f"bw_bytes {bandwidth} is not io_bytes {io_bytes} in {runtime} ms", "bw_bytes")
    if total is not None:
        expected = total * 1000 / runtime if runtime else 0.0
        # fio 2 prints two decimals, 2.1 none.
        slack = 1.5e-6 if not old else 1.0 if iops == int(iops) else 0.006
        if not math.isclose(iops, expected, abs_tol=slack, rel_tol=1e-9):
            block.refuse(f"iops {iops} is not total_ios {total} in {runtime} ms", "iops")
    return bandwidth


def _check_block_size(
    block: _Block, io_bytes: int, total: Optional[int], in_flight: int, options: Mapping[str, str]
) -> None:
    """One block size for all I/Os: their number and their bytes must agree."""
    size = _bytes(options.get("bs")) if not {"bssplit", "bsrange"} & set(options) else None
    if not size or total is None or block.count("short_ios"):
        return
    slack = 1023 if block.reader.old else 0  # bytes of fio 2 are cut to KiB
    if not 0 <= io_bytes + slack - total * size <= in_flight * size + 1023:
        block.refuse(f"{total} I/Os of {size} bytes are not {io_bytes} bytes", "total_ios")


def _latencies(block: _Block, total: Optional[int]) -> list[_Times]:
    if [key for key in block.data if key in _LATENCIES] != list(_LATENCIES):
        block.refuse("slat_ns, clat_ns and lat_ns are not all there, in this order")
    return [_times(block.below(key), total) for key in _LATENCIES]


def _times(block: _Block, total: Optional[int]) -> _Times:
    least, most, mean = block.count("min"), block.count("max"), block.number("mean")
    # Before 3.18 fio does not say of how many: of all I/Os, where it measured any.
    count = block.count("N") if "N" in block.data else most and (1 if total is None else total)
    slack = 1e-9 * mean + 1e-6
    if not least - slack <= mean <= most + slack:
        block.refuse(f"mean {mean} is not between min {least} and max {most}", "mean")
    if (count == 0) != (most == 0):
        block.refuse(f"max {most} of {count} I/Os", "N")
    times = _Times(block, least, most, mean, count, _percentiles(block))
    if not count:
        return times._replace(percentiles={})
    _check_order(times)
    if "bins" in block.data:
        _check_bins(times)
    return times


def _percentiles(block: _Block) -> dict[float, float]:
    """Percentile to ns."""
    percentiles: dict[float, float] = {}
    for label, value in block.below("percentile").data.items():
        percent = _float(label)
        if percent is None or not 0 < percent <= 100 or not _is_figure(value):
            block.refuse(f"percentile {label!r} is {value!r}", "percentile", label)
        percentiles[percent] = float(value)
    return percentiles


def _check_order(times: _Times) -> None:
    percentiles = times.percentiles
    percents, values = list(percentiles), list(percentiles.values())
    if values != sorted(values) or percents != sorted(percents):
        times.block.refuse("the percentiles do not rise", "percentile")
    low, high = times.least * (1 - _BIN_ERROR) - 1, times.most * (1 + _BIN_ERROR) + 1
    if values and not low <= values[0] <= values[-1] <= high:
        times.block.refuse(
            f"percentiles of {values[0]:g} to {values[-1]:g} are not between min and max",
            "percentile",
        )


def _listed(text: str) -> list[float]:
    """The percentiles of a percentile_list, which rise."""
    return sorted(
        float(percentile) for percentile in text.split(":") if _float(percentile) is not None
    )


def _check_percentiles(
    block: _Block, latencies: Sequence[_Times], options: Mapping[str, str]
) -> None:
    """The percentiles are those that the options ask for: of lat with lat_percentiles, else of
    clat unless clat_percentiles is 0."""
    expected = _listed(options.get("percentile_list", _DEFAULT_PERCENTILES))
    expected_key = "clat_ns" if options.get("clat_percentiles", "1") != "0" else ""
    lat = latencies[-1]
    # Before 3.13 (and N came later) they stand in clat_ns all the same.
    if options.get("lat_percentiles", "0") != "0" and (lat.percentiles or "N" in lat.block.data):
        expected_key = "lat_ns"
    if block.reader.old and "percentile_list" not in options:
        return
    for times in latencies:
        key, percents = times.block.path[-1], sorted(times.percentiles)
        if times.ios and (percents or key == expected_key) and percents != expected:
            block.refuse(f"{key} has the percentiles {percents}, not {expected}", key)


def _check_bins(times: _Times) -> None:
    """The histogram of json+: its sum, its mean and its percentiles are the printed ones."""
    block = times.block
    counts = _counted(block)
    middles, reached = list(counts), list(accumulate(counts.values()))
    total = reached[-1] if reached else 0
    if total != times.ios and "N" in block.data:
        block.refuse(f"the bins hold {total} I/Os, N is {times.ios}", "bins")
    if not total:
        block.refuse("the bins hold no I/Os", "bins")
    mean = sum(middle * count for middle, count in counts.items()) / total
    if abs(mean - times.mean) > _BIN_ERROR * times.mean + 1:
        block.refuse(f"the bins' mean is {mean:.0f}, the printed one {times.mean:.0f}", "mean")
    for percent, value in times.percentiles.items():
        # The middle of the bin in which that share of the I/Os is reached, as fio takes it.
        bin_index = min(bisect_left(reached, percent / 100 * total), len(middles) - 1)
        if value != (expected := middles[bin_index]):
            block.refuse(
                f"the bins' percentile {percent:g} is {expected}, the printed one {value:.0f}",
                "percentile",
            )


def _counted(block: _Block) -> dict[int, int]:
    """I/Os by the middle of their bin, ns, which rises."""
    counts: dict[int, int] = {}
    for label, number in block.below("bins").data.items():
        if not (label.isdecimal() and len(label) <= _MOST_DIGITS) or not is_count(number):
            block.refuse(f"bin {label!r} holds {number!r}", "bins", label)
        counts[int(label)] = number
    return dict(sorted(counts.items()))


def _agree(slat: _Times, clat: _Times, lat: _Times, in_flight: int) -> None:
    """Submission and completion make the whole latency, I/O by I/O; of synchronous engines fio
    has no submission latency."""
    if not lat.ios or clat.ios != lat.ios:
        return
    # fio 2 measures in whole us, and does not count an I/O that it issues again in all three.
    mean_sum, slack = slat.mean + clat.mean, 2000 + 0.01 * lat.mean if lat.block.reader.old else 1
    # At the end of ramp_time I/Os in flight have a latency and no submission.
    slack += in_flight * lat.most / lat.ios
    between = _BETWEEN_NS if lat.block.reader.issued_twice else 0
    over = lat.mean - mean_sum
    rounding = slack + 1e-6 * lat.mean
    if slat.ios == lat.ios and not -rounding <= over <= rounding + between:
        lat.block.refuse(
            f"slat {slat.mean} and clat {clat.mean} ns do not make lat {lat.mean}", "mean"
        )
    if clat.mean > lat.mean * (1 + 1e-6) + slack:
        lat.block.refuse(f"clat {clat.mean} ns is longer than lat {lat.mean}", "mean")


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object's members. fio before 3.4 fills up a list of percentiles, and options, which are
    text, may be given twice."""
    pairs = [pair for pair in pairs if pair != ("0.00", 0)]
    return dict(pairs) if all(type(value) is str for _, value in pairs) else unique(pairs)


def _options(data: Any) -> dict[str, str]:
    return {str(key): str(value) for key, value in data.items()} if isinstance(data, dict) else {}


def _bytes(text: Optional[str]) -> Optional[int]:
    """fio's block size (``4k``, ``1m``, ``4096``), None for anything but one plain size."""
    match = re.fullmatch(r"(\d+)([kmKM]?)(?:i?[bB])?", text or "")
    if not match:
        return None
    return int(match.group(1)) * {"": 1, "k": 1024, "m": 1024**2}[match.group(2).lower()]


def _whole(text: Optional[str]) -> int:
    return int(text) if text and text.isdecimal() else 1


def _is_figure(value: Any) -> bool:
    return is_number(value) and 0 <= value < _MOST


def _float(value: Any) -> Optional[float]:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None
