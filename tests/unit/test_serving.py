"""Servers, by whichever tool they were measured: one schema, the same metrics and units."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from trueup_analysis.parsers.serving.output import parse_serving
from trueup_analysis.read import Reading, read, read_runs
from trueup_node.errors import BadInput, ParseError

DATA = Path(__file__).parents[1] / "data" / "serving"
# By file: client, engine, requests a second, output and all tokens a second, and mean, median and
# p99 of TTFT, TPOT and E2EL in ms; None where the output does not say it.
READ: dict[str, tuple[Any, ...]] = {
    "synthetic_sglang_table.txt": (
        *("sglang bench_serving", "sglang", 6.4, 819.2, 7372.8),
        *((310.4, 290.12, 812.33), (25.11, 24.9, 31.45), (3500.0, 3450.25, 4900.5)),
    ),
    "synthetic_sglang_offline.txt": (
        *("sglang bench_offline_throughput", "sglang", 8.0, 1600.0, 3600.0, *[(None,) * 3] * 3),
    ),
    "synthetic_sglang.jsonl": (
        *("sglang bench_serving", "sglang", 5.0, 640.0, 3200.0),
        *((90.0, 85.0, 190.0), (11.5, 11.4, 12.9), (1560.0, 1550.0, 1810.0)),
    ),
    "synthetic_trtllm.txt": (
        *("trtllm-bench", "tensorrt-llm", 50.0, 6400.0, 57600.0),
        *((180.5, 150.0, 800.0), (17.4764, 17.5, 22.4), (2400.0, 2390.0, 3300.0)),
    ),
    "synthetic_trtllm.json": (
        *("trtllm-bench", "tensorrt-llm", 50.0, 6400.0, 57600.0),
        *((180.5, 150.0, 800.0), (17.4764, 17.5, 22.4), (2400.0, 2390.0, 3300.0)),
    ),
    "synthetic_vllm_throughput.txt": (
        *("vllm bench throughput", "vllm", 49.6, 6348.8, 19046.4, *[(None,) * 3] * 3),
    ),
    "synthetic_vllm_throughput.json": (
        *("vllm bench throughput", "vllm", 50.0, None, 19200.0, *[(None,) * 3] * 3),
    ),
    # 8 requests of 32 and 128 tokens in 1.6 s.
    "synthetic_vllm_latency.txt": (
        *("vllm bench latency", "vllm", 5.0, 640.0, 800.0),
        *((None,) * 3, (None,) * 3, (1600.0, 1599.0, 1623.0)),
    ),
    "synthetic_vllm_latency.json": (
        *("vllm bench latency", "vllm", None, None, None),
        *((None,) * 3, (None,) * 3, (1600.0, 1600.0, 1698.0)),
    ),
    # All tokens: 1228.8 x (1 + 512 / 128).
    "synthetic_aiperf.txt": (
        *("aiperf", None, 9.6, 1228.8, 6144.0),
        *((52.4, 48.6, 118.3), (9.98, 9.95, 11.15), (1320.5, 1310.4, 1690.0)),
    ),
    "synthetic_aiperf.csv": (
        *("aiperf", None, 9.6, 1228.8, None),
        *((52.4, 48.6, 118.3), (9.98, 9.95, 11.15), (1320.5, 1310.4, 1690.0)),
    ),
    "synthetic_genai_perf.txt": (
        *("genai-perf", None, 9.6, 1228.8, None),
        *((52.4, None, 118.3), (9.98, None, 11.15), (1320.5, None, 1690.0)),
    ),
    # Rates of each of 4 GPUs.
    "synthetic_inferencex.json": (
        *("inferencex", "vllm", None, 5000.0, 10000.0),
        *((210.0, 180.0, 660.0), (12.5, 12.5, 20.0), (12900.0, 12800.0, 15200.0)),
    ),
    "synthetic_llmd_v01_yaml.txt": (
        *("llm-d benchmark report", "vllm", 4.0, 400.0, 4400.0),
        *((120.0, 110.0, 300.0), (20.0, 19.5, 27.0), (2100.0, 2080.0, 2800.0)),
    ),
    "synthetic_llmd_v02.json": (
        *("llm-d benchmark report", "vllm", 4.0, 400.0, 4400.0),
        *((120.0, 110.0, 300.0), (20.0, 19.5, 27.0), (2100.0, 2080.0, 2800.0)),
    ),
}


def text_of(name: str) -> str:
    return (DATA / name).read_text(encoding="utf-8")


def figures(reading: Reading) -> tuple[Any, ...]:
    """The columns of READ."""
    rows = {(row["name"], row["statistic"]): row["value"] for row in reading.rows}

    def ms(name: str, statistic: str) -> float | None:
        value = rows.get((name, statistic))
        return None if value is None else value * 1e3

    return (
        reading.parameters["client"],
        reading.parameters.get("engine"),
        *(
            rows.get((f"{kind}_throughput", "single"))
            for kind in ("request", "output_token", "total_token")
        ),
        *(
            tuple(ms(name, statistic) for statistic in ("mean", "median", "p99"))
            for name in ("ttft", "tpot", "e2el")
        ),
    )


def flat(row: tuple[Any, ...]) -> list[Any]:
    return [value for item in row for value in (item if isinstance(item, tuple) else (item,))]


@pytest.mark.parametrize("name", READ)
def test_every_tool_fills_the_same_schema(name: str) -> None:
    reading = read(text_of(name), source=name)
    got, expected = flat(figures(reading)), flat(READ[name])
    assert (reading.tool, reading.unverified) == ("serving", [])
    assert [value if isinstance(value, str) else None for value in got] == [
        value if isinstance(value, str) else None for value in expected
    ]
    numbers = [value for value in got if not isinstance(value, str)]
    assert [value is None for value in numbers] == [
        value is None for value in expected if not isinstance(value, str)
    ]
    assert [value for value in numbers if value is not None] == pytest.approx(
        [value for value in expected if isinstance(value, float)], rel=1e-9
    )


def test_units_and_directions_are_those_of_vllms_records() -> None:
    rows = read(text_of("synthetic_sglang_table.txt"), source="x").rows
    kinds = {(row["name"], row["unit"], row["direction"]) for row in rows}
    assert kinds == {
        *((f"{kind}_throughput", "1/s", "higher") for kind in ("request", "output_token")),
        *((f"{kind}_throughput", "1/s", "higher") for kind in ("total_token", "peak_output_token")),
        *((name, "s", "lower") for name in ("ttft", "tpot", "itl", "e2el")),
        ("requests_completed", "1", "higher"),
        *((name, "1", "none") for name in ("input_tokens", "output_tokens")),
        ("peak_concurrent_requests", "1", "none"),
    }


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "synthetic_trtllm.txt",
            {
                "model": "meta-llama/Llama-3.1-8B-Instruct",
                "engine_version": "1.2.0",
                "precision": "FP8",
                "tensor_parallel": "2",
                "pipeline_parallel": "1",
                "input_length": "1024",
                "output_length": "128",
            },
        ),
        (
            "synthetic_inferencex.json",
            {
                "model": "openai/gpt-oss-120b",
                "precision": "fp4",
                "tensor_parallel": "4",
                "input_length": "1024",
                "output_length": "1024",
                "max_concurrency": "64",
            },
        ),
        (
            "synthetic_llmd_v02.json",
            {
                "model": "Qwen/Qwen3-32B",
                "engine_version": "0.11.2",
                "tensor_parallel": "4",
                "request_rate": "4",
                "input_length": "1000",
                "output_length": "100",
            },
        ),
        ("synthetic_sglang_table.txt", {"request_rate": "8", "max_concurrency": "32"}),
    ],
)
def test_parameters_say_the_work_and_the_engine(name: str, expected: dict[str, str]) -> None:
    reading = read(text_of(name), source=name)
    assert {key: reading.parameters.get(key) for key in expected} == expected


def test_gpus_are_counted_by_the_rate_of_each_or_by_the_replicas() -> None:
    names = ("synthetic_trtllm.txt", "synthetic_inferencex.json", "synthetic_llmd_v02.json")
    readings = [read(text_of(name), source=name) for name in names]
    assert [reading.resources for reading in readings] == [{"gpus": 2}, {"gpus": 4}, {"gpus": 8}]


@pytest.mark.parametrize(
    ("changes", "gpus", "output", "total"),
    [
        ({"tp": 4, "pp": 2, "pcp_size": 1}, 8, 10000.0, 20000.0),
        ({"num_prefill_gpu": 4, "num_decode_gpu": 8, "disagg": True}, 12, 10000.0, 30000.0),
        # Prompts and answers in one engine over nodes.
        ({"num_prefill_gpu": 16, "num_decode_gpu": 0, "disagg": True}, 16, 20000.0, 40000.0),
        ({"num_prefill_gpu": 8, "num_decode_gpu": 8, "disagg": False}, 8, 10000.0, 20000.0),
    ],
)
def test_a_row_of_inferencex_is_of_all_its_gpus(
    changes: dict[str, Any], gpus: int, output: float, total: float
) -> None:
    row = {**json.loads(text_of("synthetic_inferencex.json")), **changes}
    for text in (row, {**changes, "conc": 64, "metrics": row}):
        parsed = parse_serving(json.dumps(text))
        figures = parsed.figures
        assert (parsed.gpu_count, figures["output_token_throughput"]) == (gpus, output)
        assert figures["total_token_throughput"] == total


def test_a_setting_of_an_inferencex_row_that_is_not_known_tells_servers_apart() -> None:
    row = json.loads(text_of("synthetic_inferencex.json"))
    row |= {"kv_p2p_transfer": "nixl", "prefill_num_workers": 2, "avg_power_w": 512.5}
    parsed = parse_serving(json.dumps({**row, "date": "2026-01-01"}))
    settings = {name: parsed.parameters.get(name) for name in ("kv_p2p_transfer", "date")}
    assert settings == {"kv_p2p_transfer": "nixl", "date": None}
    assert parsed.parameters["prefill_num_workers"] == "2"
    assert parsed.not_judged == {"avg_power_w": "512.5", "date": "2026-01-01"}


def test_a_failed_request_is_a_failed_check() -> None:
    reading = read(text_of("synthetic_llmd_v02.json"), source="x")
    assert reading.failed_checks() == ["no_failed_requests"]


def test_each_line_of_jsonl_and_each_row_of_a_list_is_a_run() -> None:
    row = json.loads(text_of("synthetic_inferencex.json"))
    rows = json.dumps([row, {**row, "conc": 128, "tput_per_gpu": 3000.0}])
    line = text_of("synthetic_sglang.jsonl")
    lines = line + line.replace('"max_concurrency": 8', '"max_concurrency": 16')
    for text, loads in ((lines, ["8", "16"]), (rows, ["64", "128"])):
        readings, refused = read_runs(text, source="x")
        got = [reading.parameters["max_concurrency"] for reading in readings]
        assert (got, [reading.run for reading in readings], refused) == (loads, [1, 2], [])


def test_a_report_of_guidellm_is_a_run_for_each_benchmark() -> None:
    readings, refused = read_runs(text_of("guidellm_0.8.1_two_loads.json"), source="x")
    got = [
        (
            reading.parameters["max_concurrency"],
            reading.tool_version,
            reading.parameters["model"],
            {(row["name"], row["statistic"]): row["value"] for row in reading.rows}[
                "requests_completed", "single"
            ],
        )
        for reading in readings
    ]
    assert (got, refused) == ([("1", "0.8.1", "tiny", 20), ("4", "0.8.1", "tiny", 20)], [])


@pytest.mark.parametrize("version", ["0.1", "0.2"])
def test_a_report_that_llmds_own_tool_made_has_the_figures_of_its_source(version: str) -> None:
    report = read(text_of(f"llmd_{version}_of_guidellm_yaml.txt"), source="x")
    _, source = read_runs(text_of("guidellm_0.8.1_two_loads.json"), source="x")[0]
    names = {"request_throughput", "output_token_throughput", "total_token_throughput"}
    names |= {"ttft", "tpot", "e2el", "requests_completed", "requests_failed"}
    got, expected = (
        {
            (row["name"], row["statistic"]): row["value"]
            for row in reading.rows
            if row["name"] in names and row["statistic"] != "p99.9"
        }
        for reading in (report, source)
    )
    assert got == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("name", "before", "after", "message"),
    [
        ("sglang_table.txt", "6.40  ", "7.40  ", "request_throughput 7.4 is not 256 in 40 s"),
        ("sglang_table.txt", "819.20", "919.20", "output_token_throughput 919.2 is not 32768"),
        ("sglang_table.txt", "7372.80", "7972.80", "total_token_throughput 7972.8 is not"),
        ("sglang_table.txt", "22.40", "29.40", "concurrency 29.4 is not 6.4 requests a second"),
        ("sglang_table.txt", "4100.75", "3100.75", "E2EL: P90 is below P50"),
        ("sglang_table.txt", " 310.40", "3810.40", "TTFT"),
        ("sglang_table.txt", "256       ", "25x       ", "'25x' is not a number of 0 or more"),
        ("trtllm.txt", "= PERF", "Total Latency (ms): 1.0\n= PERF", "duration stands twice"),
        ("trtllm.txt", "[TTFT] AVERAGE: 180.5", "[TTFT] AVERAGE: 190.5", "the mean TTFT is 0.1805"),
        ("trtllm.json", '"avg_ttft_ms": 180.5', '"avg_ttft_ms": 190.5', "the mean TTFT is 0.1805"),
        ("llmd_v01_yaml.txt", "units: ms, mean: 2100", "units: s, mean: 2100", "2100 s in a bench"),
        ("llmd_v02.json", "PT50S", "PT1.5S", "a mean E2EL of 2.1 s in a benchmark of 1.5 s"),
        ("trtllm.txt", "3200.0000", "2700.0000", "2.37 GPUs follow from the rate of each"),
        ("aiperf.txt", "Request Latency (ms)", "Request Latency (s) ", "1320.5 s of 480 requests"),
        ("aiperf.csv", "Request Latency (ms)", "Request Latency (us)", "TTFT is longer than"),
        ("aiperf.csv", "Token Latency (ms)", "Token Latency (s)", "128 tokens take 1267.51 s"),
        ("aiperf.txt", "1,228.80", "1,928.80", "is not 9.6 requests a second of 128 tokens"),
        ("aiperf.txt", "│    52.40 │", "│    31.00 │", "mean TTFT is not between min and max"),
        ("vllm_throughput.txt", "6348.80 out", "6948.80 out", "64000 of 192000 tokens are output"),
        ("llmd_v01_yaml.txt", "units: ms\n", "units: furlongs\n", "no unit of time"),
        ("llmd_v02.json", '"mean": 400.0', '"mean": "x"', "'x' is not a number"),
        ("llmd_v01_yaml.txt", "total: 200", "total: " + "9" * 400, "is not a number of a meas"),
        ("inferencex.json", '"p99_ttft": 0.66', '"p99_ttft": 0.06', "TTFT: P99 is below P50"),
        ("inferencex.json", '"tp": 4,', '"tp": 4', "the JSON is cut off or damaged"),
    ],
)
def test_figures_that_contradict_each_other_are_refused(
    name: str, before: str, after: str, message: str
) -> None:
    text = text_of(f"synthetic_{name}")
    assert text.count(before) > 0
    with pytest.raises(ParseError) as refused:
        parse_serving(text.replace(before, after, 1))
    assert message in str(refused.value)


def test_requests_that_only_their_rate_counts_are_a_whole_number() -> None:
    text = text_of("synthetic_trtllm.txt").replace("Number of requests:             1000\n", "")
    assert parse_serving(text).figures["requests_completed"] == 1000
    with pytest.raises(ParseError, match=r"are 1000\.4: no whole number"):
        parse_serving(text.replace("(req/sec):                     50.0000", "(req/sec): 50.0200"))


def test_what_is_not_known_is_kept_by_name() -> None:
    text = text_of("synthetic_sglang_table.txt").replace("Accept length:", "Draft joy (%):")
    reading = read(text, source="x")
    assert reading.not_judged["Draft joy (%)"] == "2.71"


def test_a_table_without_its_end_is_unverified() -> None:
    for name in ("synthetic_sglang_table.txt", "synthetic_aiperf.txt"):
        lines = text_of(name).splitlines()
        reading = read("\n".join(lines[:-1]), source="x")
        assert [sentence[:10] for sentence in reading.unverified] in (
            ["no title o"],
            ["no closing"],
        )


def test_one_token_a_request_leaves_no_time_between_tokens() -> None:
    text = text_of("synthetic_sglang_table.txt")
    for figure in ("25.05", "23.80", "29.02", "40.77", "212.60"):
        text = text.replace(f"{figure:10}", f"{'0.00':10}")
    reading = read(text, source="x")
    assert {row["name"] for row in reading.rows if row["unit"] == "s"} == {"ttft", "tpot", "e2el"}
    assert [text for text in reading.warnings if text.startswith("ITL of 0 s")] != []


def test_a_report_in_yaml_keeps_its_indentation_and_may_be_pasted() -> None:
    text = text_of("synthetic_llmd_v01_yaml.txt")
    pasted = f"```yaml\n{text}```\n"
    assert read(pasted, source="x").rows == read(text, source="x").rows


def test_two_tables_in_one_text_are_two_runs() -> None:
    text = text_of("synthetic_sglang_table.txt")
    readings, refused = read_runs(text + text, source="x")
    assert ([reading.run for reading in readings], refused) == ([1, 2], [])


def test_another_json_is_no_result_of_a_server() -> None:
    with pytest.raises(BadInput) as refused:
        read('{"scenario": {}, "name": "time_to_first_token:"}', source="x")
    assert "x: no known tool's output" in str(refused.value)


def test_a_number_of_gpus_that_no_machine_has_is_unknown() -> None:
    text = (DATA / "synthetic_vllm_latency.txt").read_text(encoding="utf-8")
    damaged = text.replace("tensor_parallel_size=", f"tensor_parallel_size={'9' * 400}")
    assert (parse_serving(text).gpu_count, parse_serving(damaged).gpu_count) == (1, None)


def test_a_statistic_whose_name_is_a_number_is_kept_by_name() -> None:
    text = (DATA / "synthetic_llmd_v01_yaml.txt").read_text(encoding="utf-8")
    damaged = parse_serving(text.replace("      p99: 300.0", "      99: 300.0", 1))
    assert [name for name in damaged.not_judged if "99" in name] != []
