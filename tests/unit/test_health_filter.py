"""Verdicts as plays read them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from helpers import parametrized
from trueup_node.errors import BadInput
from trueup_node.health.node_verdicts import findings, node_verdict, slurm_update


def row(node: str, verdict: str, **more: Any) -> dict[str, Any]:
    empty = ("device", "measured", "expected", "comparison", "unit", "reason", "fault")
    made = {"node": node, "verdict": verdict, "what": "copies", "benchmark": "gpu_copy"}
    return {**made, **dict.fromkeys(empty), **more}


TOLD = json.dumps(
    {
        "tables": [
            {
                "sentence": "2 of 6 nodes judged; 1 failed",
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
                    row(
                        "n4",
                        "not measured",
                        reason="time limit",
                        measured_at="2026-11-20T09:13:00Z",
                    ),
                    row("n7", "not measured", benchmark="ib", reason="left out of the run"),
                    row("n7", "pass"),
                    row("n8", "not measured", benchmark="run", reason="unreachable"),
                    row("n5+n6", "fail", reason="look at the way between them"),
                ],
            }
        ]
    }
)


def test_each_sentence_has_figures_unit_and_code() -> None:
    assert findings(TOLD) == [
        "n1: fail: copies on gpu3 is 2e+10 byte/s, expected at least 4.8e+10 byte/s [NHC2020].",
        "n4: not measured: copies (time limit).",
        "n7: not measured: copies (left out of the run).",
        "n8: not measured: copies (unreachable).",
        "n5+n6: fail: copies (look at the way between them).",
        "2 of 6 nodes judged; 1 failed.",
    ]
    assert node_verdict(TOLD, "n4", [])["findings"] == ["n4: not measured: copies (time limit)."]
    assert node_verdict(TOLD, "n2", [])["findings"] == []
    said = "1 of 1 node judged: nothing is wrong"
    well = json.dumps({"tables": [{"rows": [row("n2", "pass")], "sentence": said}]})
    assert findings(well) == [f"{said}."]


def test_what_is_not_its_json_is_refused() -> None:
    with pytest.raises(BadInput, match="not the JSON of"):
        node_verdict("Traceback", "n1", [])
    with pytest.raises(BadInput, match="not the JSON of"):
        findings("{}")


@parametrized(("node", "planned", "later", "ends"))
def test_a_node_ends_that_fails_or_could_not_be_measured(
    node: str, planned: list[str], *, later: bool, ends: bool
) -> None:
    assert node_verdict(TOLD, node, planned, later=later)["ends"] == ends


IDLE = "NodeName=n1 State=IDLE CPUTot=96"


@parametrized(("shown", "verdict", "unmeasured", "change"))
def test_what_slurm_is_told(
    shown: str, verdict: str, unmeasured: list[str], change: list[str]
) -> None:
    told = {"verdict": verdict, "findings": ["bad link"], "unmeasured": unmeasured}
    expected = ["update", "nodename=n1", *change] if change else []
    assert slurm_update(shown, told, "n1") == expected


def test_a_long_reason_is_cut() -> None:
    told = {"verdict": "fail", "findings": ["x" * 300], "unmeasured": []}
    assert slurm_update(IDLE, told, "n1")[-1] == f"reason=trueup: {'x' * 177}..."
