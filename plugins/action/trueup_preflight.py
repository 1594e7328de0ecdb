"""Check that a node can be configured and measured as planned, before it is changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from trueup import benchmarks
from trueup.node import family
from trueup.node.identify import is_windows

DOCUMENTATION = r"""
name: trueup_preflight
short_description: Refuse what a node cannot have, and say whose preflight the run needs
description:
  - Fails with why the node cannot be configured or measured as planned, a sentence each. Returns
    the C(roles) and the C(benchmarks) that the tags of the run mean, and what a Windows host is
    asked to measure and cannot (C(skipped_here)). Runs on the controller alone.
options: {}
"""

_ROLES = str(Path(benchmarks.__file__).parents[3] / "roles")


class ActionModule(ActionBase):
    """Ansible's entry."""

    TRANSFERS_FILES = False
    _VALID_ARGS: frozenset[str] = frozenset()

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """``roles`` and ``benchmarks``; no role is in both. ``skipped_here``."""
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
            known=family.benchmark_names(_ROLES),
            mpi=str(self._templar.template(variables.get("trueup_mpi")) or "").strip(),
        )
        if wrong:
            raise AnsibleActionFail(" ".join(wrong))
        result["warnings"] = family.node_warnings(node, roles)
        skipped = (
            family.not_for_windows(value("trueup_families"), planned) if is_windows(node) else []
        )
        result.update(
            family.checked(
                roles,
                family.without(planned, skipped),
                value("trueup_health_plan"),
                variables["ansible_run_tags"],
                variables["ansible_skip_tags"],
            ),
            skipped_here=skipped,
        )
        return result
