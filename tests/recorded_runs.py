"""Runs for tests of what reads them: records that the parsers make of tools' outputs, as the
benchmark modules do, with the run's ``run.json``.

Outputs come from tests/data, where SOURCES.md says which are real, or are laid out here as those
are, with figures that follow a formula (``nccl_text``, ``devito_text``). All of the latter are
synthetic. So is what a record says of its machine: the outputs are of smaller machines than the
sizes named, and no figure here is one of that size.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import fleet
import machines
from trueup_analysis import rooms
from trueup_node.benchmarks.blob_copy import case as blob_copy
from trueup_node.benchmarks.devito import case as devito
from trueup_node.benchmarks.fio import case as fio
from trueup_node.benchmarks.gromacs import case as gromacs
from trueup_node.benchmarks.megatron import case as megatron
from trueup_node.benchmarks.nccl import case as nccl
from trueup_node.benchmarks.nv_a10 import case as nv_a10
from trueup_node.benchmarks.vllm import case as vllm
from trueup_node.errors import ParseError
from trueup_node.node import state as node_state
from trueup_node.node.affinity import Placement, plan
from trueup_node.node.topology import format_cpu_list
from trueup_node.reading import unverified
from trueup_node.record import Metric, write_record
from trueup_node.run.bench import Case
from trueup_node.run.launcher import Launcher

__all__ = [
    "H100",
    "HBV3",
    "NC_A100",
    "NC_H100",
    "NDV4",
    "NV_A10",
    "PLANTED",
    "ROLE_FAILED",
    "TOOLS",
    "UNREACHABLE",
    "Run",
    "every_tool",
    "h100_fleet",
    "hbv3_scaling",
    "home_run",
    "nccl_sweep",
    "nccl_text",
    "parsed",
    "record_of",
    "training_run",
    "write",
]

DATA = Path(__file__).parent / "data"
KIB, MIB, GIB = 1024, 1024**2, 1024**3
HBV3 = "Standard_HB120rs_v3"
H100 = fleet.SIZE
NDV4 = "Standard_ND96asr_v4"
NC_A100 = "Standard_NC24ads_A100_v4"
NC_H100 = "Standard_NC40ads_H100_v5"
NV_A10 = "Standard_NV12ads_A10_v5"
TOOLS = rooms.names()

_UBUNTU = {
    "region": "eastus",
    "offer": "payg",
    "os": "Ubuntu 24.04.3 LTS",
    "kernel": "6.8.0-1040-azure",
    "image": "microsoft-dsvm:ubuntu-hpc:2404:24.04.2026100101",
}
# What the fact trueup_node says of a node of the size, as far as records hold it.
_NODES: dict[str | None, dict[str, Any]] = {
    HBV3: {
        "family": "hbv3",
        "cpu_model": "AMD EPYC 7V73X 64-Core Processor",
        "cores": 120,
        "memory_bytes": 470 * 10**9,
        "last_level_cache_bytes": 1536 * MIB,
    },
    H100: {
        "family": "nd_h100_v5",
        "cpu_model": "Intel(R) Xeon(R) Platinum 8480C",
        "cores": 96,
        "memory_bytes": 1960 * 10**9,
    },
    NDV4: {
        "family": "ndv4",
        "cpu_model": "AMD EPYC 7V12 64-Core Processor",
        "cores": 96,
        "memory_bytes": 950 * 10**9,
    },
    NC_A100: {
        "family": "nc_a100_v4",
        "cpu_model": "AMD EPYC 7V13 64-Core Processor",
        "cores": 24,
        "memory_bytes": 230 * 10**9,
    },
    NC_H100: {
        "family": "nc_h100_v5",
        "cpu_model": "AMD EPYC 9V84 96-Core Processor",
        "cores": 40,
        "memory_bytes": 340 * 10**9,
    },
    NV_A10: {
        "family": "nv_a10_v5",
        "cpu_model": "AMD EPYC 74F3V 24-Core Processor",
        "cores": 12,
        "memory_bytes": 110 * GIB,
    },
    # Off Azure, as tests/data/machines/lab_2core.
    None: {
        "family": "local",
        "os": "Debian GNU/Linux 12 (bookworm)",
        "kernel": "6.1.0-40-amd64",
        "cpu_model": "AMD EPYC",
        "cores": 2,
        "memory_bytes": 8 * GIB,
        "last_level_cache_bytes": 32 * MIB,
    },
}


# --- records and runs ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """One run.

    Attributes:
        run_id: its id.
        records: in their order.
        outputs: of each record the tool's output that it was read from, None where that is not
            kept.
        manifest: its run.json.
    """

    run_id: str
    records: tuple[dict[str, Any], ...]
    outputs: tuple[str | None, ...]
    manifest: dict[str, Any]


Kept = tuple[dict[str, Any], str | None]


def write(folder: Path, run: Run) -> Path:
    """Write the run below ``folder`` as the callback trueup_records does; returns its own folder.

    A record whose output is kept goes the callback's way, with the output beside it; the others are
    written plainly, for the sake of fleets.
    """
    target = folder / run.run_id
    target.mkdir(parents=True, exist_ok=True)
    for number, (record, output) in enumerate(zip(run.records, run.outputs, strict=True)):
        if output is None:
            name = f"{record['benchmark']}-{number:05d}.json"
            (target / name).write_text(json.dumps(record), encoding="utf-8")
        else:
            write_record(str(folder), record, output)
    text = json.dumps(run.manifest, indent=2, sort_keys=True) + "\n"
    (target / "run.json").write_text(text, encoding="utf-8")
    return target


def parsed(text: str, tool: str) -> Any:
    """What the tool's parser reads from the text.

    Raises:
        ParseError: it refuses the text.
    """
    room = rooms.part(tool, "output")
    return getattr(room, f"parse_{tool}")(text)


def record_of(
    text: str,
    tool: str,
    *,
    size: str | None = None,
    nodes: Sequence[str] = ("node-1",),
    parameters: Mapping[str, Any] | None = None,
    figures: Callable[[Any], Sequence[Metric]] | None = None,
    judge: Callable[[Any], str | None] | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """The record that the tool's module makes of the text.

    Args:
        text: what the tool printed.
        size: the VM size; None for a machine that is not on Azure.
        nodes: that took part.
        parameters: what was asked for; what the module takes from the output is added.
        figures: the rows made of the parser's result; its own where this is not given.
        judge: why the parser's result is not valid, by the module's rule; the failed checks where
            this is not given.
        fields: of ``trueup_node.run.bench.Case``: case, ranks, threads_per_rank, gpus, command,
            environment, software, seconds.

    Raises:
        ParseError: the parser refuses the text.
    """
    output = parsed(text, tool)
    software = _software(output, tool)
    software.update(fields.pop("software", {}))
    case = Case(
        benchmark=tool,
        run_id="20261120T091300Z-7c1e",
        node_name=nodes[0],
        node=_node(size),
        nodes=list(nodes),
        parameters={**(parameters or {}), **_found(output, tool, parameters or {})},
        software=software,
        started_at="2026-11-20T09:13:00Z",
        **{"seconds": 60.0, "command": [tool], **fields},
    )
    reason = judge(output) if judge else _broken(output.checks)
    return case.record(
        "invalid" if reason else "ok",
        reason=reason,
        metrics=figures(output) if figures else output.metrics(),
    )


def _broken(checks: Mapping[str, bool]) -> str | None:
    failed = sorted(name for name, passed in checks.items() if not passed)
    return f"failed checks: {', '.join(failed)}" if failed else None


def _node(size: str | None) -> dict[str, Any]:
    return {**(_UBUNTU if size else {}), "vm_size": size, **_NODES[size]}


def _software(output: Any, tool: str) -> dict[str, str]:
    """The versions that the module takes from the output."""
    version = output.tool_version or "unknown"
    if tool == "nccl":
        return nccl.software(output)
    if tool == "vllm":
        return {"vllm": version, "server_vllm": output.server_version or "unknown"}
    found = dict(getattr(output, "software", {}))
    if tool == "gpu_copy" and output.tool_version:
        found[output.program] = version
    if tool == "ib":
        found["perftest"] = version
    if tool in ("fio", "gromacs", "hpl"):
        found[tool] = version
    if tool == "nv_a10":
        found["ffmpeg"] = version
    return found


def _found(output: Any, tool: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that the module takes from the output."""
    if tool == "blob_copy":
        return {
            "program": output.program,
            "cores_per_copy": output.cores_per_copy,
            "throttled": sum(copy.throttled for copy in output.copies),
        }
    if tool == "devito":
        return {"block_shape": "x".join(str(size) for size in output.tuned.values())}
    if tool == "gemm":
        return {"gpu_name": output.gpus[0].name}
    if tool == "gromacs" and hasattr(output, "atoms"):
        return {
            "atoms": output.atoms,
            "dt_ps": output.dt_ps,
            "pme_ranks": output.pme_ranks,
            "steps_timed": output.steps_timed,
            "tpr_sha256": output.driver.get("tpr_sha256", ""),
            "mdrun": output.driver.get("mdrun", ""),
            **output.build,
            **output.offload,
        }
    if tool == "nccl":
        return {
            **output.parameters,
            "operation": asked.get("operation", output.parameters["operation"]),
        }
    return dict(output.parameters) if tool in ("gpu_copy", "ib") else {}


