"""The Python API: each table is the command's, as pandas."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest
import recorded_runs as runs
import trueup
from helpers import parametrized

LATER = "20261221T091300Z-7c1e"
TABLES = ("cost", "scaling", "health", "compare")


def _again(run: runs.Run, run_id: str) -> runs.Run:
    """The run once more, as a later one."""
    records = tuple({**record, "run_id": run_id} for record in run.records)
    return replace(run, run_id=run_id, records=records, manifest={**run.manifest, "run_id": run_id})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Two runs of each tool's record, and a scaling run."""
    made = tmp_path_factory.mktemp("api")
    every = runs.every_tool()
    runs.write(made / "results", every)
    runs.write(made / "results", _again(every, LATER))
    runs.write(made / "scaling", runs.hbv3_scaling())
    return made


def _rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def _cell(value: Any) -> str:
    """A value as CSV holds it."""
    if value is None or value is pd.NA or (isinstance(value, float) and pd.isna(value)):
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text.removeprefix("'")


@parametrized(("name", "source", "options", "arguments"))
def test_a_table_is_that_of_the_command(
    call_trueup: Any,
    monkeypatch: pytest.MonkeyPatch,
    folder: Any,
    name: str,
    source: str,
    options: list[str],
    arguments: dict[str, Any],
) -> None:
    monkeypatch.chdir(folder)
    place = ["--results", source] if name == "compare" else [source]
    printed = _rows(call_trueup(name, *options, *place, "--format", "csv").out)
    frame = getattr(trueup.load(source), name)(**arguments)
    rows = [
        {key: _number(_cell(value)) for key, value in row.items()}
        for row in frame.astype("object").to_dict("records")
    ]
    expected = [{key: _number(value) for key, value in row.items()} for row in printed]
    assert rows == expected
    assert len(rows) > 1


def test_figures_are_those_of_the_records(folder: Any) -> None:
    results = trueup.load(folder / "results", run="all")
    figures = results.figures()
    written = [
        json.loads(path.read_text()) for path in sorted((folder / "results").glob("*/*.json"))
    ]
    records = [record for record in written if "metrics" in record]
    assert len(figures) == sum(len(record["metrics"]) for record in records)
    assert figures["value"].sum() == pytest.approx(
        sum(row["value"] for record in records for row in record["metrics"])
    )
    one = next(record for record in records if record["benchmark"] == "nccl")
    chosen = figures[(figures["run_id"] == one["run_id"]) & (figures["benchmark"] == "nccl")]
    largest = max(row["message_bytes"] for row in one["metrics"] if "message_bytes" in row)
    assert chosen["message_bytes"].max() == largest
    assert set(chosen["node"]) == {"+".join(one["nodes"])}


def test_columns_are_typed_and_units_stand_beside(folder: Any) -> None:
    results = trueup.load(folder / "results")
    types = results.figures().dtypes.astype(str)
    assert dict(types[["value", "message_bytes", "n", "node", "started_at"]]) == {
        "value": "float64",
        "message_bytes": "Int64",
        "n": "Int64",
        "node": "category",
        "started_at": "datetime64[us, UTC]",
    }
    records = results.records()
    assert isinstance(records["parameters"].iloc[0], dict)
    units = results.cost(region="eastus2").attrs["units"]
    assert (units["run_seconds"], units["usd_per_hour"], units["node_hours"]) == (
        "s",
        "US$/hour",
        "h",
    )
    field = results.arrow("cost", region="eastus2").schema.field("run_seconds")
    assert (str(field.type), field.metadata) == ("double", {b"unit": b"s"})


@pytest.mark.parametrize("table", ["records", "figures", *TABLES])
def test_arrow_has_the_rows_of_pandas(folder: Any, table: Any) -> None:
    results = trueup.load(folder / ("scaling" if table == "scaling" else "results"))
    options = {"region": "eastus2"} if table == "cost" else {}
    assert results.arrow(table, **options).num_rows == len(getattr(results, table)(**options))


def test_the_last_run_is_loaded_unless_others_are_named(folder: Any) -> None:
    source = folder / "results"
    last, every = trueup.load(source), trueup.load(source, run="all")
    assert set(last.records()["run_id"]) == {LATER}
    assert len(every.records()) == 2 * len(last.records())
    assert len(trueup.load(source, benchmark="nccl").records()) == 1
    assert any("left out" in note for note in last.notes)


@parametrized(("mistake", "message"))
def test_a_mistake_is_one_sentence(folder: Any, mistake: dict[str, Any], message: str) -> None:
    with pytest.raises(trueup.TrueupError, match=message):
        trueup.load(folder / "results", **mistake)


def test_a_file_that_cannot_be_read_is_named(folder: Any, tmp_path: Any) -> None:
    run = runs.write(tmp_path, runs.every_tool())
    (run / "cut.json").write_text('{"schema": "trueup.rec', encoding="utf-8")
    results = trueup.load(tmp_path)
    assert [path for path, _ in results.unread] == [str(run / "cut.json")]
    assert "1 file not read" in repr(results)
