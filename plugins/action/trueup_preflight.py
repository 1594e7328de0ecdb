"""Check that a node can be configured and measured as planned, before it is changed."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from trueup_controller import family
from trueup_controller.actions import beside
from trueup_controller.project import ROLES
from trueup_node.node.identify import is_windows

DOCUMENTATION = r"""
name: trueup_preflight
short_description: Refuse what a node cannot have, and say whose preflight the run needs
description:
  - Fails with why the node cannot be configured or measured as planned, a sentence each.
  - Plans the roles and benchmarks that the tags of the run mean in one task (C(plans), by role),
    where a role's preflight is M(trueup_plan) alone. The others are returned as C(roles) and
    C(benchmarks), and those whose plan fails, so that their own preflight says it; C(steps) are
    the items of a loop over them.
  - Returns what is skipped (C(skipped_here)), also what a Windows host is asked to measure and
    cannot.
options: {}
"""

# Task files of playbooks/tasks, by the kind of role.
_TASKS = {"roles": "check_role.yml", "benchmarks": "check_benchmark.yml"}


class ActionModule(ActionBase):
    """Ansible's entry."""

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """``roles`` and ``benchmarks``; no role is in both. ``steps`` for them, ``plans`` and
        ``skipped_here``."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables: dict[str, Any] = task_vars or {}

        def value(name: str) -> Any:
            return self._templar.template(variables[name])

        cluster = value("trueup_cluster_roles")
        roles = [*value("trueup_family_roles"), *cluster]
        node, planned = value("trueup_node"), value("trueup_plan")
        wrong = family.node_problems(
            node,
            name=str(variables["inventory_hostname"]),
            roles=roles,
            benchmarks=planned,
            cluster=cluster,
            known_benchmarks=family.benchmark_names(str(ROLES)),
            mpi=str(self._templar.template(variables.get("trueup_mpi")) or "").strip(),
        )
        if wrong:
            raise AnsibleActionFail(" ".join(wrong))
        result["warnings"] = family.node_warnings(node, roles)
        skipped = (
            family.not_for_windows(value("trueup_families"), planned) if is_windows(node) else []
        )
        to_check = family.checked(
            roles,
            family.without(planned, skipped),
            value("trueup_health_plan"),
            variables["ansible_run_tags"],
            variables["ansible_skip_tags"],
        )
        plans = {} if is_windows(node) else self._plans(to_check, node, variables, result)
        unplanned = {
            kind: [name for name in names if name not in plans] for kind, names in to_check.items()
        }
        result.update(
            unplanned,
            steps=[
                {"role": role, "tasks": _TASKS[kind]}
                for kind in unplanned
                for role in unplanned[kind]
            ],
            plans=plans,
            skipped_here=[
                *(item for plan in plans.values() for item in plan["skipped_here"]),
                *skipped,
            ],
        )
        return result

    def _plans(
        self,
        to_check: dict[str, list[str]],
        node: dict[str, Any],
        variables: dict[str, Any],
        result: dict[str, Any],
    ) -> dict[str, Any]:
        """The plans that can be made here, by role; ``result`` gets their facts and warnings."""
        planner = beside(self, "trueup_plan", {})
        plans = {}
        for role in (name for names in to_check.values() for name in names):
            try:
                plan = planner.plan_ahead(role, variables, node)
            except AnsibleActionFail:
                # The role's own preflight reports the problem.
                continue
            if plan is None:
                continue
            result["warnings"] += plan.pop("warnings", [])
            result.setdefault("ansible_facts", {}).update(plan.pop("ansible_facts", {}))
            plans[role] = plan
        return plans
