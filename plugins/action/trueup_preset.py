"""Plan a preset: the variables of a play that reproduce a published piece of work on a node."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from trueup_controller import presets
from trueup_controller.project import CATALOG
from trueup_node.errors import BadInput

DOCUMENTATION = r"""
name: trueup_preset
short_description: The variables of the preset that C(trueup_preset) names
description:
  - Reads the preset of that name in catalog/presets and returns C(variables) for this node, which
    the next task sets. Empty without a preset.
  - C(trueup_preset_applied) among them holds name, scale and variables of the preset, for the
    records of the run.
  - Fails if there is no such preset, or if it is for other sizes and C(trueup_preset_scale) is 1.
    Runs on the controller alone.
options: {}
"""


class ActionModule(ActionBase):
    """Ansible's entry."""

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """``variables`` of the preset, by name."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        play: dict[str, Any] = task_vars or {}

        def value(name: str, default: Any) -> Any:
            return self._templar.template(play[name]) if name in play else default

        name = str(value("trueup_preset", "")).strip()
        if not name:
            return {**result, "variables": {}}
        scale = float(value("trueup_preset_scale", 1.0))
        node = value("trueup_node", {})
        try:
            preset = presets.read(name, CATALOG)
            machine = presets.Machine(str(node.get("vm_size") or ""), int(node.get("cores") or 1))
            values = {key: value(key, None) for key in presets.asked_of_user(preset)}
            applied = presets.applied(name, preset, machine, values=values, scale=scale)
        except BadInput as error:
            raise AnsibleActionFail(str(error)) from error
        for note in applied.notes:
            self._display.display(f"{play['inventory_hostname']}: {note}", color="cyan")
        record = {"name": name, "scale": scale, "variables": applied.variables}
        variables = {**applied.variables, "trueup_preset_applied": record}
        return {**result, "variables": variables}
