"""Advice on serving, held against cases that were worked by hand from the catalog's figures."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import test_advise
from helpers import parametrized
from test_advise import choice, known
from trueup_analysis.figures.advise import answers, nearby
from trueup_analysis.figures.advise.estimates import PUBLISHED, RECORD, Evidence
from trueup_analysis.figures.models import basis, config, results
from trueup_analysis.figures.models import known as known_models
from trueup_analysis.figures.models.roofline import Layout, Work, gpu_of, speed, step
from trueup_analysis.figures.prices import read_all
from trueup_node.cases import Case, Figure
from trueup_node.errors import BadInput

DATA = Path(__file__).resolve().parents[2] / "data" / "vllm"
CONFIGS = DATA.parents[0] / "cases" / "test_model_config.txt"
H100, H200 = "Standard_ND96isr_H100_v5", "Standard_ND96isr_H200_v5"
NC_A100 = "Standard_NC24ads_A100_v4"
# Nothing fails, so that the load is that of the rates alone.
SURE = {"node_mtbf_hours": 1e9, "offers": "payg"}
FP8 = {"model": "llama-3.1-8b", "precision": "fp8", "input_tokens": 1000, "output_tokens": 1000}
R1 = {"model": "deepseek-r1", "input_tokens": 1024, "output_tokens": 1024}


def public(name: str) -> dict[str, Any]:
    """The config.json of a public model."""
    (line,) = [line for line in CONFIGS.read_text().splitlines() if line.startswith(f'["{name}"')]
    document: dict[str, Any] = json.loads(line)[1]
    return document


def ask(*cases: Case, **given: Any) -> answers.Answer:
    return test_advise.ask("serving", *cases, **given)


def load(one: answers.Choice) -> float:
    assert one.load is not None
    return one.load.value


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


def rows(told: Any, *words: str) -> dict[str, dict[str, Any]]:
    """By size in the order of the answer."""
    table = json.loads(told(*words, "--format", "json")[0])["tables"][0]
    return {row["size"]: row for row in table["rows"]}


FIGURES = ("nodes", "nodes_low", "nodes_high", "layout", "requests_low", "requests_high", "flags")


@parametrized(("name", "model", "load"))
def test_both_commands_answer_the_same(
    name: str, model: str, load: tuple[int, int, float, float | None], told: Any, tmp_path: Path
) -> None:
    """`trueup advise serving`, by the recipe's name where there is one, and `trueup model`."""
    folder = tmp_path / name
    folder.mkdir()
    file = folder / "config.json"
    file.write_text(json.dumps(public(name)))
    tokens_in, tokens_out, rate, tpot = load
    words = ["--input-tokens", tokens_in, "--output-tokens", tokens_out]
    words += ["--requests-per-second", rate, *(["--tpot-ms", tpot] if tpot else [])]
    plain = rows(told, "model", str(file), *map(str, words), "--explain")
    asked = [f"input_tokens={tokens_in}", f"output_tokens={tokens_out}"]
    asked += [f"requests_per_second={rate}", f"model={model or file}", "offers=payg"]
    asked += [f"tpot_ms={tpot}"] if tpot else []
    advised = rows(told, "advise", "serving", *asked, "most_nodes=512")
    assert len(advised) > 2
    assert list(advised) == [size for size in plain if plain[size]["price_date"]]
    for size, row in advised.items():
        assert [row[figure] for figure in FIGURES] == [plain[size][figure] for figure in FIGURES]
        assert row["rests_on"] == plain[size]["rests_on"]
        assert (row["ttft"], row["tpot"]) == (plain[size]["ttft"], plain[size]["tpot"])
        assert row["usd_per_hour"] == pytest.approx(plain[size]["usd_per_hour"])


def test_deepseek_r1_at_the_public_rate_takes_one_node() -> None:
    """SemiAnalysisAI/InferenceX issue 870: 1.75 requests/s on 8 x H200, tensor parallel."""
    found = ask(**R1, requests_per_second=1.75, **SURE)
    best = found.marked("cheapest")
    assert best is not None
    assert best.estimate.plan is not None
    assert (best.estimate.size, best.estimate.nodes) == (H200, 1)
    assert best.estimate.plan.layout == Layout(8)
    assert (best.estimate.trust, best.estimate.beyond) == (PUBLISHED, "")
    assert best.estimate.plan.high_nodes == 1


