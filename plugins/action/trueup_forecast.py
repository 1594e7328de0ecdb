"""Report time and cost of a run before it measures, and refuse one above the limit."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from trueup_analysis.figures.prices import LIST_OFFER, Pricing, read_all
from trueup_analysis.figures.terms import Terms
from trueup_controller import family
from trueup_controller.desktops.preflight import surcharge
from trueup_controller.forecast import Work, earlier, forecast
from trueup_node.node.identify import is_windows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DOCUMENTATION = r"""
name: trueup_forecast
short_description: Nodes, cases, expected time and US$ of a run
description:
  - Counts the cases that preflight planned on all nodes of the play, with the times of earlier
    records and the catalog's prices; what is not known is counted. Fails above C(trueup_max_usd).
    Runs on the controller alone.
options: {}
"""


class ActionModule(ActionBase):
    """Ansible's entry."""

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """``msg``, which is always shown."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables: dict[str, Any] = task_vars or {}
        hostvars = variables["hostvars"]
        hosts = {name: hostvars[name] for name in variables["ansible_play_hosts"]}
        tags = (variables["ansible_run_tags"], variables["ansible_skip_tags"])
        work = [
            job
            for name, host in hosts.items()
            for job in _work(name, host, hostvars.raw_get(name), *tags)
        ]
        pricing = Pricing(read_all(), Terms())
        expected = forecast(
            work,
            earlier(
                str(self._templar.template(variables["trueup_results"])),
                {(job.benchmark, job.size) for job in work},
            ),
            {name: _price(pricing, host["trueup_node"]) for name, host in hosts.items()},
        )
        limit = self._templar.template(variables.get("trueup_max_usd"))
        most = None if limit is None else float(limit)
        refused = expected.refusal(most)
        if refused:
            raise AnsibleActionFail(refused)
        sentence, notes = (
            expected.sentence(most),
            dict.fromkeys(note for one in work for note in one.notes),
        )
        result.update(msg=[sentence, *notes] if notes else sentence, _ansible_verbose_always=True)
        # For the callback trueup_terminal.
        result.update(cases=expected.cases, seconds=expected.seconds, untimed=expected.untimed)
        return result


def _work(
    name: str,
    host: Mapping[str, Any],
    raw: Mapping[str, Any],
    run_tags: list[str],
    skip_tags: list[str],
) -> Iterator[Work]:
    """The benchmarks of a node: those of its health check, and then the others.

    Args:
        raw: its variables as they are. Plans are no templates, and to look for some in them would
            take 40 ms of each node.
    """
    health = [] if "health" in skip_tags else [*host["trueup_health_plan"]]
    benchmarks = [
        *(health if {"all", "health"} & set(run_tags) else []),
        *family.chosen(host["trueup_feasible"], run_tags, skip_tags, "benchmark"),
    ]
    plans = (raw.get("__trueup_checked_plan") or {}).get("plans", {})
    for benchmark in benchmarks:
        plan = plans.get(benchmark) or raw.get(f"__{benchmark}_plan") or {}
        cases = plan.get("cases")
        yield Work(
            name,
            host["trueup_node"]["vm_size"],
            benchmark,
            None if cases is None else len(cases),
            tuple(plan.get("notes", ())),
        )


def _price(pricing: Pricing, node: Mapping[str, Any]) -> float | None:
    quote = pricing.quote(node["vm_size"], node["region"], node["offer"] or LIST_OFFER)
    price = float(quote["usd_per_hour"])
    if is_windows(node):
        price += surcharge(node) or 0.0
    return None if math.isnan(price) else price
