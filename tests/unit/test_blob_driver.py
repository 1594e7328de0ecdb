"""trueup-blob-copy without a service: arguments, shares, pace, retries and azcopy's output.
test_blob_azurite.py has the rest."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import helpers
import pytest
from helpers import parametrized
from hypothesis import given
from hypothesis import strategies as st
from trueup_node.benchmarks.blob_copy import case as blob_copy
from trueup_node.errors import BadInput

DRIVER = Path(__file__).parents[2] / "roles" / "blob_checkpoint" / "files" / "blob_copy_driver.py"
ADDRESS = ("--account-url", "https://a.blob.core.windows.net", "--container", "c")


driver: Any = helpers.program("roles/blob_checkpoint/files/blob_copy_driver.py")


@given(st.integers(1, 100), st.floats(1e6, 1e12), st.floats(1e6, 1e11) | st.none())
def test_its_rule_of_the_caps_is_the_packages(copies: int, limit: float, cap: float | None) -> None:
    """No program on a node can import the package, so the rule stands in it once more."""

    def outcome(function: Any, *arguments: Any) -> float | None:
        try:
            return float(function(*arguments))
        except (BadInput, driver.Refused):
            return None

    ours = outcome(blob_copy.capped, copies, limit, cap)
    assert outcome(driver.choose_cap, copies, limit, cap or 0.0) == ours


def test_the_article_gives_ten_of_ninety_six_cores_to_each_of_eight_copies() -> None:
    shares = driver.core_shares(range(96), 8, -1)
    assert [len(share) for share in shares] == [10] * 8
    assert [share[0] for share in shares] == [0, 12, 24, 36, 48, 60, 72, 84]
    # None reaches over one of the 4 NUMA nodes of 24.
    assert [share[0] // 24 == share[-1] // 24 for share in shares] == [True] * 8
    assert driver.format_cpus(shares[1]) == "12-21"


@given(st.sets(st.integers(0, 300), min_size=1), st.integers(1, 16), st.integers(-1, 40))
def test_no_core_is_shared(cpus: set[int], copies: int, kept: int) -> None:
    shares = driver.core_shares(cpus, copies, kept)
    used = [cpu for share in shares for cpu in share]
    assert len(used) == len(set(used))
    assert set(used) <= cpus
    kept = len(cpus) // 6 if kept < 0 else kept
    each = max(0, (len(cpus) - kept) // copies)
    assert [len(share) for share in shares] == [each] * copies


def test_blocks_grow_where_a_blob_would_have_too_many() -> None:
    mib = driver.MIB
    assert driver.block_size(100, 8 * mib) == 8 * mib
    assert driver.block_size(50_000 * 8 * mib, 8 * mib) == 8 * mib
    assert driver.block_size(50_000 * 8 * mib + 1, 8 * mib) == 9 * mib
    with pytest.raises(driver.Refused, match="larger than a blob can be"):
        driver.block_size(50_000 * 4000 * mib + 1, 8 * mib)


def test_a_copy_says_every_five_seconds_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 100.0
    monkeypatch.setattr(driver, "time", SimpleNamespace(monotonic=lambda: now))
    progress = driver.Progress(3, 5 * driver.MIB)
    for seconds in (1.0, 4.9, 5.0, 9.9, 10.5):
        now = 100.0 + seconds
        progress(driver.MIB)
    # 3 MiB in 5 s, and 5 in 10.5.
    assert capsys.readouterr().err.splitlines() == [
        "trueup-blob-copy: copy 3: 3 of 5 MiB, 5 Mb/s",
        "trueup-blob-copy: copy 3: 5 of 5 MiB, 4 Mb/s",
    ]


def test_a_pause_is_not_made_up_for() -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    pace = driver.Pace(100.0, clock=lambda: now[0], sleep=sleep)
    for _ in range(10):
        pace.take(10)
    assert now[0] == pytest.approx(1.0)
    now[0] += 60.0
    begun = now[0]
    for _ in range(10):
        pace.take(10)
    assert now[0] - begun == pytest.approx(1.0)


@parametrized(("words", "environment", "said"))
def test_bad_input_is_one_sentence(
    words: tuple[str, ...],
    environment: dict[str, str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "f.pt"
    file.write_bytes(b"x")
    monkeypatch.setattr(driver.shutil, "which", lambda _: None)
    with pytest.raises(driver.Refused) as caught:
        driver.run(driver.parse_arguments([*words, str(file)]), environment)
    assert said in str(caught.value)
    assert "sig=x" not in str(caught.value)


def test_empty_and_equally_named_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    paths = [tmp_path / "f.pt", tmp_path / "a" / "f.pt"]
    for path in paths:
        path.write_bytes(b"x")
    with pytest.raises(driver.Refused, match=r"would both be the blob step1/f\.pt"):
        driver.plan(driver.parse_arguments(["--name", "step1/", *map(str, paths)]))
    paths[0].write_bytes(b"")
    with pytest.raises(driver.Refused, match="is empty"):
        driver.plan(driver.parse_arguments([str(paths[0])]))


def test_settings_are_defaults_and_arguments_go_before_them(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({"container": "kept", "cap_mbps": 300, "retries": 2}))
    found = driver.parse_arguments(["--settings", str(path), "--retries", "5", "f"])
    assert (found.container, found.cap_mbps, found.retries) == ("kept", 300, 5)
    path.write_text(json.dumps({"containr": "kept"}))
    with pytest.raises(driver.Refused, match="holds containr; known are account_url"):
        driver.read_settings(str(path))


@parametrized(("settings", "said"))
def test_settings_of_another_type_are_one_sentence(
    tmp_path: Path, settings: dict[str, Any], said: str
) -> None:
    path = tmp_path / "settings.json"
    path.write_text(json.dumps(settings))
    with pytest.raises(driver.Refused, match=f"settings.json: {said}$"):
        driver.parse_arguments(["--settings", str(path), "f"])


def test_tries_are_bounded_and_waits_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "classify", lambda _: ("throttled", "it asks for less", 0.0))
    waits: list[float] = []
    counts = driver.Counts()
    retry = driver.Retrier(counts, 7, 1.0, sleep=waits.append)

    def request() -> None:
        raise OSError

    with pytest.raises(driver.Failed, match="x: it asks for less, also after 7 retries"):
        retry(request, "x")
    assert (counts["throttled"], counts["retries"], len(waits)) == (8, 7, 7)
    for number, wait in enumerate(waits):
        longest = min(30.0, 2.0**number)
        assert longest / 2 <= wait <= longest


class Answer(Exception):
    """What the library raises for an answer of the service."""

    def __init__(self, status: int, **headers: str) -> None:
        super().__init__("https://a.net/c?sig=secret")
        self.status_code = status
        self.response = SimpleNamespace(
            headers={k.replace("_", "-"): v for k, v in headers.items()}
        )


@pytest.mark.parametrize(
    ("error", "kind", "asked"),
    [
        (Answer(503, x_ms_error_code="ServerBusy"), "throttled", 0.0),
        (Answer(429, Retry_After="7"), "throttled", 7.0),
        (Answer(429, Retry_After="soon"), "throttled", 0.0),
        (Answer(500), "server_errors", 0.0),
        (Answer(408), "server_errors", 0.0),
        (Answer(400, x_ms_error_code="Md5Mismatch"), "corrupted", 0.0),
        (Answer(400, x_ms_error_code="InvalidBlobOrBlock"), None, 0.0),
        (Answer(403), None, 0.0),
        (Answer(409), None, 0.0),
    ],
)
def test_which_answers_are_worth_a_retry(error: Answer, kind: str | None, asked: float) -> None:
    found, why, wait = driver.classify_answer(error)
    assert (found, wait) == (kind, asked)
    assert "sig" not in why


# ---- azcopy: a stand-in program ------------------------------------------------------------------

AZCOPY = """#!{python}
import base64, hashlib, json, os, sys
if sys.argv[1] == "--version":
    print("azcopy version 10.32.2"); raise SystemExit
