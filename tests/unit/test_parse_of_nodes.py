"""SuperBench's summaries and nvidia-smi's matrix: figures as printed, and nodes told apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from trueup_analysis import parsers
from trueup_analysis.labelled import Labelled
from trueup_analysis.read import read_runs
from trueup_node.errors import ParseError

DATA = Path(__file__).parents[1] / "data"
H100, NDV4 = "Standard_ND96isr_H100_v5", "Standard_ND96asr_v4"
FLEET = DATA / "fleets" / "superbench.jsonl"


def text_of(name: str) -> str:
    return (DATA / name).read_text(encoding="utf-8")


def parsed(name: str, text: str | None = None) -> Labelled:
    tool = name.partition("/")[0]
    output: Labelled = getattr(parsers.part(tool, "output"), f"parse_{tool}")(
        text_of(name) if text is None else text
    )
    return output


def test_figures_of_a_node_have_their_units() -> None:
    output = parsed("superbench/synthetic_node.json")
    rows = {(row.name, row.message_bytes, row.device): row for row in output.metrics()}
    figures = {
        ("sb_nccl_bw_nvlink_allreduce_busbw", 8589934592, "rank0"): (481.6e9, "byte/s"),
        ("sb_nccl_bw_nvlink_allreduce_time", 8388608, "rank0"): (48.7e-6, "s"),
        ("sb_mem_bw_h2d_bw", None, "rank7"): (51.4e9, "byte/s"),
        ("sb_gemm_flops_bf16_tc_flops", None, "rank0"): (712300e9, "flop/s"),
        ("sb_kernel_launch_event_time", None, "rank0"): (5.4e-6, "s"),
        ("sb_ib_loopback_ib_write_bw", 8388608, "rank0"): (48.9e9, "byte/s"),
        ("sb_model_benchmarks_gpt_pytorch_gpt2_large_fp16_train_throughput", None, None): (
            *(130.6, "1/s"),
        ),
        ("superbench_failed", None, None): (0.0, "1"),
    }
    got = {key: (rows[key].value, rows[key].unit) for key in figures}
    assert got == {key: (pytest.approx(value), unit) for key, (value, unit) in figures.items()}
    assert output.hosts == ("h100-1",)
    assert output.not_judged["figures without a unit, or below zero"].startswith(
        "8 (monitor/gpu_temperature:0,"
    )


def test_a_benchmark_that_failed_is_named() -> None:
    readings, refused = read_runs(FLEET.read_text(encoding="utf-8"), source="x")
    outcomes = [(reading.hosts, reading.outcome()) for reading in readings]
    assert (refused, outcomes) == (
        [],
        [
            (["h100-1"], ("ok", None)),
            (["h100-2"], ("ok", None)),
            (
                ["h100-3"],
                (
                    "invalid",
                    "its own check failed: mem-bw (return code 33: its output could not be parsed)",
                ),
            ),
        ],
    )


def test_the_verdict_of_the_diagnosis_is_a_check() -> None:
    readings, refused = read_runs(text_of("fleets/superbench_diagnosis.json"), source="x")
    verdicts = [(reading.hosts, reading.checks["diagnosis"]) for reading in readings]
    assert (refused, verdicts) == ([], [(["h100-1"], True), (["h100-3"], False)])
    assert "FailedTest: mem-bw/h2d_bw:0_miss" in readings[1].reasons["diagnosis"]


def test_deviations_from_a_baseline_are_no_figures() -> None:
    text = json.dumps({"index": "n", "Category": "Memory", "Defective Details": "x",
                       "mem-bw/h2d_bw:0": -0.07})  # fmt: skip
    output = parsed("superbench/x", text)
    assert {row.name for row in output.metrics()} == {"superbench_benchmarks"}
    assert output.not_judged == {"deviations from the baseline": "1 (mem-bw/h2d_bw:0)"}


def test_each_node_of_a_fleet_is_a_node_of_the_run(
    call_trueup: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    nodes = 620
    summary = json.loads(text_of("superbench/synthetic_node.json"))
    lines = [json.dumps({**summary, "node": f"h100-{number:04d}"}) for number in range(nodes)]
    Path("fleet.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    ended = call_trueup("import", "fleet.jsonl", "--size", H100, "--results", "results")
    assert ended.status == 0
    records = [json.loads(path.read_text()) for path in Path("results").glob("*/superbench-*.json")]
    assert {record["nodes"][0] for record in records} == {
        f"h100-{number:04d}" for number in range(nodes)
    }
    # Each record has its own node's output beside it.
    raw = {path.stat().st_size for path in Path("results").glob("*/superbench-*.raw.txt")}
    assert max(raw) < 2 * len(lines[0])


def test_a_list_of_more_than_a_hundred_nodes_is_read_whole() -> None:
    nodes = [
        {
            "index": f"n{number}",
            "diagnosis/accept": True,
            "mem-bw/h2d_bw:0": 26.0,
            "mem-bw/return_code": 0,
        }
        for number in range(150)
    ]
    readings, refused = read_runs(json.dumps(nodes, indent=1), source="x")
    assert (len(readings), refused) == (150, [])


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('"mem-bw/h2d_bw:0": 52.1', '"mem-bw/h2d_bw:0": "fast"', "is 'fast', and no number"),
        ('"mem-bw/h2d_bw:0": 52.1', '"mem-bw/h2d_bw:0": NaN', "is 'nan', and no number"),
        ('"mem-bw/h2d_bw:1"', '"mem-bw/h2d_bw:0"', "stands twice"),
        ("}", '} {"mem-bw/return_code": 0}', "several nodes"),
        ("}", "", "not the summary of a node"),
    ],
)
def test_an_object_that_is_no_summary_is_refused(before: str, after: str, message: str) -> None:
    text = text_of("superbench/synthetic_node.json")
    assert before in text
    with pytest.raises(ParseError, match=message):
        parsed("superbench/x", text.replace(before, after, 1))


def test_the_links_of_each_gpu_are_counted() -> None:
    output = parsed("topo/synthetic_nd_h100_v5.txt")
    rows = {(row.name, row.device): row.value for row in output.metrics()}
    assert (len(rows), output.gpu_count) == (1 + 8 + 56, 8)
    assert (rows["topo_gpu_nvlinks", "gpu3"], rows["topo_nvlinks", "gpu0>gpu7"]) == (18.0, 18.0)
    assert output.parameters["gpu5_cores"] == "48-95"
    assert output.parameters["gpu5_near"] == "NODE: mlx5_ib4 mlx5_ib5 mlx5_ib6 mlx5_ib7"


def test_columns_without_a_blank_between_them_are_told_apart() -> None:
    text = text_of("topo/synthetic_nd_h100_v5.txt")
    joined = text.replace("NIC6\tNIC7", "NIC6NIC7").replace("NODE\tNODE\t0", "NODENODE\t0")
    assert parsed("topo/x", joined).parameters == parsed("topo/x", text).parameters


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("GPU2\tNV18\tNV18", "GPU2\tNV18\tNV17", "GPU1 to GPU2 is NV18, and back NV17"),
        ("GPU1\tNV18\t X ", "GPU1\tNV18\tPIX", "itself is PIX|is PIX, and back"),
        ("GPU3\tNV18", "GPU9\tNV18", "not those of 8 GPUs in their order"),
        ("\tGPU0\tGPU1", "\tGPU0\tGPU2", "not numbered one after the other"),
        ("GPU7\tNV18\tNV18", "GPU7\tNV18", "connections, and the first row has"),
    ],
)
def test_a_matrix_that_contradicts_itself_is_refused(before: str, after: str, message: str) -> None:
    text = text_of("topo/synthetic_nd_h100_v5.txt")
    assert before in text
    with pytest.raises(ParseError, match=message):
        parsed("topo/x", text.replace(before, after, 1))


@pytest.mark.parametrize(
    ("name", "size", "status", "words"),
    [
        ("synthetic_nd_h100_v5.txt", H100, 0, "nothing is wrong"),
        ("synthetic_ndv4.txt", NDV4, 0, "nothing is wrong"),
        ("synthetic_nd_h100_v5_wrong_cores.txt", H100, 1, "cores 48-95 are near it"),
        ("synthetic_ndv4.txt", H100, 1, "8 errors"),
        ("synthetic_nd_h100_v5.txt", NDV4, 1, "8 errors"),
    ],
)
def test_a_matrix_is_held_against_the_size(
    call_trueup: Any, name: str, size: str, status: int, words: str
) -> None:
    path = DATA / "topo" / name
    ended = call_trueup("topology", "check", path, "--size", size)
    assert (ended.status, words in ended.out + ended.err) == (status, True)


def test_an_adapter_of_the_other_socket_is_named(call_trueup: Any, tmp_path: Path) -> None:
    text = text_of("topo/synthetic_nd_h100_v5.txt")
    swapped = text.replace("NIC0: mlx5_ib0", "NIC0: mlx5_ib7").replace(
        "NIC7: mlx5_ib7", "NIC7: mlx5_ib0"
    )
    (tmp_path / "matrix.txt").write_text(swapped, encoding="utf-8")
    ended = call_trueup("topology", "check", tmp_path / "matrix.txt", "--size", H100)
    assert (ended.status, "2 errors" in ended.out, "adapter" in ended.out) == (1, True, True)


def test_lost_links_fail_and_other_cores_are_not_imported(
    call_trueup: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lost = DATA / "topo" / "synthetic_nd_h100_v5_links_lost.txt"
    ended = call_trueup("read", lost, "--size", H100)
    assert (ended.status, "Fail: NVLinks of each GPU" in ended.out) == (1, True)
    wrong = DATA / "topo" / "synthetic_nd_h100_v5_wrong_cores.txt"
    ended = call_trueup("import", wrong, "--size", H100)
    assert (ended.status, "GPU0: cores 48-95 are near it" in ended.err) == (1, True)
