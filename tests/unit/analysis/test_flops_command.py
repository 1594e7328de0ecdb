"""trueup flops: formulas, what a rate or a time means, and the published rates."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from helpers import parametrized
from trueup_analysis.figures.flops import peak_of_size, published
from trueup_node.benchmarks.megatron.flops import Model, article_flops
from trueup_node.errors import BadInput

CATALOG = Path(__file__).resolve().parents[3] / "catalog"
GPT3 = ["--layers", "96", "--hidden", "12288", "--sequence", "512", "--micro-batch", "32"]


def test_the_published_rates_with_percent_of_peak() -> None:
    rows = {row.model: row for row in published(CATALOG)}
    assert {name: row.rate for name, row in rows.items()} == {
        "175B": 204.49e12,
        "530B": 171.37e12,
        "1T": 165.36e12,
        "2T": 157e12,
    }
    shares = {name: round(100 * row.rate / row.peak, 1) for name, row in rows.items()}
    assert shares == {"175B": 65.5, "530B": 54.9, "1T": 53.0, "2T": 50.3}
    first = rows["175B"]
    work = article_flops(Model(96, 12288, 512, 51200), 32 * 256)
    assert first.seconds == pytest.approx(work / 204.49e12 / 256, rel=1e-12)
    # The article gives no micro batch for 530B: samples a second follow from the rate all the same.
    assert (rows["530B"].micro_batch, rows["530B"].seconds) == (None, None)
    assert rows["530B"].samples_per_second == pytest.approx(40.139, abs=0.001)


def test_the_command_in_its_formats(told: Any) -> None:
    words = [*GPT3, "--gpus", "256", "--tflops-per-gpu", "204.49"]
    table, said = told("flops", *words, "--size", "standard_nd96amsr_a100_v4")
    assert (said, "65.5" in table, "112.57" in table) == ("", True, True)
    [sheet] = json.loads(told("flops", *words, "--peak", "312", "--format", "json")[0])["tables"]
    row = sheet["rows"][0]
    assert (row["formula"], row["rate"]) == ("article", pytest.approx(204.49e12))
    assert row["share_of_peak"] == pytest.approx(204.49 / 312)
    assert row["flops"] == article_flops(Model(96, 12288, 512, 51200), 8192)
    assert sheet["parameters"] == 174_596_972_544
    csv = told("flops", *words, "--format", "csv")[0].splitlines()
    assert csv[0].split(",")[1:3] == ["formula", "flops"]
    assert len(csv) == 4
    assert told("flops", "--published", "--format", "markdown")[0].count("|\n") == 6


def test_groups_and_gates_have_one_formula(told: Any) -> None:
    llama = ["--layers", "32", "--hidden", "4096", "--sequence", "8192", "--heads", "32"]
    llama += ["--query-groups", "8", "--ffn", "14336", "--gated", "--untied"]
    words = [*llama, "--vocabulary", "128256", "--format", "json"]
    [sheet] = json.loads(told("flops", *words)[0])["tables"]
    assert [row["formula"] for row in sheet["rows"]] == ["megatron_lm"]
    assert sheet["parameters"] == 8_030_261_248
    assert sheet["rows"][0]["rate"] is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give --layers, --hidden and --sequence of a model, or --published"),
        ([*GPT3, "--layers", "0"], "layers 0 is not a whole number"),
        ([*GPT3, "--micro-batch", "0"], "micro-batch 0 is not a positive number"),
        ([*GPT3, "--gpus", "-1"], "gpus -1 is not a positive number"),
        ([*GPT3, "--peak", "-312"], "is not a positive number"),
        ([*GPT3, "--step-seconds", "0"], "step time 0 is not a positive number"),
        ([*GPT3, "--step-seconds", "nan"], "step time nan is not a positive number"),
        ([*GPT3, "--tflops-per-gpu", "0"], "rate 0 is not a positive number"),
        ([*GPT3, "--tflops-per-gpu", "1", "--step-seconds", "1"], "give one of them"),
        ([*GPT3, "--peak", "1", "--size", "x"], "--peak and --size both say the peak"),
        ([*GPT3, "--size", "x"], "the size x is not in the catalog"),
        ([*GPT3, "--tflops-per-gpu", "1", "--formula", "x"], "there is no formula x; there are"),
        (
            [*GPT3, "--ffn", "100", "--tflops-per-gpu", "1"],
            "the formula article does not hold for this model; take megatron_lm",
        ),
        ([*GPT3, "--global-batch", "0"], "a batch of 0 samples is none"),
        ([*GPT3, "--global-batch", "1" + "0" * 320], "a batch of more than 1000000000000000000"),
        ([*GPT3, "--micro-batch", "1" + "0" * 320], "is not a positive number up to 1000000000"),
        ([*GPT3, "--gpus", "1" + "0" * 320], "is not a positive number up to 1000000000"),
        ([*GPT3, "--formula", "bogus"], "there is no formula bogus; there are"),
        ([*GPT3, "--step-seconds", "1e-320"], "is too small or too large to compute with"),
        ([*GPT3, "--step-seconds", "1", "--peak", "1e-320"], "peak 9.99989e-309 is too small"),
        ([*GPT3, "--query-groups", "8"], "query_groups 8 needs attention_heads"),
        (
            ["--published", "--peak", "3"],
            "--published takes no --peak: its rates are the catalog's",
        ),
        (["--published", "--gpus", "1"], "--published takes no --gpus"),
    ],
)
def test_bad_input_is_one_sentence(told: Any, words: list[str], message: str) -> None:
    out, said = told("flops", *words, status=1)
    assert out == ""
    assert message in said
    assert said.count("\n") == 1


@parametrized(("size", "message"))
def test_a_size_without_a_peak_is_refused(size: str, message: str) -> None:
    with pytest.raises(BadInput, match=re.escape(message)):
        peak_of_size(size, CATALOG)
