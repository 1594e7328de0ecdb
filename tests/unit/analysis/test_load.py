"""The reader: what it takes, what it refuses, and what it says."""

from __future__ import annotations

import copy
import errno
import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

import made
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from forged import forge
from helpers import parametrized
from record_schema import RECORDS
from trueup_analysis import packed
from trueup_analysis.cases import as_figures
from trueup_analysis.load import Loaded, load, pack, verify
from trueup_node.errors import BadInput
from trueup_node.record import write_record

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / "tests" / "data" / "records"
REMOVED = object()
WRONG = (
    "text",
    "",
    7,
    0,
    -1,
    2.5,
    True,
    None,
    [],
    ["x"],
    [7],
    [""],
    {},
    {"x": "y"},
    {"x": 7},
    {"x": []},
)


def with_raw() -> dict[str, Any]:
    base = made.record(raw={"path": "x.raw.txt", "sha256": "0" * 64})
    base["metrics"].append(made.figure("rate", 1.0, "byte/s", "none", message_bytes=8))
    return base


def mutations() -> list[tuple[tuple[Any, ...], Any]]:
    """Every field of a record, a metric and raw: absent, of each wrong kind, and one too many."""
    base = with_raw()
    places: list[tuple[Any, ...]] = [(name,) for name in base]
    # A figure without direction: of the others the reader knows more than a schema can say.
    places += [("metrics", 6, name) for name in base["metrics"][6]]
    places += [("metrics", 0, "message_bytes")]
    places += [("raw", name) for name in base["raw"]]
    places += [("extra",), ("metrics", 6, "extra"), ("raw", "extra")]
    table = [(place, value) for place in places for value in (REMOVED, *WRONG)]
    table += [
        (("schema",), "trueup.record/2"),
        (("run_id",), "20261120T091300Z-7C1E"),
        (("run_id",), "20261120T091300Z-7c1e\n"),
        (("benchmark",), "Devito"),
        (("case",), "-x"),
        (("case",), "a/b"),
        (("outcome",), "failed"),
        (("outcome",), "great"),
        (("reason",), "because"),
        (("started_at",), "2026-11-20T09:13:00+01:00"),
        (("duration_seconds",), 3),
        (("metrics", 6, "direction"), "up"),
        (("metrics", 6, "statistic"), "best"),
        (("metrics", 6, "value"), 3),
        (("raw", "sha256"), "g" * 64),
        (("raw", "sha256"), "0" * 63),
    ]
    return table


