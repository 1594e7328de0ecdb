"""Who waits for a benchmark: the reader of its answer, its controller, and their ancestors."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from trueup_node.run import orphan_guard, process

if TYPE_CHECKING:
    from collections.abc import Iterator

GONE = "the process that asked for this run is gone"


@pytest.fixture
def ended() -> dict[str, Any]:
    """A process that is no more."""
    child = subprocess.Popen(["sleep", "600"])
    who = orphan_guard.of(child.pid)
    child.kill()
    child.wait()
    return who


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, int]]:
    """A pipe in the place of standard output."""
    reader, writer = os.pipe()
    monkeypatch.setattr(orphan_guard, "_ANSWER", writer)
    monkeypatch.setattr(orphan_guard, "_asker", None)
    yield reader, writer
    for handle in (reader, writer):
        with contextlib.suppress(OSError):
            os.close(handle)


def test_a_process_is_told_from_others(ended: dict[str, Any]) -> None:
    me = orphan_guard.of(os.getpid())
    assert (orphan_guard.gone(me), orphan_guard.gone(ended)) == (False, True)
    # Its number has another one now.
    assert orphan_guard.gone({**me, "started": me["started"] - 1}) is True


@pytest.mark.parametrize("other", [{"boot": "another machine"}, {"pids": "pid:[1]"}, {"boot": ""}])
def test_of_another_machine_nothing_is_known(ended: dict[str, Any], other: dict[str, str]) -> None:
    assert orphan_guard.gone({**ended, **other}) is None
    assert orphan_guard.gone({}) is None


def test_a_zombie_has_ended() -> None:
    child = subprocess.Popen(["sleep", "600"])
    who = orphan_guard.of(child.pid)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert orphan_guard.gone(who) is True
    child.wait()


def test_the_lineage_of_this_process_holds() -> None:
    found = orphan_guard.Lineage()
    found.check()
    assert os.getpid() in found._parents
    found._parents[os.getpid()] = 0
    with pytest.raises(orphan_guard.Orphaned, match=GONE):
        found.check()


def test_an_answer_that_is_read_gets_an_empty_line(answer: tuple[int, int]) -> None:
    orphan_guard.answers({})
    orphan_guard.Lineage().check()
    assert os.read(answer[0], 10) == b"\n"


def test_an_answer_that_nobody_reads_ends_the_run_before_it_begins(
    answer: tuple[int, int], tmp_path: Path
) -> None:
    os.close(answer[0])
    orphan_guard.answers({})
    with pytest.raises(orphan_guard.Orphaned, match=GONE):
        process.run(["touch", f"{tmp_path}/run"], timeout_seconds=60, environment={})
    assert list(tmp_path.iterdir()) == []


def test_a_full_answer_keeps_nobody_waiting(answer: tuple[int, int]) -> None:
    os.set_blocking(answer[1], False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(answer[1], b"x" * 4096)
    os.set_blocking(answer[1], True)
    orphan_guard.answers({})
    orphan_guard.Lineage().check()
    os.set_blocking(answer[0], False)
    assert b"\n" not in os.read(answer[0], 2**20)


def test_a_file_is_no_answer(answer: tuple[int, int], tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as out:
        os.dup2(out.fileno(), answer[1])
        orphan_guard.answers({})
        orphan_guard.Lineage().check()
    assert (tmp_path / "out").read_text() == ""


def test_a_controller_that_is_gone_ends_the_run(
    answer: tuple[int, int], ended: dict[str, Any]
) -> None:
    orphan_guard.answers(ended)
    with pytest.raises(orphan_guard.Orphaned, match=GONE):
        orphan_guard.Lineage().check()
    # What puts a node back, or cancels a job, must not be ended by that.
    with orphan_guard.regardless():
        orphan_guard.Lineage().check()
    assert os.get_blocking(answer[0]) is True


WORKER = """
import multiprocessing, os, signal, sys, time
from trueup_node.run import orphan_guard
def work():
    try:
        print(os.getpid(), orphan_guard.follow()["pid"], flush=True)
    except orphan_guard.Orphaned as error:
        print(error, flush=True)
        return
    time.sleep(600)
def late():
    while os.getppid() == multiprocessing.parent_process().pid:
        time.sleep(0.01)
    work()
multiprocessing.get_context("fork").Process(target=WORK).start()
time.sleep(600)
"""


@pytest.mark.parametrize("late", [False, True])
def test_a_worker_ends_with_its_controller(late: bool) -> None:
    script = WORKER.replace("WORK)", "late)" if late else "work)")
    controller = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)),
    )
    assert controller.stdout is not None
    if late:
        children = Path(f"/proc/{controller.pid}/task/{controller.pid}/children")
        while not children.read_text():
            continue
        controller.kill()
        assert controller.stdout.read().decode().strip() == GONE
    else:
        worker, asked = map(int, controller.stdout.readline().split())
        controller.send_signal(signal.SIGKILL)
        assert asked == controller.pid
        # The end of the worker closes the pipe.
        assert controller.stdout.read() == b""
        assert orphan_guard.gone({**orphan_guard.of(worker), "started": 1}) is True
    controller.wait()
