"""Report skips of a node, to the reader and for run.json."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from trueup_controller import family

DOCUMENTATION = r"""
name: trueup_skips
short_description: A line for each thing that is skipped on a node
description:
  - Shows the lines, returns O(skips), and records them as the host's statistic C(trueup_skipped),
    which the callback trueup_records keeps. Runs on the controller alone.
options:
  skips:
    description: Objects with C(what) and C(why).
    type: list
    elements: dict
    required: true
"""


class ActionModule(ActionBase):
    """Ansible's entry."""

    _VALID_ARGS = frozenset({"skips"})

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """``msg``, which is always shown."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        skips = self._task.args["skips"]
        if not skips:
            return {**result, "skipped": True, "skip_reason": "nothing is skipped on this node"}
        result.update(msg=family.skip_lines(skips), skips=skips, _ansible_verbose_always=True)
        # As set_stats has it.
        data = {"trueup_skipped": skips}
        result["ansible_stats"] = {"data": data, "per_host": True, "aggregate": True}
        return result
