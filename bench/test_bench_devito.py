"""The promises about Devito, as ratios of two measurements of one run.

- The module devito_bench costs less than 2 % + 1 s over running the same command by hand.
- The best layout of the default sweep is never slower than Devito's own benchmark run by hand.

Needs what the role devito installs: ``make run`` first. Run with ``make bench ARGS="-k devito"`` on
a
quiet machine.
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
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
PREFIX = Path(os.environ.get("TRUEUP_DEVITO_PREFIX", "~/.local/share/trueup/devito")).expanduser()
PYTHON = PREFIX / "venv" / "bin" / "python"
SHAPE = 256
ROUNDS = 3


def module(tmp_path: Path, **arguments: Any) -> dict[str, Any]:
    """Run the module as Ansible does on a node: one process, arguments in, JSON out."""
    given = {
        "prefix": str(PREFIX),
        "shape": f"{SHAPE}x{SHAPE}x{SHAPE}",
        "run_id": "20261120T091300Z-7c1e",
        "node_name": "bench",
        **arguments,
    }
    path = tmp_path / "arguments.json"
    path.write_text(json.dumps({"ANSIBLE_MODULE_ARGS": given}))
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


def timed(function: Any) -> tuple[float, Any]:
    begin = time.perf_counter()
    result = function()
    return time.perf_counter() - begin, result


@pytest.fixture(name="cores")
def _cores() -> int:
    if not PYTHON.exists():
        pytest.fail(f"no Devito in {PREFIX}: make run first")
    return len(os.sched_getaffinity(0))


def test_module_costs_less_than_2_percent_and_1_second(
    cores: int, tmp_path: Path, record_property: Any
) -> None:
    layout = {"ranks": 1, "threads_per_rank": cores, "binding": "core"}
    warm = module(tmp_path, **layout)  # the kernel is compiled for both

    def by_hand() -> None:
        subprocess.run(
            warm["command"],
            env={**os.environ, **warm["environment"]},
            capture_output=True,
            check=True,
        )

    pairs = [
        (timed(by_hand)[0], timed(lambda: module(tmp_path, **layout))[0]) for _ in range(ROUNDS)
    ]
    hand = statistics.median(pair[0] for pair in pairs)
    ours = statistics.median(pair[1] for pair in pairs)
    print(
        f"\nby hand {hand:.2f} s, module {ours:.2f} s, difference {ours - hand:+.2f} s (n={ROUNDS})"
    )
    record_property("difference_seconds", ours - hand)
    assert ours <= hand * 1.02 + 1


def test_best_layout_is_not_slower_than_devitos_default_by_hand(
    cores: int, tmp_path: Path, record_property: Any
) -> None:
    def by_hand() -> float:
        argv = [str(PYTHON), "-m", "benchmarks.user.benchmark", "run", "-P", "acoustic"]
        argv += ["-d", str(SHAPE), str(SHAPE), str(SHAPE), "-so", "8", "--tn", "200"]
        environment = {**os.environ, "DEVITO_LANGUAGE": "openmp", "DEVITO_LOGGING": "PERF"}
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=True)
        found = re.search(r"Operator `Forward` ran in (\S+) s", done.stdout + done.stderr)
        assert found is not None
        return float(found.group(1))

    def best() -> float:
        layouts = [(1, cores, "none"), (1, cores, "core"), (cores, 1, "core")]
        medians = []
        for ranks, threads, binding in layouts:
            record = module(tmp_path, ranks=ranks, threads_per_rank=threads, binding=binding)[
                "record"
            ]
            medians += [
                row["value"]
                for row in record["metrics"]
                if row["name"] == "run_time" and row["statistic"] == "median"
            ]
        return min(medians)

    pairs = [(by_hand(), best()) for _ in range(ROUNDS)]
    hand = statistics.median(pair[0] for pair in pairs)
    ours = statistics.median(pair[1] for pair in pairs)
    print(f"\nby hand {hand:.2f} s, best layout {ours:.3f} s, ratio {ours / hand:.3f} (n={ROUNDS})")
    record_property("ratio", ours / hand)
    assert ours <= hand