def _kept(text: str, tool: str, **fields: Any) -> Kept:
    return record_of(text, tool, **fields), text


def _data(tool: str, name: str) -> str:
    return (DATA / tool / name).read_text(encoding="utf-8")


def _run(
    run_id: str,
    kept: Iterable[Kept],
    *,
    hosts: Mapping[str, Mapping[str, int]] | None = None,
    **manifest: Any,
) -> Run:
    """A run of these records, one after the other; ``hosts`` adds to the nodes in them."""
    begun = datetime.strptime(run_id[:16], "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc)
    now = begun + timedelta(minutes=2)
    records, outputs = [], []
    for record, output in kept:
        moment = now.strftime("%Y-%m-%dT%H:%M:%SZ")
        records.append({**record, "run_id": run_id, "started_at": moment})
        outputs.append(output)
        now += timedelta(seconds=math.ceil(record["duration_seconds"]))
    nodes = sorted({node for record in records for node in record["nodes"]})
    counted = {**{node: _counts(ok=64, changed=3) for node in nodes}, **(hosts or {})}
    return Run(
        run_id,
        tuple(records),
        tuple(outputs),
        {
            "schema": "trueup.run/1",
            "run_id": run_id,
            "playbook": "site.yml",
            "started_at": begun.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "finished_at": (now + timedelta(minutes=1)).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "expected": sorted(counted),
            "failed_in": {},
            "hosts": counted,
            "skipped": [],
            "chosen": {},
            "warnings": [],
            **manifest,
        },
    )


def _counts(**changed: int) -> dict[str, int]:
    """A host's tasks as Ansible counts them."""
    names = ("ok", "failed", "unreachable", "changed", "skipped", "rescued", "ignored")
    return {**dict.fromkeys(names, 0), **changed}


# --- NCCL ----------------------------------------------------------------------------------------

# Bus bandwidth over algorithm bandwidth (nccl-tests doc/PERFORMANCE.md), of n ranks.
_FACTORS: dict[str, Callable[[int], float]] = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "alltoall": lambda n: (n - 1) / n,
}
_SUMS = ("all_reduce", "reduce_scatter")
_NDV5_TOPOLOGY = "/opt/microsoft/ndv5-topo.xml"
_ADAPTERS = " ".join(f"[{number}]mlx5_ib{number}:1/IB" for number in range(8))


