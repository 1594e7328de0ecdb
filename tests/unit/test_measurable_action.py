"""The action trueup_measurable: which benchmarks have to be run task by task on a node."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from action import trueup_measurable, trueup_measure, trueup_plan, trueup_settled
from ansible import constants
from ansible.plugins.action import ActionBase
from helpers import parametrized
from role_plans import ROOT, node

OURS = {
    "trueup_plan": trueup_plan,
    "trueup_settled": trueup_settled,
    "trueup_measure": trueup_measure,
}
DEVICES = [{"device": "mlx5_ib0", "kind": "infiniband"}]
# What modules answer on a node where all is in place.
WELL: dict[str, dict[str, Any]] = {
    "config_files": {"changed": False},
    "ansible.builtin.command": {"changed": False},
    "program_facts": {
        "programs": {"/usr/bin/ib_write_bw": "/usr/bin/ib_write_bw"},
        "mentions": {"/usr/bin/ib_write_bw": True},
        "files": {},
        "python": {"path": "/usr/bin/python3", "version": [3, 11, 2], "missing": []},
    },
    "nccl_facts": {"outdated": []},
    "ib_facts": {"ansible_facts": {"trueup_rdma": {"devices": DEVICES}}},
    "stream_bench": {"command": ["stream_kernel"]},
    "ib_bench": {"command": ["ib_write_bw"]},
    "gemm_bench": {"command": ["gemm.py"], "warnings": ["slow"]},
}


class Task(SimpleNamespace):
    """Ansible's, as far as it is asked."""

    def copy(self) -> Task:
        return Task(**vars(self))


