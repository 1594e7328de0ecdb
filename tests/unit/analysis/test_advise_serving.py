"""Advice on serving, held against cases that were worked by hand from the catalog's figures."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import test_advise
from helpers import parametrized
from test_advise import choice, known
from trueup_analysis import catalog
from trueup_analysis.figures.advise import answers, asks, engines, nearby
from trueup_analysis.figures.advise.estimates import MODEL, PUBLISHED, RECORD
from trueup_analysis.figures.advise.kinds.kind import Point
from trueup_analysis.figures.prices import read_all
from trueup_node.cases import Case, Figure
from trueup_node.errors import BadInput

DATA = Path(__file__).resolve().parents[2] / "data" / "vllm"
H100, H200 = "Standard_ND96isr_H100_v5", "Standard_ND96isr_H200_v5"
A100_40G, NC_A100 = "Standard_ND96asr_v4", "Standard_NC24ads_A100_v4"
# Nothing fails, so that the load is that of the rates alone.
SURE = {"node_mtbf_hours": 1e9, "offers": "payg"}
# The published run of FP8: 128 in flight, 1000 tokens in and out, 9863.48 of them a second.
FP8 = {"model": "llama-3.1-8b", "precision": "fp8", "input_tokens": 1000, "output_tokens": 1000}


def ask(*cases: Case, **given: Any) -> answers.Answer:
    return test_advise.ask("serving", *cases, **given)


def load(one: answers.Choice) -> float:
    assert one.load is not None
    return one.load.value


def test_the_published_run_is_the_answer_for_its_own_load_by_hand() -> None:
    """8 GPUs x 9.86348 requests/s are 78.908; 60 are 76.04 % of them. 98.32 US$/h x 730 h are
    71773.6 US$; 60 x 2000 tokens x 730 h x 3600 s are 3.1536e11: 0.22759 US$ a million."""
    found = ask(**FP8, requests_per_second=60, region="eastus", **SURE)
    one = choice(found, H100, 1)
    assert load(one) == pytest.approx(60 / (8 * 9.86348), rel=1e-6)
    assert one.usd.value == pytest.approx(71773.6)
    assert found.need is not None
    assert one.usd.value / found.need.work.value * 1e6 == pytest.approx(0.22759, rel=1e-4)
    assert (one.estimate.trust, one.estimate.beyond, one.estimate.units) == (PUBLISHED, "", 8)


def test_long_prompts_on_a_published_size_by_hand() -> None:
    """ND96asr_v4, code generation: 94 answered tokens a second at 50 each are 1.88 requests/s a
    GPU, with 7836 / 94 x 50 = 4168.1 tokens in, 1 % of them cached; of 8 GPUs 15.04, so 10 are
    66.5 %."""
    given = {"input_tokens": 4168, "output_tokens": 50, "prefix_cached_share": 0.01}
    found = ask(model="llama-3.1-8b", **given, requests_per_second=10, **SURE)
    assert load(choice(found, A100_40G, 1)) == pytest.approx(10 / 15.04, rel=1e-4)


def test_the_time_of_a_request_from_the_datasheets_by_hand() -> None:
    """Llama 3.1 8B in BF16 on one H100, 1000 in, 500 out, 128 in flight. Operations: 1500 x 2 x
    8030261248 / 989.4e12 = 24.349 ms. A step reads 16060522496 / 128 bytes of weights for each
    sequence, and 131072 x 1250 of its KV cache: 289311744 bytes; 500 of them at 3350 GB/s are
    43.181 ms."""
    asked = engines.Load(1000, 500, 0.0, 128)
    model = engines.of_recipe("llama-3.1-8b", catalog.built_in())
    engine, why, least = engines.engine_of(model, H100, asked, known())
    assert engine is not None
    assert (why, least, engine.devices, engine.each) == ("", 1, 1, 8)
    one = Point("", H100, 1, traits={"engine": engine, "load": asked})
    spent = nearby.seen(one, known())
    assert spent is not None
    assert spent.parts == pytest.approx((24.349e-3, 43.1809e-3, 0.0), rel=1e-4)


def test_a_step_reads_the_experts_that_its_tokens_meet_by_hand() -> None:
    """4 tokens that each meet half of the experts meet 1 - 0.5^4 = 15/16 of them."""
    model = engines.of_recipe("deepseek-r1", catalog.built_in())
    facts = {**model.recipe["facts"], "expert_parameters": 80, "parameters": 100, "experts": 8}
    model = dataclasses.replace(model, recipe={**model.recipe, "facts": facts}, active=60.0)
    engine = engines.Engine(model, 1, 8, weights=100.0, token=1.0, room=1.0, each=1)
    assert nearby._weights(engine, 4) == pytest.approx(20 + 80 * 15 / 16)
    assert nearby._weights(engine, 1e9) == pytest.approx(100)


def test_factors_are_fitted_by_hand() -> None:
    """Operations at half of the peak and bytes at a quarter of the bandwidth: 2 x 3 + 4 x 1 = 10 s
    and 2 x 1 + 4 x 2 = 10 s are met exactly by 2 and 4; a part that no result has gets 0."""
    assert nearby.fit([((3, 1, 0), 10.0), ((1, 2, 0), 10.0)], [1, 1]) == pytest.approx((2, 4, 0))
    assert nearby.fit([((1, 1, 0), 4.0)], [1])[2] == 0


def test_a_publisher_of_many_results_does_not_outvote_the_others() -> None:
    """One result at 2 s, and a hundred of one setup at 1 s, which count as ten."""
    timings = [((1.0, 0.0, 0.0), 2.0), *[((1.0, 0.0, 0.0), 1.0)] * 100]
    (alike, *_), (weighed, *_) = (
        nearby.fit(timings, [1.0, *[count] * 100]) for count in (1.0, 0.1)
    )
    assert 1.0 < alike < 1.01 < weighed < 1.1


def test_half_of_an_answer_stands_in_the_cache_by_hand() -> None:
    """Room of 10,000 tokens, 600 in and 800 out: 10 sequences of 1000 tokens."""
    asked = engines.Load(600, 800, 0.0, 128)
    model = engines.of_recipe("llama-3.1-8b", catalog.built_in())
    engine, _, _ = engines.engine_of(model, H100, asked, known())
    assert engine is not None
    engine = engine._replace(room=10_000 * engine.token)
    one = nearby.seen(Point("", H100, 1, traits={"engine": engine, "load": asked}), known())
    assert one is not None
    assert one.batch == pytest.approx(10)


def test_a_model_that_needs_two_nodes_is_served_by_pairs() -> None:
    """DeepSeek R1 takes 16 H100: engines of two nodes, never three of them."""
    found = ask(
        model="deepseek-r1", input_tokens=1024, output_tokens=1024, requests_per_second=1, **SURE
    )
    pairs = [one.estimate for one in found.choices if one.estimate.size == H100]
    assert pairs
    assert all(one.nodes % 2 == 0 and one.units == one.nodes // 2 for one in pairs)
    # Results are of other software with other ranks: their latency says nothing of these.
    judged = ask(
        model="deepseek-r1",
        input_tokens=1024,
        output_tokens=1024,
        requests_per_second=0.5,
        tpot_ms=150,
        **SURE,
    )
    assert {one.estimate.held for one in judged.choices} == {None}
    assert "other parallel ranks" in pairs[0].beyond
    assert pairs[0].trust == MODEL
    one_node = [one.estimate for one in found.choices if one.estimate.size == H200]
    assert "other parallel ranks" in one_node[0].beyond


def test_what_does_not_fit_says_what_it_takes_and_the_smallest_that_does() -> None:
    """70e9 x 2 bytes are 130.4 GiB: not on one GPU of 80 GB, on two of them."""
    found = ask(
        parameters_billion=70,
        layers=80,
        kv_heads=8,
        head_dim=128,
        precision="bf16",
        input_tokens=2000,
        output_tokens=200,
        requests_per_second=1,
    )
    (refused,) = [one for one in found.refused if one.size == NC_A100]
    assert refused.least_nodes is None
    assert "weights 130.4 GiB" in refused.reason
    assert "available is 72.0 GiB" in refused.reason
    assert refused.reason.endswith("the smallest that holds it: 1 x Standard_NC48ads_A100_v4")
    (two,) = [
        one.estimate
        for one in found.choices
        if (one.estimate.size, one.late, one.offer) == ("Standard_NC48ads_A100_v4", False, "payg")
    ]
    # Its parameters are those of Llama 70B to two hundredths, of which H100 has results.
    assert two.beyond == "no result of A100-PCIe-80GB."
    assert two.trust == MODEL


def test_latency_is_held_or_missed_only_where_a_result_says_so() -> None:
    """The run's median TPOT is 12.38 ms at 9.86 requests/s a GPU; 60 on 8 GPUs are 7.5 a GPU."""
    held = choice(ask(**FP8, requests_per_second=60, tpot_ms=15, **SURE), H100, 1)
    assert held.estimate.held is True
    assert "held: 12.38 ms (median) at 9.86 requests/s" in held.estimate.notes[0]
    # A lower limit may be held at the lower rate, which nobody measured.
    unknown = choice(ask(**FP8, requests_per_second=60, tpot_ms=10, **SURE), H100, 1)
    assert unknown.estimate.held is None
    assert "was not judged" in unknown.estimate.notes[0]
    # At the rate of the run itself it is missed, and never the best.
    found = ask(**FP8, requests_per_second=78.9, tpot_ms=10, **SURE)
    missed = choice(found, H100, 1)
    assert missed.estimate.held is False
    assert "missed: 12.38 ms" in missed.estimate.notes[0]
    assert missed.best == ""
    # TTFT was not published, so both together are not known to be held.
    both = choice(ask(**FP8, requests_per_second=60, tpot_ms=15, ttft_ms=500, **SURE), H100, 1)
    assert both.estimate.held is None
    other = {**FP8, "output_tokens": 400}
    lengths = choice(ask(**other, requests_per_second=60, tpot_ms=15, **SURE), H100, 1)
    assert lengths.estimate.held is None


