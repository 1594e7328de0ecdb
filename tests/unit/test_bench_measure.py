"""How bench/ measures, and that the page of speeds shows what was recorded."""

from __future__ import annotations

import sys

import pytest
from helpers import ROOT

sys.path.insert(0, str(ROOT / "bench"))

import measured
from measure import Spent, interleaved, python, row, spend


def test_memory_is_the_childs_own() -> None:
    mine = bytearray(300_000_000)
    small = spend(python("pass"))
    large = spend(python("bytearray(200_000_000)"))
    assert len(mine) == 300_000_000
    assert small.megabytes < 100 < 200 < large.megabytes < 300


def test_cpu_is_of_all_processes_that_a_command_waited_for() -> None:
    busy = "import time\nwhile time.process_time() < 0.3: pass"
    again = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {busy!r}])"
    found = spend(python(again))
    assert 0.3 < found.cpu_seconds < 3
    assert found.wall_seconds > 0.3


def test_a_command_that_fails_is_no_figure() -> None:
    with pytest.raises(AssertionError, match="ended with 3: gone"):
        spend(python("import sys; sys.stderr.write('gone'); sys.exit(3)"))
    assert spend(python("raise SystemExit(3)"), statuses=(3,)).status == 3


def test_sides_run_in_turn_and_each_step_is_said() -> None:
    order: list[str] = []
    said: list[str] = []

    def side(name: str) -> Spent:
        order.append(name)
        return Spent(1.0)

    found = interleaved({name: lambda name=name: side(name) for name in "ab"}, said.append, 2)
    assert order == ["a", "b", "a", "b"]
    assert [len(each) for each in found.values()] == [2, 2]
    assert said[2] == "  round 2 of 2: a: 1 s of CPU, 0 s, 0 MB"


@pytest.mark.parametrize(
    ("promise", "most", "verdict"),
    [(0.5, None, "ok"), (0.49, None, "WORSE"), (0.5, 90, "ok"), (0.5, 89, "WORSE")],
)
def test_a_row_has_the_median_ratio_and_the_most_memory(
    promise: float, most: int | None, verdict: str
) -> None:
    ours = [Spent(1.0, megabytes=80), Spent(9.0, megabytes=90), Spent(2.0, megabytes=70)]
    theirs = [Spent(2.0), Spent(10.0), Spent(8.0)]
    made = row("ours", "theirs", ours, theirs, promise=promise, most_megabytes=most)
    assert (made.ours, made.theirs, made.ratio, made.megabytes) == (2.0, 8.0, 0.5, 90)
    assert (made.verdict, made.kept) == (verdict, verdict == "ok")


def test_the_page_shows_what_was_recorded() -> None:
    rows = measured.read()
    shown = measured.PAGE.read_text(encoding="utf-8").split(measured.BEGIN)[1]
    assert shown.split(measured.END)[0] == measured.markdown(rows)
    assert [one.row.figure for one in rows if not one.row.kept] == []
