"""Runs the tests of a module that is marked ``own_process`` in a Python of their own.

A fork copies what the process holds: one that has collected all tests holds 380 MB, and a fork of
it takes 40 ms of processor time in place of 2. Where the module runs alone, or without
pytest-xdist, its tests run in the process of pytest as all others do.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

# Where the tests of such a process tell what came out.
_REPORTS = "TRUEUP_TEST_REPORTS"


def register(config: pytest.Config) -> None:
    """Let a worker of pytest-xdist run such tests, and their process tell of them."""
    if _REPORTS in os.environ:
        config.pluginmanager.register(_Told(config, Path(os.environ.pop(_REPORTS))))
    elif hasattr(config, "workerinput"):
        config.pluginmanager.register(_Apart(config))


class _Told:
    """Writes each report."""

    def __init__(self, config: pytest.Config, path: Path) -> None:
        self._config, self._path = config, path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        told = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        with self._path.open("ab") as reports:
            # JSON has no tuples, and a skip is told as one.
            pickle.dump(told, reports)


class _Apart:
    """Runs a module's tests when the first of them is due."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._reports: dict[str, list[Any]] = {}
        self._ran: set[Path] = set()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        if item.get_closest_marker("own_process") is None:
            return None
        if item.path not in self._ran:
            self._ran.add(item.path)
            self._run([one.nodeid for one in item.session.items if one.path == item.path])
        reports = self._reports.pop(item.nodeid, [])
        if not reports or reports[-1].when != "teardown":
            # Its process has ended before it or in it: here it is seen why.
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def _run(self, tests: list[str]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            told = Path(folder) / "reports"
            told.touch()
            subprocess.run(
                [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests],
                cwd=self._config.rootpath,
                env={**os.environ, _REPORTS: str(told)},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
            )
            for data in _written(told):
                report = self._config.hook.pytest_report_from_serializable(
                    config=self._config, data=data
                )
                self._reports.setdefault(report.nodeid, []).append(report)


def _written(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as reports, contextlib.suppress(EOFError):
        while True:
            yield pickle.load(reports)
