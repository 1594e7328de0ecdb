"""``trueup import``: who has only logs gets records, which every other command reads."""

from __future__ import annotations

import io
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from helpers import parametrized
from record_schema import RECORDS
from trueup_analysis.figures.imported import Place, labels
from trueup_node import record as records

DATA = Path(__file__).resolve().parents[2] / "data"
NCCL = DATA / "nccl" / "infiniband.txt"
NVLINK, WRONG = NCCL.with_name("nvlink.txt"), NCCL.with_name("wrong_values.txt")
OTHER = NCCL.with_name("old_layout.txt")
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
    assert (record["nodes"], record["case"]) == (["gpu-1", "gpu-2"], "all_reduce")
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
    assert "gpu-1+gpu-2" in str(listed)
    assert "US$ per TB" in call_trueup("cost", results).out
    judged = json.loads(call_trueup("health", results, "--all", "-f", "json").out)
    assert {"no verdict", "not measured"} == {row["verdict"] for row in rows_in(judged)}
    assert call_trueup("scaling", results).status in {0, 1}
    report = tmp_path / "report"
    assert call_trueup("report", results, "-o", report).status == 0
    assert "gpu-1+gpu-2" in (report / "index.html").read_text(encoding="utf-8")


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
    ((__file__, "--size", SIZE), "no known tool's output"),
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
    options = ("--size", SIZE, "--node", "a", "--node", "b", "--results", results)
    hpl = DATA / "hpl" / "nvidia_8gpu.txt"
    assert call_trueup("import", NCCL, hpl, *options).status == 0
    found = {record["case"]: (record["nodes"], record["node_count"]) for record in made(results)}
    assert found == {"all_reduce": (["a", "b"], 2), "n264192-nb1024-gpus8": (["a", "b"], 2)}
    assert labels([Place("/logs/job 7.log"), Place("...")], []) == ["job-7.log", "log"]


def test_the_verdicts_of_a_log_name_it(call_trueup: Any) -> None:
    told = json.loads(call_trueup("read", NCCL, "--size", SIZE, "-f", "json").out)
    nodes = {tuple(verdict["nodes"]) for item in told for verdict in item["verdicts"]}
    assert nodes == {("gpu-1", "gpu-2")}


@pytest.fixture
def logs(tmp_path: Path) -> list[Path]:
    """The logs of three nodes, all with one name; the second node failed."""
    found = []
    for number, log in enumerate((NVLINK, WRONG, OTHER), 1):
        folder = tmp_path / f"node0{number}"
        folder.mkdir()
        found.append(folder / "nccl.log")
        shutil.copy(log, found[-1])
        # Equal to the second, as files of one job may be.
        os.utime(found[-1], (1_800_000_000, 1_800_000_000))
    return found


def outcomes(results: Path) -> dict[str, str]:
    return {record["nodes"][0]: record["outcome"] for record in made(results)}


BY_NODE = {"node01": "ok", "node02": "invalid", "node03": "ok"}


def test_logs_of_one_name_are_as_many_nodes(
    call_trueup: Any, results: Path, logs: list[Path]
) -> None:
    done = call_trueup("import", *logs, "--size", SIZE, "--results", results)
    assert (done.status, outcomes(results)) == (1, BY_NODE)
    assert f"3 records written into {next(results.iterdir())}." in done.err
    listed = call_trueup("list", results, "-f", "json")
    assert [node in listed.out for node in BY_NODE] == [True] * 3
    assert "more than once" not in listed.err
    assert "fail: node02" in call_trueup("health", results).err


def test_logs_that_are_imported_one_after_the_other_are_one_run(
    call_trueup: Any, results: Path, logs: list[Path]
) -> None:
    where = ("--size", SIZE, "--results", results)
    assert [call_trueup("import", log, *where).status for log in logs] == [0, 1, 0]
    names = BY_NODE
    assert outcomes(results) == names
    listed = call_trueup("list", results, "-f", "json")
    assert ([node in listed.out for node in names], listed.err) == ([True] * 3, "")
    [run] = results.iterdir()
    manifest = json.loads((run / "run.json").read_text())
    assert (manifest["expected"], manifest["count"]) == (sorted(names), 1)
    assert call_trueup("import", NCCL, "--new-run", *where).status == 0
    later = call_trueup("list", results, "-f", "json")
    assert ("gpu-1+gpu-2" in later.out, "node02" in later.out) == (True, False)
    assert "the last of 2 runs; 1 other run left out" in later.err


