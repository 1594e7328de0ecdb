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

import json
import math
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import accumulate, takewhile
from operator import mul
from typing import Any, Callable, ClassVar, NamedTuple, NoReturn, Optional, cast

from ...errors import ParseError
from ...reading import Line, each_line, is_count, is_number, lines_of, refuse_after, whole_number
from ...record import Metric
from .text_output import HEADING, read_text_output

TOOL = "fio"
# No figure of a run is larger; sums and rates of such are finite.
_MOST = 1e100
_NUMBERS = (int, float)

_DIRECTIONS = ("read", "write")
_LATENCIES = ("slat_ns", "clat_ns", "lat_ns")
_OLD_LATENCIES = ("slat", "clat", "lat")
# Before 3.31 fio takes the time of issue of an asynchronous I/O a second time after it submitted
# it: clat begins after the end of slat, by 0.1 to 1.1 us on public outputs (fio@4e7e7898).
_ISSUED_ONCE = (3, 31)
_BETWEEN_NS = 2000
_STATISTICS = ((50.0, "median"), (99.0, "p99"))
_NS = 1e-9
# fio's histogram has 64 bins for each power of two: a bin's middle is off by 1/128 at most.
_BIN_ERROR = 1 / 64
# fio's percentiles without percentile_list.
_DEFAULT_PERCENTILES = "1:5:10:20:30:40:50:60:70:80:90:95:99:99.5:99.9:99.95:99.99"
# Engines that make one operation of a file where others move a block.
_OPERATIONS = {"filecreate": "create", "filestat": "stat", "filedelete": "delete"}
_MOST_DIGITS = 18  # of a bin's name
# Where jobs begin, the text between them, and the other keys that are read of their object.
_JOBS = re.compile(r'"jobs"[ \t\n\r]*:[ \t\n\r]*\[[ \t\n\r]*')
_NEXT_JOB = re.compile(r"[ \t\n\r]*,[ \t\n\r]*")
_ABOVE_JOBS = ("fio version", "global options")
# Line ends beside the line feed.
_OTHER_ENDS = "\r\v\f\x1c\x1d\x1e"
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
            for name, done in job.directions.items():
                rows += _figures(job.operation or name, done, device, files=bool(job.operation))
        return rows


