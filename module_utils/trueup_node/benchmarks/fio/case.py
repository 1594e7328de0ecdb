"""fio as a case: workloads as data, command, the folder that it may write in, and whether a run
counts."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import re
from dataclasses import dataclass, field
from typing import Dict, List, Mapping, NamedTuple, Optional, Tuple

from ...errors import BadInput
from ...options import ModuleOption, Option, RoleOption
from ...record import Metric
from .output import FioOutput

_KIB, _MIB, _GIB = 1024, 1024**2, 1024**3
# A timed run that ends this much early did not do its work.
_SHORTEST = 0.95
_ALIGNMENT = 4096
# fio prints times in whole milliseconds, so this time behind a rate makes it wrong by 2 % at most.
_SHORTEST_FILES = 0.05
# The oldest fio with filecreate, filestat and filedelete.
_METADATA_SINCE = "3.33"


@dataclass(frozen=True)
class Part:
    """One of the jobs that run at the same time.

    Attributes:
        name: in fio's output.
        options: fio's own names and values.
        directions: the directions that it must have moved data in: read, write or both.
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
# Common to both EDA parts. Source of the pattern: "Benchmark Different Capacities for EDA Workloads
# on Microsoft HPC Storages" (Azure HPC blog): front-end is thousands of short jobs with random
# reads and writes over many small files, back-end hundreds of jobs with sequential reads and writes
# of fewer, larger files, and a company runs both at once. Files of 16 KiB, 1200 a process: SPEC SFS
# 2014 SP2, "What's new", EDA_FRONTEND. Neither gives shares of reads or sizes of back-end files and
# I/Os: trueup takes half reads, 4 KiB, 256 KiB (the rsize of the blog's mounts) and files of 64
# MiB. Metadata operations (stat, create, unlink), much of the standard benchmark, are not in it.
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
    job_group = Part(
        name,
        options,
        (done,),
        block_bytes=4 * _KIB if random else _MIB,
        jobs=8 if random else 4,
        iodepth=64 if random else 16,
        job_bytes=2 * _GIB,
    )
    return (job_group,)


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


# Workload of operations of files to fio's engine. Each process makes one operation of each of its
# files, in a folder that all share. Files are one block of 4 KiB where there must be files.
OPERATIONS: Dict[str, str] = {
    "metadata_create": "filecreate",
    "metadata_stat": "filestat",
    "metadata_delete": "filedelete",
}

OPTIONS = (
    Option(
        "directory",
        "Existing folder on the storage to measure, such as a mounted NVMe scratch; where it is"
        " empty the role skips fio, by name.",
        "",
        type="path",
        why="No default would be the storage that you mean.",
    ),
    Option(
        "filesystem",
        "Type of file system that the folder must be on, such as nfs4, lustre or xfs; empty: any. A"
        " share that is not mounted would otherwise be measured as the disk below it.",
        "",
    ),
    RoleOption(
        "workloads",
        "Workloads, one case each. sequential_* (1 MiB) and random_* (4 KiB) are for NVMe scratch;"
        " eda_frontend, eda_backend and eda_mixed for shared storage, and so are metadata_create,"
        " metadata_stat and metadata_delete, which need fio 3.33 (Ubuntu 22.04 has 3.28).",
        ["sequential_read", "sequential_write", "random_read", "random_write"],
        choices=(*WORKLOADS, *OPERATIONS),
        filled=True,
    ),
    ModuleOption(
        "workload",
        "The case's workload. sequential_* are of 1 MiB, random_* of 4 KiB; eda_frontend reads and"
        " writes many small files at random, eda_backend larger files in sequence, eda_mixed does"
        " both at once; metadata_* create, stat or unlink each of a number of files, all in one"
        " folder, and their stats of a share whose client caches attributes are called cached.",
        choices=(*WORKLOADS, *OPERATIONS),
        required=True,
    ),
    Option(
        "jobs",
        "Processes of each part of a workload; 0 means its own number (docs/benchmarks/fio.md).",
        0,
    ),
    Option(
        "files",
        "Files of each process of a metadata workload; 0 means 10000, in all 40000 of 4 KiB. These"
        " workloads take no other number but the processes.",
        0,
        why="A local disk stats these in less than the 0.05 s that a figure needs: give it 100000.",
    ),
    ModuleOption(
        "iodepth", "I/Os that each process keeps in flight; 0 means the workload's own number.", 0
    ),
    RoleOption(
        "iodepths",
        "I/Os in flight to measure each EDA workload at, a case each, in this order; empty: the"
        " workload's own number. With several `trueup reference` gives the I/O rate at 2 and 7 ms,"
        " over all clients of a run that measured together.",
        [],
        type="list",
        elements="int",
        least=1,
    ),
    ModuleOption(
        "block_bytes",
        "Size of an I/O in bytes; 0 means the workload's own.",
        0,
        multiple_of=_ALIGNMENT,
    ),
    Option(
        "job_bytes",
        "Bytes of the files of each process; 0 means the workload's own: 2 GiB for NVMe scratch.",
        0,
    ),
    Option("runtime_seconds", "Seconds of measuring, after the files are laid out.", 30, least=1),
    Option(
        "start_seconds",
        "Seconds from the beginning of a case to that of its measuring, the same on all clients"
        " that measure together: files are made before. 0: measuring begins when they are made.",
        0,
    ),
    ModuleOption(
        "engine",
        "fio's I/O engine; every kernel has libaio.",
        "libaio",
        choices=("libaio", "io_uring"),
    ),
    Option(
        "direct",
        "Whether to pass the page cache by (O_DIRECT): required refuses a file system that cannot;"
        " preferred then measures through the cache, and the record says so; off always does.",
        "required",
        choices=("required", "preferred", "off"),
    ),
    Option(
        "timeout_seconds",
        "Time limit of one case in seconds, more than the measuring takes.",
        900,
        why="Laying out 16 GiB at 200 MB/s takes 80 s.",
        least=1,
    ),
)


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
    parts = []
    for job_group in WORKLOADS[workload]:
        changed = {name: numbers[name] or getattr(job_group, name) for name in numbers}
        unit = job_group.file_bytes or changed["block_bytes"]
        if job_group.file_bytes and changed["block_bytes"] > job_group.file_bytes:
            raise BadInput(
                f"block_bytes {changed['block_bytes']} is larger than the files of"
                f" {job_group.name}, {job_group.file_bytes}"
            )
        if changed["job_bytes"] < unit:
            raise BadInput(f"job_bytes {changed['job_bytes']} is smaller than one unit of {unit}")
        changed["job_bytes"] = changed["job_bytes"] // unit * unit
        parts.append(
            Part(
                job_group.name,
                job_group.options,
                job_group.directions,
                file_bytes=job_group.file_bytes,
                **changed,
            )
        )
    return Settings(workload, tuple(parts), runtime_seconds, engine)