def say(kind, content):
    print(json.dumps({{"TimeStamp": "now", "MessageType": kind, "MessageContent": content}}))
with open({log!r}, "a") as log:
    set_ = {{k: v for k, v in os.environ.items() if "AZCOPY" in k}}
    log.write(json.dumps([sys.argv, set_]) + "\\n")
store = {store!r}
if sys.argv[1] == "copy":
    data = open(sys.argv[2], "rb").read()
    open(store, "wb").write(data)
    say("Init", "{{}}")
    say("EndOfJob", json.dumps({{"JobStatus": {status!r}, "TransfersCompleted": "1",
                               "BytesOverWire": str(len(data)),
                               "TotalBytesTransferred": str(len(data))}}))
elif sys.argv[1] == "list":
    data = open(store, "rb").read()
    md5 = base64.b64encode(hashlib.md5(data).digest()).decode()
    say("ListObject", json.dumps({{"ContentLength": str(len(data)), "ContentMD5": md5}}))
"""


def stand_in(folder: Path, status: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """azcopy, found first; the file that it logs in."""
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    program, log = folder / "azcopy", folder / "log"
    program.write_text(
        AZCOPY.format(
            python=sys.executable, log=str(log), store=str(folder / "store"), status=status
        )
    )
    program.chmod(0o755)
    return log


def test_azcopy_with_the_managed_identity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = stand_in(tmp_path, "Completed", monkeypatch)
    file = tmp_path / "f.pt"
    file.write_bytes(b"x" * 5000)
    words = [*ADDRESS, "--cap-mbps", "2300", "--name", "step 1", str(file)]
    result = driver.run(driver.parse_arguments(words), {})
    assert (result["program"], result["version"]) == ("azcopy", "10.32.2")
    [copy] = result["copies"]
    assert (copy["uploaded_bytes"], copy["files"][0]["verified"]) == (5000, True)
    [copied, listed] = [json.loads(line) for line in log.read_text().splitlines()]
    assert copied[0][1:4] == ["copy", str(file), "https://a.blob.core.windows.net/c/step%201/f.pt"]
    assert {"--cap-mbps=2300.0", "--put-md5", "--block-size-mb=8", "--output-type=json"} <= set(
        copied[0]
    )
    assert copied[1]["AZCOPY_AUTO_LOGIN_TYPE"] == "MSI"
    assert copied[1]["AZCOPY_CONCURRENCY_VALUE"] == "4"
    assert listed[0][1] == "list"


def test_the_files_own_checksum_is_no_part_of_azcopys_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, "Completed", monkeypatch)
    file = tmp_path / "f.pt"
    file.write_bytes(b"x" * 5000)
    hashed: list[str] = []
    md5_of = driver.md5_of
    monkeypatch.setattr(driver, "md5_of", lambda path: hashed.append(path) or md5_of(path))
    job = {
        "account_url": ADDRESS[1],
        "container": "c",
        "block_bytes": driver.MIB,
        "cap": 2345.678e6,
        "connections": 1,
        "azcopy_options": [],
        "verify": "properties",
    }
    copy = driver.AzcopyCopy(job)
    sent = copy.send(str(file), "f.pt", 5000, lambda _: None)
    assert hashed == []
    copy.verify(sent)
    assert hashed == [str(file)]
    assert sent["md5"] == sent["stored_md5"] == md5_of(file)
    assert "--cap-mbps=2345.678" in (tmp_path / "log").read_text()


def test_azcopy_ends_with_the_program(tmp_path: Path) -> None:
    """Killed as by kill -9, from which nobody can clean up."""
    azcopy, started = tmp_path / "azcopy", tmp_path / "started"
    azcopy.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo azcopy version 10.32.2 && exit\n'
        f"echo $$ > {started}.new; mv {started}.new {started}; exec sleep 600\n"
    )
    azcopy.chmod(0o755)
    file = tmp_path / "f.pt"
    file.write_bytes(b"x")
    child = subprocess.Popen(
        [sys.executable, str(DRIVER), *ADDRESS, str(file)],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "TMPDIR": str(tmp_path)},
    )
    try:
        assert until(started.exists)
        number = int(started.read_text())
    finally:
        child.kill()
        child.wait()
    assert until(lambda: not running(number))


def until(condition: Any) -> bool:
    """Whether it came true within two minutes."""
    deadline = time.monotonic() + 120
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return bool(condition())


def running(number: int) -> bool:
    """Whether there is such a process, and it is not one that only waits to be reaped."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_azcopy_that_did_not_complete_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, "CompletedWithErrors", monkeypatch)
    file = tmp_path / "f.pt"
    file.write_bytes(b"x")
    with pytest.raises(driver.Failed, match=r"f\.pt could not be sent: azcopy says Completed"):
        driver.run(driver.parse_arguments([*ADDRESS, str(file)]), {})


@parametrized("messages")
def test_other_words_of_azcopy_are_refused(messages: list[tuple[str, str]]) -> None:
    with pytest.raises(driver.Failed, match="azcopy's output is not understood"):
        driver.azcopy_summary(messages, "x")


def test_azcopys_own_reason_is_told_without_addresses() -> None:
    words = "failed to perform copy: https://a.net/c?sig=secret sig=secret is refused"
    assert driver.why_not([("Error", words)]) == " (failed to perform copy: is refused)"
    content = json.dumps({"FailedTransfers": [{"ErrorCode": 403}]})
    assert driver.why_not([("EndOfJob", content)]) == " (the service answered 403)"
    md5 = base64.b64encode(b"x" * 16).decode()
    listed = [("ListObject", json.dumps({"ContentLength": "5", "ContentMD5": md5}))]
    assert driver.azcopy_listed(listed, "x") == (5, (b"x" * 16).hex())