def mutated(place: tuple[Any, ...], value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(with_raw())
    inner: Any = changed
    for step in place[:-1]:
        inner = inner[step]
    if value is REMOVED:
        inner.pop(place[-1], None)
    else:
        inner[place[-1]] = value
    return changed


def accepted(path: Path) -> bool:
    try:
        return len(load([path]).records) == 1
    except BadInput:
        return False


def test_the_unchanged_record_is_valid_to_both(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(with_raw()), encoding="utf-8")
    assert accepted(path) is True
    assert RECORDS.is_valid(with_raw()) is True


def test_schema_and_reader_agree_on_every_mutation(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    disagree = []
    verdicts = set()
    for place, value in mutations():
        changed = mutated(place, value)
        path.write_text(json.dumps(changed), encoding="utf-8")
        # No schema counts the nodes.
        miscounted = place == ("node_count",) and value is not None
        by_schema = RECORDS.is_valid(changed) and not miscounted
        verdicts.add(by_schema)
        if by_schema != accepted(path):
            disagree.append((place, value, by_schema))
    assert disagree == []
    assert verdicts == {True, False}


@parametrized(("changes", "valid"))
def test_schema_and_reader_agree_on_outcomes(
    tmp_path: Path, changes: dict[str, Any], *, valid: bool
) -> None:
    changed = made.record(**changes)
    path = tmp_path / "a.json"
    path.write_text(json.dumps(changed), encoding="utf-8")
    assert RECORDS.is_valid(changed) is valid
    assert accepted(path) is valid


def test_the_table_holds_what_the_record_says(tmp_path: Path) -> None:
    results = made.write(
        tmp_path, [made.record(ranks=2, threads=4, nodes=["b", "a"], node_count=2)]
    )
    loaded = load([results])
    row = {name: loaded.values(name)[0] for name in loaded.records}
    assert (row["nodes"], row["cores"], row["node_count"]) == ("b+a", 8, 2)
    assert row["parameters"]["layout"] == "2x4"
    assert row["command"] == ["python", "-m", "made"]
    assert row["provenance"] == "measured"
    assert row["source"] == str(results / made.RUN_ID / "0000.json")
    figures = as_figures(loaded.figures)
    assert len(figures) == 6
    first = figures[0]
    assert (first.name, first.value, first.unit, first.n) == ("run_time", 10.0, "s", 3)
    assert first.message_bytes is None


def test_one_bad_file_among_a_thousand_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    results = made.write(
        tmp_path, [made.record(float(second), case=f"case-{second}") for second in range(1, 1000)]
    )
    bad = results / made.RUN_ID / "0500.json"
    bad.write_text(bad.read_text(encoding="utf-8")[:-40], encoding="utf-8")
    loaded = load([results])
    assert len(loaded.records) == 998
    assert [item.path for item in loaded.excluded] == [str(bad)]
    assert "truncated" in loaded.excluded[0].reason


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"null",
        b'{"a": NaN}',
        b"[" * 100_000,
        b'{"schema": "trueup.record/9"}',
    ],
)
def test_garbage_is_excluded_with_a_reason(tmp_path: Path, content: bytes) -> None:
    results = made.write(tmp_path, [made.record()])
    (results / made.RUN_ID / "z.json").write_bytes(content)
    loaded = load([results])
    assert len(loaded.records) == 1
    assert [Path(item.path).name for item in loaded.excluded] == ["z.json"]
    assert loaded.excluded[0].reason != ""


def test_machines_that_configured_themselves_are_one_run(tmp_path: Path) -> None:
    """A folder of a run with one for each machine, as a container of Blob storage has them."""
    told = {
        "nodes_0": {
            "started_at": "2026-11-23T14:00:00Z",
            "finished_at": "2026-11-23T14:30:00Z",
            "count": 1,
            "failed_in": {},
            "warnings": ["the same"],
        },
        "nodes_1": {
            "started_at": "2026-11-23T14:01:00Z",
            "finished_at": "2026-11-23T14:20:00Z",
            "count": 2,
            "failed_in": {"nodes_1": "devito"},
            "warnings": ["the same", "another"],
        },
    }
    for name, more in told.items():
        written = write_record(str(tmp_path / name), made.record(nodes=[name]))
        folder = tmp_path / "records" / made.RUN_ID / name
        folder.parent.mkdir(parents=True, exist_ok=True)
        Path(written).parent.rename(folder)
        manifest = {"schema": "trueup.run/1", "run_id": made.RUN_ID, "expected": [name], **more}
        manifest["hosts"] = {name: {"ok": 3}}
        (folder / "run.json").write_text(json.dumps(manifest), encoding="utf-8")
    both = {
        "schema": "trueup.run/1",
        "run_id": made.RUN_ID,
        "expected": ["nodes_0", "nodes_1"],
        "started_at": "2026-11-23T14:00:00Z",
        "finished_at": "2026-11-23T14:30:00Z",
        "count": 2,
        "failed_in": {"nodes_1": "devito"},
        "warnings": ["the same", "another"],
        "hosts": {"nodes_0": {"ok": 3}, "nodes_1": {"ok": 3}},
    }
    for source in (tmp_path / "records", tmp_path / "records" / made.RUN_ID):
        loaded = load([source])
        assert (loaded.runs, loaded.excluded) == ([both], [])
        assert sorted(loaded.values("nodes")) == ["nodes_0", "nodes_1"]
    # One that goes on, or was stopped: the run has not ended.
    later = tmp_path / "records" / made.RUN_ID / "nodes_0" / "run.json"
    later.write_text(json.dumps({**json.loads(later.read_text()), "finished_at": None}))
    assert load([tmp_path / "records"]).runs[0]["finished_at"] is None


