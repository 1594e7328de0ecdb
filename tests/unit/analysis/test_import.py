"""``trueup import``: who has only logs gets records, which every other command reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from record_schema import RECORDS
from trueup import record as records
from trueup_analysis.read import nodes_of

DATA = Path(__file__).resolve().parents[2] / "data"
NCCL = DATA / "nccl" / "infiniband.txt"
SIZE = "Standard_ND96asr_v4"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return tmp_path / "results"


def made(results: Path) -> list[dict[str, Any]]:
    """The records of the only run."""
    [run] = results.iterdir()
    found = [record for _, record, _ in records.read_records(str(run)) if record]
    for record in found:
        RECORDS.validate(record)
    return found


def test_a_log_becomes_a_record(call_trueup: Any, results: Path) -> None:
    options = ("--size", SIZE.lower(), "--nodes", 2, "--region", "eastus", "--results", results)
    done = call_trueup("import", NCCL, *options)
    [record] = made(results)
    assert (done.status, record["outcome"], record["benchmark"]) == (0, "ok", "nccl")
    assert (record["vm_size"], record["region"], record["node_count"]) == (SIZE, "eastus", 2)
    assert record["nodes"] == ["infiniband.txt-1", "infiniband.txt-2"]
    assert (record["ranks"], record["gpus"]) == (4, 4)
    assert len(record["metrics"]) == 168
    [run] = results.iterdir()
    assert (run / record["raw"]["path"]).read_text() == NCCL.read_text()
    manifest = json.loads((run / "run.json").read_text())
    assert (manifest["count"], manifest["expected"]) == (1, record["nodes"])


def test_every_command_works_on_an_imported_log(
    call_trueup: Any, results: Path, tmp_path: Path
) -> None:
    where = ("--size", SIZE, "--region", "eastus", "--results", results)
    assert call_trueup("import", NCCL, "--nodes", 2, *where).status == 0
    assert call_trueup("import", DATA / "stream" / "stream510.txt", *where).status == 0
    listed = json.loads(call_trueup("list", results, "-f", "json").out)
    assert "infiniband.txt" in str(listed)
    assert "US$ per TB" in call_trueup("cost", results).out
    judged = json.loads(call_trueup("health", results, "--all", "-f", "json").out)
    assert {"no verdict", "not measured"} == {row["verdict"] for row in rows_in(judged)}
    assert call_trueup("scaling", results).status in {0, 1}
    report = tmp_path / "report"
    assert call_trueup("report", results, "-o", report).status == 0
    assert "infiniband.txt" in (report / "index.html").read_text(encoding="utf-8")


def rows_in(told: Any) -> list[dict[str, Any]]:
    """Every row with a verdict, wherever it stands in what JSON tells."""
    if isinstance(told, dict):
        below = [row for value in told.values() for row in rows_in(value)]
        return [told, *below] if isinstance(told.get("verdict"), str) else below
    return [row for value in told for row in rows_in(value)] if isinstance(told, list) else []


def test_what_could_not_be_verified_is_no_ok_record(
    call_trueup: Any, results: Path, tmp_path: Path
) -> None:
    lines = NCCL.read_text(encoding="utf-8").splitlines(keepends=True)
    pasted = tmp_path / "pasted.txt"
    pasted.write_text("".join(line for line in lines if not line.startswith("# nThread")))
    done = call_trueup("import", pasted, "--size", SIZE, "--results", results)
    [record] = made(results)
    assert (done.status, record["outcome"]) == (1, "failed")
    assert record["reason"].startswith("unverified: no ")


def test_what_failed_its_own_check_is_invalid(call_trueup: Any, results: Path) -> None:
    log = DATA / "nccl" / "wrong_values.txt"
    done = call_trueup("import", log, "--size", SIZE, "--results", results)
    [record] = made(results)
    assert (done.status, record["outcome"]) == (1, "invalid")
    assert record["reason"] == "its own check failed: values_correct"


REFUSED = [
    ((NCCL, "--size", "Standard_ND96asr_v44"), f"did you mean {SIZE}?"),
    ((NCCL, "--size", SIZE, "--nodes", 2, "--node", "a"), "--node names 1 different nodes"),
    ((NCCL, "--size", SIZE, "--nodes", 2, "--node", "a", "--node", "a"), "names 1 different"),
    ((NCCL, __file__, "--size", SIZE), "no known tool's output"),
    ((NCCL.with_name("none"), "--size", SIZE), "cannot be read"),
    ((NCCL, "--size", SIZE, "--region", "eastsu"), "did you mean eastus?"),
]


@pytest.mark.parametrize(("argv", "message"), REFUSED)
def test_nothing_is_written_of_what_is_refused(
    call_trueup: Any, results: Path, argv: tuple[object, ...], message: str
) -> None:
    done = call_trueup("import", *argv, "--results", results)
    assert (done.status, results.exists()) == (1, False)
    assert message in done.err
    assert "Traceback" not in done.err


def test_nodes_have_the_names_given_or_the_logs(call_trueup: Any, results: Path) -> None:
    options = ("--size", SIZE, "--nodes", 2, "--node", "a", "--node", "b", "--results", results)
    assert call_trueup("import", NCCL, NCCL, *options).status == 0
    assert [record["nodes"] for record in made(results)] == [["a", "b"], ["a", "b"]]
    assert nodes_of("/logs/job 7.log", 1) == ["job-7.log"]
    assert nodes_of("...", 1) == ["log"]


def test_the_verdicts_of_a_log_name_it(call_trueup: Any) -> None:
    told = json.loads(call_trueup("read", NCCL, "--size", SIZE, "-f", "json").out)
    nodes = {tuple(verdict["nodes"]) for item in told for verdict in item["verdicts"]}
    assert nodes == {("infiniband.txt",)}
