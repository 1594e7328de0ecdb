"""Load sweeps of vLLM: their loads from records, knee, service level, goodput per US$, plots."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import TYPE_CHECKING, Any

import made
import pytest
from helpers import parametrized
from trueup_analysis.figures.prices import read_prices
from trueup_analysis.figures.serving import Sweep, sweeps
from trueup_analysis.figures.terms import ServiceLevel, Terms
from trueup_analysis.figures.tokens import read_gpus, table
from trueup_analysis.load import load
from trueup_analysis.report.publish import write_report
from trueup_analysis.sheets import serving as sheets
from trueup_node.errors import BadInput

if TYPE_CHECKING:
    from pathlib import Path

from test_tokens import CATALOG, HOURLY, priced, served

DATA = CATALOG.parent / "tests" / "data" / "records"
LOADS = (1, 2, 4, 8, 16, 32, 64, 128)
LEVEL = ServiceLevel(500.0, 50.0)


def at(load_: float, repeat: int = 0, **changes: Any) -> dict[str, Any]:
    """A synthetic record of one load: 100 output tokens/s a request up to 16 in flight; answers of
    200 tokens; the first token after 0.1 s, and after as much for each request that waits."""
    rate = 100.0 * min(load_, 16) * (1 + 0.01 * repeat)
    wait = 0.1 * max(1.0, load_ / 16)
    figure = made.figure
    metrics = [
        figure("request_throughput", rate / 200, "1/s", "higher"),
        figure("request_goodput", rate / 400, "1/s", "higher"),
        figure("output_token_throughput", rate, "1/s", "higher"),
        figure("total_token_throughput", 3 * rate, "1/s", "higher"),
        figure("prefix_cache_hit_rate", 0.5, "1", "higher"),
        *(
            figure(name, value, "s", "lower", statistic=word, n=100)
            for name, word, value in (
                *(("ttft", "median", wait), ("ttft", "p99", 2 * wait)),
                *(("tpot", "median", 0.01), ("tpot", "p99", 0.02)),
                ("e2el", "mean", load_ * 200 / rate),
            )
        ),
    ]
    parameters = {
        "model": "tiny",
        "profile": "random",
        "max_concurrency": load_,
        "request_rate": 0.0,
        "num_prompts": max(100, 5 * load_),
        "seed": 42 + repeat,
        "goodput_ttft_ms": 500.0,
        "goodput_tpot_ms": 50.0,
    }
    begun = f"2026-11-20T09:{int(load_) % 60:02d}:{repeat:02d}Z"
    changes = {"started_at": begun, **changes}
    return served(f"random-tiny-c{load_:g}", 8, metrics, parameters, **changes)


def one(folder: Path, records: list[dict[str, Any]], level: ServiceLevel | None = None) -> Sweep:
    [found] = sweeps(priced(folder, records), level)
    return found


@pytest.fixture
def run(call_trueup):
    return call_trueup


def test_loads_in_any_order_are_one_sweep_with_its_knee(tmp_path: Path) -> None:
    records = [at(load_, repeat) for load_ in reversed(LOADS) for repeat in range(3)]
    found = one(tmp_path, records, LEVEL)
    assert [row["load"] for row in found.rows] == list(LOADS)
    assert [row["n"] for row in found.rows] == [3] * 8
    assert (found.knee.load, found.knee.at) == (16.0, pytest.approx(16.0))
    # TTFT p99 is 0.2 s x load / 16: 0.4 s at 32, 0.8 s at 64.
    assert found.highest == 32
    assert "32 is the highest load within the service level" in found.level
    row = found.rows[3]
    # 8 in flight, 808 tokens a second in the middle run: an eighth each for a user and for a GPU.
    assert row["tokens_per_user"] == pytest.approx(101)
    assert row["tokens_per_device"] == pytest.approx(101)
    assert row["goodput_per_usd"] == pytest.approx(808 / 400 * 3600 / HOURLY)
    said = " ".join(sheets.sweep(found).notes)
    assert "The knee is at 16 requests in flight" in said
    assert "Goodput: answers within TTFT 500 ms, TPOT 50 ms, each of them." in said


def test_rates_are_a_sweep_of_their_own(tmp_path: Path) -> None:
    rates = [
        at(load_, case=f"r{load_}", parameters={"max_concurrency": 0, "request_rate": float(load_)})
        for load_ in LOADS
    ]
    found = sweeps(priced(tmp_path, rates + [at(load_) for load_ in LOADS]))
    assert [item.over for item in found] == ["request_rate", "max_concurrency"]
    assert [len(item.rows) for item in found] == [8, 8]


@parametrized("changes")
def test_other_servers_are_no_loads_of_a_sweep(tmp_path: Path, changes: dict[str, Any]) -> None:
    found = sweeps(priced(tmp_path, [at(load_) for load_ in LOADS] + [at(3, **changes)]))
    assert [len(item.rows) for item in found] == [8]


def test_one_load_alone_is_no_sweep(tmp_path: Path) -> None:
    assert sweeps(priced(tmp_path, [at(8), at(8, 1)])) == []


def test_two_loads_have_no_knee_and_say_so(tmp_path: Path) -> None:
    found = one(tmp_path, [at(8), at(16)])
    assert found.knee.why.startswith("No knee: it needs 5 loads")
    assert found.level == "No service level is stated, so no load is judged by it."


def test_a_server_that_died_in_the_middle_leaves_its_loads_named(tmp_path: Path) -> None:
    gone = {"outcome": "failed", "reason": "the server stopped answering", "metrics": []}
    records = [at(load_) for load_ in LOADS[:6]] + [at(load_, **gone) for load_ in LOADS[6:]]
    found = one(tmp_path, records, ServiceLevel(5000.0))
    assert (len(found.rows), found.missing) == (6, {64.0: "failed", 128.0: "failed"})
    assert (found.highest, found.level.endswith(": 64 is failed.")) == (32, True)
    assert "Loads with records that do not count: 64 (failed), 128 (failed)." in sheets.findings(
        found
    )


def test_a_load_with_a_failed_repeat_is_not_within_the_level(tmp_path: Path) -> None:
    invalid = at(16, 1, outcome="invalid", reason="12 of 100 requests failed")
    found = one(tmp_path, [*(at(load_) for load_ in LOADS), invalid], LEVEL)
    assert (found.highest, found.missing) == (8, {16.0: "invalid"})


def test_a_load_without_tokens_does_not_count(tmp_path: Path) -> None:
    none = at(32)
    none["metrics"][2] = made.figure("output_token_throughput", 0.0, "1/s", "higher")
    found = one(tmp_path, [*(at(load_) for load_ in LOADS if load_ != 32), none])
    assert (len(found.rows), found.missing, found.knee.load) == (7, {32.0: "ok"}, 16.0)


@pytest.mark.parametrize(("limits", "holds"), [((None, 50.0), None), ((500.0, None), True)])
def test_an_unknown_latency_is_no_verdict(
    tmp_path: Path, limits: tuple[float | None, float | None], holds: bool | None
) -> None:
    records = [at(load_) for load_ in (1, 2)]
    for record in records:
        # Answers in one piece: the record has no TPOT.
        record["metrics"] = [row for row in record["metrics"] if row["name"] != "tpot"]
    found = one(tmp_path, records, ServiceLevel(*limits))
    assert [row["within"] for row in found.rows] == [holds, holds]
    assert ("of 1 a latency is unknown" in found.level) is (holds is None)


def test_no_load_within_the_level_and_all_of_them(tmp_path: Path) -> None:
    records = [at(load_) for load_ in LOADS]
    none = one(tmp_path / "a", records, ServiceLevel(1.0))
    every = one(tmp_path / "b", records, ServiceLevel(1e6))
    assert (none.highest, "No load is within" in none.level) == (None, True)
    assert (every.highest, "higher ones may be too" in every.level) == (128, True)


@pytest.mark.parametrize("limit", [0.0, -1.0, float("nan"), float("inf")])
def test_a_service_level_that_is_none_is_refused(limit: float) -> None:
    with pytest.raises(BadInput, match="is not above zero"):
        ServiceLevel(tpot_ms=limit)


def test_idle_hours_raise_what_tokens_cost(tmp_path: Path) -> None:
    full, third = (
        priced(tmp_path / name, [at(16)], idle_hours=hours).table[0]
        for name, hours in (("a", 0.0), ("b", 16.0))
    )
    for name in ("usd_per_million_output_tokens", "usd_per_answer"):
        assert third[name] == pytest.approx(3 * full[name])
    assert third["goodput_per_usd"] == pytest.approx(full["goodput_per_usd"] / 3)
    for hours in (24.0, -1.0, float("nan")):
        with pytest.raises(BadInput, match="idle hours a day"):
            Terms(idle_hours=hours)


def test_the_command_writes_the_sweep_in_every_form(run, tmp_path: Path) -> None:
    folder = made.write(tmp_path, [at(load_) for load_ in LOADS])
    given = ("--ttft-ms", "500", "--tpot-ms", "50", "--idle-hours", "12")
    shown = run("cost", folder, *given)[1]
    assert "Load sweep over requests in flight, tiny on Standard_ND96isr_H100_v5" in shown
    assert "Of each day 12 hours are billed without a request: costs are x 2." in shown
    sheet = json.loads(run("cost", folder, *given, "-f", "json")[1])["tables"][-1]
    assert [sheet[name] for name in ("kind", "over", "knee", "highest_within_level")] == [
        *("sweep", "max_concurrency", 16.0, 32.0)
    ]
    assert [row["within"] for row in sheet["rows"]] == [True] * 6 + [False] * 2
    rows = list(csv.DictReader(io.StringIO(run("cost", folder, *given, "-f", "csv")[1])))
    assert sum(row["table"].startswith("Load sweep") for row in rows) == 8
    status, out, err = run("cost", folder, "--ttft-ms", "0")
    assert (status, out, "0 ms TTFT is not above zero" in err) == (1, "", True)


@parametrized(("changes", "words"))
def test_the_report_plots_users_against_the_machine(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    folder = made.write(tmp_path / "results", [at(load_, **changes) for load_ in LOADS])
    page = write_report(load([folder]), tmp_path / "report", level=LEVEL).read_text("utf-8")
    assert words in page
    assert (tmp_path / "report" / "plots" / "vllm-sweep-1.png").stat().st_size > 1000
    assert "The knee is at 16 requests in flight" in page
    assert re.findall(r">(16(?:: US\$ [0-9.]+)?, knee)<", page) == [
        "16: US$ 17.1, knee" if not changes else "16, knee"
    ]
    # Latency over the load is the benchmark's own plot.
    assert "TTFT and E2EL over requests in flight" in page


@pytest.mark.parametrize(("price", "priced_sizes"), [(98.32, 2), (None, 1)])
def test_two_sizes_are_curves_over_each_other_with_us_dollars_at_the_right(
    tmp_path: Path, price: float | None, priced_sizes: int
) -> None:
    records = [at(load_) for load_ in LOADS]
    records += [at(load_, vm_size="Standard_ND96isr_H200_v5", nodes=["h200-1"]) for load_ in LOADS]
    folder = made.write(tmp_path / "results", records)
    terms = Terms(price=price)
    report = write_report(load([folder]), tmp_path / "report", level=LEVEL, terms=terms)
    page = report.read_text("utf-8")
    figure = page[page.index('id="figure-vllm-sizes-1"') :].partition("</figure>")[0]
    values = re.findall("<title>([^<]*)</title>", figure)
    sizes = ("Standard_ND96isr_H100_v5", "Standard_ND96isr_H200_v5")
    counts = {size: sum(text.startswith(f"{size}, ") for text in values) for size in sizes}
    loads = len(LOADS)
    assert counts == dict(zip(sizes, (2 * loads, priced_sizes * loads), strict=True))
    costs = [text for text in values if text.endswith("US$ per million output tokens")]
    assert len(costs) == priced_sizes * loads
    unpriced = "No US$: Standard_ND96isr_H200_v5 has no price."
    assert (unpriced in figure) == (priced_sizes == 1)


def test_the_reports_table_of_costs_is_that_of_the_command(run, tmp_path: Path) -> None:
    folder = made.write(tmp_path / "results", [at(load_) for load_ in LOADS])
    write_report(load([folder]), tmp_path / "report", level=LEVEL)
    written = (tmp_path / "report" / "tables" / "cost.csv").read_text("utf-8")
    assert written == run("cost", folder, "--ttft-ms", "500", "--tpot-ms", "50", "-f", "csv")[1]


def test_a_measured_sweep_has_its_knee_and_highest_load(tmp_path: Path) -> None:
    """A server of at most 8 requests at once, on a machine busy with other work."""
    lines = (DATA / "vllm_sweep.jsonl").read_text("utf-8").splitlines()
    result = table(
        load([made.write(tmp_path, [json.loads(line) for line in lines])]),
        prices=read_prices(CATALOG / "prices.csv"),
        gpus=read_gpus(CATALOG / "vm_sizes.csv"),
        terms=Terms(as_size="Standard_HB120rs_v3", region="eastus"),
    )
    assert result is not None
    [found] = sweeps(result, ServiceLevel(1000.0))
    assert [(row["load"], row["n"], row["cached_share"]) for row in found.rows] == [
        (load_, 3, 0.0) for load_ in LOADS
    ]
    assert (found.knee.load, found.highest) == (16.0, 8.0)
    assert found.knee.at == pytest.approx(18.9, abs=0.5)
    # 537.3 tokens/s of a node at 3.60 US$ an hour.
    assert found.rows[4]["usd_per_million_output_tokens"] == pytest.approx(1.861, abs=0.001)
    # vLLM's own plot divides by the requests in flight: the same while the server is full.
    row = found.rows[3]
    assert row["tokens_per_user"] == pytest.approx(row["output_tokens_per_second"] / 8, rel=0.1)


def test_loads_of_imported_logs_are_text(tmp_path: Path) -> None:
    texts = {"request_rate": "inf"}
    records = [at(load_, parameters={**texts, "max_concurrency": str(load_)}) for load_ in LOADS]
    assert [row["load"] for row in one(tmp_path, records).rows] == list(LOADS)


@pytest.mark.parametrize("load_", [-8, True, "8", "many", "nan", None])
def test_what_is_no_load_is_in_no_sweep(tmp_path: Path, load_: Any) -> None:
    records = [
        at(number, parameters={"max_concurrency": load_, "random_input_tokens": number})
        for number in LOADS
    ]
    folder = made.write(tmp_path / "results", records)
    page = write_report(load([folder]), tmp_path / "report").read_text("utf-8")
    assert ("Load sweep over" in page, "over requests in flight" in page) == (False, False)
