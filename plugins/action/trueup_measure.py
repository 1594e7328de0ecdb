"""Measure one case of a benchmark, unless this run has its record already."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from trueup import record as records
from trueup.errors import TrueupError
from trueup.node.identify import is_windows
from trueup.node.windows import actions
from trueup.options import ROLE
from trueup.plan import Now
from trueup.run import lineage, windows_bench
from trueup.run.resume import identity

if TYPE_CHECKING:
    from collections.abc import Mapping

DOCUMENTATION = r"""
name: trueup_measure
short_description: Measure one case of a benchmark, or take its record of this run
description:
  - Runs the module C(<benchmark>_bench) on the node with the case's arguments, the run, the node
    and what this run has recorded of the benchmark. The module compares, since it alone knows
    the command, environment and versions that the case would have now.
  - Of a Windows host the room's C(measure) runs on the controller, and its command on the host
    (C(run/windows_bench.py)); a benchmark without one does not run on Windows.
  - It ends with the controller, and the benchmark with it. Where a benchmark holds the node whose
    controller, on this machine, is gone, it says so and ends that.
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
            "controller": _controller(),
        }
        result: dict[str, Any]
        if is_windows(given["node"]):
            result = on_windows(benchmark, given, _Host(self, variables), check=self._check())
        else:
            result = self._measure(benchmark, given, variables)
        taken = result.get("resumed")
        if taken is not None:
            result["ansible_facts"] = {f"trueup_{benchmark}": earlier[taken]}
        return result

    def _measure(
        self, benchmark: str, given: dict[str, Any], variables: dict[str, Any]
    ) -> dict[str, Any]:
        """What the module says; once more where what holds the node is to be ended first."""
        wrap = bool(self._task.async_val) and not self._connection.has_native_async
        named = {"module_name": f"{benchmark}_bench", "task_vars": variables, "wrap_async": wrap}
        result: dict[str, Any] = self._execute_module(module_args=given, **named)
        holder = result.get("holder") or {}
        if not lineage.gone(holder.get("controller") or {}):
            return result
        # Not as a warning, which Ansible keeps for the end of the task.
        message = f"{result['msg']}; whoever started that is gone, and it is ended now"
        self._display.display(f"{given['node_name']}: {message}", color="bright purple")
        again: dict[str, Any] = self._execute_module(
            module_args={**given, "end_holder": holder}, **named
        )
        return again

    def _check(self) -> bool:
        return bool(self._task.check_mode)

    def _secrets(self, benchmark: str, variables: dict[str, Any]) -> dict[str, str]:
        """What the module takes and no plan, task or log may show: the role's variables of the same
        names, templated here, so that they are in no task's arguments."""
        names = {name: f"{role_of(benchmark)}_{name}" for name in secrets_of(benchmark)}
        return {
            name: str(self._templar.template(variables[variable]))
            for name, variable in names.items()
            if variable in variables
        }


def _controller() -> dict[str, Any]:
    """Who waits for the record, with whom this worker ends from now on."""
    try:
        return lineage.follow()
    except lineage.Orphaned as error:
        raise AnsibleActionFail(str(error)) from error


class _Host:
    """The Windows host of a task, asked by modules of ansible.windows (run/windows_bench.py)."""

    def __init__(self, action: Any, variables: dict[str, Any]) -> None:
        self._action, self._variables = action, variables

    def powershell(self, name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """What the fragment of that name gave."""
        given = {"script": actions.fragment(name), "parameters": dict(parameters)}
        answer = self._ask("win_powershell", given)
        found: dict[str, Any] = answer["result"]
        return found

    def sha256(self, path: str) -> str | None:
        """The checksum of a file of the host."""
        given = {"path": path, "checksum_algorithm": "sha256"}
        found = self._ask("win_stat", given)["stat"].get("checksum")
        return str(found) if found else None

    def _ask(self, module: str, arguments: dict[str, Any]) -> dict[str, Any]:
        answer = actions.ask(self._action, self._variables, module, **arguments)
        if answer.get("failed") or answer.get("unreachable"):
            raise ConnectionError(why_of(answer))
        return answer


def why_of(answer: Mapping[str, Any]) -> str:
    """Why a module of ansible.windows failed, in a line: what PowerShell said, else its message."""
    said = [error["exception"]["message"] for error in answer.get("error") or () if error]
    return " ".join(str(said[0] if said else answer.get("msg")).split())


def on_windows(
    benchmark: str, given: Mapping[str, Any], host: _Host, *, check: bool
) -> dict[str, Any]:
    """What the room's ``measure`` returns for a Windows host.

    Raises:
        AnsibleActionFail: the benchmark has none, or its arguments are wrong.
    """
    case = importlib.import_module(f"trueup.benchmarks.{benchmark}.case")
    if not hasattr(case, "measure"):
        message = f"{benchmark} does not run on Windows"
        raise AnsibleActionFail(message)
    try:
        return windows_bench.measured(
            benchmark, case.OPTIONS, case.measure, given, host, check_mode=check
        )
    except (TrueupError, ConnectionError) as error:
        raise AnsibleActionFail(str(error)) from error


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
