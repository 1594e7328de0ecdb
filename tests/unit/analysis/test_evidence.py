"""Published results of others: readers, the evidence file, the commands."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from helpers import parametrized
from test_adversarial import call
from trueup_analysis.figures.evidence import importing, rows
from trueup_analysis.figures.evidence.names import gpu, model, precision
from trueup_analysis.figures.evidence.readers import READERS
from trueup_node.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[3]


def _tree(folder: Path, files: dict[str, str]) -> Path:
    """A git repository with these files."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.invalid"]
    for words in (["init", "-q"], ["add", "."], [*identity, "commit", "-q", "-m", "results"]):
        subprocess.run(["git", "-C", str(folder), *words], check=True)
    return folder


def _figures(reading: importing.Reading) -> list[tuple[object, ...]]:
    return [
        (row.model, row.precision, row.hardware, row.count, row.metric, row.value)
        for row in reading.rows
    ]


_DATA = ROOT / "tests/data/evidence"
_INFERENCEX = json.loads((_DATA / "benchmarks.json").read_text())[0]
_H200 = "H200-SXM5-141GB"
_H100 = "H100-SXM5-80GB"
_MLPERF = "closed/Maker/{}/box/llama2-70b-99/Offline"
_SYSTEM = {
    "accelerator_model_name": "NVIDIA H200-SXM-141GB",
    "accelerators_per_node": 8,
    "number_of_nodes": 1,
    "framework": "vLLM 1.0, CUDA 12",
}
_SUMMARY = """Result is : VALID
Samples per second: 100
Tokens per second: 30000
"""
_BENCH = """- Hardware: AMD MI300X GPU (8x)
- Model: DeepSeek-R1
- Tensor Parallelism: 8
- sglang version: 0.5
============ Serving Benchmark Result ============
Max request concurrency:                 16
Successful requests:                     80
Total input tokens:                      40000
Total generated tokens:                  80000
Output token throughput (tok/s):         500.00
Median TTFT (ms):                        150.00
Median TPOT (ms):                        26.00
==================================================
"""
_MEGATRON = """## 26.06 NeMo Container
### Pre-Training Performance
#### Model: LLAMA3_70B
| System | #-GPUs | Precision | GBS | Sequence Length | TP | PP | Model TFLOP / sec / GPU |
|---|---|---|---|---|---|---|---|
| DGX-H100 | 64 | FP8 | 256 | 8192 | 4 | 8 | 731 (700) |
| DGX-B200 | 64 | FP8 | 256 | 8192 | 4 | 8 | 1500 |
"""
_OVERVIEW = """#### Llama 3.3 70B
| Sequence Length (ISL/OSL) | B200<br/>TP1 (FP4) | H200<br/>TP1 (FP8) | H100<br/>TP2,PP2 (FP8) |
|---|---|---|---|
| 1000/2000 | 6,271 | 2,994 | |
| 2048/128 | 1,339 | 442 | 762 |
"""
_TITAN = """**Table 1** FSDP. Llama 3.1 8B model. 8 GPUs.

| Techniques | TPS/GPU | Memory(GiB) |
| ----- | ----: | ----: |
| FSDP | 5,762 | 82.4 |
| FSDP + Float8 | 8,532 | 76.8 |
"""
_THREAD = {
    "repository": "owner/name",
    "number": 7,
    "title": "h200",
    "comments": [
        {
            "created_at": "2026-03-05T00:00:00Z",
            "body": "**Config:** DeepSeek-R1-0528 | SGLang v0.5 | FP8 | TP=8, EP=1 | H200 |"
            " ISL=1024, OSL=1024\n\n| Metric | conc=8 | conc=64 |\n|---|---|---|\n"
            "| **Output tput/GPU (tok/s)** | 74.6 | 223.6 |\n| Mean TPOT (ms) | 12.8 | 34.6 |\n",
        }
    ],
}
_MAXTEXT = """### Llama2-7B
| Hardware | TFLOP/sec/chip |
|---|---|
| 2x A3 (h100-80gb-8) | 422 |
"""
_RUN = """:::MLLOG {"key": "run_start", "time_ms": 1000, "metadata": {}}
:::MLLOG {"key": "run_stop", "time_ms": %d, "metadata": {"status": "success"}}
"""
CASES = {
    "inferencex": (
        {
            "benchmarks.json": json.dumps(
                [
                    {**_INFERENCEX, "num_decode_gpu": 64, "decode_ep": 8},
                    {**_INFERENCEX, "hardware": "b200"},
                    {**_INFERENCEX, "conc": 4},
                ]
            )
        },
        [
            ("deepseek-r1", "fp8", _H200, 8, "output_tokens_per_second", 1600.0),
            ("deepseek-r1", "fp8", _H200, 8, "ttft", 0.25),
            ("deepseek-r1", "fp8", _H200, 8, "tpot", 0.03),
        ],
        {
            "b200: no GPU that Azure rents has this name": 1,
            "rate, latency and requests in flight contradict each other": 1,
        },
    ),
    "llm-d": (
        {
            "llm-d-benchmarks.json": json.dumps(
                [
                    {
                        "model": "Llama-3.1-70B",
                        "hardware": "H100",
                        "accelerator_count": 8,
                        "configuration": "4 TP2",
                        "timestamp": "20250914-001545",
                        "metrics": {"request_rate": 2.0, "ttft": {"p50": 500.0}, "tpot": 40.0},
                        "workload": {
                            "input_tokens": 9999,
                            "output_tokens": 1000,
                            "concurrency": 64,
                        },
                    },
                    {"metrics": {}, "configuration": "4: 1P-TP4 3D-TP4"},
                ]
            )
        },
        [
            ("llama-3.1-70b", "", _H100, 8, "output_tokens_per_second", 2000.0),
            ("llama-3.1-70b", "", _H100, 8, "ttft", 0.5),
            ("llama-3.1-70b", "", _H100, 8, "tpot", 0.04),
        ],
        {"prefill and decode on different GPUs, or several nodes": 1},
    ),
    "mlperf-inference": (
        {
            f"{_MLPERF.format('results')}/performance/run_1/mlperf_log_summary.txt": _SUMMARY,
            f"{_MLPERF.format('measurements')}/box.json": '{"weight_data_types": "fp8"}',
            "closed/Maker/systems/box.json": json.dumps(_SYSTEM),
        },
        [("llama-2-70b", "fp8", _H200, 8, "output_tokens_per_second", 30000.0)],
        {},
    ),
    "mlperf-training": (
        {
            **{
                f"Maker/results/box/llama2_70b_lora/result_{run}.txt": _RUN % (1000 + run * 10_000)
                for run in (1, 2, 3, 9)
            },
            "Maker/systems/box.json": json.dumps(_SYSTEM),
        },
        [("llama-2-70b", "", _H200, 8, "time_to_train", 25.0)],
        {},
    ),
    "sglang-cookbook": (
        {"autoregressive/DeepSeek/R1.md": _BENCH},
        [
            ("deepseek-r1", "", "MI300X-192GB", 8, "output_tokens_per_second", 500.0),
            ("deepseek-r1", "", "MI300X-192GB", 8, "ttft", 0.15),
            ("deepseek-r1", "", "MI300X-192GB", 8, "tpot", 0.026),
        ],
        {},
    ),
    "megatron-bridge": (
        {"performance-summary.md": _MEGATRON},
        [("llama-3.1-70b", "fp8", _H100, 64, "model_flops_per_gpu", 731e12)],
        {"DGX-B200: no GPU that Azure rents has this name": 1},
    ),
    "tensorrt-llm": (
        {"perf-overview.md": _OVERVIEW},
        [
            ("llama-3.1-70b", "fp8", _H200, 1, "output_tokens_per_second", 2994.0),
            ("llama-3.1-70b", "fp8", _H200, 1, "output_tokens_per_second", 442.0),
            ("llama-3.1-70b", "fp8", _H100, 4, "output_tokens_per_second", 762.0),
        ],
        {"B200: no GPU that Azure rents has this name": 2},
    ),
    "torchtitan": (
        {"benchmarks/llama3_h100_202412_team.md": _TITAN},
        [
            ("llama-3.1-8b", "bf16", _H100, 8, "tokens_per_second_per_gpu", 5762.0),
            ("llama-3.1-8b", "fp8", _H100, 8, "tokens_per_second_per_gpu", 8532.0),
        ],
        {},
    ),
    "maxtext": (
        {"src/configs/gpu/a3/llama/README.md": _MAXTEXT},
        [("llama-2-7b", "", _H100, 16, "model_flops_per_gpu", 422e12)],
        {},
    ),
    "github-thread": (
        {"thread.json": json.dumps(_THREAD)},
        [
            ("deepseek-r1", "fp8", _H200, 8, "output_tokens_per_second", 596.8),
            ("deepseek-r1", "fp8", _H200, 8, "tpot", 0.0128),
            ("deepseek-r1", "fp8", _H200, 8, "output_tokens_per_second", 1788.8),
            ("deepseek-r1", "fp8", _H200, 8, "tpot", 0.0346),
        ],
        {},
    ),
}


