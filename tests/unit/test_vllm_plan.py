"""What a node serves: its endpoints with their recipes, and what they cannot both have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import role_plans
import yaml
from trueup_controller.benchmark_roles import role_of
from trueup_controller.plans.vllm import plan as planned
from trueup_controller.plans.vllm import served
from trueup_controller.plans.vllm_recipes import choose
from trueup_controller.sizes import read_sizes
from trueup_measure import secrets_of
from trueup_node.benchmarks.vllm.case import OPTIONS
from trueup_node.options import MODULE, module_spec
from trueup_node.plan import Plan, PlanInputs

ROOT = Path(__file__).parents[2]
CATALOG = str(ROOT / "catalog")
RECIPES = yaml.safe_load((ROOT / "catalog" / "vllm_recipes.yml").read_text())
SIZES = read_sizes(f"{CATALOG}/vm_sizes.csv")
HOSTS = {"node1": {"ansible_host": "10.0.0.4"}, "node2": {"ansible_host": "10.0.0.5"}}
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
TOOLKIT = [
    f"/usr/local/cuda/{name}" for name in ("bin/nvcc", "lib64/libcudart.so", "include/curand.h")
]
LLAMA = {"name": "llama", "recipe": "llama-3.1-8b"}
ON_CPU = {"name": "cpu", "recipe": "llama-3.1-8b-cpu"}


def plan(*endpoints: dict[str, Any], node: dict[str, Any] = H100, **given: Any) -> dict[str, Any]:
    usual = {"host": "node1", "hosts": HOSTS, "node": node, "sizes": SIZES, "cache": "/scratch"}
    own = given.pop("recipes", {})
    found = served(list(endpoints), {**RECIPES["recipes"], **own}, **{**usual, **given})
    return {"problems": found.problems, "device": found.build, "endpoints": found.endpoints}


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
    recipe = choose(RECIPES["recipes"], "deepseek-r1")
    facts = {**recipe["facts"], "parameters": 10**9, "expert_parameters": 0}
    half = {**recipe, "name": "half", "facts": facts, "gpus": 4, "data_parallel_per_node": 4}
    both = {"recipe": "half", "nodes": ["node1", "node2"]}
    found = plan({**both, "name": "a"}, {**both, "name": "b", "port": 8001}, recipes={"half": half})
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
        "10.0.0.5",
    )
    assert ("--headless" in head["argv"], "--headless" in partner["argv"]) == (False, True)
    assert (head["engines"], head["engines_here"], head["gpus"]) == (16, 8, 16)


@pytest.mark.parametrize("strange", [{}, {"ansible_host": "20.61.3.9"}, {"ansible_host": "vm2.x"}])
def test_addresses_of_several_nodes_are_private_numbers(strange: dict[str, Any]) -> None:
    both = {"name": "r1", "recipe": "deepseek-r1", "nodes": ["node1", "node2"]}
    hosts = {**HOSTS, "node2": strange}
    [problem] = plan(both, hosts=hosts)["problems"]
    address = strange.get("ansible_host", "node2")
    assert problem.endswith(
        f"reaches node2 by {address}: set the endpoint's addresses, one for each of its nodes"
    )
    given = {**both, "addresses": ["10.0.0.4", "10.0.0.5"]}
    assert plan(given, hosts=hosts)["problems"] == []
    [problem] = plan({**both, "addresses": ["10.0.0.4", "vm2"]}, hosts=hosts)["problems"]
    assert "addresses vm2: they must be numbers" in problem
    # One node needs none.
    assert plan({**LLAMA, "nodes": ["node2"]}, host="node2", hosts=hosts)["problems"] == []


def test_deepep_is_given_the_infiniband_adapters_by_name() -> None:
    def adapters(recipe: str, families: Any = (), **shown: Any) -> str | None:
        h200 = {"gpus": [{"name": "NVIDIA H200", "memory_bytes": 141 * 1024**3}] * 8}
        node = {**H100, **h200, **shown}
        nodes = ["node1", "node2"] if recipe == "deepseek-r1" else ["node1"]
        endpoint = {"name": "r1", "recipe": recipe, "nodes": nodes}
        made = planned(asked(endpoint, node=node, families=families))
        assert made.refused == []
        given: str | None = made.values["endpoints"][0]["environment"].get("NVSHMEM_HCA_LIST")
        return given

    shown = [
        {"device": "mlx5_an0", "link_layer": "Ethernet"},
        {"device": "mlx5_0", "link_layer": "InfiniBand"},
        {"device": "mlx5_1", "link_layer": "InfiniBand"},
    ]
    assert adapters("deepseek-r1", infiniband=shown) == "mlx5_0:1,mlx5_1:1"
    named = adapters("deepseek-r1", ["rdma"], infiniband=shown, rdma_count_expected=8)
    assert named == ",".join(f"mlx5_ib{number}:1" for number in range(8))
    assert adapters("deepseek-r1") is None
    assert adapters("deepseek-r1-h200", ["rdma"], rdma_count_expected=8) is None


@pytest.mark.parametrize(
    ("endpoint", "says"),
    [
        ({**LLAMA, "port": 0}, "vllm_endpoints, llama: 0 is no port"),
        ({**LLAMA, "recipe": "lama"}, "llama: there is no vLLM recipe"),
        ({**LLAMA, "recipe": "deepseek-r1"}, "Standard_ND96isr_H200_v5"),
        ({**LLAMA, "arguments": {"api-key": "4711"}}, "api-key"),
    ],
)
def test_what_is_wrong_is_a_sentence(endpoint: dict[str, Any], says: str) -> None:
    (problem,) = plan(endpoint)["problems"]
    assert says in problem
    assert "4711" not in problem


# --- the role ------------------------------------------------------------------------------------


def asked(
    *endpoints: dict[str, Any],
    node: dict[str, Any] = HBV3,
    key: str = "4711-key",
    families: Any = (),
    found: dict[str, Any] | None = None,
    **given: Any,
) -> PlanInputs:
    """What the role is asked on node1."""
    values = {one.name: one.default for one in OPTIONS if one.of != MODULE and not one.secret}
    return PlanInputs(
        options={**values, "endpoints": list(endpoints), **given},
        secrets={"api_key": key, "hf_token": "hf_4711"},
        node={"privilege": "root", "package_manager": "apt", **node},
        host="node1",
        found={
            "python": {"path": "/p", "version": [3, 9, 2], "missing": [], "headers": True},
            "pythons": [
                {"path": f"/p{minor}", "version": [3, minor, 2], "missing": [], "headers": True}
                for minor in (12, 11)
            ],
            "folders": {
                values["prefix"]: {"path": "/opt", "free_bytes": 1},
            },
            "programs": {f"/usr/bin/{name}": name for name in ("gcc", "g++", "c++", "lscpu")},
            "files": dict.fromkeys(TOOLKIT, True),
            **(found or {}),
        },
        data=role_plans.data("vllm"),
        hosts=list(HOSTS),
        hostvars=HOSTS,
        variables={"trueup_family_roles": list(families)},
        project=ROOT,
        catalog=lambda name: yaml.safe_load((ROOT / "catalog" / name).read_text()),
    )


def cases(made: Plan) -> list[dict[str, Any]]:
    return made.cases or []


def bound(*given: dict[str, Any], node: dict[str, Any]) -> list[tuple[str, str | None]]:
    """Of each endpoint, the CPUs that it is kept on, and the order of its GPUs."""
    made = planned(asked(*given, node=node))
    assert made.refused == []
    told = made.values["endpoints"]
    return [
        (
            one["command"][2] if one["command"][0] == "/usr/bin/taskset" else "",
            one["environment"].get("CUDA_DEVICE_ORDER"),
        )
        for one in told
    ]


def test_servers_on_some_of_a_nodes_gpus_are_kept_beside_them() -> None:
    three = [{**LLAMA, "name": f"llama{n}", "port": 8000 + n} for n in range(3)]
    gpus = [{"pci": f"000{n}:00:00.0", "name": "NVIDIA H100 80GB HBM3"} for n in range(8)]
    ndv4 = {**H100, "vm_size": "Standard_ND96asr_v4", "gpus": gpus}
    order = "PCI_BUS_ID"
    # GPUs 0 and 1 are on the second NUMA node, 2 is on the first.
    assert bound(*three, node=ndv4) == [("24-47", order), ("24-47", order), ("0-23", order)]
    ndv5 = {**ndv4, "vm_size": "Standard_ND96isr_H100_v5"}
    assert bound(LLAMA, node=ndv5) == [("0-47", order)]
    # Sizes without a layout, and a node of which it has all GPUs.
    assert bound(LLAMA, node={**ndv4, "vm_size": None}) == [("", None)]
    assert bound(LLAMA, node={**ndv4, "gpus": gpus[:1]}) == [("", None)]
    assert bound(ON_CPU, node=HBV3) == [("", None)]


def test_a_case_for_each_endpoint_and_profile() -> None:
    second = {**ON_CPU, "name": "second", "port": 8001}
    datasets = {"chat": "/data/chat.json"}
    made = planned(asked(ON_CPU, second, profiles=["random", "chat"], datasets=datasets))
    assert (made.refused, made.skipped) == ([], [])
    told = [(one["endpoint_name"], one["profile"], one["dataset_path"]) for one in cases(made)]
    assert told == [
        ("cpu", "random", ""),
        ("cpu", "chat", "/data/chat.json"),
        ("second", "random", ""),
        ("second", "chat", "/data/chat.json"),
    ]
    # The rest are the module's own defaults, and the key.
    left = {"api_key", "dataset_sha256", "ramp_up_start", "ramp_up_end", "endpoint", "seed"}
    left |= {"request_rate", "max_concurrency", "warmup_requests", "failed_share_allowed"}
    assert set(cases(made)[0]) == set(module_spec(OPTIONS)) - left
    assert [one["base_url"][-4:] for one in cases(made)] == ["8000", "8000", "8001", "8001"]


def test_no_key_is_in_the_plan() -> None:
    question = asked({**ON_CPU, "host": "0.0.0.0"})
    made = planned(question)
    assert made.refused == []
    assert "4711" not in str(made.as_result()) + str(question)
    [refused] = planned(asked({**ON_CPU, "host": "0.0.0.0"}, key="")).refused
    assert "needs a key: set vllm_api_key" in refused


def test_the_module_is_given_the_key_beside_the_plan() -> None:
    assert (secrets_of("vllm"), role_of("vllm")) == (["api_key"], "vllm")
    # The role puts it into a file.
    assert (secrets_of("blob_copy"), role_of("blob_copy")) == ([], "blob_checkpoint")


def test_a_case_differs_by_server_and_node() -> None:
    def case(endpoint: dict[str, Any], **given: Any) -> dict[str, Any]:
        return cases(planned(asked(endpoint, **given)))[0]

    usual = case(LLAMA, node=H100)
    assert usual == case(LLAMA, node=H100)
    other = case({**LLAMA, "arguments": {"max-num-seqs": 64}}, node=H100)
    assert usual["server_arguments"] != other["server_arguments"]
    assert case({**LLAMA, "model": "/srv/finetuned"}, node=H100)["model"] == "/srv/finetuned"
    assert usual["server_arguments"]["max-num-batched-tokens"] == 8192
    elsewhere = case(LLAMA, node=A100)
    assert elsewhere["server_arguments"]["max-num-batched-tokens"] == 2048
    assert [one["tensor_parallel"] for one in (usual, elsewhere)] == [1, 1]


SWEPT = ("max_concurrency", "request_rate", "num_prompts", "warmup_requests")


def test_a_sweep_is_a_case_a_load_and_all_loads_come_before_a_repeat() -> None:
    made = planned(asked(ON_CPU, concurrencies=[64, 1, 8, 1], num_prompts=100))
    assert [[one.get(name) for name in SWEPT] for one in cases(made)] == [
        [1, None, 100, 8],
        [8, None, 100, 8],
        [64, None, 320, 8],
    ] * 3
    seeds = [one["seed"] for one in cases(made)]
    assert (len(set(seeds)), seeds[0]) == (9, 42)
    rates = planned(asked(ON_CPU, request_rates=[32.0, 0.5]))
    assert [[one.get(name) for name in SWEPT] for one in cases(rates)] == [
        [None, 0.5, 100, 8],
        [None, 32.0, 320, 8],
    ] * 3


def test_each_profile_and_endpoint_has_the_whole_sweep() -> None:
    second = {**LLAMA, "name": "second", "port": 8001}
    profiles = ["random", "chat"]
    paths = {"chat": "/data/chat.json"}
    given = {"profiles": profiles, "datasets": paths, "concurrencies": [1, 2]}
    made = cases(planned(asked(LLAMA, second, node=H100, **given)))
    assert [(one["endpoint_name"], one["profile"], one["max_concurrency"]) for one in made] == [
        (name, profile, load)
        for name in ("llama", "second")
        for profile in profiles
        for load in (1, 2) * 3
    ]
    # 400 of the profile's own, 100 of random's.
    assert [one["num_prompts"] for one in made[::6]] == [100, 400, 100, 400]


def test_without_a_sweep_a_case_is_what_it_was() -> None:
    [case] = cases(planned(asked(ON_CPU)))
    assert (case["num_prompts"], "seed" in case, "warmup_requests" in case) == (0, False, False)


def test_a_sweep_that_contradicts_itself_is_refused() -> None:
    options = {"concurrencies": [1], "profiles": ["random", "aime"]}
    [refused] = planned(asked(ON_CPU, **options)).refused
    assert "the profile aime, whose" in refused


def test_only_the_first_node_of_an_endpoint_measures() -> None:
    both = {"name": "r1", "recipe": "deepseek-r1", "nodes": ["node2", "node1"]}
    made = planned(asked(both, node=H100))
    assert (cases(made), made.refused) == ([], [])
    assert made.values["endpoints"][0]["rank"] == 1


def test_downloads_are_for_profiles_without_a_file_of_the_users() -> None:
    profiles = ["random", "aime", "chat", "classification"]
    paths = {"classification": "/data/classification.json"}
    made = planned(asked(ON_CPU, profiles=profiles, datasets=paths))
    assert [one["downloads_allowed"] for one in cases(made)] == [False, True, True, False]
    own = {**ON_CPU, "model": "/srv/model"}
    refused = planned(
        asked(own, profiles=profiles, datasets=paths, downloads_allowed=False)
    ).refused
    assert refused == [
        f"downloads are not allowed, and vllm_datasets names no {data} for the profile {profile}."
        for profile, data in (
            ("aime", "AI-MO/aimo-validation-aime"),
            ("chat", "share_gpt_turns.json"),
        )
    ]


def test_without_downloads_the_model_is_a_folder() -> None:
    [refused] = planned(asked(ON_CPU, downloads_allowed=False)).refused
    assert refused.startswith("cpu: downloads are not allowed, and no folder with the model")
    own = {**ON_CPU, "model": "/srv/model"}
    assert planned(asked(own, downloads_allowed=False)).refused == []


@pytest.mark.parametrize(
    ("hub", "is_taken"),
    [
        ("http://10.0.0.4:8080", True),
        ("https://mirror.example/hf", True),
        ("mirror.example", False),
        ("https://name:word@mirror.example", False),
        ("https://mirror.example/hf?token=x", False),
    ],
)
def test_a_mirror_of_the_hub_is_an_address_without_a_secret(hub: str, is_taken: bool) -> None:
    made = planned(asked(ON_CPU, profiles=["aime"], hub=hub))
    assert [text.partition(" ")[0] for text in made.refused] == ([] if is_taken else ["vllm_hub"])
    assert {case["hub"] for case in made.cases} == {hub}


@pytest.mark.parametrize(
    ("endpoints", "node", "why"),
    [
        ([], {}, "no member of vllm_endpoints names this node"),
        ([ON_CPU], {"privilege": ""}, "needs root or sudo"),
    ],
)
def test_what_a_node_lacks_is_named(
    endpoints: list[dict[str, Any]], node: dict[str, Any], why: str
) -> None:
    made = planned(asked(*endpoints, node={**HBV3, **node}))
    [only] = made.skipped
    assert (why in only.why, only.what, made.refused) == (True, "vllm", [])


def test_each_build_has_its_pins_and_python() -> None:
    cpu, cuda = (planned(asked(one, node=node)) for one, node in ((ON_CPU, HBV3), (LLAMA, H100)))
    assert [made.values["environment"]["python"] for made in (cpu, cuda)] == ["/p11", "/p12"]
    assert [made.values["home"] for made in (cpu, cuda)] == [
        "/opt/trueup/vllm/cpu",
        "/opt/trueup/vllm/cuda",
    ]
    assert [len(made.values["environment"]["requirements"]) for made in (cpu, cuda)] == [3, 2]
    # vLLM looks for a distribution of its CPU build that is called otherwise.
    assert [len(made.values["files"]) for made in (cpu, cuda)] == [4, 3]
    assert [made.values["packages"] for made in (cpu, cuda)] == [["libtcmalloc-minimal4"], []]
    assert cpu.values["pins"] != cuda.values["pins"]
    redhat = planned(asked(ON_CPU, node={**HBV3, "package_manager": "dnf"}))
    assert redhat.values["packages"] == ["gperftools-libs"]


def test_a_units_programs_are_the_environments_before_the_systems() -> None:
    [cpu] = planned(asked(ON_CPU)).values["endpoints"]
    [cuda] = planned(asked(LLAMA, node=H100)).values["endpoints"]
    path = cuda["environment"]["PATH"].split(":")
    assert path[:2] == ["/opt/trueup/vllm/cuda/venv/bin", "/usr/local/cuda/bin"]
    assert (cuda["environment"]["CUDA_HOME"], "/usr/bin" in path) == ("/usr/local/cuda", True)
    assert cpu["environment"]["PATH"].startswith("/opt/trueup/vllm/cpu/venv/bin:/usr/local/sbin:")
    assert "CUDA_HOME" not in cpu["environment"]
    # What is compiled is this node's own.
    assert cpu["environment"]["HOME"] == cpu["environment"]["XDG_CACHE_HOME"]
    assert cpu["environment"]["HOME"] == "/var/cache/trueup-vllm"


def test_a_missing_compiler_is_installed_and_elsewhere_named() -> None:
    none = {"programs": {"/usr/bin/lscpu": "/usr/bin/lscpu"}}
    bare = planned(asked(LLAMA, node=H100, found=none))
    assert (bare.values["packages"], bare.skipped) == (["g++"], [])
    redhat = {"package_manager": "dnf", "distribution_version": "9.6"}
    on_cpu = planned(asked(ON_CPU, node={**HBV3, **redhat}, found={}))
    assert on_cpu.values["packages"] == ["gperftools-libs"]
    bare = planned(asked(ON_CPU, node={**HBV3, **redhat}, found={"programs": {}}))
    assert bare.values["packages"] == ["gperftools-libs", "gcc-c++", "util-linux"]
    # Of Enterprise Linux 8 nothing can be installed, the allocator neither.
    old = {**redhat, "distribution_version": "8.10"}
    assert planned(asked(ON_CPU, node={**HBV3, **old})).values["packages"] == []
    whys = [one.why for one in planned(asked(ON_CPU, node={**HBV3, **old}, found=none)).skipped]
    assert ["has glibc 2.28" in whys[0], "there is no g++" in whys[1], len(whys)] == [True, True, 2]


def test_a_gpu_server_without_a_toolkit_is_skipped_by_what_is_missing() -> None:
    nvcc_alone = {"files": {**dict.fromkeys(TOOLKIT, False), TOOLKIT[0]: True}}
    [only] = planned(asked(LLAMA, node=H100, found=nvcc_alone)).skipped
    assert only.why.startswith(f"there is no {TOOLKIT[1]} and no {TOOLKIT[2]}, which FlashInfer")
    # PyTorch's sampler needs none; DeepGEMM compiles all the same.
    sampler = {"environment": {"VLLM_USE_FLASHINFER_SAMPLER": "0"}}
    mine = {
        name: {**choose(RECIPES["recipes"], name), **sampler, "name": name}
        for name in ("llama-3.1-8b", "deepseek-r1-h200")
    }
    made = planned(asked(LLAMA, node=H100, found={"files": {}}, recipes=mine))
    assert made.skipped == []
    h200 = {**H100, "gpus": [{"name": "NVIDIA H200", "memory_bytes": 141 * 1024**3}] * 8}
    deep = {"name": "r1", "recipe": "deepseek-r1-h200"}
    made = planned(asked(deep, node=h200, found={"files": {}}, recipes=mine))
    assert (len(made.skipped), made.refused) == (1, [])


def test_what_a_service_must_see_is_told_with_its_variable() -> None:
    own = {**ON_CPU, "model": "/home/me/model"}
    seen = planned(asked(own, model_cache="/data/cache")).values["visible"]
    assert seen == {
        "/opt/trueup/vllm": "vllm_prefix",
        "/data/cache": "vllm_model_cache",
        "/p11": "vllm_python",
        "/home/me/model": "model of vllm_endpoints",
    }


def test_a_server_downloads_nothing_and_tells_nobody() -> None:
    [endpoint] = planned(asked(ON_CPU)).values["endpoints"]
    assert endpoint["command"][:2] == ["/opt/trueup/vllm/cpu/venv/bin/vllm", "serve"]
    variables = endpoint["environment"]
    assert (variables["HF_HUB_OFFLINE"], variables["DO_NOT_TRACK"]) == ("1", "1")
    assert variables["HF_HOME"] == "/var/lib/trueup-vllm"
    assert endpoint["secrets"] == "/etc/trueup/vllm/cpu.env"


def test_models_are_on_the_scratch_of_nodes_that_get_one() -> None:
    disk = {**HBV3, "nvme": [{"local": True}]}
    for families, node, cache in (
        (["nvme_scratch"], disk, "/mnt/resource_nvme/trueup-vllm"),
        (["nvme_scratch"], HBV3, "/var/lib/trueup-vllm"),
        ([], disk, "/var/lib/trueup-vllm"),
    ):
        made = planned(asked(ON_CPU, node=node, families=families))
        assert made.values["cache"] == cache
    mine = planned(asked(ON_CPU, node=disk, families=["nvme_scratch"], model_cache="/models"))
    assert mine.values["cache"] == "/models"


def test_what_must_be_free_is_named_once() -> None:
    second = {**ON_CPU, "name": "second", "port": 8001}
    own = {**ON_CPU, "name": "own", "port": 8002, "model": "/srv/model"}
    spaces = planned(asked(ON_CPU, second, own)).values["spaces"]
    assert [one["what"] for one in spaces] == [
        "vLLM's environment",
        "the model meta-llama/Llama-3.1-8B-Instruct",
        *(f"what the processes of {name} share" for name in ("cpu", "second", "own")),
    ]
    assert (spaces[0]["unless"], spaces[2]["bytes"]) == (
        "/opt/trueup/vllm/cpu/venv/bin/vllm",
        256 * 1024**2,
    )
    assert spaces[1]["bytes"] == int(16060522496 * 1.02)


def test_the_drivers_of_slices_run_no_cuda_13() -> None:
    slices = {**H100, "family": "nv_a10_v5"}
    assert ["CUDA 13" in one.why for one in planned(asked(LLAMA, node=slices)).skipped] == [True]
    assert planned(asked(LLAMA, node=H100)).skipped == []
    on_cpu = planned(asked(ON_CPU, node={**HBV3, "family": "nv_a10_v5"}))
    assert [one.why for one in on_cpu.skipped] == []
