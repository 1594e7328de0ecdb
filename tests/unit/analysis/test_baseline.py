"""``trueup baseline``: limits of a fleet, which its healthy nodes pass and a slow one fails."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import made
import pytest
import yaml
from fleet import fleet

RUN = "20261120T091300Z-7c1e"
SIZE = "Standard_HB120rs_v3"


def record(node: str, triad: float, **changes: Any) -> dict[str, Any]:
    rows = [made.figure("triad_rate", triad, "byte/s", "higher", statistic="median", n=10)]
    fields: dict[str, Any] = {"benchmark": "stream", "case": "streaming", "metrics": rows}
    fields |= {"nodes": [node], "parameters": {"stores": "streaming"}, "vm_size": SIZE}
    return made.record(1.0, **{**fields, **changes})


@pytest.fixture(name="results")
def _results(tmp_path: Path) -> Path:
    scatter = random.Random(3)
    records = [record(f"n-{number}", 340e9 * scatter.gauss(1, 0.004)) for number in range(20)]
    return made.write(tmp_path / "results", records)


def limits(call_trueup: Any, *argv: object) -> tuple[Any, dict[str, Any]]:
    done = call_trueup("baseline", *argv)
    entries = yaml.safe_load(done.out)["expectations"]
    return done, {entry["metric"]: entry for entry in entries if entry["nodes"] == 1}


def test_a_limit_has_the_median_a_floor_and_where_they_are_from(
    call_trueup: Any, results: Path
) -> None:
    done, entries = limits(call_trueup, results)
    entry = entries["triad_rate"]
    (value,) = entry["values"]
    assert (done.status, entry["unit"], value["sizes"]) == (0, "GB/s", [SIZE])
    assert value["healthy"]["value"] == pytest.approx(340, rel=0.003)
    # 0.4 % of noise, of which Student's t of 5 degrees of freedom reaches 9.68 once in 10,000.
    assert 340 * (1 - 0.06) < value["floor"] < 340 * (1 - 0.02)
    assert "20 values of 20 nodes" in entry["source"]


def test_the_fleet_passes_its_own_limits_and_a_fallen_node_fails(
    call_trueup: Any, results: Path, tmp_path: Path
) -> None:
    own = tmp_path / "own.yml"
    assert call_trueup("baseline", results, "-o", own).status == 0
    slow = made.write(tmp_path / "slow", [record("n-1", 340e9 * 0.88)])
    for folder, words in ((results, "20 pass"), (slow, "1 fail")):
        done = call_trueup("health", folder, "--expectations", own, "--benchmark", "stream")
        assert words in done.out.splitlines()[0]


def test_one_bad_node_does_not_move_the_limit_and_is_named(call_trueup: Any, results: Path) -> None:
    _, before = limits(call_trueup, results)
    made.write(results, [record("n-bad", 200e9, run_id=f"{RUN[:-4]}0000")])
    done, after = limits(call_trueup, results, "--all")
    floors = [entries["triad_rate"]["values"][0]["floor"] for entries in (before, after)]
    assert floors[1] == pytest.approx(floors[0], rel=0.01)
    assert "n-bad: Memory bandwidth (STREAM) triad" in done.err


def test_nodes_that_fail_a_check_do_not_count(call_trueup: Any, tmp_path: Path) -> None:
    made.write(tmp_path, fleet(30))
    done, entries = limits(call_trueup, tmp_path)
    assert "h100-0017: failed a check, not counted" in done.err
    # Of 30 nodes 1 has a slow adapter; each has 8.
    assert "232 values of 29 nodes" in entries["ib_write_bandwidth"]["source"]


def test_two_nodes_are_too_few(call_trueup: Any, tmp_path: Path) -> None:
    results = made.write(tmp_path, [record(name, 340e9) for name in ("a", "b")])
    done = call_trueup("baseline", results)
    assert (done.status, done.out) == (1, "")
    assert "2 values of 2 nodes, and a limit needs 3 nodes" in done.err
