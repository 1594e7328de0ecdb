"""The cases of tests/data/advise_cases.md, each with its whole answer."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

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
    guide = (ROOT / "docs" / "guides" / "advise.md").read_text(encoding="utf-8")
    assert overall.removeprefix("- ") in " ".join(guide.split())
