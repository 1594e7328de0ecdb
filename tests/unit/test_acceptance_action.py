"""The action trueup_acceptance: which rows change a node, and what is asked of it then."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import role_plans
from action import trueup_acceptance
from ansible.errors import AnsibleActionFail
from trueup_controller import acceptance

DONE = {"refused": None, "steps": [], "restored": [], "changed": True}
STEP = {"run": ["true"], "seconds": 1}
BASE = {"what": "w", "minutes": 1, "test": "t", "expected": "e", "steps": [STEP], "restore": [STEP]}
ROWS = acceptance.rows(
    {
        "rows": [
            {**BASE, "id": "clock", "given": ["is-there"], "checks": [{"step": 1, "has": ["a"]}]},
            {**BASE, "id": "link", "checks": [{"fact": "rdma.problems.*", "count": 0}]},
            {**BASE, "id": "gpu", "checks": [{"fact": "gpu.notes.*", "count": 0}]},
            {**BASE, "id": "other", "applies": {"family": ["ndv4"]}, "checks": [{"record": "x"}]},
        ]
    }
)


class Action(trueup_acceptance.ActionModule):
    """The action without Ansible: modules are asked here."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self._templar = SimpleNamespace(template=lambda value: value)
        # Modules alone.
        loader = SimpleNamespace(has_plugin=lambda _name: False)
        self._shared_loader_obj = SimpleNamespace(action_loader=loader)
        self._answers = answers
        self.asked: list[tuple[str, Any]] = []

    def _execute_module(self, **given: Any) -> Any:
        self.asked.append((given["module_name"], given["module_args"]))
        return self._answers[given["module_name"]]


def changes(wanted: Any, answers: dict[str, Any]) -> tuple[Action, dict[str, acceptance.Facts]]:
    action = Action(answers)
    known = acceptance.Facts(
        facts={"node": role_plans.node("hbv3"), "rdma": "before"},
        commands={"is-there": "\nexit status 1\n"},
    )
    variables = {"trueup_acceptance_change": wanted}
    return action, action._changes(ROWS, known, variables)


@pytest.mark.parametrize("wanted", [False, "no", "false"])
def test_nothing_is_changed_unless_it_is_asked_for(wanted: Any) -> None:
    action, found = changes(wanted, {})
    assert (action.asked, found) == ([], {})


def test_each_row_that_fits_is_done_and_its_facts_are_read_again() -> None:
    answers = {
        "evidence_steps": DONE,
        "ib_facts": {"ansible_facts": {"trueup_rdma": "after"}},
        "gpu_facts": {"ansible_facts": {"trueup_gpu": "after"}},
    }
    action, found = changes("true", answers)
    steps = {"steps": [STEP], "restore": [STEP]}
    assert action.asked == [
        ("evidence_steps", steps),
        ("ib_facts", {"flap_hours": trueup_acceptance.FLAP_HOURS}),
        ("evidence_steps", steps),
        ("gpu_facts", {}),
    ]
    said = {name: DONE[name] for name in ("refused", "steps", "restored")}
    assert {name: one.done for name, one in found.items()} == {
        "link": {"link": said},
        "gpu": {"gpu": said},
    }
    assert [found[name].facts["rdma"] for name in ("link", "gpu")] == ["after", "before"]


def test_a_module_that_fails_is_said() -> None:
    with pytest.raises(AnsibleActionFail, match="no such module"):
        changes("true", {"evidence_steps": {"failed": True, "msg": "no such module"}})
