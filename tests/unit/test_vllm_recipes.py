"""What is in a vLLM recipe, whether it fits, and the command that serves it."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers import parametrized
from hypothesis import given, settings
from hypothesis import strategies as st
from trueup_controller.plans import vllm_recipes
from trueup_controller.plans.vllm_recipes import (
    GIB,
    Machine,
    fit,
    gpu_word,
    kv_bytes_per_token,
    machine_of,
    serve,
)
from trueup_controller.sizes import read_sizes
from trueup_node.errors import BadInput

ROOT = Path(__file__).parents[2]
CATALOG = ROOT / "catalog"
SIZES = read_sizes(str(CATALOG / "vm_sizes.csv"))
CONTENT = yaml.safe_load((CATALOG / "vllm_recipes.yml").read_text(encoding="utf-8"))
RECIPES = CONTENT["recipes"]
H100, H200 = "Standard_ND96isr_H100_v5", "Standard_ND96isr_H200_v5"

# A model of 2 layers, as the molecule scenario serves it: two processes, or two nodes of one.
TINY = {
    "model": "tiny",
    "device": "cpu",
    "nodes": 2,
    "max_model_len": 512,
    "facts": {
        "parameters": 1_000_000,
        "expert_parameters": 0,
        "bytes_per_parameter": 2,
        "layers": 2,
        "kv_heads": 2,
        "head_dim": 32,
        "kv_bytes": 2,
        "source": "built on the spot",
    },
    "cpu": {"kv_cache_gib": 1, "bind": "none"},
    "arguments": {"enforce-eager": True, "dtype": "bfloat16"},
    "environment": {"GLOO_SOCKET_IFNAME": "eth0"},
    "source": "tests",
    "date": "2026-11-21",
}


def recipe(name: str, **changes: Any) -> dict[str, Any]:
    return vllm_recipes.validate(name, {**copy.deepcopy(RECIPES[name]), **changes})


def nodes_of(size: str, nodes: int = 1, **shown: Any) -> Machine:
    return machine_of({"vm_size": size, "catalog": SIZES[size], **shown}, nodes)


def a_cpu_node(nodes: int, each: int, gib: int, **shown: Any) -> dict[str, Any]:
    numa = [
        {"node": n, "cpus": f"{n * each}-{n * each + each - 1}", "memory_bytes": gib * GIB}
        for n in range(nodes)
    ]
    return {"numa": numa, "cpus": nodes * each, "cores": nodes * each, **shown}


# ---- the catalog ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_a_recipe_of_the_catalog_is_whole_and_fits_its_sizes(name: str) -> None:
    whole = recipe(name)
    assert whole["name"] == name
    assert whole["measured"] != ""
    assert whole["why"] != ""
    for size in whole["sizes"]:
        assert fit(whole, nodes_of(size, whole["nodes"])).fits is True


def test_kernels_are_pinned() -> None:
    assert CONTENT["vllm"] == "0.32.0"
    for name in RECIPES:
        for kernel in recipe(name)["kernels"]:
            pin = kernel.get("commit") or kernel.get("sha256") or kernel["module"]
            assert pin != ""
            assert kernel["source"] != ""


def test_parameters_follow_from_the_published_configurations() -> None:
    # config.json of Llama 3.1 8B and of DeepSeek R1; norms and router included.
    hidden, inner, words, layers = 4096, 14336, 128256, 32
    layer = 2 * hidden * hidden + 2 * hidden * 1024 + 3 * hidden * inner + 2 * hidden
    llama = 2 * words * hidden + layers * layer + hidden
    assert RECIPES["llama-3.1-8b"]["facts"]["parameters"] == llama == 8_030_261_248
    facts = RECIPES["deepseek-r1"]["facts"]
    expert = 3 * 7168 * 2048
    assert facts["expert_parameters"] == 58 * 256 * expert
    attention = 7168 * 1536 + 1536 * 128 * 192 + 7168 * 576 + 512 * 128 * 256 + 128 * 128 * 7168
    norms = 61 * (1536 + 512 + 2 * 7168) + 7168
    router = 58 * (256 * 7168 + 256)
    dense = 3 * 3 * 7168 * 18432
    embeddings = 2 * 129280 * 7168
    every = embeddings + 61 * attention + norms + dense + 58 * 257 * expert + router
    assert facts["parameters"] == every == 671_026_419_200
    # The second byte of what is BF16; the router's 58 x 256 biases are left out.
    assert facts["other_bytes"] == pytest.approx(embeddings + router + norms, rel=1e-4)


# ---- figures by hand ------------------------------------------------------------------------


def test_llama_takes_128_kib_of_kv_cache_a_token() -> None:
    assert kv_bytes_per_token(RECIPES["llama-3.1-8b"]["facts"]) == 128 * 1024


def test_deepseek_takes_68_kib_of_kv_cache_a_token_whatever_its_heads() -> None:
    assert kv_bytes_per_token(RECIPES["deepseek-r1"]["facts"]) == 61 * (512 + 64) * 2 == 70272


def test_llama_on_an_a100_of_40_gb() -> None:
    found = fit(recipe("llama-3.1-8b"), nodes_of("Standard_ND96asr_v4"), sizes=SIZES)
    assert found.fits is True
    assert found.weights_bytes == 2 * 8_030_261_248
    assert found.kv_cache_bytes == 4 * GIB
    assert found.needed_bytes == 2 * 8_030_261_248 + 6 * GIB
    assert found.available_bytes == 36 * GIB
    assert found.devices == 1
    assert found.reason == (
        "llama-3.1-8b on 1 node (Standard_ND96asr_v4) fits: it needs 21.0 GiB on 1 GPU "
        "(weights 15.0 GiB, KV cache 4.0 GiB, workspace 2.0 GiB), available is 36.0 GiB "
        "(0.9 of what is there)."
    )


def test_deepseek_on_two_nodes_of_h100() -> None:
    found = fit(recipe("deepseek-r1"), nodes_of(H100, 2))
    facts = RECIPES["deepseek-r1"]["facts"]
    rest = facts["parameters"] - facts["expert_parameters"] + facts["other_bytes"]
    assert found.fits is True
    assert found.devices == 16
    # Experts once in all, everything else on each of the 16.
    assert found.weights_bytes == facts["expert_parameters"] + 16 * rest
    assert found.model_bytes == 671_026_419_200 + facts["other_bytes"]
    assert found.kv_cache_bytes == 16 * 70272 * 32768
    assert found.available_bytes == 16 * 72 * GIB


def test_deepseek_on_one_node_of_h100_is_refused() -> None:
    found = fit(recipe("deepseek-r1"), nodes_of(H100), sizes=SIZES)
    assert found.fits is False
    assert (found.smallest_size, found.smallest_nodes, found.more_nodes) == (
        *("Standard_ND96isr_H200_v5", 1),
        2,
    )
    # MI300X and GB300 have the memory too, and no role installs their drivers.
    larger = {size: row for size, row in SIZES.items() if "_GB300_" in size or "_MI300X_" in size}
    assert len(larger) == 3
    assert fit(recipe("deepseek-r1"), nodes_of(H100), sizes=larger).smallest_size is None
    assert "needs 852.7 GiB on 8 GPUs" in found.reason
    assert "available is 576.0 GiB" in found.reason
    assert found.reason.endswith(f"The smallest that would do: {H200}, or 2 nodes of {H100}.")


@pytest.mark.parametrize(
    ("tokens", "gib"), [(256, 1 + 3.55), (2048, 1 + 28.44), (8192, 1 + 113.75)]
)
def test_deepeps_buffer_grows_with_the_tokens_of_a_batch(tokens: int, gib: float) -> None:
    # DeepEP's get_low_latency_rdma_size_hint for 7168 and 256 experts, and vLLM's 1 GiB.
    arguments = {"all2all-backend": "deepep_low_latency", "max-num-batched-tokens": tokens}
    whole = recipe("deepseek-r1", arguments=arguments)
    found = fit(whole, nodes_of(H100, 2), sizes=SIZES)
    assert found.buffers_bytes / 16 / GIB == pytest.approx(gib, abs=0.005)
    assert ("DeepEP's buffers" in found.reason) is True
    assert found.fits is (tokens == 256)
    # By vLLM's own number where nothing is said, and by a text of YAML.
    del whole["arguments"]["max-num-batched-tokens"]
    assert fit(whole, nodes_of(H100, 2)).buffers_bytes / 16 / GIB == pytest.approx(4.5547, abs=1e-4)
    text = fit(whole, nodes_of(H100, 2), overrides={"max-num-batched-tokens": str(tokens)})
    assert text.buffers_bytes == found.buffers_bytes


def test_deepeps_buffer_wants_what_it_goes_by() -> None:
    facts = dict(RECIPES["deepseek-r1"]["facts"])
    del facts["hidden"]
    with pytest.raises(BadInput, match=r"deepep_low_latency needs facts\.hidden"):
        fit(recipe("deepseek-r1", facts=facts), nodes_of(H100, 2))
    many = {"max-num-batched-tokens": "8k"}
    with pytest.raises(BadInput, match="'8k' must be a whole number"):
        fit(recipe("deepseek-r1"), nodes_of(H100, 2), overrides=many)


@parametrized(("size", "why"))
def test_a_machine_of_another_kind_is_refused(size: str, why: str) -> None:
    found = fit(recipe("llama-3.1-8b"), nodes_of(size), sizes=SIZES)
    assert found.fits is False
    assert why in found.reason


@parametrized(("model", "word"))
def test_a_gpu_is_known_by_its_word(model: str, word: str | None) -> None:
    assert gpu_word(recipe("llama-3.1-8b"), model) == word


def test_tensor_parallel_shares_out_weights_and_kv_heads() -> None:
    two = recipe("llama-3.1-8b", gpus=2, tensor_parallel=2)
    found = fit(two, nodes_of(H100))
    assert found.weights_bytes == 2 * 8_030_261_248
    assert found.kv_cache_bytes == 4 * GIB
    mla = recipe("deepseek-r1", tensor_parallel=8, data_parallel_per_node=1)
    assert fit(mla, nodes_of(H100)).kv_cache_bytes == 8 * 70272 * 32768


@given(
    st.integers(1, 64), st.sampled_from(["deepseek-r1", "llama-3.1-8b"]), st.integers(1, 200_000)
)
@settings(max_examples=60)
def test_more_memory_never_hurts(gib: int, name: str, length: int) -> None:
    whole = recipe(name, max_model_len=length)
    small, large = (
        Machine(name="m", nodes=2, gpus=8, gpu_memory_bytes=n * GIB, gpu_model="H100")
        for n in (gib, gib + 16)
    )
    a, b = fit(whole, small), fit(whole, large)
    assert a.needed_bytes == b.needed_bytes
    parts = (a.weights_bytes, a.kv_cache_bytes, a.buffers_bytes, a.workspace_bytes)
    assert a.needed_bytes == sum(parts)
    assert a.fits <= b.fits
    assert a.available_bytes is not None
    assert a.fits is (a.needed_bytes <= a.available_bytes)


# ---- CPU ------------------------------------------------------------------------------------


def test_a_kv_cache_that_holds_no_whole_sequence_is_refused() -> None:
    whole = recipe("llama-3.1-8b-cpu", cpu={"kv_cache_gib": 3, "bind": "numa"})
    found = fit(whole, machine_of(a_cpu_node(4, 24, 192)))
    assert found.fits is False
    assert "one sequence of 32768 tokens takes 4.0 GiB of KV cache" in found.reason


@parametrized(("node", "ranks", "binding"))
def test_each_rank_has_cpus_of_its_own(
    node: dict[str, Any], ranks: int, binding: str | None
) -> None:
    whole = recipe("llama-3.1-8b-cpu", data_parallel_per_node=ranks)
    if binding is None:
        with pytest.raises(BadInput, match="3 ranks on a node of 2 CPUs"):
            serve(whole, port=1, machine=machine_of(node))
        return
    served = serve(whole, port=1, machine=machine_of(node))
    assert served.environment["VLLM_CPU_OMP_THREADS_BIND"] == binding


@parametrized(("node", "ranks", "first", "variables"))
def test_a_second_server_has_numa_nodes_of_its_own(
    node: dict[str, Any], ranks: int, first: int, variables: dict[str, str]
) -> None:
    whole = recipe("llama-3.1-8b-cpu", data_parallel_per_node=ranks)
    served = serve(whole, port=1, machine=machine_of(node), first_numa=first).environment
    names = {"BIND": "VLLM_CPU_OMP_THREADS_BIND", "NODES": "CPU_VISIBLE_MEMORY_NODES"}
    got = {short: served[name] for short, name in names.items() if name in served}
    assert got == variables


@parametrized(("node", "ranks", "first", "there"))
def test_a_server_without_a_numa_node_left_is_refused(
    node: dict[str, Any], ranks: int, first: int, there: int
) -> None:
    whole = recipe("llama-3.1-8b-cpu", data_parallel_per_node=ranks)
    message = (
        f"{ranks} ranks? to be bound to a NUMA node each, on a node of {there}, of which other"
        f" servers have {first}: set cpu.bind to none"
    )
    with pytest.raises(BadInput, match=message):
        serve(whole, port=1, machine=machine_of(node), first_numa=first)
    free = {**whole, "cpu": {"kv_cache_gib": 1, "bind": "none"}}
    served = serve(free, port=1, machine=machine_of(node), first_numa=first).environment
    assert served["VLLM_CPU_OMP_THREADS_BIND"] == "nobind"


@parametrized(("gpus", "ranks", "first", "visible"))
def test_each_server_has_gpus_of_its_own(
    gpus: int | None, ranks: int, first: int, visible: str | None
) -> None:
    whole = recipe("llama-3.1-8b", gpus=ranks, tensor_parallel=ranks)
    machine = None if gpus is None else Machine(name="m", gpus=gpus, gpu_model="H100")
    served = serve(whole, port=1, machine=machine, first_gpu=first).environment
    assert served.get("CUDA_VISIBLE_DEVICES") == visible
    own = {**whole, "environment": {"CUDA_VISIBLE_DEVICES": "5"}}
    served = serve(own, port=1, machine=machine, first_gpu=first).environment
    assert served["CUDA_VISIBLE_DEVICES"] == "5"


def test_a_server_without_enough_gpus_left_is_refused() -> None:
    machine = Machine(name="m", gpus=2, gpu_model="H100")
    with pytest.raises(BadInput, match="1 GPU asked for on a node of 2, of which other servers ha"):
        serve(recipe("llama-3.1-8b"), port=1, machine=machine, first_gpu=2)
    with pytest.raises(BadInput, match=r"8 GPUs asked for on a node of 2$"):
        serve(recipe("deepseek-r1"), port=1, machine=machine)


# ---- the command ----------------------------------------------------------------------------

# Flag by flag from the article; its variable VLLM_ALL2ALL_BACKEND is a flag of today's vLLM.
ARTICLE = {
    0: (
        "serve deepseek-ai/DeepSeek-R1 --port 8000 --tensor-parallel-size 1 "
        "--enable-expert-parallel --data-parallel-size 16 --data-parallel-size-local 8 "
        "--data-parallel-address 10.0.0.6 --data-parallel-rpc-port 23345 --api-server-count 1 "
        "--max-model-len 32768 --reasoning-parser deepseek_r1"
    ),
    1: (
        "serve deepseek-ai/DeepSeek-R1 --port 8000 --tensor-parallel-size 1 "
        "--enable-expert-parallel --data-parallel-size 16 --data-parallel-size-local 8 "
        "--data-parallel-start-rank 8 --data-parallel-address 10.0.0.6 "
        "--data-parallel-rpc-port 23345 --headless --max-model-len 32768 "
        "--reasoning-parser deepseek_r1"
    ),
}
OURS = {
    "--revision": "56d4cbbb4d29f4355bab4b9a39ccb717a14ad5ad",
    "--host": "127.0.0.1",
    "--gpu-memory-utilization": "0.9",
    "--all2all-backend": "deepep_low_latency",
    "--max-num-batched-tokens": "256",
}


@pytest.mark.parametrize("rank", [0, 1])
def test_the_articles_nodes(rank: int) -> None:
    served = serve(recipe("deepseek-r1"), port=8000, rank=rank, nodes=["10.0.0.6", "10.0.0.7"])
    left, ours = list(served.argv), {}
    for flag in OURS:
        if flag in left:
            at = left.index(flag)
            ours[flag] = left[at + 1]
            del left[at : at + 2]
    assert left == ARTICLE[rank].split()
    assert ours == {key: value for key, value in OURS.items() if rank == 0 or key != "--host"}
    assert served.environment == {
        "VLLM_HOST_IP": f"10.0.0.{6 + rank}",
        "VLLM_LOGGING_LEVEL": "INFO",
        "VLLM_USE_DEEP_GEMM": "1",
        "GLOO_SOCKET_IFNAME": "eth0",
    }


@parametrized(("model", "tokens"))
def test_llama_takes_what_the_articles_table_says(model: str, tokens: str) -> None:
    machine = Machine(name="m", gpus=8, gpu_memory_bytes=40 * GIB, gpu_model=model)
    argv = serve(recipe("llama-3.1-8b"), port=8000, machine=machine).argv
    assert " ".join(argv).endswith(
        "--max-model-len 32768 --gpu-memory-utilization 0.9 --max-num-seqs 1024 "
        f"--enable-chunked-prefill --enable-prefix-caching --max-num-batched-tokens {tokens}"
    )


def test_overrides_replace_and_add() -> None:
    llama = recipe("llama-3.1-8b")
    machine = Machine(name="m", gpus=1, gpu_memory_bytes=GIB, gpu_model="H100")
    overrides = {
        "max-model-len": 8192,
        "gpu-memory-utilization": 0.85,
        "max-num-batched-tokens": 4096,
        "enable-prefix-caching": False,
        "enforce-eager": True,
    }
    argv = serve(llama, port=8000, machine=machine, overrides=overrides).argv
    text = " ".join(argv)
    assert "--max-model-len 8192 --gpu-memory-utilization 0.85" in text
    assert "--max-num-batched-tokens 4096" in text
    assert "--no-enable-prefix-caching" in argv
    assert "--enable-prefix-caching" not in argv
    assert argv[-1] == "--enforce-eager"
    assert len(argv) == len([word for word in argv if not word.startswith("--")]) + len(
        {word for word in argv if word.startswith("--")}
    )


@parametrized(("flag", "value", "says"))
def test_what_memory_cannot_be_is_named_as_it_was_given(flag: str, value: Any, says: str) -> None:
    with pytest.raises(BadInput, match=rf"llama-3\.1-8b: {flag}{says}"):
        serve(recipe("llama-3.1-8b"), port=1, overrides={flag: value})


@parametrized("overrides")
def test_overrides_that_cannot_be_are_refused(overrides: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=r"llama-3\.1-8b") as refused:
        serve(recipe("llama-3.1-8b"), port=8000, overrides=overrides)
    assert "abcdefghijklmnop" not in str(refused.value)


@pytest.mark.parametrize(
    ("rank", "nodes"), [(2, ["a", "b"]), (-1, []), (0, ["a", "a"]), (0, ["a", ""])]
)
def test_nodes_that_cannot_be_are_refused(rank: int, nodes: list[str]) -> None:
    with pytest.raises(BadInput, match="deepseek-r1"):
        serve(recipe("deepseek-r1"), port=8000, rank=rank, nodes=nodes)


# ---- what is refused ------------------------------------------------------------------------


@parametrized(("changes", "says"))
def test_a_recipe_that_cannot_be_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(BadInput, match=f"^vLLM recipe llama-3.1-8b: .*{says}"):
        recipe("llama-3.1-8b", **changes)


def test_facts_that_cannot_be_are_refused() -> None:
    facts = RECIPES["llama-3.1-8b"]["facts"]
    with pytest.raises(BadInput, match=r"facts: expert_parameters is more than all"):
        recipe("llama-3.1-8b", facts={**facts, "expert_parameters": 10**12})
    with pytest.raises(BadInput, match=r"facts\.layers is 0: it must be a whole number >= 1"):
        recipe("llama-3.1-8b", facts={**facts, "layers": 0})
    with pytest.raises(BadInput, match="must have either"):
        recipe("llama-3.1-8b", facts={**facts, "kv_lora_rank": 1, "qk_rope_head_dim": 1})


def test_a_missing_member_is_named() -> None:
    without = {key: value for key, value in TINY.items() if key != "source"}
    with pytest.raises(BadInput, match=r"^vLLM recipe tiny: source is missing$"):
        vllm_recipes.validate("tiny", without)
    with pytest.raises(BadInput, match=r"it is \[\]: it must be a mapping"):
        vllm_recipes.validate("tiny", [])
    with pytest.raises(BadInput, match="name is 'Tiny recipe': it must be lower case"):
        vllm_recipes.validate("Tiny recipe", TINY)


def test_cpus_that_are_no_list_are_refused() -> None:
    with pytest.raises(BadInput, match="trueup_node has numa with the CPUs 'x-y'"):
        machine_of({"numa": [{"cpus": "x-y", "memory_bytes": 1}]})
