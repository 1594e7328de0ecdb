"""Filters over a training run that the role training is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleFilterError
from trueup.benchmarks.megatron import case as megatron
from trueup.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable

DOCUMENTATION = r"""
name: trueup_training
short_description: Whether a training run can be, and the parameters of its record
description:
  - Both take the parameters of the module C(megatron_bench) by their names, as the role
    P(training#role) gives them.
  - C(training_problem) returns one sentence that says what cannot be, by the same rule as the
    module; empty where nothing is wrong.
  - C(training_parameters) returns the parameters and fields that the run's record has, for the
    filter C(recorded_like).
"""

EXAMPLES = r"""
- name: Refuse what cannot be trained
  ansible.builtin.assert:
    that: __training_asked | training_problem == ''
    fail_msg: "{{ __training_asked | training_problem }}"
"""

RETURN = r"""
_value:
  description: A sentence, or parameters; see the description.
  type: raw
"""

_NUMBERS = (
    *("layers", "hidden_size", "attention_heads", "vocabulary_size", "sequence_length"),
    *("micro_batch", "iterations", "processes", "threads", "rendezvous_port", "zero_stage"),
)


def training_problem(asked: dict[str, Any]) -> str:
    """Why the run cannot be, or an empty text."""
    try:
        _run(asked)
    except BadInput as error:
        return str(error)
    return ""


def training_parameters(asked: dict[str, Any]) -> dict[str, Any]:
    """What the run's record has."""
    try:
        run = _run(asked)
    except BadInput as error:
        message = f"training: {error}"
        raise AnsibleFilterError(message) from error
    return {**megatron.parameters(run), "nodes": [str(node) for node in run.nodes]}


def _run(asked: dict[str, Any]) -> megatron.Run:
    # The node's own place decides nothing here; a number given as -e name=50 is the text 50.
    return megatron.asked(
        {**asked, "node_rank": 0, **{name: _number(name, asked[name]) for name in _NUMBERS}}
    )


def _number(name: str, value: Any) -> int:
    try:
        return int(str(value))
    except ValueError:
        message = f"{name} {value!r} is not a whole number"
        raise BadInput(message) from None


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The filters of this file by name."""
        return {
            "training_parameters": training_parameters,
            "training_problem": training_problem,
        }