def nccl_text(
    operation: str,
    hosts: Sequence[str],
    *,
    gpus: int = 8,
    least: int = 8,
    most: int = 16 * GIB,
    busbw: float = 490e9,
    start: float = 20e-6,
) -> str:
    """Synthetic output of nccl-tests 2.19.6 as tests/data/nccl has it, on nodes of 8 H100, with
    NCCL's log reduced to what tells the way of the data.

    Args:
        busbw: what large messages come near to, byte/s.
        start: the time of a message of no size, s.
    """
    ranks = gpus * len(hosts)
    factor = _FACTORS[operation](ranks)
    asked = f"nThread 1 nGpus {gpus if len(hosts) == 1 else 1} minBytes {least} maxBytes {most}"
    times = "warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0 unalign: 0"
    half = "     time    algbw    busbw   #wrong"
    units = "     (us)   (GB/s)   (GB/s)         "
    lines = [
        "# nccl-tests version 2.19.6 nccl-headers=23004 nccl-library=23004",
        f"# Collective test starting: {operation}_perf",
        f"# {asked} step: 2(factor) {times}",
        "#",
        "# Using devices",
        *_devices(hosts, gpus),
        *_nccl_log(hosts, gpus),
        "#",
        f"# {'':40s} out-of-place                       in-place          ",
        f"#    size    count     type    redop     root{half}{half}",
        f"#     (B)  (elements)                           {units}{units}",
    ]
    rates = []
    size = least
    while size <= most:
        count = size // 4
        if operation != "all_reduce":
            # Each rank's part, in whole 16 bytes; too small a message is one of 0 bytes.
            count = count // ranks & ~3
        total = count * 4 * (1 if operation == "all_reduce" else ranks)
        row = f"{total:12d}  {count:12d}  {'float':>8s}"
        row += f"  {'sum' if operation in _SUMS else 'none':>6s}  {-1:6d}"
        for side in (0, 1):
            seconds = (start + total * factor / busbw) * (1 + 0.003 * side)
            algorithm = total / seconds / 1e9
            rates.append(algorithm * factor)
            wrong = "N/A" if operation == "alltoall" and side else "0"
            row += f"  {short(seconds * 1e6, 7)}  {short(algorithm, 6)}"
            row += f"  {short(algorithm * factor, 6)}  {wrong:>6s}"
        lines.append(row)
        size *= 2
    lines += [
        "# Out of bounds values : 0 OK",
        f"# Avg bus bandwidth    : {sum(rates) / len(rates):g} ",
        "#",
        f"# Collective test concluded: {operation}_perf",
        "#",
        "",
    ]
    return "\n".join(lines) + "\n"


def short(value: float, width: int) -> str:
    """As nccl-tests' getFloatStr: two decimals, or fewer where they do not fit."""
    for form in (f"{value:.2f}", f"{value:.1f}", f"{value:.0f}"):
        if len(form) <= width:
            return form.rjust(width)
    return f"{value:.1e}".rjust(width)


def _devices(hosts: Sequence[str], gpus: int) -> list[str]:
    """One process with all GPUs on one node, one a GPU on several."""
    lines = []
    for rank in range(gpus * len(hosts)):
        where = f"Pid {_pid(rank, hosts):6d} on {hosts[rank // gpus]:>10s} device {rank % gpus:2d}"
        address = f"[{rank % gpus + 1:04x}:00:00]"
        lines.append(f"#  Rank {rank:2d} Group  0 {where} {address} NVIDIA H100 80GB HBM3")
    return lines


def _pid(rank: int, hosts: Sequence[str]) -> int:
    return 4000 + (rank if len(hosts) > 1 else 0)


def _nccl_log(hosts: Sequence[str], gpus: int) -> list[str]:
    ranks = gpus * len(hosts)
    lines: list[str] = []
    for rank in range(ranks):
        pid, local = _pid(rank, hosts), rank % gpus
        start = f"{hosts[rank // gpus]}:{pid}:{pid + 100 + local} [{local}] NCCL INFO "
        said = []
        if not local:
            links = [f"GPU/0-{gpu + 1}00000" for gpu in range(gpus)]
            said += [
                "NCCL version 2.30.4+cuda13.0",
                f"NCCL_TOPO_FILE set by environment to {_NDV5_TOPOLOGY}",
                "NET/Plugin: Loaded net plugin IBext_v11 (v11)",
                f"NET/IB : Using {_ADAPTERS} [RO]; OOB eth0:10.1.0.{rank // gpus + 4}<0>",
                "Using network IBext_v11",
                f"Loading topology file {_NDV5_TOPOLOGY}",
                "=== System : maxBw 370.8 totalBw 370.8 ===",
                *(
                    f"{own} :"
                    + " ".join(
                        f"{other} ({'0/5000.0/LOC' if other == own else '2/370.8/NVL'})"
                        for other in links
                    )
                    for own in links
                ),
            ]
        ahead, behind = (rank + 1) % ranks, (rank - 1) % ranks
        for other, (one, two), side in (
            (ahead, (rank, ahead), "send"),
            (behind, (behind, rank), "receive"),
        ):
            way = f"Channel 00/0 : {one}[{one % gpus}] -> {two}[{two % gpus}]"
            if other // gpus != rank // gpus:
                said.append(f"{way} [{side}] via NET/IBext_v11/{local}/GDRDMA")
            elif side == "send":
                said.append(f"{way} via P2P/CUMEM/read")
        lines += [start + text for text in said]
    return lines


def _nccl_job(
    operation: str, hosts: Sequence[str], *, gpus: int = 8, least: int = 8, most: int
) -> nccl.Job:
    return nccl.Job(
        binary_dir="/opt/nccl-tests/build",
        operation=operation,
        bytes_from=least,
        bytes_to=most,
        factor=2,
        iterations=20,
        warmup=5,
        cycles=1,
        gpus_per_node=gpus,
        launcher=Launcher(
            kind="mpirun" if len(hosts) > 1 else "local",
            nodes=tuple(hosts) if len(hosts) > 1 else (),
            path="/opt/hpcx/ompi/bin/mpirun" if len(hosts) > 1 else "",
        ),
    )


def _nccl_fields(job: nccl.Job, variables: Mapping[str, str]) -> dict[str, Any]:
    """What nccl_bench says of the case."""
    environment = nccl.environment(variables)
    sweep = ("bytes_from", "bytes_to", "factor", "iterations", "warmup", "cycles")
    return {
        "case": job.case,
        "command": job.command(environment, 1800),
        "environment": environment,
        "ranks": job.ranks,
        "gpus": job.ranks,
        "parameters": {
            "operation": job.operation,
            "gpus_per_node": job.gpus_per_node,
            "launcher": job.launcher.kind,
            **{name: getattr(job, name) for name in sweep},
        },
        "judge": functools.partial(
            nccl.judge,
            job=job,
            transports=("nvlink", "ib") if job.node_count > 1 else ("nvlink",),
            gpudirect=job.node_count > 1,
            topology_file=variables["NCCL_TOPO_FILE"],
        ),
    }


_NCCL_VARIABLES = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "NCCL_TOPO_FILE": _NDV5_TOPOLOGY}
# Synthetic bus bandwidth of large messages, byte/s, by operation and nodes.
_NCCL_RATES = {
    "all_reduce": {1: 484e9, 2: 470e9, 4: 462e9, 8: 455e9},
    "all_gather": {1: 366e9, 2: 360e9, 4: 355e9, 8: 350e9},
    "reduce_scatter": {1: 370e9, 2: 362e9, 4: 357e9, 8: 352e9},
    "alltoall": {1: 340e9, 2: 84e9, 4: 62e9, 8: 54e9},
}


