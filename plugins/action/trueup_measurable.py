"""Find out, in one task, which of a node's benchmarks have to be run task by task."""

from __future__ import annotations

import sys
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase
from trueup.errors import TrueupError
from trueup.node.identify import is_windows
from trueup_controller import family
from trueup_controller.actions import beside
from trueup_controller.plan_loader import room_of

DOCUMENTATION = r"""
name: trueup_measurable
short_description: Names the benchmarks whose tasks are to be run on a node
description:
  - Plans each benchmark, where the role's preflight is M(trueup_plan) alone. RV(left) are those
    whose tasks are to be run; a plan or an answer that fails leaves a benchmark, whose own tasks
    then say it.
  - In check mode nothing is measured. A benchmark whose entry does no more than to plan and to
    measure is asked here what each case would run (RV(would_run)), and is not left.
  - Facts that the modules publish are published, and what roles record for run.json is recorded.
options:
  benchmarks:
    description: The roles of the benchmarks, in the order in which they are measured.
    type: list
    elements: str
    required: true
  install:
    description:
      - Whether the roles are installed first, as the health check does. What the node cannot have
        is named then (RV(skips)), and RV(settled) are those of which nothing is to be
        installed, by the C(settled) of the role's room.
    type: bool
    default: false
"""


class ActionModule(ActionBase):
    """Ansible's entry."""

    _VALID_ARGS = frozenset({"benchmarks", "install"})

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """``left``, ``settled``, ``skips`` and ``would_run``."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables: dict[str, Any] = task_vars or {}
        roles: list[str] = self._task.args["benchmarks"]
        self._install = boolean(self._task.args.get("install", False))
        node = self._templar.template(variables["trueup_node"])
        self._planner = beside(self, "trueup_plan", {})
        self._settler = beside(self, "trueup_settled", {})
        self._told: dict[str, Any] = {
            **{name: [] for name in ("left", "settled", "skips", "warnings")},
            "would_run": {},
        }
        self._facts: dict[str, Any] = self._settler.facts
        self._stats: dict[str, Any] = {}
        self._kept, self._in_place = self._before(variables)
        can_skip = not is_windows(node) and (
            _of(self._settler).whole(roles, variables, "health")
            if self._install
            else self._task.check_mode
        )
        for role in roles:
            if not (can_skip and self._is_done(role, node, variables)):
                self._told["left"].append(role)
        result.update(changed=False, **self._told)
        self._say(str(variables.get("inventory_hostname")))
        if self._facts:
            result["ansible_facts"] = self._facts
        if self._stats:
            result["ansible_stats"] = {"data": self._stats, "per_host": True, "aggregate": True}
        return result

    def _before(self, variables: dict[str, Any]) -> tuple[dict[str, Any], set[str]]:
        """The plans of preflight, and the roles that configure found in place, where it had nothing
        to do at all: then both hold."""
        settled = [
            variables.get(f"__trueup_settled_{kind}") or {} for kind in ("roles", "benchmarks")
        ]
        cluster = self._templar.template(variables.get("trueup_cluster_roles"))
        if cluster or any(state.get("left") != [] for state in settled):
            return {}, set()
        return variables["__trueup_checked_plan"]["plans"], {
            role for state in settled for role in state["settled"]
        }

    def _is_done(self, role: str, node: dict[str, Any], variables: dict[str, Any]) -> bool:
        """Whether none of the role's tasks needs to be run."""
        planning = _of(self._planner)
        path = planning.path_of(role, variables)
        defaults = planning.plain_defaults(path)
        if defaults is None:
            return False
        role_variables = {**defaults, **variables}
        try:
            plan = self._templar.template(self._kept.get(role))
            plan = plan or self._take(self._planner.plan_of(path, role_variables, node))
            if self._install and not self._is_installed(role, plan, role_variables):
                return bool(family.skips_of(plan, role))
            benchmark = planning.plain_benchmark(path) if self._task.check_mode else None
            if benchmark is None:
                return False
            if hasattr(room_of(role), "asks_to_measure"):
                planner = beside(self, "trueup_plan", {"measuring": True})
                plan = self._take(planner.plan_of(path, role_variables, node))
            return self._is_checked(role, benchmark, plan["cases"], role_variables)
        except (AnsibleActionFail, TrueupError):
            # Its own tasks say why.
            return False

    def _is_installed(self, role: str, plan: dict[str, Any], variables: dict[str, Any]) -> bool:
        """Whether the benchmark can be had here, and is in place."""
        skips = family.skips_of(plan, role)
        self._told["skips"] += skips
        if skips:
            return False
        if role not in self._in_place:
            stats = self._settler.stats_of(role, plan, variables)
            if stats is None:
                return False
            self._stats.update(stats)
        self._told["settled"].append(role)
        return True

    def _is_checked(
        self, role: str, benchmark: str, cases: list[dict[str, Any]], variables: dict[str, Any]
    ) -> bool:
        """Whether each case could be measured, which nothing is in check mode."""
        commands = []
        for case in cases:
            arguments = {"benchmark": benchmark, "case": case}
            response = beside(self, "trueup_measure", arguments).run(task_vars=variables)
            if response.get("failed"):
                return False
            self._take(response)
            commands.append(response.get("command"))
        self._told["would_run"][role] = commands
        return True

    def _take(self, response: dict[str, Any]) -> dict[str, Any]:
        """The response of a plan or module; its facts, warnings and skips are kept."""
        self._facts.update(response.pop("ansible_facts", {}))
        self._told["warnings"] += response.pop("warnings", [])
        needless = response.get("needless")
        self._told["skips"] += [needless] if needless else []
        return response

    def _say(self, host: str) -> None:
        """A line for each thing that has no task of its own."""
        for line in family.skip_lines(self._told["skips"]):
            self._display.display(f"{host}: {line}", color="cyan")
        would = [f"{role} ({len(cases)})" for role, cases in self._told["would_run"].items()]
        if would:
            message = f"{host}: would measure, with so many cases: {', '.join(would)}"
            self._display.display(message, color="green")


def _of(action: Any) -> Any:
    """The module of another action."""
    return sys.modules[type(action).__module__]
