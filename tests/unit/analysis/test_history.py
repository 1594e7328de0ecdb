"""``trueup history``: the run at which a figure changed, the nodes, and the setting."""

from __future__ import annotations

import json
import random
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import made
import planted_changes as plants
import pytest
from trueup_analysis.figures.compare.history import History, history

HISTORIES, RUNS, NODES = 27, 20, (12, 24)


def planted_history(seed: int, plant: Any) -> tuple[plants.Planted | None, int, History]:
    """Twenty runs of a fleet, with a change at one of them or without."""
    scatter, nodes = random.Random(seed), NODES[seed % len(NODES)]
    planted = None if plant is None else plant(scatter, nodes)
    at, cases, runs = scatter.randrange(3, RUNS - 1), [], []
    constants: dict[Any, float] = {}
    for number in range(RUNS):
        is_after = number >= at
        is_late = planted is not None and planted.setting == "hour of day" and is_after
        hour = 16 if is_late else 9
        runs.append(f"202611{number + 1:02d}T{hour:02d}0000Z-aa00")
        made_of = {"nodes": nodes, "is_after": is_after, "hour": hour}
        for case in plants.run(scatter, constants, planted, **made_of):
            case.run_id, case.started_at = runs[-1], f"2026-11-{number + 1:02d}T{hour:02d}:05:00Z"
            cases.append(case)
    return planted, at, history(cases, runs)


def test_planted_changes_are_found_at_their_run_with_nodes_and_setting() -> None:
    found, invented = 0, 0
    for seed, plant in enumerate(islice(cycle(plants.PLANTS.values()), HISTORIES)):
        planted, at, held = planted_history(seed, plant)
        assert planted is not None
        hits = [step for step in held.steps if int(step.run[6:8]) - 1 == at]
        hits = [step for step in hits if step.change.figure.metric == planted.metric]
        invented += len(held.steps) > len(hits)
        if hits:
            change = hits[0].change
            nodes = {int(shift.place.node[-4:]) for shift in change.worse}
            settings = [item.setting for item in change.explanations][:1]
            is_cause = settings == [planted.setting] * (planted.setting is not None)
            found += is_cause and (
                nodes == planted.nodes or len(planted.nodes) == len(change.nodes)
            )
    assert (found >= 0.95 * HISTORIES, invented) == (True, 0)


def test_no_change_is_invented() -> None:
    steps = [planted_history(5000 + seed, None)[2].steps for seed in range(HISTORIES)]
    assert [held for held in steps if held] == []


def record(day: int, node: str, seconds: float, kernel: str = "5.15") -> dict[str, Any]:
    run = f"202611{day:02d}T090000Z-00aa"
    begun = f"2026-11-{day:02d}T09:05:00Z"
    fields = {"run_id": run, "nodes": [node], "started_at": begun, "system": {"kernel": kernel}}
    return made.record(seconds, **fields)


@pytest.fixture(name="results")
def _results(tmp_path: Path) -> Path:
    """Ten days of one node, slower by 15 % from the seventh on, since a new kernel."""
    scatter = random.Random(1)
    records = []
    for day in range(1, 11):
        slow = 1.15 if day >= 7 else 1.0
        kernel = "6.8" if day >= 7 else "5.15"
        records.append(record(day, "n-1", 10 * slow * scatter.gauss(1, 0.003), kernel))
    return made.write(tmp_path / "results", records)


def test_a_step_says_since_when_and_what_changed(call_trueup: Any, results: Path) -> None:
    done = call_trueup("history", results, "--format", "json")
    (table,) = json.loads(done.out)["tables"]
    time = next(row for row in table["rows"] if row["metric"] == "run_time")
    assert (done.status, table["runs"], time["verdict"]) == (1, 10, "worse")
    assert (time["run"][:8], time["runs_before"], time["runs_after"]) == ("20261107", 6, 4)
    assert time["ratio"] == pytest.approx(0.15, abs=0.01)
    assert time["settings"] == "kernel 5.15 to 6.8"


def test_the_first_line_is_the_answer(call_trueup: Any, results: Path) -> None:
    done = call_trueup("history", results, "--every-figure")
    assert done.out.startswith("Worse since 2026-11-07T09:05: Devito")
    assert "Figures of the first and the last run" in done.out


def test_without_a_change_the_status_is_0(call_trueup: Any, results: Path) -> None:
    done = call_trueup("history", results, "--since", "2026-11-07")
    assert (done.status, done.out[:20]) == (0, "No change is seen in")


def test_three_runs_are_too_few(call_trueup: Any, results: Path) -> None:
    done = call_trueup("history", results, "--since", "2026-11-08")
    assert (done.status, done.out) == (1, "")
    assert "a history needs 4 runs with ok records, and there are 3" in done.err


def test_runs_without_a_node_or_figure_are_no_change(call_trueup: Any, tmp_path: Path) -> None:
    scatter = random.Random(2)
    records = [
        record(day, f"n-{number}", 10 * (1 + 0.02 * number) * scatter.gauss(1, 0.004))
        for day in range(1, 13)
        for number in range(4)
        if (day, number) not in {(3, 0), (4, 0), (9, 2)} and not (number == 3 and day < 6)
    ]
    done = call_trueup("history", made.write(tmp_path, records))
    assert (done.status, done.out[:18]) == (0, "No change is seen ")