def test_the_nearest_result_moves_the_roofline_by_hand() -> None:
    """One result with the question's own setup that took twice the computed time: it counts 1
    against 0.1 of the roofline, so 2^(1 / 1.1) times."""
    model = config.of_document(public("Llama-3.1-8B"), "llama")
    work, gpu = Work(1000, 500), gpu_of(H100, known())
    assert gpu is not None
    computed = speed(step(model, gpu, Layout(1), work, 64), work, 64).requests_per_second
    target = results.point(H100, model, Layout(1), work, 64)
    evidence = Evidence(PUBLISHED, "x")
    twice = results.point(H100, model, Layout(1), work, 64, computed / 2, "x", evidence)
    found = nearby.tell(target, [twice], known())
    assert found is not None
    assert (found.ratio, found.distance) == (pytest.approx(2 ** (1 / 1.1)), "same setup")
    # A result of another model on another GPU at other lengths hardly counts.
    far = results.point(
        *("Standard_ND96asr_v4", config.of_document(public("Qwen3-32B"), "q"), Layout(4)),
        *(Work(8000, 50), 1, computed / 9, "y", evidence),
    )
    found = nearby.tell(target, [far], known())
    assert found is not None
    assert found.ratio == pytest.approx(1, abs=0.05)
    assert found.distance == "far"


def test_fixed_times_are_more_doubtful_than_the_memorys_by_hand() -> None:
    """A dense model is doubted by 0.15 of the memory's share of the time, 0.3 of the tensor cores',
    0.7 of the rest, squares added to 0.1. A step reads 15.0 GB at 0.85 x 3350 GB/s, 5.3 ms, and its
    32 layers take 1.4 ms; on eight GPUs 0.66 ms, 1.4 ms and 64 messages of 20 us. A mixture is
    doubted as a whole."""
    llama = config.of_document(public("Llama-3.1-8B"), "llama")
    work = Work(100, 2000)
    doubts = [
        nearby.seen(results.point(H100, llama, Layout(ranks), work, 1), known()) for ranks in (1, 8)
    ]
    alone, eight = (each.doubt for each in doubts if each is not None)
    one, many = 5.3 / (5.3 + 1.4), 0.66 / (0.66 + 1.4 + 1.28)
    assert alone == pytest.approx(math.hypot(0.1, 0.15 * one, 0.7 * (1 - one)), rel=0.05)
    assert eight == pytest.approx(math.hypot(0.1, 0.15 * many, 0.7 * (1 - many)), rel=0.05)
    mixture = config.of_document(public("Qwen3-30B-A3B"), "q")
    whole = nearby.seen(results.point(H100, mixture, Layout(1), work, 1), known())
    assert whole is not None
    assert whole.doubt == 1


def test_gpus_multiply_at_the_rates_of_their_own() -> None:
    """Of the datasheets: GB200 2500 TFLOP/s in BF16, 10000 in FP4, no FP4 on H100; 0.65 of MI300X's
    1307.4, whose messages take two steps over 448 GB/s."""
    sizes = ("Standard_ND128isr_NDR_GB200_v6", H100, "Standard_ND96isr_MI300X_v5")
    gb200, h100, mi300x = (gpu_of(size, known()) for size in sizes)
    assert gb200 is not None
    assert h100 is not None
    assert mi300x is not None
    assert (gb200.flops, gb200.flops_4, gb200.link) == (2500e12, 10000e12, 900e9)
    assert h100.flops_4 == h100.flops
    assert mi300x.flops == pytest.approx(0.65 * 1307.4e12)
    assert (mi300x.link, mi300x.message / h100.message) == (448e9, 2)
    model = config.of_document(public("Llama-3.1-8B"), "llama")
    four, sixteen = (
        replace(model, quantization=model.quantization._replace(compute=bits)) for bits in (4, 16)
    )
    long = Work(8000, 1)
    times = [
        [step(each, gpu, Layout(1), long, 1).prefill for each in (four, sixteen)]
        for gpu in (gb200, h100)
    ]
    assert times[0][0] < times[0][1] / 2
    assert times[1][0] == times[1][1]


def test_results_of_one_maker_say_little_of_anothers_gpus() -> None:
    """No result of a dense model is of MI300X, of a mixture some are."""
    mi300x, work = "Standard_ND96isr_MI300X_v5", Work(1024, 1024)
    dense = config.of_document(public("Llama-3.1-70B"), "llama")
    told = basis.of_nearest(results.point(mi300x, dense, Layout(8), work, 64), known())
    assert (told.kind, told.high) == (basis.ROOFLINE, 3.0)
    assert basis.of_nearest(results.point(H200, dense, Layout(8), work, 64), known()).high < 2
    mixture = config.of_document(public("DeepSeek-R1"), "r1")
    assert basis.of_nearest(results.point(mi300x, mixture, Layout(8), work, 64), known()).high < 3


