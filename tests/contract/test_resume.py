"""A controller killed in the middle of a sweep loses nothing, leaves nothing, and resumes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from plays import warm
from trueup_node.node.topology import read_topology

ROOT = Path(__file__).parent.parent.parent
# Bytes that a case moves for each CPU: seconds, long enough to be killed in. How many repeats that
# takes goes by the machine's caches, whose size the arrays follow: 480 MiB of L3 or 32 MiB.
CASE_BYTES_A_CPU = 2e10
ARRAYS_A_REPEAT = 10
PATIENCE_SECONDS = 900


def repeats() -> int:
    """How often the kernels are to run in a case."""
    caches = read_topology("/sys").last_level_cache_bytes or 2**25
    moved = CASE_BYTES_A_CPU * len(os.sched_getaffinity(0))
    return max(3, round(moved / (4 * caches * ARRAYS_A_REPEAT)))


def command(tmp_path: Path, **extra: str) -> list[str]:
    variables = {
        "trueup_benchmarks": ["stream"],
        "stream_prefix": str(tmp_path / "stream"),
        "stream_stores": ["streaming", "regular"],
        "stream_repeats": repeats(),
        "trueup_metadata_url": "http://127.0.0.1:9/",
        **extra,
    }
    playbook = Path(sys.executable).with_name("ansible-playbook")
    return [str(playbook), "site.yml", "-e", json.dumps(variables)]


def records(tmp_path: Path) -> dict[str, float]:
    """Case to the time at which its record was written."""
    return {
        json.loads(path.read_text())["case"]: path.stat().st_mtime
        for path in (tmp_path / "results").glob("*/stream-*.json")
    }


def kernels(tmp_path: Path) -> list[str]:
    """Process ids of this test's benchmark."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                command_line = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if str(tmp_path / "stream" / "stream_kernel").encode() in command_line.split(b"\0")[0]:
                found.append(folder.name)
    return found


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"waited {PATIENCE_SECONDS} s in vain")
        time.sleep(0.1)


def test_kill_in_the_middle_then_resume(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    environment = {
        **os.environ,
        "TRUEUP_RESULTS": str(tmp_path / "results"),
        "LC_ALL": "C.UTF-8",
        # Where a benchmark's lock is: the tests of another process run one too.
        "TMPDIR": str(tmp_path / "tmp"),
    }
    log = (tmp_path / "first.log").open("w")
    first = subprocess.Popen(
        command(tmp_path), cwd=ROOT, env=warm(environment), stdout=log, stderr=subprocess.STDOUT
    )
    try:
        wait_for(lambda: len(records(tmp_path)) == 1 and kernels(tmp_path))
    finally:
        first.send_signal(signal.SIGKILL)
        first.wait()
    wait_for(lambda: not kernels(tmp_path))
    kept = records(tmp_path)
    assert sorted(kept) == [f"streaming-t{len(os.sched_getaffinity(0))}-core"]

    second = subprocess.run(
        command(tmp_path, trueup_resume="last"),
        cwd=ROOT,
        env=warm(environment),
        capture_output=True,
        text=True,
        check=False,
    )
    assert second.returncode == 0
    after = records(tmp_path)
    assert len(after) == 2
    # What was recorded is still the file that it was: not lost, not measured again.
    assert {case: after[case] for case in kept} == kept
    assert len(list((tmp_path / "results").glob("*/stream-*.json"))) == 2
    assert len(list((tmp_path / "results").iterdir())) == 1
    manifest = json.loads(next((tmp_path / "results").glob("*/run.json")).read_text())
    assert manifest["hosts"]["this-machine"]["failed"] == 0
