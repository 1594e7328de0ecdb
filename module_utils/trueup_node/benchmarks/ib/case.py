"""perftest as a case: the commands of server and client, running them, and whether a run counts."""

from __future__ import annotations

import multiprocessing
import os
import time
from dataclasses import replace
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ...errors import BadInput
from ...options import SYSFS_ROOT, ModuleOption, Option, RoleOption, time_limit
from ...run import process
from .output import REFUSED, SIZES, IbOutput

PROGRAMS = {"write_bw": "ib_write_bw", "read_bw": "ib_read_bw", "send_lat": "ib_send_lat"}
_MEASURES = {
    "write_bw": ("write", "BW"),
    "read_bw": ("read", "BW"),
    "send_lat": ("send", "Latency"),
}
_MIB = 1024**2
_TEST = ModuleOption(
    "test",
    "write_bw and read_bw are bandwidths of RDMA write and read in one direction; send_lat is half"
    " the time of a send and its answer.",
    "write_bw",
    choices=tuple(PROGRAMS),
)
_SIZE = ModuleOption(
    "message_bytes",
    "Size of a message in bytes; 0 means all powers of two from 2 to 8388608.",
    0,
    most=2**31 - 1,
)
_PAIRS = ModuleOption(
    "queue_pairs", "Queue pairs that a bandwidth is measured over; a latency has one.", 1, least=1
)
_CASE = (
    replace(_TEST, default=None, required=True),
    replace(_SIZE, default=None, required=True),
    _PAIRS,
)
# As the limits of catalog/expectations.yml were measured.
WRITE_FROM_HOST = {"test": "write_bw", "message_bytes": _MIB, "queue_pairs": 2}

OPTIONS = (
    RoleOption(
        "devices",
        "RDMA devices to measure, by name; empty: all InfiniBand devices of the node. The Ethernet"
        " function of accelerated networking and soft-RoCE are measured only where they are named.",
        [],
    ),
    ModuleOption("device", "The RDMA device of this node.", required=True),
    RoleOption(
        "cases",
        "What is measured of each device against itself.",
        [
            dict(WRITE_FROM_HOST),
            {"test": "read_bw", "message_bytes": _MIB},
            {"test": "send_lat", "message_bytes": 8},
        ],
        why="catalog/expectations.yml judges writes of 1 MiB over 2 queue pairs from host memory,"
        " and of 8 MiB over one from GPU memory.",
        fields=_CASE,
    ),
    _TEST,
    _SIZE,
    _PAIRS,
    RoleOption(
        "gpus",
        "GPUDirect RDMA: device to the number of the GPU on the same PCI switch, such as"
        " {mlx5_ib0: 0}; empty: each adapter's by catalog/topologies.yml, where that has one. Where"
        " the node's perftest has no CUDA, as that of distributions and of Azure's images, the role"
        " builds one in /opt/trueup/perftest.",
        {},
        why="Without a perftest that has CUDA host memory only is measured, and reported so.",
    ),
    RoleOption(
        "perftest_repository",
        "Where a perftest with CUDA is built from.",
        "https://github.com/linux-rdma/perftest.git",
    ),
    ModuleOption(
        "gpu",
        "Number of the GPU whose memory is used (GPUDirect RDMA); without it the host's is.",
        type="int",
    ),
    RoleOption(
        "gpu_cases",
        "The cases of the devices that have a GPU, from GPU memory to GPU memory; with [] no"
        " perftest with CUDA is built.",
        [{"test": "write_bw", "message_bytes": 8 * _MIB}],
        fields=_CASE,
    ),
    ModuleOption(
        "role",
        "Which end this node is; loopback: both.",
        "loopback",
        choices=("loopback", "server", "client"),
    ),
    RoleOption(
        "address",
        "Address of this node for the other nodes' perftest: a host name or an IPv4 address inside"
        " the virtual network; empty: ansible_host, or the inventory's name. Set it where Ansible"
        " connects over a public address.",
        "",
    ),
    ModuleOption(
        "address",
        "Host name or IPv4 address of the server, over which the ends find each other. The client"
        " needs it.",
        "",
    ),
    ModuleOption("peer_name", "The other end's name in the record. The client needs it.", ""),
    ModuleOption(
        "port",
        "TCP port of perftest's server. The nodes must reach each other on it.",
        18515,
        why="perftest's own.",
        least=1024,
        most=65535,
    ),
    ModuleOption(
        "gid_index",
        "Index of the GID, which RoCE needs (1 for soft-RoCE with IPv4); -1: none, as InfiniBand"
        " wants it.",
        -1,
        least=-1,
    ),
    ModuleOption(
        "iterations",
        "Messages of each size. Beyond 20000 perftest gives no peak.",
        5000,
        why="perftest's own default for bandwidths.",
        least=5,
    ),
    Option(
        "duration_seconds",
        "Seconds that a size is measured for instead; 0: by iterations. Of a latency it gives the"
        " mean only.",
        0,
    ),
    Option(
        "folder",
        "Folder of perftest's programs. One of your own is not installed by the role.",
        "/usr/bin",
        type="path",
    ),
    Option(
        "connect_seconds",
        "Seconds that a client tries until its server answers.",
        60,
        why="A controller with few forks starts the servers late.",
    ),
    time_limit(300, reason="All sizes at 200 Gb/s take 4 s, on soft-RoCE half an hour."),
    SYSFS_ROOT,
)
_LOOPBACK = "127.0.0.1"
_POLL_SECONDS = 0.05
_RETRY_SECONDS = 1.0
# How long an end may outlive the other: perftest ends both within a second of each other.
_GRACE_SECONDS = 10.0
_SHORT_GRACE_SECONDS = 2.0


