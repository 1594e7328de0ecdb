"""What many nodes cost the controller: identify, preflight and configure in check mode.

The nodes are simulated: the connection `recorded` answers at once from a recording, so that what is
measured is the controller's own work, without ssh and without the time that nodes take.

- A node of 600 costs the controller no more than a third above what a node of 10 costs: linear.
- A task of a node costs less than 60 ms of CPU (20 to 35 were measured).

Takes many minutes on two cores: ``make bench ARGS="-s -k controller"`` on a quiet machine.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "bench" / "controller"))

from simulate import simulate  # noqa: E402

RECORDINGS = ROOT / "tests" / "data" / "controller"
RECORDING = RECORDINGS / f"{os.environ.get('TRUEUP_BENCH_RECORDING', 'local')}.json"
NODES = [int(text) for text in os.environ.get("TRUEUP_BENCH_NODES", "10,100,600").split(",")]
# Start-up, one process whatever the number of nodes, weighs most on the fewest nodes, so that the
# ratio is below 1 where a node costs the same; a quadratic part would show as several times 1.
MOST_RATIO = 4 / 3
MOST_CPU_SECONDS_A_TASK = 0.060


def test_the_cost_of_a_node_does_not_grow_with_their_number(
    tmp_path: Path, record_property: Any
) -> None:
    assert min(NODES) < max(NODES)
    costs = {}
    for nodes in NODES:
        folder = tmp_path / str(nodes)
        folder.mkdir()
        costs[nodes] = simulate(RECORDING, nodes, folder)
        assert costs[nodes].status == 0, costs[nodes].output[-4000:]
        assert costs[nodes].nodes == nodes
        print(f"\n{RECORDING.stem}, {costs[nodes].summary}")
    fewest, most = costs[min(NODES)], costs[max(NODES)]
    cpu = (most.cpu_seconds / most.nodes) / (fewest.cpu_seconds / fewest.nodes)
    wall = (most.wall_seconds / most.nodes) / (fewest.wall_seconds / fewest.nodes)
    print(f"a node of {most.nodes} against one of {fewest.nodes}: CPU {cpu:.2f}, wall {wall:.2f}")
    record_property("tasks_a_node", most.tasks)
    record_property("cpu_seconds_a_node", most.cpu_seconds / most.nodes)
    record_property("wall_seconds_a_node", most.wall_seconds / most.nodes)
    assert most.tasks == fewest.tasks
    assert cpu < MOST_RATIO
    assert most.cpu_seconds / most.results < MOST_CPU_SECONDS_A_TASK
