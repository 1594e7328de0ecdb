"""The option --changes of list and cost: each figure beside that of the run before."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

import made
import pytest

if TYPE_CHECKING:
    from pathlib import Path

_RUNS = (("20261113T091300Z-7c1e", "2026-11-13"), ("20261120T091300Z-00aa", "2026-11-20"))


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Devito on five nodes, twice: case "slow" took 10 s and takes 12 s, case "same" 5 s and 5.001;
    case "new" was not measured before."""
    seconds = {"slow": (10.0, 12.0), "same": (5.0, 5.001), "new": (None, 7.0)}
    records = [
        made.record(
            taken[at] * (1 + 0.002 * ((number + at) % 5)),
            run_id=run,
            started_at=f"{day}T09:15:00Z",
            nodes=[f"n-{number}"],
            case=case,
        )
        for at, (run, day) in enumerate(_RUNS)
        for case, taken in seconds.items()
        if taken[at]
        for number in range(5)
    ]
    return made.write(tmp_path / "results", records)


def _rows(call_trueup: Any, *words: object) -> list[dict[str, str]]:
    done = call_trueup(*words, "--format", "csv")
    assert done.status == 0
    return list(csv.DictReader(io.StringIO(done.out)))


def test_list_has_the_change_of_each_record(call_trueup: Any, results: Path) -> None:
    rows = _rows(call_trueup, "list", results, "--changes")
    assert len(rows) == 15
    slow, same, new = (
        [(row["since_run_before"], row["since_verdict"]) for row in rows if row["case"] == case]
        for case in ("slow", "same", "new")
    )
    assert {verdict for _, verdict in slow} == {"worse"}
    assert [float(ratio) for ratio, _ in slow] == pytest.approx([0.2] * 5, abs=0.012)
    assert {verdict for _, verdict in same} == {"unchanged"}
    assert {*new} == {("", "")}
    shown = call_trueup("list", results, "--changes").out
    assert ("since the" in shown, "%, worse" in shown, "%, within noise" in shown) == (True,) * 3


def test_cost_has_the_change_of_each_row(call_trueup: Any, results: Path) -> None:
    rows = _rows(call_trueup, "cost", results, "--price", "3.60", "--changes")
    changes = {
        row["case"]: (row["since_run_before"], row["since_verdict"]) for row in rows if row["case"]
    }
    assert float(changes["slow"][0]) == pytest.approx(0.2, abs=0.003)
    assert float(changes["same"][0]) == pytest.approx(0.0002, abs=0.003)
    assert [verdict for _, verdict in changes.values()] == ["worse", "unchanged", ""]
    shown = call_trueup("cost", results, "--price", "3.60", "--changes").out
    assert "+20.0 %, worse" in shown


def test_without_the_option_there_is_no_column(call_trueup: Any, results: Path) -> None:
    for words in (("list", results), ("cost", results, "--price", "3.60")):
        assert "since_run_before" not in _rows(call_trueup, *words)[0]


def test_without_a_run_before_it_says_so(call_trueup: Any, results: Path) -> None:
    done = call_trueup("list", results, "--changes", "--run", _RUNS[0][0])
    assert done.status == 0
    assert "no run before this one measured the same" in done.err