def test_of_two_manifests_of_the_same_nodes_the_later_counts(tmp_path: Path) -> None:
    write_record(str(tmp_path / "one"), made.record())
    for name, where in (("one", "rdma"), ("two", None)):
        folder = tmp_path / name / made.RUN_ID
        folder.mkdir(parents=True, exist_ok=True)
        manifest = {"schema": "trueup.run/1", "run_id": made.RUN_ID, "expected": ["a", "b"]}
        manifest["failed_in"] = {"a": where} if where else {}
        (folder / "run.json").write_text(json.dumps(manifest), encoding="utf-8")
    assert load([tmp_path / "one", tmp_path / "two"]).runs[0]["failed_in"] == {}


def test_manifests_are_read_and_bad_ones_excluded(tmp_path: Path) -> None:
    results = made.write(tmp_path, [made.record()])
    manifest = {"schema": "trueup.run/1", "run_id": made.RUN_ID, "finished_at": None}
    (results / made.RUN_ID / "run.json").write_text(json.dumps(manifest), encoding="utf-8")
    assert load([results]).runs == [manifest]
    (results / made.RUN_ID / "run.json").write_text('{"schema": "other"}', encoding="utf-8")
    again = load([results])
    assert again.runs == []
    assert [item.reason for item in again.excluded] == ["not a trueup.run/1 object"]


def test_hidden_and_foreign_files_are_not_records(tmp_path: Path) -> None:
    results = made.write(tmp_path, [made.record()])
    run = results / made.RUN_ID
    (run / ".half.tmp").write_text("{", encoding="utf-8")
    (run / "0000.raw.txt").write_text("{", encoding="utf-8")
    (results / "notes.txt").write_text("remember", encoding="utf-8")
    loaded = load([results])
    assert (len(loaded.records), loaded.excluded) == (1, [])


def test_a_link_that_loops_is_excluded_and_the_rest_is_read(tmp_path: Path) -> None:
    results = made.write(tmp_path, [made.record()])
    other = results / "another-name"
    other.mkdir()
    loops = [
        results / "loop",
        results / "20261120T091300Z-ffff",
        results / made.RUN_ID / "run.json",
        results / made.RUN_ID / "z.json",
        other / "run.json",
    ]
    for link in loops:
        link.symlink_to(link)
    loaded = load([results])
    assert len(loaded.records) == 1
    assert {(item.path, item.reason) for item in loaded.excluded} == {
        (str(link if link.parent != other else other), os.strerror(errno.ELOOP)) for link in loops
    }
    with pytest.raises(BadInput, match=os.strerror(errno.ELOOP)):
        load([loops[0]])


@pytest.mark.parametrize("number", [errno.ESTALE, errno.EACCES, errno.EIO])
def test_an_entry_that_cannot_be_looked_at_is_excluded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    results = made.write(tmp_path, [made.record()])
    for name in ("stale", "notes"):
        (results / name).mkdir()
    look = os.stat

    def refuse(path: Any, *args: Any, **options: Any) -> os.stat_result:
        if str(path).endswith("stale/run.json"):
            raise OSError(number, os.strerror(number), path)
        return look(path, *args, **options)

    monkeypatch.setattr(os, "stat", refuse)
    loaded = load([results])
    assert len(loaded.records) == 1
    assert [(item.path, item.reason) for item in loaded.excluded] == [
        (str(results / "stale"), os.strerror(number))
    ]


