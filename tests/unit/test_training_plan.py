"""The role training planned, without a node and without root."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from role_plans import PYTHON
from trueup_controller.plans.megatron import deepspeed_configuration, plan, programs
from trueup_node.benchmarks.megatron.case import OPTIONS
from trueup_node.options import MODULE, module_spec
from trueup_node.plan import Plan, PlanInputs

CATALOG = Path(__file__).parents[2] / "catalog"
GIB = 1024**3
CPUS = {"gpus": [], "cores": 8}
GPUS = {"gpus": [{"name": "A100"}] * 8, "cores": 96}
FREE = {"there": False, "link": False, "path": "/home", "free_bytes": 9 * GIB}
SHARED = {"trueup_job_directory": "/shared"}
HOSTS = {"n1": {}, "n2": {"ansible_host": "10.0.0.2"}, "n3": {}}


def asked(
    node: dict[str, Any] | None = None,
    found: dict[str, Any] | None = None,
    variables: dict[str, Any] | None = None,
    **given: Any,
) -> PlanInputs:
    """What the role is asked on n1, which has all that it needs."""
    values = {one.name: one.default for one in OPTIONS if one.of != MODULE}
    values.update(given)
    prefix = values["prefix"]
    here = node or CPUS
    return PlanInputs(
        options=values,
        node=here,
        host="n1",
        hosts=list(HOSTS),
        variables=variables or {},
        hostvars={name: {**HOSTS[name], "ansible_facts": {"trueup_node": here}} for name in HOSTS},
        found={
            "python": PYTHON,
            "programs": {"git": "/usr/bin/git"},
            "folders": {prefix: FREE, f"{prefix}/venv": FREE},
            **(found or {}),
        },
        catalog=lambda name: yaml.safe_load((CATALOG / name).read_text()),
    )


def case(made: Plan) -> dict[str, Any]:
    [only] = made.cases or []
    return only


def whys(made: Plan) -> list[str]:
    return [one.why for one in made.skipped]


def test_without_gpus_a_tiny_model_is_trained() -> None:
    made = plan(asked())
    assert (made.refused, made.skipped) == ([], [])
    assert made.values["environment"]["requirements"] == [
        "roles/training/files/requirements-pip.txt",
        "roles/training/files/requirements-cpu.txt",
    ]
    assert (made.values["clone"], made.values["stale_link"]) == ({}, False)
    chosen = case(made)
    left = {"arguments", "data", "launcher_path", "queue_seconds", "rendezvous_port"}
    assert set(chosen) - {"node"} == set(module_spec(OPTIONS)) - left
    assert {
        name: chosen[name]
        for name in ("program", "layers", "processes", "threads", "backend", "precision", "nodes")
    } == {
        "program": "gpt_driver",
        "layers": 2,
        "processes": 2,
        "threads": 4,
        "backend": "gloo",
        "precision": "fp32",
        "nodes": ["n1"],
    }
    assert (chosen["launcher"], chosen["rendezvous_address"], chosen["absent"]) == ("local", "", [])
    assert (chosen["sequence_length"], chosen["micro_batch"], chosen["zero_stage"]) == (64, 4, 0)


def test_with_gpus_megatron_trains_the_catalogs_model() -> None:
    made = plan(asked(GPUS))
    chosen = case(made)
    assert (chosen["program"], chosen["layers"], chosen["precision"]) == ("megatron", 24, "bf16")
    assert (chosen["processes"], chosen["threads"], chosen["backend"]) == (8, 0, "nccl")
    assert (chosen["vocabulary_size"], chosen["recompute"]) == (51200, False)
    assert made.values["clone"]["repository"].endswith("NVIDIA/Megatron-LM.git")
    mirror = plan(asked(GPUS, megatron_repository="/srv/Megatron-LM"))
    assert mirror.values["clone"]["repository"] == "/srv/Megatron-LM"


def test_the_catalogs_large_model_is_run_as_it_was() -> None:
    """Megatron-LM has no ZeRO-3, so gpt_driver takes DeepSpeed's."""
    chosen = case(plan(asked(GPUS, model="1T")))
    assert (chosen["program"], chosen["zero_stage"], chosen["offload"]) == ("gpt_driver", 3, "cpu")
    assert (chosen["recompute"], chosen["micro_batch"]) == (True, 8)
    assert case(plan(asked(GPUS, model="1T", recompute="False")))["recompute"] is False
    stage = case(plan(asked(GPUS, model="1T", zero_stage="1", offload="none")))
    assert (stage["program"], stage["zero_stage"]) == ("megatron", 1)


