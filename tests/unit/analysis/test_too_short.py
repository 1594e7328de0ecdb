"""Cases that end too early to say anything on the machine: marked when recorded, in no table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from helpers import parametrized
from made import record
from trueup_analysis.figures.too_short import marked

CATALOG = Path(__file__).resolve().parents[3] / "catalog"
HBV3 = "Standard_HB120rs_v3"
H100 = "Standard_ND96isr_H100_v5"


def row(name: str, value: float, unit: str = "s", **more: Any) -> dict[str, Any]:
    return {"name": name, "value": value, "unit": unit, "direction": "lower", **more}


def of(benchmark: str, *metrics: dict[str, Any], **more: Any) -> dict[str, Any]:
    return marked(record(benchmark=benchmark, metrics=list(metrics), **more), CATALOG)


@parametrized(("benchmark", "metrics", "outcome"))
def test_less_than_a_second_is_marked(
    benchmark: str, metrics: list[dict[str, Any]], outcome: str
) -> None:
    assert of(benchmark, *metrics)["outcome"] == outcome


def hpl(rate: float, size: str | None) -> dict[str, Any]:
    rows = [row("hpl_time", 100.0), row("hpl_rate", rate, "flop/s", statistic="single")]
    return of("hpl", *rows, vm_size=size, node_count=1, parameters={"gpus": 0})


def test_a_rate_under_one_percent_of_the_peak_is_marked() -> None:
    # Its peak is 4,608 GFLOP/s or more (catalog/vm_sizes.csv).
    assert hpl(1e12, HBV3)["outcome"] == "ok"
    slow = hpl(1e10, HBV3)
    assert slow["outcome"] == "too_short"
    assert f"of the peak of {HBV3}" in slow["reason"]
    assert hpl(1e10, None)["outcome"] == "ok"


def test_a_tiny_model_on_a_large_gpu_is_marked() -> None:
    rows = [
        row("step_time", 1.0, statistic="median", n=20),
        row("train_flops_megatron", 1e12, "flop/s", statistic="median", n=20),
    ]
    made = of("megatron", *rows, vm_size=H100, node_count=2, parameters={"precision": "bf16"})
    assert made["outcome"] == "too_short"


def test_a_short_log_is_recorded_with_its_reason_and_is_in_no_table(
    call_trueup: Any, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    log = CATALOG.parent / "tests" / "data" / "hpl" / "hpcc150_1rank.txt"
    done = call_trueup("import", log, "--size", HBV3, "--region", "eastus", "--results", results)
    assert (done.status, "0.116 s were timed" in done.err) == (0, True)
    for command in ("cost", "scaling"):
        done = call_trueup(command, results)
        assert (done.status, done.out) == (1, "")
    assert "1 too_short" in done.err
    assert ": 1 too short" in call_trueup("list", results).out
    health = call_trueup("health", results)
    assert (health.status, "not measured" in health.out) == (2, True)
    assert "pass" not in health.out
    report = tmp_path / "report"
    assert call_trueup("report", results, "-o", report).status == 0
    page = (report / "index.html").read_text(encoding="utf-8")
    assert "1 record too short to judge, in no headline, cost or scaling" in page
