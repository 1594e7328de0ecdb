"""Whole outputs of commands, each compared with its file in tests/data/golden.

A golden file that changes is read first, and then written anew with the command of its row.
"""

from __future__ import annotations

from typing import Any

import pytest
import recorded_runs as runs
from helpers import ROOT, parametrized

GOLDEN = ROOT / "tests" / "data" / "golden"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A record of each benchmark, a scaling run and a fleet."""
    place = tmp_path_factory.mktemp("golden")
    runs.write(place / "results", runs.every_tool())
    runs.write(place / "scaling", runs.hbv3_scaling())
    runs.write(place / "fleet", runs.h100_fleet(200))
    return place


@parametrized(("golden", "argv", "status"))
def test_a_command_writes_its_golden_file(
    call_trueup: Any,
    folder: Any,
    monkeypatch: pytest.MonkeyPatch,
    golden: str,
    argv: list[str],
    status: int,
) -> None:
    monkeypatch.chdir(folder)
    ended = call_trueup(*(word.replace("DATA", str(ROOT / "tests" / "data")) for word in argv))
    written = f"{ended.out}---- standard error\n{ended.err}".replace(str(ROOT), "ROOT")
    expected = (GOLDEN / golden).read_text(encoding="utf-8")
    assert (written, ended.status) == (expected, status)
