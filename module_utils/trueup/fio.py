"""fio as a case: workloads as data, command, the folder that it may write in, and whether a run
counts."""

from __future__ import annotations

import contextlib
import errno
import os
from dataclasses import dataclass, field
from typing import Dict, List, Mapping, Optional, Tuple

from .errors import BadInput
from .parsers.fio import FioOutput

__all__ = [
    "WORKLOADS",
    "Part",
    "Settings",
    "command",
    "data_bytes",
    "direct_io",
    "judge",
    "settings",
]

_KIB, _MIB, _GIB = 1024, 1024**2, 1024**3
# A timed run that ends this much early did not do what it was asked to.
_SHORTEST = 0.95
_ALIGNMENT = 4096


@dataclass(frozen=True)
class Part:
    """One of the jobs that run at the same time.

    Attributes:
        name: in fio's output.
        options: fio's own names and values.
        directions: what it must have done: read, write or both.
        block_bytes, jobs, iodepth, job_bytes: defaults that a user may change.
        file_bytes: size of each file where there are many; 0 for one file a job.
    """

    name: str
    options: Mapping[str, str]
    directions: Tuple[str, ...]
    block_bytes: int
    jobs: int
    iodepth: int
    job_bytes: int
    file_bytes: int = 0


_BOTH = ("read", "write")
# What both EDA parts are. Source of the pattern: "Benchmark Different Capacities for EDA Workloads
# on Microsoft HPC Storages" (Azure HPC blog): front-end is thousands of short jobs with random
# reads and writes over many small files, back-end hundreds of jobs with sequential reads and writes
# of fewer, larger files, and a company runs both at once. Files of 16 KiB, 1200 a process: SPEC SFS
# 2014 SP2, "What's new", EDA_FRONTEND. Neither gives shares of reads or sizes of back-end files and
# I/Os: half reads, 4 KiB, 256 KiB (the rsize of the blog's mounts) and files of 64 MiB are ours.
# Metadata operations (stat, create, unlink), much of the standard benchmark, are not in it.
_FRONTEND = Part(
    "frontend",
    {"rw": "randrw", "rwmixread": "50", "file_service_type": "random", "openfiles": "64"},
    _BOTH,
    block_bytes=4 * _KIB,
    jobs=8,
    iodepth=4,
    job_bytes=1200 * 16 * _KIB,
    file_bytes=16 * _KIB,
)
_BACKEND = Part(
    "backend",
    {"rw": "rw", "rwmixread": "50"},
    _BOTH,
    block_bytes=256 * _KIB,
    jobs=4,
    iodepth=4,
    job_bytes=512 * _MIB,
    file_bytes=64 * _MIB,
)


def _scratch(name: str, rw: str, done: str, *, random: bool) -> Tuple[Part, ...]:
    """One of the four loads for NVMe scratch: 1 MiB sequential, or 4 KiB random, deep queues."""
    options = {"rw": rw}
    if random:
        options["norandommap"] = "1"  # fio's map of blocks done would cost time and memory
    if done == "write":
        options["overwrite"] = "1"  # else the first pass measures the allocation of blocks
    part = Part(
        name,
        options,
        (done,),
        block_bytes=4 * _KIB if random else _MIB,
        jobs=8 if random else 4,
        iodepth=64 if random else 16,
        job_bytes=2 * _GIB,
    )
    return (part,)


# Workload to the parts that run at the same time.
WORKLOADS: Dict[str, Tuple[Part, ...]] = {
    "sequential_read": _scratch("sequential_read", "read", "read", random=False),
    "sequential_write": _scratch("sequential_write", "write", "write", random=False),
    "random_read": _scratch("random_read", "randread", "read", random=True),
    "random_write": _scratch("random_write", "randwrite", "write", random=True),
    "eda_frontend": (_FRONTEND,),
    "eda_backend": (_BACKEND,),
    "eda_mixed": (_FRONTEND, _BACKEND),
}


@dataclass(frozen=True)
class Settings:
    """A workload with the user's numbers in it."""

    workload: str
    parts: Tuple[Part, ...]
    runtime_seconds: int
    engine: str
    direct: bool = field(default=True)


