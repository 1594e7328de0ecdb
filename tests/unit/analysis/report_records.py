"""Records for the tests of the report: synthetic, with round figures, in the shape of
record.schema.json.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from helpers import a_record
from trueup_node.record import summarise

if TYPE_CHECKING:
    from pathlib import Path

RUN_ID = "20261120T091300Z-7c1e"
GIGA = 1e9
WORK = 228.0 * GIGA
POINTS = 256**3


def record(**changes: Any) -> dict[str, Any]:
    """One record with outcome ok, and what the test changes in it."""
    made = {
        "run_id": RUN_ID,
        "case": "acoustic-so8-256x256x256-r1t1-none",
        "nodes": ["node01"],
        "threads_per_rank": 1,
        "parameters": {},
        "command": ["python", "devito_driver.py", "--shape", "256x256x256"],
        "environment": {"OMP_NUM_THREADS": "1"},
        "software": {"devito": "4.8.23", "gcc": "12.2.0", "python": "3.11.7"},
        "system": {
            "os": "Debian GNU/Linux 12 (bookworm)",
            "kernel": "6.18.0",
            "cpu_model": "AMD EPYC",
            "cores": 4,
            "memory_bytes": 24 * 1024**3,
            "last_level_cache_bytes": 32 * 1024**2,
            "family": "local",
        },
        "started_at": "2026-11-20T09:13:10Z",
        "duration_seconds": 21.5,
        "metrics": [],
    }
    return a_record(**{**made, **changes})


def devito(
    ranks: int, threads: int, seconds: list[float], binding: str = "none", **changes: Any
) -> dict[str, Any]:
    """A Devito record of a fixed problem: its rates follow from the work and the given times."""
    size = 256
    rows = [
        *summarise("run_time", seconds, "s", "lower"),
        *summarise("flop_rate", [WORK / one for one in seconds], "flop/s", "higher"),
        *summarise("point_rate", [POINTS * 250 / one for one in seconds], "point/s", "higher"),
        *summarise("operational_intensity", [1.93] * len(seconds), "flop/byte", "none"),
        *summarise("roofline_fraction", [WORK / seconds[0] / (43 * GIGA * 1.93)], "1", "higher")[
            :1
        ],
    ]
    return record(
        case=f"acoustic-so8-256x256x256-r{ranks}t{threads}-{binding}",
        ranks=ranks,
        threads_per_rank=threads,
        parameters={
            "model": "acoustic",
            "shape": f"{size}x{size}x{size}",
            "points": POINTS,
            "space_order": 8,
            "time_order": 2,
            "tn_ms": 200.0,
            "nbl": 10,
            "repeats": len(seconds),
            "autotune": "off",
            "layout": f"{ranks}x{threads}",
            "binding": binding,
            "scaling": "strong",
            "mpi": "basic" if ranks > 1 else "off",
            "language": "openmp",
        },
        metrics=[row.as_row() for row in rows],
        raw={"path": f"devito-r{ranks}t{threads}-{binding}.raw.txt", "sha256": "0" * 64},
        **changes,
    )


def stream(threads: int, triad: float, **changes: Any) -> dict[str, Any]:
    """A memory-bandwidth record; ``triad`` in GB/s."""
    rows = [
        row
        for name, share in (("triad", 1.0), ("add", 0.99), ("scale", 0.93), ("copy", 0.95))
        for row in summarise(
            f"{name}_rate",
            [triad * share * GIGA * k for k in (0.98, 1.0, 1.01)],
            "byte/s",
            "higher",
        )
    ]
    return record(
        benchmark="stream",
        case=f"triad-t{threads}",
        threads_per_rank=threads,
        parameters={
            "threads": threads,
            "array_elements": 16 * 1024**2,
            "array_bytes": 128 * 1024**2,
            "binding": "core",
            "repeats": 3,
        },
        command=["trueup-triad", "--threads", str(threads)],
        metrics=[row.as_row() for row in rows],
        **changes,
    )


def usual() -> list[dict[str, Any]]:
    """A run as a 4-core machine makes it: a sweep over threads and layouts, two that went wrong,
    and the triad.
    """
    return [
        devito(1, 1, [8.31, 8.29, 8.40]),
        devito(1, 2, [4.52, 4.48, 4.61]),
        devito(2, 1, [4.71, 4.66, 4.70], "core"),
        devito(1, 3, [3.62, 3.58, 3.71]),
        devito(1, 4, [3.38, 3.31, 3.52]),
        devito(2, 2, [3.21, 3.19, 3.30], "l3"),
        devito(4, 1, [3.44, 3.40, 3.61], "core"),
        record(
            case="acoustic-so8-512x512x512-r1t4-none",
            outcome="failed",
            reason="killed by signal 9 after 12.0 s: out of memory",
            threads_per_rank=4,
        ),
        devito(4, 1, [3.1, 3.2, 3.3], "numa")
        | {
            "outcome": "invalid",
            "reason": "the field's norm is 12.1, other layouts have 12.7",
            "metrics": [],
        },
        stream(1, 24.6),
        stream(2, 38.2),
        stream(4, 43.0),
    ]


def manifest(**changes: Any) -> dict[str, Any]:
    """The run.json of ``usual``."""
    return {
        "schema": "trueup.run/1",
        "run_id": RUN_ID,
        "started_at": "2026-11-20T09:13:00Z",
        "finished_at": "2026-11-20T09:18:30Z",
        "playbook": "site.yml",
        "hosts": {"node01": {"ok": 61, "changed": 3, "failed": 0, "unreachable": 0, "skipped": 9}},
        "skipped": [
            {"node": "node01", "what": "install packages", "why": "needs root, and become is off"}
        ],
        "warnings": [],
        **changes,
    }


def write_run(
    folder: Path, records: list[dict[str, Any]], run: dict[str, Any] | None = None
) -> Path:
    """The records as a results folder: folder/results/<run_id>/*.json."""
    results = folder / "results"
    for number, one in enumerate(records):
        place = results / one["run_id"]
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number:03}-{one['benchmark']}.json").write_text(
            json.dumps(one), encoding="utf-8"
        )
    if run is not None:
        (results / run["run_id"]).mkdir(parents=True, exist_ok=True)
        (results / run["run_id"] / "run.json").write_text(json.dumps(run), encoding="utf-8")
    return results
