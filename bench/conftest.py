"""The table at the end: every promise with both sides, kept or not.

``make bench ARGS=--record`` also writes the results to bench/recorded.json and from it the table of
docs/dev/measurements.md. Figures that a run cannot measure are printed from there, with their date.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

sys.path[:0] = [str(Path(__file__).parent)]

import measure  # noqa: E402 WHY: found by the path above
import measured  # noqa: E402 WHY: likewise

if TYPE_CHECKING:
    from collections.abc import Mapping

    from measure import Row, Side, Spent

ROWS = pytest.StashKey["list[Row]"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", action="store_true", help="write what is measured to the docs")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[ROWS] = []


class Bench:
    """Measures side by side and keeps the rows."""

    def __init__(self, config: pytest.Config) -> None:
        self.rows = config.stash[ROWS]
        self.reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
        self.capture: Any = config.pluginmanager.get_plugin("capturemanager")

    def say(self, text: str) -> None:
        """A line of progress, whether or not pytest captures."""
        with self.capture.global_and_fixture_disabled():
            self.reporter.ensure_newline()
            self.reporter.write_line(text)

    def measure(
        self, sides: Mapping[str, Side], *, rounds: int = measure.ROUNDS
    ) -> dict[str, list[Spent]]:
        """The cost of each side in each of the rounds."""
        return measure.interleaved(sides, self.say, rounds)

    def judge(self, *rows: Row) -> None:
        """Keep the rows for the table; one that is worse than promised fails the test."""
        self.rows += rows
        worse = [row for row in rows if not row.kept]
        assert not worse, f"worse than promised:\n{measure.table(worse)}"

    def compare(
        self, figure: str, ours: Side, beside: str, theirs: Side, **promised: Any
    ) -> dict[str, list[Spent]]:
        """One row of two sides; ``promised`` as :func:`measure.row` has it."""
        by_side = self.measure({figure: ours, beside: theirs})
        self.judge(measure.row(figure, beside, by_side[figure], by_side[beside], **promised))
        return by_side

    def not_measured(self, reason: str, *figures: str) -> None:
        """Show the recorded rows of the figures, and skip the test."""
        self.rows += [
            replace(recorded.row, recorded=recorded.date)
            for recorded in measured.read()
            if recorded.row.figure in figures
        ]
        pytest.skip(reason)


@pytest.fixture(scope="session", name="bench")
def _bench(request: pytest.FixtureRequest) -> Bench:
    return Bench(request.config)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    rows = config.stash[ROWS]
    if not rows:
        return
    terminalreporter.section("promises about speed: ratio = ours / beside, in one run")
    terminalreporter.write_line(measure.table(rows))
    if config.getoption("--record"):
        measured.write(rows)
        terminalreporter.write_line(f"recorded in {measured.FILE} and {measured.PAGE}")
