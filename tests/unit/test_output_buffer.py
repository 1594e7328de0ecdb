"""What is kept of an output: the whole, or its beginning and end and what is missing between."""

from __future__ import annotations

import gc
import hashlib
import io
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from trueup_node.run import output_buffer, process

MODULE_UTILS = Path(__file__).resolve().parents[2] / "module_utils"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for room in (output_buffer, process):
        monkeypatch.setattr(room, "MOST_BYTES", 1000)
    monkeypatch.setattr(output_buffer, "SHOWN", 100)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("size", [0, 1, 999, 1000])
def test_up_to_the_limit_all_is_kept(size: int) -> None:
    found = output_buffer.of_file(io.BytesIO(b"x" * size))
    assert found == output_buffer.BufferedOutput("x" * size, size, cut=False)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("chunk", [1, 7, 333, 5000])
def test_of_more_the_middle_is_dropped_and_said(
    monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(output_buffer, "_CHUNK", chunk)
    lines = [f"line {number}\n" for number in range(400)]
    whole = "".join(lines).encode()
    found = output_buffer.of_file(io.BytesIO(whole))
    begin, _, rest = found.text.partition("\n[trueup: ")
    said, _, end = rest.partition("]\n")
    # Whole lines of it.
    first = [f"line {number}" for number in range(begin.count("\n") + 1)]
    assert (begin, end) == ("\n".join(first), "".join(lines[-end.count("\n") :]))
    assert (80 < len(begin) <= 100, 80 < len(end) <= 100) == (True, True)
    assert said == (
        f"the middle is left out; the whole has {len(whole)}"
        f" bytes, SHA-256 {hashlib.sha256(whole).hexdigest()}"
    )
    assert (found.size, found.cut) == (len(whole), True)


@pytest.mark.usefixtures("small")
def test_a_run_whose_output_is_cut_has_failed() -> None:
    script = "head -c 1001 /dev/zero; head -c 3000 /dev/zero >&2"
    done = process.run(["sh", "-c", script], timeout_seconds=60, environment={})
    out = "sh printed 1001 bytes on its standard output: more than 0 MiB are not read"
    err = "sh printed 3000 bytes on its standard error: more than 0 MiB are not read"
    assert (done.returncode, done.cut) == (0, (out, err))
    assert done.failure(60) == f"{out}; {err}"
    exact = process.run(["head", "-c", "1000", "/dev/zero"], timeout_seconds=60, environment={})
    assert (exact.failure(60), len(exact.stdout)) == (None, 1000)


@pytest.mark.usefixtures("small")
def test_what_ran_beside_is_cut_likewise(tmp_path: Path) -> None:
    printed = tmp_path / "printed"
    beside = ["sh", "-c", f"yes | head -c 100000; touch {printed}; sleep 60"]
    until = ["sh", "-c", f"until [ -e {printed} ]; do sleep 0.05; done"]
    done = process.run(until, timeout_seconds=60, environment={}, beside=beside)
    assert [text.partition(" bytes")[0][:11] for text in done.cut] == ["sh printed "]


def test_a_pipe_that_somebody_else_holds_is_not_waited_for() -> None:
    pipe = output_buffer.Pipe()
    held = os.dup(pipe.end.fileno())
    os.write(held, b"said")
    pipe.start()
    begun = time.monotonic()
    assert (pipe.close(), time.monotonic() - begun < 30) == (
        output_buffer.BufferedOutput("said", 4),
        True,
    )
    os.close(held)


class Interrupted(Exception):
    pass


@pytest.mark.parametrize("when", ["before", "while", "after"])
def test_a_signal_while_it_is_started_leaves_nothing_open(
    monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    def started(thread: threading.Thread) -> None:
        if when != "before":
            start(thread)
        raise Interrupted

    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    pipe, start = output_buffer.Pipe(), threading.Thread.start
    if when == "after":
        pipe.start()
    else:
        monkeypatch.setattr(threading.Thread, "start", started)
        with pytest.raises(Interrupted):
            pipe.start()
    pipe.drop()
    pipe.drop()
    del pipe
    deadline = time.monotonic() + 30
    while len(os.listdir("/proc/self/fd")) > before and time.monotonic() < deadline:
        time.sleep(0.02)
        gc.collect()
    # Files of tests before may close meanwhile.
    assert max(len(os.listdir("/proc/self/fd")), before) == before


def test_a_full_disk_stops_no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_self: output_buffer.Keeper, _chunk: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(output_buffer.Keeper, "take", full)
    said = f"what it prints cannot be kept in {tempfile.gettempdir()}: No space left on device"
    with pytest.raises(OSError, match=said):
        process.run(["head", "-c", "9000000", "/dev/zero"], timeout_seconds=60, environment={})


ENDLESS = """
from trueup_node.run import output_buffer, process
# A busy machine prints less than the usual limit in that time.
output_buffer.MOST_BYTES = process.MOST_BYTES = 16 << 20
done = process.run(["yes", "y" * 999], timeout_seconds=3, environment={})
# Its own peak: what getrusage says is never below that of whoever started it.
used = open("/proc/self/status").read().partition("VmHWM:")[2].split()[0]
print(used, len(done.stdout), done.timed_out, done.failure(3))
"""


def test_a_program_that_prints_without_end_fills_no_memory() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ENDLESS],
        env={**os.environ, "PYTHONPATH": str(MODULE_UTILS)},
        capture_output=True,
        text=True,
        check=True,
    )
    used, length, timed_out, why = done.stdout.split(" ", 3)
    assert int(used) < 96 * 1024  # KiB; Python itself takes some 20 MiB
    assert (int(length) < 3 << 20, timed_out) == (True, "True")
    assert why.startswith("yes was ended at its time limit of 3 s")


def test_what_is_written_just_before_the_end_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = output_buffer.Pipe()
    program = os.dup(pipe.end.fileno())  # somebody still holds it, so that there is no end of file
    look = output_buffer.select.select

    def late(*arguments: object) -> object:
        """The reader looks; then the program writes and ends."""
        monkeypatch.setattr(output_buffer.select, "select", look)
        os.write(program, b"7\n")
        pipe._stopped.set()
        return [], [], []

    monkeypatch.setattr(output_buffer.select, "select", late)
    pipe.start()
    assert pipe.close().text == "7\n"
    os.close(program)
