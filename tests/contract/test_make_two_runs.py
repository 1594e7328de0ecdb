"""Two `make run` of one checkout at once: each reports its own run, to a folder of its own."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from pathlib import Path

import pytest
from helpers import ROOT, TOGETHER, stand_ins

# It names the run that its number says, when the test lets it.
PLAYBOOK = """\
#!/bin/sh
case "$1" in
    site.yml)
        touch "measuring.$NUMBER"
        until [ -e "go.$NUMBER" ]; do sleep 0.02; done
        printf 20261123T14000%s-cafe "$NUMBER" > "$TRUEUP_RUN_FILE"
        # As ssh's connection stays.
        sleep 5 & ;;
esac
"""
MAKEFILE = f"""\
include {ROOT / "Makefile"}
controller-venv:
	@:
report:
	@echo "$$TRUEUP_REPORT_RUN to $${{OUTPUT:-report}}" >> reported
"""


def run(folder: Path, number: int, *arguments: str) -> subprocess.Popen[str]:
    env = {"PATH": os.environ["PATH"], "NUMBER": f"{number}Z", "HOME": str(folder)}
    return subprocess.Popen(["make", "run", *arguments], cwd=folder, env=env, **TOGETHER)


def until(path: Path) -> None:
    deadline = time.monotonic() + 120
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.02)


def test_each_has_its_own_run_and_report(tmp_path: Path) -> None:
    stand_ins(tmp_path, PLAYBOOK, MAKEFILE)
    running = []
    for number, arguments in ((1, ()), (2, ()), (3, ("OUTPUT=mine",))):
        running.append(run(tmp_path, number, *arguments))
        until(tmp_path / f"measuring.{number}Z")
    for number in (3, 2, 1):
        (tmp_path / f"go.{number}Z").touch()
        # Its last words are told; what it leaves behind holds the pipe on.
        assert running[number - 1].wait(timeout=120) == 0
    fourth = run(tmp_path, 4)
    (tmp_path / "go.4Z").touch()
    assert fourth.wait(timeout=120) == 0
    assert (tmp_path / "reported").read_text().splitlines() == [
        "20261123T140003Z-cafe to mine",
        "20261123T140002Z-cafe to report-20261123T140002Z-cafe",
        "20261123T140001Z-cafe to report",
        "20261123T140004Z-cafe to report",
    ]
    assert sorted(path.name for path in (tmp_path / ".cache").iterdir()) == ["report.lock"]


@pytest.mark.parametrize(
    "text", ["$(shell touch canary)", "`touch canary`", "../20261120T091300Z-7c1e"]
)
def test_what_the_playbook_leaves_for_its_run_is_no_command(tmp_path: Path, text: str) -> None:
    named = f'#!/bin/sh\nprintf %s {shlex.quote(text)} > "${{TRUEUP_RUN_FILE:-/dev/null}}"\n'
    makefile = f"include {ROOT / 'Makefile'}\ncontroller-venv:\n\t@:\n"
    stand_ins(tmp_path, named, makefile)
    process = run(tmp_path, 1)
    said, _ = process.communicate(timeout=120)
    assert (process.returncode, "is no run's id" in said) == (2, True), said
    assert not (tmp_path / "canary").exists()