class Test(NamedTuple):
    """One perftest test.

    Attributes:
        test: a key of PROGRAMS.
        device: the RDMA device of this end.
        folder: folder of perftest's programs.
        message_bytes: the size, or None for all powers of two up to 8 MiB.
        iterations, duration_seconds: how long it runs; a duration replaces the iterations.
        gpu: the GPU whose memory is used, or None for the host's.
        gid_index: the index of the GID, which RoCE needs.
        port: TCP port of perftest's server.
        queue_pairs: how many a bandwidth is measured over.
    """

    test: str
    device: str
    folder: str
    port: int
    message_bytes: Optional[int] = None
    iterations: int = 5000
    duration_seconds: int = 0
    gpu: Optional[int] = None
    gid_index: Optional[int] = None
    queue_pairs: int = 1

    @property
    def program(self) -> str:
        """The program's path."""
        return os.path.join(self.folder, PROGRAMS[self.test])

    def argv(self, before: Sequence[str], address: str = "") -> List[str]:
        """The command of the server, or of the client of a server at ``address``."""
        words = [
            *before,
            self.program,
            f"--ib-dev={self.device}",
            f"--port={self.port}",
        ]
        words.append("--all" if self.message_bytes is None else f"--size={self.message_bytes}")
        words.append(
            f"--duration={self.duration_seconds}"
            if self.duration_seconds
            else f"--iters={self.iterations}"
        )
        if self.test.endswith("_bw"):
            words.append("--report_gbits")
            if self.queue_pairs > 1:
                words.append(f"--qp={self.queue_pairs}")
        if self.gid_index is not None:
            words.append(f"--gid-index={self.gid_index}")
        if self.gpu is not None:
            words.append(f"--use_cuda={self.gpu}")
        return [*words, address] if address else words


def require_one_size(message_bytes: int, duration_seconds: int) -> None:
    """Refuse a duration with all sizes.

    Raises:
        BadInput: perftest would take it for something else.
    """
    if not message_bytes and duration_seconds:
        raise BadInput(
            f"duration_seconds {duration_seconds}: perftest measures all sizes by iterations only;"
            " give message_bytes"
        )


