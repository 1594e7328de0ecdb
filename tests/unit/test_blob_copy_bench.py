"""The module blob_copy_bench: success, check mode, missing program, unusable output, refusals; its
folder is gone and the credential is nowhere."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import blob_copy_bench
import pytest
from ansible.module_utils.trueup_node.benchmarks.blob_copy import case as blob_copy
from ansible.module_utils.trueup_node.run.resume import identity
from bench_modules import FakeRun, ends_badly, resumes
from helpers import parametrized
from hypothesis import given
from hypothesis import strategies as st
from record_schema import RECORDS
from trueup_node.benchmarks.blob_copy import case as rule
from trueup_node.benchmarks.blob_copy.signatures import DRIVER_PREFIX
from trueup_node.errors import BadInput

DATA = Path(__file__).parent.parent / "data" / "blob_copy"
EIGHT = (DATA / "eight_copies.txt").read_text()
RESUMED = (DATA / "resumed.txt").read_text()
SECRET = "AccountName=a;AccountKey=c2VjcmV0IG9mIHRoZSB0ZXN0cw==;"
MIB, GIB = 1024**2, 1024**3
# What eight_copies.txt was asked for, but for its sizes: the fake files are small.
ASKED = {"container": "checkpoints", "cap_mbps": 100, "size_bytes": 4096}


def changed(text: str, **members: Any) -> str:
    """With other figures in it, and a digest of them."""
    data = json.loads(text.partition(DRIVER_PREFIX)[2].splitlines()[0])
    del data["digest"]
    file = data["copies"][0]["files"][0]
    for name, value in members.items():
        place = file if name in file and name not in data else data["copies"][0]
        place[name] = value
        if name in data:
            data[name] = sum(copy[name] for copy in data["copies"])
    body = json.dumps(data, sort_keys=True, separators=(",", ":"))
    data["digest"] = hashlib.sha256(body.encode()).hexdigest()
    return DRIVER_PREFIX + json.dumps(data) + "\n"


def shrunk(text: str) -> str:
    """Files of 4096 bytes instead of 32 MiB."""
    data = json.loads(text.partition(DRIVER_PREFIX)[2].splitlines()[0])
    text = json.dumps(data).replace(str(32 * MIB), "4096").replace(str(256 * MIB), str(8 * 4096))
    return changed(DRIVER_PREFIX + text)


SMALL = shrunk(EIGHT)


class Watch(FakeRun):
    """Also remembers the files that were there while it ran."""

    seen: dict[str, int]

    def __call__(self, argv: list[str], **options: Any) -> Any:
        paths = argv[argv.index("--") + 1 :]
        self.seen = {path: os.path.getsize(path) for path in paths}
        return super().__call__(argv, **options)


@pytest.fixture(name="run_module")
def _run_module(runner: Any, tmp_path: Path) -> Any:
    scratch, prefix = tmp_path / "scratch", tmp_path / "prefix"
    scratch.mkdir()
    prefix.mkdir()
    credentials = prefix / "credentials"
    credentials.write_text(f"AZURE_STORAGE_CONNECTION_STRING={SECRET}\n")
    credentials.chmod(0o600)
    return runner(blob_copy_bench, prefix=str(prefix), directory=str(scratch), **ASKED)


def test_a_good_run_gives_a_record_and_leaves_nothing(run_module: Any, tmp_path: Path) -> None:
    run = Watch(stdout=SMALL)
    result = run_module(run)
    record = result["record"]
    RECORDS.validate(record)
    assert (record["outcome"], record["case"], record["ranks"]) == ("ok", "8x100mbps-random", 8)
    assert record["parameters"]["copies"] == 8
    assert record["parameters"]["cap_bits_per_second"] == 100e6
    assert record["parameters"]["limit_bits_per_second"] == 20e9
    assert record["parameters"]["program"] == "azure-storage-blob"
    assert record["software"] == {"azure-storage-blob": "12.31.1", "python": "3.11.7"}
    assert result["ansible_facts"] == {"trueup_blob_copy": record}
    assert list(run.seen.values()) == [4096] * 8
    assert list((tmp_path / "scratch").iterdir()) == []
    [call] = run.calls
    assert call["environment"] == {"AZURE_STORAGE_CONNECTION_STRING": SECRET}
    argv = " ".join(call["argv"])
    assert "--benchmark --container checkpoints --name trueup/20261120T091300Z-7c1e/node-1" in argv
    assert "--copies 8 --limit-mbps 20000.0 --cap-mbps 100.0 --cores-kept -1" in argv


@pytest.mark.parametrize("stderr", ["", f"trueup-blob-copy: {SECRET}\n"])
def test_the_credential_is_nowhere(run_module: Any, stderr: str) -> None:
    result = run_module(FakeRun(stdout=SMALL, stderr=stderr))
    assert SECRET not in json.dumps(result)
    assert result["environment"] == {}
    failed = run_module(FakeRun(returncode=1, stderr=stderr))
    assert SECRET not in json.dumps(failed)


test_a_bad_end_gives_a_record_with_the_reason_and_leaves_nothing = ends_badly(
    (
        {"returncode": 1, "stderr": "trueup-blob-copy: copy 0: it was refused\n"},
        "failed",
        "exit status 1 after 4.5 s: copy 0: it was refused",
    ),
    (
        {"returncode": 1, "stderr": "trueup-blob-copy: copy 0: 8 of 32 MiB, 95 Mb/s\n"},
        "failed",
        "exit status 1 after 4.5 s",
    ),
    ({"stdout": SMALL[:700]}, "failed", "cut off or damaged"),
    ({"stdout": ""}, "failed", "did not come to their end"),
    ({"timed_out": True}, "failed", "time limit of 1800 s"),
    ({"stdout": RESUMED}, "invalid", "1 copies ran instead of 8"),
    ({"stdout": EIGHT}, "invalid", f"{256 * MIB} bytes were copied instead of {8 * 4096}"),
    (
        {"stdout": changed(SMALL, stored_md5="0" * 32, verified=False)},
        "invalid",
        "with MD5 00000000000000000000000000000000",
    ),
    (
        {"stdout": changed(SMALL, sent_bytes=100 * MIB, seconds=5.0)},
        "invalid",
        "copy 0 took 168 Mb/s, above its cap of 100 Mb/s by more than 10%",
    ),
    leaves="scratch",
)


def test_a_record_of_the_run_stands_for_its_case(run_module: Any, tmp_path: Path) -> None:
    """Files that the case makes for itself have other names and bytes each time."""
    file, other = tmp_path / "f.pt", tmp_path / "other"
    file.write_bytes(b"x" * 4096)
    other.mkdir()
    (tmp_path / "copy").mkdir()
    credentials = (tmp_path / "prefix" / "credentials").read_text()
    (tmp_path / "copy" / "credentials").write_text(credentials)
    (tmp_path / "copy" / "credentials").chmod(0o600)
    options = {
        "prefix": str(tmp_path / "copy"),
        "account_url": "https://b.blob.core.windows.net",
        "container": "others",
        "program": "azure-storage-blob",
        "copies": 7,
        "limit_mbps": 10000.0,
        "cap_mbps": 50.0,
        "cores_kept": 1,
        "block_mib": 4,
        "connections": 2,
        "verify": "download",
        "retries": 9,
        "files": [str(file)],
        "size_bytes": 8192,
        "directory": str(other),
    }
    resumes(run_module, lambda: FakeRun(stdout=SMALL), blob_copy_bench, options)
    assert list((tmp_path / "scratch").iterdir()) == []


def test_a_record_stands_for_files_of_the_same_size(run_module: Any, tmp_path: Path) -> None:
    files = [str(tmp_path / f"f{number}.pt") for number in range(8)]
    for path in files:
        Path(path).write_bytes(b"x" * 4096)
    record = run_module(FakeRun(stdout=SMALL), files=files)["record"]
    earlier = [json.loads(json.dumps(identity(record)))]
    assert run_module(FakeRun(), files=files, earlier=earlier)["resumed"] == 0
    # azcopy has a folder of its own each time.
    (tmp_path / "prefix" / "credentials").unlink()
    azcopy = {"verify": "download", "account_url": "https://a.blob.core.windows.net"}
    record = run_module(FakeRun(stdout=SMALL), files=files, **azcopy)["record"]
    read_back = [json.loads(json.dumps(identity(record)))]
    assert run_module(FakeRun(), files=files, earlier=read_back, **azcopy)["resumed"] == 0
    Path(files[0]).write_bytes(b"x" * 4097)
    again = FakeRun(returncode=1)
    assert run_module(again, files=files, earlier=earlier)["failed"] is True
    assert len(again.calls) == 1


def test_rates_reach_the_program_whole(run_module: Any) -> None:
    """A cap of seven digits was once rounded, and every run with it invalid."""
    run = FakeRun(stdout=SMALL)
    run_module(run, cap_mbps=2345.678, limit_mbps=20000.125)
    argv = run.calls[0]["argv"]
    assert argv[argv.index("--cap-mbps") + 1] == "2345.678"
    assert argv[argv.index("--limit-mbps") + 1] == "20000.125"


@parametrized(("arguments", "reason"))
def test_bad_input_is_refused_in_one_sentence(
    run_module: Any, arguments: dict[str, Any], reason: str
) -> None:
    run = FakeRun(stdout=SMALL)
    result = run_module(run, **arguments)
    assert (run.calls, result["record"]) == ([], None)
    assert reason in result["msg"]


def test_no_space_is_refused_with_both_figures(
    run_module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        blob_copy.os, "statvfs", lambda _: SimpleNamespace(f_bavail=GIB // 4096, f_frsize=4096)
    )
    result = run_module(FakeRun(stdout=SMALL), size_bytes=GIB)
    assert "has 1.00 GiB free, and the files need 8.40 GiB" in result["msg"]


def test_a_credential_that_others_can_read_is_refused(run_module: Any, tmp_path: Path) -> None:
    (tmp_path / "prefix" / "credentials").chmod(0o644)
    run = FakeRun(stdout=SMALL)
    assert "can be read by others (mode 0644): chmod 600 it" in run_module(run)["msg"]
    (tmp_path / "prefix" / "credentials").chmod(0o600)
    (tmp_path / "prefix" / "credentials").write_text("PASSWORD=x\n")
    assert "line 1 is not one of AZURE_STORAGE_" in run_module(run)["msg"]
    assert run.calls == []


@given(st.integers(1, 100), st.floats(1e8, 1e12))
def test_the_largest_step_below_the_limit_is_taken(copies: int, limit: float) -> None:
    try:
        cap = rule.capped(copies, limit)
    except BadInput:
        assert limit / copies <= rule.CAP_STEP
        return
    assert copies * cap < limit
    assert limit / copies <= cap + rule.CAP_STEP