def nccl_sweep(*, largest: int = 16 * GIB, counts: Sequence[int] = (1, 2, 4, 8)) -> Run:
    """Four collectives over all sizes from 8 bytes on 1, 2, 4 and 8 nodes of 8 H100: 16 records of
    synthetic outputs, read by the parser.

    Args:
        largest: the last size. Below 16 GiB there is no row that the size's expectation judges.
        counts: of nodes.
    """
    kept = []
    for operation, rates in _NCCL_RATES.items():
        for count in counts:
            hosts = [f"nccl-{number + 1}" for number in range(count)]
            text = nccl_text(
                operation,
                hosts,
                most=largest,
                busbw=rates[count],
                start=18e-6 + 9e-6 * math.log2(count) if count > 1 else 18e-6,
            )
            job = _nccl_job(operation, hosts, most=largest)
            fields = _nccl_fields(job, _NCCL_VARIABLES)
            kept.append(_kept(text, "nccl", size=H100, nodes=hosts, seconds=95.0, **fields))
    return _run("20261120T130000Z-4c11", kept)


# --- Devito --------------------------------------------------------------------------------------

# As tests/data/devito/driver_openmp.log: an acoustic operator of order 8 over 200 ms.
_STEPS, _FLOPS_A_POINT, _INTENSITY = 82, 12118114816 / 265826944, 2.561128666391929


def devito_text(
    shape: str, placement: Placement, hosts: Sequence[str], *, rate: float, halo: float
) -> str:
    """Synthetic output of the driver as tests/data/devito/driver_*.log have it, three repeats.

    Args:
        shape: grid points without the absorbing layers, of which there are 10 on each side.
        placement: of the ranks of each node.
        hosts: the nodes.
        rate: points a second without any exchange of halos.
        halo: time in that exchange as a share of the rest.
    """
    points = float(_STEPS * math.prod(int(extent) + 20 for extent in shape.split("x")))
    ranks = placement.ranks * len(hosts)
    repeats = []
    for scatter in (1.0, 1.004, 0.997):
        seconds = points / rate * scatter
        repeats.append(
            {
                **({"halo_seconds": seconds * halo} if ranks > 1 else {}),
                "seconds": seconds * (1 + (halo if ranks > 1 else 0)),
                "flops": points * _FLOPS_A_POINT,
                "points": points,
                "operational_intensity": _INTENSITY,
            }
        )
    cpus = [format_cpu_list(each) for each in placement.per_rank]
    line = {
        "format": 1,
        "devito": "4.8.23",
        "python": "3.12.3",
        "compiler": "GNUCompiler 13.3.0",
        "mpi": "Open MPI v4.1.7a1" if ranks > 1 else None,
        "cpus": cpus * len(hosts),
        "hosts": [host for host in hosts for _ in cpus],
        "peak_rss_bytes": int(4 * 8 * points / _STEPS / ranks) + 300 * MIB,
        "tuned": {"x0_blk0_size": 16, "y0_blk0_size": 16},
        "autotune_seconds": 6.5,
        "repeats": repeats,
        # Of the problem, whatever the layout.
        "norms": {"field": 1.5e-5 * points**0.8, "receivers": 6.2e-6 * points**0.8},
        "ranks": ranks,
    }
    log = [f"trueup-devito {json.dumps(line)}", "", "[standard error]"]
    for repeat in repeats:
        # Devito rounds up to 0.01 and makes the rates from the rounded time.
        shown = math.ceil(repeat["seconds"] * 100) / 100
        flops, updates = (repeat[name] / shown / 1e9 for name in ("flops", "points"))
        rates = f"[OI={_INTENSITY:.2f}, {flops:.2f} GFlops/s, {updates:.2f} GPts/s]"
        log += [f"Operator `Forward` ran in {shown:.2f} s", f"Global performance: {rates}"]
    return "\n".join(log) + "\n"


def _devito_fields(
    problem: devito.Problem,
    placement: Placement,
    launcher: Launcher,
    *,
    scaling: str = "strong",
    autotune: str = "aggressive",
) -> dict[str, Any]:
    """What devito_bench says of the case."""
    count = launcher.node_count
    ranks = placement.ranks * count
    jit_dir = "/opt/trueup/devito/jit/915af66939f6"
    variables = devito.environment(
        ranks=ranks, threads_per_rank=placement.threads_per_rank, mpi_mode="basic", jit_dir=jit_dir
    )
    program = devito.program(
        problem,
        placement,
        python="/opt/trueup/devito/venv/bin/python",
        driver="/opt/trueup/devito/devito_driver.py",
        repeats=3,
        autotune=autotune,
        jit_dir=jit_dir,
        tuning="reuse",
    )
    return {
        "case": devito.case_name(
            problem, placement, "basic", node_count=count, launcher=launcher.kind
        ),
        "command": launcher.command(
            program,
            per_node=placement.ranks,
            variables=variables,
            placement=placement,
            binds_itself=True,
            name=f"trueup-devito-{count}",
            limit_seconds=1800,
        ),
        "environment": variables,
        "ranks": ranks,
        "threads_per_rank": placement.threads_per_rank,
        "parameters": dict(
            problem.parameters(),
            layout=f"{placement.ranks}x{placement.threads_per_rank}",
            binding=placement.binding,
            mpi="basic" if ranks > 1 else "off",
            launcher=launcher.kind,
            language="openmp",
            repeats=3,
            autotune=autotune,
            scaling=scaling,
        ),
        "judge": functools.partial(
            devito.judge,
            placement=placement,
            repeats=3,
            reference_norms={},
            tolerance=1e-5,
            node_count=count,
        ),
    }


# Layouts of one HBv3 node: ranks, threads of each, synthetic points a second of one node, and the
# share that the exchange of halos adds with each doubling of nodes. 112 of the 120 cores, in as
# many ranks as there are L3 caches, win on few nodes; fewer ranks on all cores win on many.
_HBV3_LAYOUTS = ((4, 30, 10.4e9, 0.012), (8, 15, 10.9e9, 0.016), (16, 7, 11.1e9, 0.024))


