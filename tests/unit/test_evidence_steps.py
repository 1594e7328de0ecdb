"""The module evidence_steps: real commands, and the node is put back whatever they come to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import evidence_steps
import pytest
from helpers import answer_of, parametrized
from trueup_node.run import lock, process, steps

pytestmark = pytest.mark.slow

IDLE = ""


def a_step(*argv: str, seconds: int = 20) -> dict[str, Any]:
    return {"run": list(argv), "seconds": seconds}


def shell(text: str, seconds: int = 20) -> dict[str, Any]:
    return a_step("sh", "-c", text, seconds=seconds)


@pytest.fixture(name="state")
def _state(tmp_path: Path) -> Path:
    """What steps change: a file that holds `before`."""
    path = tmp_path / "state"
    path.write_text("before")
    return path


def perform(state: Path, *given: dict[str, Any], busy: Any = lambda: IDLE) -> steps.Done:
    """First the file is changed, last it is put back by the second of two commands."""
    change = shell(f"printf after > {state}; echo changed")
    back = [a_step("false"), shell(f"printf before > {state}")]
    return steps.perform([change, *given], back, busy)


@parametrized(("step", "status", "said"))
def test_a_step_that_fails_is_the_last_and_the_node_is_put_back(
    state: Path, step: dict[str, Any], status: int | None, said: str
) -> None:
    never = shell(f"printf never > {state}.never")
    done = perform(state, step, never)
    assert [one["status"] for one in done.steps] == [0, status]
    assert said in done.steps[1]["note"]
    assert (state.read_text(), Path(f"{state}.never").exists()) == ("before", False)


def test_nothing_is_begun_on_a_node_at_work(state: Path) -> None:
    done = perform(state, busy=lambda: "a job of Slurm, process 7")
    assert (done.steps, done.restored) == ([], [])
    assert (
        done.refused
        == "this node is at work (a job of Slurm, process 7): repeat it when it is idle"
    )
    assert state.read_text() == "before"


def test_who_goes_away_while_the_node_is_put_back_does_not_prevent_it(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = iter([False, True, False, True, True])

    def run(*given: Any, **named: Any) -> process.Completed:
        if next(gone, False):
            raise process.Orphaned("the process that asked for this run is gone")
        return process.run(*given, **named)

    monkeypatch.setattr(steps, "run", run)
    done = perform(state, shell("echo never"))
    assert done.refused == "the process that asked for this run is gone"
    assert [one["note"] for one in done.steps] == [None, "it was stopped"]
    assert ([one["status"] for one in done.restored], state.read_text()) == ([1, 0], "before")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_module_that_is_ended_puts_the_node_back(state: Path, number: int) -> None:
    asked = [shell(f"printf after > {state}; sleep 60", seconds=90)]
    # A second signal while the node is put back changes nothing.
    back = [shell(f"printf back > {state}; sleep 1; printf before > {state}")]
    program = (
        "import json, sys; from trueup_node.run import steps;"
        f"done = steps.perform({asked!r}, {back!r}, lambda: '');"
        "print(json.dumps([done.refused, len(done.restored)]))"
    )
    root = Path(__file__).parents[2]
    path = os.pathsep.join([str(root / "module_utils")])
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as child:
        for text in ("after", "back"):
            limit = time.monotonic() + 60
            while state.read_text() != text and time.monotonic() < limit:
                time.sleep(0.05)
            child.send_signal(number)
        said, _ = child.communicate(timeout=60)
    refused, restored = json.loads(said)
    assert (state.read_text(), restored) == ("before", 1)
    assert refused == f"it was ended by {signal.Signals(number).name}"


# ---- who works on a node ------------------------------------------------------------------------


class Asked:
    """An AnsibleModule of which only programs are looked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get_bin_path(self, name: str, opt_dirs: Any = None) -> str | None:
        path = self._folder / name
        return str(path) if path.exists() else None

    def run_command(self, argv: list[str], **_: Any) -> tuple[int, str, str]:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr


@parametrized(("script", "said"))
def test_processes_on_gpus(tmp_path: Path, script: str | None, said: str) -> None:
    if script:
        program = tmp_path / "nvidia-smi"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        (tmp_path / "timeout").symlink_to("/usr/bin/timeout")
    (tmp_path / "proc").mkdir()
    found = steps.at_work(Asked(tmp_path), str(tmp_path / "proc"))
    assert (said in found, bool(found)) == (True, bool(said))


def test_a_real_process_of_that_name_is_a_job(tmp_path: Path) -> None:
    program = tmp_path / "slurmstepd"
    program.write_bytes(Path("/bin/sleep").read_bytes())
    program.chmod(0o755)
    with subprocess.Popen([program, "60"]) as child:
        limit = time.monotonic() + 20
        found = ""
        while not found and time.monotonic() < limit:
            found = steps.at_work(Asked(tmp_path))
        child.kill()
    assert str(child.pid) in found


# ---- the module ---------------------------------------------------------------------------------


def module(capsys: pytest.CaptureFixture[str], **given: Any) -> dict[str, Any]:
    found = answer_of(evidence_steps, capsys, **given)
    return {name: found[name] for name in ("changed", "refused", "steps", "restored")}


def test_the_module(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # A job of this machine's own is none of the test's.
    monkeypatch.setattr(evidence_steps.steps, "at_work", lambda *_: "")
    monkeypatch.setattr(evidence_steps.lock, "node_lock", lambda: str(tmp_path / "lock"))
    one = {"command": "true", "status": 0, "note": None, "output": ""}
    assert module(capsys, steps=[a_step("true")], restore=[a_step("true")]) == {
        "changed": True,
        "refused": None,
        "steps": [one],
        "restored": [one],
    }


def test_nothing_is_begun_while_a_benchmark_runs(
    capsys: pytest.CaptureFixture[str], state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = state.with_name("lock")
    monkeypatch.setattr(evidence_steps.lock, "node_lock", lambda: str(path))
    change = shell(f"printf after > {state}")
    with lock.locked(str(path), timeout_seconds=1):
        found = module(capsys, steps=[change], restore=[change])
    assert (found["changed"], found["steps"], state.read_text()) == (False, [], "before")
    assert found["refused"].startswith("another benchmark holds this node (process ")


def test_check_mode_changes_nothing(capsys: pytest.CaptureFixture[str], state: Path) -> None:
    change = shell(f"printf after > {state}")
    found = module(capsys, steps=[change], restore=[change], _ansible_check_mode=True)
    assert found == {
        "changed": False,
        "refused": "check mode changes nothing",
        "steps": [],
        "restored": [],
    }
    assert state.read_text() == "before"
