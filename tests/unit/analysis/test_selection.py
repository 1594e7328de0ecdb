"""Which records the options --node, --benchmark, --run, --since and --outcome leave."""

from __future__ import annotations

import json
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

import made
import pytest
from helpers import parametrized
from trueup_analysis.load import Loaded, load
from trueup_analysis.selection import Selection, find_run, moment, run_ids, select
from trueup_node.errors import BadInput

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
OLD, NEW = "20261120T091300Z-7c1e", "20261121T101500Z-00aa"
COMMANDS = ("list", "scaling", "cost", "health", "reference", "pack", "report")


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Two runs on two nodes, one record of a pair, one that failed, and a node without any."""
    later = {"run_id": NEW, "started_at": "2026-11-21T10:15:00Z"}
    found = [
        made.record(case="a", nodes=["n-1"]),
        made.record(case="b", nodes=["n-2"], outcome="failed", reason="no memory"),
        made.record(case="c", nodes=["n-1"], **later),
        made.record(case="d", nodes=["n-1", "n-2"], node_count=2, **later),
        made.record(case="e", nodes=["odd+name"], benchmark="stream", **later),
    ]
    made.write(tmp_path / "results", found)
    for run_id, begun in ((OLD, "2026-11-20T09:13:00Z"), (NEW, "2026-11-21T10:15:00Z")):
        manifest = {
            "schema": "trueup.run/1",
            "run_id": run_id,
            "started_at": begun,
            "finished_at": begun,
            "expected": ["dead", "n-1", "n-2", "odd+name"],
            "hosts": {"dead": {"unreachable": 1}, "n-1": {"ok": 3}},
            "failed_in": {"n-2": "devito"},
            "skipped": [{"node": "n-1", "what": "nccl", "why": "no GPU"}],
        }
        path = tmp_path / "results" / run_id / "run.json"
        path.write_text(json.dumps(manifest), encoding="utf-8")
    return tmp_path / "results"


@pytest.fixture
def loaded(results: Path) -> Loaded:
    return load([results])


def cases(found: Loaded) -> str:
    return "".join(found.values("case"))


@pytest.mark.parametrize(
    ("chosen", "left"),
    [
        (Selection(), "abcde"),
        (Selection(nodes=("n-1",)), "acd"),
        (Selection(nodes=("n-2",)), "bd"),
        (Selection(nodes=("n-*",)), "abcd"),
        (Selection(nodes=("n-2", "odd+name")), "bde"),
        (Selection(nodes=("odd+name",)), "e"),
        (Selection(benchmarks=("stream",)), "e"),
        (Selection(benchmarks=("stream", "devito")), "abcde"),
        (Selection(run="last"), "cde"),
        (Selection(run="20261120"), "ab"),
        (Selection(run=NEW), "cde"),
        (Selection(since=datetime(2026, 11, 21, 10, 15, tzinfo=UTC)), "cde"),
        (Selection(outcomes=("failed",)), "b"),
        (Selection(outcomes=("failed", "ok"), run=OLD, nodes=("n-1",)), "a"),
    ],
)
def test_filters_leave(loaded: Loaded, chosen: Selection, left: str) -> None:
    assert cases(select(loaded, chosen)) == left


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        (Selection(nodes=("old+name",)), ["--node old+name", "did you mean odd+name?"]),
        (Selection(benchmarks=("stram",)), ["--benchmark stram", "did you mean stream?"]),
        (Selection(benchmarks=("zz",)), ["there are devito, stream"]),
        (Selection(run="2027"), ["--run 2027", NEW]),
        (Selection(run="2026"), ["2 runs", OLD, NEW]),
        (Selection(run=""), ["--run ", NEW]),
        (Selection(outcomes=("invalid",)), ["none of the 5", "--outcome invalid"]),
        (Selection(since=NOW), ["2026-11-22T12:00:00Z", "2026-11-21T10:15:00Z"]),
        (Selection(nodes=("dead",)), ["--node dead"]),
    ],
)
def test_what_leaves_nothing_is_refused(
    loaded: Loaded, chosen: Selection, words: list[str]
) -> None:
    with pytest.raises(BadInput) as raised:
        select(loaded, chosen)
    assert [word for word in words if word not in str(raised.value)] == []


@parametrized(("text", "found"))
def test_moments(text: str, found: str) -> None:
    assert moment(text, NOW).isoformat() == found


@pytest.mark.parametrize(
    "text",
    ["", "yesterday", "7", "-2h", "2 y", "9" * 400 + "d", "99999999d", "0001-01-01T00:00+23:00"],
)
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        moment(text, NOW)


def test_the_last_run_is_the_last_by_count_not_by_the_clock(results: Path) -> None:
    for run_id, count in ((OLD, 2), (NEW, 1)):
        path = results / run_id / "run.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "count": count}))
    found = load([results])
    assert run_ids(found) == [NEW, OLD]
    assert cases(select(found, Selection(run="last"))) == "ab"


def test_published_results_are_of_no_run(reference: Loaded) -> None:
    assert run_ids(reference) == []
    with pytest.raises(BadInput, match="no run"):
        find_run("last", [])


@pytest.fixture
def reference() -> Loaded:
    return load([Path(__file__).resolve().parents[3] / "catalog" / "reference_results.csv"])


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_that_reads_records_takes_the_filters(
    call_trueup, results: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(results.parent)  # where pack and report write
    done = call_trueup(command, results, "--node", "n-9")
    # 1 is a node that fails.
    assert (done.status, done.out) == (2 if command == "health" else 1, "")
    assert "--node n-9" in done.err
    done = call_trueup(command, results, "--node", "n-*", "--benchmark", "devito", "--run", "last")
    assert "3 of 5 records are left out" in done.err


@pytest.mark.parametrize(
    "wrong", [("--since", "yesterday"), ("--outcome", "fine"), ("--run",), ("--node",)]
)
def test_wrong_usage_has_the_status_of_wrong_usage(
    call_trueup, results: Path, wrong: tuple[str, ...]
) -> None:
    usage = call_trueup("list", results, "--no-such-option")
    done = call_trueup("list", results, *wrong)
    assert (done.status, done.out) == (usage.status, "")
    assert wrong[0] in done.err


def run_folders(results: Path) -> list[Path]:
    return [results / OLD, results / NEW]


def listed(call_trueup, *sources: object) -> tuple[str, str, int]:
    """The cases of a list, what was said beside it, and its status."""
    done = call_trueup("list", *sources, "-f", "json")
    tables = json.loads(done.out)["tables"]
    rows = [row for table in tables if table["kind"] == "cases" for row in table["rows"]]
    return "".join(row["case"] for row in rows), done.err, done.status


SHOWN = f"run {NEW} is shown, the last of 2 runs, by its time"


@pytest.mark.parametrize("command", sorted({*COMMANDS} - {"pack"}))
def test_the_last_run_is_the_default_of_every_command(
    call_trueup, results: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(results.parent)
    plain = call_trueup(command)
    last = call_trueup(command, "--run", "last")
    assert (SHOWN in plain.err, "1 other run left out" in plain.err) == (True, True)
    assert (plain.out, plain.status) == (last.out, last.status)
    assert f"run {NEW} is shown; 1 other run left out." in last.err
    every = call_trueup(command, "--all")
    assert f"2 runs are shown together, {OLD} to {NEW}." in every.err
    assert "left out" not in every.err.replace("left out, failed", "")


def test_a_packed_file_has_every_run_and_shows_the_last(call_trueup, results: Path) -> None:
    packed = results.parent / "all.parquet"
    assert call_trueup("pack", results, "-o", packed).status == 0
    assert len(load([packed]).records) == 5
    assert listed(call_trueup, packed)[0] == "cde"
    assert call_trueup("pack", results, "--run", "last", "-o", packed).status == 0
    assert len(load([packed]).records) == 3


def test_what_is_named_one_by_one_is_taken_as_it_is(call_trueup, results: Path) -> None:
    old, new = run_folders(results)
    first = old / "0000.json"
    reference = Path(__file__).resolve().parents[3] / "catalog" / "reference_results.csv"
    assert listed(call_trueup, old)[0] == "ab"
    assert listed(call_trueup, old, new)[0] == "abcde"
    assert listed(call_trueup, first)[0] == "a"
    assert listed(call_trueup, results, first)[0] == "acde"
    assert listed(call_trueup, results, old)[0] == "abcde"
    assert listed(call_trueup, results, new)[0] == "cde"
    assert "single-node-16c" in listed(call_trueup, results, reference)[0]
    other = results.parent / "other" / NEW
    shutil.copytree(new, other)
    shutil.rmtree(new)
    # The named run is none of the folder's, whose last is shown beside it.
    assert listed(call_trueup, results, other)[0] == "abcde"


def test_a_filter_that_leaves_nothing_of_the_last_run_names_it(call_trueup, results: Path) -> None:
    done = call_trueup("list", results, "--outcome", "failed")
    assert (done.status, done.out) == (1, "")
    assert f"run {NEW}, the last: none of the 3 records is left" in done.err
    assert "--run, --since and --all choose others" in done.err


def test_a_last_run_without_a_record_hides_no_older_one_in_silence(
    call_trueup, results: Path
) -> None:
    for path in (results / NEW).glob("0*.json"):
        path.unlink()
    done = call_trueup("list", results)
    assert (done.status, done.out) == (1, "")
    assert f"run {NEW}, the last: it has no record" in done.err


@pytest.mark.parametrize("command", COMMANDS)
def test_one_bad_source_keeps_no_other_from_being_read(
    call_trueup, results: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(results.parent)
    Path("half.parquet").write_bytes(b"PAR1")
    Path("notes.json").write_text("remember")
    os.mkfifo("pipe")
    bad = ("missing", "half.parquet", "notes.json", "pipe")
    done = call_trueup(command, bad[0], "results", *bad[1:])
    said = [line for line in done.err.splitlines() if line.startswith("warning: not read: ")]
    names = done.out if command == "list" else "".join(said)
    status = 2 if command == "health" else 1
    assert (done.status, [name in names for name in bad]) == (status, [True] * 4)
    assert "4 files could not be read." in done.err


def test_a_folder_with_files_of_every_bad_kind_is_read(call_trueup, results: Path) -> None:
    run = results / NEW
    (run / "empty.json").touch()
    (run / "binary.json").write_bytes(bytes(range(256)))
    (run / "dangling.json").symlink_to("nowhere")
    (run / "folder.json").mkdir()
    with (run / "huge.json").open("wb") as stream:
        stream.truncate(2**28 + 1)
    cases_, said, status = listed(call_trueup, results)
    assert (cases_, status) == ("cde", 1)
    assert "4 files could not be read." in said
