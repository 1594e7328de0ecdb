"""No benchmark outlives its controller, killed at whichever moment of its task: a few kills here,
``python tests/orphans.py`` for many, and by ssh (docs/explain/guarantees.md)."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import loopback_sshd
import orphans
import plays
import pytest
from trueup_node.run import lock, orphan_guard


@pytest.mark.parametrize("start", ["local", "stand_ins"])
def test_nothing_is_left_of_a_benchmark_whose_controller_was_killed(
    start: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # How soon is for a quiet machine to say.
    monkeypatch.setattr(orphans, "LEFT_SECONDS", 60.0)
    done = orphans.attacks(start, 3, moments=(0.0, 0.5, 1.5))
    assert [rest for _, _, _, rest in done if rest] == []
    assert sum(not started for _, started, _, _ in done) > 0


# As one is left that does not see that nobody reads its answer, such as by `podman exec`.
HOLDER = """
import json, sys
from trueup_node.run import lock, process
with lock.locked(sys.argv[1], 5, {"controller": json.loads(sys.argv[2])}):
    print(flush=True)
    process.run(["sleep", "600"], timeout_seconds=600, environment={})
"""


@pytest.mark.parametrize("connection", ["local", "ssh"])
def test_a_holder_whose_controller_is_gone_is_ended_by_the_next_run(connection: str) -> None:
    if connection == "ssh" and loopback_sshd.program() is None:
        pytest.skip("there is no sshd here: install openssh-server")
    child = subprocess.Popen(["true"])
    controller = json.dumps(orphan_guard.of(child.pid))
    child.wait()
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        host = {}
        if connection == "ssh":
            host = stack.enter_context(loopback_sshd.serving({lock.FOLDER: folder}))
        holding = subprocess.Popen(
            [sys.executable, "-c", HOLDER, f"{folder}/benchmark.lock", controller],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert holding.stdout is not None
        holding.stdout.readline()
        attack = orphans.Attack(Path(folder), "local", host, "")
        controlling = attack.begin()
        attack.until("driving")
        # The controller looks for it some times a second.
        said = attack.until_said("whoever started that is gone, and it is ended now")
        controlling.kill()
        controlling.wait()
        attack.over = True
        assert holding.wait() != 0
    assert "node: devito acoustic" in said
    assert f"another benchmark holds this node (process {holding.pid}, since " in said


def test_the_second_run_says_that_the_first_holds_the_node(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        one = orphans.Attack(Path(folder), "local", {}, "")
        first = one.begin()
        one.until("driving")
        files = ("-i", f"{folder}/hosts.json", f"{folder}/play.yml")
        done = plays.playbook(tmp_path, *files, env={lock.FOLDER: folder})
        first.kill()
        first.wait()
        one.over = True
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 2
    assert "of run 20261123T140001Z-cafe holds this node (process" in said
    assert f"started by process {first.pid} on {os.uname().nodename}" in said