def test_a_record_given_twice_counts_once(tmp_path: Path) -> None:
    results = made.write(tmp_path / "results", [made.record(), made.record(5.0, threads=2)])
    pack(load([results]), tmp_path / "all.parquet")
    loaded = load([results, results / made.RUN_ID, tmp_path / "all.parquet"])
    assert len(loaded.records) == 2
    assert loaded.figures["record"].unique().tolist() == [0, 1]
    assert loaded.notes == [
        "2 records equal in every field and figure to another one: copies count once."
    ]


def test_two_results_are_never_one(tmp_path: Path) -> None:
    """Records that agree in run, case, nodes and times, and differ in anything else."""
    one = with_raw()
    others: list[dict[str, Any]] = [
        {"outcome": "failed", "reason": "killed"},
        {"outcome": "invalid", "reason": "norms differ"},
        {"vm_size": "Standard_HB176rs_v4"},
        {"region": "westeurope"},
        {"offer": "spot"},
        {"ranks": 2},
        {"gpus": None},
        {"parameters": {**one["parameters"], "binding": "numa"}},
        {"command": ["another"]},
        {"environment": {}},
        {"software": {"devito": "4.8.24"}},
        {"system": {"kernel": "6.8"}},
        {"metrics": one["metrics"][:-1]},
        {"metrics": [{**one["metrics"][0], "value": 9.999999}, *one["metrics"][1:]]},
        {"metrics": one["metrics"][::-1]},
        {"raw": {**one["raw"], "sha256": "1" * 64}},
    ]
    results = made.write(tmp_path, [one, *({**one, **other} for other in others), one])
    loaded = load([results])
    assert loaded.excluded == []
    assert len(loaded.records) == 1 + len(others)
    assert loaded.notes == [
        "1 record equal in every field and figure to another one: copies count once."
    ]


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (1, 0, 2), (2, 1, 0), (1, 2, 0)])
def test_a_record_of_the_fact_cache_is_that_of_the_folder(
    tmp_path: Path, order: tuple[int, ...]
) -> None:
    """The cache has no raw output; two raw outputs are two results."""
    one = with_raw()
    copies = [{**one, "raw": None}, one, {**one, "raw": {**one["raw"], "sha256": "1" * 64}}]
    results = made.write(tmp_path, [copies[place] for place in order])
    assert len(load([results]).records) == 2


def same(one: Loaded, other: Loaded) -> bool:
    held = [
        (
            [item.values(name) for name in item.records],
            [
                (row.record, *figure)
                for row, figure in zip(
                    item.figures.itertuples(), as_figures(item.figures), strict=True
                )
            ],
            *(item.excluded, item.runs, item.notes),
        )
        for item in (one, other)
    ]
    return held[0] == held[1]


def test_a_packed_file_reads_back_identically(tmp_path: Path) -> None:
    failed = made.record(case="bad", outcome="failed", reason="killed", metrics=[], region=None)
    results = made.write(tmp_path / "results", [with_raw(), failed, made.record(vm_size=None)])
    (results / made.RUN_ID / "z.json").write_text("{}", encoding="utf-8")
    loaded = load([results, ROOT / "catalog" / "reference_results.csv"])
    pack(loaded, tmp_path / "all.parquet")
    assert same(loaded, load([tmp_path / "all.parquet"])) is True
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_packing_where_no_file_can_be_is_a_known_error(tmp_path: Path) -> None:
    loaded = load([made.write(tmp_path / "results", [made.record()])])
    with pytest.raises(BadInput, match=r"could not be written"):
        pack(loaded, tmp_path / "no" / "all.parquet")


def test_a_foreign_parquet_file_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"a": [1]}), path)
    with pytest.raises(BadInput, match=r"x\.parquet is not a file that `trueup pack` wrote"):
        load([path])


