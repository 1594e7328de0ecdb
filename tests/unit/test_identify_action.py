"""The action azure_node_facts: what the plays' variables say reaches the module."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from helpers import parametrized
from role_plans import ROOT

PLACE = Path(ROOT / "plugins" / "action" / "azure_node_facts.py")
SPEC = importlib.util.spec_from_file_location("azure_node_facts_action", PLACE)
assert SPEC is not None
action = importlib.util.module_from_spec(SPEC)
assert SPEC.loader is not None
SPEC.loader.exec_module(action)


class Templar:
    """Stands in for Ansible's: each value is its own template."""

    def template(self, value: Any) -> Any:
        return value


class Task:
    """The task's own arguments."""

    def __init__(self, args: dict[str, Any]) -> None:
        self.args = args


@parametrized(("variables", "task", "given"))
def test_the_plays_variables_reach_the_module(
    variables: dict[str, Any],
    task: dict[str, Any],
    given: dict[str, Any] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[dict[str, Any]] = []

    def execute(_self: Any, *, module_args: dict[str, Any], task_vars: Any) -> dict[str, Any]:
        assert task_vars == variables
        asked.append(module_args)
        return {"ansible_facts": {"trueup_node": {}}}

    monkeypatch.setattr(action.ActionBase, "run", lambda *_: {})
    monkeypatch.setattr(action.ActionModule, "_execute_module", execute)
    made = action.ActionModule.__new__(action.ActionModule)
    made._task, made._templar = Task(task), Templar()
    made._connection = SimpleNamespace(_shell=SimpleNamespace())
    assert made.run(None, variables) == {"ansible_facts": {"trueup_node": {}}}
    (sent,) = asked
    assert json.loads(sent.pop("catalog"))["Standard_HB120rs_v3"]["family"] == "hbv3"
    assert sent == (given or {"vm_size": "b", "sysfs_root": "/s"})
