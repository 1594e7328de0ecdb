"""The traces of a fault on a node, which a reboot or another host removes: one archive of texts.

Each program has a time limit of its own, and all together one: on a half-dead node some hang. One
that hangs in the kernel cannot be killed, and is not waited for.
"""

from __future__ import annotations

import contextlib
import glob
import io
import json
import os
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
from typing import IO, Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..redaction import redact
from .metadata import document
from .physical_host import POOL, physical_host

# Of one part, from its end: the newest lines of a log count most.
MOST_PART_BYTES = 4 << 20
# Of all parts, before they are compressed.
MOST_BYTES = 48 << 20
_PROGRAM_SECONDS = 20.0
# Folders of programs that are not in every PATH.
_FOLDERS = ("/usr/sbin", "/sbin", "/usr/local/sbin", "/usr/local/bin")
_METADATA = (
    *("vmId", "resourceId", "vmSize", "location", "zone", "name", "subscriptionId"),
    *("resourceGroupName", "version", "vmScaleSetName", "priority"),
)

# What names the machine in a report.
IDENTITY = ("physical_host", *_METADATA)

# File of the archive, and the program whose output it holds. Parts of nvidia-bug-report.sh are
# among them: the script itself takes minutes, and hangs where the driver does.
PROGRAMS: Tuple[Tuple[str, str], ...] = (
    ("kernel/dmesg.txt", "dmesg"),
    ("kernel/journal_this_boot.txt", "journalctl -k -b 0 --no-pager -o short-iso -n 50000"),
    ("kernel/journal_last_boot.txt", "journalctl -k -b -1 --no-pager -o short-iso -n 20000"),
    ("kernel/warnings.txt", "journalctl -p warning --since -24h --no-pager -o short-iso -n 20000"),
    ("kernel/version.txt", "uname -a"),
    ("kernel/modules.txt", "lsmod"),
    ("gpu/nvidia_smi.txt", "nvidia-smi"),
    ("gpu/nvidia_smi_q.txt", "nvidia-smi -q"),
    (
        "gpu/identity.csv",
        "nvidia-smi --query-gpu=index,pci.bus_id,name,serial,uuid,vbios_version --format=csv",
    ),
    ("gpu/nvlink_status.txt", "nvidia-smi nvlink -s"),
    ("gpu/nvlink_errors.txt", "nvidia-smi nvlink -e"),
    ("gpu/topology.txt", "nvidia-smi topo -m"),
    ("gpu/dcgm_discovery.txt", "dcgmi discovery -l"),
    ("gpu/dcgm_health.txt", "dcgmi health -g 0 -c"),
    (
        "gpu/fabricmanager_journal.txt",
        "journalctl -u nvidia-fabricmanager --no-pager -o short-iso -n 5000",
    ),
    ("infiniband/ibstat.txt", "ibstat"),
    ("infiniband/ibv_devinfo.txt", "ibv_devinfo -v"),
    ("infiniband/rdma_link.txt", "rdma link show"),
    ("infiniband/rdma_statistic.txt", "rdma statistic show"),
    ("node/lspci.txt", "lspci -vvv"),
    ("node/lscpu.txt", "lscpu"),
    ("node/disks.txt", "lsblk -b -o NAME,TYPE,SIZE,MODEL,SERIAL,MOUNTPOINTS"),
    ("node/nvme.txt", "nvme list"),
    ("node/mounts.txt", "findmnt --real -l"),
    ("node/space.txt", "df -h"),
    ("node/memory.txt", "free -b"),
    ("node/processes.txt", "ps -eo pid,ppid,stat,wchan:32,etime,comm"),
    ("node/packages.txt", "dpkg-query -W"),
    ("node/rpm_packages.txt", "rpm -qa"),
    ("agents/waagent.txt", "journalctl -u walinuxagent -u waagent --no-pager -o short-iso -n 5000"),
    ("agents/slurmd.txt", "journalctl -u slurmd --no-pager -o short-iso -n 5000"),
)
# File of the archive, and the files of the node that it holds one after the other.
FILES: Tuple[Tuple[str, str], ...] = (
    ("kernel/command_line.txt", "/proc/cmdline"),
    ("kernel/os_release.txt", "/etc/os-release"),
    ("gpu/driver.txt", "/proc/driver/nvidia/version"),
    ("gpu/information.txt", "/proc/driver/nvidia/gpus/*/information"),
    ("gpu/parameters.txt", "/proc/driver/nvidia/params"),
    ("gpu/fabricmanager.txt", "/var/log/fabricmanager.log"),
    ("infiniband/state.txt", "/sys/class/infiniband/*/ports/*/*state"),
    ("infiniband/counters.txt", "/sys/class/infiniband/*/ports/*/counters/*"),
    ("infiniband/hw_counters.txt", "/sys/class/infiniband/*/ports/*/hw_counters/*"),
    ("infiniband/firmware.txt", "/sys/class/infiniband/*/fw_ver"),
    ("agents/waagent_log.txt", "/var/log/waagent.log"),
    ("agents/cloud_init.txt", "/var/log/cloud-init.log"),
)


class Part(NamedTuple):
    """A file of the archive.

    Attributes:
        name: its path there.
        source: the program's command line, or the files of the node.
        problem: why it is not there, or not whole; empty for a whole one.
    """

    name: str
    source: str
    seconds: float
    bytes: int
    problem: str