def judge(output: IbOutput, requested: Test, *, ends: int) -> Optional[str]:
    """Why a run that ended is not the measurement that was asked for, or None."""
    sizes = SIZES if requested.message_bytes is None else (requested.message_bytes,)
    gdr = "no" if requested.gpu is None else "yes"
    pairs = requested.queue_pairs if requested.test.endswith("_bw") else 1
    for name, got, expected in (
        ("test", (output.verb, output.kind), _MEASURES[requested.test]),
        ("device", output.device, requested.device),
        ("sizes", tuple(row.message_bytes for row in output.rows), tuple(sizes)),
        ("GPU memory", output.parameters["gdr"], gdr),
        ("queue pairs", output.parameters["queue_pairs"], str(pairs)),
    ):
        if got != expected:
            return f"{name}: perftest measured {_words(got)}, not {_words(expected)} as asked"
    if ends == 2 and len(output.ends) < 2:
        return "the server's end printed no figures"
    return None


def _words(value: object) -> str:
    return (
        " ".join(str(component) for component in value) if isinstance(value, tuple) else str(value)
    )


def run_server(
    argv: Sequence[str], *, port: int, timeout_seconds: float, environment: Mapping[str, str]
) -> process.Completed:
    """Serve one client.

    Raises:
        OSError: the program cannot be started.
        Orphaned: whoever started this process is gone.
    """
    done = process.run(argv, timeout_seconds=timeout_seconds, environment=environment)
    failure = done.failure(timeout_seconds)
    if done.timed_out:
        failure = (
            f"the server was ended at its time limit of {timeout_seconds:g} s: no client came to "
            f"TCP port {port}, or one that did not end"
        )
    return replace(done, stdout=_labelled("server", done), stderr="", reason=failure)


def run_client(
    argv: Sequence[str],
    *,
    connect_seconds: float,
    timeout_seconds: float,
    environment: Mapping[str, str],
) -> process.Completed:
    """Measure against a server that may come up later: tried again for ``connect_seconds``.

    Raises:
        OSError, Orphaned: as run_server.
    """
    started = time.monotonic()
    while True:
        tried = time.monotonic() - started
        remaining_seconds = max(1.0, timeout_seconds - tried)
        done = process.run(argv, timeout_seconds=remaining_seconds, environment=environment)
        refused = done.returncode != 0 and REFUSED in done.stdout + done.stderr
        waited = time.monotonic() - started
        if not refused or waited + _RETRY_SECONDS > min(connect_seconds, timeout_seconds):
            break
        time.sleep(_RETRY_SECONDS)
    failure = done.failure(remaining_seconds)
    if refused:
        failure = (
            f"no server answered at {argv[-1]} within {connect_seconds:g} s: is TCP port "
            f"{_port(argv)} open between the nodes, and did the server's end start?"
        )
    return replace(done, stdout=_labelled("client", done), stderr="", reason=failure)


def run_pair(
    server: Sequence[str],
    client: Sequence[str],
    *,
    port: int,
    timeout_seconds: float,
    environment: Mapping[str, str],
    proc_root: str = "/proc",
) -> process.Completed:
    """Run both ends on this node; nothing of either is left when this returns.

    Each end has a process of its own that watches over it (process.run).

    Raises:
        OSError: a program cannot be started, or the port is taken.
    """
    if _listening(port, proc_root):
        raise OSError(f"TCP port {port} is taken by another program on this node")
    started = time.monotonic()
    ends: Dict[str, _Watcher] = {}
    try:
        ends["server"] = _Watcher(server, timeout_seconds, environment)
        while not _listening(port, proc_root) and not ends["server"].ended(0):
            time.sleep(_POLL_SECONDS)
        if not ends["server"].ended(0):
            remaining_seconds = max(1.0, timeout_seconds - (time.monotonic() - started))
            ends["client"] = _Watcher(client, remaining_seconds, environment)
            ends["client"].ended(remaining_seconds + _GRACE_SECONDS)
            went_well = ends["client"].done is not None and ends["client"].done.returncode == 0
            ends["server"].ended(_GRACE_SECONDS if went_well else _SHORT_GRACE_SECONDS)
    finally:
        for end in ends.values():
            end.close()
    text = "\n".join(
        _labelled(side, ends[side].done) for side in ("client", "server") if side in ends
    )
    return process.Completed(
        argv=tuple(client),
        returncode=0,
        stdout=text,
        seconds=time.monotonic() - started,
        reason=_why(ends, port, timeout_seconds),
    )


