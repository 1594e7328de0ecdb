"""The action trueup_preflight: the plans that it makes, and the roles that it leaves to their own
preflight."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from action import trueup_plan, trueup_preflight
from ansible import constants
from ansible.plugins.action import ActionBase
from helpers import parametrized
from role_plans import RDMA as FOUND
from role_plans import ROOT, node

ANSWER = {
    "ansible_facts": {"trueup_rdma": FOUND},
    "programs": {},
    "files": [],
    "outdated": [],
    "libraries": [],
}


class Task(SimpleNamespace):
    """Ansible's, as far as it is asked."""

    def copy(self) -> Task:
        return Task(**vars(self))


def run(
    monkeypatch: pytest.MonkeyPatch, roles: list[str], benchmarks: list[str], **more: Any
) -> tuple[dict[str, Any], list[str]]:
    """What the action returns, and the modules that the node was asked."""
    seen: list[str] = []

    def execute(_: Any, module_name: str, **_more: Any) -> dict[str, Any]:
        seen.append(module_name)
        return dict(ANSWER)

    monkeypatch.setattr(ActionBase, "_execute_module", execute)
    loader = SimpleNamespace(
        get=lambda _, **given: trueup_plan.ActionModule(**given), has_plugin=lambda _: False
    )
    task = Task(args={}, async_val=0, check_mode=False, action="trueup_preflight", _role=None)
    action = trueup_preflight.ActionModule(
        task,
        SimpleNamespace(_shell=SimpleNamespace(tmpdir="/nonexistent")),
        None,
        None,
        SimpleNamespace(template=lambda value: value),
        SimpleNamespace(action_loader=loader),
    )
    variables = {
        "inventory_hostname": "n1",
        "playbook_dir": str(ROOT / "playbooks"),
        "trueup_cluster_roles": [],
        "trueup_family_roles": roles,
        "trueup_node": node("hbv3", programs={"gcc": "/usr/bin/gcc"}),
        "trueup_plan": benchmarks,
        "trueup_families": [],
        "trueup_health_plan": [],
        "ansible_run_tags": ["all"],
        "ansible_skip_tags": [],
        **more,
    }
    return action.run(task_vars=variables), seen


@pytest.fixture(autouse=True)
def _roles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "DEFAULT_ROLES_PATH", [str(ROOT / "roles")])


def test_roles_whose_preflight_is_their_plan_are_planned_in_one_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result, seen = run(monkeypatch, ["hpc_limits", "rdma"], ["stream"])
    assert (result["roles"], result["benchmarks"]) == ([], [])
    assert list(result["plans"]) == ["hpc_limits", "rdma", "stream"]
    assert result["plans"]["rdma"]["held"] is True
    assert (seen, result["ansible_facts"]) == (["ib_facts"], {"trueup_rdma": FOUND})


def test_a_variable_of_the_play_goes_before_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    result, _ = run(monkeypatch, ["rdma"], [], rdma_stack="inbox")
    assert result["plans"]["rdma"]["held"] is False


@parametrized(("roles", "benchmarks", "variables"))
def test_other_roles_are_left_to_their_own_preflight(
    monkeypatch: pytest.MonkeyPatch,
    roles: list[str],
    benchmarks: list[str],
    variables: dict[str, Any],
) -> None:
    result, _ = run(monkeypatch, roles, benchmarks, **variables)
    assert (result["roles"], result["benchmarks"], result["plans"]) == (roles, benchmarks, {})


def test_what_plans_skip_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    result, _ = run(monkeypatch, ["gpu_driver"], [])
    assert [item["what"] for item in result["skipped_here"]] == ["gpu_driver"]
    assert result["plans"]["gpu_driver"]["is_converged"] is True


def test_a_familys_nccl_is_installed_where_its_benchmark_is_skipped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result, _ = run(monkeypatch, ["nccl"], ["nccl"])
    assert [item["what"] for item in result["skipped_here"]] == ["nccl"]
    assert result["plans"]["nccl"]["is_converged"] is False


def test_a_sites_own_role_of_a_name_is_left_to_itself(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tasks = tmp_path / "rdma" / "tasks"
    tasks.mkdir(parents=True)
    (tasks / "preflight.yml").write_text("- name: Nothing\n  ansible.builtin.debug:\n")
    folders = [str(tmp_path), str(ROOT / "roles")]
    monkeypatch.setattr(constants, "DEFAULT_ROLES_PATH", folders)
    result, seen = run(monkeypatch, ["rdma"], [])
    assert (result["roles"], result["plans"], seen) == (["rdma"], {}, [])
