"""A disk that refuses (a stand-in of the system's call): a sentence, and nothing is left aside."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any, NoReturn

import config_files
import pytest
from helpers import answer_of
from trueup_analysis import retail
from trueup_controller.azure import run_state
from trueup_node.errors import BadInput, TrueupError
from trueup_node.run import lock

RUN = "20261123T091300Z-7c1e"
REASON = "Input/output error"


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise OSError(errno.EIO, REASON)

    for name in ("rename", "replace"):
        monkeypatch.setattr(os, name, refuse)


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.usefixtures("refusing")
def test_a_runs_state_on_azure_leaves_no_secret_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(run_state.VARIABLE, str(tmp_path))
    kept = run_state.State(RUN)
    for put, name in ((kept.password, run_state.PASSWORD), (kept.public_key, run_state.KEY)):
        with pytest.raises(TrueupError) as refused:
            put()
        assert str(refused.value) == f"{kept.path(name)} cannot be written: {REASON}"
    assert names(tmp_path) == []


def test_a_runs_lock_that_cannot_be_made_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(run_state.VARIABLE, str(tmp_path))
    kept = run_state.State(RUN)
    Path(kept.path(run_state.LOCK)).mkdir(parents=True)
    with pytest.raises(TrueupError) as refused, kept.alone():
        pass
    assert str(refused.value) == f"{kept.path(run_state.LOCK)} cannot be made: Is a directory"


@pytest.mark.usefixtures("refusing")
def test_prices_of_ones_own_stay_and_nothing_is_left_beside_them(tmp_path: Path) -> None:
    (tmp_path / "prices.csv").write_text("earlier\n")
    with pytest.raises(BadInput) as refused:
        retail.keep(tmp_path / "prices.csv", [], [])
    assert str(refused.value) == f"{tmp_path}/prices.csv cannot be written: {REASON}"
    assert names(tmp_path) == ["prices.csv"]
    assert (tmp_path / "prices.csv").read_text() == "earlier\n"


@pytest.mark.usefixtures("refusing")
def test_a_nodes_lock_says_which_and_why(tmp_path: Path) -> None:
    path = str(tmp_path / "benchmark.lock")
    with pytest.raises(OSError, match=REASON) as refused, lock.locked(path, 0.1):
        pass
    assert refused.value.strerror == f"{REASON}: the node's lock {path} cannot be held"
    assert names(tmp_path) == ["benchmark.lock"]


@pytest.mark.usefixtures("refusing")
@pytest.mark.parametrize(
    "entry", [{"content": "new\n"}, {"state": "link", "target": "elsewhere"}], ids=["file", "link"]
)
def test_a_file_that_cannot_be_replaced_stays_whole_and_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], entry: dict[str, str]
) -> None:
    path = tmp_path / "a.conf"
    if "content" in entry:
        path.write_text("old\n")
    answer = answer_of(config_files, capsys, files=[{"path": str(path), **entry}])
    assert (answer["failed"], answer["msg"].split(". ")[0]) == (True, f"{path}: {REASON}")
    assert [one.name for one in tmp_path.iterdir()] == (["a.conf"] if "content" in entry else [])
