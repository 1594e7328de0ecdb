"""Running a benchmark: it ends in time, says how it ended, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from helpers import parametrized
from trueup_node.run import process

if TYPE_CHECKING:
    from collections.abc import Callable

# A name that a shell hands on.
MARK = "TRUEUP_TEST_LEFTOVER"


def leftovers(mark: str) -> list[str]:
    """Command lines of live processes that carry the mark in their environment."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            environ = Path(f"/proc/{name}/environ").read_bytes()
            state = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if f"{MARK}={mark}".encode() in environ.split(b"\0") and state != "Z":
            found.append(name)
    return found


def until(condition: Callable[[], object]) -> None:
    """Wait until it is so, on a busy machine too; not for ever."""
    deadline = time.monotonic() + 120
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)


def run(script: str, mark: str, timeout_seconds: float = 300) -> process.Completed:
    return process.run(
        ["/bin/sh", "-c", script], timeout_seconds=timeout_seconds, environment={MARK: mark}
    )


def test_output_status_and_environment_come_back() -> None:
    done = process.run(
        ["/bin/sh", "-c", 'echo "$A"; echo oops >&2; exit 3'],
        timeout_seconds=30,
        environment={"A": "b"},
    )
    assert (done.stdout, done.stderr, done.returncode) == ("b\n", "oops\n", 3)
    assert done.failure(30) == f"sh ended with exit status 3 after {done.seconds:.1f} s"
    assert done.tail() == "b\n\noops"


def test_inherited_variables_that_steer_a_benchmark_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("OMP_THREAD_LIMIT", "GOMP_CPU_AFFINITY", "DEVITO_MPI", "OMPI_MCA_btl", "KEPT"):
        monkeypatch.setenv(name, "1")
    done = process.run(["env"], timeout_seconds=30, environment={"OMP_NUM_THREADS": "2"})
    names = {line.partition("=")[0] for line in done.stdout.splitlines()}
    assert {name for name in names if name.startswith(("OMP", "GOMP", "DEVITO", "KEPT"))} == {
        "OMP_NUM_THREADS",
        "KEPT",
    }


@parametrized(("script", "how"))
def test_a_killed_run_says_so(script: str, how: str) -> None:
    assert how in str(run(script, "killed").failure(30))


def test_the_time_limit_ends_the_run_and_its_children() -> None:
    # One child in the group, one that left it, one that lost its parent.
    done = run("sleep 600 & setsid sleep 600 & (sleep 600 &) ; wait", "slow", timeout_seconds=0.5)
    assert done.timed_out
    assert done.failure(0.5) == "sh was ended at its time limit of 0.5 s"
    assert leftovers("slow") == []


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., process.Completed]:
    """A script whose watch sees something once the script has touched its ``$0``."""

    def run(script: str, mark: str, *sees: str, grace: float) -> process.Completed:
        monkeypatch.setattr(process, "_ASK_SECONDS", 0.1)
        monkeypatch.setattr(process, "_GRACE_SECONDS", grace)
        begun = tmp_path / "begun"
        return process.run(
            ["sh", "-c", script, str(begun)],
            timeout_seconds=300,
            environment={MARK: mark},
            watch=lambda: sees if begun.exists() else [],
        )

    return run


def test_one_that_does_not_end_for_its_watch_is_killed(
    watched: Callable[..., process.Completed],
) -> None:
    done = watched("trap '' TERM; touch $0; sleep 600", "stays", "node b is gone", grace=0.3)
    assert (done.reason, done.returncode) == ("node b is gone", -signal.SIGKILL)
    assert leftovers("stays") == []


def test_children_that_outlive_a_good_run_are_ended_too() -> None:
    done = run("setsid sleep 600 & echo done", "daemon")
    assert done.returncode == 0
    assert leftovers("daemon") == []


def test_children_that_ignore_signals_are_ended() -> None:
    run("trap '' TERM INT HUP; sleep 600 & exit 0", "stubborn")
    assert leftovers("stubborn") == []


def test_a_missing_program_is_an_oserror() -> None:
    with pytest.raises(FileNotFoundError):
        process.run(["/nonexistent/program"], timeout_seconds=5, environment={})


ASKER = """
import os, subprocess, sys
# In a session of its own, as Ansible's worker is; under it a module that runs a benchmark.
os.setsid()
subprocess.Popen([sys.executable, "-c", sys.argv[1]])
import time
time.sleep(600)
"""
MODULE = """
import sys
from trueup_node.run import orphan_guard, process
try:
    process.run(["sleep", "600"], timeout_seconds=600, environment={{{mark!r}: "orphan"}})
except process.Orphaned:
    open({path!r}, "w").write("orphaned")
"""


def test_the_run_ends_when_whoever_asked_is_gone(tmp_path: Path) -> None:
    told = tmp_path / "told"
    asker = subprocess.Popen(
        [sys.executable, "-c", ASKER, MODULE.format(mark=MARK, path=str(told))],
        env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)),
    )
    until(lambda: leftovers("orphan"))
    assert len(leftovers("orphan")) == 1
    asker.send_signal(signal.SIGKILL)
    asker.wait()
    until(lambda: told.exists() and told.read_text() and not leftovers("orphan"))
    assert told.read_text() == "orphaned"
    assert leftovers("orphan") == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_module_ends_all_that_it_started(
    tmp_path: Path, number: signal.Signals
) -> None:
    told = tmp_path / "told"
    script = MODULE.format(mark=MARK, path=str(told))
    # A child in a session of its own, as ranks of MPI may be.
    script = script.replace('["sleep", "600"]', '["sh", "-c", "setsid sleep 600 & sleep 600"]')
    # What runs the tests may have had signals ignored.
    script = f"import signal; signal.signal({int(number)}, signal.SIG_DFL)\n{script}"
    module = subprocess.Popen(
        [sys.executable, "-c", script], env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    )
    until(lambda: len(leftovers("orphan")) >= 2)
    module.send_signal(number)
    assert module.wait(timeout=60) == 0
    assert (told.read_text(), leftovers("orphan")) == ("orphaned", [])


@parametrized(("started", "count"), ids=["alone", "sessions"])
def test_the_benchmark_dies_with_a_module_that_is_killed(
    tmp_path: Path, started: str, count: int
) -> None:
    script = MODULE.format(mark=MARK, path=str(tmp_path / "x"))
    script = script.replace('["sleep", "600"]', f'["sh", "-c", "{started}"]')
    module = subprocess.Popen(
        [sys.executable, "-c", script], env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    )
    until(lambda: len(leftovers("orphan")) >= count)
    module.kill()
    module.wait()
    until(lambda: not leftovers("orphan"))
    assert leftovers("orphan") == []
