"""nccl-tests as a case: its command line, and whether a run counts."""

from __future__ import annotations

import os
import re
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ...errors import BadInput, ParseError
from ...node.gpu_places import bound
from ...options import ModuleOption, Option, RoleOption, time_limit
from ...run.launcher import LAUNCHER, LAUNCHERS, Launcher
from .output import OPERATIONS, NcclOutput, parse_nccl

_TRANSPORTS = ("nvlink", "ib")
_TOOLS = ["git", "make", "autoconf", "automake", "libtool"]
OPTIONS = (
    RoleOption(
        "version",
        "NCCL's version, built for CUDA 13: of the packages that are installed, and of the library"
        " that is found then.",
        "2.30.4",
        why="That of Azure's images (Azure/azhpc-images@8e9d055 versions.json).",
    ),
    RoleOption(
        "repository",
        "The repository of these packages, as role vendor_packages takes it (name, url, key_url,"
        " key_fingerprint); empty: NVIDIA's CUDA repository for the distribution. A site without"
        " internet names its mirror.",
        {},
    ),
    RoleOption(
        "build_packages",
        "The distribution's packages that nccl-tests and the plugin are built with, by package"
        " manager; any version does.",
        {
            "apt": [*_TOOLS[:2], "g++", *_TOOLS[2:], "libibverbs-dev"],
            "dnf": [*_TOOLS[:2], "gcc-c++", *_TOOLS[2:], "rdma-core-devel"],
        },
    ),
    RoleOption(
        "tests_repository",
        "nccl-tests, built with MPI into /opt/nccl-tests/build as on Azure's images.",
        "https://github.com/NVIDIA/nccl-tests.git",
    ),
    RoleOption(
        "tests_commit",
        "Its commit, all 40 digits.",
        "a0b82b2260cf5152b9f8c061bbf7eaf0ba096432",
        why="Tag v2.19.6 (2026-07-09).",
    ),
    RoleOption(
        "sharp_plugin_repository",
        "The RDMA-SHARP plugin, built on sizes with InfiniBand.",
        "https://github.com/Mellanox/nccl-rdma-sharp-plugins.git",
    ),
    RoleOption(
        "sharp_plugin_commit",
        "Its commit, all 40 digits.",
        "2f5ac02e164336044388b7f1f6242cc0db575fec",
        why="The head of master (version 2.7, 2026-04-02). Azure's images build whatever master is"
        " on the day; this is that branch, pinned.",
    ),
    RoleOption(
        "from_image",
        "On an Azure HPC image that has NCCL: keep (verify libraries and nccl-tests, install"
        " nothing) or replace.",
        "keep",
        choices=("keep", "replace"),
    ),
    RoleOption(
        "topology_file_used",
        "Whether NCCL is given the topology file, on sizes that have one: by_context (what the"
        " catalog says for this size and for jobs on one node, on several and in containers, with"
        " its reasons), always or never. run.json has what was chosen.",
        "by_context",
        choices=("by_context", "always", "never"),
    ),
    RoleOption(
        "variables",
        "More variables for /etc/nccl.conf and all profiles, name to value; they win over the"
        " role's own (catalog/nccl_settings.yml).",
        {},
    ),
    ModuleOption(
        "variables",
        "Environment variables of the run, name to value; inherited ones of NCCL, UCX and MPI are"
        " left out. Passed to all nodes. Where NCCL_TOPO_FILE is among them, that file must have"
        " been loaded, or none where it is empty.",
        {},
    ),
    RoleOption(
        "operations",
        "Collectives that the benchmark measures, each a case of its own.",
        ["all_reduce"],
        choices=tuple(OPERATIONS),
        filled=True,
    ),
    ModuleOption("operation", "The case's collective.", choices=tuple(OPERATIONS), required=True),
    ModuleOption(
        "binary_dir",
        "Folder of nccl-tests' programs, on every node.",
        "/opt/nccl-tests/build",
        type="path",
    ),
    Option("bytes_from", "Smallest message in bytes.", 1024, least=1),
    Option(
        "bytes_to",
        "Largest message in bytes; nccl-tests goes as far as three times that fits into the GPU's"
        " memory.",
        17179869184,
        why="16 GiB is what Azure's health checks judge the large sizes at.",
        least=1,
    ),
    ModuleOption("factor", "Each size is the one before times this.", 2, least=2),
    Option(
        "iterations",
        "Timed operations of each size, of which nccl-tests prints the mean.",
        20,
        least=1,
    ),
    Option("warmup", "Operations of each size before them that are not timed.", 5),
    Option(
        "cycles",
        "How often all sizes are gone through; from 3 on each size has a median.",
        1,
        least=1,
    ),
    ModuleOption(
        "gpu_masks",
        "Hexadecimal masks of the CPUs beside each GPU, in PCI order: what each rank of a node is"
        " bound to. Empty, and with O(launcher=local), nothing is bound.",
        [],
    ),
    Option("gpus_per_node", "GPUs used on each node; 0 means all that the node has.", 0),
    RoleOption(
        "nodes",
        "Names of the nodes of a benchmark over several, as they stand in the inventory and as they"
        " reach each other; the first one starts it. Empty: each node by itself.",
        [],
    ),
    RoleOption(
        "node_counts",
        "Numbers of these nodes to measure on, such as [1, 2, 4], each on the first of them; empty:"
        " on all.",
        [],
        type="list",
        elements="int",
        least=1,
    ),
    RoleOption(
        "launcher",
        "local (one process with all GPUs of one node), mpirun (the node's, over ssh) or"
        " slurm (a job by sbatch, its processes by srun).",
        "local",
        choices=LAUNCHERS,
    ),
    RoleOption(
        "transport_expected",
        "What NCCL's log must show, or the record is invalid: by_size (NVLink within nodes whose"
        " GPUs share a switch; between nodes of a size with InfiniBand that, with GPUDirect), any,"
        " nvlink or ib.",
        "by_size",
        choices=("by_size", "any", *_TRANSPORTS),
    ),
    ModuleOption(
        "transports",
        "What must have been used: nvlink is between the GPUs of a node; ib is InfiniBand between"
        " nodes, or on one node where NCCL was told to use nothing else. Empty judges nothing.",
        [],
        choices=_TRANSPORTS,
    ),
    RoleOption(
        "ib_loopback",
        "Whether the GPUs of one node are also measured over their InfiniBand adapters alone, with"
        " NVLink and shared memory off: by_size (where catalog/expectations.yml has a floor for"
        " it), always or never.",
        "by_size",
        choices=("by_size", "always", "never"),
    ),
    ModuleOption(
        "loopback",
        "Whether this case is that one: it says so in its name.",
        False,
    ),
    ModuleOption(
        "gpudirect",
        "Whether networks must have read and written GPU memory (GPUDirect RDMA).",
        False,
    ),
    time_limit(
        900,
        "one collective",
        reason="25 operations of 16 GiB at 200 GB/s take 4 s; over sockets, 100 times that.",
    ),
    *LAUNCHER,
)
# Settings of the log that judge() needs to tell the way of the data.
_LOGGING = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,ENV,NET,GRAPH"}
_LOG_FILE = "NCCL_DEBUG_FILE"
_FALL_BACK = {
    "p2p": "GPUs talked directly but, by NCCL's log, not over NVLink",
    "shm": "it fell back to host memory (SHM)",
    "socket": "it fell back to TCP sockets",
    "roce": "it took an adapter whose link is Ethernet (RoCE)",
    "ib": "it took InfiniBand",
    "other": "it took another way",
    "nvlink": "it took NVLink",
}


