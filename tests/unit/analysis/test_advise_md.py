"""Advice on molecular dynamics, held against cases that were worked by hand."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from helpers import parametrized
from trueup_analysis import catalog
from trueup_analysis.figures.advise import answers, asks, backtest
from trueup_analysis.figures.advise.estimates import RECORD
from trueup_analysis.figures.advise.kinds import KINDS
from trueup_analysis.figures.advise.knowledge import Knowledge
from trueup_analysis.figures.prices import Book, read_all
from trueup_node.cases import Case, Figure
from trueup_node.errors import BadInput

DATA = Path(__file__).resolve().parents[2] / "data"
TODAY = date(2026, 11, 24)
SIZE = "Standard_HB120rs_v3"
STEADY = {"node_mtbf_hours": 1e9, "offers": "payg"}


def record(atoms: Any, rate: float, layout: str = "r120t1", **given: Any) -> Case:
    """A record of a box of water on one node; made up."""
    return Case(
        nodes=("n1",),
        vm_size=given.pop("vm_size", SIZE),
        benchmark="gromacs",
        case=f"water-{layout}",
        outcome="ok",
        reason=None,
        parameters={"atoms": atoms, "water_box_nm": 10.0, "precision": "mixed", **given},
        software={},
        figures=[Figure("step_rate", rate, "1/s", "higher", statistic="single")],
        node_count=1,
        run_id="20261120T091300Z-7c1e",
        started_at="2026-11-20T09:13:00Z",
    )


# 4.0, 4.4 and 4.8e7 atom-steps a second.
THREE = (record(100_000, 400.0), record(400_000, 110.0), record(1_600_000, 30.0))


def ask(*cases: Case, **given: Any) -> answers.Answer:
    book = Book(read_all(catalog.built_in()), None)
    known = Knowledge(catalog.built_in(), TODAY, cases)
    kind = KINDS["md"]
    return answers.answer(kind, asks.read(kind, given), known, book)


def the(found: answers.Answer) -> answers.Choice:
    (one,) = found.choices
    return one


def test_the_time_at_a_measured_number_of_atoms_by_hand() -> None:
    """100 ns at 2 fs are 5e7 steps, of 400,000 atoms 2e13 atom-steps: 2e13 / 4.4e7 = 454,545 s."""
    one = the(ask(*THREE, atoms=400_000, ns=100, **STEADY))
    assert one.hours.value == pytest.approx(454_545.45 / 3600, rel=1e-4)
    assert one.usd.value == pytest.approx(one.hours.value * one.price.usd_per_hour)
    assert (one.estimate.size, one.estimate.nodes, one.estimate.trust) == (SIZE, 1, RECORD)


def test_between_two_numbers_of_atoms_the_rate_lies_on_a_logarithmic_line() -> None:
    """800,000 are halfway: sqrt(4.4e7 x 4.8e7) = 4.5957e7; 2 fs and 1 ns are 4e11 atom-steps."""
    one = the(ask(*THREE, atoms=800_000, ns=1, **STEADY))
    assert one.hours.value == pytest.approx(4e11 / 4.5957e7 / 3600, rel=1e-4)
    assert "outside" not in one.estimate.beyond


def test_the_range_is_as_wide_as_the_records_tell_of_each_other() -> None:
    """The middle from the ends: sqrt(4.0 x 4.8) = 4.38 for 4.4. The ends from what is nearest: 4.4
    for 4.0, a factor of 1.1, and 4.4 for 4.8. The widest counts; 1.5 times more, since water tells
    of no other input."""
    one = the(ask(*THREE, atoms=400_000, ns=1, **STEADY))
    assert one.hours.high / one.hours.value == pytest.approx(1.1 * 1.5, rel=1e-4)
    assert one.estimate.beyond == "the records are of water alone."
    inputs = [
        record(atoms, rate, water_box_nm=0.0, tpr=f"{atoms}.tpr")
        for atoms, rate in ((100_000, 400.0), (400_000, 110.0), (1_600_000, 30.0))
    ]
    own = the(ask(*inputs, atoms=400_000, ns=1, **STEADY))
    assert own.estimate.beyond == ""
    assert own.hours.high / own.hours.value == pytest.approx(1.1, rel=1e-4)


def test_nothing_is_estimated_without_records_and_it_says_what_to_measure() -> None:
    """1e6 atoms are 1e4 nm^3, an edge of 21.5 nm; half and twice as many 17.1 and 27.1 nm."""
    with pytest.raises(BadInput) as refused:
        ask(atoms=1_000_000, ns=100)
    said = str(refused.value)
    assert "of none there is a record;" in said
    assert "boxes of 17.1, 21.5 and 27.1 nm" in said
    assert '{"trueup_benchmarks": ["gromacs"], "gromacs_water_box": 17.1}' in said


@pytest.mark.parametrize(
    "cases",
    [
        THREE[:2],
        (*THREE[:2], record(1_600_000, 30.0, vm_size="Standard_HX176rs")),
        (*THREE[:2], record(1_600_000, 30.0, precision="double")),
        (*THREE[:2], record("unknown", 30.0)),
    ],
    ids=["two", "another size", "another precision", "atoms unknown"],
)
def test_too_few_records_that_tell_of_each_other_are_no_estimate(cases: tuple[Case, ...]) -> None:
    with pytest.raises(BadInput, match=f"needs {backtest.LEAST_ERRORS} numbers of atoms on one"):
        ask(*cases, atoms=400_000, ns=1)


@parametrized(("given", "said"))
def test_an_ask_that_says_nothing_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        ask(**given)


def test_a_log_tells_its_simulation(call_trueup: Any, tmp_path: Path) -> None:
    """2000 steps of 2 fs are 0.004 ns of 1530 atoms: 3.06e6 atom-steps, at 3e7 a second 0.102 s."""
    valid = json.loads((DATA / "records" / "valid.json").read_text(encoding="utf-8"))
    record_ = valid[0] if isinstance(valid, list) else valid
    for place, (atoms, rate) in enumerate(((1000, 3e4), (2000, 1.5e4), (4000, 7.5e3))):
        told = {
            **record_,
            "benchmark": "gromacs",
            "case": f"water{place}",
            "vm_size": SIZE,
            "parameters": {"atoms": atoms, "water_box_nm": 3.0, "precision": "mixed"},
            "metrics": [
                {
                    "name": "step_rate",
                    "value": rate,
                    "unit": "1/s",
                    "direction": "higher",
                    "statistic": "single",
                    "n": 1,
                }
            ],
        }
        (tmp_path / f"{place}.json").write_text(json.dumps(told), encoding="utf-8")
    log = DATA / "gromacs" / "driver_r1t2.txt"
    argv = ("advise", "--from-log", log, "--results", tmp_path, "--format", "json")
    ended = call_trueup(*argv)
    assert ended.status == 0, ended.err
    answer = json.loads(ended.out)["tables"][0]
    assert answer["ask"]["atoms"] == 1530
    assert answer["ask"]["ns"] == pytest.approx(0.004)
    (row,) = [one for one in answer["rows"] if one["offer"] == "payg"]
    assert row["hours"] == pytest.approx(3.06e6 / 3e7 / 3600, rel=1e-3)
    assert row["trust"] == RECORD
