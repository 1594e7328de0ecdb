"""``trueup compare``: planted changes are found with their cause, and none is invented."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import made
import planted_changes as plants
import pytest
from helpers import parametrized
from trueup_analysis.figures.compare.significance import discoveries, t_chance, t_quantile

HISTORIES = 100
OLD, NEW = "20261113T091300Z-7c1e", "20261120T091300Z-00aa"


@pytest.mark.parametrize(
    "noise", [plants.SYNTHETIC, plants.MEASURED], ids=["synthetic", "measured"]
)
def test_planted_changes_are_found_with_the_right_cause_first(noise: plants.Noise) -> None:
    every = plants.outcomes(HISTORIES, noise)
    visible = [item for item in every if item.is_visible]
    share = len(visible) / 100
    found, caused = (sum(values) for values in zip(*(item[1:3] for item in visible), strict=True))
    beside = sum(item.others > 0 for item in every)
    assert (found >= 95 * share, caused >= 90 * share, beside <= 4) == (True,) * 3


@pytest.mark.parametrize(
    "noise", [plants.SYNTHETIC, plants.MEASURED], ids=["synthetic", "measured"]
)
def test_no_change_is_invented(noise: plants.Noise) -> None:
    assert len(plants.inventing(HISTORIES, noise)) <= 1


def test_students_t_is_that_of_the_tables() -> None:
    # Source: any table of Student's t; two-sided 5 % and 0.1 %.
    for freedom, five, tenth in ((5, 2.571, 6.869), (30, 2.042, 3.646)):
        assert t_chance(five, freedom) == pytest.approx(0.05, rel=0.03)
        assert t_chance(tenth, freedom) == pytest.approx(0.001, rel=0.1)
        assert t_quantile(0.975, freedom) == pytest.approx(five, rel=0.01)


def test_the_false_discovery_rate_is_that_of_benjamini_and_hochberg() -> None:
    # Their example of 15 probabilities: four are significant at 5 % (1995, page 294).
    chances = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240]
    chances += [0.4262, 0.5719, 0.6528, 0.7590, 1.0]
    limit = discoveries(chances, 0.05)
    assert sum(chance <= limit for chance in chances) == 4


def record(run: str, node: str, seconds: float, **changes: Any) -> dict[str, Any]:
    begun = f"{run[:4]}-{run[4:6]}-{run[6:8]}T09:15:00Z"
    fields = {"run_id": run, "nodes": [node], "started_at": begun, **changes}
    return made.record(seconds, **fields)


@pytest.fixture(name="results")
def _results(tmp_path: Path) -> Path:
    """Two runs of ten nodes: slower by 12 % since a new kernel; one node no longer works, one case
    is gone."""
    records = []
    for number in range(10):
        node, noise = f"n-{number}", 1 + 0.002 * ((number * 7) % 5 - 2)
        records.append(record(OLD, node, 10.0 * noise, system={"kernel": "5.15"}))
        slow: dict[str, Any] = {"system": {"kernel": "6.8"}}
        if number == 9:
            slow |= {"outcome": "failed", "reason": "no memory", "metrics": []}
        records.append(record(NEW, node, 11.2 / noise, **slow))
    records.append(record(OLD, "n-0", 5.0, case="gone"))
    return made.write(tmp_path / "results", records)


def rows(done: Any, table: int = 0) -> list[dict[str, Any]]:
    held: list[dict[str, Any]] = json.loads(done.out)["tables"][table]["rows"]
    return held


def test_the_last_two_runs_are_compared(
    call_trueup: Any, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(results.parent)
    done = call_trueup("compare")
    first = " ".join(done.out.split())
    assert done.status == 1
    assert first.startswith(
        "Now fails: devito acoustic-so8-r1t1 on n-9 (no memory). Worse: Devito "
    )
    assert "kernel 5.15 to 6.8" in first
    assert "Figures of one side alone" in done.out


def test_a_row_has_the_change_its_interval_and_the_settings(
    call_trueup: Any, results: Path
) -> None:
    done = call_trueup("compare", "--results", results, "--format", "json")
    time = next(row for row in rows(done) if row["metric"] == "run_time")
    assert time["ratio"] == pytest.approx(0.12, abs=0.01)
    assert time["ratio_low"] < time["ratio"] < time["ratio_high"]
    assert (time["verdict"], time["nodes"], time["paired"]) == ("worse", 9, True)
    assert time["settings"] == "kernel 5.15 to 6.8"


@parametrized(("before", "after"))
def test_sides_may_be_named_in_many_ways(
    call_trueup: Any, results: Path, before: str, after: str
) -> None:
    names = [name.replace("FOLDER", str(results)) for name in (before, after)]
    done = call_trueup("compare", *names, "--results", results, "-f", "json")
    verdicts = {row["metric"]: row["verdict"] for row in rows(done)}
    assert (done.status, verdicts["run_time"]) == (1, "worse")


@parametrized(("sides", "words"))
def test_what_names_no_side_is_refused(
    call_trueup: Any, results: Path, sides: tuple[str, ...], words: list[str]
) -> None:
    done = call_trueup("compare", *sides, "--results", results)
    assert (done.status, done.out) == (1, "")
    assert [word for word in words if word not in done.err] == []


def test_one_run_alone_has_nothing_before_it(call_trueup: Any, results: Path) -> None:
    done = call_trueup("compare", "--results", results / OLD)
    assert (done.status, "'before' needs 2" in done.err) == (1, True)


def test_nothing_is_worse_backwards(call_trueup: Any, results: Path) -> None:
    done = call_trueup("compare", "last", "before", "--results", results)
    # What the newer run lacks is no loss of the older one.
    assert (done.status, done.out.split(":")[0]) == (0, "Better")


def test_sizes_are_compared_by_all_their_nodes(call_trueup: Any, tmp_path: Path) -> None:
    sizes = ("Standard_HB120rs_v3", "Standard_HB176rs_v4")
    records = [
        record(OLD, f"{size[-1]}-{number}", seconds * (1 + 0.001 * number), vm_size=size)
        for size, seconds in zip(sizes, (10.0, 7.0), strict=True)
        for number in range(4)
    ]
    results = made.write(tmp_path, records)
    sides = [f"size={size}" for size in sizes]
    done = call_trueup("compare", *sides, "--results", results, "-f", "json")
    time = next(row for row in rows(done) if row["metric"] == "run_time")
    assert (time["verdict"], time["paired"]) == ("better", False)
    assert time["ratio"] == pytest.approx(-0.3, abs=0.001)


def of_hosts(tmp_path: Path, moved: set[int], **after: str) -> Path:
    """Two runs of eight nodes, each on a physical host of its own; those that moved to another one
    are slower by 30 %."""
    records = []
    for number in range(8):
        node, noise = f"n-{number}", 1 + 0.002 * ((number * 7) % 5 - 2)
        system = {"physical_host": f"host-{number}", "cpu_quota": "none"}
        records.append(record(OLD, node, 10.0 * noise, system=system))
        if number in moved:
            system = {**system, "physical_host": f"host-9{number}", **after}
        slow = 13.0 if number in moved else 10.0
        records.append(record(NEW, node, slow / noise, system=system))
    return made.write(tmp_path, records)


def test_another_physical_host_is_a_setting_of_each_node(call_trueup: Any, tmp_path: Path) -> None:
    for moved, text in (
        ({2, 5}, "physical_host one to another on 2 nodes"),
        ({3}, "physical_host host-3 to host-93 on 1 node"),
        (set(range(8)), "physical_host one to another"),
    ):
        results = of_hosts(tmp_path / str(len(moved)), moved)
        done = call_trueup("compare", "--results", results, "--format", "json")
        rate = next(row for row in rows(done) if row["metric"] == "flop_rate")
        assert (rate["verdict"], rate["settings"]) == ("worse", text)


def test_a_quota_of_cpu_time_stands_before_other_settings(call_trueup: Any, tmp_path: Path) -> None:
    quota = {"cpu_quota": "1 core", "nvidia_driver": "580"}
    done = call_trueup("compare", "--results", of_hosts(tmp_path, {1, 4}, **quota), "-f", "json")
    rate = next(row for row in rows(done) if row["metric"] == "flop_rate")
    assert rate["settings"].startswith("cpu_quota none to 1 core on 2 nodes; ")


def test_other_work_because_of_fewer_cpus_names_them(call_trueup: Any, tmp_path: Path) -> None:
    records = [
        record(OLD, "n", 10, threads=2, system={"cpu_list": "0-1", "kernel": "6.8"}),
        record(NEW, "n", 19, threads=1, system={"cpu_list": "0", "kernel": "6.8"}),
    ]
    done = call_trueup("compare", "--results", made.write(tmp_path, records))
    assert done.status == 1
    assert done.err.rstrip().endswith("after; between them changed cpu_list 0-1 to 0")


def test_images_are_compared_by_their_nodes(call_trueup: Any, tmp_path: Path) -> None:
    records = [
        record(NEW, f"{image}-{number}", seconds + number / 100, system={"image": f"a:b:c:{image}"})
        for image, seconds in (("24.06", 10.0), ("24.12", 13.0))
        for number in range(4)
    ]
    sides = ("image=*24.06", "image=*24.12")
    done = call_trueup("compare", *sides, "--results", made.write(tmp_path, records), "-f", "json")
    rate = next(row for row in rows(done) if row["metric"] == "flop_rate")
    assert (rate["verdict"], rate["paired"], rate["nodes"]) == ("worse", False, 8)
    assert rate["ratio"] == pytest.approx(-0.23, abs=0.005)


def test_single_values_of_one_node_are_too_few(call_trueup: Any, tmp_path: Path) -> None:
    single = [made.figure("run_time", 10.0, "s", "lower")]
    other = [made.figure("run_time", 12.0, "s", "lower")]
    results = made.write(
        tmp_path, [record(OLD, "n", 1, metrics=single), record(NEW, "n", 1, metrics=other)]
    )
    done = call_trueup("compare", "--results", results)
    assert (done.status, "1 too few repeats" in " ".join(done.out.split())) == (2, True)


def test_a_count_of_errors_that_rises_from_0_is_worse(call_trueup: Any, tmp_path: Path) -> None:
    def errors(run: str, count: float) -> dict[str, Any]:
        return record(run, "n", 1, metrics=[made.figure("errors", count, "1", "lower")])

    results = made.write(tmp_path, [errors(OLD, 0), errors(NEW, 3)])
    done = call_trueup("compare", "--results", results)
    assert (done.status, "errors went from 0 to 3" in " ".join(done.out.split())) == (1, True)


def test_junit_has_a_failure_for_each_worse_figure(call_trueup: Any, results: Path) -> None:
    done = call_trueup("compare", "--results", results, "--format", "junit")
    root = ET.fromstring(done.out)
    kinds = {case.get("name"): [child.tag for child in case] for case in root.iter("testcase")}
    assert kinds["acoustic-so8-r1t1"] == ["failure"]
    assert kinds["Devito run time, acoustic-so8-r1t1"] == ["failure"]
    assert int(root.get("failures", 0)) == sum(tags == ["failure"] for tags in kinds.values())