def case_name(chosen: Settings, iodepth: int) -> str:
    """Its name in the record: EDA workloads are measured at several queue depths in one run."""
    name = f"{chosen.workload}-{'direct' if chosen.direct else 'buffered'}"
    return f"{name}-qd{iodepth}" if iodepth and chosen.workload.startswith("eda_") else name


def data_bytes(chosen: Settings) -> int:
    """Bytes of the files of all jobs."""
    return sum(job_group.jobs * job_group.job_bytes for job_group in chosen.parts)


def command(chosen: Settings, *, fio: str, folder: str) -> List[str]:
    """The argv: options for all parts, then the parts, which start together."""
    argv = [fio, "--output-format=json+", "--eta=never", f"--aux-path={folder}", "--name=global"]
    argv += [f"--directory={folder}", f"--ioengine={chosen.engine}"]
    argv += [f"--direct={int(chosen.direct)}", "--time_based=1"]
    argv += [f"--runtime={chosen.runtime_seconds}", "--group_reporting=1"]
    # Percentiles of the whole latency; fio prints its mean too.
    argv += ["--lat_percentiles=1", "--clat_percentiles=0", "--percentile_list=50:99"]
    for job_group in chosen.parts:
        argv += [f"--name={job_group.name}", "--new_group=1"]
        argv += [f"--{name}={value}" for name, value in job_group.options.items()]
        argv += [
            f"--bs={job_group.block_bytes}",
            f"--numjobs={job_group.jobs}",
            f"--iodepth={job_group.iodepth}",
        ]
        argv += [f"--size={job_group.job_bytes}"]
        if job_group.file_bytes:
            argv += [f"--filesize={job_group.file_bytes}"]
            argv += [f"--nrfiles={job_group.job_bytes // job_group.file_bytes}"]
    return argv


def direct_io(policy: str, folder: str) -> bool:
    """Whether to pass the page cache by (O_DIRECT), as asked for and as the file system can.

    Args:
        policy: required, preferred (buffered where the file system cannot) or off.
        folder: where a file is opened to find out.

    Raises:
        BadInput: it is required and the file system cannot.
    """
    if policy == "off":
        return False
    probe = os.path.join(folder, "probe")
    try:
        os.close(os.open(probe, os.O_CREAT | os.O_WRONLY | os.O_DIRECT, 0o600))
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise BadInput(f"{probe} cannot be written: {error.strerror}") from error
        if policy == "required":
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
    expected = [job_group.name for job_group in chosen.parts]
    if ran != expected:
        return f"fio ran the jobs {', '.join(ran)} instead of {', '.join(expected)}"
    if output.parameters.get("direct") != str(int(chosen.direct)):
        return f"fio ran with direct={output.parameters.get('direct')}"
    for job, job_group in zip(output.jobs, chosen.parts):
        if tuple(job.directions) != job_group.directions:
            return f"job {job.name} did {' and '.join(job.directions)} only"
        for name, done in job.directions.items():
            if done.runtime_seconds < _SHORTEST * chosen.runtime_seconds:
                return (
                    f"job {job.name} {name} ended after {done.runtime_seconds:g} s of "
                    f"{chosen.runtime_seconds} s"
                )
    return None


