"""Simulated nodes go through identify, preflight and configure: all answer, and tasks are counted.

The simulation itself is tested too: a request that was not recorded fails. The figures for many
nodes are measured by bench/test_bench_controller.py.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from plays import warm

ROOT = Path(__file__).parents[2]
sys.path[:0] = [
    str(ROOT / "bench" / "controller"),
    str(ROOT / "bench" / "controller" / "connection_plugins"),
]

from simulate import simulate  # noqa: E402

if TYPE_CHECKING:
    from simulate import Cost

RECORDINGS = sorted((ROOT / "tests" / "data" / "controller").glob("*.json"))
NODES = 2
KEPT = warm(dict(os.environ))
# What a converged node runs, where every role has nothing to do: this project's promise. Identify
# and preflight are six tasks, two plan roles and benchmarks.
MOST_TASKS = dict.fromkeys(("hbv3", "ndv4", "nd_h100_v5"), 8)
# What one node runs for all of them (run_once): the comparison of machines, and what the run bills.
ONCE = ("trueup_machines", "trueup_forecast")
# The same for the whole main job with the benchmarks of the health check, and those that it skips.
# Twelve of them are of the benchmark ib, which the recorded node cannot install.
MOST_OF_SITE = (48, 21)


def test_there_is_a_recording() -> None:
    assert [path.stem for path in RECORDINGS] != []


@pytest.fixture(name="cost", scope="module", params=RECORDINGS, ids=lambda path: path.stem)
def _cost(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    recording: Path = request.param
    return recording, simulate(
        recording, NODES, tmp_path_factory.mktemp(recording.stem), settings=KEPT
    )


def test_every_node_is_configured(cost: tuple[Path, Cost]) -> None:
    _, measured = cost
    assert measured.status == 0, measured.output[-4000:]
    assert sorted(measured.counts) == [f"node-{number:04}" for number in range(1, NODES + 1)]
    bad = [counts["failures"] + counts["unreachable"] for counts in measured.counts.values()]
    assert bad == [0] * NODES


def ran_alone(measured: Cost) -> float:
    """Tasks that each node ran, without those that one of them ran for all."""
    ran = sum(counts["tasks"] - counts["skipped"] for counts in measured.counts.values())
    return (ran - len(ONCE)) / NODES


def test_nodes_that_are_alike_run_the_same_tasks(cost: tuple[Path, Cost]) -> None:
    recording, measured = cost
    print(f"\n{recording.stem}: {measured.summary}")
    tasks = sorted((counts["tasks"] for counts in measured.counts.values()), reverse=True)
    once = [task for task in measured.by_task if task["action"] in ONCE]
    assert [task["action"] for task in once] == list(ONCE)
    # Each is run by the node that answers first in its play, which need not be the same node.
    assert (sum(tasks) - len(once)) % NODES == 0
    assert tasks[0] - tasks[-1] <= len(once)
    first = [task["action"] for task in measured.by_task[:2]]
    assert first == ["trueup_variables", "azure_node_facts"]
    # Nodes that go at their own pace have tasks of their own. `meta` (flush_handlers) is the
    # controller's own and has no result.
    own: Counter[tuple[str, str]] = Counter()
    for task in measured.by_task:
        if not task["action"].endswith("meta") and task not in once:
            own[task["name"], task["action"]] += task["ok"] + task["skipped"]
    assert {number % NODES for number in own.values()} == {0}
    # Ansible's recap counts a loop of includes once for each of its items, and so do we.
    assert len(own) <= measured.tasks
    # Nodes with equal counts are one line of it: "node-[0001-0002] (2 hosts)".
    recap = re.findall(r"(?:\((\d+) hosts\))? +: ok=(\d+) .* skipped=(\d+)", measured.output)
    counted = [
        total
        for hosts, ok, skipped in recap
        for total in [int(ok) + int(skipped)] * int(hosts or 1)
    ]
    assert sorted(counted, reverse=True) == tasks


def test_a_node_runs_no_more_tasks_than_promised(cost: tuple[Path, Cost]) -> None:
    recording, measured = cost
    most = MOST_TASKS.get(recording.stem)
    if most is None:
        pytest.skip(f"nothing is promised for {recording.stem}")
    assert ran_alone(measured) <= most


def test_the_whole_main_job_runs_and_skips_no_more_tasks_than_promised(tmp_path: Path) -> None:
    recording = ROOT / "tests" / "data" / "controller" / "ndv4.json"
    measured = simulate(recording, NODES, tmp_path, playbook=ROOT / "site.yml", settings=KEPT)
    assert measured.status == 0, measured.output[-4000:]
    assert ran_alone(measured) <= MOST_OF_SITE[0]
    assert measured.tasks - measured.ran <= MOST_OF_SITE[1]
    # In preflight and in the health check.
    assert measured.output.count("skipped: gpu_copy: neither nvbandwidth nor") == 2
    # Two cases of nccl and one of stream.
    measuring = [
        (task["name"], task["ok"])
        for task in measured.by_task
        if task["action"] == "trueup_measure"
    ]
    assert measuring == [(f"{name} : Run {name}", NODES) for name in ("nccl", "nccl", "stream")]
    # ib has something to install, and what keeps it from that is told by its own tasks.
    assert "perftest: not offered by any repository that the node has" in measured.output
    assert "ib did not measure everything: the reason stands above." in measured.output


def test_what_was_not_recorded_fails(tmp_path: Path) -> None:
    whole = json.loads(RECORDINGS[0].read_text())
    answers = [
        answer
        for answer in whole["answers"]
        if answer["request"].get("module") != "azure_node_facts"
    ]
    assert len(answers) == len(whole["answers"]) - 1
    recording = tmp_path / "recording.json"
    recording.write_text(json.dumps({**whole, "answers": answers}))
    measured = simulate(recording, NODES, tmp_path, settings=KEPT)
    assert measured.status == 2
    assert [counts["failures"] for counts in measured.counts.values()] == [1] * NODES
    said = " ".join(measured.output.split())
    assert f"the recording {recording} has no answer to" in said
    assert '"module": "azure_node_facts"' in said
    assert "record.py --help tells how to record it again" in said
