"""Measure one case of a benchmark, unless this run has its record already."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.constants import DEFAULT_LOCAL_TMP
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from trueup_controller import actions, background, gate, plans, presets
from trueup_controller.benchmark_roles import role_of
from trueup_controller.desktops import windows_bench
from trueup_controller.launch_nodes import one_machine
from trueup_controller.project import full_name
from trueup_node import benchmarks
from trueup_node import record as records
from trueup_node.errors import TrueupError
from trueup_node.node.identify import is_windows
from trueup_node.options import ROLE
from trueup_node.plan import Now, Skipped
from trueup_node.printable import printable
from trueup_node.run import orphan_guard
from trueup_node.run.resume import identity

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
    (C(trueup_controller.desktops.windows_bench)); a benchmark without one does not run on Windows.
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
  beside:
    description:
      - Measure beside the tasks that follow. What is returned as C(begun) is for O(begun) of the
        task that waits. It ends with the controller too, which C(async) would not.
    type: bool
    default: false
  begun:
    description: Wait for what this C(begun) of another task is, and return its result.
    type: dict
"""

# Time for a module to begin and to end, beside the time limit of its case.
_MORE_SECONDS = 60


class ActionModule(ActionBase):
    """Ansible's entry."""

    _VALID_ARGS = frozenset({"benchmark", "case", "beside", "begun"})

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
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
        run_records = recorded(folder, host, self._task.args["case"])
        now = Now(
            host=host,
            records=run_records,
            hosts=list(variables.get("ansible_play_hosts") or []),
            hostvars=variables.get("hostvars") or {},
        )
        case = completed(benchmark, self._task.args["case"], now)
        if isinstance(case, Skipped):
            self._display.display(f"{host}: skipped: {case.what}: {case.why}", color="cyan")
            return {"changed": False, "needless": {"what": case.what, "why": case.why}}
        _refuse_one_machine(benchmark, case, now)
        # Of several nodes another may have begun.
        earlier = [
            record
            for record in run_records
            if record["benchmark"] == benchmark
            and (host in record["nodes"] or record["nodes"] == case.get("nodes"))
        ]
        arguments = {
            # A plan may give the facts of the node whose record it is.
            "node": (variables.get("ansible_facts") or {}).get("trueup_node") or {},
            **case,
            **self._secrets(benchmark, variables),
            "run_id": run,
            "node_name": host,
            "earlier": [identity(record) for record in earlier],
            "controller": _controller(),
            "preset": self._preset(variables),
        }
        if self._task.args.get("begun"):
            return self._ended(self._task.args["begun"], arguments)
        if self._task.args.get("beside"):
            directory = tempfile.mkdtemp(dir=DEFAULT_LOCAL_TMP)
            work = functools.partial(self._measure, benchmark, arguments, variables)
            return {"begun": background.begin(directory, arguments["controller"], work)}
        result: dict[str, Any]
        if is_windows(arguments["node"]):
            result = on_windows(benchmark, arguments, _Host(self, variables), check=self._check())
        else:
            result = self._measure(benchmark, arguments, variables)
        taken = result.get("resumed")
        if taken is not None:
            result["ansible_facts"] = {f"trueup_{benchmark}": earlier[taken]}
        return result

    def _measure(
        self, benchmark: str, arguments: dict[str, Any], variables: dict[str, Any]
    ) -> dict[str, Any]:
        """The module's result; the second one where a holder of the node is ended first."""
        self._connect_alone()
        named = {"module_name": full_name(f"{benchmark}_bench"), "task_vars": variables}
        result: dict[str, Any] = self._execute_module(module_args=arguments, **named)
        holder = result.get("holder") or {}
        if not orphan_guard.gone(holder.get("controller") or {}):
            return result
        # Not as a warning, which Ansible keeps for the end of the task.
        message = f"{result['msg']}; whoever started that is gone, and it is ended now"
        self._display.display(f"{arguments['node_name']}: {message}", color="bright purple")
        again: dict[str, Any] = self._execute_module(
            module_args={**arguments, "end_holder": holder}, **named
        )
        return again

    def _ended(self, begun: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The result of a case that was begun beside other tasks."""
        subject = f"{arguments['node_name']}: what was begun there"
        try:
            return background.end(begun, arguments["timeout_seconds"] + _MORE_SECONDS)
        except (TimeoutError, ConnectionError) as error:
            message = f"{subject} {error}"
            raise AnsibleActionFail(message) from error

    def _connect_alone(self) -> None:
        """A connection of ssh that ends with this worker, where a site names no path for kept ones.

        A kept one may hold on to a session whose sender was killed: where that has sent a part of
        the module, Python prints the part, and nobody takes it (OpenSSH 9.2).
        """
        connection = self._connection
        if connection.transport != "ssh":
            return
        names = ("ssh_args", "ssh_common_args", "ssh_extra_args")
        if any("controlpath" in str(connection.get_option(name)).lower() for name in names):
            return
        # ssh takes the first value that it is given.
        alone = f"-o ControlMaster=no -o ControlPath=none {connection.get_option('ssh_args') or ''}"
        connection.set_option("ssh_args", alone)

    def _check(self) -> bool:
        return bool(self._task.check_mode)

    def _preset(self, variables: Mapping[str, Any]) -> dict[str, Any]:
        """Parameters of the record that name the preset of the run; empty without one."""
        preset = variables.get("trueup_preset_applied")
        if not preset:
            return {}
        values = {
            name: self._templar.template(variables[name])
            for name in preset["variables"]
            if name in variables
        }
        return presets.recorded(preset, values)

    def _secrets(self, benchmark: str, variables: dict[str, Any]) -> dict[str, str]:
        """Secrets of the module, which no plan, task or log may show: the role's variables of the
        same names, templated here, so that they are in no task's arguments."""
        names = {name: f"{role_of(benchmark)}_{name}" for name in secrets_of(benchmark)}
        return {
            name: str(self._templar.template(variables[variable]))
            for name, variable in names.items()
            if variable in variables
        }


def _refuse_one_machine(benchmark: str, case: Mapping[str, Any], now: Now) -> None:
    """Fail a case over two names of one machine, which its record would count as two nodes."""
    peer = case.get("peer_name")
    if same := one_machine([now.host, peer] if peer else case.get("nodes") or [], now.hostvars):
        raise AnsibleActionFail(f"{benchmark}: {same}: leave one of them out.")


def _controller() -> dict[str, Any]:
    """Who waits for the record, with whom this worker ends from now on."""
    try:
        return orphan_guard.follow()
    except orphan_guard.Orphaned as error:
        raise AnsibleActionFail(str(error)) from error


class _Host:
    """The Windows host of a task (``desktops.windows_bench``), asked by ansible.windows."""

    def __init__(self, action: Any, variables: dict[str, Any]) -> None:
        self._action, self._variables = action, variables

    def powershell(self, name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The output of the fragment of that name."""
        arguments = {"script": actions.fragment(name), "parameters": dict(parameters)}
        response = self._ask("win_powershell", arguments)
        output: dict[str, Any] = response["result"]
        return output

    def sha256(self, path: str) -> str | None:
        """The checksum of a file of the host."""
        arguments = {"path": path, "checksum_algorithm": "sha256"}
        checksum = self._ask("win_stat", arguments)["stat"].get("checksum")
        return str(checksum) if checksum else None

    def _ask(self, module: str, arguments: dict[str, Any]) -> dict[str, Any]:
        response = actions.ask(self._action, self._variables, module, **arguments)
        if response.get("failed") or response.get("unreachable"):
            raise ConnectionError(why_of(response))
        return response


def why_of(response: Mapping[str, Any]) -> str:
    """Why a module of ansible.windows failed, in a line: PowerShell's error, else its message."""
    messages = [error["exception"]["message"] for error in response.get("error") or () if error]
    return " ".join(str(messages[0] if messages else response.get("msg")).split())


def on_windows(
    benchmark: str, arguments: Mapping[str, Any], host: _Host, *, check: bool
) -> dict[str, Any]:
    """The result of the room's ``measure`` for a Windows host.

    Raises:
        AnsibleActionFail: the benchmark has none, or its arguments are wrong.
    """
    case = importlib.import_module(f"{benchmarks.__name__}.{benchmark}.case")
    if not hasattr(case, "measure"):
        message = f"{benchmark} does not run on Windows"
        raise AnsibleActionFail(message)
    try:
        result = windows_bench.measured(
            benchmark, case.OPTIONS, case.measure, arguments, host, check_mode=check
        )
        if result.get("record"):
            gate.checked(result["record"])
    except (TrueupError, ConnectionError) as error:
        raise AnsibleActionFail(printable(str(error))) from error
    return result


def secrets_of(benchmark: str) -> list[str]:
    """The secret options that its module takes."""
    case = importlib.import_module(f"{benchmarks.__name__}.{benchmark}.case")
    options = getattr(case, "OPTIONS", ())
    return [option.name for option in options if option.secret and option.of != ROLE]


def recorded(folder: Path, host: str, case: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The good records of a run, oldest first; for a case of the host alone those that begin on it:
    else each of 600 nodes would read the records of all before it."""
    alone = (case.get("nodes") or [host]) == [host]
    good_records = [
        record
        for _, record, _ in records.read_records(str(folder), host if alone else "")
        if record is not None and record["outcome"] in ("ok", records.TOO_SHORT)
    ]
    return sorted(good_records, key=lambda record: str(record["started_at"]))


def completed(benchmark: str, case: dict[str, Any], now: Now) -> dict[str, Any] | Skipped:
    """The case, with the values that its room adds when it begins, or the reason to skip it."""
    name = f"{plans.__name__}.{benchmark}"
    if importlib.util.find_spec(name) is None:
        return case
    room = importlib.import_module(name)
    outcome: dict[str, Any] | Skipped = case
    if hasattr(room, "completed"):
        outcome = room.completed(case, now)
    return outcome
