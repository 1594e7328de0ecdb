"""Servers that other tools measured: import, list, cost, load sweeps, knee and report, as of
vLLM's own records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers import parametrized

DATA = Path(__file__).resolve().parents[2] / "data" / "serving"
SIZE = "Standard_ND96isr_H100_v5"
# Requests in flight, and the output tokens a second that they bring: a knee at 16.
LOADS = {2: 400.0, 4: 800.0, 8: 1600.0, 16: 3200.0, 32: 3300.0, 64: 3400.0, 128: 3500.0}


@pytest.fixture
def trueup(call_trueup: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)

    def call(*words: object, status: int = 0) -> str:
        ended = call_trueup(*map(str, words))
        assert (ended.status, ended.err if ended.status != status else "") == (status, "")
        return str(ended.out)

    return call


def lines(loads: dict[int, float], **changes: Any) -> str:
    """SGLang's result file: a line for each load."""
    first = json.loads((DATA / "synthetic_sglang.jsonl").read_text().splitlines()[0])
    made = []
    for load, output in loads.items():
        requests = output / 128
        rates = {
            "request_throughput": requests,
            "output_throughput": output,
            "input_throughput": requests * 512,
            "total_throughput": requests * 640,
        }
        counts = {"completed": round(requests * 32), "total_output_tokens": round(output * 32)}
        made.append(
            {
                **first,
                **rates,
                **counts,
                "duration": 32.0,
                "max_concurrency": load,
                "total_input_tokens": round(requests * 512 * 32),
                "concurrency": None,
                **changes,
            }
        )
    return "".join(json.dumps(line) + "\n" for line in made)


def sheets(text: str, kind: str) -> list[dict[str, Any]]:
    return [table for table in json.loads(text)["tables"] if table["kind"] == kind]


def test_a_result_file_of_seven_loads_is_a_sweep_with_its_knee(trueup: Any, tmp_path: Path) -> None:
    (tmp_path / "loads.jsonl").write_text(lines(LOADS))
    trueup("import", "loads.jsonl", "--size", SIZE, "--nodes", 1, "--gpus", 1)
    shown = trueup("cost", "--region", "eastus", "--ttft-ms", 500, "-f", "json")
    [sweep] = sheets(shown, "sweep")
    assert (sweep["over"], sweep["knee"], sweep["highest_within_level"]) == (
        *("max_concurrency", 16.0, 128.0),
    )
    rates = [(row["load"], row["output_tokens_per_second"]) for row in sweep["rows"]]
    assert rates == list(LOADS.items())
    [table] = sheets(shown, "tokens")
    assert {(row["engine"], row["version"], row["model"]) for row in table["rows"]} == {
        ("sglang", "0.5.6", "meta-llama/Llama-3.1-8B-Instruct")
    }
    trueup("report", "--output", "report")
    assert (tmp_path / "report" / "plots" / "serving-sweep-1.png").stat().st_size > 1000
    page = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    assert "The knee is at 16 requests in flight" in page


def test_engines_are_never_pooled_and_an_unknown_one_is_compared_with_no_other(
    trueup: Any, tmp_path: Path
) -> None:
    for backend in ("sglang", "vllm", "my-proxy"):
        name = f"{backend}.jsonl"
        (tmp_path / name).write_text(lines({8: 1600.0}, backend=backend, server_info=None))
        model = ("--model", "llama")
        trueup("import", name, "--size", SIZE, "--nodes", 1, "--gpus", 1, *model)
    table = (DATA / "synthetic_aiperf.txt").read_text()
    (tmp_path / "a.txt").write_text(table)
    (tmp_path / "b.txt").write_text(table.replace("1,690.00", "1,691.00"))
    trueup("import", "a.txt", "b.txt", "--size", SIZE, "--nodes", 1, "--gpus", 1, *model)
    shown = trueup("cost", "--region", "eastus", "-f", "json")
    rows = [row for table in sheets(shown, "tokens") for row in table["rows"]]
    assert sorted((row["engine"], row["n"]) for row in rows) == [
        *(("", 1), ("", 1), ("my-proxy", 1), ("sglang", 1), ("vllm", 1))
    ]
    assert sheets(shown, "sweep") == []


def test_an_option_says_the_engine_that_a_client_does_not(trueup: Any, tmp_path: Path) -> None:
    export = (DATA / "aiperf_0.13.0.json").read_text()
    (tmp_path / "a.json").write_text(export)
    (tmp_path / "b.json").write_text(export.replace('"concurrency": 8', '"concurrency": 16'))
    options = ("--size", SIZE, "--nodes", 1, "--gpus", 1, "--engine")
    trueup("import", "a.json", *options, "vLLM")
    trueup("import", "b.json", *options, "vllm")
    [sweep] = sheets(trueup("cost", "--region", "eastus", "-f", "json"), "sweep")
    assert [row["load"] for row in sweep["rows"]] == [8.0, 16.0]


@parametrized(("name", "output", "gpus"))
def test_every_tools_tokens_are_priced_and_listed(
    trueup: Any, name: str, output: float, gpus: int | None
) -> None:
    options = ("--size", SIZE, "--nodes", 1)
    trueup("import", DATA / name, *options, *(() if gpus else ("--gpus", 1)))
    assert "serving" in trueup("list")
    [table] = sheets(trueup("cost", "--region", "eastus", "-f", "json"), "tokens")
    [row] = table["rows"]
    assert row["output_tokens_per_second"] == pytest.approx(output, rel=1e-6)
    assert row["gpus"] == (gpus or 1)
    assert row["usd_per_million_output_tokens"] == pytest.approx(
        row["usd_per_hour"] / 3600 / output * 1e6
    )


@parametrized(("name", "options", "reason"))
def test_an_option_that_contradicts_the_output_is_refused(
    call_trueup: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    options: tuple[object, ...],
    reason: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = call_trueup("import", str(DATA / name), "--size", SIZE, *map(str, options))
    assert (ended.status, reason in " ".join(ended.err.split())) == (1, True)


def test_an_offline_latency_is_listed_by_its_time(trueup: Any) -> None:
    trueup("import", DATA / "synthetic_vllm_latency.json", "--size", SIZE, "--nodes", 1)
    assert "E2EL 1600" in " ".join(trueup("list").split())
