"""A second `make run` beside the time of its own benchmarks, by the clock.

Two runs take minutes, on a quiet machine: TRUEUP_BENCH_RUN=yes make bench ARGS="-k second"
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from measure import Spent, row, spend

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Bench

FIGURE = "second make run, clock"


def test_a_second_run(bench: Bench, tmp_path: Path) -> None:
    if os.environ.get("TRUEUP_BENCH_RUN") != "yes":
        bench.not_measured("TRUEUP_BENCH_RUN is not yes", FIGURE)
    results = tmp_path / "results"

    def run() -> Spent:
        argv = ["make", "run", f"OUTPUT={tmp_path / 'report'}"]
        return spend(argv, env={"TRUEUP_RESULTS": str(results)})

    def measured() -> Spent:
        """The last run's benchmarks, as their records have it."""
        last = max(path for path in results.iterdir() if path.is_dir())
        records = [json.loads(path.read_bytes()) for path in last.rglob("*.json")]
        took = [each["duration_seconds"] for each in records if "duration_seconds" in each]
        return Spent(0.0, sum(took))

    run()
    by_side = bench.measure({"make run": run, "its benchmarks": measured}, rounds=1)
    pair = by_side["make run"], by_side["its benchmarks"]
    bench.judge(row(FIGURE, "its benchmarks", *pair, promise=2.0, clock=True))
