"""Measure one case of a benchmark, unless this run has its record already."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from trueup import record as records
from trueup.options import ROLE
from trueup.plan import Now
from trueup.run.resume import identity

DOCUMENTATION = r"""
name: trueup_measure
short_description: Measure one case of a benchmark, or take its record of this run
description:
  - Runs the module C(<benchmark>_bench) on the node with the case's arguments, the run, the node
    and what this run has recorded of the benchmark. The module compares, since it alone knows
    the command, environment and versions that the case would have now.
  - Secret options of the module are taken from the role's variables of the same names.
options:
  benchmark:
    description: The benchmark, as records name it.
    type: str
    required: true
  case:
    description: What the module is given for this case; one of the plan's C(cases).
    type: dict
    required: true
"""


class ActionModule(ActionBase):
    """Ansible's entry."""

    TRANSFERS_FILES = False
    # The server of two nodes runs beside its client.
    _supports_async = True
    _VALID_ARGS = frozenset({"benchmark", "case"})

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """The module's result; of a case that is recorded, the fact with its record."""
        super().run(tmp, task_vars)
        variables: dict[str, Any] = task_vars or {}
        benchmark = str(self._task.args["benchmark"])
        for name in ("trueup_run_id", "trueup_results"):
            if name not in variables:
                message = f"{name} is not set: run site.yml or playbooks/benchmark.yml"
                raise AnsibleActionFail(message)
        run = self._templar.template(variables["trueup_run_id"])
        folder = Path(self._templar.template(variables["trueup_results"])).expanduser() / run
        host = str(variables["inventory_hostname"])
        made = recorded(folder)
        now = Now(
            host=host,
            records=made,
            hosts=list(variables.get("ansible_play_hosts") or []),
            hostvars=variables.get("hostvars") or {},
        )
        case = completed(benchmark, self._task.args["case"], now)
        # Of several nodes another may have begun.
        earlier = [
            record
            for record in made
            if record["benchmark"] == benchmark
            and (host in record["nodes"] or record["nodes"] == case.get("nodes"))
        ]
        given = {
            # A plan may give the facts of the node whose record it is.
            "node": (variables.get("ansible_facts") or {}).get("trueup_node") or {},
            **case,
            **self._secrets(benchmark, variables),
            "run_id": run,
            "node_name": host,
            "earlier": [identity(record) for record in earlier],
        }
        result: dict[str, Any] = self._execute_module(
            module_name=f"{benchmark}_bench",
            module_args=given,
            task_vars=variables,
            wrap_async=bool(self._task.async_val) and not self._connection.has_native_async,
        )
        taken = result.get("resumed")
        if taken is not None:
            result["ansible_facts"] = {f"trueup_{benchmark}": earlier[taken]}
        return result

    def _secrets(self, benchmark: str, variables: dict[str, Any]) -> dict[str, str]:
        """What the module takes and no plan, task or log may show: the role's variables of the same
        names, templated here, so that they are in no task's arguments."""
        names = {name: f"{role_of(benchmark)}_{name}" for name in secrets_of(benchmark)}
        return {
            name: str(self._templar.template(variables[variable]))
            for name, variable in names.items()
            if variable in variables
        }


def role_of(benchmark: str) -> str:
    """The role that measures it."""
    output = importlib.import_module(f"trueup.benchmarks.{benchmark}.output")
    return str(getattr(output, "ROLE", benchmark))


def secrets_of(benchmark: str) -> list[str]:
    """The secret options that its module takes."""
    case = importlib.import_module(f"trueup.benchmarks.{benchmark}.case")
    options = getattr(case, "OPTIONS", ())
    return [one.name for one in options if one.secret and one.of != ROLE]


def recorded(folder: Path) -> list[dict[str, Any]]:
    """The ok records of a run, oldest first."""
    found = [
        record
        for _, record, _ in records.read_records(str(folder))
        if record is not None and record["outcome"] == "ok"
    ]
    return sorted(found, key=lambda record: str(record["started_at"]))


def completed(benchmark: str, case: dict[str, Any], now: Now) -> dict[str, Any]:
    """The case, with what its room adds when it begins."""
    name = f"trueup.benchmarks.{benchmark}.plan"
    if importlib.util.find_spec(name) is None:
        return case
    room = importlib.import_module(name)
    found: dict[str, Any] = room.completed(case, now) if hasattr(room, "completed") else case
    return found
