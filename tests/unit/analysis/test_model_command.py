"""``trueup model``: memory, layout, speed and cost of a model, and its recipe for the role vllm."""

from __future__ import annotations

import json
import math
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import role_plans
import yaml
from helpers import parametrized
from test_advise import known
from test_vllm_plan import TOOLKIT
from trueup_analysis.figures.advise import nearby
from trueup_analysis.figures.models import basis, config, curves
from trueup_analysis.figures.models import results as results_of
from trueup_analysis.figures.models.roofline import Gpu, Layout, Speed, Work, speed, step
from trueup_controller.plans import vllm_recipes
from trueup_controller.plans.vllm import plan
from trueup_node.cases import Case, Figure

H100 = "Standard_ND96isr_H100_v5"
# The figures of Qwen3-32B, its weights in blocks of FP8.
QWEN = {
    "model_type": "qwen3",
    "head_dim": 128,
    "hidden_size": 5120,
    "num_hidden_layers": 64,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "intermediate_size": 25600,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "dtype": "bfloat16",
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}
MIXTURE = {
    **{name: value for name, value in QWEN.items() if name != "quantization_config"},
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "moe_intermediate_size": 768,
    "num_experts": 128,
    "num_experts_per_tok": 8,
}
LOAD = ("--input-tokens", "4000", "--output-tokens", "500", "--requests-per-second", "5")
LEVEL = ("--ttft-ms", "1000", "--tpot-ms", "30")


@pytest.fixture
def qwen(tmp_path: Path) -> Path:
    return written(tmp_path / "qwen3-32b-fp8", QWEN)


def written(folder: Path, document: dict[str, Any]) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(document))
    return folder


def tables(told: Any, *words: object) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(told("model", *words, "--format", "json")[0])["tables"]
    return found


def test_a_plain_config_has_its_parameters_and_the_sizes_that_hold_it(
    told: Any, qwen: Path
) -> None:
    facts, memory = tables(told, qwen)
    values = {row["name"]: row["value"] for row in facts["rows"]}
    assert (values["parameters"], values["kv_bytes_per_token"]) == (32762123264, 262144)
    row = next(row for row in memory["rows"] if row["size"] == H100)
    # 31.97 GiB of weights on each GPU; a step's activations, scores and CUDA beside them.
    assert row["weights"] / 2**30 == pytest.approx(31.97, abs=0.01)
    free = 0.9 * 80 * 2**30 - row["weights"] - row["workspace"]
    assert row["kv_room"] == pytest.approx(free, rel=1e-6)
    assert row["sequences"] == math.floor(free / (1280 * 262144))


def test_the_published_point_lies_in_the_range(told: Any, qwen: Path) -> None:
    """aiconfigurator 0.12.0 (vLLM 0.24.0's operators): one node of 8 H100 serves 5.31 requests/s
    within TTFT 1 s and TPOT 30 ms, at 1.14 US$ per million tokens with ND96is's price."""
    [sheet] = tables(told, qwen, *LOAD, *LEVEL, "--size", H100, "--region", "eastus")
    [row] = sheet["rows"]
    assert row["rests_on"] == "roofline"
    assert row["requests_low"] <= 5.31 <= row["requests_high"]
    assert (row["nodes_low"], row["nodes"], row["nodes_high"]) == (1, 1, 2)
    assert row["usd_per_million_tokens"] == pytest.approx(
        row["usd_per_hour"] / (5 * 4500 * 3600) * 1e6
    )
    assert max(row["ttft"] / 1.0, row["tpot"] / 0.03) <= 1
    assert sheet["advice"].startswith("1 x ND96isr_H100_v5 (")


def test_the_advice_comes_first_then_five_choices_then_what_changes_it(
    told: Any, qwen: Path
) -> None:
    text = told("model", qwen, *LOAD, *LEVEL)[0]
    first = text.partition("\n")[0]
    assert first.split()[1] == "x"
    assert "US$ an hour" in text.partition("size ")[0].replace("\n", " ")
    [sheet] = tables(told, qwen, *LOAD, *LEVEL)
    rows = sheet["rows"]
    assert len(rows) == 5
    most = [row["usd_per_hour"] * row["nodes_high"] / row["nodes"] for row in rows]
    assert most == sorted(most)
    faster = told("model", qwen, *LOAD[:-1], "9", *LEVEL)[0]
    assert "At the low end of its rate it needs " in faster
    every, _, refused = tables(told, qwen, *LOAD, *LEVEL, "--explain")
    assert len(every["rows"]) > 5
    assert "Standard_NC24ads_A100_v4" in {row["size"] for row in refused["rows"]}