@pytest.mark.parametrize("folded", [True, False])
def test_a_packed_file_that_is_vast_when_unpacked_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, folded: bool
) -> None:
    path = tmp_path / "x.parquet"
    pack(load([made.write(tmp_path / "r", [made.record()])]), path)
    monkeypatch.setattr(packed, "_MOST_BYTES_OF_SMALL", 10**7)
    text = pa.array(["x" * 900 * 1024]).take(pa.array([0] * 100))

    def many(figures: pa.Table, records: pa.Table, rest: dict[str, Any]) -> tuple[Any, ...]:
        place = records.schema.get_field_index("reason")
        return figures, pa.concat_tables([records] * 100).set_column(place, "reason", text), rest

    forge(path, many, use_dictionary=folded, dictionary_pagesize_limit=2**24)
    assert path.stat().st_size * packed._MOST_TIMES < text.nbytes
    arrow = pa.default_memory_pool()
    counting = pa.proxy_memory_pool(arrow)
    pa.set_memory_pool(counting)
    try:
        with pytest.raises(BadInput, match=r"more than 0\.0 GiB when it is unpacked"):
            load([path])
    finally:
        pa.set_memory_pool(arrow)
    assert counting.max_memory() < 10**7


@pytest.mark.parametrize("folder", ["fact_cache_core_2_19", "fact_cache_core_2_18"])
def test_a_fact_cache_gives_its_records_and_nothing_else(folder: str) -> None:
    loaded = load([DATA / folder])
    assert loaded.values("case") == ["acoustic-so8-r1t2", "acoustic-so8-r1t4"]
    assert loaded.values("cores") == [2, 4]
    assert loaded.excluded == []
    assert [Path(source).name.split("#")[1] for source in loaded.values("source")] == [
        "trueup_devito",
        "trueup_devito",
    ]


def test_an_invalid_record_in_a_fact_cache_is_named_with_its_key(tmp_path: Path) -> None:
    facts = {"trueup_devito": made.record(ranks=0), "trueup_stream": made.record()}
    (tmp_path / "node.example.com").write_text(json.dumps(facts), encoding="utf-8")
    loaded = load([tmp_path])
    assert len(loaded.records) == 1
    assert [item.path for item in loaded.excluded] == [
        f"{tmp_path / 'node.example.com'}#trueup_devito"
    ]


@pytest.mark.parametrize("name", ["missing", "empty"])
def test_nothing_to_read_says_what_to_do(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInput, match=r"make run"):
        load([tmp_path / name])


def test_raw_outputs_are_verified_on_demand(tmp_path: Path) -> None:
    made_record = made.record()
    paths = [
        Path(write_record(str(tmp_path), {**made_record, "case": f"c{number}"}, raw="out"))
        for number in range(3)
    ]
    raws = [path.with_name(path.name.replace(".json", ".raw.txt")) for path in paths]
    loaded = load([tmp_path])
    assert verify(loaded) == []
    assert loaded.values("raw_sha256") == [hashlib.sha256(b"out").hexdigest()] * 3
    raws[1].write_text("other", encoding="utf-8")
    raws[2].unlink()
    problems = verify(loaded)
    assert [item.path for item in problems] == [str(paths[1]), str(paths[2])]
    assert "sha256" in problems[0].reason
    assert "No such file" in problems[1].reason


def test_no_raw_output_is_read_but_a_file_beside_its_record(tmp_path: Path) -> None:
    record = Path(write_record(str(tmp_path), made.record(), raw="out"))
    raw = record.with_name(record.name.replace(".json", ".raw.txt"))
    loaded = load([tmp_path])
    raw.rename(tmp_path / "elsewhere")
    raw.symlink_to(tmp_path / "elsewhere")
    assert "Too many levels" in verify(loaded)[0].reason
    raw.unlink()
    os.mkfifo(raw)
    assert "not a regular file" in verify(loaded)[0].reason


