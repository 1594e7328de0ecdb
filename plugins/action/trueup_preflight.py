"""Check that a node can be configured and measured as planned, before it is changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from trueup import benchmarks
from trueup.node import family

DOCUMENTATION = r"""
name: trueup_preflight
short_description: Refuse what a node cannot have, and say whose preflight the run needs
description:
  - Fails with why the node cannot be configured or measured as planned, a sentence each. Returns
    the C(roles) and the C(benchmarks) that the tags of the run mean. Runs on the controller alone.
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
        """``roles`` and ``benchmarks``; no role is in both."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables: dict[str, Any] = task_vars or {}

        def value(name: str) -> Any:
            return self._templar.template(variables[name])

        roles = [*value("trueup_family_roles"), *value("trueup_cluster_roles")]
        wrong = family.node_problems(
            value("trueup_node"),
            name=str(variables["inventory_hostname"]),
            roles=roles,
            benchmarks=value("trueup_plan"),
            known=family.benchmark_names(_ROLES),
            mpi=str(self._templar.template(variables.get("trueup_mpi")) or "").strip(),
        )
        if wrong:
            raise AnsibleActionFail(" ".join(wrong))
        result["warnings"] = family.node_warnings(value("trueup_node"), roles)
        result.update(
            family.checked(
                roles,
                value("trueup_plan"),
                value("trueup_health_plan"),
                variables["ansible_run_tags"],
                variables["ansible_skip_tags"],
            )
        )
        return result
