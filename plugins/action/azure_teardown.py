"""Remove a run from Azure: trueup_controller.azure.teardown as an action on the controller."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from trueup_analysis.figures import azure, prices
from trueup_controller.azure import socks_tunnel
from trueup_controller.azure.manager import connect
from trueup_controller.azure.run_state import CONFIG, State
from trueup_controller.azure.teardown import Teardown
from trueup_node.errors import BadInput, TrueupError

DOCUMENTATION = r"""
name: azure_teardown
short_description: Delete what carries a run's tag on Azure, and say what is left
description:
  - Deletes what carries the tag C(run) of C(trueup_azure_run), and waits. A resource group is
    deleted whole where it carries the tag and holds nothing else. Fails where anything is left,
    with what it costs an hour. What the controller kept of the run goes when nothing is left.
  - In check mode nothing is deleted, and C(diff) is what would be.
options: {}
"""


class ActionModule(ActionBase):
    """Ansible's entry."""

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """``msg``, a list of sentences, and ``diff``."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        run_id = self._templar.template((task_vars or {}).get("trueup_azure_run"))
        try:
            result.update(self._ended(str(run_id or "")))
        except TrueupError as error:
            raise AnsibleActionFail(str(error)) from None
        return {**result, "_ansible_verbose_always": True}

    def _ended(self, run: str) -> dict[str, Any]:
        if not run:
            message = "give the run: -e trueup_azure_run=..., as its group's tag run says"
            raise BadInput(message)
        display = Display()
        state = State(run)
        try:
            subscription = state.read().get("subscription")
        except BadInput as error:
            display.warning(f"{error}; the login's default subscription is looked at")
            subscription = None
        rows = prices.read_all()
        work = Teardown(
            connect([subscription] if subscription else []),
            azure.known(rows),
            run,
            lambda text: display.display(f"azure: {text}"),
        )
        before = work.find()
        ids = [resource_id for group in before for resource_id in group.ids]
        diff = {"before": "".join(f"{resource_id}\n" for resource_id in ids), "after": ""}
        if self._task.check_mode:
            sentences = work.left(before, azure.finder(rows)).sentences(run)
            return {"changed": bool(ids), "diff": diff, "msg": sentences}
        remaining = work.left(work.end(), azure.finder(rows))
        if remaining.ids:
            raise TrueupError("; ".join(remaining.sentences(run)))
        socks_tunnel.closed(state.path(CONFIG), state.read())
        state.remove()
        return {"changed": bool(ids), "diff": diff, "msg": remaining.sentences(run)}