class Case:
    """A task of that action; ``seen`` are the modules that the node was asked."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, folder: Path, size: str = "ndv4", **answers: Any
    ) -> None:
        self.seen: list[str] = []
        self.said: list[str] = []
        self.folder, self.size = folder, size
        self.answers = {**WELL, **answers}
        monkeypatch.setattr(constants, "DEFAULT_ROLES_PATH", [str(ROOT / "roles")])
        monkeypatch.setattr(trueup_measure, "_controller", dict)
        monkeypatch.setattr(trueup_measurable, "beside", self.beside)
        monkeypatch.setattr(trueup_settled, "answer_of", self.answer_of)
        monkeypatch.setattr(trueup_plan, "answer_of", self.answer_of)
        monkeypatch.setattr(
            ActionBase, "_execute_module", lambda _, module_name, **__: self.answer(module_name)
        )

    def answer(self, name: str) -> dict[str, Any]:
        self.seen.append(name)
        return dict(self.answers[name])

    def answer_of(self, _: Any, name: str, *__: Any) -> dict[str, Any]:
        return self.answer(name)

    def beside(self, action: Any, name: str, arguments: dict[str, Any]) -> Any:
        task = action._task.copy()
        task.args = arguments
        return OURS[name].ActionModule(task, action._connection, None, None, action._templar, None)

    def run(
        self, benchmarks: list[str], *, check: bool = True, install: bool = True, **more: Any
    ) -> dict[str, Any]:
        task = Task(
            args={"benchmarks": benchmarks, "install": install},
            async_val=0,
            check_mode=check,
        )
        action = trueup_measurable.ActionModule(
            task,
            SimpleNamespace(_shell=SimpleNamespace(tmpdir="/nonexistent"), transport="local"),
            None,
            None,
            SimpleNamespace(template=lambda value: value),
            None,
        )
        action._display = SimpleNamespace(display=lambda text, **_: self.said.append(text))
        variables = {
            "inventory_hostname": "n1",
            "playbook_dir": str(ROOT / "playbooks"),
            "trueup_cluster_roles": [],
            "trueup_node": node(self.size, programs={"gcc": "/usr/bin/gcc"}),
            "trueup_run_id": "20261127T090000Z-7c1e",
            "trueup_results": str(self.folder),
            "ansible_run_tags": ["all"],
            "ansible_skip_tags": [],
            **more,
        }
        return action.run(task_vars=variables)


@pytest.mark.parametrize(
    ("answers", "settled"),
    [
        ({"config_files": {"changed": True}}, []),
        ({"config_files": {"failed": True, "msg": "no space"}}, []),
        ({"stream_bench": {"failed": True, "msg": "no kernel"}}, ["stream"]),
    ],
)
def test_what_is_to_be_done_or_fails_is_left_to_its_tasks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answers: dict[str, Any], settled: list[str]
) -> None:
    result = Case(monkeypatch, tmp_path, "hbv3", **answers).run(["stream"])
    assert (result["left"], result["settled"], result["would_run"]) == (["stream"], settled, {})


@pytest.mark.parametrize("check", [True, False])
def test_what_a_node_cannot_have_is_named_and_has_no_tasks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, check: bool
) -> None:
    case = Case(monkeypatch, tmp_path, "hbv3")
    result = case.run(["gemm"], check=check)
    why = "nvidia-smi and PCI show no GPU"
    assert (result["left"], result["settled"]) == ([], [])
    assert result["skips"] == [{"what": "gemm", "why": why}]
    assert case.said == [f"n1: skipped: gemm: {why}"]


@parametrized(("role", "variables"))
def test_what_cannot_be_planned_here_is_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, role: str, variables: dict[str, Any]
) -> None:
    case = Case(monkeypatch, tmp_path, "hbv3")
    assert (case.run([role], **variables)["left"], case.seen) == ([role], [])


def test_what_is_asked_only_to_measure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    case = Case(monkeypatch, tmp_path)
    result = case.run(["ib"], check=False)
    assert (result["left"], "ib_facts" in case.seen) == (["ib"], False)
    result = case.run(["ib"])
    assert (result["left"], result["settled"]) == ([], ["ib"])
    # Two of host memory and two of GPU memory.
    assert result["would_run"] == {"ib": [["ib_write_bw"]] * 4}
    assert result["ansible_facts"]["trueup_rdma"] == {"devices": DEVICES}


@parametrized(("more", "kept"))
def test_what_preflight_planned_holds_where_configure_had_nothing_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, more: dict[str, Any], kept: bool
) -> None:
    case = Case(monkeypatch, tmp_path)
    plans = {"gemm": {"skipped_here": [], "files": [], "cases": [{"timeout_seconds": 9}]}}
    before = {
        "__trueup_checked_plan": {"plans": plans},
        "__trueup_settled_roles": {"left": [], "settled": ["rdma"]},
        "__trueup_settled_benchmarks": {"left": [], "settled": ["gemm"]},
    }
    result = case.run(["gemm"], **{**before, **more})
    assert (result["left"], result["settled"]) == ([], ["gemm"])
    # That of a plan of its own, then of what is in place.
    asked = [] if kept else ["program_facts", "config_files"]
    assert (case.seen, result["warnings"]) == ([*asked, "gemm_bench"], ["slow"])


def test_the_benchmarks_of_a_run_are_asked_in_check_mode_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    case = Case(monkeypatch, tmp_path, "hbv3")
    result = case.run(["stream"], check=False, install=False)
    assert (result["left"], case.seen) == (["stream"], [])
    result = case.run(["stream"], install=False, ansible_run_tags=["stream"])
    assert (result["left"], case.seen) == ([], ["stream_bench"])


def test_an_entry_of_more_than_plan_and_cases_is_not_asked_here() -> None:
    plain = {
        path.name: trueup_plan.plain_benchmark(path)
        for path in sorted((ROOT / "roles").iterdir())
        if (path / "tasks" / "benchmark.yml").is_file()
    }
    assert {role for role, benchmark in plain.items() if benchmark is None} == {"devito"}
    assert {role: benchmark for role, benchmark in plain.items() if role != benchmark} == {
        "blob_checkpoint": "blob_copy",
        "devito": None,
        "training": "megatron",
    }
