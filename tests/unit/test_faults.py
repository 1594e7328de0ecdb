"""XIDs and SXids judged by catalog/faults/xid.yml."""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleActionFail
from helpers import parametrized
from trueup_node.cases import Case, Figure
from trueup_node.errors import BadInput
from trueup_node.health.faults import judged, of_document, warning
from trueup_node.node import state
from trueup_node.node.kernel_log import parse_kernel_log

ROOT = Path(__file__).parents[2]
PATH = ROOT / "catalog" / "faults" / "xid.yml"
DOCUMENT = yaml.safe_load(PATH.read_text(encoding="utf-8"))
FAULTS = of_document(DOCUMENT, str(PATH))
LOGS = ROOT / "tests" / "data" / "kernel_log"
# Azure/azurehpc-health-checks@0e0a1ac customTests/azure_gpu_xid.nhc, XID_EC.
AZURE = [48, 56, 57, 58, 62, 63, 64, 65, 68, 69, 73, 74, 79, 80, 81, 92, 119, 120]
ON_IMAGE = "/opt/azurehpc/test/azurehpc-health-checks/customTests/azure_gpu_xid.nhc"
GPU = "0001:00:00.0"


def fact(log: str, uptime: float | None = None) -> dict[str, Any]:
    return judged({"xids": parse_kernel_log(log, uptime).codes, "problems": []}, FAULTS)


def severities(log: str, uptime: float | None = None) -> list[tuple[int, str]]:
    return [(row["code"], row["severity"]) for row in fact(log, uptime)["xids"]]


def xid(code: int, text: str = "x", time: float = 10) -> str:
    return f"[ {time:.6f}] NVRM: Xid (PCI:0001:00:00): {code}, {text}\n"


def test_azures_codes_fail_a_node() -> None:
    assert FAULTS.codes("xid", failed_by="azure") == AZURE
    assert severities("".join(map(xid, AZURE))) == [(code, "fail") for code in AZURE]


def test_azures_codes_are_those_of_its_own_file() -> None:
    """An HPC image has the file; elsewhere TRUEUP_AZNHC_XID_FILE may name a copy."""
    path = Path(os.environ.get("TRUEUP_AZNHC_XID_FILE", ON_IMAGE))
    if not path.is_file():
        pytest.skip(f"{path} of Azure's health checks is not there (TRUEUP_AZNHC_XID_FILE)")
    listed = re.search(r'^XID_EC="([0-9 ]+)"', path.read_text(encoding="utf-8"), re.MULTILINE)
    codes = [int(code) for code in listed[1].split()] if listed else []
    assert FAULTS.codes("xid", failed_by="azure") == sorted(codes)


def row_of(name: str, value: float, device: str | None = None) -> Figure:
    return Figure(name, float(value), "1", "none", device=device)


def test_a_code_that_is_not_known_is_a_warning_with_its_number() -> None:
    result = fact(xid(999))
    figures = state.metrics({}, result, None)
    assert figures == [row_of("hardware_xids", 0), row_of("xid_999", 1, GPU)]
    assert result["problems"] == []
    verdict = warning(of_node(figures), figures[1], FAULTS)
    assert (verdict.verdict, verdict.what) == ("warn", "XID 999 in the kernel log")
    assert verdict.reason == "XID 999 is not in catalog/faults/xid.yml"


def of_node(figures: list[Figure], outcome: str = "ok", reason: str | None = None) -> Case:
    return Case(("n1",), None, "node_state", "state", outcome, reason, {}, {}, figures)


def test_codes_that_others_recorded_are_judged() -> None:
    result = fact((LOGS / "xid_145_154_real.txt").read_text(encoding="utf-8"))
    assert [(row["code"], row["severity"]) for row in result["xids"]] == [
        *((145, "warn"), (45, "info"), (154, "fail"), (154, "fail"))
    ]
    needs = "the driver says that the GPU needs recovery"
    assert [row["message"].partition(" 1 time")[0] for row in result["problems"]] == [
        f"GPU 0000:02:00.0 logged XID 154 ({needs}: Node Reboot Required)",
        f"GPU 0008:01:00.0 logged XID 154 ({needs}: GPU Reset Required)",
    ]


