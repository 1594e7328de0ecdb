"""Verdicts as plays read them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from trueup_health import health_lacking, health_of, health_sentences


def row(node: str, verdict: str, **more: Any) -> dict[str, Any]:
    empty = ("device", "measured", "expected", "comparison", "unit", "reason", "fault")
    made = {"node": node, "verdict": verdict, "what": "copies", "benchmark": "gpu_copy"}
    return {**made, **dict.fromkeys(empty), **more}


TOLD = json.dumps(
    {
        "tables": [
            {
                "rows": [
                    row(
                        "n1",
                        "fail",
                        device="gpu3",
                        measured=20e9,
                        expected=48e9,
                        unit="byte/s",
                        comparison="at_least",
                        fault="NHC2020",
                    ),
                    row("n1", "pass"),
                    row("n2", "no verdict"),
                    row("n2", "pass"),
                    row("n3", "no verdict"),
                    row("n4", "not measured", reason="time limit"),
                    row("n5+n6", "fail", reason="look at the way between them"),
                ]
            }
        ]
    }
)


@pytest.mark.parametrize(
    ("node", "word"),
    [
        ("n1", "fail"),
        ("n2", "pass"),
        ("n3", "no verdict"),
        ("n4", "not measured"),
        # Of a slow pair neither is to blame.
        ("n5", "no verdict"),
        ("n9", "no verdict"),
    ],
)
def test_the_worst_verdict_on_a_node_counts(node: str, word: str) -> None:
    assert health_of(TOLD, node) == word


def test_each_sentence_has_figures_unit_and_code() -> None:
    assert health_sentences(TOLD) == [
        "n1: fail: copies on gpu3 is 2e+10 byte/s, expected at least 4.8e+10 byte/s [NHC2020].",
        "n4: not measured: copies (time limit).",
        "n5+n6: fail: copies (look at the way between them).",
    ]
    assert health_sentences(TOLD, "n4") == ["n4: not measured: copies (time limit)."]
    assert health_sentences(TOLD, "n2") == ["Nothing is wrong with what could be judged."]


def test_what_is_not_its_json_is_refused() -> None:
    with pytest.raises(AnsibleFilterError, match="not the JSON of"):
        health_of("Traceback", "n1")


def test_what_was_planned_and_not_measured_is_lacking() -> None:
    assert health_lacking(TOLD, "n2", ["gpu_copy", "nccl"]) == ["nccl"]
    # A record that failed measured nothing.
    assert health_lacking(TOLD, "n4", ["gpu_copy"]) == ["gpu_copy"]