def test_the_h100_recipe_is_run_as_azure_runs_it() -> None:
    made = plan(asked(GPUS, model="175B-h100", version_set="nd-h100", venv="/usr"))
    chosen = case(made)
    divided = ("tensor_parallel", "pipeline_parallel", "global_batch", "micro_batch")
    assert [chosen[name] for name in divided] == [8, 16, 512, 1]
    assert (chosen["program"], chosen["zero_stage"], chosen["precision"]) == ("megatron", 1, "bf16")
    assert chosen["transformer_engine"] is True
    assert made.values["clone"]["commit"] == "878d65fe006b07ccef715ccc5ab521afb94e78a8"
    # One node is not enough for it, and says so.
    assert "must divide the 8 processes" in made.refused[0]
    divided = {"tensor_parallel": 4, "global_batch": 64}
    own = case(plan(asked(GPUS, model="175B-h100", version_set="nd-h100", division=divided)))
    assert [own[name] for name in (*divided, "pipeline_parallel")] == [4, 64, 16]
    small = plan(asked(GPUS, version_set="nd-h100", venv="/usr", precision="fp8"))
    assert (small.refused, case(small)["precision"]) == ([], "fp8")
    assert (
        "needs program megatron with Transformer Engine"
        in (plan(asked(GPUS, precision="fp8")).refused[0])
    )


def test_a_model_of_ones_own() -> None:
    own = {"layers": 3, "hidden_size": 256, "attention_heads": 8}
    chosen = case(plan(asked(model="custom", custom_model=own, micro_batch=2, threads=1)))
    assert {name: chosen[name] for name in own} == own
    assert (chosen["vocabulary_size"], chosen["sequence_length"]) == (51200, 1024)
    assert (chosen["micro_batch"], chosen["threads"]) == (2, 1)


@pytest.mark.parametrize(
    ("launcher", "hosts", "nodes", "address", "rank"),
    [
        ("torchrun", ["n1", " n2"], ["n1", "n2"], "n1", 0),
        ("torchrun", ["n2", "n1"], ["n2", "n1"], "10.0.0.2", 1),
        ("mpirun", ["n1", "n2"], ["n1", "n2"], "n1", 0),
        ("mpirun", ["n1"], [], "", 0),
        ("mpirun", [], [], "", 0),
        ("slurm", ["n1", "n2"], ["n1", "n2"], "", 0),
    ],
)
def test_where_nodes_meet(
    launcher: str, hosts: list[str], nodes: list[str], address: str, rank: int
) -> None:
    made = plan(asked(launcher=launcher, hosts=hosts, variables=SHARED))
    chosen = case(made)
    assert made.refused == []
    assert (chosen["nodes"], chosen["hosts"]) == (nodes, nodes)
    # Gloo needs no PMIx of Slurm.
    assert chosen["launcher_arguments"] == []
    assert (chosen["rendezvous_address"], chosen["node_rank"]) == (address, rank)
    # The record is the first one's, and is compared with what that one is.
    assert chosen["node"] == (CPUS if rank else None)


@pytest.mark.parametrize(
    ("launcher", "hosts", "measures"),
    [
        ("torchrun", ["n2", "n3"], False),
        ("torchrun", ["n2", "n1"], True),
        ("mpirun", ["n2", "n1"], False),
        ("slurm", ["n1", "n2"], True),
    ],
)
def test_a_node_measures_where_it_has_a_part(
    launcher: str, hosts: list[str], measures: bool
) -> None:
    made = plan(asked(launcher=launcher, hosts=hosts, variables=SHARED))
    assert (len(made.cases or []), made.refused) == (int(measures), [])


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"model": "3B"}, "training_model 3B is none of auto, custom, tiny"),
        ({"model": "custom"}, "training_custom_model has nothing: it has layers"),
        ({"custom_model": {"depth": 3}}, "training_custom_model has depth"),
        ({"recompute": "perhaps"}, "training_recompute is perhaps"),
        ({"prefix": "training"}, "training_prefix training is not an absolute path"),
        ({"hosts": ["n1", "n1"]}, "each once"),
        ({"hosts": ["n1", "n9"]}, "must be hosts of the inventory"),
        ({"launcher": "slurm"}, "needs trueup_job_directory"),
        ({"offload": "cpu"}, "offload cpu needs zero_stage 3, not 0"),
        ({"precision": "fp16"}, "gpt_driver has no fp16"),
        (
            {
                "model": "custom",
                "custom_model": {"layers": 1, "hidden_size": 10, "attention_heads": 3},
            },
            "hidden_size 10 cannot be divided among 3",
        ),
        (
            {
                "model": "custom",
                "custom_model": {"layers": "x", "hidden_size": 10, "attention_heads": 3},
            },
            "has a number that is not whole",
        ),
        (
            {
                "model": "custom",
                "custom_model": {"layers": 0, "hidden_size": 10, "attention_heads": 2},
            },
            "layers is 0: it must be 1 or more",
        ),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, Any], sentence: str) -> None:
    [refused] = plan(asked(**given)).refused
    assert sentence in refused