def test_one_log_is_one_record_however_often_it_is_given(
    call_trueup: Any, results: Path, logs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    where = ("--size", SIZE, "--results", results)
    log = logs[0]
    done = call_trueup("import", log, log.parent / ".." / "node01" / "nccl.log", *where)
    assert (done.status, len(made(results))) == (0, 1)
    assert "is the same file as" in done.err
    again = call_trueup("import", log, *where)
    assert (again.status, len(made(results))) == (0, 1)
    assert "is already recorded in" in again.err
    assert "No record is new" in again.err
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(log.read_bytes())))
    assert call_trueup("import", "-", *where).status == 0
    assert len(made(results)) == 1
    other = call_trueup("import", log, *where, "--region", "eastus")
    assert (other.status, len(made(results))) == (1, 1)
    assert f"with vm_size {SIZE}; remove that file" in other.err
    # The same job once more: another measurement of the node.
    shutil.copy(OTHER, log)
    assert call_trueup("import", log, *where).status == 0
    assert [record["nodes"] for record in made(results)] == [["node01"]] * 2


def test_equal_texts_of_two_nodes_are_two(
    call_trueup: Any, results: Path, logs: list[Path]
) -> None:
    shutil.copy(logs[0], logs[2])
    done = call_trueup("import", logs[0], logs[2], "--size", SIZE, "--results", results)
    assert (done.status, outcomes(results)) == (0, {"node01": "ok", "node03": "ok"})
    assert f"warning: {logs[2]}: same text as {logs[0]}: they count as two nodes" in done.err


def test_standard_input_is_the_node_that_it_names_or_another_one(
    call_trueup: Any, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for log in (NVLINK, DATA / "hpl" / "xhpl23_two_tests.txt", DATA / "stream" / "stream510.txt"):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(log.read_bytes())))
        assert call_trueup("import", "-", "--size", SIZE, "--results", results).status == 0
    assert set(outcomes(results)) == {"gpu-1", "standard-input", "standard-input-2"}


@parametrized(("sources", "earlier", "expected"))
def test_no_two_logs_have_one_label(
    sources: list[str], earlier: list[tuple[str, str]], expected: list[str]
) -> None:
    assert labels([Place(source) for source in sources], earlier) == expected


COUNTS = ("node_count", "ranks", "threads_per_rank", "gpus")
OF_OTHER_SIZES = {
    "gpu_copy/nvbandwidth_0.4_one_gpu.txt": "Standard_NV36ads_A10_v5",
    "gemm/h100_4gpu.json": "Standard_ND96isr_H100_v5",
}
# Log, and what it says: nodes, ranks, threads of each, GPUs.
SAID = [
    ("nccl/infiniband.txt", (2, 4, None, 4)),
    ("vllm/published_pr18566.log", (None, None, None, None)),
    ("megatron/gpt_driver_one.log", (1, 1, None, 0)),
    ("hpl/nvidia_8gpu.txt", (None, 8, None, 8)),
    ("hpl/hpcc150_2ranks.txt", (None, 2, None, None)),
    ("stream/stream510.txt", (1, 1, 2, None)),
    ("gromacs/driver_mpi_r2t1.txt", (1, 2, 1, 0)),
    ("gpu_copy/nvbandwidth_0.4_one_gpu.txt", (1, None, None, 1)),
    ("gemm/h100_4gpu.json", (1, None, None, 4)),
    ("devito/driver_two_nodes.log", (2, 4, None, None)),
    ("devito/openmp.log", (None, None, None, None)),
    ("fio/fio333_two_groups.json", (1, None, None, None)),
]


@pytest.mark.parametrize(("log", "said"), SAID)
def test_what_a_log_does_not_say_is_unknown(
    call_trueup: Any, results: Path, log: str, said: tuple[int | None, ...]
) -> None:
    size = OF_OTHER_SIZES.get(log, SIZE)
    done = call_trueup("import", DATA / log, "--size", size, "--results", results)
    [record] = made(results)
    assert (done.status, tuple(record[name] for name in COUNTS)) == (0, said)
    assert (record["duration_seconds"], record["region"], record["offer"]) == (None, None, None)
    unknown = [name for name in COUNTS if f"note: {name} of 1 log is unknown" in done.err]
    assert unknown == [name for name, count in zip(COUNTS, said, strict=True) if count is None]
    assert record["system"]["from_options"] == "vm_size"


def test_a_record_says_what_the_user_said(call_trueup: Any, results: Path) -> None:
    more = ("--nodes", 3, "--region", "eastus", "--offer", "spot")
    log = DATA / "vllm" / "published_pr18566.log"
    assert call_trueup("import", log, "--size", SIZE, *more, "--results", results).status == 0
    [record] = made(results)
    assert record["system"] == {
        "imported_as": log.name,
        "imported_from": str(log),
        "from_options": "node_count vm_size region offer",
        "started_at_from": "time of the file",
    }
    assert (record["node_count"], len(record["nodes"]), record["offer"]) == (3, 3, "spot")