def program(folder: Path, body: str) -> None:
    """A stand-in of aiconfigurator, first on PATH."""
    file = folder / "aiconfigurator"
    file.write_text(f"#!/usr/bin/env python3\n{body}")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)


# Its table's columns, of which we read these.
ANSWER = """
import pathlib, sys
words = [word for word in sys.argv[3:] if word != "--no-color"]
words = dict(zip(words[::2], words[1::2]))
assert (pathlib.Path(words["--model-path"]) / "config.json").is_file()
assert (words["--isl"], words["--osl"]) == ("4000", "500")
assert (words["--ttft"], words["--tpot"]) == ("1000", "30")
folder = pathlib.Path(words["--save-dir"]) / "agg"
folder.mkdir(parents=True)
rows = ["bs,ttft,tpot,seq/s,tp,pp,dp,moe_tp,moe_ep"]
rows += ["4,300,20,0.4,1,1,1,1,1", "10,450,29,0.7,1,1,1,1,1", "16,480,34,0.9,1,1,1,1,1"]
(folder / "pareto.csv").write_text("\\n".join(rows))
"""


def test_aiconfigurator_is_asked_where_it_is_installed(
    told: Any, qwen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    program(folder, ANSWER)
    [sheet] = tables(told, qwen, *LOAD, *LEVEL, "--size", H100)
    [row] = sheet["rows"]
    # 10 in flight are within 30 ms, 16 are not; 8 servers of one GPU.
    assert (row["rests_on"], row["requests_per_second_a_node"]) == (
        "aiconfigurator",
        pytest.approx(8 * 0.7),
    )
    # 5/8 of a request a second lies 3/4 of the way from 0.4 to 0.7.
    assert row["tpot"] == pytest.approx(0.020 + 0.75 * 0.009)
    program(folder, "import sys\nsys.exit('no data for this model')\n")
    [sheet] = tables(told, qwen, *LOAD, *LEVEL, "--size", H100)
    assert sheet["rows"][0]["rests_on"] == "roofline"
    text = told("model", qwen, *LOAD, *LEVEL, "--size", H100)[0].replace("\n ", "")
    assert "aiconfigurator failed: no data for this model" in " ".join(text.split())


def test_the_recipe_is_served_and_swept_by_the_role(told: Any, qwen: Path) -> None:
    """As it is printed: the role plans a server with its flags and a case for each load."""
    words = (*LOAD, *LEVEL, "--size", H100, "--model-id", "Qwen/Qwen3-32B-FP8", "--recipe")
    variables = yaml.safe_load(told("model", qwen, *words)[0])
    node = role_plans.node("nd_h100_v5")
    options = {name.removeprefix("vllm_"): value for name, value in variables.items()}
    answers = {
        "python": role_plans.PYTHON,
        "pythons": [{**role_plans.PYTHON, "path": "/p12", "version": [3, 12, 2]}],
        "folders": {"/opt/trueup/vllm": {"path": "/opt", "free_bytes": 2**40}},
        "programs": {f"/usr/bin/{name}": name for name in ("gcc", "g++", "c++", "lscpu")},
        "files": dict.fromkeys(TOOLKIT, True),
    }
    inputs = role_plans.asked("vllm", node, answers, **options)
    hosts = {"node-1": {"ansible_host": "10.0.0.4"}}
    planned = plan(
        replace(inputs, secrets={"api_key": "", "hf_token": ""}, hosts=["node-1"], hostvars=hosts)
    )
    assert planned.refused == []
    [endpoint] = planned.values["endpoints"]
    argv = " ".join(endpoint["command"])
    assert "--tensor-parallel-size 4 --data-parallel-size 2" in argv
    assert "--max-model-len 9216" in argv
    rates = sorted({case["request_rate"] for case in planned.cases or []})
    assert rates == [1.25, 2.5, 3.75, 5.0, 6.25]
    assert {case["random_input_tokens"] for case in planned.cases or []} == {4000}


@pytest.mark.parametrize("document", [QWEN, MIXTURE])
def test_every_choice_is_a_recipe_that_fits(
    document: dict[str, Any], told: Any, tmp_path: Path
) -> None:
    folder = written(tmp_path / "model", document)
    for size in (H100, "Standard_ND96asr_v4", "Standard_NC80adis_H100_v5"):
        text = told("model", folder, *LOAD, "--size", size, "--recipe")[0]
        variables = yaml.safe_load(text)
        recipe = vllm_recipes.choose(variables["vllm_recipes"], "model")
        row = known().sizes[size]
        machine = vllm_recipes.Machine(
            size, 1, int(row["gpus"]), int(float(row["gpu_memory_gib"]) * 2**30), row["gpu_model"]
        )
        assert vllm_recipes.fit(recipe, machine).fits is True
        gpus = recipe["gpus"] * len(variables["vllm_endpoints"])
        assert gpus == int(row["gpus"])


def test_a_model_that_no_node_holds_takes_several(told: Any, tmp_path: Path) -> None:
    """DeepSeek R1's figures: 642 GiB of FP8 on nodes of 8 x 80 GB."""
    document = {
        "model_type": "deepseek_v3",
        "hidden_size": 7168,
        "num_hidden_layers": 61,
        "num_attention_heads": 128,
        "intermediate_size": 18432,
        "moe_intermediate_size": 2048,
        "n_routed_experts": 256,
        "n_shared_experts": 1,
        "num_experts_per_tok": 8,
        "first_k_dense_replace": 3,
        "q_lora_rank": 1536,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "qk_nope_head_dim": 128,
        "v_head_dim": 128,
        "vocab_size": 129280,
        "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
    }
    folder = written(tmp_path / "large", document)
    words = (folder, "--requests-per-second", "1", "--size", H100)
    variables = yaml.safe_load(told("model", *words, "--recipe")[0])
    [endpoint], recipe = variables["vllm_endpoints"], variables["vllm_recipes"]["large"]
    assert (recipe["nodes"], recipe["expert_parallel"]) == (2, True)
    assert endpoint["nodes"] == ["node1", "node2"]
    [sheet] = tables(told, *words)
    [row] = sheet["rows"]
    assert row["nodes"] == 2
    # The range of the back-test, twice as wide on each side for experts over several nodes.
    target = results_of.point(
        H100, config.of_document(document, "x"), Layout(1), Work(1024, 256), 64
    )
    alone = basis.of_nearest(target, known())
    assert row["requests_high"] / row["requests_low"] >= 4 * alone.high / alone.low * 0.9


def test_a_record_of_this_model_counts_first() -> None:
    """A record at the rate that the roofline gives, and one at half of it."""
    model = config.of_document(QWEN, "qwen3-32b-fp8")
    gpu = Gpu("H100-SXM5-80GB", 80 * 2**30, 3350e9, 989.4e12, 2 * 989.4e12, 450e9)
    work = Work(4000, 500)
    computed = speed(step(model, gpu, Layout(2), work, 8), work, 8)
    seconds = 8 / computed.requests_per_second
    for share in (1.0, 0.5):
        rate = computed.requests_per_second * share
        tpot = (seconds / share - computed.ttft) / 499
        case = record(rate * 4, computed.ttft, tpot)
        found = basis.of_records(model, (), H100, known(case))
        assert found is not None
        assert (found.kind, found.rate) == (basis.RECORDS, pytest.approx(share, rel=0.02))
    assert basis.of_records(model, (), "Standard_ND96isr_H200_v5", known(case)) is None
    assert basis.of_records(replace(model, name="other"), (), H100, known(case)) is None


def record(rate: float, ttft: float, tpot: float) -> Case:
    figures = [
        Figure("requests_completed", 100, "1", "higher"),
        Figure("input_tokens", 400_000, "1", "higher"),
        Figure("output_tokens", 50_000, "1", "higher"),
        Figure("request_throughput", rate, "1/s", "higher"),
        Figure("ttft", ttft, "s", "lower", statistic="median"),
        Figure("tpot", tpot, "s", "lower", statistic="median"),
    ]
    parameters = {
        "served_model_name": "Qwen/Qwen3-32B-FP8",
        "tensor_parallel": 2,
        "data_parallel": 4,
    }
    return Case(
        *(("n1",), H100, "vllm", "c", "ok", None, parameters, {}, figures), node_count=1, gpus=8
    )


def test_published_results_of_the_same_model_and_gpu_count_next() -> None:
    """Llama 3.1 8B in FP8 on an H100: 9863.48 tokens a second out, as many in, 128 in flight."""
    llama = {
        "model_type": "llama",
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "intermediate_size": 14336,
        "vocab_size": 128256,
        "quantization_config": {"quant_method": "fp8"},
    }
    model = config.of_document(llama, "llama")
    gpu = Gpu("H100-SXM5-80GB", 80 * 2**30, 3350e9, 989.4e12, 2 * 989.4e12, 450e9)
    target = results_of.point(H100, model, Layout(1), Work(1000, 1000), 128)
    found = basis.of_nearest(target, known())
    assert (found.kind, found.low * found.high) == (basis.PUBLISHED, pytest.approx(1))
    computed = speed(step(model, gpu, Layout(1), Work(1000, 1000), 128), Work(1000, 1000), 128)
    assert computed.requests_per_second * found.rate == pytest.approx(9.86348, rel=0.1)


def test_a_curve_is_read_between_its_points() -> None:
    points = [Speed(1, 1.0, 0.1, 0.01), Speed(4, 2.0, 0.3, 0.02)]
    assert curves.at_rate(points, 0.5) == Speed(0.5, 0.5, 0.1, 0.01)
    assert curves.at_rate(points, 1.5) == pytest.approx((2.5, 1.5, 0.2, 0.015))
    assert curves.at_rate(points, 9.0) == points[1]
    level = curves.Level(tpot=0.015)
    assert curves.best(points, level) == points[0]
    assert curves.best(points, curves.Level(ttft=0.01)) is None


@parametrized(("name", "gibibytes"))
def test_a_known_model_is_named_without_a_file(name: str, gibibytes: float, told: Any) -> None:
    """Tables in bfloat16, the rest at the width that the name or the publisher says."""
    facts, memory = tables(told, name)
    values = {row["name"]: row["value"] for row in facts["rows"]}
    assert values["weight_bytes"] / 2**30 == pytest.approx(gibibytes, abs=0.01)
    assert memory["rows"]


def test_a_recipe_of_a_known_model_names_its_own_weights(told: Any) -> None:
    """Never those of another precision than was counted."""
    load = ("--requests-per-second", "1", "--size", H100, "--recipe")
    for name, model in (
        ("llama-3.1-70b", "meta-llama/Llama-3.1-70B-Instruct"),
        ("Qwen/Qwen2.5-72B-Instruct-AWQ", "Qwen/Qwen2.5-72B-Instruct-AWQ"),
        ("Meta-Llama-3.1-70B-Instruct-FP8", "llama-3.1-70b"),
    ):
        (recipe,) = yaml.safe_load(told("model", name, *load)[0])["vllm_recipes"].values()
        assert recipe["model"] == model


def test_an_unknown_name_is_refused_with_the_known_ones(told: Any) -> None:
    assert "did you mean mixtral-8x7b?" in told("model", "mixtral-8x9b", status=1)[1]
    assert "did you mean qwen3-235b-a22b?" in told("model", "qwen3-235b", status=1)[1]
    error = told("model", "ours/secret", status=1)[1]
    assert "known are deepseek-r1" in error
    assert "config.json" in error


@parametrized(("words", "message"))
def test_a_wrong_request_is_one_sentence(
    words: list[str], message: str, told: Any, qwen: Path
) -> None:
    error = told("model", qwen, *words, status=1)[1]
    assert message in error
    assert error.count("\n") == 1


def test_the_roofline_holds_against_published_results() -> None:
    """Of vLLM, SGLang and TensorRT-LLM on GPUs with a datasheet, with lengths and load, without any
    correction: half within 1.25 times, nine of ten within 2."""
    knowledge, off = known(), []
    for point in results_of.points(knowledge):
        computed = nearby.seen(point, knowledge)
        if computed is not None:
            off.append(abs(math.log(nearby.seconds(point) / computed.seconds)))
    off.sort()
    assert len(off) >= 280
    assert off[len(off) // 2] <= math.log(1.25)
    assert off[len(off) * 9 // 10] <= math.log(2)
