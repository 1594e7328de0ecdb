"""What a node serves: its endpoints with their recipes, and what they cannot both have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import role_plans
import yaml
from trueup_controller.benchmark_roles import role_of
from trueup_controller.plans.vllm import plan as planned
from trueup_controller.sizes import read_sizes
from trueup_measure import secrets_of
from trueup_node.benchmarks.vllm.case import OPTIONS
from trueup_node.options import MODULE, module_spec
from trueup_node.plan import Plan, PlanInputs

ROOT = Path(__file__).parents[2]
CATALOG = str(ROOT / "catalog")
SIZES = read_sizes(f"{CATALOG}/vm_sizes.csv")
HOSTS = {"node1": {"ansible_host": "10.0.0.4"}, "node2": {"ansible_host": "10.0.0.5"}}
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
ON_CPU = {"name": "cpu", "recipe": "llama-3.1-8b-cpu"}


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
            "folders": {values["prefix"]: {"path": "/opt", "free_bytes": 1}},
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


def test_the_module_is_given_the_key_beside_the_plan() -> None:
    assert (secrets_of("vllm"), role_of("vllm")) == (["api_key"], "vllm")
    # The role puts it into a file.
    assert (secrets_of("blob_copy"), role_of("blob_copy")) == ([], "blob_checkpoint")
