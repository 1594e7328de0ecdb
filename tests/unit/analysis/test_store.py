"""A store: runs packed by day, read back as they were, and never at the cost of a record."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import made
import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from forged import forge
from helpers import parametrized
from trueup_analysis import packed, store
from trueup_analysis.cases import as_figures
from trueup_analysis.figures.compare import year
from trueup_analysis.load import Loaded, load, pack
from trueup_node.errors import BadInput

DAYS = ("2026-11-18", "2026-11-19", "2026-11-20")


def run_of(day: str, number: int = 0) -> str:
    return f"{day.replace('-', '')}T09{number:02d}00Z-00aa"


def a_run(day: str, number: int = 0) -> list[dict[str, Any]]:
    """Two nodes, a record with rows at sizes and of devices, and one that failed."""
    metrics = [
        {"name": "busbw", "value": 4e9 + size, "unit": "byte/s", "direction": "higher"}
        | {"message_bytes": size, "device": f"gpu{size}", "statistic": "single", "n": 1}
        for size in (9, 1, 5)
    ]
    common = {"run_id": run_of(day, number), "started_at": f"{day}T09:{number:02d}:30Z"}
    return [
        made.record(10.0 + number, **common, nodes=["n-1"]),
        made.record(11.0 + number, **common, nodes=["n-2"], raw={"path": "a", "sha256": "1" * 64}),
        made.record(**common, nodes=["n-1", "n-2"], node_count=2, benchmark="nccl")
        | {"case": "all_reduce", "metrics": metrics},
        made.record(**common, case="bad", outcome="failed", reason="killed", metrics=[]),
    ]


@pytest.fixture(name="results")
def _results(tmp_path: Path) -> Path:
    results = tmp_path / "results"
    for day in DAYS:
        run = made.write(results, a_run(day)) / run_of(day)
        manifest = {"schema": "trueup.run/1", "run_id": run_of(day), "expected": ["n-1", "n-2"]}
        (run / "run.json").write_text(json.dumps(manifest | {"count": 1}), encoding="utf-8")
    return results


def record_of(loaded: Loaded, number: int) -> dict[str, Any]:
    """A loaded record in the form of its JSON file."""
    row: dict[str, Any] = {name: loaded.values(name)[number] for name in loaded.records}
    names = row["nodes"].split("+") if row["node_count"] != 1 else [row["nodes"]]
    raw = row["raw_path"] and {
        "path": os.path.basename(row["raw_path"]),
        "sha256": row["raw_sha256"],
    }
    figures = as_figures(loaded.figures[loaded.figures["record"] == number])
    same = {
        name: value
        for name, value in row.items()
        if name not in {"nodes", "cores", "raw_path", "raw_sha256", "source", "provenance"}
    }
    metrics = [figure.as_row() for figure in figures]
    return {"schema": "trueup.record/1", **same, "nodes": names, "raw": raw, "metrics": metrics}


def text_of(record: Any) -> bytes:
    return msgspec.json.encode(record, order="sorted")


def test_a_record_is_the_same_bytes_after_packing(tmp_path: Path, results: Path) -> None:
    store.pack_days([results], tmp_path / "store")
    loaded = load([tmp_path / "store"])
    assert len(loaded.records) == 12
    files = map(Path, loaded.values("source"))
    written = [text_of(json.loads(path.read_bytes())) for path in files]
    assert [text_of(record_of(loaded, number)) for number in range(12)] == written


def test_columns_are_typed_and_sorted_for_readers_of_one_figure(
    tmp_path: Path, results: Path
) -> None:
    store.pack_days([results], tmp_path / "store")
    path = tmp_path / "store" / "2026-11-19.parquet"
    rows = pq.read_table(path, filters=pc.field("figure") == "busbw").to_pylist()
    assert [row["message_bytes"] for row in rows] == [1, 5, 9]
    assert {row["node"] for row in rows} == {"n-1+n-2"}
    kinds = {field.name: field.type for field in pq.read_schema(path)}
    text = pa.dictionary(pa.int32(), pa.string())
    assert {kinds[name] for name in ("node", "benchmark", "figure", "unit", "statistic")} == {text}
    assert (kinds["value"], kinds["message_bytes"], kinds["n"]) == (
        *(pa.float64(), pa.int64(), pa.int64()),
    )


def test_a_day_has_a_file_and_its_manifests(tmp_path: Path, results: Path) -> None:
    done = store.pack_days([results], tmp_path / "store")
    assert [day.path.name for day in done.days] == [f"{day}.parquet" for day in DAYS]
    assert [(day.records, day.added) for day in done.days] == [(4, 4)] * 3
    assert [run["run_id"] for run in load([tmp_path / "store"]).runs] == list(map(run_of, DAYS))


def test_a_second_time_adds_new_runs_alone(tmp_path: Path, results: Path) -> None:
    folder = tmp_path / "store"
    store.pack_days([results], folder)
    before = {path.name: path.stat().st_ino for path in folder.iterdir()}
    made.write(results, a_run(DAYS[1], 30))
    done = store.pack_days([results], folder)
    assert [day.added for day in done.days] == [0, 4, 0]
    after = {path.name: path.stat().st_ino for path in folder.iterdir()}
    assert {name for name in before if after[name] != before[name]} == {f"{DAYS[1]}.parquet"}
    assert len(load([folder]).records) == 16


def test_runs_whose_folders_are_gone_stay(tmp_path: Path, results: Path) -> None:
    folder = tmp_path / "store"
    store.pack_days([results], folder)
    other = made.write(tmp_path / "other", a_run(DAYS[1], 30))
    assert [day.added for day in store.pack_days([other], folder).days] == [4]
    assert len(load([folder / f"{DAYS[1]}.parquet"]).records) == 8


def test_only_the_days_that_are_meant_are_read(tmp_path: Path, results: Path) -> None:
    store.pack_days([results], tmp_path / "store")
    loaded = load([tmp_path / "store"], runs={run_of(DAYS[2])})
    assert set(loaded.values("run_id")) == {run_of(DAYS[2])}
    assert [day.path.name for day in loaded.stored] == [f"{day}.parquet" for day in DAYS[:2]]
    assert len(loaded.runs) == 3


def test_a_command_shows_the_last_run_of_a_store_as_of_a_folder(
    call_trueup: Any, tmp_path: Path, results: Path
) -> None:
    store.pack_days([results], tmp_path / "store")
    ways: list[tuple[str, ...]] = [(), ("--run", run_of(DAYS[0])), ("--since", DAYS[1]), ("--all",)]
    for options in ways:
        both = [
            call_trueup("list", source, *options, "--format", "json")
            for source in (results, tmp_path / "store")
        ]
        assert (both[0].status, both[0].out) == (both[1].status, both[1].out)
        assert options[:1] == ("--since",) or both[0].err == both[1].err


def test_packing_days_says_how_many_and_is_quiet_the_second_time(
    call_trueup: Any, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(results.parent)
    done = call_trueup("pack", "--by-day")
    assert (done.status, done.err) == (0, "12 records added to 3 days in store.\n")
    done = call_trueup("pack", "--by-day", "--since", DAYS[2])
    assert (done.status, done.err) == (0, "0 records added to 1 day in store.\n")


def test_a_part_of_a_day_is_not_packed(call_trueup: Any, results: Path) -> None:
    done = call_trueup("pack", results, "--by-day", "--node", "n-1")
    assert (done.status, "--by-day packs whole days" in done.err) == (1, True)


@pytest.mark.parametrize("damage", ["cut", "flipped", "foreign", "renumbered", "another record"])
def test_a_damaged_day_is_named_and_never_replaced(
    call_trueup: Any, tmp_path: Path, results: Path, damage: str
) -> None:
    folder = tmp_path / "store"
    store.pack_days([results], folder)
    path = folder / f"{DAYS[1]}.parquet"
    content = path.read_bytes()
    if damage == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "flipped":
        column = pq.ParquetFile(path).metadata.row_group(0).column(3)
        place = column.dictionary_page_offset + column.total_compressed_size - 2
        path.write_bytes(content[:place] + bytes([content[place] ^ 64]) + content[place + 1 :])
    elif damage == "foreign":
        pq.write_table(pa.table({"a": [1]}), path)
    else:
        name = "place" if damage == "renumbered" else "record"

        def change(figures: pa.Table, records: pa.Table, rest: Any) -> tuple[Any, ...]:
            last = pc.max(figures.column(name)).as_py()
            place = figures.schema.get_field_index(name)
            numbers = pa.array([last + 7] * len(figures), pa.int32())
            return figures.set_column(place, name, numbers), records, rest

        forge(path, change)
    damaged = path.read_bytes()
    done = call_trueup("list", folder, "--all", "--format", "json")
    assert (done.status, path.name in done.out + done.err) == (1, True)
    done = call_trueup("pack", results, "--by-day", "--output", folder)
    assert (done.status, str(path) in done.err) == (1, True)
    assert path.read_bytes() == damaged


def test_a_file_of_the_earlier_layout_names_the_command(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"run_id": ["x"], "metrics": [[1]]}), path)
    with pytest.raises(BadInput, match=r"packed by an earlier release: `trueup pack RESULTS --out"):
        load([path])


def test_a_file_that_does_not_read_back_is_not_put_in_place(
    tmp_path: Path, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = load([results])
    path = tmp_path / "x.parquet"
    pack(loaded, path)
    before = path.read_bytes()
    monkeypatch.setattr(packed, "_order", lambda held: list(range(len(held.figures) - 1)))
    with pytest.raises(BadInput, match=r"x\.parquet"):
        pack(loaded, path)
    assert path.read_bytes() == before
    assert sorted(each.name for each in tmp_path.iterdir()) == ["results", "x.parquet"]


_KILLED = """
import os, signal, sys
from pathlib import Path
from trueup_analysis import packed, store
packed.os.fsync = lambda number: os.kill(os.getpid(), signal.SIGKILL)
store.pack_days([Path(sys.argv[1])], Path(sys.argv[2]))
"""


def test_a_kill_leaves_the_day_as_it_was(tmp_path: Path, results: Path) -> None:
    folder = tmp_path / "store"
    store.pack_days([results], folder)
    path = folder / f"{DAYS[1]}.parquet"
    before = path.read_bytes()
    made.write(results, a_run(DAYS[1], 30))
    killed = subprocess.run([sys.executable, "-c", _KILLED, results, folder], check=False)
    assert (killed.returncode, path.read_bytes() == before) == (-signal.SIGKILL, True)
    assert [day.added for day in store.pack_days([results], folder).days] == [0, 4, 0]
    assert sorted(each.name for each in folder.iterdir()) == [f"{day}.parquet" for day in DAYS]


def test_an_unreadable_record_is_named_until_it_is_mended(
    call_trueup: Any, tmp_path: Path, results: Path
) -> None:
    bad = results / run_of(DAYS[1]) / "z.json"
    bad.write_text("{}", encoding="utf-8")
    folder = tmp_path / "store"
    for _ in range(2):
        done = call_trueup("pack", results, "--by-day", "-o", folder)
        assert (done.status, done.err.count("z.json")) == (1, 1)
    assert [item.path for item in load([folder]).excluded] == [str(bad)]
    bad.unlink()
    assert call_trueup("pack", results, "--by-day", "-o", folder).status == 0
    assert load([folder]).excluded == []


def planted_year(folder: Path) -> Path:
    """Twelve days of six nodes: a kernel that slows all, and one slow disk."""
    scatter = random.Random(3)
    level: dict[Any, float] = {}
    records = []
    for day, node in itertools.product(range(1, 13), range(6)):
        slow = 0.9 if day >= 8 else 1.0
        rows = []
        for name, device, size, statistics in (
            *(("triad_rate", None, None, ("median", "min", "max")),),
            *(("busbw", None, size, (None,)) for size in (8, 1024)),
            *(("read_bandwidth", f"nvme{disk}n1", None, (None,)) for disk in range(4)),
        ):
            steady = level.setdefault((name, device, size, node), scatter.gauss(1, 0.01))
            value = 1e9 * steady * scatter.gauss(1, 0.004) * (slow if size != 8 else 1.0)
            if (device, node) == ("nvme2n1", 4) and day >= 5:
                value *= 0.5
            for statistic in statistics:
                factor = {"min": 0.99, "max": 1.01}.get(str(statistic), 1.0)
                row = {"name": name, "value": value * factor, "unit": "byte/s"}
                more = {"device": device, "message_bytes": size, "statistic": statistic}
                more |= {"n": 5 if statistic else None, "direction": "higher"}
                rows.append(row | {key: each for key, each in more.items() if each is not None})
        date = f"2026-11-{day:02d}"
        common = {"run_id": run_of(date), "started_at": f"{date}T09:00:30Z"}
        common |= {"nodes": [f"n-{node}"], "system": {"kernel": "6.8" if day >= 8 else "5.15"}}
        for benchmark, names in (("stream", {"triad_rate"}), ("nccl", {"busbw"}), ("fio", None)):
            metrics = [row for row in rows if row["name"] in (names or {"read_bandwidth"})]
            records.append(
                made.record(**common, metrics=metrics) | {"benchmark": benchmark, "case": "all"}
            )
    return made.write(folder, records)


@parametrized("words")
def test_a_store_gives_the_same_answer_as_the_records(
    call_trueup: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    results = planted_year(tmp_path / "results")
    store.pack_days([results], tmp_path / "store")
    # The figures of this store are then read in seven parts.
    monkeypatch.setattr(year, "_ROWS", 100)
    both = [
        call_trueup(*words, source, "--format", "json") for source in (results, tmp_path / "store")
    ]
    assert both[0].status in {0, 1}
    assert (both[1].status, both[1].out) == (both[0].status, both[0].out)


def test_the_history_of_a_store_finds_what_was_planted(call_trueup: Any, tmp_path: Path) -> None:
    store.pack_days([planted_year(tmp_path / "results")], tmp_path / "store")
    done = call_trueup("history", tmp_path / "store", "--format", "json")
    rows = json.loads(done.out)["tables"][0]["rows"]
    assert {(row["run"][:8], row["metric"]) for row in rows} >= {
        ("20261105", "read_bandwidth"),
        ("20261108", "triad_rate"),
        ("20261108", "busbw"),
    }
    triad = next(row for row in rows if row["metric"] == "triad_rate")
    assert triad["settings"] == "kernel 5.15 to 6.8"


def test_an_unknown_figure_is_named(call_trueup: Any, tmp_path: Path) -> None:
    results = planted_year(tmp_path / "results")
    store.pack_days([results], tmp_path / "store")
    for source in (results, tmp_path / "store"):
        done = call_trueup("history", source, "--figure", "busbww")
        assert (done.status, "--figure busbww: no record has such a figure" in done.err) == (
            1,
            True,
        )


def test_the_days_that_are_not_compared_are_opened_once(
    call_trueup: Any, tmp_path: Path, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "store"
    store.pack_days([results], folder)
    counts = {"opened": 0, "about": 0}

    def counting(name: str) -> Any:
        real = getattr(packed, name)

        def counted(path: Path) -> Any:
            counts[name] += path.name == f"{DAYS[0]}.parquet"
            return real(path)

        return counted

    for name in counts:
        monkeypatch.setattr(packed, name, counting(name))
    done = call_trueup("compare", DAYS[1], DAYS[2], "--results", folder)
    assert (done.status, counts) == (0, {"opened": 0, "about": 1})


@pytest.mark.parametrize("column", ["record", "place", "value"])
def test_a_history_refuses_a_day_of_figures_without_a_number(
    call_trueup: Any, tmp_path: Path, column: str
) -> None:
    folder = tmp_path / "store"
    store.pack_days([planted_year(tmp_path / "results")], folder)
    path = folder / "2026-11-06.parquet"

    def change(figures: pa.Table, records: pa.Table, rest: Any) -> tuple[Any, ...]:
        place = figures.schema.get_field_index(column)
        field = figures.schema.field(place)
        numbers = pa.array([None, *figures.column(place).to_pylist()[1:]], field.type)
        return figures.set_column(place, field, numbers), records, rest

    forge(path, change)
    done = call_trueup("history", folder)
    assert (done.status, path.name in done.err, "Traceback" in done.err) == (1, True, False)
