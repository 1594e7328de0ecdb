"""The module fio_bench: success, check mode, missing tool, unusable output, refusals, and that its
folder is gone afterwards."""

from __future__ import annotations

import errno
import os
import re
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fio_bench
import pytest
from ansible.module_utils.trueup_node.benchmarks.fio import case as fio
from ansible.module_utils.trueup_node.node import folders, mounts
from bench_modules import FakeRun, checks_only, ends_badly, goes_well, refuses, resumes
from helpers import parametrized
from test_parse_fio import GROUPS, METADATA, MIXED, NO_SPACE

# The recorded run was a front-end but for its name.
FRONTEND = MIXED.replace('"jobname" : "random"', '"jobname" : "frontend"')
GIB = 1024**3


@pytest.fixture(name="store")
def _store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "store"
    folder.mkdir()
    real = os.open

    def opened(path: Any, flags: int, *rest: Any, **named: Any) -> int:
        # The file system under the tests may have no O_DIRECT.
        return real(path, flags & ~os.O_DIRECT, *rest, **named)

    monkeypatch.setattr(fio.os, "open", opened)
    monkeypatch.setattr(
        fio.os,
        "statvfs",
        lambda _: SimpleNamespace(f_bavail=100 * GIB // 4096, f_frsize=4096, f_files=0),
    )
    return folder


@pytest.fixture(name="run_module")
def _run_module(runner: Any, store: Path) -> Any:
    return runner(
        fio_bench,
        directory=str(store),
        workload="eda_frontend",
        runtime_seconds=1,
        node={"os": "Ubuntu 24.04", "kernel": "6.8.0-1017-azure"},
    )


class Watch(FakeRun):
    """Also remembers what was in the storage's folder while the benchmark ran."""

    def __init__(self, store: Path, **ending: Any) -> None:
        super().__init__(**ending)
        self.store = store
        self.seen: list[str] = []

    def __call__(self, argv: list[str], **options: Any) -> Any:
        self.seen = sorted(path.name for path in self.store.iterdir())
        return super().__call__(argv, **options)


def test_a_good_run_gives_a_record_and_leaves_nothing(run_module: Any, store: Path) -> None:
    run = Watch(store, stdout=FRONTEND)
    result, record = goes_well(run_module, run)
    assert record["case"] == "eda_frontend-direct"
    assert record["parameters"]["direct"] is True
    assert record["parameters"]["data_bytes"] == 8 * 1200 * 16384
    assert record["software"] == {"fio": "3.33"}
    assert result["ansible_facts"] == {"trueup_fio": record}
    assert len(run.calls) == 1
    assert len(run.seen) == 1
    assert list(store.iterdir()) == []
    argv = run.calls[0]["argv"]
    # Every path that fio is given lies in the new folder.
    folder = str(store / run.seen[0])
    assert {word.split("=")[1] for word in argv if "=/" in word} == {folder}
    assert {
        "--name=frontend",
        "--rw=randrw",
        "--bs=4096",
        "--numjobs=8",
        "--iodepth=4",
        "--nrfiles=1200",
        "--filesize=16384",
        "--direct=1",
    } <= set(argv)
    assert {row["unit"] for row in record["metrics"]} == {"byte/s", "1/s", "s"}


test_check_mode_returns_the_same_keys_and_runs_nothing = checks_only(FRONTEND, leaves="store")


test_a_bad_end_gives_a_record_with_the_reason_and_leaves_nothing = ends_badly(
    ({"returncode": 1, "stdout": NO_SPACE}, "failed", "exit status 1"),
    ({"stdout": NO_SPACE}, "failed", "job full ended with error 28"),
    ({"stdout": FRONTEND[:3000]}, "failed", "cut off or damaged"),
    ({"stdout": ""}, "failed", "no JSON object"),
    ({"timed_out": True}, "failed", "time limit of 900 s"),
    ({"stdout": MIXED}, "invalid", "fio ran the jobs random instead of frontend"),
    ({"stdout": GROUPS}, "invalid", "frontend, backend instead of frontend"),
    ({"stdout": FRONTEND.replace('"direct" : "1"', '"direct" : "0"')}, "invalid", "direct=0"),
    leaves="store",
)


def test_a_run_that_ended_early_or_in_one_direction_is_invalid(run_module: Any) -> None:
    early = run_module(FakeRun(stdout=FRONTEND), runtime_seconds=30)
    assert re.search(r"frontend read ended after 1\.00\d s of 30 s", early["record"]["reason"])
    named = FRONTEND.replace("frontend", "random_read")
    both = run_module(FakeRun(stdout=named), workload="random_read")
    assert both["record"]["reason"] == "job random_read did read and write only"


test_bad_input_is_refused_before_anything_runs = refuses(
    ({"directory": "/no/such/folder"}, "/no/such/folder is not a folder on this node"),
    ({"workload": "random_read", "job_bytes": 20 * GIB}, "has 100.00 GiB free, and the files"),
    ({"workload": "random_read", "job_bytes": 20 * GIB}, "need 168.00 GiB"),
    ({"jobs": -1}, "jobs is -1: it must be 0 or more"),
    ({"runtime_seconds": 0}, "runtime_seconds is 0: it must be 1 or more"),
    ({"block_bytes": 1000}, "block_bytes is 1000: it must be a multiple of 4096, 0 or more"),
    ({"block_bytes": 32768}, "larger than the files of frontend"),
    ({"job_bytes": 4096}, "smaller than one unit of 16384"),
    ({"timeout_seconds": 0}, "timeout_seconds is 0: it must be 1 or more"),
    leaves="store",
)


@pytest.fixture(name="no_direct")
def _no_direct(store: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    def refused(path: str, *_: Any) -> int:
        raise OSError(errno.EINVAL, "Invalid argument", path)

    monkeypatch.setattr(fio.os, "open", refused)
    return store


def test_a_file_system_without_o_direct(no_direct: Path, tmp_path: Path) -> None:
    folder = str(no_direct)
    with pytest.raises(fio.BadInput, match="has no O_DIRECT"):
        fio.direct_io("required", folder)
    assert (fio.direct_io("preferred", folder), fio.direct_io("off", folder)) == (False, False)
    assert list(tmp_path.glob("store/*")) == []


def test_the_folder_goes_when_the_run_is_told_to_end(store: Path) -> None:
    def run() -> None:
        with folders.own_folder(str(store), "fio") as folder:
            (Path(folder) / "data").write_text("x")
            os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as ended:
        run()
    assert ended.value.code == 128 + signal.SIGTERM
    assert (list(store.iterdir()), signal.getsignal(signal.SIGTERM)) == ([], before)


@pytest.mark.parametrize(
    ("ending", "arguments", "outcome", "reason"),
    [
        (
            {"stdout": METADATA["stat"]},
            {},
            "invalid",
            "4000 operations took 0.013 s, and fio counts whole milliseconds: set files to 16000",
        ),
        ({"stdout": METADATA["stat"]}, {"files": 1000}, "invalid", "made 4000 operations of 2000"),
        ({"stdout": METADATA["create"]}, {}, "invalid", "ran the jobs metadata_create instead of"),
        (
            {"stdout": METADATA["stat"].replace('"filestat"', '"filedelete"')},
            {},
            "invalid",
            "fio ran with ioengine=filedelete",
        ),
        (
            {"returncode": 1, "stderr": "fio: engine filestat not loadable"},
            {},
            "failed",
            "install fio 3.33 or newer",
        ),
        ({"returncode": 1, "stdout": NO_SPACE}, {}, "failed", "exit status 1"),
    ],
)
def test_a_bad_end_of_operations_gives_a_record_with_the_reason(
    run_module: Any,
    store: Path,
    ending: dict[str, Any],
    arguments: dict[str, Any],
    outcome: str,
    reason: str,
) -> None:
    given = {"workload": "metadata_stat", "jobs": 2, "files": 2000, **arguments}
    ends_badly(run_module, ending, outcome, reason, **given)
    assert list(store.iterdir()) == []


@parametrized(("arguments", "message"))
def test_bad_input_of_operations_is_refused(
    run_module: Any,
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: dict[str, Any],
    message: str,
) -> None:
    room = SimpleNamespace(
        f_bavail=100 * GIB // 4096, f_frsize=4096, f_files=10**6, f_favail=100_000
    )
    monkeypatch.setattr(fio.os, "statvfs", lambda _: room)
    run = FakeRun(stdout=METADATA["stat"])
    result = run_module(run, workload="metadata_stat", **arguments)
    assert result["failed"] is True
    assert message in result["msg"]
    assert (result["record"], run.calls, list(store.iterdir())) == (None, [], [])


def test_a_lost_server_is_refused_and_not_waited_for(
    run_module: Any, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(path: str, seconds: float) -> None:
        message = f"{path} has not answered in {seconds:g} s: its server is gone"
        raise mounts.BadInput(message)

    monkeypatch.setattr(mounts, "require_answer", lost)
    run = FakeRun(stdout=FRONTEND)
    result = run_module(run)
    assert f"{store} has not answered in 30 s" in result["msg"]
    assert run.calls == []


class AsAsked(FakeRun):
    """Answers a workload of files or one of data, as it is called."""

    def __call__(self, argv: list[str], **options: Any) -> Any:
        files = "--ioengine=filestat" in argv
        self.ending["stdout"] = METADATA["stat"] if files else FRONTEND
        return super().__call__(argv, **options)


def test_a_record_of_the_run_stands_for_its_case(
    run_module: Any, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fio, "_SHORTEST_FILES", 0.01)
    files = {"workload": "metadata_stat", "jobs": 2, "files": 2000}
    table = store.parent / "mountinfo"
    table.write_text(f"1 0 254:0 / {store} rw - xfs /dev/vda rw\n")
    monkeypatch.setattr(mounts, "MOUNTINFO", str(table))
    changed = {
        "directory": "/srv/scratch",
        "workload": "eda_backend",
        "jobs": 4,
        "files": 1000,
        "iodepth": 8,
        "start_seconds": 1,
        "block_bytes": 8192,
        "job_bytes": 1024**2,
        "runtime_seconds": 2,
        "engine": "io_uring",
        "direct": "off",
    }
    # It says what is refused, and the record what the folder is on.
    idle = {"filesystem": "xfs"}
    Clock(monkeypatch)
    resumes(run_module, AsAsked, fio_bench, changed, along={"files": files}, idle=idle)


class Clock:
    """Time that passes by sleeping and, of each run, by what it takes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *takes: float) -> None:
        self.now, self.slept, self.takes = 100.0, [], list(takes)
        time = SimpleNamespace(monotonic=lambda: self.now, sleep=self.sleep)
        monkeypatch.setattr(fio_bench, "time", time)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


class Timed(FakeRun):
    """Each run takes some time of a clock."""

    clock: Clock

    def __call__(self, *given: Any, **how: Any) -> Any:
        self.clock.now += self.clock.takes.pop(0)
        return super().__call__(*given, **how)


@parametrized(("files_take", "outcome", "slept", "runs"))
def test_measuring_begins_at_the_stated_second(
    run_module: Any,
    monkeypatch: pytest.MonkeyPatch,
    files_take: float,
    outcome: str,
    slept: list[float],
    runs: int,
) -> None:
    run = Timed(stdout=FRONTEND)
    run.clock = Clock(monkeypatch, files_take, 2.0)
    record = run_module(run, start_seconds=60)["record"]
    assert (record["outcome"], record["parameters"]["start_seconds"]) == (outcome, 60)
    assert (run.clock.slept, len(run.calls)) == (slept, runs)
    assert [call["argv"][-1] == "--create_only=1" for call in run.calls] == [True, False][:runs]
    if outcome == "failed":
        assert "took 61.0 s, and start_seconds is 60" in record["reason"]


def test_files_that_cannot_be_made_fail_the_case(run_module: Any) -> None:
    run = FakeRun(returncode=1, stdout=NO_SPACE)
    record = run_module(run, start_seconds=60)["record"]
    assert (record["outcome"], len(run.calls)) == ("failed", 1)