class Evidence(NamedTuple):
    """The archive (tar, gzip) and its contents.

    Attributes:
        node: ``physical_host``, and of the instance metadata ``vmId``, ``resourceId``, ...; None
            where it is not known.
    """

    archive: bytes
    parts: List[Part]
    node: Dict[str, Optional[str]]


def collect(
    node: Mapping[str, Any],
    records: Sequence[Any],
    *,
    limit_seconds: float,
    metadata_url: str,
    pool: str = POOL,
) -> Evidence:
    """Collect what is there; credentials are redacted.

    Args:
        node: the fact ``trueup_node``.
        records: the newest records of the node, which go in as they are.
        limit_seconds: for all programs.
    """
    end = time.monotonic() + limit_seconds
    texts: Dict[str, str] = {}
    parts: List[Part] = []
    identity = _identity(metadata_url, pool)
    total = 0
    for part, text in (*_programs(end), *_files(end)):
        if total + len(text) > MOST_BYTES:
            parts.append(part._replace(problem="left out: the archive is full", bytes=0))
            continue
        total += len(text)
        if text:
            texts[part.name] = text
        parts.append(part)
    contents: Dict[str, Any] = {
        "node/facts.json": dict(node),
        "node/records.json": list(records),
        "node/identity.json": identity,
        "contents.json": [part._asdict() for part in parts],
    }
    texts.update(
        {name: json.dumps(redact(value), indent=1) + "\n" for name, value in contents.items()}
    )
    return Evidence(_archive(texts), parts, identity)


def _identity(metadata_url: str, pool: str) -> Dict[str, Optional[str]]:
    host, _ = physical_host(pool)
    compute = (document(metadata_url).content or {}).get("compute")
    values = compute if isinstance(compute, dict) else {}
    names = {name: str(values[name]) if values.get(name) else None for name in _METADATA}
    return {"physical_host": host, **names}


def _programs(end: float) -> Iterator[Tuple[Part, str]]:
    """The outputs of the programs. Of one that did not answer nothing more is asked."""
    silent = set()
    for name, line in PROGRAMS:
        argv = line.split()
        begin = time.monotonic()
        path = shutil.which(argv[0], path=os.pathsep.join([os.environ.get("PATH", ""), *_FOLDERS]))
        text, problem = "", ""
        if path is None:
            problem = f"{argv[0]} is not installed"
        elif argv[0] in silent:
            problem = f"left out: {argv[0]} did not answer before"
        elif begin >= end:
            problem = "left out: the time was over"
        else:
            text, problem, answered = _output([path, *argv[1:]], min(_PROGRAM_SECONDS, end - begin))
            if not answered:
                silent.add(argv[0])
        yield Part(name, line, round(time.monotonic() - begin, 1), len(text), problem), text


def _output(argv: Sequence[str], seconds: float) -> Tuple[str, str, bool]:
    """What a program printed, its problem or nothing, and whether it ended in time."""
    with _scratch() as output:
        try:
            process = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "LC_ALL": "C"},
                start_new_session=True,
            )
        except OSError as error:
            return "", f"it cannot be started: {error.strerror}", True
        try:
            status = process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            return _end_of(output)[0], f"it did not end within {seconds:.0f} s", False
        text, problem = _end_of(output)
        return text, f"it ended with status {status}" if status else problem, True


def _scratch() -> IO[bytes]:
    """A file without a name, in memory where that is possible: the disk may be full or dead."""
    folder = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 WHY: no name there
    return tempfile.TemporaryFile(dir=folder)


def _end_of(stream: IO[bytes]) -> Tuple[str, str]:
    """The last bytes of a file, redacted, and a problem where these are not all."""
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - MOST_PART_BYTES))
    text = str(redact(stream.read(MOST_PART_BYTES).decode("utf-8", errors="replace")))
    return text, f"its last {MOST_PART_BYTES} of {size} bytes" if size > MOST_PART_BYTES else ""


def _files(end: float) -> Iterator[Tuple[Part, str]]:
    """The contents of the node's files, each below its path."""
    for name, pattern in FILES:
        begin = time.monotonic()
        texts, problems = [], []
        paths = sorted(glob.glob(pattern)) if begin < end else []
        for path in paths:
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
                with open(descriptor, "rb") as stream:
                    content = _tail(stream)
            except OSError as error:
                problems.append(f"{path}: {error.strerror}")
                continue
            texts.append(f"{path}\n{content}" if len(paths) > 1 else content)
        text = "\n".join(texts)
        problem = "; ".join(problems[:3])
        if not paths:
            problem = "no such file" if begin < end else "left out: the time was over"
        yield Part(name, pattern, round(time.monotonic() - begin, 1), len(text), problem), text


def _tail(stream: IO[bytes]) -> str:
    """The end of a file; files of /proc and /sys have no size."""
    with contextlib.suppress(OSError):
        stream.seek(max(0, stream.seek(0, os.SEEK_END) - MOST_PART_BYTES))
    return str(redact(stream.read(MOST_PART_BYTES).decode("utf-8", errors="replace")))


def _archive(texts: Mapping[str, str]) -> bytes:
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w:gz") as archive:
        for name in sorted(texts):
            content = texts[name].encode()
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.mode = len(content), int(time.time()), 0o600
            archive.addfile(member, io.BytesIO(content))
    return output.getvalue()
