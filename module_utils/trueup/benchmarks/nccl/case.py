"""nccl-tests as a case: its command line, and whether a run counts."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from ...errors import BadInput, ParseError
from ...run.launcher import Launcher
from .output import NcclOutput, parse_nccl

__all__ = ["TRANSPORTS", "Job", "environment", "explain", "judge", "software"]

TRANSPORTS = ("nvlink", "ib")
# What the log must hold for judge() to tell the way that the data took.
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


@dataclass(frozen=True)
class Job:
    """What is run, and on which nodes.

    Attributes:
        binary_dir: nccl-tests' folder build.
        operation: one of OPERATIONS.
        bytes_from, bytes_to, factor: sizes, each the one before times factor.
        iterations, warmup, cycles: as nccl-tests' -n, -w and -N.
        gpus_per_node: GPUs used on each node.
        launcher: local runs one process with all GPUs of this node, the others one process a GPU.
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

    def check(self) -> None:
        """Refuse what cannot be run or would measure nothing.

        Raises:
            BadInput: naming the parameter and the number that is wrong.
        """
        if self.bytes_from < 1 or self.bytes_to < self.bytes_from:
            raise BadInput(
                f"bytes_from {self.bytes_from} and bytes_to {self.bytes_to} are no range of sizes"
            )
        for name, least in (
            ("factor", 2),
            ("iterations", 1),
            ("warmup", 0),
            ("cycles", 1),
            ("gpus_per_node", 1),
        ):
            if getattr(self, name) < least:
                raise BadInput(f"{name} {getattr(self, name)} is below {least}")
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
        """``all_reduce-2x8``: operation, nodes x GPUs of each."""
        return f"{self.operation}-{self.node_count}x{self.gpus_per_node}"

    def command(self, variables: Mapping[str, str], limit_seconds: int) -> List[str]:
        """The whole command line; ``variables`` are those that the ranks need."""
        alone = self.launcher.kind == "local"
        test = [
            os.path.join(self.binary_dir, f"{self.operation}_perf"),
            *("-b", str(self.bytes_from), "-e", str(self.bytes_to), "-f", str(self.factor)),
            *("-g", str(self.gpus_per_node if alone else 1)),
            *("-n", str(self.iterations), "-w", str(self.warmup), "-c", "1"),
        ]
        if self.cycles > 1:
            test += ["-N", str(self.cycles)]
        # NCCL itself binds each process near its GPU.
        return self.launcher.command(
            test,
            per_node=1 if alone else self.gpus_per_node,
            variables=variables,
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
    known = {
        "nccl": output.nccl_version,
        "nccl_tests": output.tool_version,
        "nccl_net_plugins": ",".join(output.log.plugins),
        "topology_file": output.log.topology_file,
    }
    return {name: value for name, value in known.items() if value}


def judge(
    output: NcclOutput,
    job: Job,
    *,
    transports: Sequence[str] = (),
    gpudirect: bool = False,
    topology_file: Optional[str] = None,
) -> Optional[str]:
    """Why a run that ended is not a valid measurement, or None. What is wrong in its results comes
    before all else.

    Args:
        transports: what must have been used: nvlink within nodes, ib between them (and on one node,
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
    """What nccl-tests' output itself says was wrong in a run that ended with another exit status
    than 0; None where it says nothing."""
    try:
        return _wrong_values(parse_nccl(text))
    except ParseError:
        return None


def _wrong_values(output: NcclOutput) -> Optional[str]:
    if output.out_of_bounds is None:
        return "nccl-tests did not check its results (validation: 0)"
    if output.wrong_rows:
        sizes = ", ".join(dict.fromkeys(str(row.size) for row in output.wrong_rows))
        return f"wrong values in the results of {sizes} bytes"
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
    wanted: List[Tuple[str, str, Optional[str]]] = []
    if "nvlink" in transports and job.gpus_per_node > 1:
        wanted.append(("within the node", "nvlink", log.within))
    if "ib" in transports:
        if job.node_count > 1:
            wanted.append(("between nodes", "ib", log.between))
        else:
            wanted.append(("within the node", "ib", log.within))
    for where, need, used in wanted:
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


def _wrong_topology(output: NcclOutput, wanted: Optional[str]) -> Optional[str]:
    loaded = output.log.topology_file
    if wanted is None or loaded == (wanted or "none"):
        return None
    if loaded == "unknown":
        return "whether the topology file was loaded cannot be told: NCCL's log does not show it"
    if not wanted:
        return f"the topology file {loaded} was loaded, and none was to be"
    if wanted in output.log.topology_failed:
        return f"NCCL could not open the topology file {wanted}"
    return f"the topology file {wanted} was not loaded (loaded: {loaded})"
