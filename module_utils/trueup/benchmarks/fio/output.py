"""What fio 3 prints with ``--output-format=json`` or ``json+``.

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
to a whole number, iops 1000 * total_ios / runtime.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, NoReturn, Optional, Sequence, Tuple

from ...errors import ParseError, refuse_long_numbers
from ...record import Metric

__all__ = ["TOOL", "Direction", "FioOutput", "Job", "parse_fio", "recognises"]

TOOL = "fio"

_DIRECTIONS = ("read", "write")
_LATENCIES = ("slat_ns", "clat_ns", "lat_ns")
_STATISTICS = ((50.0, "median"), (99.0, "p99"))
_VERSION = re.compile(r"fio-(3\.\d\S*)")
_NS = 1e-9
# fio's histogram has 64 bins for each power of two: a bin's middle is off by 1/128 at most.
_BIN_ERROR = 1 / 64
# What fio prints when it is given no percentile_list.
_DEFAULT_PERCENTILES = "1:5:10:20:30:40:50:60:70:80:90:95:99:99.5:99.9:99.95:99.99"
_STANDARD_ERROR = "[standard error]"
# Engines that make one operation of a file where others move a block.
_OPERATIONS = {"filecreate": "create", "filestat": "stat", "filedelete": "delete"}
# What the output itself says of a job, if it says so.
_OPTIONS = ("rw", "bs", "ioengine", "iodepth", "numjobs", "direct")


@dataclass(frozen=True)
class Direction:
    """What one job did in one direction.

    Attributes:
        bandwidth: byte/s.
        iops: I/Os per second.
        total_ios, io_bytes: what was counted.
        runtime_seconds: time behind the counts.
        mean_latency: seconds, None where fio was told not to measure it.
        percentiles: percentile to seconds, as printed; of the whole latency, or of the completion
            latency where ``percentiles_are`` says "clat_ns".
    """

    bandwidth: int
    iops: float
    total_ios: int
    io_bytes: int
    runtime_seconds: float
    mean_latency: Optional[float]
    latency_count: int
    percentiles: Mapping[float, float]
    percentiles_are: str


@dataclass(frozen=True)
class Job:
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

    jobs: Tuple[Job, ...]
    tool_version: Optional[str] = None
    warnings: List[str] = field(default_factory=list)

    @property
    def parameters(self) -> Dict[str, str]:
        """The job's name and options (rw, bs, ioengine, iodepth, numjobs, direct) where all jobs
        have the same."""
        found = {"job": "+".join(job.name for job in self.jobs)}
        for name in _OPTIONS:
            values = {job.options.get(name) for job in self.jobs}
            value = values.pop()
            if value is not None and not values:
                found[name] = value
        return found

    @property
    def checks(self) -> Dict[str, bool]:
        """That no job ended with an error: output of one that did is refused."""
        return {"no_io_error": True}

    def metrics(self) -> List[Metric]:
        """read_bandwidth, write_bandwidth [byte/s], read_iops, write_iops [1/s], read_latency,
        write_latency [s] (or ..._completion_latency, for percentiles of fio's clat). Of operations
        of files create_rate [1/s] and create_latency [s], or stat_ and delete_; never bytes. Of
        several jobs each row has the job's name as its device."""
        rows: List[Metric] = []
        several = len(self.jobs) > 1
        for job in self.jobs:
            device = re.sub(r"[^A-Za-z0-9_.:-]", "_", job.name) if several else None
            for name, done in job.directions.items():
                if job.operation:
                    rows += _operations(job.operation, done, device)
                else:
                    rows += _rows(name, done, device)
        return rows


def _operations(name: str, done: Direction, device: Optional[str]) -> List[Metric]:
    """Rate and latency of creates, stats or deletes. The bytes that fio prints were not moved."""

    def row(metric: str, value: float, unit: str, better: str, statistic: str, n: int) -> Metric:
        return Metric(
            f"{name}_{metric}", value, unit, better, device=device, statistic=statistic, n=n
        )

    rows = [row("rate", done.iops, "1/s", "higher", "single", 1)]
    values = {"mean": done.mean_latency}
    values.update({label: done.percentiles.get(percent) for percent, label in _STATISTICS})
    rows += [
        row("latency", value, "s", "lower", statistic, done.latency_count)
        for statistic, value in values.items()
        if value is not None
    ]
    return rows


def _rows(name: str, done: Direction, device: Optional[str]) -> List[Metric]:
    def row(metric: str, value: float, unit: str, better: str, statistic: str, n: int) -> Metric:
        return Metric(
            f"{name}_{metric}", value, unit, better, device=device, statistic=statistic, n=n
        )

    rows = [
        row("bandwidth", float(done.bandwidth), "byte/s", "higher", "single", 1),
        row("iops", done.iops, "1/s", "higher", "single", 1),
    ]
    count = done.latency_count
    if done.mean_latency is not None:
        rows.append(row("latency", done.mean_latency, "s", "lower", "mean", count))
    kind = "latency" if done.percentiles_are == "lat_ns" else "completion_latency"
    for percentile, statistic in _STATISTICS:
        if percentile in done.percentiles:
            rows.append(row(kind, done.percentiles[percentile], "s", "lower", statistic, count))
    return rows


def recognises(text: str) -> bool:
    """Whether this is fio's JSON output, whole or damaged."""
    return '"fio version"' in text or ('"jobname"' in text and '"total_ios"' in text)


def parse_fio(text: str) -> FioOutput:
    """Read the output of one run.

    Raises:
        ParseError: no JSON object or one cut off, a version before 3, no jobs, a job that failed or
            did no I/O, a figure that is missing or no number, or figures that contradict each
            other.
    """
    refuse_long_numbers(text)
    return _Reader(text).output()


class _Reader:
    """The text with its lines, so that a refusal can name one."""

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines()
        self._job = -1

    def output(self) -> FioOutput:
        start = next((n for n, line in enumerate(self._lines) if line.startswith("{")), None)
        if start is None:
            raise ParseError("no JSON object: the output ends before a line that begins with {")
        data = self._decode(start)
        version = data.get("fio version")
        match = _VERSION.fullmatch(version) if isinstance(version, str) else None
        if not match:
            self._refuse(f"fio version is {version!r}, not a fio-3", "fio version")
        jobs = data.get("jobs")
        if not isinstance(jobs, list) or not jobs:
            self._refuse("there are no jobs in the output", "jobs")
        common = _options(data.get("global options"))
        read = []
        for self._job, job in enumerate(jobs):
            read.append(self._read_job(job, common))
        warnings = [line.strip() for line in self._lines[:start] if line.strip()]
        for job in read:
            for name, done in job.directions.items():
                if done.mean_latency is None:
                    warnings.append(f"job {job.name}: fio measured no {name} latency")
                elif done.percentiles_are == "clat_ns" and done.percentiles and not job.operation:
                    warnings.append(
                        f"job {job.name}: percentiles are of the completion latency (clat)"
                    )
        return FioOutput(
            jobs=tuple(read), tool_version=match.group(1), warnings=list(dict.fromkeys(warnings))
        )

    def _decode(self, start: int) -> Dict[str, Any]:
        text = "\n".join(self._lines[start:])
        decoder = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)
        try:
            data, end = decoder.raw_decode(text)
        except json.JSONDecodeError as error:
            number = start + error.lineno
            line = self._lines[number - 1] if number <= len(self._lines) else ""
            message = f"the JSON is cut off or damaged ({error.msg})"
            raise ParseError(message, number, line) from None
        except _Unreadable as error:
            raise ParseError(str(error), self._line([error.key], start), error.key) from None
        except RecursionError:
            raise ParseError("the JSON is nested too deeply for fio's", start + 1) from None
        rest = text[end:]
        if rest.strip() and not rest.lstrip().startswith(_STANDARD_ERROR):
            blank = rest[: len(rest) - len(rest.lstrip())]
            number = start + 1 + text[:end].count("\n") + blank.count("\n")
            raise ParseError(
                "text after the JSON object; give fio --output-format=json alone",
                number,
                self._lines[number - 1],
            )
        if not isinstance(data, dict):
            raise ParseError("the JSON is no object", start + 1, self._lines[start])
        return data

    def _read_job(self, job: Any, common: Mapping[str, str]) -> Job:
        if not isinstance(job, dict):
            self._refuse("a job is no JSON object", "jobs")
        name = job.get("jobname")
        if not isinstance(name, str) or not name:
            self._refuse("a job has no jobname", "jobname")
        error = job.get("error")
        if not isinstance(error, int) or isinstance(error, bool):
            self._refuse(f"job {name} does not say whether it failed (error {error!r})", "error")
        if error:
            self._refuse(f"job {name} ended with error {error}", "error")
        # fio prints them in this order; another one means that lines were moved.
        order = [key for key in job if key in (*_DIRECTIONS, "trim")]
        if order[:2] != list(_DIRECTIONS):
            self._refuse(f"job {name} has not read and write, in this order", "jobname")
        options = {**common, **_options(job.get("job options"))}
        done = {}
        for direction in _DIRECTIONS:
            found = self._direction(job[direction], name, direction, options)
            if found:
                done[direction] = found
        if not done:
            self._refuse(f"job {name} neither read nor wrote anything", "jobname")
        return Job(name, options, done)

    def _direction(
        self, data: Any, job: str, name: str, options: Mapping[str, str]
    ) -> Optional[Direction]:
        if not isinstance(data, dict):
            self._refuse(f"job {job}: {name} is no JSON object", name)

        where = f"job {job}, {name}"
        io_bytes, bw_bytes, runtime, total, iops = self._rates(data, job, name)
        self._block_size(io_bytes, total, where, name, options, data["short_ios"])
        latencies = self._latencies(data, job, name)
        if not total:
            return None
        slat, clat, lat = (latencies[key] for key in _LATENCIES)
        self._all_percentiles(latencies, options, where, name)
        self._agree(slat, clat, lat, where, name)
        # I/Os in flight at the end of ramp_time count in the latencies and not in total_ios.
        extra = lat["N"] - total
        in_flight = _whole(options.get("iodepth")) * _whole(options.get("numjobs"))
        allowed = in_flight if "ramp_time" in options else 0
        if lat["N"] and not 0 <= extra <= allowed:
            self._refuse(f"{where}: latency of {lat['N']} of {total} I/Os", name, "lat_ns", "N")
        kind = "lat_ns" if lat["percentile"] else "clat_ns"
        operation = options.get("ioengine") in _OPERATIONS
        whole = clat if operation else lat
        if operation and (lat["N"] or whole["N"] not in (0, total)):
            self._refuse(
                f"{where}: latency of {whole['N']} of {total} operations of files",
                name,
                "clat_ns",
                "N",
            )
        return Direction(
            bandwidth=bw_bytes,
            iops=iops,
            total_ios=total,
            io_bytes=io_bytes,
            runtime_seconds=runtime / 1000,
            mean_latency=whole["mean"] * _NS if whole["N"] else None,
            latency_count=lat["N"] or clat["N"],
            percentiles={
                percent: value * _NS for percent, value in latencies[kind]["percentile"].items()
            },
            percentiles_are=kind,
        )

    def _rates(self, data: Dict[str, Any], job: str, name: str) -> Tuple[int, int, int, int, float]:
        """io_bytes, bw_bytes, runtime, total_ios and iops, which say the same twice."""

        def count(key: str) -> int:
            return int(self._number(data, key, job, name, whole=True))

        io_bytes, bw_bytes, runtime = count("io_bytes"), count("bw_bytes"), count("runtime")
        total, kbytes, bw = count("total_ios"), count("io_kbytes"), count("bw")
        iops = self._number(data, "iops", job, name)
        where = f"job {job}, {name}"
        if kbytes != io_bytes // 1024:
            self._refuse(
                f"{where}: io_kbytes {kbytes} is not io_bytes {io_bytes} / 1024", name, "io_kbytes"
            )
        if bw != bw_bytes // 1024:
            self._refuse(f"{where}: bw {bw} KiB/s is not bw_bytes {bw_bytes} / 1024", name, "bw")
        if (total == 0) != (io_bytes == 0):
            self._refuse(f"{where}: {total} I/Os moved {io_bytes} bytes", name, "total_ios")
        if total and not runtime:
            self._refuse(f"{where}: {total} I/Os in a runtime of 0 ms", name, "runtime")
        if bw_bytes != (io_bytes * 1000 // runtime if runtime else 0):
            self._refuse(
                f"{where}: bw_bytes {bw_bytes} is not io_bytes {io_bytes} in {runtime} ms",
                name,
                "bw_bytes",
            )
        if not math.isclose(
            iops, total * 1000 / runtime if runtime else 0.0, abs_tol=1.5e-6, rel_tol=1e-9
        ):
            self._refuse(
                f"{where}: iops {iops} is not total_ios {total} in {runtime} ms", name, "iops"
            )
        count("short_ios")
        return io_bytes, bw_bytes, runtime, total, iops

    def _block_size(
        self,
        io_bytes: int,
        total: int,
        where: str,
        name: str,
        options: Mapping[str, str],
        short: int,
    ) -> None:
        """One block size for all I/Os: their number and their bytes must agree."""
        block = _bytes(options.get("bs")) if not {"bssplit", "bsrange"} & set(options) else None
        if block and not short and io_bytes != total * block:
            self._refuse(
                f"{where}: {total} I/Os of {block} bytes are not {io_bytes} bytes",
                name,
                "total_ios",
            )

    def _latencies(self, data: Dict[str, Any], job: str, name: str) -> Dict[str, Any]:
        if [key for key in data if key in _LATENCIES] != list(_LATENCIES):
            self._refuse(
                f"job {job}, {name}: slat_ns, clat_ns and lat_ns are not all there, in this order",
                name,
            )
        found = {}
        for key in _LATENCIES:
            block = data[key]
            if not isinstance(block, dict):
                self._refuse(f"job {job}, {name}: {key} is no JSON object", name, key)
            values: Dict[str, Any] = {
                part: self._number(block, part, job, name, key, whole=part in ("N", "min", "max"))
                for part in ("min", "max", "mean", "N")
            }
            values["N"] = int(values["N"])
            where = f"job {job}, {name}, {key}"
            if not values["min"] <= values["mean"] * (1 + 1e-9) + 1e-6 or not (
                values["mean"] <= values["max"] * (1 + 1e-9) + 1e-6
            ):
                self._refuse(
                    f"{where}: mean {values['mean']} is not between min {values['min']} and max "
                    f"{values['max']}",
                    name,
                    key,
                    "mean",
                )
            if (values["N"] == 0) != (values["max"] == 0):
                self._refuse(f"{where}: max {values['max']} of {values['N']} I/Os", name, key, "N")
            values["percentile"] = self._percentiles(block, values, where, name, key)
            found[key] = values
        return found

    def _percentiles(
        self, block: Dict[str, Any], values: Mapping[str, Any], where: str, name: str, key: str
    ) -> Dict[float, float]:
        given = block.get("percentile", {})
        if not isinstance(given, dict):
            self._refuse(f"{where}: percentile is no JSON object", name, key, "percentile")
        found: Dict[float, float] = {}
        for label, value in given.items():
            percent = _float(label)
            if percent is None or not 0 < percent <= 100 or _float(value) is None or value < 0:
                self._refuse(
                    f"{where}: percentile {label!r} is {value!r}", name, key, "percentile", label
                )
            found[percent] = float(value)
        if not values["N"]:
            return {}
        ordered = [found[percent] for percent in sorted(found)]
        if ordered != sorted(ordered) or list(found) != sorted(found):
            self._refuse(f"{where}: the percentiles do not rise", name, key, "percentile")
        for percent, value in found.items():
            low = values["min"] * (1 - _BIN_ERROR)
            if not low - 1 <= value <= values["max"] * (1 + _BIN_ERROR) + 1:
                self._refuse(
                    f"{where}: percentile {percent:g} {value:g} is not between min and max",
                    name,
                    key,
                    "percentile",
                )
        if "bins" in block:
            self._bins(block["bins"], found, values, where, name, key)
        return found

    def _all_percentiles(
        self,
        latencies: Mapping[str, Mapping[str, Any]],
        options: Mapping[str, str],
        where: str,
        name: str,
    ) -> None:
        """The percentiles are those that the options ask for: of lat with lat_percentiles, else of
        clat unless clat_percentiles is 0."""
        text = options.get("percentile_list", _DEFAULT_PERCENTILES)
        wanted = sorted(float(part) for part in text.split(":") if _float(part) is not None)
        asked = []
        if options.get("lat_percentiles", "0") != "0":
            asked.append("lat_ns")
        elif options.get("clat_percentiles", "1") != "0":
            asked.append("clat_ns")
        for key in _LATENCIES[1:]:
            found = latencies[key]["percentile"]
            if latencies[key]["N"] and (found or key in asked) and sorted(found) != wanted:
                self._refuse(
                    f"{where}: {key} has the percentiles {sorted(found)}, not {wanted}", name, key
                )

    def _bins(
        self,
        bins: Any,
        percentiles: Mapping[float, float],
        values: Mapping[str, Any],
        where: str,
        name: str,
        key: str,
    ) -> None:
        """The histogram of json+: its sum, its mean and its percentiles are the printed ones."""
        if not isinstance(bins, dict):
            self._refuse(f"{where}: bins is no JSON object", name, key, "bins")
        counted: Dict[int, int] = {}
        for label, number in bins.items():
            if not label.isdigit() or not isinstance(number, int) or number < 0:
                self._refuse(f"{where}: bin {label!r} holds {number!r}", name, key, "bins", label)
            counted[int(label)] = number
        total = sum(counted.values())
        if total != values["N"]:
            self._refuse(
                f"{where}: the bins hold {total} I/Os, N is {values['N']}", name, key, "bins"
            )
        mean = sum(middle * number for middle, number in counted.items()) / total
        if abs(mean - values["mean"]) > _BIN_ERROR * values["mean"] + 1:
            self._refuse(
                f"{where}: the bins' mean is {mean:.0f}, the printed one {values['mean']:.0f}",
                name,
                key,
                "mean",
            )
        for percent, value in percentiles.items():
            if value != (expected := _percentile(counted, percent, total)):
                self._refuse(
                    f"{where}: the bins' percentile {percent:g} is {expected}, the printed one "
                    f"{value:.0f}",
                    name,
                    key,
                    "percentile",
                )

    def _agree(
        self,
        slat: Mapping[str, Any],
        clat: Mapping[str, Any],
        lat: Mapping[str, Any],
        where: str,
        name: str,
    ) -> None:
        """Submission and completion make the whole latency, I/O by I/O; of synchronous engines fio
        has no submission latency."""
        if not lat["N"] or clat["N"] != lat["N"]:
            return
        whole = slat["mean"] + clat["mean"]
        if slat["N"] == lat["N"] and abs(whole - lat["mean"]) > 1 + 1e-6 * lat["mean"]:
            self._refuse(
                f"{where}: slat {slat['mean']} and clat {clat['mean']} ns do not make lat "
                f"{lat['mean']}",
                name,
                "lat_ns",
                "mean",
            )
        if clat["mean"] > lat["mean"] * (1 + 1e-6) + 1:
            self._refuse(
                f"{where}: clat {clat['mean']} ns is longer than lat {lat['mean']}",
                name,
                "lat_ns",
                "mean",
            )

    def _number(
        self, data: Dict[str, Any], key: str, job: str, *path: str, whole: bool = False
    ) -> float:
        where = f"job {job}, {', '.join(path)}"
        if key not in data:
            self._refuse(f"{where}: {key} is missing", *path)
        value = data[key]
        if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
            what = "a whole number" if whole else "a number"
            self._refuse(f"{where}: {key} {value!r} is not {what}", *path, key)
        if not math.isfinite(value) or value < 0:
            self._refuse(f"{where}: {key} {value!r} is not a positive number", *path, key)
        return value

    def _refuse(self, message: str, *path: str) -> NoReturn:
        number = self._line(path, 0)
        line = self._lines[number - 1] if number else ""
        raise ParseError(message, number, line)

    def _line(self, path: Sequence[str], start: int) -> Optional[int]:
        """The line of a key, found as fio lays out its JSON: a key a line, in the order of
        ``path``."""
        at, jobs = start, self._job
        if jobs >= 0:
            for number, line in enumerate(self._lines[start:], start):
                if '"jobname"' in line:
                    at, jobs = number, jobs - 1
                    if jobs < 0:
                        break
        found = None
        for key in path:
            pattern = f'"{key}" :'
            for number in range(at, len(self._lines)):
                if pattern in self._lines[number]:
                    at = number
                    found = number + 1
                    break
        return found


def _percentile(counted: Mapping[int, int], percent: float, total: int) -> int:
    """The middle of the bin in which that share of the I/Os is reached, as fio takes it."""
    reached = 0
    for middle in sorted(counted):
        reached += counted[middle]
        if reached >= percent / 100 * total:
            return middle
    return max(counted)


class _Unreadable(Exception):
    """What the JSON decoder meets and cannot name the line of."""

    def __init__(self, message: str, key: str) -> None:
        self.key = key
        super().__init__(message)


def _unique(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    found = dict(pairs)
    # Options may be given twice, and are all text; figures may not.
    if len(found) != len(pairs) and not all(isinstance(value, str) for _, value in pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _Unreadable(f"{twice} stands twice in one JSON object", twice)
    return found


def _no_constant(name: str) -> NoReturn:
    raise _Unreadable(f"{name} is not a finite number", name)


def _options(data: Any) -> Dict[str, str]:
    return {str(key): str(value) for key, value in data.items()} if isinstance(data, dict) else {}


def _bytes(text: Optional[str]) -> Optional[int]:
    """fio's block size (``4k``, ``1m``, ``4096``), None for anything but one plain size."""
    match = re.fullmatch(r"(\d+)([kmKM]?)(?:i?[bB])?", text or "")
    if not match:
        return None
    return int(match.group(1)) * {"": 1, "k": 1024, "m": 1024**2}[match.group(2).lower()]


def _whole(text: Optional[str]) -> int:
    return int(text) if text and text.isdigit() else 1


def _float(value: Any) -> Optional[float]:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None
