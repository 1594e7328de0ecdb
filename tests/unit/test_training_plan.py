"""The role training planned, without a node and without root."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from role_plans import PYTHON
from trueup_controller.plans.megatron import plan
from trueup_node.benchmarks.megatron.case import OPTIONS
from trueup_node.options import MODULE, module_spec
from trueup_node.plan import Plan, PlanInputs

CATALOG = Path(__file__).parents[2] / "catalog"
GIB = 1024**3
CPUS = {"gpus": [], "cores": 8}
FREE = {"there": False, "link": False, "path": "/home", "free_bytes": 9 * GIB}
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
