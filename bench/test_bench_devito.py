"""The cost of Devito's module beside its command by hand, and its best layout beside the default.

By the clock, on a quiet machine: as many threads run as there are cores. Needs the role devito's
installation: ``make run`` first.

    make bench ARGS="-k devito"
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from measure import ROOT, Spent, command, row, spend

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Bench
    from measure import Side, Word

PREFIX = Path(os.environ.get("TRUEUP_DEVITO_PREFIX", "~/.local/share/trueup/devito")).expanduser()
PYTHON = PREFIX / "venv" / "bin" / "python"
SHAPE = "256"
# Less than 2 % + 1 s above, and never slower.
MODULE = "devito_bench, clock"
BEST = "Devito's best layout, clock"


def module(tmp_path: Path, **arguments: Any) -> dict[str, Any]:
    """Run the module as Ansible does on a node: one process, arguments in, JSON out."""
    module_arguments = {
        "prefix": str(PREFIX),
        "shape": "x".join([SHAPE] * 3),
        "run_id": "20261120T091300Z-7c1e",
        "node_name": "bench",
        **arguments,
    }
    path = tmp_path / "arguments.json"
    path.write_text(json.dumps({"ANSIBLE_MODULE_ARGS": module_arguments}))
    script = (
        "import ansible.module_utils, runpy, sys;"
        f"ansible.module_utils.__path__.append({str(ROOT / 'module_utils')!r});"
        f"sys.argv = ['devito_bench', {str(path)!r}];"
        f"runpy.run_path({str(ROOT / 'library' / 'devito_bench.py')!r}, run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    result: dict[str, Any] = json.loads(done.stdout)
    assert result.get("msg") is None
    return result


@pytest.fixture(name="cores")
def _cores(bench: Bench) -> int:
    if not PYTHON.exists():
        bench.not_measured(f"no Devito in {PREFIX}: make run first", MODULE, BEST)
    return len(os.sched_getaffinity(0))


def clock(function: Callable[[], Any]) -> Side:
    """A side whose time is that of a call."""

    def run() -> Spent:
        begin = time.perf_counter()
        function()
        return Spent(0.0, time.perf_counter() - begin)

    return run


def test_the_module_beside_the_same_command(bench: Bench, cores: int, tmp_path: Path) -> None:
    layout = {"ranks": 1, "threads_per_rank": cores, "binding": "core"}
    warm = module(tmp_path, **layout)  # the kernel is compiled for both
    hand = command(warm["command"], env=warm["environment"])
    sides = {"by hand": hand, "module": clock(lambda: module(tmp_path, **layout))}
    by_side = bench.measure(sides)
    seconds = statistics.median(spent.wall_seconds for spent in by_side["by hand"])
    pair = by_side["module"], by_side["by hand"]
    bench.judge(row(MODULE, "by hand", *pair, promise=1.02 + 1 / seconds, clock=True))


def test_the_best_layout_beside_devitos_default(bench: Bench, cores: int, tmp_path: Path) -> None:
    argv: list[Word] = [PYTHON, "-m", "benchmarks.user.benchmark", "run", "-P", "acoustic"]
    argv += ["-d", SHAPE, SHAPE, SHAPE, "-so", "8", "--tn", "200"]
    settings = {"DEVITO_LANGUAGE": "openmp", "DEVITO_LOGGING": "PERF"}
    layouts = [(1, cores, "none"), (1, cores, "core"), (cores, 1, "core")]

    def by_hand() -> Spent:
        done = spend(argv, env=settings)
        match = re.search(r"Operator `Forward` ran in (\S+) s", done.out + done.err)
        assert match is not None
        return Spent(0.0, float(match.group(1)))

    def best() -> Spent:
        medians = []
        for ranks, threads, binding in layouts:
            module_result = module(tmp_path, ranks=ranks, threads_per_rank=threads, binding=binding)
            medians += [
                row["value"]
                for row in module_result["record"]["metrics"]
                if row["name"] == "run_time" and row["statistic"] == "median"
            ]
        return Spent(0.0, min(medians))

    by_side = bench.measure({"by hand": by_hand, "best": best})
    bench.judge(row(BEST, "by hand", by_side["best"], by_side["by hand"], promise=1.0, clock=True))
