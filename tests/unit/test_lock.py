"""A node is held by one benchmark, in a folder that nobody else can write."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from trueup_node.run import lock, orphan_guard

WHO = {"run_id": "20261123T140001Z-cafe", "benchmark": "stream", "case": "streaming-t2"}


def path_of(folder: Path) -> str:
    return str(folder / "benchmark.lock")


def test_two_benchmarks_never_run_at_once_and_the_second_says_who_runs(tmp_path: Path) -> None:
    path = path_of(tmp_path)
    controller = {"pid": 7, "host": "head"}
    with lock.locked(path, 0.1, {**WHO, "controller": controller}):
        with pytest.raises(lock.Taken) as refused:
            lock.locked(path, 0.1).__enter__()
        holder = json.loads((tmp_path / "benchmark.json").read_text())
    assert re.fullmatch(
        rf"stream streaming-t2 of run 20261123T140001Z-cafe holds this node \(process"
        rf" {os.getpid()}, since \d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\dZ, started by process 7 on head,"
        rf" lock {re.escape(path)}\)",
        str(refused.value),
    )
    assert refused.value.holder == holder
    assert holder["process"] == orphan_guard.of(os.getpid())
    with lock.locked(path, 0.1):
        assert sorted(os.listdir(tmp_path)) == ["benchmark.json", "benchmark.lock"]
    assert os.listdir(tmp_path) == ["benchmark.lock"]


def test_a_holder_that_says_nothing_is_named_so(tmp_path: Path) -> None:
    path = path_of(tmp_path)
    with lock.locked(path, 0.1):
        (tmp_path / "benchmark.json").write_text("[" * 100_000)
        with pytest.raises(lock.Taken, match="another benchmark holds this node"):
            lock.locked(path, 0.1).__enter__()


HOLDER = """
import json, sys, time
from trueup_node.run import lock, process
with lock.locked(sys.argv[1], 5, {"controller": json.loads(sys.argv[2])}):
    print(flush=True)
    try:
        process.run(["sleep", "600"], timeout_seconds=600, environment={})
    except process.Orphaned as error:
        print(error)
"""


def test_a_holder_is_ended_where_it_is_the_one_that_was_meant(tmp_path: Path) -> None:
    path = path_of(tmp_path)
    program = "import signal; signal.signal(signal.SIGTERM, signal.SIG_DFL)\n" + HOLDER
    holding = subprocess.Popen(
        [sys.executable, "-c", program, path, "{}"],
        stdout=subprocess.PIPE,
        env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)),
    )
    assert holding.stdout is not None
    holding.stdout.readline()
    with pytest.raises(lock.Taken) as refused:
        lock.locked(path, 0.1).__enter__()
    holder = refused.value.holder
    other: dict[str, Any] = {**holder, "process": {**holder["process"], "started": 1}}
    with pytest.raises(lock.Taken):
        lock.locked(path, 0.1, end=other).__enter__()
    with lock.locked(path, 0.1, end=holder):
        told = json.loads((tmp_path / "benchmark.json").read_text())
        assert told["process"]["pid"] == os.getpid()
    assert holding.stdout.read().decode().strip() == "interrupted by SIGTERM"
    holding.wait()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("kept")
    for name in ("benchmark.lock", "benchmark.json"):
        (tmp_path / name).symlink_to(precious)
    with pytest.raises(OSError, match="symbolic links"):
        lock.locked(path_of(tmp_path), 0.1).__enter__()
    (tmp_path / "benchmark.lock").unlink()
    with lock.locked(path_of(tmp_path), 0.1):
        assert (tmp_path / "benchmark.json").is_symlink() is False
    assert precious.read_text() == "kept"


def _link(folder: Path) -> None:
    folder.symlink_to("/")


def _open(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)


def _foreign(folder: Path) -> None:
    folder.mkdir()
    os.chown(folder, 12345, 12345)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (_link, "is no folder: remove it"),
        (_open, "can be written by others: remove it"),
        pytest.param(
            _foreign,
            "belongs to user 12345: remove it",
            marks=pytest.mark.skipif(os.geteuid() != 0, reason="root alone gives files away"),
        ),
    ],
)
def test_a_folder_that_others_control_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Any, why: str
) -> None:
    folder = tmp_path / "trueup"
    make(folder)
    monkeypatch.setenv(lock.FOLDER, str(folder))
    with pytest.raises(OSError, match=why):
        lock.node_lock()


def test_where_the_lock_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(lock.FOLDER, raising=False)
    monkeypatch.setattr(lock, "_own", lambda folder: folder)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert lock.node_lock() == "/run/trueup/benchmark.lock"
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    monkeypatch.setenv("HOME", str(tmp_path))
    node = os.uname().nodename
    assert lock.node_lock() == f"{tmp_path}/.cache/trueup-{node}/benchmark.lock"
    monkeypatch.setattr(os.path, "isdir", lambda path: path == "/run/user/4711")
    assert lock.node_lock() == "/run/user/4711/trueup/benchmark.lock"


OTHER = """
import os, sys
from trueup_node.run import lock
# The interpreter may be in a home: what it loads late is loaded now.
lock.orphan_guard.of(os.getpid())
os.setgid(12345)
os.setuid(12345)
lock._ROOTS = sys.argv[1]
lock.locked(sys.argv[2] + "/benchmark.lock", 0.3).__enter__()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="two users: root alone can be both")
def test_a_user_waits_for_root_and_cannot_hold_roots_lock(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = tmp_path_factory.mktemp("two-users")
    above = Path(tempfile.gettempdir())
    for folder in (base, *(one for one in base.parents if above in one.parents)):
        folder.chmod(folder.stat().st_mode | 0o011)
    monkeypatch.setenv(lock.FOLDER, str(base / "root"))
    roots = lock.node_lock()
    (base / "user").mkdir()
    os.chown(base / "user", 12345, 12345)

    def user(program: str) -> str:
        argv = [sys.executable, "-c", program, str(base / "root"), str(base / "user")]
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
        return subprocess.run(
            argv, env=environment, capture_output=True, text=True, check=False
        ).stderr

    with lock.locked(roots, 1, WHO):
        assert "stream streaming-t2 of run 20261123T140001Z-cafe holds this node" in user(OTHER)
        seize = OTHER.partition("lock._")[0] + "open(sys.argv[1] + '/benchmark.lock')"
        assert "PermissionError" in user(seize)
    assert user(OTHER) == ""
    # What root's killed benchmark left says nothing any more.
    child = subprocess.Popen(["true"])
    told = {"process": orphan_guard.of(child.pid)}
    child.wait()
    Path(roots).with_name("benchmark.json").write_text(json.dumps(told))
    assert user(OTHER) == ""