def test_an_api_is_even_at_a_rate_by_hand() -> None:
    """1000 tokens at 0.2 and 1000 at 0.6 US$ a million are 0.0008 US$ a request; 98.32 US$/h are
    then 98.32 / 3600 / 0.0008 = 34.14 requests/s, 43.3 % of 78.908."""
    prices = {"api_usd_per_million_input": 0.2, "api_usd_per_million_output": 0.6}
    given = {**FP8, "sizes": H100, "region": "eastus", **SURE, **prices}
    (even,) = ask(**given, requests_per_second=40).evens
    assert even.usd == pytest.approx(0.0008)
    assert even.rate == pytest.approx(98.32 / 3600 / 0.0008)
    assert even.share.value == pytest.approx(34.139 / 78.908, rel=1e-4)
    assert even.words == "the machines, at 40 requests/s"
    (even,) = ask(**given, requests_per_second=20).evens
    assert even.words == "the API, at 20 requests/s"


def test_a_reservation_is_even_at_a_share_of_its_hours_by_hand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """NC48ads_A100_v4 in eastus: 4.802055 US$/h for a year over 7.346 by the hour, 65.4 %; the
    user's own 5 US$/h are 68.1 %, and 8 never."""
    given = {
        "model": "llama-3.1-8b",
        "input_tokens": 1000,
        "output_tokens": 500,
        "requests_per_second": 5,
        "sizes": "Standard_NC48ads_A100_v4",
        "region": "eastus",
        "offers": "payg",
    }
    # The catalog has no dated price of a year.
    year_price = {
        "size": "Standard_NC48ads_A100_v4",
        "region": "eastus",
        "os": "linux",
        "offer": "1y",
        "usd_per_hour": 4.802055,
        "as_of_date": "2026-06-18",
        "source": "s",
        "notes": "",
    }
    monkeypatch.setattr(test_advise, "read_all", lambda folder: [*read_all(folder), year_price])
    year, own = ask(**given, reserved_usd_per_hour=5).evens
    assert (year.against, own.against) == ("1y", "reservation")
    assert year.share.value == pytest.approx(4.802055 / 7.346)
    assert own.share.value == pytest.approx(5 / 7.346)
    assert ask(**given, reserved_usd_per_hour=8).evens[1].words == "by the hour, always"


