"""Input of the measurements. No figure in it was ever measured: all follow a formula."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Any

from measure import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

sys.path[:0] = [str(ROOT / "tests")]

from fleet import FAULTS, NOISY_PAIR, fleet, node  # noqa: E402 WHY: found by the path above

__all__ = [
    "CASES_A_RUN",
    "FAULTS",
    "FRONTS",
    "NOISY_PAIR",
    "ORDERS",
    "SIZES",
    "fio_json",
    "large_fleet",
    "megatron_log",
    "nccl_log",
    "nccl_table",
    "node",
    "record",
]

CASES_A_RUN = 100
MOST_RANKS = 4
SIZES = {
    "Standard_HB120rs_v3": 120,
    "Standard_HB176rs_v4": 176,
    "Standard_HC44rs": 44,
    "Standard_HB120rs_v2": 120,
}
ORDERS = (4, 8, 12, 16)
REGIONS = ("eastus", "westeurope")
PARAMETERS = {
    "model": "acoustic",
    "shape": "256x256x256",
    "points": 256**3,
    "time_order": 2,
    "tn_ms": 200,
    "nbl": 40,
    "repeats": 5,
    "binding": "l3",
    "scaling": "strong",
    "language": "openmp",
}


def record(number: int) -> dict[str, Any]:
    """Record ``number``: strong scaling by Amdahl's law, with a little deterministic noise."""
    run, index = divmod(number, CASES_A_RUN)
    size, most = list(SIZES.items())[run % len(SIZES)]
    order = ORDERS[(run // len(SIZES)) % len(ORDERS)]
    cores = max(1, most * (index % 10 + 1) // 10)
    ranks = (1, 2, 4)[index // 10 % 3] if cores >= MOST_RANKS else 1
    threads = max(1, cores // ranks)
    noise = 1 + 0.01 * ((number * 2654435761) % 1000) / 1000
    seconds = 40 * order / 8 * (0.05 + 0.95 / (ranks * threads)) * (1 + 0.02 * ranks) * noise
    work = 4e11 * order
    points = 256**3 * 400
    spread = (("median", 1.0), ("min", 0.99), ("max", 1.02))
    metrics: list[dict[str, Any]] = []
    for name, unit, better, at in (
        ("run_time", "s", "lower", seconds),
        ("flop_rate", "flop/s", "higher", work / seconds),
        ("point_rate", "point/s", "higher", points / seconds),
        ("operational_intensity", "flop/byte", "none", 2.5),
    ):
        about = {"name": name, "unit": unit, "direction": better}
        metrics += [
            {**about, "value": at * by, "statistic": statistic, "n": 5} for statistic, by in spread
        ]
    roofline = {"name": "roofline_fraction", "unit": "1", "direction": "higher"}
    metrics.append({**roofline, "value": 0.6, "statistic": "median", "n": 5})
    return {
        "schema": "trueup.record/1",
        "run_id": f"20261101T{run // 3600 % 24:02d}{run // 60 % 60:02d}{run % 60:02d}Z-{run:04x}",
        "benchmark": "devito",
        "case": f"synthetic-so{order}-r{ranks}t{threads}-l3",
        "outcome": "ok",
        "reason": None,
        "nodes": [f"synthetic-{run % 50}"],
        "vm_size": size,
        "region": REGIONS[run % len(REGIONS)],
        "offer": "payg",
        "node_count": 1,
        "ranks": ranks,
        "threads_per_rank": threads,
        "gpus": 0,
        "parameters": {
            **PARAMETERS,
            "space_order": order,
            "layout": f"{ranks}x{threads}",
            "mpi": "basic" if ranks > 1 else "off",
        },
        "command": ["python", "-m", "synthetic"],
        "environment": {"DEVITO_LANGUAGE": "openmp"},
        "software": {"devito": "4.8.23", "python": "3.11.7"},
        "system": {"cpu_model": "synthetic", "kernel": "6.1.0"},
        "started_at": "2026-11-01T00:00:00Z",
        "duration_seconds": seconds * 5 + number / 1e6,
        "metrics": metrics,
        "raw": None,
    }


# Messages of a sweep: 2 KiB to 16 GiB. With them a node has 15 records and 459 figures.
MESSAGES = [2**power for power in range(11, 35)]
COLLECTIVES = {
    "all_gather": 0.76,
    "reduce_scatter": 0.76,
    "alltoall": 0.7,
    "broadcast": 0.75,
    "reduce": 0.74,
}


def _sweep(busbw: float) -> dict[str, Any]:
    """Bus bandwidth over message size that comes to ``busbw``, byte/s, at 16 GiB."""
    half = 8 * 1024**2
    peak_bandwidth = busbw * (1 + half / MESSAGES[-1])
    metrics: list[dict[str, Any]] = []
    for size in MESSAGES:
        about = {"message_bytes": size}
        value = peak_bandwidth * size / (size + half)
        metrics += [
            {"name": "busbw", "value": value, "unit": "byte/s", "direction": "higher", **about},
            {"name": "wrong", "value": 0, "unit": "1", "direction": "lower", **about},
        ]
    return {"metrics": metrics}


def large_fleet(nodes: int = 600) -> Iterator[dict[str, Any]]:
    """The fleet of tests/fleet.py with sweeps of six collectives in place of one figure."""
    for fleet_record in fleet(nodes, sweep=_sweep):
        yield fleet_record
        if fleet_record["benchmark"] == "nccl":
            busbw = fleet_record["metrics"][-2]["value"]
            for operation, share in COLLECTIVES.items():
                yield {
                    **fleet_record,
                    "case": f"{operation}-n1",
                    "parameters": {**fleet_record["parameters"], "operation": operation},
                    **_sweep(busbw * share),
                }


# Kinds of lines that may stand before a table.
FRONTS = {
    "other": "2026-11-22T19:00:00 node-{0:04d} worker[7]: loaded shard {1} of the set in 1.5 ms\n",
    "INFO": "gpu-{0:04d}:4000:4100 [0] NCCL INFO AllReduce: opCount {1} datatype 7 op 0 root 0\n",
    "channel": "gpu-{0:04d}:4000:4100 [0] NCCL INFO Channel 00/0 : {0}[0] -> 9[1] via P2P\n",
}
ITERATION = (
    " [2026-11-21 09:13:12.882388] iteration {0:8d}/{1:8d} | consumed samples: {2:12d} | elapsed"
    " time per iteration (ms): {3:.1f} | throughput per GPU (TFLOP/s/GPU): {4:.1f} | learning rate:"
    " 1.500000E-04 | global batch size:    64 | lm loss: {5:.6E} | loss scale: 1.0 | grad"
    " norm: 3.276 | number of skipped iterations:   0 | number of nan iterations:   0 |\n"
)


def nccl_log(path: Path, size: int, *kinds: str) -> None:
    """A job's log of about ``size`` bytes before a table, its lines of these ``FRONTS`` in turn."""
    front = "".join(
        FRONTS[kinds[number % len(kinds)]].format(number % 600, number) for number in range(30_000)
    )
    table_text = (ROOT / "tests/data/nccl/nvlink.txt").read_text(encoding="utf-8")
    with path.open("w", encoding="utf-8") as file:
        for _ in range(size // len(front) + 1):
            file.write(front)
        file.write(table_text)


def nccl_table(path: Path, size: int) -> None:
    """nccl-tests' table of about ``size`` bytes: the sizes of a recorded one, gone through again
    and again (-N), each time up to 1 % slower."""
    recorded = (ROOT / "tests/data/nccl/nvlink.txt").read_text(encoding="utf-8")
    lines = recorded.splitlines(keepends=True)
    rows = [line.split() for line in lines if line.endswith("       0\n")]
    begin = next(index for index, line in enumerate(lines) if line.endswith("       0\n"))
    cycles = size // sum(map(len, lines[begin : begin + len(rows)]))
    average = 0.0
    with path.open("w", encoding="utf-8") as file:
        file.writelines(lines[:begin])
        for cycle in range(cycles):
            for index, (message, count, *_, time, _, _, _) in enumerate(rows):
                cells = f"{message:>12s}  {count:>12s}     float     sum      -1"
                for side in range(2):
                    noise = (cycle * len(rows) + index) * 2654435761 % 9973 / 9973
                    took = float(time) * (1 + 0.01 * noise + 0.003 * side)
                    rate = int(message) / took / 1e3  # of two ranks busbw is algbw
                    average += rate
                    cells += f"  {took:7.2f} {rate:7.2f} {rate:7.2f}       0"
                file.write(cells + "\n")
        average /= 2 * cycles * len(rows)
        end = "".join(lines[begin + len(rows) :])
        file.write(re.sub(r"(Avg bus bandwidth +: )\S+", rf"\g<1>{average:g}", end))


def megatron_log(path: Path, size: int) -> None:
    """A log of Megatron-LM of about ``size`` bytes, in one run of many iterations."""
    recorded = ROOT / "tests/data/megatron/synthetic_megatron_lm.log"
    text = recorded.read_text(encoding="utf-8")
    begin, end = text.index(" [2026"), text.index("[after training")
    count = size // len(ITERATION.format(1, 1, 1, 870.0, 158.6, 9.0))
    arguments = text[:begin].replace(
        "train_iters ..................................... 20",
        f"train_iters ..................................... {count}",
    )
    with path.open("w", encoding="utf-8") as file:
        file.write(arguments)
        for number in range(1, count + 1):
            took = 860 + number % 20
            # The same work in each step.
            rate = 138_000 / took
            loss = 10 - 5 * number / count
            file.write(ITERATION.format(number, count, 64 * number, took, rate, loss))
        file.write(text[end:])


def fio_json(path: Path, size: int) -> None:
    """Output of fio of about ``size`` bytes: one recorded job many times, each with its name."""
    recorded = ROOT / "tests/data/fio/fio333_random_rw_jsonplus.json"
    output = json.loads(recorded.read_text(encoding="utf-8"))
    [job, *_] = output["jobs"]
    length = len(json.dumps(job, indent=2))
    output["jobs"] = [
        {**job, "jobname": f"{job['jobname']}-{number}"} for number in range(size // length + 1)
    ]
    path.write_text(json.dumps(output, indent=2), encoding="utf-8")
