"""The cases of tests/data/advise_cases.md, each with its whole answer."""

from __future__ import annotations

import importlib.util
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from trueup_analysis import catalog
from trueup_analysis.figures.advise.kinds import serving
from trueup_analysis.figures.advise.knowledge import Knowledge

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(name="cases")
def _cases(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("advise_cases", ROOT / "tests/advise_cases.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    # Without records of this machine.
    monkeypatch.chdir(tmp_path)
    return module


def test_every_answer_of_the_page_is_what_the_command_says(cases: Any) -> None:
    page = cases.PAGE.read_text(encoding="utf-8")
    assert cases.count(page) >= 8
    assert cases.written(page) == page


def test_the_back_test_of_the_page_is_the_commands(cases: Any) -> None:
    page = (ROOT / "bench" / "results" / "advise_backtest.md").read_text(encoding="utf-8")
    shown = cases.written("    trueup advise --backtest\n\n<!-- answer -->\n<!-- end -->")
    lines = [line.replace("\\_", "_") for line in shown.splitlines()]
    rows = [line for line in lines if line.startswith("| ")]
    assert len(rows) > 40
    assert [row for row in rows if row not in page] == []
    (overall,) = [line for line in lines if line.startswith("- All kinds: ")]
    inside, _, tried = overall.removeprefix("- All kinds: ").split()[:3]
    guide = (ROOT / "docs" / "guides" / "advise.md").read_text(encoding="utf-8")
    assert f"{inside} of {tried} published results lie in the range" in " ".join(guide.split())


def test_the_shares_of_the_page_are_the_fitted_ones() -> None:
    known = Knowledge(catalog.built_in(), date(2026, 11, 24))
    points = [one for one in serving.points(known) if one.condition == "dense, no prefix cache"]
    timed = [(spent, serving._each(one)) for one in points if (spent := serving._times(one, known))]
    flops, bandwidth = (f"{1 / factor:.0%}" for factor in serving._slowness(timed))
    assert (len(points), flops, bandwidth) == (8, "41%", "79%")
    page = " ".join((ROOT / "docs" / "guides" / "advise.md").read_text(encoding="utf-8").split())
    assert "of the eight dense ones without a prefix cache 41 % of the peak and 79 %" in page