def _why(ends: Mapping[str, _Watcher], port: int, timeout_seconds: float) -> Optional[str]:
    """Why both ends together count as failed: of two reasons the client's."""
    for side in ("client", "server"):
        if side not in ends:
            continue
        done = ends[side].done
        failure = "it did not end" if done is None else done.failure(timeout_seconds)
        if failure and "client" not in ends:
            return f"the server ended before it listened on TCP port {port}: {failure}"
        if failure:
            return f"the {side}'s end: {failure}"
    return None


class _Watcher:
    """A process that runs one command through process.run and hands over how it ended."""

    def __init__(
        self, argv: Sequence[str], timeout_seconds: float, environment: Mapping[str, str]
    ) -> None:
        context = multiprocessing.get_context("fork")
        self.done: Optional[process.Completed] = None
        self._receiver, sender = context.Pipe(duplex=False)
        self._process = context.Process(
            target=_watch, args=(sender, argv, timeout_seconds, environment), daemon=True
        )
        self._process.start()
        sender.close()

    def ended(self, seconds: float) -> bool:
        """Wait so long for the command's end.

        Raises:
            OSError: it could not be started.
        """
        if self.done is None and self._receiver.poll(seconds):
            try:
                outcome = self._receiver.recv()
            except EOFError:
                return True
            if isinstance(outcome, OSError):
                raise outcome
            self.done = outcome
        return self.done is not None

    def close(self) -> None:
        """End the command if it still runs: it dies with its watcher."""
        self._process.kill()
        self._process.join()
        self._receiver.close()


def _watch(
    sender: Any, argv: Sequence[str], timeout_seconds: float, environment: Mapping[str, str]
) -> None:
    outcome: object
    try:
        outcome = process.run(argv, timeout_seconds=timeout_seconds, environment=environment)
    except OSError as error:
        outcome = error
    sender.send(outcome)


def _listening(port: int, proc_root: str) -> bool:
    """Whether a program listens on the TCP port (proc_net_tcp of the Linux kernel, state 0A)."""
    for name in ("tcp", "tcp6"):
        try:
            with open(os.path.join(proc_root, "net", name), encoding="ascii") as stream:
                rows = [line.split() for line in stream][1:]
        except OSError:
            continue
        if any(row[3] == "0A" and int(row[1].rpartition(":")[2], 16) == port for row in rows):
            return True
    return False


def _labelled(side: str, done: Optional[process.Completed]) -> str:
    """An end's output under its label."""
    if done is None:
        return f"[{side}]\n"
    text = f"[{side}]\n{done.stdout}"
    return text + (f"\n[{side}: standard error]\n{done.stderr}" if done.stderr else "")


def _port(argv: Sequence[str]) -> str:
    return next(argument.partition("=")[2] for argument in argv if argument.startswith("--port="))


def numa_cpus(device: Mapping[str, Any], numa: Mapping[int, Tuple[int, ...]]) -> Tuple[int, ...]:
    """The CPUs next to the device; none where the machine does not say, or has one node only."""
    node = device["numa_node"]
    return tuple(numa.get(node, ())) if len(numa) > 1 and node is not None else ()