@pytest.mark.parametrize("path", ["/etc/passwd", "../x.txt", "a/b", "..", "./x.txt", "a\0b"])
def test_a_raw_output_elsewhere_is_refused(tmp_path: Path, path: str) -> None:
    results = made.write(tmp_path, [made.record(raw={"path": path, "sha256": "0" * 64})])
    with pytest.raises(BadInput, match="is not the name of a file beside the record"):
        load([results])


@parametrized(("before", "after", "name"))
def test_a_name_that_stands_twice_is_refused(
    tmp_path: Path, before: str, after: str, name: str
) -> None:
    results = made.write(tmp_path, [made.record(), made.record(case="other")])
    path = results / made.RUN_ID / "0001.json"
    text = json.dumps(json.loads(path.read_text(encoding="utf-8")))
    assert before in text
    path.write_text(text.replace(before, after, 1), encoding="utf-8")
    loaded = load([results])
    assert [item.path for item in loaded.excluded] == [str(path)]
    assert loaded.excluded[0].reason == f"{name} is given twice in one object"


def test_marks_of_json_in_a_text_are_no_names(tmp_path: Path) -> None:
    record = made.record(command=["sh", "-c", 'echo "a": "b" : c'], parameters={'k"': 'v":'})
    assert load([made.write(tmp_path, [record])]).excluded == []


@parametrized(("figure", "reason"))
def test_a_unit_that_records_do_not_have_is_refused(
    tmp_path: Path, figure: dict[str, Any], reason: str
) -> None:
    results = made.write(tmp_path, [made.record(metrics=[figure]), made.record()])
    assert [reason in item.reason for item in load([results]).excluded] == [True]


def test_more_nodes_than_are_named_are_refused(tmp_path: Path) -> None:
    results = made.write(tmp_path, [made.record(nodes=["a"], node_count=2), made.record()])
    reasons = [item.reason for item in load([results]).excluded]
    assert ["node_count is 2, and nodes names 1" in reason for reason in reasons] == [True]


def _spoilt(name: str, value: Any) -> Any:
    """Forges the second record, or with ``figure.x`` its run time."""

    def change(figures: pa.Table, records: pa.Table, rest: dict[str, Any]) -> tuple[Any, ...]:
        rows = [figures.to_pylist(), records.to_pylist()]
        time = next(row for row in rows[0] if (row["record"], row["figure"]) == (1, "run_time"))
        column = name.removeprefix("figure.")
        (rows[1][1] if column == name else time)[column] = value
        return *(pa.Table.from_pylist(each, figures.schema) for each in rows), rest

    return change


@parametrized(("name", "value", "said"))
def test_a_packed_file_is_held_to_what_a_record_is(
    tmp_path: Path, name: str, value: Any, said: str
) -> None:
    loaded = load([made.write(tmp_path / "r", [made.record(), made.record(case="other")])])
    pack(loaded, tmp_path / "x.parquet")
    forge(tmp_path / "x.parquet", _spoilt(name, value))
    with pytest.raises(BadInput) as refused:
        load([tmp_path / "x.parquet"])
    assert f"x.parquet holds what no record can hold: {said}" in str(refused.value)


def test_published_results_become_cases() -> None:
    loaded = load([ROOT / "catalog" / "reference_results.csv"])
    benchmarks = loaded.values("benchmark")
    assert (benchmarks.count("devito"), benchmarks.count("vllm")) == (13, 12)
    assert "measured" not in loaded.values("provenance")
    assert re.match(r"reference_results\.csv: \d+ rows of \d+ other benchmarks", loaded.notes[0])


@parametrized(("change", "message"))
def test_a_spoilt_reference_table_is_refused_with_the_line(
    tmp_path: Path, change: tuple[str, str], message: str
) -> None:
    text = (ROOT / "catalog" / "reference_results.csv").read_text(encoding="utf-8")
    path = tmp_path / "r.csv"
    path.write_text(text.replace(*change, 1), encoding="utf-8")
    with pytest.raises(BadInput, match=message):
        load([path])