def test_short_prompts_share_a_step() -> None:
    """128 tokens: 64 prompts a step of 8192, which reads the weights once. 4096: two."""
    model = config.of_document(public("Qwen3-30B-A3B"), "q")
    gpu = gpu_of(H100, known())
    assert gpu is not None
    short, long = (step(model, gpu, Layout(1), Work(count, 128), 256) for count in (128, 4096))
    assert (short.prompts, long.prompts) == (64, 2)
    assert short.shared < short.prefill / 10
    assert long.shared > long.prefill / 3


def test_a_range_under_limits_counts_that_times_are_longer_too() -> None:
    """Without limits the low end is the basis' own; within TPOT it is lower than that."""
    free = choice(ask(**FP8, requests_per_second=60, region="eastus", **SURE), H100, 1)
    tight = choice(ask(**FP8, requests_per_second=60, tpot_ms=12, region="eastus", **SURE), H100, 1)
    for one, is_less in ((free, False), (tight, True)):
        plan = one.estimate.plan
        assert plan is not None
        low = plan.capacity.low / plan.capacity.value
        assert (low < plan.basis.low * 0.99) is is_less
    assert free.load is not None
    assert free.load.width == pytest.approx(free.estimate.plan.basis.high**2)  # type: ignore[union-attr]


def test_a_prefix_cache_that_no_result_has_is_called_rough(told: Any) -> None:
    words = [f"{name}={value}" for name, value in R1.items()]
    asked = ("prefix_cached_share=0.9", "requests_per_second=1", "offers=payg")
    text = " ".join(told("advise", "serving", *words, *asked)[0].split())
    assert "Rough: the GPU's datasheet" in text or "Unsure: the GPU's datasheet" in text
    assert "no result of such work (mixture of experts, prefix cache)" in text


def test_what_does_not_fit_says_what_it_takes() -> None:
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
    assert "weights 130.4 GiB" in refused.reason
    assert "available is 72.0 GiB" in refused.reason
    sizes = {one.estimate.size for one in found.choices}
    assert "Standard_NC48ads_A100_v4" in sizes


def test_figures_alone_are_about_the_model_of_them() -> None:
    """Llama 3.1 8B by five figures, and a mixture like DeepSeek R1, beside their config.json."""
    told_of = known_models.of_numbers(
        {
            "parameters_billion": 8.030261248,
            "active_parameters_billion": None,
            "layers": 32,
            "kv_heads": 8,
            "head_dim": 128,
            "precision": "bf16",
        }
    ).model
    model = config.of_document(public("Llama-3.1-8B"), "llama")
    assert told_of.weight_bytes == model.weight_bytes
    assert told_of.kv_bytes(1000) == model.kv_bytes(1000)
    gpu, work = gpu_of(H100, known()), Work(1000, 500)
    assert gpu is not None
    rates = [
        speed(step(each, gpu, Layout(1), work, 64), work, 64).requests_per_second
        for each in (told_of, model)
    ]
    assert rates[0] == pytest.approx(rates[1], rel=0.1)
    facts = known_models.recipe("deepseek-r1")["facts"]
    without = {name: value for name, value in facts.items() if name != "config"}
    mixture = config.of_figures("r1", without)
    assert mixture.experts_met == 8
    assert mixture.active_parameters == pytest.approx(37552297472, rel=0.01)
    assert mixture.kv_bytes_per_token() == 70272


def test_an_api_is_even_at_a_rate_by_hand() -> None:
    """1000 tokens at 0.2 and 1000 at 0.6 US$ a million are 0.0008 US$ a request; 98.32 US$/h are
    then 98.32 / 3600 / 0.0008 = 34.14 requests/s."""
    prices = {"api_usd_per_million_input": 0.2, "api_usd_per_million_output": 0.6}
    given = {**FP8, "sizes": H100, "region": "eastus", **SURE, **prices}
    found = ask(**given, requests_per_second=40)
    (even,) = found.evens
    assert even.usd == pytest.approx(0.0008)
    assert even.rate == pytest.approx(98.32 / 3600 / 0.0008)
    assert even.share.value == pytest.approx(load(choice(found, H100, 1)) * 34.139 / 40, rel=1e-4)
    assert even.words == "the machines, at 40 requests/s"
    (even,) = ask(**given, requests_per_second=20).evens
    assert even.words == "the API, at 20 requests/s"


