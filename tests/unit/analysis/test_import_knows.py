"""``trueup import`` compares a log with its options, and names nodes and cases by facts."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from helpers import parametrized
from record_schema import RECORDS
from trueup_analysis.figures.contradictions import Gpu, gpus_in
from trueup_analysis.figures.imported import Place, labels
from trueup_node import record as records

DATA = Path(__file__).resolve().parents[2] / "data"
NDV4, HBV3, H100 = "Standard_ND96asr_v4", "Standard_HB120rs_v3", "Standard_ND96isr_H100_v5"
TWO_NODES, ONE_NODE = "nccl/infiniband.txt", "nccl/nvlink.txt"
VLLM, TRAINED = "vllm/vllm032_driver_random.log", "megatron/gpt_driver_h100_real.txt"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return tmp_path / "results"


def made(results: Path) -> list[dict[str, Any]]:
    [run] = results.iterdir()
    made_records = [record for _, record, _ in records.read_records(str(run)) if record]
    for record in made_records:
        RECORDS.validate(record)
    return made_records


@parametrized(("log", "size", "options", "sentence"))
def test_a_contradiction_is_refused_and_the_other_log_is_imported(
    call_trueup: Any, results: Path, log: str, size: str, options: tuple[object, ...], sentence: str
) -> None:
    done = call_trueup("import", DATA / log, "--size", size, *options, "--results", results)
    assert (done.status, results.exists(), done.err.count("\n")) == (1, False, 1)
    assert f"{log} is not imported: " in done.err
    assert sentence in done.err
    # A log that says nothing on it.
    silent = DATA / "hpl" / "xhpl23_two_tests.txt"
    if not {"--gpus", "--nodes"} & set(options):
        both = call_trueup(
            "import", DATA / log, silent, "--size", size, *options, "--results", results
        )
        assert (both.status, [record["benchmark"] for record in made(results)]) == (1, ["hpl"])
        assert both.err.splitlines()[-1] == ("1 of 2 files could not be imported; the others were.")


def edited(log: str, tmp_path: Path, old: str, new: str) -> Path:
    text = (DATA / log).read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / "edited.log"
    path.write_text(text.replace(old, new), encoding="utf-8")
    return path


@parametrized(("log", "old", "new", "sentence"))
def test_a_log_that_contradicts_itself_or_its_size_is_refused(
    call_trueup: Any, results: Path, tmp_path: Path, log: str, old: str, new: str, sentence: str
) -> None:
    path = edited(log, tmp_path, old, new)
    done = call_trueup("import", path, "--size", NDV4, "--results", results)
    assert (done.status, results.exists(), sentence in done.err) == (1, False, True)


@pytest.mark.parametrize(
    ("text", "products"),
    [
        ("NVIDIA A100-SXM4-40GB", [Gpu("A100", "sxm", "40")]),
        ("NVIDIA A100 80GB PCIe", [Gpu("A100", "pcie", "80")]),
        ("NVIDIA H100 80GB HBM3", [Gpu("H100", "", "80")]),
        ("Tesla V100-PCIE-16GB", [Gpu("V100", "pcie", "16")]),
        ("NVIDIA GeForce RTX 4090", [Gpu("RTX 4090")]),
        ("Standard_ND96isr_H100_v5", []),
        ("/data/llama-H100-80GB/x", []),
        ("device_name=NVIDIA_H100_80GB_HBM3.json", []),
        ("NVIDIA L2 cache, T4 and 8 GB", []),
    ],
)
def test_gpus_are_known_by_their_product_names(text: str, products: list[Gpu]) -> None:
    assert gpus_in(text) == products


# --- many files ----------------------------------------------------------------------------------


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """Logs of one name and one text of 600 nodes, and two files that are no log."""
    folder = tmp_path / "logs"
    for number in range(600):
        node = folder / f"rack{number // 20}" / f"x{number:04}"
        node.mkdir(parents=True)
        shutil.copy(DATA / "stream" / "stream510.txt", node / "stream.log")
    (folder / "notes.txt").write_text("ran it twice\n")
    (folder / "empty.log").touch()
    (folder / ".hidden").write_text("x")
    return folder


def test_a_folder_of_600_logs_of_one_name_is_600_nodes(
    call_trueup: Any, results: Path, fleet: Path
) -> None:
    done = call_trueup("import", fleet, "--size", NDV4, "--results", results)
    made_records = made(results)
    nodes = {record["nodes"][0] for record in made_records}
    assert (done.status, len(made_records), len(nodes)) == (1, 600, 600)
    assert {record["case"] for record in made_records} == {"stream"}
    [copies] = [line for line in done.err.splitlines() if "same text as" in line]
    assert "(599 files: " in copies
    last = done.err.splitlines()[-3:]
    assert [line.startswith("trueup: error: ") for line in last] == [True, True, False]
    assert last[-1] == "2 of 602 files could not be imported; the others were."


def test_a_quoted_pattern_and_its_folder_mean_the_same_logs(
    call_trueup: Any, results: Path, fleet: Path
) -> None:
    pattern = str(fleet / "rack3" / "x*" / "stream.log")
    where = ("--size", NDV4, "--results", results)
    done = call_trueup("import", pattern, fleet / "rack3", *where)
    assert (done.status, len(made(results))) == (0, 20)
    assert done.err.count("is the same file as") == 20
    none = call_trueup("import", str(fleet / "*.out"), *where)
    assert (none.status, none.err) == (1, f"trueup: error: no file matches '{fleet / '*.out'}'\n")


def test_a_run_of_trueup_within_a_folder_is_no_log(
    call_trueup: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(DATA / ONE_NODE, tmp_path / "nccl.log")
    for expected in ("1 record written", "No record is new"):
        done = call_trueup("import", ".", "--size", NDV4)
        assert (done.status, expected in done.err) == (0, True)


@pytest.mark.parametrize(
    ("logs", "expected"),
    [
        ([("/a/node01/nccl.log", [])], ["node01"]),
        ([("/a/node01/run1/x.log", []), ("/a/node01/run2/x.log", [])], ["node01", "node01"]),
        ([("/a/c1/node01/x", []), ("/a/c2/node01/x", [])], ["c1-node01", "c2-node01"]),
        ([("/a/node01/nccl.log", ["gpu-7"])], ["node01"]),
        ([("/a/nccl.log", ["gpu-7.cluster.local"])], ["gpu-7"]),
        ([("/a/nccl.log", ["gpu-7"]), ("/a/hpl.log", ["gpu-7"])], ["gpu-7", "gpu-7"]),
        ([("/a/p/x.log", ["gpu-7"]), ("/a/q/x.log", ["gpu-8"])], ["gpu-7", "gpu-8"]),
        # Of one host in logs of one name the paths tell more.
        ([("/a/p/x.log", ["gpu-7"]), ("/a/q/x.log", ["gpu-7"])], ["p", "q"]),
        (
            [(f"/a/x{number}/x.log", ["gpu-7"]) for number in range(600)],
            [f"x{number}" for number in range(600)],
        ),
        ([("/a/nccl.log", ["localhost"])], ["nccl.log"]),
        ([("/a/nccl.log", ["3f2a9c01d4e5"])], ["nccl.log"]),
        ([("/home/me/h100/nccl.log", [])], ["nccl.log"]),
    ],
)
def test_a_node_is_named_by_its_folder_or_its_host(
    logs: list[tuple[str, list[str]]], expected: list[str]
) -> None:
    assert labels([Place(*log) for log in logs], []) == expected


# --- the work ------------------------------------------------------------------------------------


def test_parameters_are_typed_and_the_options_stand_among_them(
    call_trueup: Any, results: Path
) -> None:
    more = ("--model", "org/tiny", "--engine", "vllm", "--precision", "bf16", "--gpus", 2)
    done = call_trueup("import", DATA / VLLM, "--size", NDV4, *more, "--results", results)
    [record] = made(results)
    assert (done.status, record["gpus"]) == (0, 2)
    assert record["parameters"] == {
        "backend": "vllm",
        "model_id": "tiny",
        "num_prompts": 40,
        "request_rate": "inf",
        "burstiness": 1.0,
        "max_concurrency": 8,
        "model": "org/tiny",
        "engine": "vllm",
        "precision": "bf16",
    }
    assert record["case"] == "org-tiny-tiny-num_prompts40-max_concurrency8-vllm-bf16"


def test_logs_of_unknown_work_are_never_of_one_case(
    call_trueup: Any, results: Path, tmp_path: Path
) -> None:
    logs = [DATA / "devito" / "openmp.log", DATA / "devito" / "tti.log"]
    where = ("--size", HBV3, "--nodes", 1)
    done = call_trueup("import", *logs, *where, "--results", results)
    cases = {record["case"] for record in made(results)}
    assert (done.status, len(cases), "openmp" in str(cases)) == (0, 2, False)
    assert "note: work of 2 logs is unknown" in done.err
    labelled = tmp_path / "labelled"
    done = call_trueup("import", *logs, *where, "--label", "so 8", "--results", labelled)
    assert {record["case"] for record in made(labelled)} == {"so-8"}
    assert "work of" not in done.err


def test_the_runs_of_one_log_are_two_records_of_one_node(
    call_trueup: Any, results: Path, tmp_path: Path
) -> None:
    text = (DATA / "stream" / "stream510.txt").read_text(encoding="utf-8")
    log = tmp_path / "twice.txt"
    log.write_text(f"{text}\n{text.replace('STREAM version', 'again: STREAM version')}")
    where = ("--size", HBV3, "--results", results)
    for expected in ("2 records written", "No record is new"):
        assert expected in call_trueup("import", log, *where).err
    assert [record["nodes"] for record in made(results)] == [["twice.txt"]] * 2


def test_a_model_that_is_said_later_is_not_ignored(call_trueup: Any, results: Path) -> None:
    where = ("--size", NDV4, "--results", results)
    log = DATA / "vllm" / "published_pr18566.log"
    assert call_trueup("import", log, *where).status == 0
    again = call_trueup("import", log, *where, "--model", "llama")
    assert (again.status, "remove that file to import it anew" in again.err) == (1, True)
