"""A role with ``convergence`` asks a node for all that its tasks may change or report, and runs
them under the plan's ``is_converged``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from helpers import ROLES, role_files
from trueup_controller.plan_loader import room_of

# What changes nothing, or what a plan's own facts decide.
_STEPS = {"import_tasks", "include_tasks", "include_role", "assert", "trueup_plan", "set_stats"}
# By role, the modules of its steps that change or report something, as ``convergence`` queries
# them. A role whose steps get another one must query that too, or its work is not done on a node
# that was configured before.
ASKED = {
    # Its environment is that of the role pinned_venv, which is asked by the module of that name.
    "dcgm": set(),
    "devito": {"config_files"},
    "gemm": {"config_files"},
    "gpu_clocks": {"command", "config_files", "service_current"},
    # What is built is in the plan (build), and with perftest what is installed (install).
    "gpu_copy": {"config_files"},
    "gpu_driver": {"config_files", "gpu_facts", "service_current", "trueup_packages"},
    # Units are stopped where limits_in_force says that they run (services_on).
    # The driver is installed where the plan says that it is missing; check.yml asks gpu_facts.
    "gpu_grid": {"config_files", "service_current"},
    "hpc_limits": {"config_files", "service_current", "limits_in_force"},
    "hpcx": {"command", "config_files"},
    "ib": {"debug", "trueup_packages"},
    "nccl": {"config_files"},
    "nvme_scratch": {
        "command",
        "config_files",
        "service_current",
        "scratch_facts",
        "trueup_packages",
    },
    # The agent's line and the reboot are in the plan (agent_lacks, wrong).
    "rdma": {"config_files", "service_current", "lineinfile", "reboot", "vendor_repository"},
    "stream": {"command", "config_files"},
}


def steps(tasks: list[dict[str, Any]]) -> Iterator[str]:
    """The modules of tasks, without their collections."""
    words = ("block", "rescue", "always")
    keywords = {*words, "name", "when", "register", "vars", "loop", "loop_control", "tags"}
    keywords |= {"become", "changed_when", "check_mode", "environment", "failed_when"}
    keywords |= {"module_defaults", "no_log"}
    for task in tasks:
        for word in words:
            yield from steps(task.get(word, []))
        yield from (name.rpartition(".")[2] for name in task if name not in keywords)


def of_role(role: str) -> set[str]:
    folder = ROLES[role] / "tasks"
    files = [folder / f"{step}.yml" for step in ("main", "install", "configure", "verify")]
    texts = [path.read_text(encoding="utf-8") for path in files if path.exists()]
    return {name for text in texts for name in steps(yaml.safe_load(text))} - _STEPS


def test_these_are_the_roles_that_can_tell() -> None:
    planned = role_files("tasks/preflight.yml")
    assert [role for role in planned if hasattr(room_of(role), "convergence")] == sorted(ASKED)


@pytest.mark.parametrize("role", ASKED)
def test_a_role_plans_itself_and_works_where_its_plan_shows_work(role: str) -> None:
    text = (ROLES[role] / "tasks" / "main.yml").read_text(encoding="utf-8")
    plan, *work = yaml.safe_load(text)
    assert (plan["trueup_plan"], plan["register"]) == ({"converging": True}, f"__{role}_plan")
    conditions = [task["when"] for task in work]
    # The role dcgm installs nothing.
    assert conditions == [f"not __{role}_plan.is_converged"] * (role != "dcgm")


def test_a_role_is_planned_by_others_where_its_preflight_is_the_plan_alone() -> None:
    """Their defaults hold no templates: the action that plans them takes them as written."""
    own, alone = [], []
    for role, path in role_files("tasks/preflight.yml").items():
        tasks = yaml.safe_load(path.read_text(encoding="utf-8"))
        defaults = (path.parents[1] / "defaults" / "main.yml").read_text(encoding="utf-8")
        expected = {"name": tasks[0]["name"], "trueup_plan": None, "register": f"__{role}_plan"}
        is_template = any("{{" in str(value) for value in yaml.safe_load(defaults).values())
        is_alone = tasks == [expected] and not is_template
        (alone if is_alone else own).append(role)
    marked = [role for role in (*own, *alone) if getattr(room_of(role), "OWN_PREFLIGHT", False)]
    assert marked == own


@pytest.mark.parametrize("role", ASKED)
def test_a_role_asks_for_what_its_steps_do(role: str) -> None:
    assert of_role(role) == ASKED[role]