def test_nodes_that_are_away_take_of_the_rate_by_hand() -> None:
    """0.05 evictions an hour, 15 minutes each: 0.0125 / 1.0125 = 1.2346 % of the time."""
    found = ask(**FP8, requests_per_second=60, node_mtbf_hours=1e12, restart_minutes=15, sizes=H100)
    payg, spot = (choice(found, H100, 1, offer) for offer in ("payg", "spot"))
    assert spot.lost == pytest.approx(0.0125 / 1.0125, rel=1e-6)
    assert load(spot) / load(payg) == pytest.approx(1.0125, rel=1e-6)


def test_nodes_are_enough_for_those_that_are_away_by_hand() -> None:
    """A day until a node is back, 0.05 evictions an hour: 1.2 / 2.2 = 54.5 % are away, so that a
    rate takes 2.2 times the nodes."""
    given = {**FP8, "sizes": H100, "node_mtbf_hours": 1e12}
    slow = ask(**given, requests_per_second=60, restart_minutes=1440)
    at_once = ask(**given, requests_per_second=60, restart_minutes=0)
    nodes = {one.offer: one.estimate.nodes for one in slow.choices}
    assert nodes["payg"] == 1
    share = load(choice(at_once, H100, 1, "spot"))
    assert nodes["spot"] == math.ceil(share * 2.2)


def test_more_nodes_than_are_allowed_are_refused() -> None:
    with pytest.raises(BadInput, match="nodes would be needed, more than 2"):
        ask(**FP8, requests_per_second=5000, sizes=H100, most_nodes=2)


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


def test_a_record_of_ours_counts_first() -> None:
    """15 requests/s on one GPU, in flight 15 x (0.2 + 999 x 0.008) = 122.88."""
    given = {"model": "llama-3.1-8b", "input_tokens": 1000, "output_tokens": 1000, **SURE}
    one = choice(ask(record(), **given, requests_per_second=60), H100, 1)
    assert one.estimate.plan is not None
    model = config.of_document(public("Llama-3.1-8B"), "llama-3.1-8b")
    gpu, work = gpu_of(H100, known()), Work(1000, 1000)
    assert gpu is not None
    computed = speed(step(model, gpu, Layout(1), work, 122.88), work, 122.88)
    found = one.estimate.plan.basis
    assert (found.kind, found.high) == (basis.RECORDS, pytest.approx(1.15))
    assert found.rate == pytest.approx(15 / computed.requests_per_second)
    assert [each.kind for each in one.estimate.evidence] == [RECORD]


@parametrized("change")
def test_a_record_of_something_else_says_nothing(change: dict[str, Any]) -> None:
    given = {"model": "llama-3.1-8b", "input_tokens": 1000, "output_tokens": 1000, **SURE}
    one = choice(ask(record(**change), **given, requests_per_second=20), H100, 1)
    assert one.estimate.trust != RECORD


def test_recipes_that_are_none_are_refused(tmp_path: Path) -> None:
    for text in ("recipes: 5", "[]", "recipes: {mine: 3}"):
        path = tmp_path / "sub" / str(len(text))
        path.mkdir(parents=True)
        (path / "prices.csv").write_text("")
        (path / "vllm_recipes.yml").write_text(text)
        with pytest.raises(BadInput, match=r"has no mapping called recipes|must be a mapping"):
            known_models.of_recipe("mine", path)


def test_a_log_from_elsewhere_tells_its_load(told: Any) -> None:
    """136 tokens in and 48 out of 8 requests are 17 and 6; 8.526 requests/s."""
    log = ("--from-log", str(DATA / "vllm032_detailed.json"))
    assert "no model is named" in told("advise", *log, status=1)[1]
    tables = json.loads(told("advise", *log, "model=llama-3.1-8b", "--format", "json")[0])["tables"]
    told_of = tables[0]["ask"]
    assert (told_of["input_tokens"], told_of["output_tokens"]) == (17, 6)
    assert told_of["requests_per_second"] == pytest.approx(8.52599884623308)
    assert "17 tokens in, where results have 128 to 20000" in tables[0]["rows"][0]["beyond"]