def test_tables_name_what_is_unknown(call_trueup: Any, results: Path, tmp_path: Path) -> None:
    where = ("--size", SIZE, "--region", "eastus", "--results", results)
    hpl = DATA / "hpl" / "nvidia_8gpu.txt"
    assert call_trueup("import", hpl, *where).status == 0
    cost = call_trueup("cost", results)
    assert (cost.status, cost.out) == (1, "")
    assert "does not say on how many nodes it ran, so it has no cost" in cost.err
    scaling = call_trueup("scaling", results)
    assert (scaling.status, scaling.out) == (1, "")
    assert "does not say its node count" in scaling.err
    # Beside one that says it, the others are priced.
    one_node = DATA / "gromacs" / "driver_mpi_r2t1.txt"
    assert call_trueup("import", one_node, *where).status == 0
    cost = call_trueup("cost", results, "-f", "json")
    assert (cost.status, "does not say on how many nodes" in cost.err) == (0, True)
    tables = json.loads(cost.out)["tables"]
    cases = {row["case"] for table in tables for row in table["rows"] if "case" in row}
    assert cases == {"atoms1530-dt_ps0.002-steps1000-mixed"}
    report = tmp_path / "report"
    assert call_trueup("report", results, "-o", report).status == 0
    assert "nvidia_8gpu" in (report / "index.html").read_text(encoding="utf-8")


def test_a_log_of_an_unknown_number_of_nodes_is_not_judged_as_one(call_trueup: Any) -> None:
    log = DATA / "hpl" / "nvidia_8gpu.txt"
    size = ("--size", SIZE, "-f", "json")
    [[verdict]] = [item["verdicts"] for item in json.loads(call_trueup("read", log, *size).out)]
    assert verdict["verdict"] == "no verdict"
    assert "it has an unknown number of nodes (--nodes gives it for a log)" in verdict["reason"]
    [[told]] = [
        item["verdicts"] for item in json.loads(call_trueup("read", log, *size, "--nodes", 1).out)
    ]
    assert "unknown" not in str(told["reason"])


def test_one_bad_log_keeps_no_other_from_being_imported(
    call_trueup: Any, results: Path, logs: list[Path], tmp_path: Path
) -> None:
    bad = {
        "missing.log": "No such file",
        "empty.log": "is empty",
        "binary.log": "is not a text file",
        "folder.log": "holds no file",
        "dangling.log": "No such file",
        "notes.txt": "no known tool's output",
    }
    (tmp_path / "empty.log").touch()
    (tmp_path / "binary.log").write_bytes(bytes(range(256)) * 40)
    (tmp_path / "folder.log").mkdir()
    (tmp_path / "dangling.log").symlink_to(tmp_path / "nowhere")
    (tmp_path / "notes.txt").write_text("ran it twice\n")
    names = [tmp_path / name for name in bad]
    done = call_trueup(
        "import", *names[:3], *logs, *names[3:], "--size", SIZE, "--results", results
    )
    assert (done.status, outcomes(results)) == (1, BY_NODE)
    for name, why in bad.items():
        [line] = [line for line in done.err.splitlines() if f"/{name}" in line]
        assert (line.startswith("trueup: error: "), why in line) == (True, True)
    assert done.err.splitlines()[-1] == "6 of 9 files could not be imported; the others were."
    read = call_trueup("read", *names, logs[0], "-f", "json")
    assert (read.status, len(json.loads(read.out))) == (1, 1)
    assert read.err.splitlines()[-1] == "6 of 7 files could not be read; the others were."
    none = call_trueup("read", *names)
    assert (none.status, none.out, none.err.count("trueup: error: ")) == (1, "", 6)


def test_a_run_of_imported_logs_is_not_resumed(call_trueup: Any, results: Path) -> None:
    run_id = "20261120T091300Z-7c1e"
    manifest = records.new_manifest(run_id, 0, "site.yml", "2026-11-20T09:13:00Z")
    records.write_manifest(str(results), manifest)
    assert call_trueup("import", NCCL, "--size", SIZE, "--results", results).status == 0
    assert (len(list(results.iterdir())), records.run_of(str(results), "last")) == (2, run_id)


def test_the_size_is_the_one_that_a_log_names(call_trueup: Any, tmp_path: Path) -> None:
    """A log that names its size, one that names the GPU of one size, and one that names neither."""
    logs = tmp_path / "logs"
    logs.mkdir()
    shutil.copy(OTHER, logs / "a100.txt")
    shutil.copy(DATA / "stream" / "stream510.txt", logs / "neither.txt")
    named = NCCL.read_text().replace("A100-SXM4-40GB", "H200 141GB HBM3e")
    (logs / "h200.txt").write_text(f"Standard_ND96isr_H200_v5\n{named}")
    results = tmp_path / "results"
    done = call_trueup("import", logs, "--size", "auto", "--results", results)
    sizes = sorted(record["vm_size"] for record in made(results))
    assert (done.status, sizes) == (1, [SIZE, "Standard_ND96isr_H200_v5"])
    assert "neither.txt is not imported: it names neither a VM size nor a GPU of one" in done.err