def test_every_reader_has_a_case() -> None:
    assert sorted(CASES) == sorted(READERS)


@pytest.mark.parametrize("source", sorted(CASES))
def test_readers(source: str, tmp_path: Path) -> None:
    files, figures, skipped = CASES[source]
    reading = importing.read(source, _tree(tmp_path, files))
    assert [(*figure[:5], pytest.approx(figure[5])) for figure in figures] == _figures(reading)
    assert dict(reading.skipped) == skipped
    head = subprocess.run(
        ["git", "-C", str(tmp_path), "rev-parse", "HEAD"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    expected = "" if source == "github-thread" else head[:12]
    assert {row.commit for row in reading.rows} == {expected}


_ODD: tuple[object, ...] = (None, "x", "", -1, 0, 1e400, [], {}, [1], {"a": 1}, True)


def _mutated(document: object) -> Iterator[object]:
    """The document with one value in turn replaced by one of another kind, or left out."""
    if isinstance(document, dict):
        for key, value in document.items():
            yield {name: other for name, other in document.items() if name != key}
            yield from ({**document, key: odd} for odd in (*_ODD, *_mutated(value)))
    elif isinstance(document, list):
        for index, value in enumerate(document):
            for odd in (*_ODD, *_mutated(value)):
                yield [*document[:index], odd, *document[index + 1 :]]


@pytest.mark.parametrize("source", ["inferencex", "llm-d", "github-thread"])
def test_documents_of_another_form_end_in_rows_or_one_sentence(source: str, tmp_path: Path) -> None:
    ((name, text),) = CASES[source][0].items()
    outcomes = set()
    for odd in _mutated(json.loads(text)):
        (tmp_path / name).write_text(json.dumps(odd), encoding="utf-8")
        try:
            outcomes |= {type(importing.read(source, tmp_path, day="2026-01-01")).__name__}
        except BadInput:
            outcomes |= {"refused"}
    assert outcomes == {"Reading", "refused"}


@pytest.mark.parametrize("source", sorted(CASES))
def test_cut_files_end_in_rows_or_one_sentence(source: str, tmp_path: Path) -> None:
    outcomes = set()
    for name, text in CASES[source][0].items():
        for end in range(0, len(text), max(1, len(text) // 25)):
            for other, content in CASES[source][0].items():
                (tmp_path / other).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / other).write_text(text[:end] if other == name else content)
            try:
                outcomes |= {type(importing.read(source, tmp_path, day="2026-01-01")).__name__}
            except BadInput:
                outcomes |= {"refused"}
    assert outcomes - {"Reading", "refused"} == set()


def test_names_of_publications() -> None:
    assert gpu("NVIDIA H200-SXM-141GB") == gpu("h200") == _H200
    assert gpu("DGX-H100") == gpu("NVIDIA H100-SXM-80GB") == _H100
    assert gpu("NVIDIA H200-NVL-141GB") is None
    assert gpu("NVIDIA GH200 Grace Hopper Superchip 96GB") is None
    assert gpu("NVIDIA H100-PCIe-80GB") is None
    assert gpu("AMD Instinct MI325X 256GB HBM3e") is None
    assert gpu("A100") is None
    assert model("meta-llama/Llama-3.3-70B-Instruct-FP8") == "llama-3.1-70b"
    assert model("DeepSeekV3 (w/o MTP)") == "deepseek-r1"
    assert model("llama3_1-405b") == "llama-3.1-405b"
    assert model("Some Model") == "some model"
    assert (precision("FP8-CS (FP8-MX)"), precision("NVFP4"), precision("fp32")) == (
        "fp8",
        "fp4",
        "",
    )


def _row(**columns: object) -> rows.Row:
    usual = {
        **dict.fromkeys(("engine", "version", "parallelism", "scenario", "commit"), ""),
        "source": "s",
        "publisher": "p",
        "repository": "r",
        "date": "2026-01-01",
        "kind": "serving",
        "model": "llama-3.1-8b",
        "precision": "fp8",
        "hardware": _H100,
        "count": 1,
        "tokens_in": 1000,
        "tokens_out": 1000,
        "concurrency": 32,
        "metric": "output_tokens_per_second",
        "value": 100.0,
        "unit": "tokens/s",
    }
    return rows.of_text({**usual, **columns}, "test")


def test_the_newer_of_two_readings_stays(tmp_path: Path) -> None:
    old, new = _row(value=1.0, date="2025-01-01"), _row(value=2.0, commit="abcdef1")
    other = _row(engine="vllm", value=3.0)
    path = tmp_path / "evidence.csv"
    rows.write(path, rows.merged([new, old, other]))
    assert [row.value for row in rows.read_file(path)] == [3.0, 2.0]


def test_of_readings_of_one_day_that_of_the_newer_version_stays() -> None:
    every = [_row(value=value, version=f"26.{value:.0f}") for value in (4.0, 10.0, 9.0)]
    assert [row.value for row in rows.merged(every)] == [10.0]


def _mlperf(tmp_path: Path, changes: dict[str, str]) -> importing.Reading:
    files = {**CASES["mlperf-inference"][0], **changes}
    return importing.read("mlperf-inference", _tree(tmp_path, files))


def test_rates_above_a_million_are_read(tmp_path: Path) -> None:
    """The logs' own form: a million tokens a second is 1.04298e+06."""
    name = f"{_MLPERF.format('results')}/performance/run_1/mlperf_log_summary.txt"
    reading = _mlperf(tmp_path, {name: _SUMMARY.replace("30000", "1.04298e+06")})
    assert [(row.value, row.tokens_out) for row in reading.rows] == [(1_042_980, 10429.8)]


def test_the_open_division_is_skipped(tmp_path: Path) -> None:
    """Its rules allow a pruned model."""
    changes = {
        name.replace("closed/", "open/"): text.replace("30000", "90000")
        for name, text in CASES["mlperf-inference"][0].items()
    }
    reading = _mlperf(tmp_path, changes)
    assert [row.value for row in reading.rows] == [30000]
    assert dict(reading.skipped) == {"open division: the model may be changed": 1}


def test_the_precision_stands_beside_the_results_since_v6(tmp_path: Path) -> None:
    files = {
        name.replace("/measurements/", "/results/").replace("box.json", "measurements.json")
        if "/measurements/" in name
        else name: text
        for name, text in CASES["mlperf-inference"][0].items()
    }
    reading = importing.read("mlperf-inference", _tree(tmp_path, files))
    assert [row.precision for row in reading.rows] == ["fp8"]


def test_a_table_of_megatron_bridge_without_precisions_is_of_fp8(tmp_path: Path) -> None:
    ((name, text),) = CASES["megatron-bridge"][0].items()
    lines = [
        "|".join(cell for at, cell in enumerate(line.split("|")) if at != 3)
        if line.startswith("|")
        else line
        for line in text.splitlines()
    ]
    assert "Precision" not in "".join(lines)
    reading = importing.read("megatron-bridge", _tree(tmp_path, {name: "\n".join(lines)}))
    assert {row.precision for row in reading.rows} == {"fp8"}


@parametrized(("column", "value"))
def test_a_row_that_is_none_is_refused_with_its_line(
    column: str, value: str, tmp_path: Path
) -> None:
    path = tmp_path / "evidence.csv"
    rows.write(path, [_row()])
    header, line = path.read_text().splitlines()
    cells = dict(zip(header.split(","), line.split(","), strict=True)) | {column: value}
    path.write_text(f"{header}\n{','.join(cells.values())}\n")
    with pytest.raises(BadInput, match=r"evidence\.csv:2"):
        rows.read_file(path)


def test_the_catalogs_evidence() -> None:
    """Every row is one, and the file holds what its importers may bring."""
    path = ROOT / "catalog/evidence.csv"
    every = rows.read_file(path)
    assert list(every) == list(rows.merged(every))
    assert {row.source for row in every} <= set(READERS)
    assert path.stat().st_size < 500_000
    point = [
        row.value / row.tokens_out
        for row in every
        if row.repository == "SemiAnalysisAI/InferenceX#870"
        and (row.concurrency, row.metric) == (64, "output_tokens_per_second")
    ]
    assert point == [pytest.approx(1.75, rel=0.01)]


def test_the_commands(tmp_path: Path) -> None:
    tree = _tree(tmp_path / "tree", CASES["inferencex"][0])
    target = tmp_path / "evidence.csv"
    status, out, err = call("evidence", "import", "inferencex", tree, "--to", target)
    assert (status, err) == (0, "")
    assert "Skipped: 1 x b200: no GPU that Azure rents has this name." in out
    assert len(rows.read_file(target)) == 3
    assert call("evidence", "show")[0] == 0
    status, out, _ = call("evidence", "show", "serving", "--model", "deepseek-r1", "-f", "json")
    assert status == 0
    assert "SemiAnalysisAI/InferenceX#870" in out


@parametrized(("words", "message"))
def test_refusals(words: tuple[str, ...], message: str, tmp_path: Path) -> None:
    status, out, err = call("evidence", *(word.format(tmp=tmp_path) for word in words))
    assert (status, out) == (1, "")
    assert message in err