def test_nodes_that_are_away_take_of_the_rate_by_hand() -> None:
    """0.05 evictions an hour, 15 minutes each: 0.0125 / 1.0125 = 1.2346 % of the time."""
    found = ask(**FP8, requests_per_second=60, node_mtbf_hours=1e12, restart_minutes=15, sizes=H100)
    payg, spot = (choice(found, H100, 2, offer) for offer in ("payg", "spot"))
    assert spot.lost == pytest.approx(0.0125 / 1.0125, rel=1e-6)
    assert load(spot) / load(payg) == pytest.approx(1.0125, rel=1e-6)
    assert spot.usd.low == spot.usd.high


def test_nodes_are_enough_for_those_that_are_away_by_hand() -> None:
    """A day until a node is back, 0.05 evictions an hour: 1.2 / 2.2 = 54.5 % are away. 30 requests
    a second are 38 % of a node, at the slow end 51.6 %; of the 45.5 % that are there 113 %."""
    given = {**FP8, "requests_per_second": 30, "sizes": H100, "node_mtbf_hours": 1e12}
    slow = ask(**given, restart_minutes=1440)
    assert choice(slow, H100, 2, "spot").best == "cheapest"
    assert {one.estimate.nodes for one in ask(**given, restart_minutes=0).choices} == {1}


