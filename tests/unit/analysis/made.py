"""Records made for tests: their figures follow a formula and were never measured."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pandas as pd
from helpers import a_record

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

RUN_ID = "20261120T091300Z-7c1e"
# The work of every strong record here, in flop and in points.
WORK, POINTS = 4e12, 256**3 * 400


def figure(name: str, value: float, unit: str, direction: str, **more: Any) -> dict[str, Any]:
    """One metric row."""
    return {"name": name, "value": value, "unit": unit, "direction": direction, **more}


def record(
    seconds: float = 10.0,
    *,
    ranks: int = 1,
    threads: int = 1,
    parameters: dict[str, Any] | None = None,
    work: float = WORK,
    **changes: Any,
) -> dict[str, Any]:
    """A whole Devito record whose median run time is ``seconds``; ``changes`` replace fields."""
    made = {
        "run_id": RUN_ID,
        "case": f"acoustic-so8-r{ranks}t{threads}",
        "nodes": ["made-1"],
        "vm_size": "Standard_HB120rs_v3",
        "region": "eastus",
        "offer": "payg",
        "ranks": ranks,
        "threads_per_rank": threads,
        "parameters": {
            "model": "acoustic",
            "shape": "256x256x256",
            "points": 256**3,
            "space_order": 8,
            "tn_ms": 200,
            "layout": f"{ranks}x{threads}",
            "binding": "none",
            "mpi": "basic" if ranks > 1 else "off",
            "scaling": "strong",
            **(parameters or {}),
        },
        "command": ["python", "-m", "made"],
        "environment": {"OMP_NUM_THREADS": str(threads)},
        "system": {"cpu_model": "made", "cores": 8},
        "duration_seconds": 4 * seconds,
        "metrics": [
            figure("run_time", seconds, "s", "lower", statistic="median", n=3),
            figure("run_time", 0.9 * seconds, "s", "lower", statistic="min", n=3),
            figure("run_time", 1.2 * seconds, "s", "lower", statistic="max", n=3),
            figure("flop_rate", work / seconds, "flop/s", "higher", statistic="median", n=3),
            figure("point_rate", POINTS / seconds, "point/s", "higher", statistic="median", n=3),
            figure("roofline_fraction", 0.5, "1", "higher", statistic="median", n=3),
        ],
    }
    return a_record(**{**made, **changes})


def frame(rows: Iterable[dict[str, Any]]) -> pd.DataFrame:
    """Rows of a table, of which whole columns can be looked at."""
    return pd.DataFrame(list(rows))


def write(folder: Path, records: Iterable[dict[str, Any]]) -> Path:
    """One file a record in ``folder/<run_id>/``; returns ``folder``."""
    for number, made in enumerate(records):
        run = folder / str(made["run_id"])
        run.mkdir(parents=True, exist_ok=True)
        (run / f"{number:04d}.json").write_text(json.dumps(made), encoding="utf-8")
    return folder
