"""Filters of the role training: the module's own rule before anything is installed, and what a
recorded case must have had."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from trueup_runs import recorded_like
from trueup_training import FilterModule, training_parameters, training_problem

TINY: dict[str, Any] = {
    "program": "gpt_driver",
    "layers": 2,
    "hidden_size": 128,
    "attention_heads": 4,
    "vocabulary_size": 512,
    "sequence_length": 64,
    "micro_batch": 4,
    "iterations": 20,
    "processes": 2,
    "threads": 1,
    "nodes": ["node-1"],
    "rendezvous_address": "",
    "rendezvous_port": 29500,
    "backend": "gloo",
    "zero_stage": 0,
    "offload": "none",
    "recompute": False,
    "precision": "fp32",
    "launcher": "torchrun",
}
GPUS = {"program": "megatron", "backend": "nccl", "precision": "bf16"}


def test_a_run_that_can_be_has_no_problem() -> None:
    assert training_problem(TINY) == ""
    assert training_problem({**TINY, "iterations": "20", "threads": "0"}) == ""
    # A Slurm job's first node is known in the job alone.
    assert training_problem({**TINY, "nodes": ["a", "b"], "launcher": "slurm"}) == ""
    assert set(FilterModule().filters()) == {"training_parameters", "training_problem"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"hidden_size": 10, "attention_heads": 3}, "hidden_size 10 cannot be divided among 3"),
        ({"zero_stage": 3, **GPUS}, "for 3 take megatron_deepspeed or gpt_driver"),
        ({"offload": "cpu"}, "offload cpu needs zero_stage 3, not 0"),
        ({"precision": "fp16"}, "gpt_driver has no fp16"),
        ({"processes": "-3"}, "processes -3 is not a positive number"),
        ({"micro_batch": "some"}, "micro_batch 'some' is not a whole number"),
        ({"nodes": ["a", "b"]}, "2 nodes need rendezvous_address"),
        ({"nodes": ["a", "b"], "launcher": "mpirun"}, "2 nodes need rendezvous_address: that of a"),
    ],
)
def test_what_cannot_be_trained_is_one_sentence(given: dict[str, Any], message: str) -> None:
    assert message in training_problem({**TINY, **given})
    with pytest.raises(AnsibleFilterError, match="training: "):
        training_parameters({**TINY, **given})


@pytest.mark.parametrize(
    "given",
    [
        {"recompute": True},
        {"hidden_size": 256, "attention_heads": 8},
        {"attention_heads": 8},
        {"vocabulary_size": 1024},
        {"processes": 1, "nodes": ["node-1", "node-2"], "rendezvous_address": "10.0.0.4"},
        {"processes": 1, "micro_batch": 8},
        {"threads": 2},
        {"program": "megatron_deepspeed", "backend": "nccl", "precision": "bf16"},
        {"precision": "bf16"},
        {"zero_stage": 1},
        {"launcher": "mpirun"},
        {"launcher": "slurm"},
        # Another node, or the same number of others.
        {"nodes": ["node-2"]},
    ],
)
def test_a_changed_case_is_not_the_recorded_one(given: dict[str, Any]) -> None:
    wanted = training_parameters(TINY)
    record = {"nodes": wanted.pop("nodes"), "parameters": wanted}
    assert recorded_like([record], training_parameters({**TINY, "processes": "2"})) == [record]
    assert recorded_like([record], training_parameters({**TINY, **given})) == []


def test_a_record_of_before_the_launchers_is_another_case() -> None:
    """It does not say what started it; nothing fails of it, and the case is measured again."""
    wanted = training_parameters(TINY)
    old = {name: value for name, value in wanted.items() if name != "launcher"}
    assert recorded_like([{"parameters": old}], wanted) == []