class Job(NamedTuple):
    """The programs to run, and their nodes.

    Attributes:
        binary_dir: nccl-tests' folder build.
        operation: one of OPERATIONS.
        bytes_from, bytes_to, factor: sizes, each the one before times factor.
        iterations, warmup, cycles: as nccl-tests' -n, -w and -N.
        gpus_per_node: GPUs used on each node.
        launcher: local runs one process with all GPUs of this node, the others one process a GPU.
        gpu_masks: the CPUs of each of these processes of a node; empty binds none.
        loopback: one node's GPUs over its adapters alone.
    """

    binary_dir: str
    operation: str
    bytes_from: int
    bytes_to: int
    factor: int
    iterations: int
    warmup: int
    cycles: int
    gpus_per_node: int
    launcher: Launcher
    gpu_masks: Tuple[str, ...] = ()
    loopback: bool = False

    def check(self) -> None:
        """Refuse cases that cannot run or would measure nothing.

        Raises:
            BadInput: naming the parameter and the number that is wrong.
        """
        if self.bytes_to < self.bytes_from:
            raise BadInput(
                f"bytes_from {self.bytes_from} and bytes_to {self.bytes_to} are no range of sizes"
            )
        if self.ranks < 2:
            raise BadInput("1 GPU on 1 node has nobody to talk to: gpus_per_node must be 2 or more")

    @property
    def node_count(self) -> int:
        return self.launcher.node_count

    @property
    def ranks(self) -> int:
        return self.node_count * self.gpus_per_node

    @property
    def case(self) -> str:
        """``all_reduce-2x8``: operation, nodes x GPUs of each; with a loopback ``-ib`` behind."""
        over = "-ib" if self.loopback else ""
        return f"{self.operation}-{self.node_count}x{self.gpus_per_node}{over}"

    @property
    def program(self) -> str:
        return os.path.join(self.binary_dir, f"{self.operation}_perf")

    def command(
        self, variables: Mapping[str, str], limit_seconds: int, *, json_file: str = ""
    ) -> List[str]:
        """The whole command line; ``variables`` are those that the ranks need, ``json_file`` the
        path for option -J."""
        alone = self.launcher.kind == "local"
        test = [
            self.program,
            *("-b", str(self.bytes_from), "-e", str(self.bytes_to), "-f", str(self.factor)),
            *("-g", str(self.gpus_per_node if alone else 1)),
            *("-n", str(self.iterations), "-w", str(self.warmup), "-c", "1"),
        ]
        if self.cycles > 1:
            test += ["-N", str(self.cycles)]
        if json_file:
            test += ["-J", json_file]
        return self.launcher.command(
            test,
            per_node=1 if alone else self.gpus_per_node,
            variables=variables,
            placement=None if alone else bound(self.gpu_masks, self.gpus_per_node),
            gpus_per_node=self.gpus_per_node,
            name="trueup-nccl",
            limit_seconds=limit_seconds,
        )