def settings(
    workload: str,
    *,
    jobs: int,
    iodepth: int,
    block_bytes: int,
    job_bytes: int,
    runtime_seconds: int,
    engine: str,
) -> Settings:
    """The workload with the user's numbers; 0 means the workload's own.

    Raises:
        BadInput: naming the number that is wrong.
    """
    numbers = {
        "jobs": jobs,
        "iodepth": iodepth,
        "block_bytes": block_bytes,
        "job_bytes": job_bytes,
    }
    for name, number in numbers.items():
        if number < 0:
            raise BadInput(f"{name} {number} is negative; 0 means the workload's own")
    if runtime_seconds < 1:
        raise BadInput(f"runtime_seconds {runtime_seconds} is not a positive time")
    if block_bytes % _ALIGNMENT:
        raise BadInput(f"block_bytes {block_bytes} is not a multiple of {_ALIGNMENT}")
    parts = []
    for part in WORKLOADS[workload]:
        changed = {name: numbers[name] or getattr(part, name) for name in numbers}
        unit = part.file_bytes or changed["block_bytes"]
        if part.file_bytes and changed["block_bytes"] > part.file_bytes:
            raise BadInput(
                f"block_bytes {changed['block_bytes']} is larger than the files of {part.name}, "
                f"{part.file_bytes}"
            )
        if changed["job_bytes"] < unit:
            raise BadInput(f"job_bytes {changed['job_bytes']} is smaller than one unit of {unit}")
        changed["job_bytes"] = changed["job_bytes"] // unit * unit
        parts.append(
            Part(part.name, part.options, part.directions, file_bytes=part.file_bytes, **changed)
        )
    return Settings(workload, tuple(parts), runtime_seconds, engine)


def data_bytes(chosen: Settings) -> int:
    """What the files of all jobs take."""
    return sum(part.jobs * part.job_bytes for part in chosen.parts)


def command(chosen: Settings, *, fio: str, folder: str) -> List[str]:
    """The argv: options for all parts, then the parts, which start together."""
    argv = [fio, "--output-format=json+", "--eta=never", f"--aux-path={folder}", "--name=global"]
    argv += [f"--directory={folder}", f"--ioengine={chosen.engine}"]
    argv += [f"--direct={int(chosen.direct)}", "--time_based=1"]
    argv += [f"--runtime={chosen.runtime_seconds}", "--group_reporting=1"]
    # Percentiles of the whole latency, which is also what fio's mean is printed of.
    argv += ["--lat_percentiles=1", "--clat_percentiles=0", "--percentile_list=50:99"]
    for part in chosen.parts:
        argv += [f"--name={part.name}", "--new_group=1"]
        argv += [f"--{name}={value}" for name, value in part.options.items()]
        argv += [f"--bs={part.block_bytes}", f"--numjobs={part.jobs}", f"--iodepth={part.iodepth}"]
        argv += [f"--size={part.job_bytes}"]
        if part.file_bytes:
            argv += [f"--filesize={part.file_bytes}"]
            argv += [f"--nrfiles={part.job_bytes // part.file_bytes}"]
    return argv


def direct_io(wanted: str, folder: str) -> bool:
    """Whether to pass the page cache by (O_DIRECT), as asked for and as the file system can.

    Args:
        wanted: required, preferred (buffered where the file system cannot) or off.
        folder: where a file is opened to find out.

    Raises:
        BadInput: it is required and the file system cannot.
    """
    if wanted == "off":
        return False
    probe = os.path.join(folder, "probe")
    try:
        os.close(os.open(probe, os.O_CREAT | os.O_WRONLY | os.O_DIRECT, 0o600))
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise BadInput(f"{probe} cannot be written: {error.strerror}") from error
        if wanted == "required":
            raise BadInput(
                f"the file system of {folder} has no O_DIRECT: the page cache would be measured; "
                "set direct to preferred or off"
            ) from error
        return False
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(probe)
    return True


def judge(output: FioOutput, chosen: Settings) -> Optional[str]:
    """Why a run that ended is not a valid measurement, or None."""
    ran = [job.name for job in output.jobs]
    asked = [part.name for part in chosen.parts]
    if ran != asked:
        return f"fio ran the jobs {', '.join(ran)} instead of {', '.join(asked)}"
    if output.parameters.get("direct") != str(int(chosen.direct)):
        return f"fio ran with direct={output.parameters.get('direct')}"
    for job, part in zip(output.jobs, chosen.parts):
        if tuple(job.directions) != part.directions:
            return f"job {job.name} did {' and '.join(job.directions)} only"
        for name, done in job.directions.items():
            if done.runtime_seconds < _SHORTEST * chosen.runtime_seconds:
                return (
                    f"job {job.name} {name} ended after {done.runtime_seconds:g} s of "
                    f"{chosen.runtime_seconds} s"
                )
    return None
