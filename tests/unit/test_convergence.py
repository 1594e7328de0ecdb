"""Which roles have nothing to do on a node: the queries of rooms, and the action trueup_plan."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from action import trueup_plan
from ansible import constants
from ansible.errors import AnsibleActionFail
from helpers import parametrized
from role_plans import RDMA as FOUND
from role_plans import ROOT, asked, node
from test_hpcx_plan import there
from trueup_controller.plan_loader import room_of
from trueup_node.plan import Plan

HPCX = "hpcx-v2.25.1-gcc-doca_ofed-ubuntu24.04-cuda13-x86_64"
ROLES = ["hpc_limits", "rdma", "gpu_driver", "gpu_clocks", "hpcx", "nccl", "stream"]
FOUND_OUT: dict[str, dict[str, Any]] = {"rdma": {"trueup_rdma": FOUND}, "hpcx": there(HPCX)}
CLOCKS = {"problems": [], "renewed": []}
# What a node answers where there is nothing to do.
WELL: dict[str, dict[str, Any]] = {
    "config_files": {"paths_changed": []},
    "limits_in_force": {"differs": [], "services_on": []},
    "vendor_repository": {"wrong": [], "hold": [], "unheld": []},
    "service_current": {"problem": "", "not_restarted": "", "unrecorded": False},
    "gpu_facts": {"ansible_facts": {"trueup_gpu": {"problems": []}}},
    "pinned_venv": {"done": "nothing"},
    "mpirun": {"changed": True, "stdout": "mpirun (Open MPI) 4.1.9a1"},
    "gpu_clocks": {"changed": True, "stdout": json.dumps(CLOCKS)},
    "gcc": {"stdout": "skipped, since it exists"},
}


def plans() -> dict[str, dict[str, Any]]:
    """The plans of roles on an NDv4."""
    made = {}
    for role in ROLES:
        wanted = asked(role, node("ndv4", programs={"gcc": "/usr/bin/gcc"}), FOUND_OUT.get(role))
        plan = {} if role == "nccl" else room_of(role).plan(wanted)
        made[role] = plan.as_result() if isinstance(plan, Plan) else nccl()
    return made


def nccl(**changes: Any) -> dict[str, Any]:
    """As nccl's plan has it."""
    packages = [{"name": "libnccl2", "version": "2.30.4"}]
    lists: dict[str, Any] = {key: [] for key in ("to_build", "wrong", "skipped_here")}
    values = {"kept": False, "packages": packages, "repository": {}, "files": [], **lists}
    return {**values, "topology": {"layout": "ndv4"}, **changes}


class Node:
    """Answers; ``seen`` is what it was asked, and whether in check mode."""

    def __init__(self, **answers: dict[str, Any]) -> None:
        self.answers = {name: {**WELL[name], **answer} for name, answer in answers.items()}
        self.seen: list[tuple[str, dict[str, Any], bool]] = []

    def answer(
        self, action: Any, module: str, arguments: dict[str, Any], *_: Any
    ) -> dict[str, Any]:
        self.seen.append((module, arguments, action._task.check_mode))
        words = " ".join(arguments.get("argv", []))
        name = next((one for one in ("mpirun", "gpu_clocks", "gcc") if one in words), module)
        return {"changed": False, **WELL[name], **self.answers.get(name, {})}


def run(
    monkeypatch: pytest.MonkeyPatch,
    on: Node,
    roles: list[str] | None = None,
    *,
    check: bool = True,
    planned: dict[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """The action's result for planned roles; ``more`` are variables ``ansible_*``."""
    by_role = plans() if planned is None else planned

    def plan_of(_: Any, path: Path, *__: Any) -> dict[str, Any]:
        plan = by_role[path.name]
        if isinstance(plan, Exception):
            raise plan
        return {"is_converged": False, **plan}

    monkeypatch.setattr(trueup_plan, "answer_of", on.answer)
    monkeypatch.setattr(trueup_plan.ActionModule, "plan_of", plan_of)
    monkeypatch.setattr(constants, "DEFAULT_ROLES_PATH", [str(ROOT / "roles")])
    task = SimpleNamespace(
        args={"roles": ROLES if roles is None else roles}, async_val=0, check_mode=check
    )
    templar = SimpleNamespace(template=lambda value: value)
    connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir="/nonexistent"))
    action = trueup_plan.ActionModule(task, connection, None, None, templar, None)
    variables = {
        "trueup_node": node("ndv4"),
        "ansible_check_mode": check,
        "inventory_hostname": "n1",
        "playbook_dir": str(ROOT / "playbooks"),
        **more,
    }
    return action.run(task_vars=variables)


