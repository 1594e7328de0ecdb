"""Find out, in one task, which of a node's roles have nothing to do there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleActionFail
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase
from trueup.plan import Templated
from trueup_controller.actions import answer_of, in_check_mode
from trueup_controller.plan_loader import room_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trueup.plan import Look

DOCUMENTATION = r"""
name: trueup_settled
short_description: Names the roles that have nothing to do on a node
description:
  - Asks the node, for one role after the other, what the C(settled) of the role's room says
    (C(trueup.plan.Settled)) about the plan that preflight made. Nothing is changed. The tasks of a
    role whose answers say that nothing would be need not be run, which cost the controller ten
    times as much (docs/dev/measurements.md). RV(settled) are those, RV(left) the others, in their
    order.
  - The first role that has something to do, or that cannot tell, ends it where O(ordered) is true,
    since the roles after it may build on what it changes.
  - Where tags choose what is run, every role is left.
  - Facts that the modules publish are published, and what roles record for run.json is recorded.
options:
  roles:
    description: The roles, in the order in which they are configured.
    type: list
    elements: str
    required: true
  ordered:
    description: Whether a role may build on those before it.
    type: bool
    default: true
"""


# The tags of a role's steps.
_STEPS = ("install", "configure", "verify")


class ActionModule(ActionBase):
    """Ansible's entry."""

    _VALID_ARGS = frozenset({"roles", "ordered"})

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.facts: dict[str, Any] = {}
        self._renewed = False

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """``left``, and the stats of the others."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables: dict[str, Any] = task_vars or {}
        stats: dict[str, Any] = {}
        settled: list[str] = []
        roles: list[str] = self._task.args["roles"]
        templated = Templated(variables, self._templar.template)
        for role in roles if whole(roles, variables) else []:
            plans = (variables.get("__trueup_checked_plan") or {}).get("plans", {})
            # All of them at once, for each role again, would be half of this action's time.
            planned = self._templar.template(plans.get(role))
            role_stats = (
                None if planned is None else self.stats_of(role, planned, variables, templated)
            )
            if role_stats is not None:
                settled.append(role)
                stats.update(role_stats)
            elif boolean(self._task.args.get("ordered", True)):
                break
        remaining = [role for role in roles if role not in settled]
        result.update(changed=self._renewed, left=remaining, settled=settled)
        if settled:
            host = variables.get("inventory_hostname")
            self._display.display(f"{host}: nothing to do: {', '.join(settled)}", color="green")
        if self.facts:
            result["ansible_facts"] = self.facts
        if stats:
            result["ansible_stats"] = {"data": stats, "per_host": True, "aggregate": True}
        return result

    def stats_of(
        self,
        role: str,
        planned: Mapping[str, Any],
        variables: dict[str, Any],
        templated: Templated | None = None,
    ) -> Mapping[str, Any] | None:
        """The stats of a role that has nothing to do by its plan; None of another role."""
        if any(item["what"] == role for item in planned["skipped_here"]):
            return {}
        room = room_of(role)
        if not hasattr(room, "settled"):
            return None
        settled = room.settled(planned, templated or Templated(variables, self._templar.template))
        if settled.owed or any(self._has_to(look, variables) for look in settled.looks):
            return None
        stats: Mapping[str, Any] = settled.stats
        return stats

    def _has_to(self, look: Look, variables: dict[str, Any]) -> bool:
        """Whether the node's answer says that there is something to do."""
        arguments = {name: value for name, value in look.arguments.items() if value is not None}
        try:
            with in_check_mode(self, not look.reads):
                response = answer_of(self, look.module, arguments, variables, look.environment)
        except AnsibleActionFail:
            return True
        changes = response.get("changed") and not look.reads
        if response.get("failed") or changes or look.wrong(response):
            return True
        self._renewed = self._renewed or bool(look.renewed(response))
        self.facts.update(response.get("ansible_facts") or {})
        return False


def whole(roles: list[str], variables: Mapping[str, Any], *steps: str) -> bool:
    """Whether the run's tags leave nothing of the roles out; ``steps`` are tags of their play."""
    run, skip = (set(variables.get(f"ansible_{kind}_tags") or ()) for kind in ("run", "skip"))
    return run <= {"all", *steps} and skip.isdisjoint({*roles, *_STEPS, "all", "always", "tagged"})