@parametrized(("given", "message"))
def test_what_cannot_be_answered_is_said(given: dict[str, Any], message: str) -> None:
    usual = {"input_tokens": 1000, "output_tokens": 500, "requests_per_second": 1}
    with pytest.raises(BadInput) as caught:
        ask(**{**usual, **given})
    assert message in str(caught.value)


LLAMA = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}


def test_a_config_is_the_model_that_its_recipe_is(tmp_path: Path) -> None:
    """Llama 3.1 8B's own figures: 2 x 128256 x 4096 + 32 x (2 x 4096 x 128 x 40 + 3 x 4096 x 14336
    + 8192) + 4096 = 8030261248."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA))
    given = {"input_tokens": 1000, "output_tokens": 500, "requests_per_second": 5, **SURE}
    own = choice(ask(model=str(path), **given), H100, 1)
    assert load(own) == pytest.approx(load(choice(ask(model="llama-3.1-8b", **given), H100, 1)))
    found = asks.read(asks.chosen("serving"), {"model": str(path), **given})
    model = engines.of_config(path, found)
    assert model.parameters == 8030261248


@parametrized(("change", "message"))
def test_a_config_that_does_not_say_it_is_refused(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**LLAMA, **change}))
    with pytest.raises(BadInput) as caught:
        ask(model=str(path), input_tokens=10, output_tokens=10, requests_per_second=1)
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "{}", "\x00", "[" * 100_000])
def test_a_file_that_is_no_config_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(BadInput, match=r"config\.json"):
        ask(model=str(path), input_tokens=10, output_tokens=10, requests_per_second=1)


def test_an_engine_beside_others_may_be_slower_by_hand() -> None:
    """At 0.8 of its rate alone: 60 / (8 x 9.86348 x 0.8) are 95.05 % of a node; an engine that has
    its node for itself loses nothing."""
    found = ask(**FP8, requests_per_second=60, engine_scaling=0.8, **SURE)
    assert load(choice(found, H100, 1)) == pytest.approx(60 / (8 * 9.86348 * 0.8), rel=1e-6)
    alone = [
        one
        for scaling in (0.8, 1.0)
        for one in ask(
            model="deepseek-r1",
            input_tokens=1024,
            output_tokens=1024,
            requests_per_second=0.5,
            engine_scaling=scaling,
            **SURE,
        ).choices
    ]
    half = len(alone) // 2
    assert [load(one) for one in alone[:half]] == [load(one) for one in alone[half:]]


def record(**parameters: Any) -> Case:
    rates = {"total_token_throughput": 30000.0, "request_throughput": 15.0}
    counts = {"requests_completed": 500.0, "input_tokens": 5e5, "output_tokens": 5e5}
    return Case(
        *(("n1",), H100, "vllm", "c", "ok", None),
        # As role vllm records it; a rate of 0 is none.
        {
            "model": "/srv/model",
            "recipe": "",
            "served_model_name": "meta-llama/Llama-3.1-8B-Instruct",
            "max_concurrency": 128,
            "request_rate": 0.0,
            "ramp_up_start": 0,
            "tensor_parallel": 1,
            "server_arguments": '{"max-num-seqs":1024}',
            **parameters,
        },
        {},
        figures=[
            *(
                Figure(name, value, "1/s", "higher", statistic="single")
                for name, value in rates.items()
            ),
            *(
                Figure(name, value, "1", "none", statistic="single")
                for name, value in counts.items()
            ),
            Figure("ttft", 0.2, "s", "lower", statistic="median"),
            Figure("tpot", 0.008, "s", "lower", statistic="median"),
        ],
        node_count=1,
        gpus=1,
        run_id="20261120T091300Z-7c1e",
        started_at="2026-11-20T09:13:00Z",
    )


def test_a_record_of_ours_counts_first_and_tells_of_latency() -> None:
    """15 requests/s on one of 8 GPUs: 120 of the node, of which 60 are half."""
    given = {"model": "llama-3.1-8b", "input_tokens": 1000, "output_tokens": 1000, **SURE}
    found = ask(record(), **given, requests_per_second=60, ttft_ms=300, tpot_ms=10)
    one = choice(found, H100, 1)
    assert load(one) == pytest.approx(0.5)
    assert [each.kind for each in one.estimate.evidence] == [RECORD]
    assert one.estimate.held is True
    # A server that waited for requests says nothing of the most that it can serve.
    waited = choice(
        ask(record(request_rate=1.0), **given, requests_per_second=20, ttft_ms=300), H100, 1
    )
    assert waited.estimate.trust == MODEL
    assert waited.estimate.held is True


@pytest.mark.parametrize(
    ("rate", "limit", "held"),
    [(1.0, 300, None), (1.0, 100, False), (15.0, 100, None), (15.0, 300, True)],
)
def test_a_latency_at_another_rate(rate: float, limit: float, held: bool | None) -> None:
    """TTFT was 200 ms at this rate of one engine; 20 requests/s on 8 are 2.5 each."""
    mine = changed(record(request_rate=rate), request_throughput=rate)
    given = {"model": "llama-3.1-8b", "input_tokens": 1000, "output_tokens": 1000, **SURE}
    one = choice(ask(mine, **given, requests_per_second=20, ttft_ms=limit), H100, 1)
    assert one.estimate.held is held


def changed(case: Case, **values: float) -> Case:
    figures = [one._replace(value=values.get(one.name, one.value)) for one in case.figures]
    return dataclasses.replace(case, figures=figures)


@parametrized("change")
def test_a_record_of_something_else_says_nothing(change: dict[str, Any]) -> None:
    given = {"model": "llama-3.1-8b", "input_tokens": 1000, "output_tokens": 1000, **SURE}
    one = choice(ask(record(**change), **given, requests_per_second=20), H100, 1)
    assert one.estimate.trust == MODEL


def test_recipes_that_are_none_are_refused(tmp_path: Path) -> None:
    for text in ("recipes: 5", "[]", "recipes: {mine: 3}"):
        path = tmp_path / "sub" / str(len(text))
        path.mkdir(parents=True)
        (path / "prices.csv").write_text("")
        (path / "vllm_recipes.yml").write_text(text)
        with pytest.raises(BadInput, match=r"has no mapping called recipes|must be a mapping"):
            engines.of_recipe("mine", path)


def test_a_log_from_elsewhere_tells_its_load(told: Any) -> None:
    """136 tokens in and 48 out of 8 requests are 17 and 6; 8.526 requests/s."""
    log = ("--from-log", str(DATA / "vllm032_detailed.json"))
    assert "no model is named" in told("advise", *log, status=1)[1]
    tables = json.loads(told("advise", *log, "model=llama-3.1-8b", "--format", "json")[0])["tables"]
    told_of = tables[0]["ask"]
    assert (told_of["input_tokens"], told_of["output_tokens"]) == (17, 6)
    assert told_of["requests_per_second"] == pytest.approx(8.52599884623308)
    assert "17 tokens in, where results have 128 to 20000" in tables[0]["rows"][0]["beyond"]