def hbv3_scaling(*, scaling: str = "strong", counts: Sequence[int] = (1, 2, 4, 8)) -> Run:
    """Devito over 1, 2, 4 and 8 HBv3 nodes in three layouts, of 120 and of 112 cores a node: 12
    records of synthetic outputs, read by the parser.

    Args:
        scaling: strong (1024 points along each axis) or weak (512 along each on one node, and the
            first axis grows with the nodes).
        counts: of nodes.
    """
    kept = []
    for count in counts:
        hosts = [f"hb-{number + 1}" for number in range(count)]
        shape = "1024x1024x1024" if scaling == "strong" else f"{512 * count}x512x512"
        problem = devito.Problem.parse(
            model="acoustic", shape=shape, space_order=8, tn_ms=200, nbl=10
        )
        for ranks, threads, rate, halo in _HBV3_LAYOUTS:
            placement = plan(
                machines.topology_of("hb120rs_v3"),
                ranks=ranks,
                threads_per_rank=threads,
                binding="numa",
            )
            text = devito_text(
                shape, placement, hosts, rate=rate * count, halo=halo * (1 + math.log2(count))
            )
            launcher = Launcher(kind="slurm", nodes=tuple(hosts), directory="/shared/trueup")
            fields = _devito_fields(problem, placement, launcher, scaling=scaling)
            kept.append(_kept(text, "devito", size=HBV3, nodes=hosts, seconds=75.0, **fields))
    return _run("20261120T150000Z-" + ("8b01" if scaling == "strong" else "8b02"), kept)


# --- vLLM ----------------------------------------------------------------------------------------


_VLLM_MODEL = "meta-llama/Llama-3.1-8B-Instruct"


def _vllm_fields(*, gpus: int, **changed: Any) -> dict[str, Any]:
    """What vllm_bench says of the case; ``changed`` are its options that are not at their
    defaults."""
    given = {
        **vllm.LOAD,
        "base_url": "http://127.0.0.1:8000",
        "model": _VLLM_MODEL,
        "served_model_name": "",
        "tokenizer": "",
        "recipe": "",
        "endpoint_name": "",
        "server_arguments": {},
        "profile": "random",
        "downloads_allowed": False,
        "endpoint": "profile",
        "sample_seconds": 2.0,
        "tensor_parallel": 1,
        "data_parallel": 1,
        "gpus": gpus,
        **changed,
    }
    chosen = vllm.settings(given)
    return {
        "case": vllm.case_name(chosen, given["endpoint_name"] or given["recipe"]),
        "command": vllm.command(
            chosen,
            python="/opt/trueup/vllm/venv/bin/python",
            driver="/opt/trueup/vllm/vllm_driver.py",
            program="/opt/trueup/vllm/venv/bin/vllm",
            folder="/tmp/trueup-vllm-made",
        ),
        "environment": vllm.environment(downloads_allowed=False, hf_home=""),
        "gpus": gpus,
        "parameters": {
            "profile": chosen.profile,
            "model": given["model"],
            "served_model_name": chosen.model,
            "recipe": given["recipe"],
            "endpoint_name": given["endpoint_name"],
            "server_arguments": vllm.arguments_text(given["server_arguments"]),
            "base_url": chosen.base_url,
            "endpoint": chosen.endpoint,
            "num_prompts": chosen.num_prompts,
            "seed": chosen.seed,
            "request_rate": chosen.request_rate,
            "ramp_up_start": 0,
            "ramp_up_end": 0,
            "max_concurrency": chosen.max_concurrency,
            "failed_share_allowed": chosen.failed_share_allowed,
            "sample_seconds": chosen.sample_seconds,
            "tensor_parallel": given["tensor_parallel"],
            "data_parallel": given["data_parallel"],
            "asked": vllm.asked_text(given),
            **vllm.data_parameters(chosen),
        },
        "figures": functools.partial(vllm.measured, chosen=chosen),
        "judge": functools.partial(vllm.judge, chosen=chosen),
    }


# --- fio -----------------------------------------------------------------------------------------


def _fio_settings(workload: str, **numbers: int) -> fio.Settings:
    usual = {"jobs": 0, "iodepth": 0, "block_bytes": 0, "job_bytes": 0, "runtime_seconds": 30}
    return fio.settings(workload, **{**usual, **numbers}, engine="libaio")


_SHARE = {
    "filesystem": "nfs4",
    "filesystem_source": "10.1.0.9:/share",
    "filesystem_options": "rw,vers=4.1,rsize=262144,wsize=262144,hard,proto=tcp,acregmin=3",
}


def _fio_fields(chosen: fio.Settings, directory: str, where: Mapping[str, str]) -> dict[str, Any]:
    """What fio_bench says of the case of reads and writes."""
    alike = {name: getattr(chosen.parts[0], name) for name in ("jobs", "iodepth", "job_bytes")}
    own = chosen.parts == fio.WORKLOADS[chosen.workload]
    return {
        "case": f"{chosen.workload}-direct",
        "command": fio.command(chosen, fio="fio", folder=f"{directory}/trueup-fio-made"),
        "parameters": {
            "directory": directory,
            "workload": chosen.workload,
            **({"jobs": 0, "iodepth": 0, "job_bytes": 0} if own else alike),
            "block_bytes": 0,
            "runtime_seconds": chosen.runtime_seconds,
            "engine": chosen.engine,
            "direct_asked": "required",
            "direct": chosen.direct,
            "data_bytes": fio.data_bytes(chosen),
            **where,
        },
        "judge": functools.partial(fio.judge, chosen=chosen),
    }


def _fio_recorded() -> Kept:
    """The recorded run of two jobs at once."""
    mixed = _fio_settings("eda_mixed", jobs=2, iodepth=4, job_bytes=64 * MIB, runtime_seconds=1)
    text = _data("fio", "fio333_two_groups.json")
    fields = _fio_fields(mixed, "/share", _SHARE)
    return _kept(text, "fio", size=HBV3, nodes=["hb-1"], seconds=4.0, **fields)


# --- GROMACS and training ------------------------------------------------------------------------


def _gromacs(name: str, *, cpus: int = 120, software: str = "gmx", **changed: Any) -> Kept:
    """A recorded run of GROMACS; ``changed`` are gromacs_bench's options that are not at their
    defaults."""
    given = {
        "tpr": "",
        "tpr_sha256": "",
        "water_box": 0.0,
        "ranks": 1,
        "pme_ranks": -1,
        "threads_per_rank": 1,
        "steps": 2000,
        "reset_step": -1,
        "pin": "on",
        "tune_pme": False,
        "drift_allowed": 0.005,
        "source": "system",
        **dict.fromkeys(gromacs.OFFLOAD, "auto"),
        **changed,
    }
    text = _data("gromacs", name)
    chosen = gromacs.settings(given, cpus=cpus)
    return _kept(
        text,
        "gromacs",
        size=HBV3,
        nodes=["hb-1"],
        case=chosen.case,
        command=gromacs.command(
            chosen,
            python="/usr/bin/python3",
            driver="/opt/trueup/gromacs/gromacs_driver.py",
            program=software,
            mpirun="mpirun",
            folder="/mnt/nvme/trueup-gromacs-made",
        ),
        ranks=chosen.ranks,
        threads_per_rank=chosen.threads,
        gpus=parsed(text, "gromacs").gpus,
        parameters=dict(chosen.parameters(), program=software, drift_allowed=0.005),
        software=chosen.software(),
        judge=functools.partial(gromacs.judge, chosen=chosen, drift_allowed=0.005),
    )


