"""``trueup cost`` begins with the cheapest machine for equal work; no unknown work is equal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

A100, H100 = "Standard_ND96amsr_A100_v4", "Standard_ND96isr_H100_v5"
H200 = "Standard_ND96isr_H200_v5"
LOADS = (2, 4, 16, 128)


def table(requests_in_flight: int, rate: float) -> str:
    """The table that vllm bench serve prints: 200 requests of 1000 tokens in and 200 out."""
    seconds = round(200 * 200 / rate, 2)
    rows = {
        "Successful requests:": "200",
        "Failed requests:": "0",
        "Maximum request concurrency:": str(requests_in_flight),
        "Benchmark duration (s):": f"{seconds:.2f}",
        "Total input tokens:": "200000",
        "Total generated tokens:": "40000",
        "Request throughput (req/s):": f"{200 / seconds:.2f}",
        "Output token throughput (tok/s):": f"{40000 / seconds:.2f}",
        "Total token throughput (tok/s):": f"{240000 / seconds:.2f}",
    }
    lines = [f"{'=' * 12} Serving Benchmark Result {'=' * 12}"]
    lines += [f"{name:<40} {value}" for name, value in rows.items()]
    for name, title in (
        ("TTFT", "---------------Time to First Token----------------"),
        ("TPOT", "-----Time per Output Token (excl. 1st token)------"),
        ("ITL", "---------------Inter-token Latency----------------"),
    ):
        lines.append(title)
        lines += [f"{f'{kind} {name} (ms):':<40} 20.00" for kind in ("Mean", "Median", "P99")]
    return "\n".join([*lines, "=" * 50, ""])


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Logs of four loads on three sizes: an H100 is 2.2 times as fast as an A100, an H200 3."""
    for name, speed in (("a100", 1.0), ("h100", 2.2), ("h200", 3.0)):
        for load in LOADS:
            log = tmp_path / name / f"c{load}.txt"
            log.parent.mkdir(exist_ok=True)
            log.write_text(table(load, speed * 400 * load**0.7), encoding="utf-8")
    return tmp_path


def imported(call_trueup: Any, logs: Path, *more: str) -> Path:
    results = logs / "results"
    for name, size in (("a100", A100), ("h100", H100), ("h200", H200)):
        where = ("--size", size, "--nodes", 1, "--region", "eastus2", "--results", results)
        assert call_trueup("import", logs / name, *where, *more).status == 0
    return results


def test_cost_begins_with_the_cheapest_of_three_sizes(call_trueup: Any, logs: Path) -> None:
    results = imported(call_trueup, logs, "--model", "llama-70b")
    done = call_trueup("cost", results, "--price-date", "2026-06-18")
    # US$ an hour: 84.80, 32.77, 98.32; million tokens an hour at 128: 771.4, 257.9, 568.4.
    assert done.out.splitlines()[0] == (
        "H200: 0.1099 US$ per million tokens, 13 % below A100 and 36 % below H100 (llama-70b)."
    )
    tables = json.loads(call_trueup("cost", results, "-f", "json").out)["tables"]
    assert [row["case"] for row in tables[0]["rows"]] == [
        f"llama-70b-max_concurrency{load}" for load in LOADS for _ in range(3)
    ]
    assert [row["cheapest"] for row in tables[0]["rows"]] == [False, False, True] * 4
    sweeps = [table for table in tables if table["kind"] == "sweep"]
    assert [[row["load"] for row in sweep["rows"]] for sweep in sweeps] == [list(LOADS)] * 3


def test_logs_of_unknown_models_are_no_sweep_and_none_is_the_cheapest(
    call_trueup: Any, logs: Path
) -> None:
    results = imported(call_trueup, logs)
    tables = json.loads(call_trueup("cost", results, "-f", "json").out)["tables"]
    assert [table["kind"] for table in tables] == ["tokens"]
    assert {row["cheapest"] for row in tables[0]["rows"]} == {False}
    assert call_trueup("cost", results).out.startswith("US$ per million tokens")


def test_an_imported_sweep_has_its_plots(call_trueup: Any, logs: Path) -> None:
    results = imported(call_trueup, logs, "--model", "llama-70b")
    page = logs / "page"
    assert call_trueup("report", results, "-o", page).status == 0
    text = (page / "index.html").read_text(encoding="utf-8")
    assert ("Throughput over requests in flight" in text) is True
