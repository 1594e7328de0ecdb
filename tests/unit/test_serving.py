"""Servers, by whichever tool they were measured: one schema, the same metrics and units."""

from __future__ import annotations

from pathlib import Path

import pytest
from trueup_analysis.read import read, read_runs

DATA = Path(__file__).parents[1] / "data" / "serving"


def text_of(name: str) -> str:
    return (DATA / name).read_text(encoding="utf-8")


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
