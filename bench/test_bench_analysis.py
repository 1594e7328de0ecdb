"""How long ``trueup scaling`` and ``trueup cost`` take over 100,000 synthetic records.

The records are made here, from a formula: their figures mean nothing. Both commands run as the user
runs them, as processes of their own, over the packed file and, once, over the folder of JSON files.

    pytest bench/test_bench_analysis.py --benchmark-only
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from trueup_analysis.load import load, pack

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_benchmark.fixture import BenchmarkFixture

RECORDS = int(os.environ.get("TRUEUP_BENCH_RECORDS", "100000"))
CASES_A_RUN = 100
MOST_RANKS = 4
SIZES = {
    "Standard_HB120rs_v3": 120,
    "Standard_HB176rs_v4": 176,
    "Standard_HC44rs": 44,
    "Standard_HB120rs_v2": 120,
}
ORDERS = (4, 8, 12, 16)
SWEEPS = min(len(SIZES) * len(ORDERS), RECORDS // CASES_A_RUN)
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


def synthetic_record(number: int) -> dict[str, Any]:
    """Record ``number``: strong scaling by Amdahl's law, with a little deterministic noise."""
    run, place = divmod(number, CASES_A_RUN)
    size, most = list(SIZES.items())[run % len(SIZES)]
    order = ORDERS[(run // len(SIZES)) % len(ORDERS)]
    cores = max(1, most * (place % 10 + 1) // 10)
    ranks = (1, 2, 4)[place // 10 % 3] if cores >= MOST_RANKS else 1
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
        metrics += [{**about, "value": at * by, "statistic": what, "n": 5} for what, by in spread]
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


@pytest.fixture(scope="session")
def synthetic_results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder of synthetic records, one file each."""
    results = tmp_path_factory.mktemp("synthetic") / "results"
    for number in range(RECORDS):
        record = synthetic_record(number)
        run = results / str(record["run_id"])
        run.mkdir(parents=True, exist_ok=True)
        (run / f"{record['case']}.{number}.json").write_bytes(msgspec.json.encode(record))
    return results


@pytest.fixture(scope="session")
def synthetic_packed(synthetic_results: Path) -> Iterator[Path]:
    """The same records in one packed file."""
    packed = synthetic_results.parent / "synthetic.parquet"
    pack(load([synthetic_results]), packed)
    yield packed
    packed.unlink()


def both(source: Path) -> list[str]:
    """``trueup scaling`` and then ``trueup cost`` over the source, as processes; their output."""
    call = "from trueup_analysis.cli import main; main()"
    return [
        subprocess.run(
            [sys.executable, "-c", call, command, str(source), *more],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for command, *more in (("scaling",), ("cost",))
    ]


def test_scaling_and_cost_of_a_packed_file(
    benchmark: BenchmarkFixture, synthetic_packed: Path
) -> None:
    scaling, cost = benchmark.pedantic(both, args=(synthetic_packed,), rounds=3, warmup_rounds=1)
    assert scaling.count("Strong scaling over cores") == SWEEPS
    assert cost.count("Cost of one run of each case") == 1


def test_scaling_and_cost_of_a_folder(benchmark: BenchmarkFixture, synthetic_results: Path) -> None:
    scaling, cost = benchmark.pedantic(both, args=(synthetic_results,), rounds=1)
    assert scaling.count("Strong scaling over cores") == SWEEPS
    assert cost.count("Cost of one run of each case") == 1
