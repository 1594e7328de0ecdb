"""The cost of many nodes for the controller, in check mode.

The nodes are simulated: the connection `recorded` answers at once from a recording, so that the
tests measure the controller's own work, without ssh and without the time that nodes take.

- A configure without a change of an NDv4, beside a play of as many empty tasks as it once had.
- A node of many beside a node of few, in the whole main job: linear.

    make bench ARGS="-k controller"
    TRUEUP_BENCH_NODES=10,600 make bench ARGS="-k linear"     # many minutes on two cores
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from measure import ROOT, Spent, row

if TYPE_CHECKING:
    from conftest import Bench
    from measure import Side

sys.path[:0] = [str(ROOT / "bench" / "controller")]

from simulate import STEPS, simulate  # noqa: E402 WHY: found by the path above

RECORDINGS = ROOT / "tests" / "data" / "controller"
# Of 2026-11-22, when an NDv4 had 81 tasks, and 40 that it skipped.
EMPTY_TASKS = 121
NODES = 10
FEW, MANY = map(int, os.environ.get("TRUEUP_BENCH_NODES", "10,100").split(","))
# Start-up, one process whatever the number of nodes, weighs most on the fewest nodes, so that the
# ratio is below 1 where a node costs the same; a quadratic part would show as several times 1.
LINEAR = 4 / 3


def node(recording: str, nodes: int, folder: Path, playbook: Path = STEPS) -> Side:
    """The cost of one node of so many."""

    def run() -> Spent:
        cost = simulate(RECORDINGS / f"{recording}.json", nodes, folder, playbook=playbook)
        assert (cost.status, cost.nodes) == (0, nodes), cost.output[-4000:]
        return Spent(cost.cpu_seconds / nodes, cost.wall_seconds / nodes, cost.rss_bytes / 1e6)

    return run


def test_the_controllers_cpu_of_a_node(bench: Bench, tmp_path: Path) -> None:
    empty = tmp_path / "empty.yml"
    tasks = [
        {"name": f"Do nothing {number}", "ansible.builtin.debug": {"msg": ""}}
        for number in range(EMPTY_TASKS)
    ]
    play = {"name": "Empty", "hosts": "all", "gather_facts": False, "tasks": tasks}
    empty.write_text(json.dumps([play]), encoding="utf-8")
    bench.compare(
        "controller, a node of 10, no-op configure of an NDv4",
        node("ndv4", NODES, tmp_path),
        f"{EMPTY_TASKS} empty tasks",
        node("ndv4", NODES, tmp_path, empty),
        promise=2.1,
        most_megabytes=120,
    )


def test_the_cost_of_a_node_is_linear(bench: Bench, tmp_path: Path) -> None:
    recording = os.environ.get("TRUEUP_BENCH_RECORDING", "ndv4")
    many, few = f"a node of {MANY}", f"a node of {FEW}"
    job = ROOT / "site.yml"
    sides = {many: node(recording, MANY, tmp_path, job), few: node(recording, FEW, tmp_path, job)}
    # One round is minutes long.
    by_side = bench.measure(sides, rounds=1)
    figure = f"controller, {many}, site.yml of {recording}"
    bench.judge(row(figure, few, by_side[many], by_side[few], promise=LINEAR))
