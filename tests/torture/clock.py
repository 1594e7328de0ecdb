"""The wall clock a day back or on: in the middle of a run, between a killed run and the one that
goes on, and between two runs. ``clock.c`` moves it for Ansible, the module and what these start;
the times of files are the machine's own and stay.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import orphans
from trueup_node import record as records

from torture import Tally, anywhere

if TYPE_CHECKING:
    from collections.abc import Callable

DAY_SECONDS = 86400
# A case of the stand-in takes half a second; a day of a moved clock would be in none of them.
_MOST_SECONDS = 60.0
_SOURCE = Path(__file__).with_name("clock.c")
_NEW_RUN = "from trueup_node.record import run_of; print(run_of('/nonexistent'))"


def moves(count: int, seed: int) -> Tally:
    """``count`` times each way of moving it in turn, back and on by turns."""
    tally = Tally()
    if not shutil.which("gcc"):
        tally.skipped = "gcc, which builds clock.c, is not here"
        return tally
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="clock", dir="/tmp") as name:
        run = _Run(Path(name))
        begun = time.monotonic()
        run.ended(run.begin())
        span = time.monotonic() - begun
        ways: tuple[Callable[[int, float], list[str]], ...] = (run.amid, run.resumed, run.between)
        for number in range(count):
            way = ways[number % len(ways)]
            seconds = DAY_SECONDS * (1 if number // len(ways) % 2 else -1)
            run.forget()
            run.move(0)
            if wrong := way(seconds, chance.uniform(0.1, 0.9) * span):
                tally.lose(f"{way.__name__} {seconds:+} s, {number} of {seed}: {'; '.join(wrong)}")
            else:
                tally.survived()
    tally.figures.append("a third each: amid a run, before it goes on, between two runs")
    return tally


class _Run(anywhere._Attack):
    """A run whose clock is moved."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, None)
        self.library, self.clock = folder / "clock.so", folder / "clock"
        build = ["gcc", "-shared", "-fPIC", "-O1", "-o", str(self.library), str(_SOURCE)]
        subprocess.run(build, check=True)
        self.move(0)

    def move(self, seconds: int) -> None:
        beside = self.clock.with_suffix(".new")
        beside.write_text(str(seconds))
        beside.replace(self.clock)

    def moved(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self.library), "TRUEUP_CLOCK": str(self.clock)}

    def begin(self) -> subprocess.Popen[bytes]:
        with mock.patch.dict(os.environ, self.moved()):
            return super().begin()

    def amid(self, seconds: int, delay: float) -> list[str]:
        """It ends well, with every case once."""
        controller = self.begin()
        time.sleep(delay)
        self.move(seconds)
        wrong = ["it failed: " + self.said()[-800:]] if controller.wait(120) else []
        if len(self._ok()) != len(anywhere._CASES):
            wrong.append(f"recorded: {sorted(self._ok())}")
        return wrong + self._lost() + self._durations()

    def resumed(self, seconds: int, delay: float) -> list[str]:
        """It is killed, and goes on a day earlier or later with what it lacks alone."""
        controller = self.begin()
        time.sleep(delay)
        os.kill(controller.pid, signal.SIGKILL)
        controller.wait()
        deadline = time.monotonic() + 2 * orphans.LEFT_SECONDS
        while self._left(controller.pid) and time.monotonic() < deadline:
            time.sleep(0.1)
        self.move(seconds)
        return self._resumed() + self._durations()

    def between(self, seconds: int, _delay: float) -> list[str]:
        """The run that begins second is the last one, whatever its id says."""
        made = []
        for offset in (0, seconds):
            self.move(offset)
            argv = [sys.executable, "-c", _NEW_RUN]
            environment = {**os.environ, **self.moved(), "PYTHONPATH": "module_utils"}
            told = subprocess.check_output(argv, env=environment, cwd=orphans.ROOT, text=True)
            run_id = told.strip()
            made.append(run_id)
            self.play(run_id)
            self.ended(self.begin())
        self.play(anywhere.RUN)
        wrong = []
        if (made[0] < made[1]) != (seconds > 0):
            wrong.append(f"the clock was not moved: {made}")
        if list(records.run_counts(str(self.results))) != made:
            wrong.append(f"in the order {records.run_counts(str(self.results))}, not {made}")
        if records.run_of(str(self.results), "last") != made[1]:
            wrong.append("the last run is not the one that began last")
        argv = [sys.executable, "-m", "trueup_analysis", "list", str(self.results), "--all"]
        environment = {**os.environ, **self.moved(), "PYTHONPATH": "module_utils:analysis"}
        listed = subprocess.run(
            argv, env=environment, cwd=orphans.ROOT, capture_output=True, text=True, check=False
        )
        if listed.returncode or "Traceback" in listed.stderr:
            wrong.append(f"trueup list: {listed.stderr[-300:]}")
        return wrong

    def play(self, run_id: str) -> None:
        """The next run begins as a play does, which gives it its count."""
        path = self.folder / "play.yml"
        plays: list[dict[str, Any]] = json.loads(path.read_text())
        plays[0]["vars"].pop("trueup_run_id", None)
        tasks = [one for one in plays[0]["tasks"] if "set_fact" not in one]
        plays[0]["tasks"] = [{"set_fact": {"trueup_run_id": run_id}}, *tasks]
        path.write_text(json.dumps(plays))

    def _durations(self) -> list[str]:
        found = [
            record["duration_seconds"]
            for _, record, _ in records.read_records(str(self.results / anywhere.RUN))
            if record
        ]
        wrong = [one for one in found if not 0 <= one <= _MOST_SECONDS]
        return [f"durations {wrong}"] if wrong else []