def _figures(name: str, done: Direction, device: Optional[str], *, files: bool) -> list[Metric]:
    """Rates and latencies of one direction; of operations of files, whose bytes were not moved,
    creates, stats or deletes."""

    def row(
        metric: str, value: float, unit: str, better: str, statistic: str, n: Optional[int]
    ) -> Metric:
        return Metric(
            f"{name}_{metric}", value, unit, better, device=device, statistic=statistic, n=n
        )

    rates = [("rate" if files else "iops", done.iops, "1/s")]
    if not files:
        rates.insert(0, ("bandwidth", float(done.bandwidth), "byte/s"))
    rows = [row(metric, value, unit, "higher", "single", 1) for metric, value, unit in rates]
    percentiles = "latency" if files or done.percentiles_are == "lat_ns" else "completion_latency"
    latencies = [("latency", "mean", done.mean_latency)]
    latencies += [
        (percentiles, statistic, done.percentiles.get(percent))
        for percent, statistic in _STATISTICS
    ]
    return rows + [
        row(metric, value, "s", "lower", statistic, done.latency_count)
        for metric, statistic, value in latencies
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
        self.middles: dict[str, int] = {}  # of bins by their labels: fio has less than 2000

    @cached_property
    def _lines(self) -> list[Line]:
        """Needed where something is wrong: they take six times the memory of the text."""
        return lines_of(self._text)

    def output(self) -> FioOutput:
        before = list(takewhile(lambda line: not line.startswith("{"), each_line(self._text)))
        try:
            return self._output(before, *self._by_job(sum(len(line) + 1 for line in before)))
        except (ParseError, _Unreadable, ValueError, RecursionError):
            # The whole output names the error, if there is more than a layout unlike fio's.
            self._job, self.old = -1, False
        return self._output(before, self._decode(len(before)))

    def _output(
        self, before: Sequence[str], data: Mapping[str, Any], each: Optional[Iterator[Any]] = None
    ) -> FioOutput:
        """The result of an object below these lines; ``each`` has the jobs if ``data`` has not."""
        version = data.get("fio version")
        match = re.fullmatch(r"fio-(([23])\.(\d+)\S*)", str(version))
        if not match:
            self.refuse(f"fio version is {version!r}, not a fio-2 or fio-3", "fio version")
        number = (int(match[2]), int(match[3]))
        self.old, self.issued_twice = number < (2, 99), number < _ISSUED_ONCE
        jobs = data.get("jobs")
        if each is None and (not isinstance(jobs, list) or not jobs):
            self.refuse("there are no jobs in the output", "jobs")
        common = _options(data.get("global options"))
        read = []
        for self._job, job in enumerate(each or jobs or ()):
            read.append(self._read_job(job, common))
        warnings = [line.strip() for line in before if line.strip()]
        if self.old:
            warnings.append(
                f"fio {match[1]} is older than 3: latencies are in whole microseconds, and rates "
                "are rounded"
            )
        warnings += [warning for job in read for warning in _unlike_others(job)]
        return FioOutput(
            jobs=tuple(read), tool_version=match.group(1), warnings=list(dict.fromkeys(warnings))
        )

    def _by_job(self, start: int) -> tuple[dict[str, Any], Iterator[Any]]:
        """The members above the jobs, and the jobs, each read on demand: all of them together take
        twice the memory of the text.

        Raises:
            _Unreadable, ValueError, RecursionError: here or at a job, something is wrong, or laid
                out otherwise than by fio.
        """
        text = self._text
        begun = _JOBS.search(text, start)
        if not text.isascii() or any(end in text for end in _OTHER_ENDS) or not begun:
            raise ValueError("not as fio writes it")
        decode = _decoder()
        above, _ = decode(text[start : begun.end()] + "]}", 0)

        def jobs(at: int) -> Iterator[Any]:
            job, end = decode(text, at)
            yield job
            while after := _NEXT_JOB.match(text, end):
                job, end = decode(text, after.end())
                yield job
            rest = text[start:at] + text[end:]
            data, end = decode(rest, 0)
            same = all(data.get(name) == above.get(name) for name in _ABOVE_JOBS)
            alone = data.get("jobs") == [] and rest.count('"jobs"') == 1
            if not same or not alone or rest[end:].strip():
                raise ValueError("not as fio writes it")

        return above, jobs(begun.end())

    def _decode(self, start: int) -> dict[str, Any]:
        if start == len(self._lines):
            raise ParseError("no JSON object: the output ends before a line that begins with {")
        text = "\n".join(self._lines[start:])
        first = self._lines[start]
        try:
            data, end = _decoder()(text, 0)
        except json.JSONDecodeError as error:
            at = start + error.lineno
            line = self._lines[at - 1] if at <= len(self._lines) else Line("", at)
            raise line.error(f"the JSON is cut off or damaged ({error.msg})") from None
        except _Unreadable as error:
            line = self._line([error.key], start) or first
            raise Line(error.key, line.number).error(str(error)) from None
        except ValueError as error:
            raise first.error(f"the JSON is damaged: {error}") from None
        except RecursionError:
            raise first.error("the JSON is nested too deeply for fio's") from None
        last = text.count("\n", 0, end)
        rest = text[end:].partition("\n")[0]
        refuse_after(
            [Line(rest, first.number + last), *self._lines[start + last + 1 :]],
            "text after the JSON object; give fio --output-format=json alone",
        )
        if not isinstance(data, dict):
            raise first.error("the JSON is no object")
        return data

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
        line = self._line(path, 0)
        raise line.error(message) if line else ParseError(message)

    def _line(self, path: Sequence[str], start: int) -> Optional[Line]:
        """The line of a key, found as fio lays out its JSON: a key a line, in the order of
        ``path``."""
        at = start
        if self._job >= 0:
            names = [line for line in self._lines[start:] if '"jobname"' in line]
            at = names[self._job].number - 1 if len(names) > self._job else at
        key_line = None
        for key in path:
            below = (line for line in self._lines[at:] if f'"{key}" :' in line)
            key_line = next(below, key_line)
            at = key_line.number - 1 if key_line else at
        return key_line


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

    @property
    def coarse(self) -> bool:
        """Whether fio 2 has printed it: whole us and KiB."""
        return self.reader.old

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
        if type(value) in _NUMBERS and 0 <= value < _MOST:
            return float(value)
        if key not in self.data:
            self.refuse(f"{key} is missing")
        if not is_number(value):
            self.refuse(f"{key} {value!r} is not a number", key)
        return self.refuse(f"{key} {value!r} is not a positive number", key)

    def count(self, key: str) -> int:
        """A whole figure, 0 or more."""
        value = self.data.get(key, 0)
        if type(value) is not int:
            self.refuse(f"{key} {value!r} is not a whole number", key)
        if key not in self.data or not 0 <= value < _MOST:
            self.number(key)
        return value


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
            converted[name] = {
                f"{key}_ns" if key in _OLD_LATENCIES else key: (
                    _times_1000(value) if key in _OLD_LATENCIES else value
                )
                for key, value in job[name].items()
                if key not in _LATENCIES
            }
            if "io_kbytes" not in job[name] and is_count(job[name].get("io_bytes")):
                converted[name]["io_kbytes"] = job[name]["io_bytes"]
                converted[name]["io_bytes"] = 1024 * job[name]["io_bytes"]
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
    total = block.count("total_ios") if "total_ios" in block.data or not block.coarse else None
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
    rate = io_bytes * 1000 // runtime if runtime else 0
    bandwidth = block.count("bw_bytes") if "bw_bytes" in block.data else rate
    if kbytes != io_bytes // 1024:
        block.refuse(f"io_kbytes {kbytes} is not io_bytes {io_bytes} / 1024", "io_kbytes")
    # Where bytes are cut to KiB, a rate of KiB/s is exact to one KiB over that time.
    if not 0 <= bw - bandwidth // 1024 <= (1000 // runtime + 1 if block.coarse and runtime else 0):
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
        slack = 1.0 if block.coarse and iops == int(iops) else 0.006 if block.coarse else 1.5e-6
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
    if not 0 <= io_bytes + (1023 if block.coarse else 0) - total * size <= in_flight * size + 1023:
        block.refuse(f"{total} I/Os of {size} bytes are not {io_bytes} bytes", "total_ios")


def _latencies(block: _Block, total: Optional[int]) -> list[_Times]:
    if [key for key in block.data if key in _LATENCIES] != list(_LATENCIES):
        block.refuse("slat_ns, clat_ns and lat_ns are not all there, in this order")
    return [_times(block.below(key), total) for key in _LATENCIES]


def _times(block: _Block, total: Optional[int]) -> _Times:
    least, most, mean = block.count("min"), block.count("max"), block.number("mean")
    # Before 3.18 fio does not say of how many: of all I/Os, where it measured any.
    count = block.count("N") if "N" in block.data else most and (1 if total is None else total)
    slack = (1 + 1e-9, 1e-6)
    if not least <= mean * slack[0] + slack[1] or not mean <= most * slack[0] + slack[1]:
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
    values_by_label = block.below("percentile").data
    percentiles: dict[float, float] = {}
    for label, value in values_by_label.items():
        percent = _float(label)
        is_percent = percent is not None and 0 < percent <= 100
        if percent is None or not is_percent or not is_number(value) or not 0 <= value < _MOST:
            block.refuse(f"percentile {label!r} is {value!r}", "percentile", label)
        percentiles[percent] = float(value)
    return percentiles


def _check_order(times: _Times) -> None:
    percentiles = times.percentiles
    percents, values = list(percentiles), list(percentiles.values())
    if values != sorted(values) or percents != sorted(percents):
        times.block.refuse("the percentiles do not rise", "percentile")
    low, high = times.least * (1 - _BIN_ERROR) - 1, times.most * (1 + _BIN_ERROR) + 1
    for percent, value in percentiles.items():
        if not low <= value <= high:
            times.block.refuse(
                f"percentile {percent:g} {value:g} is not between min and max", "percentile"
            )


@lru_cache(maxsize=16)  # jobs of a run have the same
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
    for times in latencies:
        key, percents = times.block.path[-1], sorted(times.percentiles)
        has_known_list = not times.block.coarse or "percentile_list" in options
        if (
            times.ios
            and has_known_list
            and (percents or key == expected_key)
            and percents != expected
        ):
            block.refuse(f"{key} has the percentiles {percents}, not {expected}", key)


def _check_bins(times: _Times) -> None:
    """The histogram of json+: its sum, its mean and its percentiles are the printed ones."""
    block = times.block
    middles, counts = _counted(block)
    reached = list(accumulate(counts))
    total = reached[-1] if reached else 0
    if total != times.ios and "N" in block.data:
        block.refuse(f"the bins hold {total} I/Os, N is {times.ios}", "bins")
    if not total:
        block.refuse("the bins hold no I/Os", "bins")
    mean = sum(map(mul, middles, counts)) / total
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


def _counted(block: _Block) -> tuple[list[int], list[int]]:
    """The middles of the bins, ns, which rise, and the I/Os in each."""
    bins, middle_by_label = block.below("bins").data, block.reader.middles
    middles, counts = list(map(middle_by_label.get, bins)), list(bins.values())
    if unknown := None in middles:
        # Only as a number is printed: no two are the same one.
        number_by_label = {label: int(label) for label in bins if _is_bin(label)}
        middle_by_label.update(
            {label: middle for label, middle in number_by_label.items() if str(middle) == label}
        )
        middles = list(map(middle_by_label.get, bins))
        unknown = None in middles
    plain = not unknown and set(map(type, counts)) <= {int} and min(counts, default=0) >= 0
    if plain and middles == sorted(rising := cast(list[int], middles)):
        return rising, counts
    counted: dict[int, int] = {}
    for label, number in bins.items():
        if not _is_bin(label) or not isinstance(number, int) or number < 0:
            block.refuse(f"bin {label!r} holds {number!r}", "bins", label)
        counted[int(label)] = number
    return sorted(counted), [counted[middle] for middle in sorted(counted)]


def _is_bin(label: str) -> bool:
    return label.isascii() and label.isdigit() and len(label) <= _MOST_DIGITS


def _agree(slat: _Times, clat: _Times, lat: _Times, in_flight: int) -> None:
    """Submission and completion make the whole latency, I/O by I/O; of synchronous engines fio
    has no submission latency."""
    if not lat.ios or clat.ios != lat.ios:
        return
    # fio 2 measures in whole us, and does not count an I/O that it issues again in all three.
    mean_sum, slack = slat.mean + clat.mean, 2000 + 0.01 * lat.mean if lat.block.coarse else 1
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


class _Unreadable(Exception):
    """An error of the JSON decoder, which cannot name its line."""

    def __init__(self, message: str, key: str) -> None:
        self.key = key
        super().__init__(message)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) == len(pairs) and "0.00" not in members:
        return members
    # How fio before 3.4 fills up a list of percentiles.
    pairs = [pair for pair in pairs if pair != ("0.00", 0)]
    members = dict(pairs)
    # Options may be given twice, and are all text; figures may not.
    if len(members) != len(pairs) and not all(isinstance(value, str) for _, value in pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _Unreadable(f"{twice} stands twice in one JSON object", twice)
    return members


def _no_constant(name: str) -> NoReturn:
    raise _Unreadable(f"{name} is not a finite number", name)


class _WholeNumbers(dict[str, int]):
    """Whole numbers by their text, each read once: most of a histogram's are the same."""

    def __missing__(self, text: str) -> int:
        self[text] = number = whole_number(text)
        return number


def _decoder() -> Callable[[str, int], tuple[Any, int]]:
    """A function that gives the value that begins at a position of a text, and its end."""
    return json.JSONDecoder(
        object_pairs_hook=_unique,
        parse_constant=_no_constant,
        parse_int=_WholeNumbers().__getitem__,
    ).raw_decode


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


def _float(value: Any) -> Optional[float]:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None