def test_nodes_that_one_record_cannot_hold_are_refused() -> None:
    question = asked({**CPUS, "vm_size": "A"}, hosts=["n1", "n2"])
    hostvars = dict(question.hostvars)
    hostvars["n2"] = {"ansible_facts": {"trueup_node": {"vm_size": "B"}}}
    unlike = PlanInputs(**{**question.__dict__, "hostvars": hostvars})
    [refused] = plan(unlike).refused
    assert refused.startswith("training: training_hosts: nodes measured together differ in vm_size")


@pytest.mark.parametrize(
    ("node", "found", "given", "why"),
    [
        (CPUS, {"python": None}, {}, "no python3 on this node"),
        (
            CPUS,
            {"python": {"path": "/p", "version": [3, 12, 1], "missing": [], "headers": True}},
            {},
            "Python 3.12 is not the 3.11 that",
        ),
        (
            CPUS,
            {"python": {"path": "/p", "version": [3, 11, 1], "missing": ["venv"], "headers": True}},
            {},
            "/p has no venv module",
        ),
        (GPUS, {"programs": {"git": None}}, {}, "no git on this node"),
        (CPUS, {}, {"zero_stage": "1"}, "zero_stage 1 needs DeepSpeed, which the version set cpu"),
    ],
)
def test_what_a_node_lacks_is_named(
    node: dict[str, Any], found: dict[str, Any], given: dict[str, Any], why: str
) -> None:
    made = plan(asked(node, found, **given))
    [only] = whys(made)
    assert (why in only, made.refused) == (True, [])


def test_a_set_of_a_container_is_not_installed() -> None:
    assert whys(plan(asked(GPUS, version_set="nd-h100"))) == [
        "the version set nd-h100 is no set of wheels to install: set training_venv"
    ]
    taken = plan(asked(GPUS, version_set="nd-h100", venv="/usr"))
    assert (whys(taken), case(taken)["precision"]) == ([], "bf16")


def test_space_is_needed_for_a_new_environment_alone() -> None:
    prefix = asked().options["prefix"]
    assert programs(asked())["folders"] == [prefix, f"{prefix}/venv"]
    full = {**FREE, "free_bytes": GIB - 1}

    def skipped(**venv: bool) -> list[str]:
        return whys(
            plan(asked(found={"folders": {prefix: full, f"{prefix}/venv": {**full, **venv}}}))
        )

    assert skipped() == ["1023 MiB are free in /home and 1024 are needed: set training_prefix"]
    assert skipped(there=True) == []
    # A link leads to an environment that is not the role's.
    assert len(skipped(there=True, link=True)) == 1


def test_links_and_environments_are_told_apart() -> None:
    prefix = asked().options["prefix"]

    def made(venv: str, **there: bool) -> Plan:
        folders = {prefix: FREE, f"{prefix}/venv": {**FREE, **there}}
        return plan(asked(found={"folders": folders}, venv=venv))

    assert made("", there=True, link=True).values["stale_link"] is True
    assert made("/opt/ds", there=True, link=True).refused == []
    [refused] = made("/opt/ds", there=True).refused
    assert "where the role's own environment is" in refused


def test_deepspeeds_configurations_are_those_of_the_run_and_of_the_catalog() -> None:
    files = {
        Path(one["path"]).name: json.loads(one["content"])
        for one in plan(asked(GPUS, micro_batch=3)).values["files"]
    }
    assert set(files) == {f"zero{name}.json" for name in ("", "-175B", "-530B", "-1T", "-2T")}
    assert files["zero.json"]["train_micro_batch_size_per_gpu"] == 3
    assert files["zero-1T.json"] == deepspeed_configuration(8, 3, "cpu", "bf16")
    assert files["zero-1T.json"]["zero_optimization"]["offload_optimizer"]["device"] == "cpu"
    assert "offload_optimizer" not in files["zero-175B.json"]["zero_optimization"]
    assert deepspeed_configuration(1, 0, "none", "fp16")["fp16"]["initial_scale_power"] == 15
    assert files["zero.json"]["fp16"] == {"enabled": False}


@pytest.mark.parametrize(
    ("family", "given", "skipped"),
    [
        ("nv_a10_v5", {}, 1),
        ("ndv4", {}, 0),
        # An environment of the site's own may have an older CUDA.
        ("nv_a10_v5", {"venv": "/opt/torch-cu128"}, 0),
    ],
)
def test_the_drivers_of_slices_run_no_cuda_13(
    family: str, given: dict[str, Any], skipped: int
) -> None:
    slices = {"family": family, "gpus": [{"name": "NVIDIA A10-24Q"}], "cores": 18}
    made = plan(asked(slices, **given))
    assert ["CUDA 13" in one for one in whys(made)] == [True] * skipped