TINY_GPT = {
    "layers": 2,
    "hidden_size": 128,
    "attention_heads": 4,
    "sequence_length": 64,
    "vocabulary_size": 512,
    "micro_batch": 4,
}
# megatron_bench's options on one node, but for the nodes and the launcher.
GPT_ALONE = {
    **TINY_GPT,
    "iterations": 20,
    "processes": 1,
    "node_rank": 0,
    "rendezvous_port": 29500,
    "zero_stage": 0,
    "threads": 0,
    "program": "gpt_driver",
    "rendezvous_address": "",
    "backend": "gloo",
    "offload": "none",
    "recompute": False,
    "precision": "fp32",
    "tensor_parallel": 1,
    "pipeline_parallel": 1,
    "global_batch": 0,
    "transformer_engine": False,
    "save_directory": "",
    "save_interval": 0,
}


def _training(
    name: str, size: str, nodes: Sequence[str], *, launcher: str = "local", **changed: Any
) -> Kept:
    """A recorded or synthetic training log; ``changed`` are megatron_bench's options that are not
    at their defaults."""
    given = {
        **GPT_ALONE,
        "rendezvous_address": nodes[0] if len(nodes) > 1 else "",
        "nodes": list(nodes),
        "launcher": launcher,
        **changed,
    }
    run = megatron.asked(given)
    text = _data("megatron", name)
    threads = parsed(text, "megatron").parameters.get("threads", max(1, run.threads))
    started = None
    if launcher != "local":
        started = Launcher(kind=launcher, nodes=tuple(nodes), directory="/shared/trueup")
    variables = megatron.environment(run, "", {})
    return _kept(
        text,
        "megatron",
        size=size,
        nodes=nodes,
        case=megatron.case_name(run),
        command=megatron.command(
            run,
            launcher=started,
            variables=variables,
            limit_seconds=1800,
            prefix="/opt/trueup/training",
            deepspeed_config="/opt/trueup/training/zero.json",
            data={"path": "/data/text", "vocabulary": "/data/v.json", "merges": "/data/m.txt"},
            arguments=[],
        ),
        environment=variables,
        ranks=run.world_size,
        threads_per_rank=int(threads),
        gpus=run.world_size if run.backend == "nccl" else 0,
        parameters=megatron.parameters(run),
        figures=lambda output: output.metrics() + megatron.rates(run, output),
        judge=functools.partial(megatron.judge, run),
        seconds=90.0,
    )


MEGATRON_LM: dict[str, Any] = {
    "program": "megatron",
    "backend": "nccl",
    "precision": "bf16",
    "processes": 8,
    "layers": 24,
    "hidden_size": 2048,
    "attention_heads": 16,
    "sequence_length": 2048,
    "vocabulary_size": 51200,
    "micro_batch": 8,
}
_DEEPSPEED_2022: dict[str, Any] = {
    **MEGATRON_LM,
    "program": "megatron_deepspeed",
    "precision": "fp16",
    "layers": 96,
    "hidden_size": 12288,
    "attention_heads": 96,
    "sequence_length": 512,
    "micro_batch": 32,
    "iterations": 12,
    "zero_stage": 3,
    "recompute": True,
    "launcher": "slurm",
}


def training_run() -> Run:
    """The recorded runs of trueup's own driver in one and two processes, and the synthetic logs of
    Megatron-LM on 8 GPUs and of Megatron-DeepSpeed on 256. 4 records."""
    kept = [
        _training("gpt_driver_one.log", HBV3, ["hb-1"], iterations=12, threads=1),
        _training("gpt_driver_two.log", HBV3, ["hb-1"], processes=2, threads=1),
        _training("synthetic_megatron_lm.log", H100, ["h100-1"], **MEGATRON_LM),
        _training(
            "synthetic_megatron_deepspeed_2022.log",
            NDV4,
            [f"a100-{number + 1}" for number in range(32)],
            **_DEEPSPEED_2022,
        ),
    ]
    return _run("20261120T210000Z-7a10", kept)


# --- one of each ---------------------------------------------------------------------------------


def _blob_copy() -> Kept:
    return _kept(
        _data("blob_copy", "eight_copies.txt"),
        "blob_copy",
        size=H100,
        nodes=["h100-1"],
        case="8x100mbps-random",
        ranks=8,
        threads_per_rank=4,
        parameters={
            "copies": 8,
            "cap_bits_per_second": 100e6,
            "limit_bits_per_second": 20e9,
            "cores_kept": -1,
            "size_bytes": 8 * 32 * MIB,
            "data": "random",
            "file_bytes": 32 * MIB,
            **blob_copy.listed([], []),
            "account": "https://checkpoints.blob.core.windows.net",
            "container": "checkpoints",
            "block_bytes": 8 * MIB,
            "connections": 4,
            "verify": "properties",
            "checksum": "md5",
            "program_asked": "auto",
        },
        seconds=5.0,
    )


def _dcgm() -> Kept:
    return _kept(
        _data("dcgm", "dcgm4_level2_8gpu.json"),
        "dcgm",
        size=H100,
        nodes=["h100-1"],
        case="level2",
        gpus=8,
        environment={"LC_ALL": "C"},
        parameters={"level": 2, "program": "dcgmi diag"},
    )


