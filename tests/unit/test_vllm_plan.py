"""What a node serves: its endpoints with their recipes, and what they cannot both have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from trueup_catalog import catalog_sizes
from trueup_vllm import vllm_case, vllm_plan, vllm_recipe

CATALOG = str(Path(__file__).parents[2] / "catalog")
SIZES = catalog_sizes(f"{CATALOG}/vm_sizes.csv")
HOSTS = {"node1": {"ansible_host": "10.0.0.4"}, "node2": {}}
H100 = {
    "vm_size": "Standard_ND96isr_H100_v5",
    "catalog": SIZES["Standard_ND96isr_H100_v5"],
    "gpus": [{"name": "NVIDIA H100 80GB HBM3", "memory_bytes": 80 * 1024**3}] * 8,
}
A100 = {
    "vm_size": "Standard_ND96amsr_A100_v4",
    "catalog": SIZES["Standard_ND96amsr_A100_v4"],
    "gpus": [{"name": "NVIDIA A100-SXM4-80GB", "memory_bytes": 80 * 1024**3}] * 8,
}
HBV3 = {
    "vm_size": "Standard_HB120rs_v3",
    "catalog": SIZES["Standard_HB120rs_v3"],
    "memory_bytes": 448 * 1024**3,
    "cores": 120,
    "numa": [
        {"node": n, "cpus": f"{30 * n}-{30 * n + 29}", "memory_bytes": 112 * 1024**3}
        for n in range(4)
    ],
}
LLAMA = {"name": "llama", "recipe": "llama-3.1-8b"}
ON_CPU = {"name": "cpu", "recipe": "llama-3.1-8b-cpu"}


def plan(*endpoints: dict[str, Any], node: dict[str, Any] = H100, **given: Any) -> dict[str, Any]:
    return vllm_plan(
        list(endpoints),
        {},
        **{
            "host": "node1",
            "hosts": HOSTS,
            "node": node,
            "catalog": CATALOG,
            "sizes": SIZES,
            "cache": "/scratch",
            **given,
        },
    )


def test_an_endpoint_is_planned_whole() -> None:
    found = plan(LLAMA)
    (endpoint,) = found["endpoints"]
    commit = "0e9e39f249a16976918f6564b8830bc894c89659"
    assert (found["problems"], found["device"]) == ([], "cuda")
    assert endpoint["argv"][:2] == ["serve", "meta-llama/Llama-3.1-8B-Instruct"]
    assert endpoint["unit"] == "trueup-vllm-llama.service"
    assert endpoint["base_url"] == "http://127.0.0.1:8000"
    assert (endpoint["engines"], endpoint["gpus"], endpoint["model_bytes"]) == (1, 1, 16060522496)
    assert endpoint["complete"] == f"/scratch/complete/meta-llama--Llama-3.1-8B-Instruct@{commit}"
    # By a commit a cache has no ref, so that the benchmark's client is given the folder itself.
    assert endpoint["tokenizer"] == (
        f"/scratch/hub/models--meta-llama--Llama-3.1-8B-Instruct/snapshots/{commit}"
    )


def test_a_folder_of_the_users_is_not_downloaded() -> None:
    (endpoint,) = plan({**LLAMA, "model": "/srv/model"})["endpoints"]
    assert (endpoint["complete"], endpoint["tokenizer"]) == ("", "/srv/model")
    assert endpoint["argv"][1] == "/srv/model"


def test_endpoints_get_the_gpus_in_their_order() -> None:
    found = plan(LLAMA, {**LLAMA, "name": "second", "port": 8001})
    assert found["problems"] == []
    assert [each["environment"]["CUDA_VISIBLE_DEVICES"] for each in found["endpoints"]] == [
        "0",
        "1",
    ]


def test_endpoints_on_cpus_get_numa_nodes_in_their_order() -> None:
    found = plan(ON_CPU, {**ON_CPU, "name": "second", "port": 8001}, node=HBV3)
    assert found["problems"] == []
    assert [each["environment"]["VLLM_CPU_OMP_THREADS_BIND"] for each in found["endpoints"]] == [
        "0-28",
        "30-58",
    ]


def test_more_endpoints_than_gpus_or_numa_nodes_are_refused() -> None:
    many = [{**LLAMA, "name": f"e{n}", "port": 8000 + n} for n in range(9)]
    (problem,) = plan(*many)["problems"]
    assert problem.startswith("e8: ")
    many = [{**ON_CPU, "name": f"e{n}", "port": 8000 + n} for n in range(5)]
    (problem,) = plan(*many, node=HBV3)["problems"]
    assert problem.startswith("e4: ")


def test_one_node_has_one_build() -> None:
    (problem,) = plan(LLAMA, {**ON_CPU, "port": 8001}, node={**HBV3, **H100})["problems"]
    assert problem == (
        "a node has one build of vLLM, and its endpoints want two: llama (cuda), cpu (cpu)"
    )


def test_two_servers_over_the_same_nodes_want_ports_of_their_own() -> None:
    recipe = vllm_recipe(CATALOG, "deepseek-r1")
    facts = {**recipe["facts"], "parameters": 10**9, "expert_parameters": 0}
    half = {**recipe, "name": "half", "facts": facts, "gpus": 4, "data_parallel_per_node": 4}
    both = {"recipe": "half", "nodes": ["node1", "node2"]}
    found = vllm_plan(
        [{**both, "name": "a"}, {**both, "name": "b", "port": 8001}],
        {"half": half},
        host="node1",
        hosts=HOSTS,
        node=H100,
        catalog=CATALOG,
        sizes=SIZES,
        cache="/scratch",
    )
    assert found["problems"] == [
        "a and b both want port 23345 for their ranks: give one of their recipes another rpc_port"
    ]


def test_nodes_reach_each_other_by_the_inventorys_addresses() -> None:
    both = {"name": "r1", "recipe": "deepseek-r1", "nodes": ["node1", "node2"]}
    (head,) = plan(both)["endpoints"]
    (partner,) = plan(both, host="node2")["endpoints"]
    for endpoint in (head, partner):
        argv = endpoint["argv"]
        assert argv[argv.index("--data-parallel-address") + 1] == "10.0.0.4"
    assert (head["environment"]["VLLM_HOST_IP"], partner["environment"]["VLLM_HOST_IP"]) == (
        "10.0.0.4",
        "node2",
    )
    assert ("--headless" in head["argv"], "--headless" in partner["argv"]) == (False, True)
    assert (head["engines"], head["engines_here"], head["gpus"]) == (16, 8, 16)


@pytest.mark.parametrize(
    ("endpoint", "says"),
    [
        ({**LLAMA, "port": 0}, "vllm_endpoints, llama: 0 is no port"),
        ({**LLAMA, "recipe": "lama"}, "llama: vllm: there is no vLLM recipe"),
        ({**LLAMA, "recipe": "deepseek-r1"}, "Standard_ND96isr_H200_v5"),
        ({**LLAMA, "arguments": {"api-key": "4711"}}, "api-key"),
    ],
)
def test_what_is_wrong_is_a_sentence(endpoint: dict[str, Any], says: str) -> None:
    (problem,) = plan(endpoint)["problems"]
    assert says in problem
    assert "4711" not in problem


def test_a_case_is_the_same_only_for_the_same_server_and_load() -> None:
    (endpoint,) = plan(LLAMA)["endpoints"]
    asked = {"num_prompts": "20", "request_rate": 0}
    case = vllm_case(endpoint, "random", asked)
    assert case == vllm_case(endpoint, "random", {"num_prompts": 20, "request_rate": 0.0})
    assert case != vllm_case(endpoint, "random", {})
    (other,) = plan({**LLAMA, "arguments": {"max-num-seqs": 64}})["endpoints"]
    assert case["server_arguments"] != vllm_case(other, "random", asked)["server_arguments"]
    (tuned,) = plan({**LLAMA, "model": "/srv/finetuned"})["endpoints"]
    assert case["model"] != vllm_case(tuned, "random", asked)["model"]
    (elsewhere,) = plan(LLAMA, node=A100)["endpoints"]
    assert "8192" in case["server_arguments"]
    assert "2048" in vllm_case(elsewhere, "random", asked)["server_arguments"]
