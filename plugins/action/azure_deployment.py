"""Make a run on Azure: trueup_controller.azure.provision as an action on the controller."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from trueup_analysis.figures import azure, prices
from trueup_controller.azure.catalog import Catalog
from trueup_controller.azure.leftovers import leftovers, warnings
from trueup_controller.azure.manager import Manager, connect
from trueup_controller.azure.provision import CHECK_SECONDS, Provision, foreseen, summary
from trueup_controller.azure.run_state import State
from trueup_node.errors import BadInput, TrueupError
from trueup_node.record import new_run_id

if TYPE_CHECKING:
    from collections.abc import Callable

DOCUMENTATION = r"""
name: azure_deployment
short_description: Make the machines of a run on Azure, and wait until they answer
description:
  - Makes what C(trueup_azure_recipe) says with the file C(trueup_azure_parameters) over it, and
    writes the run's inventory. With C(trueup_azure_run) of a run that was begun it goes on with it.
  - In check mode nothing is made, and C(diff) is what Azure would change. Where the resource group
    is not there yet, Azure is not asked for that, and all of it would be made.
options: {}
"""

_TIME = "%Y%m%dT%H%M%SZ"


class ActionModule(ActionBase):
    """Ansible's entry."""

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """``msg``; ``diff`` in check mode, else ``run``, ``inventory`` and ``nodes``."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables: dict[str, Any] = task_vars or {}

        def value(name: str) -> str:
            option = self._templar.template(variables.get(f"trueup_azure_{name}"))
            return "" if option is None else str(option)

        try:
            state = State(value("run") or new_run_id(time.strftime(_TIME, time.gmtime())))
            plans = planned(
                state.run, value("recipe"), value("parameters"), value("max_usd_per_hour")
            )
            for text in plans[0].warnings():
                Display().warning(text)
            result.update(self._made(state, plans))
        except TrueupError as error:
            raise AnsibleActionFail(str(error)) from None
        return {**result, "_ansible_verbose_always": True}

    def _made(self, state: State, plans: list[azure.Plan]) -> dict[str, Any]:
        before = state.read().get("subscription")
        display, asleep = Display(), while_child_of(os.getppid())
        manager = connect([before] if before else [], seconds=CHECK_SECONDS, sleep=asleep)
        _name_leftovers(manager, plans[0].known, display)
        work = Provision(
            manager,
            [plan.made for plan in plans],
            plans[0].known,
            state,
            lambda text: display.display(f"azure: {text}"),
            sleep=asleep,
        )
        costs = {plan.made.place: plan.cost for plan in plans}
        if self._task.check_mode:
            forecast = work.changes()
            diff = [
                {
                    "before_header": f"{change.what} ({change.kind})",
                    "after_header": f"{change.what} ({change.kind})",
                    "before": change.before,
                    "after": change.after,
                }
                for change in forecast.changes
                if change.counts
            ]
            message = foreseen(forecast, costs[forecast.made.place])
            return {"changed": bool(diff), "diff": diff, "msg": message}
        with state.alone():
            deployment = work.make()
        return {
            "changed": deployment.changed,
            "msg": summary(deployment, costs[deployment.made.place], state),
            "run": state.run,
            "inventory": state.path("inventory"),
            "nodes": [node.name for node in deployment.nodes],
        }


def while_child_of(parent: int) -> Callable[[float], None]:
    """A sleep that ends the work where ansible-playbook was killed meanwhile: no teardown would
    know of resources that are made after that."""

    def asleep(seconds: float) -> None:
        time.sleep(seconds)
        if os.getppid() != parent:
            message = "ansible-playbook has ended, and Azure is asked for nothing more"
            raise TrueupError(message)

    return asleep


def _name_leftovers(manager: Manager, catalog: Catalog, display: Display) -> None:
    """Warn of runs that have expired and are still there; they keep nobody from another one."""
    try:
        expired_runs = leftovers(manager, catalog, azure.finder(prices.read_all()), display.v)
    except TrueupError as error:
        display.warning(f"what other runs left is not known: {error}")
        return
    for text in warnings(expired_runs):
        display.warning(text)


def planned(run: str, recipe: str, parameters: str, limit: str) -> list[azure.Plan]:
    """The deployment in each place, after the dry run. Here is every refusal that needs no answer
    of Azure.

    Raises:
        BadInput: the plan is impossible, incomplete or too expensive, or the run has expired.
    """
    if not recipe:
        names = ", ".join(azure.recipes())
        message = f"give a recipe: -e trueup_azure_recipe=..., one of {names}"
        raise BadInput(message)
    try:
        most = float(limit) if limit else None
    except ValueError:
        message = f"trueup_azure_max_usd_per_hour is {limit!r}: give a number of US$ an hour"
        raise BadInput(message) from None
    # A run's hours count from its beginning: it ends when it was to end, however often it goes on.
    try:
        begun = datetime.strptime(run[:16], _TIME).replace(tzinfo=UTC)
    except ValueError:
        message = f"the run {run} begins with no time: give one of trueup's, or none for a new run"
        raise BadInput(message) from None
    parameters_path = Path(parameters).expanduser() if parameters else None
    plan = azure.plan(recipe, parameters_path, limit=most, now=begun)
    wrong = [text for _, text in plan.missing(os.environ)]
    if datetime.fromisoformat(plan.made.expires) <= datetime.now(UTC):
        wrong.append(f"the run {run} expired {plan.made.expires}: remove it, and begin another")
    if wrong:
        message = f"recipe {recipe} is refused: {'; '.join(wrong)}"
        raise BadInput(message)
    return [plan, *plan.elsewhere]