@pytest.mark.parametrize(
    ("code", "uptime", "severity"),
    [
        # Azure looks at 2 hours of the log, and NVIDIA's advice is to restart the application.
        *((69, 10 + 7200, "fail"), (69, 10 + 7201, "warn"), (69, None, "fail")),
        # A GPU that fell off the bus comes back by nothing but a reboot.
        (79, 1e6, "fail"),
    ],
)
def test_what_an_application_may_cause_fails_for_two_hours(
    code: int, uptime: float | None, severity: str
) -> None:
    assert severities(xid(code), uptime) == [(code, severity)]


@parametrized("rows")
def test_rows_of_another_form_are_refused(rows: Any) -> None:
    with pytest.raises(BadInput, match="gpu_facts returned XIDs of another form"):
        judged({"xids": rows, "problems": []}, FAULTS)


@pytest.mark.parametrize("gpu", [{"xids": None, "problems": []}, {}])
def test_a_log_that_could_not_be_read_is_not_judged(gpu: dict[str, Any]) -> None:
    assert judged(gpu, FAULTS) == gpu
    assert state.metrics({}, gpu, None) == []


def test_codes_that_nobody_judged_are_not_healthy() -> None:
    raw = {"xids": parse_kernel_log(xid(79)).codes, "problems": []}
    assert state.metrics({}, raw, None) == []


ENTRY = {"codes": [1], "meaning": "m", "severity": "fail", "fix": "host", "sources": ["azure"]}


@parametrized(("changes", "message"))
def test_a_wrong_entry_is_refused(changes: dict[str, Any], message: str) -> None:
    document = {**DOCUMENT, "xids": [{**ENTRY, **changes}]}
    with pytest.raises(BadInput, match=f"file: xids, entry 1.*{message}"):
        of_document(document, "file")


@pytest.mark.parametrize("document", [None, [], {}, {"xids": 1}])
def test_a_document_without_its_lists_is_refused(document: Any) -> None:
    with pytest.raises(BadInput, match="file: sources, fixes, xids and sxids are needed"):
        of_document(document, "file")


def test_an_entry_without_a_fix_is_refused() -> None:
    entry = {name: value for name, value in ENTRY.items() if name != "fix"}
    with pytest.raises(BadInput, match="fix is missing"):
        of_document({**DOCUMENT, "xids": [entry]}, "file")


PLACE = ROOT / "plugins" / "action" / "gpu_facts.py"
SPEC = importlib.util.spec_from_file_location("gpu_facts_action", PLACE)
assert SPEC is not None
action = importlib.util.module_from_spec(SPEC)
assert SPEC.loader is not None
SPEC.loader.exec_module(action)


def answered(answer: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the action gpu_facts makes of a node's answer."""
    monkeypatch.setattr(action.ActionBase, "run", lambda *_: {})
    monkeypatch.setattr(action.ActionModule, "_execute_module", lambda *_, **_options: answer)
    made = action.ActionModule.__new__(action.ActionModule)
    made._task = SimpleNamespace(args={})
    made._templar = SimpleNamespace(template=lambda value: value)
    result: dict[str, Any] = made.run(None, {})
    return result


def test_the_action_judges_what_the_node_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = {"xids": parse_kernel_log(xid(79)).codes, "problems": [{"name": "of the node"}]}
    result = answered({"ansible_facts": {"trueup_gpu": raw}}, monkeypatch)
    gpu = result["ansible_facts"]["trueup_gpu"]
    assert [row["severity"] for row in gpu["xids"]] == ["fail"]
    assert [problem["name"] for problem in gpu["problems"]] == ["of the node", "xid_79"]


@pytest.mark.parametrize("answer", [{"failed": True, "msg": "x"}, {"ansible_facts": None}])
def test_the_action_passes_on_an_answer_without_the_fact(
    answer: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert answered(answer, monkeypatch) == answer


def test_a_node_that_lies_fails_by_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = {"xids": [{"kind": "xid", "code": 79}], "problems": []}
    with pytest.raises(AnsibleActionFail, match="gpu_facts returned XIDs of another form"):
        answered({"ansible_facts": {"trueup_gpu": raw}}, monkeypatch)
