"""Lets the tests import what Ansible would find by path: modules, plugins and their shared code."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import ansible.module_utils
import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Generator

ROOT = Path(__file__).resolve().parent.parent

# Prices that whoever runs the tests has fetched change no test.
os.environ["TRUEUP_PRICES"] = str(ROOT / ".cache" / "no-prices.csv")

# The day from which ages of prices count: 2026-09-15, when most of the catalog's are recent.
os.environ["SOURCE_DATE_EPOCH"] = "1789473600"

# Locks of this process's tests alone: those of another process may run a benchmark too.
os.environ["TRUEUP_LOCKS"] = tempfile.mkdtemp(prefix="trueup-locks-")

# On a busy machine an example takes as long as it takes.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

# A module says ``from ansible.module_utils.trueup_node import ...``: on a node, the copy that
# Ansible packs.
ansible.module_utils.__path__.append(str(ROOT / "module_utils"))

for _folder in (
    "module_utils",
    "analysis",
    "plugins",
    "plugins/action",
    "plugins/filter",
    "plugins/callback",
    "plugins/doc_fragments",
    "plugins/inventory",
    "tests",
    # One test reads constants of another there.
    "tests/unit",
    "tests/unit/desktops",
    # The last is found first: a module before the action of its name.
    "library",
    "library/sites",
):
    _path = str(ROOT / _folder)
    if _path not in sys.path:
        sys.path.insert(0, _path)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """All that is collected stays: to look through it again and again for what could go took half
    of the collection's time, and each fork of this process copied what such a look touches."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture
def runner(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Any:
    """``runner(module, option=...)`` runs a benchmark module here, with those options unless a
    call gives others."""
    from bench_modules import Runner

    return lambda module, **usual: Runner(module, monkeypatch, capsys, tmp_path, usual)


class Outcome(NamedTuple):
    """What one call of the command ``trueup`` did."""

    status: int
    out: str
    err: str


@pytest.fixture
def call_trueup(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """``call_trueup("list", "results")`` calls ``trueup`` in this process."""
    from trueup_analysis import cli

    def call(*argv: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["trueup", *map(str, argv)])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        written = capsys.readouterr()
        return Outcome(int(stopped.value.code or 0), written.out, written.err)

    return call


@pytest.fixture
def told(call_trueup: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """``told("advise", "eda", status=2)``: what ``trueup`` prints, in a folder of its own, once its
    status is that."""
    monkeypatch.chdir(tmp_path)

    def call(*argv: object, status: int = 0) -> tuple[str, str]:
        ended = call_trueup(*argv)
        assert (ended.status, ended.err if ended.status != status else "") == (status, "")
        return ended.out, ended.err

    return call