@pytest.mark.parametrize("check", [True, False])
def test_a_converged_node_has_nothing_to_do(monkeypatch: pytest.MonkeyPatch, check: bool) -> None:
    on = Node()
    result = run(monkeypatch, on, check=check)
    assert (result["unconverged"], result["changed"]) == ([], False)
    assert result["ansible_facts"] == {"trueup_gpu": {"problems": []}}
    stats = {"data": {"trueup_nccl_topology": {"layout": "ndv4"}}, "per_host": True}
    assert result["ansible_stats"] == {**stats, "aggregate": True}
    # Only commands that read are run as such; clocks are proved under load where a run may do so.
    running = [arguments["argv"] for _, arguments, mode in on.seen if not mode]
    assert [[argv[0].rpartition("/")[2], argv[1]] for argv in running] == [
        ["gpu_clocks", "status" if check else "verify"],
        ["mpirun", "--version"],
    ]


@parametrized(("answers", "left"))
def test_the_first_role_that_has_something_to_do_and_those_after_it_are_left(
    monkeypatch: pytest.MonkeyPatch, answers: dict[str, Any], left: list[str]
) -> None:
    assert run(monkeypatch, Node(**answers))["unconverged"] == left


def test_a_plan_that_fails_leaves_the_role_to_its_own_tasks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    planned = {**plans(), "rdma": AnsibleActionFail("rdma_stack: a wrong value")}
    assert run(monkeypatch, Node(), planned=planned)["unconverged"] == ROLES[1:]


@pytest.mark.parametrize("role", ["compiler", "training", "fslogix", "vllm", "shared_storage"])
def test_a_role_that_cannot_tell_is_not_planned(monkeypatch: pytest.MonkeyPatch, role: str) -> None:
    # Without a plan of its own, without queries, or with a preflight of its own.
    assert run(monkeypatch, Node(), [role, "stream"])["unconverged"] == [role, "stream"]


def test_a_lock_of_clocks_that_was_renewed_is_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    on = Node(gpu_clocks={"stdout": json.dumps({**CLOCKS, "renewed": ["00:01.0"]})})
    result = run(monkeypatch, on, check=False)
    assert (result["unconverged"], result["changed"]) == ([], True)


@parametrized(("role", "changes"))
def test_what_the_plan_says_is_owed_is_not_asked_for(
    monkeypatch: pytest.MonkeyPatch, role: str, changes: dict[str, Any]
) -> None:
    on = Node()
    planned = {role: {**plans()[role], **changes}}
    assert (run(monkeypatch, on, [role], planned=planned)["unconverged"], on.seen) == ([role], [])


def test_a_role_that_is_skipped_here_has_nothing_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    on = Node()
    # As the action's own plan of such a role has it (test_preflight_action.py).
    planned = {"nvme_scratch": {"skipped_here": [], "is_converged": True}}
    result = run(monkeypatch, on, ["nvme_scratch"], planned=planned)
    assert (result["unconverged"], on.seen) == ([], [])


@parametrized("tags")
def test_tags_choose_what_is_run(monkeypatch: pytest.MonkeyPatch, tags: dict[str, Any]) -> None:
    on = Node()
    assert (run(monkeypatch, on, **tags)["unconverged"], on.seen) == (ROLES, [])


def test_tags_of_others_leave_roles_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    tags = {"ansible_run_tags": ["all"], "ansible_skip_tags": ["notest", "health"]}
    assert run(monkeypatch, Node(), **tags)["unconverged"] == []


def test_a_question_that_fails_leaves_the_role(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> dict[str, Any]:
        raise AnsibleActionFail("no such file")

    on = Node()
    monkeypatch.setattr(on, "answer", fails)
    assert run(monkeypatch, on, ["hpc_limits"])["unconverged"] == ["hpc_limits"]


@parametrized(("found", "left"))
def test_scratch_is_made_and_mounted(
    monkeypatch: pytest.MonkeyPatch, found: dict[str, Any], left: list[str]
) -> None:
    fact = {"steps": [], "state": "ready", "mounted": True, **found}
    monkeypatch.setitem(WELL, "scratch_facts", {"ansible_facts": {"trueup_scratch": fact}})
    on = node("hbv3", programs={"mdadm": "/sbin/mdadm", "mkfs.xfs": "/sbin/mkfs.xfs"})
    planned = {"nvme_scratch": room_of("nvme_scratch").plan(asked("nvme_scratch", on)).as_result()}
    assert run(monkeypatch, Node(), ["nvme_scratch"], planned=planned)["unconverged"] == left


def test_a_drivers_build_packages_are_looked_at_too(monkeypatch: pytest.MonkeyPatch) -> None:
    on = Node()
    assert run(monkeypatch, on, ["gpu_driver"])["unconverged"] == []
    pins = [arguments["pins"] for module, arguments, _ in on.seen if module == "vendor_repository"]
    assert (len(pins), {pin["version"] for pin in pins[0]}) == (2, {"*"})


@parametrized(("role", "planned", "answers", "left"))
def test_what_is_installed_is_in_place_and_nothing_is_to_be_built(
    monkeypatch: pytest.MonkeyPatch,
    role: str,
    planned: dict[str, Any],
    answers: dict[str, Any],
    left: list[str],
) -> None:
    plan = {"files": [{"path": "/p"}], "skipped_here": [], **planned}
    on = Node(**answers)
    assert run(monkeypatch, on, [role], planned={role: plan})["unconverged"] == left