_FILE_BYTES = 4096
# Other shared file systems whose client keeps attributes.
_CACHING = ("lustre", "cifs", "smb3", "ceph")
# Options of an NFS mount without a cache of attributes: noac is shown as the last two.
_NO_CACHE = {"noac", "acregmax=0", "actimeo=0"}


class Files(NamedTuple):
    """A workload of operations of files: each of ``jobs`` processes makes ``files`` of them."""

    workload: str
    jobs: int
    files: int

    @property
    def total(self) -> int:
        """Files in the folder at once."""
        return self.jobs * self.files

    @property
    def data_bytes(self) -> int:
        """Bytes of the files."""
        return self.total * _FILE_BYTES


def files_settings(workload: str, *, jobs: int, files: int) -> Files:
    """The workload with the user's numbers; 0 means 4 processes and 10000 files each."""
    return Files(workload, jobs or 4, files or 10000)


def require_files(directory: str, chosen: Files) -> None:
    """Refuse more files than the file system has room for.

    Raises:
        BadInput: with both figures.
    """
    disk = os.statvfs(directory)
    # 0 files in all: the file system has no such limit.
    if disk.f_files and disk.f_favail < chosen.total:
        raise BadInput(
            f"{directory} has room for {disk.f_favail} more files, and {chosen.total} are to be "
            "made: set files or jobs lower"
        )


def explain_files(raw: str) -> Optional[str]:
    """Why fio could not start, where it is too old for the engines; else None."""
    if not re.search(r"engine file\w+ not loadable|failed to load engine", raw):
        return None
    return (
        "this fio has not the engines filecreate, filestat and filedelete: install fio "
        f"{_METADATA_SINCE} or newer, or leave the metadata workloads out"
    )


def files_command(chosen: Files, *, fio: str, folder: str) -> List[str]:
    """The argv of one operation of each file."""
    argv = [fio, "--output-format=json+", "--eta=never", f"--aux-path={folder}", "--name=global"]
    argv += [f"--directory={folder}", f"--ioengine={OPERATIONS[chosen.workload]}"]
    # A file is opened once by these engines: that, or its stat or unlink, is the operation. They
    # have no latency but clat.
    argv += ["--openfiles=1", "--file_service_type=sequential"]
    argv += ["--group_reporting=1", "--percentile_list=50:99"]
    argv += [f"--name={chosen.workload}", "--rw=read", f"--bs={_FILE_BYTES}"]
    argv += [f"--filesize={_FILE_BYTES}", f"--nrfiles={chosen.files}", f"--numjobs={chosen.jobs}"]
    return argv


def stats_are_cached(kind: str, options: str) -> bool:
    """Whether a stat is answered by the client and not by the server of a shared file system.

    fio asks for each file's size just before filestat does (seen with strace, fio 3.33), so a
    client that keeps attributes, even for the 3 s of NFS's acregmin, has them.
    """
    if kind in ("nfs", "nfs4"):
        return not _NO_CACHE & set(options.split(","))
    return kind in _CACHING


def files_metrics(output: FioOutput, *, cached: bool) -> List[Metric]:
    """The run's figures; cached_stat_rate and cached_stat_latency where no server was asked."""
    return [
        row._replace(name=f"cached_{row.name}") if cached and row.name.startswith("stat_") else row
        for row in output.metrics()
    ]


def judge_files(output: FioOutput, chosen: Files) -> Optional[str]:
    """Why a run of operations of files that ended is not a valid measurement, or None."""
    if [job.name for job in output.jobs] != [chosen.workload]:
        ran = ", ".join(job.name for job in output.jobs)
        return f"fio ran the jobs {ran} instead of {chosen.workload}"
    (job,) = output.jobs
    if job.options.get("ioengine") != OPERATIONS[chosen.workload]:
        return f"fio ran with ioengine={job.options.get('ioengine')}"
    operation_count = sum(done.total_ios or 0 for done in job.directions.values())
    if operation_count != chosen.total:
        return f"fio made {operation_count} operations of {chosen.total} files"
    (done,) = job.directions.values()
    if done.runtime_seconds < _SHORTEST_FILES:
        least = math.ceil(chosen.files * _SHORTEST_FILES / done.runtime_seconds / 1000) * 1000
        return (
            f"{operation_count} operations took {done.runtime_seconds:g} s, and fio counts whole"
            f" milliseconds: set files to {2 * least} or more"
        )
    return None
