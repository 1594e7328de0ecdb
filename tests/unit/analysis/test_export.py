"""``trueup export``: what other projects read of it, and what is said to be left out."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import recorded_runs as runs
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from trueup_analysis.read import read_runs

RUN = runs.every_tool()
Figure = tuple[float, str, int | None, str | None, str | None]
# llmd-benchmark-report 0.2.1 schema_v0_2.py: the units that it takes.
UNITS = {
    "time_to_first_token": {"s", "ms"},
    "request_latency": {"s", "ms"},
    "time_per_output_token": {"s/token", "ms/token"},
    "inter_token_latency": {"s/token", "ms/token"},
    "request_rate": {"queries/s"},
    "input_token_rate": {"tokens/s"},
    "output_token_rate": {"tokens/s"},
    "total_token_rate": {"tokens/s"},
}
STATISTICS = {
    *("units", "mean", "mode", "stddev", "min", "p0p1", "p1", "p5", "p10", "p25", "p50", "p75"),
    *("p90", "p95", "p99", "p99p9", "max"),
}
# Members that schema_v0_2.py needs, and those that it has, of objects that take no others.
COMPONENT = {"metadata", "standardized", "native"}
ENGINE = {*("kind", "tool", "tool_version", "role", "replicas", "model", "accelerator")}
# reframe-hpc 4.10.4 schemas/runreport.json, "required".
REPORT = {"restored_cases", "runs", "session_info"}
SESSION = {
    *("data_version", "hostname", "time_elapsed", "time_end_unix", "time_start_unix", "uuid")
}
TESTCASE = {
    *("environ", "fail_phase", "fail_reason", "filename", "job_completion_time_unix", "name"),
    *("perfvalues", "partition", "result", "system", "time_total", "unique_name"),
}


@pytest.fixture
def exported(call_trueup: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """``exported("reframe", ...)``: the outcome of an export of a record of each benchmark."""
    runs.write(tmp_path / "results", RUN)
    monkeypatch.chdir(tmp_path)

    def call(form: str, *more: str) -> Any:
        return call_trueup("export", "results", "--format", form, *more)

    return call


def figures(rows: list[dict[str, Any]]) -> Counter[Figure]:
    return Counter(
        (
            float(f"{row['value']:.12g}"),
            row["unit"],
            row.get("message_bytes"),
            row.get("statistic"),
            row.get("device"),
        )
        for row in rows
    )


def test_superbench_has_every_figure_and_is_read_back(exported: Any) -> None:
    ended = exported("superbench")
    lines = [json.loads(line) for line in ended.out.splitlines()]
    assert sorted(line["node"] for line in lines) == sorted(
        {record["nodes"][0] for record in RUN.records}
    )
    readings, refused = read_runs(ended.out, source="x")
    back = figures([row for reading in readings for row in reading.rows])
    recorded = figures([row for record in RUN.records for row in record["metrics"]])
    assert (refused, ended.status, ended.err) == ([], 0, "")
    assert recorded - back == Counter()


def test_a_record_that_is_not_ok_is_a_return_code_and_no_figure(
    call_trueup: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = {**RUN.records[0], "outcome": "invalid", "reason": "a check failed"}
    run = runs.Run(RUN.run_id, (record,), (None,), RUN.manifest)
    runs.write(tmp_path / "results", run)
    monkeypatch.chdir(tmp_path)
    ended = call_trueup("export", "results", "--format", "superbench")
    title = f"trueup-{record['benchmark']}:{record['case']}"
    assert json.loads(ended.out) == {"node": record["nodes"][0], f"{title}/return_code": 3}
    assert "1 x record that is invalid: its figures" in ended.err
    ended = call_trueup("export", "results", "--format", "reframe")
    [testcase] = json.loads(ended.out)["runs"][0]["testcases"]
    assert (testcase["result"], testcase["perfvalues"]) == ("fail", {})
    assert testcase["fail_reason"] == "invalid: a check failed"
    ended = call_trueup("export", "results", "--format", "llmd")
    assert (ended.status, "no record can be written as llmd" in ended.err) == (1, True)


def test_reframe_has_every_record_and_figure(exported: Any) -> None:
    ended = exported("reframe", "--output", "report.json")
    report = json.loads(Path("report.json").read_text(encoding="utf-8"))
    testcases = [case for run in report["runs"] for case in run["testcases"]]
    assert (ended.status, ended.err) == (0, "")
    assert report.keys() >= REPORT
    assert report["session_info"].keys() >= SESSION
    assert [case["name"] for case in testcases if not case.keys() >= TESTCASE] == []
    # Each performance variable is system:partition:name, and its value six members.
    values = {
        (case["unique_name"], name): value
        for case in testcases
        for name, value in case["perfvalues"].items()
    }
    assert {(name.count(":"), len(value)) for (_, name), value in values.items()} == {(2, 6)}
    assert Counter(value[0] for value in values.values()) == Counter(
        row["value"] for record in RUN.records for row in record["metrics"]
    )
    assert len({case["unique_name"] for case in testcases}) == len(testcases)


def test_openmetrics_is_read_by_the_client_of_prometheus(exported: Any) -> None:
    ended = exported("openmetrics")
    families = {family.name: family for family in text_string_to_metric_families(ended.out)}
    samples = [sample for family in families.values() for sample in family.samples]
    busbw = families["trueup_nccl_busbw_bytes_per_second"]
    largest = max(busbw.samples, key=lambda sample: int(sample.labels["message_bytes"]))
    assert (ended.status, ended.err) == (0, "")
    assert (busbw.unit, largest.labels["Hostname"]) == ("bytes_per_second", "a100-1")
    # NVIDIA/dcgm-exporter 4.5.3-4.8.2, rendermetrics/render_metrics.go.
    gpus = {
        (sample.labels["gpu"], sample.labels["device"])
        for sample in samples
        if "gpu" in sample.labels
    }
    assert gpus == {(str(number), f"nvidia{number}") for number in range(len(gpus))}
    models = {sample.labels["modelName"] for sample in samples if "modelName" in sample.labels}
    assert (len(gpus), models) == (8, {"NVIDIA H100 80GB HBM3"})
    # One more of each record says whether it is ok.
    assert len(samples) == len(RUN.records) + sum(len(each["metrics"]) for each in RUN.records)


def test_llmd_has_a_report_of_each_server(exported: Any) -> None:
    ended = exported("llmd", "--output", "reports")
    reports = [json.loads(path.read_text()) for path in sorted(Path("reports").iterdir())]
    servers = [each for each in RUN.records if each["benchmark"] in ("vllm", "serving")]
    assert (ended.status, len(reports)) == (0, len(servers))
    for report in reports:
        assert (report["version"], report.keys()) == (
            "0.2",
            {"version", "run", "scenario", "results"},
        )
        aggregate = report["results"]["request_performance"]["aggregate"]
        for name, statistics in {**aggregate["latency"], **aggregate["throughput"]}.items():
            assert statistics["units"] in UNITS[name]
            assert {"units", "mean"} <= statistics.keys() <= STATISTICS
        for component in report["scenario"]["stack"]:
            assert component.keys() == COMPONENT
            kind = component["standardized"]["kind"]
            assert kind == "generic" or component["standardized"].keys() == ENGINE
    rates = {
        round(report["results"]["request_performance"]["aggregate"]["throughput"]
              ["output_token_rate"]["mean"], 6)
        for report in reports
    }  # fmt: skip
    assert rates == {
        round(row["value"], 6)
        for record in servers
        for row in record["metrics"]
        if row["name"] == "output_token_throughput"
    }
    left_out = [record for record in RUN.records if record not in servers]
    said = [line for line in ended.err.splitlines() if "which measures no server" in line]
    assert len(said) == len({record["benchmark"] for record in left_out})


def test_a_report_of_llmd_is_read_back(exported: Any) -> None:
    ended = exported("llmd", "--benchmark", "vllm")
    [reading], refused = read_runs(ended.out, source="x")
    [record] = [record for record in RUN.records if record["benchmark"] == "vllm"]
    names = ("output_token_throughput", "request_throughput", "ttft", "tpot", "itl", "e2el")
    recorded = {
        (row["name"], row.get("statistic"), round(row["value"], 9))
        for row in record["metrics"]
        if row["name"] in names
    }
    back = {(row["name"], row.get("statistic"), round(row["value"], 9)) for row in reading.rows}
    assert (reading.tool, refused, recorded - back) == ("serving", [], set())


def test_an_output_that_cannot_be_a_folder_is_one_sentence(exported: Any) -> None:
    Path("file").write_text("", encoding="utf-8")
    ended = exported("llmd", "--output", "file/reports")
    assert (ended.status, "file/reports cannot be a folder" in ended.err) == (1, True)


def test_published_rows_are_no_measurement(call_trueup: Any) -> None:
    published = runs.DATA.parents[1] / "catalog" / "reference_results.csv"
    ended = call_trueup("export", published, "--format", "openmetrics")
    assert (ended.status, ended.out) == (1, "")
    assert "x published row, which nobody here measured" in ended.err
    assert "no record can be written as openmetrics" in ended.err