def _gemm() -> Kept:
    return _kept(
        _data("gemm", "h100_4gpu.json"),
        "gemm",
        size=H100,
        nodes=["h100-1"],
        case="n16384-g4-all-numa",
        gpus=4,
        environment={"CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
        parameters={
            "precisions": "fp64,tf32,bf16,fp8",
            "n": 16384,
            "n_fp64": 8192,
            "repeats": 5,
            "gpus_at_once": "all",
            "binding": "numa",
        },
    )


# Five sessions of the GPU.
ENCODED = {
    "kind": "encode",
    "encoder": "h264_nvenc",
    "sessions": 5,
    "width": 640,
    "height": 360,
    "chroma": "444",
    "frames": 600,
    "frames_per_second": 60,
    "megabits_per_second": 5,
}


def _nv_a10() -> Kept:
    return _kept(
        _data("nv_a10", "synthetic_a10_s5.txt"),
        "nv_a10",
        size=NV_A10,
        nodes=["nv-1"],
        case="h264_nvenc-640x360-444-s5",
        gpus=1,
        figures=lambda output: [*output.metrics(), *nv_a10.held(output, 60)],
        environment={"LC_ALL": "C"},
        parameters=ENCODED,
    )


def _gpu_copy() -> Kept:
    return _kept(
        _data("gpu_copy", "nvbandwidth_0.9_h100.txt"),
        "gpu_copy",
        size=H100,
        nodes=["h100-1"],
        case="nvbandwidth-g8-numa",
        gpus=8,
        environment={"CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
        parameters={"tool": "nvbandwidth", "samples": 5, "peers": "read", "binding": "numa"},
    )


def _hpl() -> Kept:
    return _kept(
        _data("hpl", "nvidia_8gpu.txt"),
        "hpl",
        size=H100,
        nodes=["h100-1"],
        case="n264192-nb1024-4x2-t12-numa",
        ranks=8,
        threads_per_rank=12,
        gpus=8,
        parameters={
            "program": "/workspace/hpl.sh",
            "n": 264192,
            "nb": 1024,
            "grid": "4x2",
            "gpus": 8,
            "binding": "numa",
            "ranks_asked": 0,
            "threads_asked": 0,
            "n_asked": 0,
            "max_n": 0,
            "memory_fraction": 0.8,
        },
        seconds=130.0,
    )


def _ib() -> Kept:
    return _kept(
        _data("ib", "write_bw_gpu.txt"),
        "ib",
        size=NDV4,
        nodes=["a100-1"],
        case="write_bw-mlx5_ib4-8388608-gpu2",
        gpus=1,
        parameters={
            "test": "write_bw",
            "role": "loopback",
            "device": "mlx5_ib4",
            "kind": "infiniband",
            "server": None,
            "message_bytes": 8 * MIB,
            "iterations": 5000,
            "duration_seconds": None,
            "gpu": 2,
            "gdr": "yes",
            "gid_index": None,
            "rate_gbps": 200.0,
            "numa_node": 1,
            "binding": "numa",
            "cpus": "24-47",
        },
    )


def _nccl() -> Kept:
    job = _nccl_job("all_reduce", ["a100-1"], gpus=2, least=KIB, most=GIB)
    fields = _nccl_fields(job, {"NCCL_TOPO_FILE": "/opt/microsoft/ndv4/topo.xml"})
    return _kept(_data("nccl", "nvlink.txt"), "nccl", size=NDV4, nodes=["a100-1"], **fields)


def _of_others(tool: str, name: str, **more: Any) -> Kept:
    """An output of a tool that no role runs."""
    known: dict[str, Any] = {"size": H100, "nodes": ["h100-1"], "parameters": {}, **more}
    return _kept(
        _data(tool, name), tool, case=tool, command=[tool], environment={}, seconds=60.0, **known
    )


def _aznhc() -> Kept:
    return _kept(
        _data("aznhc", "synthetic_h100_passed.txt"),
        "aznhc",
        size=H100,
        nodes=["h100-1"],
        case="aznhc",
        command=["nhc"],
        environment={},
        parameters={},
        seconds=240.0,
    )


def _osu() -> Kept:
    return _kept(
        _data("osu", "synthetic_osu_bw_validated.txt"),
        "osu",
        size=HBV3,
        nodes=["hb-1"],
        case="Bandwidth",
        command=["srun", "osu_bw", "-c"],
        environment={},
        ranks=2,
        parameters={"suite": "osu", "test": "Bandwidth"},
        seconds=12.0,
    )


def _stream(size: str | None, node: str) -> Kept:
    elements = 33554432
    return _kept(
        _data("stream", "kernel_streaming.json"),
        "stream",
        size=size,
        nodes=[node],
        case="streaming-t2-core",
        command=["/opt/trueup/stream/stream_kernel-streaming", str(elements), "5"],
        environment={"OMP_NUM_THREADS": "2", "OMP_PLACES": "{0},{1}", "OMP_PROC_BIND": "close"},
        threads_per_rank=2,
        parameters={
            "threads": 2,
            "binding": "core",
            "stores": "streaming",
            "spread": "whole" if size is None else "part",
            "array_elements": elements,
            "array_bytes": elements * 8,
            "repeats": 5,
        },
        seconds=2.0,
    )


def _devito(name: str, size: str | None, node: str, *, ranks: int, threads: int) -> Kept:
    """A recorded run of the driver, on the machine of two cores; with the roofline's fraction by
    that machine's triad."""
    problem = devito.Problem.parse(
        model="acoustic", shape="128x128x128", space_order=8, tn_ms=200, nbl=10
    )
    placement = plan(
        machines.topology_of("lab_2core"), ranks=ranks, threads_per_rank=threads, binding="core"
    )
    memory = parsed(_data("stream", "kernel_streaming.json"), "stream").metrics()
    [triad] = [row.value for row in memory if (row.name, row.statistic) == ("triad_rate", "median")]

    def figures(output: Any) -> list[Metric]:
        fraction = devito.roofline_fraction(output, triad, None)
        return [*output.metrics(), *([fraction] if fraction else [])]

    fields = _devito_fields(problem, placement, Launcher())
    return _kept(
        _data("devito", name),
        "devito",
        size=size,
        nodes=[node],
        figures=figures,
        seconds=12.0,
        **fields,
    )


TINY_SERVED: dict[str, Any] = {
    "model": "/srv/vllm/model",
    "served_model_name": "tiny",
    "num_prompts": 40,
    "max_concurrency": 8,
    "random_input_tokens": 64,
    "random_output_tokens": 48,
}


def _vllm() -> Kept:
    return _kept(
        _data("vllm", "vllm032_driver_random.log"),
        "vllm",
        size=NDV4,
        nodes=["a100-1"],
        **_vllm_fields(gpus=1, **TINY_SERVED, sample_seconds=0.5),
    )


def every_tool(outputs: Path | None = None) -> Run:
    """One record of each benchmark, from the outputs in tests/data, on four nodes.

    Args:
        outputs: a folder of more of them, ``<tool>/<file>``. Each that its parser reads today, and
            does not leave unverified, adds a record, whose parameters are those of the tool's first
            one where the output itself does not say otherwise.
    """
    kept = [
        _aznhc(),
        _of_others("azcopy", "synthetic_completed.txt", nodes=["hb-1"], size=HBV3),
        _of_others("gpu_burn", "synthetic_two_gpus.txt", gpus=2),
        _of_others("hpl_mxp", "synthetic_8gpu.txt", gpus=8, parameters={"n": 384000}),
        _of_others("nccl_log", "synthetic_infiniband.txt", gpus=4),
        _of_others("training", "synthetic_torchtitan.txt", gpus=8),
        _of_others("hpcg", "hpcg31_2ranks.txt", nodes=["hb-1"], size=HBV3),
        _of_others("ior", "ior_4.0.0.txt", nodes=["hb-1"], size=HBV3),
        _of_others("mdtest", "mdtest_4.0.0_times.txt", nodes=["hb-1"], size=HBV3),
        _of_others("babelstream", "omp_5.0.txt", nodes=["hb-1"], size=HBV3),
        _of_others("serving", "synthetic_trtllm.txt", gpus=2, nodes=["h100-1"]),
        _of_others("superbench", "synthetic_node.json", gpus=8),
        _of_others(
            "topo", "synthetic_nd_h100_v5.txt", gpus=8, parameters={"program": "nvidia-smi"}
        ),
        _blob_copy(),
        _devito("driver_openmp.log", HBV3, "hb-1", ranks=1, threads=2),
        _fio_recorded(),
        _dcgm(),
        _gemm(),
        _gpu_copy(),
        _gromacs("driver_r1t2.txt", water_box=2.5, threads_per_rank=2),
        _hpl(),
        _ib(),
        _training("synthetic_megatron_lm.log", H100, ["h100-1"], **MEGATRON_LM),
        _nccl(),
        _nv_a10(),
        _osu(),
        _stream(HBV3, "hb-1"),
        _vllm(),
    ]
    more = [] if outputs is None else _others(outputs, kept)
    return _run("20261120T110000Z-e001", kept + more)


def _others(folder: Path, kept: Sequence[Kept]) -> list[Kept]:
    """Records of the files that their parsers read, in the order of their names."""
    first = {record["benchmark"]: record for record, _ in kept}
    found: list[Kept] = []
    for path in sorted(folder.glob("*/*")):
        like = first.get(path.parent.name)
        if like is None or path.name == "SOURCES.md":
            continue
        try:
            record = record_of(
                text := path.read_text(encoding="utf-8", errors="replace"),
                like["benchmark"],
                size=like["vm_size"],
                nodes=like["nodes"],
                parameters=like["parameters"],
                case=re.sub(r"[^A-Za-z0-9._-]", "_", path.stem),
                **{name: like[name] for name in ("ranks", "threads_per_rank", "gpus")},
            )
        except ParseError:
            continue
        if not unverified(parsed(text, like["benchmark"])):
            found.append((record, text))
    return found


def home_run() -> Run:
    """What ``make run`` leaves on a machine of two cores that is no VM of Azure: its state, memory
    bandwidth, and Devito in the two layouts that were recorded. 4 records."""
    state = Case(
        benchmark="node_state",
        run_id="20261120T091300Z-7c1e",
        node_name="localhost",
        node=_node(None),
        case="state",
        software=node_state.software(_node(None), None, None),
        started_at="2026-11-20T09:13:00Z",
    )
    kept: list[Kept] = [
        (state.record("ok", metrics=node_state.metrics(_node(None), None, None)), None),
        _stream(None, "localhost"),
        _devito("driver_openmp.log", None, "localhost", ranks=1, threads=2),
        _devito("driver_mpi.log", None, "localhost", ranks=2, threads=1),
    ]
    return _run("20261120T091300Z-403e", kept)


# --- the fleet -----------------------------------------------------------------------------------

# Node number -> what is wrong with it, as tests/fleet.py plants it; and the two that leave no
# records: one that nothing reaches, one of which a role fails before anything is measured.
PLANTED = {17: "slow NIC", 58: "cold GPU", 101: "bad NVLink"}
UNREACHABLE, ROLE_FAILED = 40, 150
_FLEET_LEAST = 16 * KIB  # to 16 GiB 21 sizes


def h100_fleet(nodes: int = 200) -> Run:
    """A synthetic fleet of ND H100 nodes (tests/fleet.py) with three planted faults, of which two
    nodes left no records: of 200 nodes 1955 records, of 600 nodes 5955.

    Each node's NCCL record is a sweep over 21 sizes up to 16 GiB, which the parser read from
    generated text; that of the first node is kept. All other figures are made as rows, not as text.

    Args:
        nodes: more than the numbers above.
    """
    missing = (UNREACHABLE, ROLE_FAILED)
    made = list(fleet.fleet(nodes, faults=PLANTED, noisy_pair=None, missing=missing, sweep=_sweep))
    kept: list[Kept] = [(record, None) for record in made]
    at = next(n for n, record in enumerate(made) if record["benchmark"] == "nccl")
    largest = next(row["value"] for row in made[at]["metrics"][::-1] if row["name"] == "busbw")
    kept[at] = (made[at], _fleet_text(round(largest / 0.5e9)))
    lost, failed = (fleet.node(number) for number in missing)
    return _run(
        "20261120T060000Z-f1ee",
        kept,
        hosts={lost: _counts(unreachable=1), failed: _counts(ok=31, failed=1)},
        failed_in={failed: "gpu_driver"},
    )


def _sweep(busbw: float) -> dict[str, Any]:
    """The NCCL record of a node whose bus bandwidth at 16 GiB is about that."""
    record = _swept(round(busbw / 0.5e9))
    names = ("case", "command", "environment", "parameters", "software", "ranks", "gpus")
    return {
        **{name: record[name] for name in names},
        "metrics": [dict(row) for row in record["metrics"]],
    }


@functools.cache
def _swept(half_gigabytes: int) -> dict[str, Any]:
    """Nodes that are alike to 0.5 GB/s share one text: it takes 10 ms to read one."""
    job = _nccl_job("all_reduce", [fleet.node(0)], least=_FLEET_LEAST, most=16 * GIB)
    text = _fleet_text(half_gigabytes)
    return record_of(text, "nccl", size=H100, **_nccl_fields(job, _NCCL_VARIABLES))


def _fleet_text(half_gigabytes: int) -> str:
    # What starts a message costs 0.03 % of the rate at 16 GiB.
    return nccl_text(
        "all_reduce", [fleet.node(0)], least=_FLEET_LEAST, busbw=half_gigabytes * 0.5003e9
    )