def environment(variables: Mapping[str, str]) -> Dict[str, str]:
    """The variables to run with: those given, and NCCL's log on.

    Raises:
        BadInput: one that would take the log away, or whose name is none.
    """
    for name, value in variables.items():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise BadInput(f"variables has {name!r}, which is no variable's name")
        if name == _LOG_FILE or (name in _LOGGING and value != _LOGGING[name]):
            raise BadInput(
                f"variables sets {name}: NCCL's log must be in the output, by "
                + " ".join(f"{key}={text}" for key, text in _LOGGING.items())
            )
    return {**variables, **_LOGGING}


def software(output: NcclOutput) -> Dict[str, str]:
    """Versions for the record, and the topology file that NCCL loaded."""
    versions = {
        "nccl": output.nccl_version,
        "nccl_tests": output.tool_version,
        "nccl_net_plugins": ",".join(output.log.plugins),
        "topology_file": output.log.topology_file,
    }
    return {name: value for name, value in versions.items() if value}


def judge(
    output: NcclOutput,
    job: Job,
    *,
    transports: Sequence[str] = (),
    gpudirect: bool = False,
    topology_file: Optional[str] = None,
) -> Optional[str]:
    """Why a run that ended is not a valid measurement, or None. Errors in its results come first.

    Args:
        transports: required transports: nvlink within nodes, ib between them (and on one node,
            where NCCL was told to leave NVLink alone).
        gpudirect: networks must have read and written GPU memory.
        topology_file: the one that must have been loaded; empty: none may have been; None: either.
    """
    return (
        _wrong_values(output)
        or _wrong_run(output, job)
        or _wrong_way(output, job, transports)
        or _wrong_access(output, gpudirect=gpudirect)
        or _wrong_topology(output, topology_file)
    )


def explain(text: str) -> Optional[str]:
    """The error message of nccl-tests itself in a run that ended with another exit status than 0;
    None where it printed none."""
    try:
        return _wrong_values(parse_nccl(text))
    except ParseError:
        return None


def _wrong_values(output: NcclOutput) -> Optional[str]:
    if output.wrong_rows:
        sizes = ", ".join(dict.fromkeys(str(row.size) for row in output.wrong_rows))
        return f"wrong values in the results of {sizes} bytes"
    if output.out_of_bounds is None:
        return "nccl-tests did not check its results (validation: 0)"
    if output.out_of_bounds:
        return f"{output.out_of_bounds} results out of bounds"
    if output.average_ok is False:
        return "the average bus bandwidth is below NCCL_TESTS_MIN_BW, by nccl-tests' own verdict"
    return None


def _wrong_run(output: NcclOutput, job: Job) -> Optional[str]:
    if output.operation not in {"unknown", job.operation}:
        return f"the output is of {output.operation} and not of {job.operation}"
    if (output.ranks, len(output.hosts)) != (job.ranks, job.node_count):
        return (
            f"{output.ranks} GPUs on {len(output.hosts)} nodes took part instead of {job.ranks} on "
            f"{job.node_count}"
        )
    return None


def _wrong_way(output: NcclOutput, job: Job, transports: Sequence[str]) -> Optional[str]:
    log = output.log
    requirements: List[Tuple[str, str, Optional[str]]] = []
    if "nvlink" in transports and job.gpus_per_node > 1:
        requirements.append(("within the node", "nvlink", log.within))
    if "ib" in transports:
        if job.node_count > 1:
            requirements.append(("between nodes", "ib", log.between))
        else:
            requirements.append(("within the node", "ib", log.within))
    for where, need, used in requirements:
        if used == need:
            continue
        if used in {None, "unknown"}:
            return f"whether {need} was used {where} cannot be told: {log.why_unknown}"
        return f"{need} was not used {where}: {_FALL_BACK[str(used)]}"
    return None


def _wrong_access(output: NcclOutput, *, gpudirect: bool) -> Optional[str]:
    if not gpudirect or output.log.gpudirect == "yes":
        return None
    if output.log.gpudirect == "unknown":
        return "whether GPUDirect RDMA was used cannot be told: NCCL's log shows no network channel"
    some = "some" if output.log.gpudirect == "partly" else "all"
    return f"GPUDirect RDMA was not used on {some} of the channels: is nvidia-peermem loaded?"


def _wrong_topology(output: NcclOutput, expected: Optional[str]) -> Optional[str]:
    loaded = output.log.topology_file
    if expected is None or loaded == (expected or "none"):
        return None
    if loaded == "unknown":
        return "whether the topology file was loaded cannot be told: NCCL's log does not show it"
    if not expected:
        return f"the topology file {loaded} was loaded, and none was to be"
    if expected in output.log.topology_failed:
        return f"NCCL could not open the topology file {expected}"
    return f"the topology file {expected} was not loaded (loaded: {loaded})"
