"""The cases of docs/advise_cases.md, each with its whole answer."""

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
