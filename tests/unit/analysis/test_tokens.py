"""Cost per million tokens: whole VMs, shares of their GPUs, APIs, and the article's table."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import made
import pandas as pd
import pytest
from helpers import parametrized
from trueup_analysis import units
from trueup_analysis.figures.prices import read_prices
from trueup_analysis.figures.published_tokens import Article, recompute
from trueup_analysis.figures.terms import ApiPrices, Terms
from trueup_analysis.figures.tokens import TokenTable, read_gpus, table
from trueup_analysis.load import load
from trueup_analysis.render import table as table_format
from trueup_analysis.report.publish import write_report
from trueup_analysis.rooms import view_of
from trueup_analysis.sheets import tokens as token_sheets
from trueup_node.errors import BadInput

ROOT = Path(__file__).resolve().parents[3]
CATALOG = ROOT / "catalog"
REFERENCE = CATALOG / "reference_results.csv"
GOLDEN = ROOT / "tests" / "data" / "records" / "golden"
H100 = "Standard_ND96isr_H100_v5"
# 98.32 US$ an hour in eastus, on 2026-09-16.
HOURLY = 98.32


def vllm(
    output: float = 1000.0, total: float = 3000.0, *, profile: str = "chat", **changes: Any
) -> dict[str, Any]:
    """A whole vLLM record, synthetic: these rates of tokens on one GPU of an H100 node."""
    metrics = [
        made.figure("request_throughput", output / 200, "1/s", "higher"),
        made.figure("output_token_throughput", output, "1/s", "higher"),
        made.figure("total_token_throughput", total, "1/s", "higher"),
        *(
            made.figure("ttft", value, "s", "lower", statistic=word, n=100)
            for word, value in (("mean", 0.03), ("median", 0.02), ("p99", 0.2))
        ),
        made.figure("requests_completed", 100, "1", "higher"),
        made.figure("requests_failed", 0, "1", "lower"),
    ]
    parameters = {
        "model": "meta-llama/Llama-3.1-8B-Instruct",
        "profile": profile,
        "num_prompts": 100,
    }
    return served(f"llama-3.1-8b-{profile}", 1, metrics, parameters, **changes)


def served(
    case: str, gpus: int, metrics: list[Any], parameters: dict[str, Any], /, **changes: Any
) -> dict[str, Any]:
    """A vLLM record on so many GPUs of an H100 node; changes of ``parameters`` add to them."""
    record = made.record(
        benchmark="vllm",
        case=case,
        vm_size=H100,
        gpus=gpus,
        software={"vllm": "0.32.0"},
        metrics=metrics,
    )
    # made.record has Devito's parameters.
    return {**record, "parameters": {**parameters, **changes.pop("parameters", {})}, **changes}


def priced(folder: Path, records: list[dict[str, Any]], **options: Any) -> TokenTable:
    found = table(
        load([made.write(folder, records)]),
        prices=read_prices(CATALOG / "prices.csv"),
        gpus=read_gpus(CATALOG / "vm_sizes.csv"),
        api=options.pop("api", None),
        terms=Terms(**options),
    )
    assert isinstance(found, TokenTable)
    return found


@pytest.fixture
def run(call_trueup):
    return call_trueup


def test_the_whole_vm_is_billed_and_the_share_stands_beside_it(tmp_path: Path) -> None:
    row = made.frame(priced(tmp_path, [vllm(1000.0, 3000.0)]).table).iloc[0]
    # 98.32 US$ buy 3.6 million output and 10.8 million tokens.
    assert row["usd_per_million_output_tokens"] == pytest.approx(HOURLY / 3.6)
    assert row["usd_per_million_total_tokens"] == pytest.approx(HOURLY / 10.8)
    assert row["usd_per_million_output_tokens_by_gpu_share"] == pytest.approx(HOURLY / 8 / 3.6)
    assert row["usd_per_million_total_tokens_by_gpu_share"] == pytest.approx(HOURLY / 8 / 10.8)
    shown = [
        *("version", "model", "profile", "case", "vm_size", "node_count", "gpus", "gpus_billed"),
        *("gpu_share", "n", "region", "os", "offer", "currency", "usd_per_hour", "price_date"),
    ]
    assert row[shown].to_list() == [
        *("0.32.0", "meta-llama/Llama-3.1-8B-Instruct", "chat", "llama-3.1-8b-chat", H100),
        *(1, 1, 8, 0.125, 1, "eastus", "linux", "payg", "USD", HOURLY, "2026-09-16"),
    ]


def test_two_nodes_cost_twice_as_much_and_use_all_their_gpus(tmp_path: Path) -> None:
    record = vllm(1000.0, 3000.0, nodes=["a", "b"], node_count=2, gpus=16)
    row = made.frame(priced(tmp_path, [record]).table).iloc[0]
    assert row["usd_per_million_output_tokens"] == pytest.approx(2 * HOURLY / 3.6)
    assert (row["gpus_billed"], row["gpu_share"]) == (16, 1.0)
    assert pd.isna(row["usd_per_million_output_tokens_by_gpu_share"])


def test_cached_prompts_are_told_from_worked_out_tokens(tmp_path: Path) -> None:
    hits = made.figure("prefix_cache_hit_rate", 0.75, "1", "higher")
    known = vllm(1000.0, 3000.0)
    known["metrics"].append(hits)
    result = priced(tmp_path, [known, vllm(1000.0, 3000.0, case="unknown")])
    row, other = (made.frame(result.table).iloc[place] for place in range(2))
    # 2000 prompt tokens a second, of which a quarter is worked out, and 1000 generated ones.
    assert (row["cached_share"], row["uncached_tokens_per_second"]) == (0.75, 1500.0)
    assert row["usd_per_million_uncached_tokens"] == pytest.approx(HOURLY / 5.4)
    assert row["usd_per_million_uncached_tokens_by_gpu_share"] == pytest.approx(HOURLY / 8 / 5.4)
    assert pd.isna(other["usd_per_million_uncached_tokens"])
    shown = table_format.render(token_sheets.tokens(result), width=300)
    assert "75 %" in shown
    assert "nan" not in shown.lower()


def test_an_answer_costs_its_tokens(tmp_path: Path) -> None:
    without = vllm(case="without")
    without["metrics"] = without["metrics"][1:3]
    result = priced(tmp_path, [vllm(1000.0, 3000.0), without])
    row, other = (made.frame(result.table).iloc[place] for place in range(2))
    # The record has 5 answers a second of 200 tokens each.
    assert row["output_tokens_per_answer"] == pytest.approx(200)
    assert row["usd_per_answer"] == pytest.approx(HOURLY / 3600 / 5)
    assert row["usd_per_answer"] == pytest.approx(row["usd_per_million_output_tokens"] * 200e-6)
    assert [pd.isna(other[name]) for name in ("output_tokens_per_answer", "usd_per_answer")] == [
        *(True, True)
    ]


def test_goodput_is_by_us_dollar_within_what_was_stated(tmp_path: Path) -> None:
    record = vllm(parameters={"goodput_ttft_ms": 500.0, "goodput_tpot_ms": 50.0})
    record["metrics"].append(made.figure("request_goodput", 4.0, "1/s", "higher"))
    result = priced(tmp_path, [record, vllm(case="without")])
    row, other = (made.frame(result.table).iloc[place] for place in range(2))
    assert row["goodput_per_usd"] == pytest.approx(4 * 3600 / HOURLY)
    assert pd.isna(other["goodput_per_usd"])
    [sheet, *_] = token_sheets.tokens(result)
    assert "Goodput: answers within TTFT 500 ms, TPOT 50 ms, each of them." in sheet.notes


def test_repeats_are_pooled_by_their_median_with_n_and_spread(tmp_path: Path) -> None:
    records = [
        vllm(
            rate,
            2 * rate,
            started_at=f"2026-11-20T09:1{minute}:00Z",
            nodes=[f"n{minute}"],
            parameters={"base_url": f"http://n{minute}:8000"},
        )
        for minute, rate in enumerate((900.0, 1200.0, 1000.0))
    ]
    result = priced(tmp_path, records)
    row = made.frame(result.table).iloc[0]
    assert (len(result.table), row["n"]) == (1, 3)
    names = [f"output_tokens_per_second{end}" for end in ("", "_min", "_max")]
    assert row[names].to_list() == [1000.0, 900.0, 1200.0]
    assert row["usd_per_million_output_tokens"] == pytest.approx(HOURLY / 3.6)
    assert "30.0 %" in table_format.render(token_sheets.tokens(result))


@parametrized(("changes", "reason"))
def test_what_cannot_be_priced_is_left_out_with_its_reason(
    tmp_path: Path, run, changes: dict[str, Any], reason: str
) -> None:
    bad = vllm(case="bad", **changes)
    result = priced(tmp_path / "both", [vllm(), bad])
    assert made.frame(result.table)["case"].to_list() == ["llama-3.1-8b-chat"]
    assert [bool(re.search(reason, text)) for text in result.left_out] == [True]
    status, out, err = run("cost", made.write(tmp_path / "alone", [bad]))
    assert (status, out) == (1, "")
    assert result.left_out[0].split(": ")[-1] in err
    assert "none of 1 records is ok and holds a run time or a rate of tokens" in err


@parametrized(("changes", "options", "message"))
def test_an_unknown_price_is_unknown_and_says_why(
    tmp_path: Path, changes: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    result = priced(tmp_path, [vllm(**changes)], api=ApiPrices(0.6), **options)
    assert made.frame(result.table)["usd_per_million_output_tokens"].isna().to_list() == [True]
    assert [message in text for text in result.unknown] == [True]
    shown = table_format.render(token_sheets.tokens(result))
    assert "unknown" in shown
    assert "nan" not in shown.lower()


def test_more_gpus_than_the_vms_have_is_said_and_gives_no_share(tmp_path: Path) -> None:
    result = priced(tmp_path, [vllm(gpus=9)])
    assert "says 9 GPUs, yet 1 x Standard_ND96isr_H100_v5 has 8" in result.warnings[0]
    assert made.frame(result.table)["gpu_share"].isna().to_list() == [True]


def test_work_on_gpus_has_no_price_on_a_size_without_any(tmp_path: Path) -> None:
    result = priced(tmp_path, [vllm()], as_size="Standard_HB120rs_v3", region="eastus")
    frame = made.frame(result.table)
    assert frame["usd_per_million_total_tokens"].isna().to_list() == [True]
    assert any("ran on GPUs, and Standard_HB120rs_v3 has none" in text for text in result.warnings)


def test_a_catalog_without_sizes_gives_no_share(tmp_path: Path) -> None:
    assert read_gpus(tmp_path / "vm_sizes.csv") == {}
    (tmp_path / "vm_sizes.csv").write_text("size,gpus\nX,many\n", encoding="utf-8")
    with pytest.raises(BadInput, match=r"vm_sizes.csv:2: 'many'"):
        read_gpus(tmp_path / "vm_sizes.csv")


def test_break_even_is_the_share_of_the_hours_at_the_measured_rate(tmp_path: Path) -> None:
    result = priced(tmp_path, [vllm(1000.0, 3000.0)], api=ApiPrices(40.0, 5.0))
    row = made.frame(result.table).iloc[0]
    assert row["break_even_output"] == pytest.approx(HOURLY / 3.6 / 40)
    assert row["break_even_total"] == pytest.approx(HOURLY / 10.8 / 5)
    assert row["break_even_total_by_gpu_share"] == pytest.approx(HOURLY / 8 / 10.8 / 5)
    # At that share of the hours a token costs what the API's does.
    tokens_a_day = 1000.0 * 86400 * row["break_even_output"]
    assert 24 * HOURLY / tokens_a_day * 1e6 == pytest.approx(40.0)
    shown = table_format.render(token_sheets.tokens(result), width=200)
    assert "68.3 %" in shown
    assert "68.3 %      never at this rate" in shown
    assert "against an API at 40 US$ per million output tokens and 5 US$ per million" in shown


@pytest.mark.parametrize("option", ["--api-price", "--api-price-total"])
@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf"])
def test_an_api_price_that_is_none_is_refused(run, tmp_path: Path, option: str, value: str) -> None:
    status, out, err = run("cost", made.write(tmp_path, [vllm()]), option, value)
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert f"an API price of {value} US$ per million" in err
    assert err.endswith("is not above zero\n")


@pytest.mark.parametrize("unit", ["1/s", "bit/s", "flop/s"])
def test_scaling_of_a_rate_in_any_unit_is_written(
    run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unit: str
) -> None:
    view = view_of("vllm")
    assert view is not None
    measure = replace(view.headlines[0], unit=unit, shown=unit)
    in_unit = replace(view, headlines=(measure,))
    monkeypatch.setattr("trueup_analysis.figures.scaling.tables.view_of", lambda _: in_unit)
    folder = made.write(tmp_path, [vllm()])
    for form in ("table", "csv", "json"):
        assert run("scaling", folder, "--benchmark", "vllm", "-f", form)[0] == 0


def test_the_report_has_a_section_only_when_there_are_such_records(tmp_path: Path) -> None:
    with_it = write_report(
        load([made.write(tmp_path / "a", [vllm(), made.record()])]), tmp_path / "with"
    )
    without = write_report(
        load([made.write(tmp_path / "b", [made.record()])]), tmp_path / "without"
    )
    alone = write_report(load([made.write(tmp_path / "c", [vllm()])]), tmp_path / "alone")
    pages = [page.read_text(encoding="utf-8") for page in (with_it, without, alone)]
    title = "US$ per million tokens, the whole VM billed"
    assert [title in page for page in pages] == [True, False, True]
    assert "<h1>vLLM on made-1" in pages[2]
    table = (tmp_path / "alone" / "tables" / "cost.csv").read_text(encoding="utf-8")
    [row, _] = csv.DictReader(io.StringIO(table))
    assert [row[name] for name in ("gpus", "gpus_billed", "n", "usd_per_hour")] == [
        *("1", "8", "1", "98.32")
    ]
    assert [
        round(float(row[f"usd_per_million_{kind}_tokens"]), 3) for kind in ("output", "total")
    ] == [27.311, 9.104]


def article(**options: Any) -> Article:
    found = recompute(
        load([REFERENCE]),
        prices=read_prices(CATALOG / "prices.csv"),
        gpus=read_gpus(CATALOG / "vm_sizes.csv"),
        **{"price_date": None, "api": ApiPrices(), **options},
    )
    assert isinstance(found, Article)
    return found


# US$ per million total tokens and GPU, A100_40G / A100 / H100 / H200.
@parametrized(("number", "profile", "expected", "cheapest"))
def test_the_articles_table_recomputed(
    number: int, profile: str, expected: list[str], cheapest: str
) -> None:
    rows = made.frame(article().sets[number].table)
    rows = rows[rows["profile"] == profile]
    assert rows["gpu"].to_list() == ["A100_40G", "A100", "H100", "H200"]
    share = rows["usd_per_million_total_tokens_by_gpu_share"]
    assert [units.significant(value, 3) for value in share] == expected
    assert rows.loc[rows["cheapest"], "gpu"].to_list() == [cheapest]
    assert (rows["usd_per_million_total_tokens"] / share).to_list() == pytest.approx([8] * 4)


def test_the_article_without_a_price_says_so(run, tmp_path: Path) -> None:
    lines = (CATALOG / "prices.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if "ND96asr_v4" not in line]
    (tmp_path / "prices.csv").write_text("".join(kept), encoding="utf-8")
    # Without vm_sizes.csv too.
    status, out, err = run("cost", REFERENCE, "--catalog", tmp_path)
    assert status == 0
    assert "not checked" in out
    assert "A100_40G = ND96asr_v4: price unknown." in out
    assert "nan" not in out.lower()
    assert "Standard_ND96asr_v4 is not in the price table" in err
    assert run("cost", REFERENCE, "--catalog", tmp_path, "--strict")[0] == 1


def test_published_rates_are_priced_elsewhere_only_when_asked(run) -> None:
    title = "the whole VM billed"
    assert title not in run("cost", REFERENCE)[1]
    assert title in run("cost", REFERENCE, "--region", "eastus2")[1]
    assert title in run("cost", REFERENCE, "--price", "10")[1]


@parametrized(("change", "message"))
def test_a_spoilt_published_row_is_refused(
    tmp_path: Path, change: tuple[str, str], message: str
) -> None:
    text = REFERENCE.read_text(encoding="utf-8")
    assert change[0] in text
    (tmp_path / "reference.csv").write_text(text.replace(*change, 1), encoding="utf-8")
    with pytest.raises(BadInput, match=re.escape(message)):
        load([tmp_path / "reference.csv"])


SUFFIX = {"table": "txt", "markdown": "md", "csv": "csv", "json": "json"}


@pytest.mark.parametrize("form", SUFFIX)
def test_what_the_command_writes(run, tmp_path: Path, form: str) -> None:
    records = [
        *(
            vllm(rate, 1.45 * rate, started_at=f"2026-11-20T09:1{minute}:00Z")
            for minute, rate in enumerate((6000.0, 6100.0, 6300.0))
        ),
        vllm(1290.0, 255000.0, profile="classification"),
        vllm(50.0, 90.0, case="cpu-chat", vm_size="Standard_HB120rs_v3", gpus=0),
        vllm(50.0, 90.0, case="off-azure-chat", vm_size=None, region=None, offer=None, gpus=0),
        vllm(
            1500.0,
            3100.0,
            case="deepseek-r1-aime",
            nodes=["a", "b"],
            node_count=2,
            gpus=16,
            parameters={"model": "deepseek-ai/DeepSeek-R1", "profile": "aime"},
        ),
    ]
    found = run("cost", made.write(tmp_path, records), "--api-price", "5", "--format", form)
    assert found[1] == (GOLDEN / f"tokens.{SUFFIX[form]}").read_text(encoding="utf-8")


@pytest.mark.parametrize("form", ["table", "json"])
def test_what_the_command_writes_of_the_article(
    run, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.chdir(ROOT)
    found = run(
        *("cost", "catalog/reference_results.csv", "--api-price", "0.6"),
        *("--api-price-total", "0.3", "--format", form),
    )
    golden = (GOLDEN / f"tokens_published.{SUFFIX[form]}").read_text(encoding="utf-8")
    assert found[1] == golden
