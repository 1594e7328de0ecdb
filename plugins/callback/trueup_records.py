"""Write every record that a benchmark module returns, as soon as it returns it."""

from __future__ import annotations

import gc
import io
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import ansible.context
from ansible.constants import DEFAULT_LOCAL_TMP
from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase
from ansible.plugins.callback import CallbackBase
from ansible.plugins.loader import action_loader, filter_loader, lookup_loader, test_loader

# Ansible loads this before anything else of the project's.
try:
    from trueup_controller import project

    project.require_libraries()
    from trueup_analysis.figures import too_short
    from trueup_controller import gate, host_names, terminal
    from trueup_node import record as records
    from trueup_node.errors import TrueupError
except ModuleNotFoundError as missing:
    message = (
        f"The Python of this Ansible has no {missing.name}, which trueup's plays need: run `make"
        " controller-venv` in trueup's checkout, and use the ansible-playbook in its .venv/bin."
    )
    raise AnsibleError(message) from None
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

DOCUMENTATION = r"""
name: trueup_records
type: notification
short_description: Keeps the records that benchmark modules return
description:
  - Writes each record into C(results/<run_id>/) on the controller when its task ends, whether it
    succeeded or failed,
    with the tool's own output beside it. A play that is stopped later loses none of them.
  - What a node answers is checked before anything uses it (C(trueup_controller.gate)). An answer
    that does not fit fails its task on that node, is named in C(run.json), and has no other effect.
    The run, the report's folder and what is skipped come from actions of the controller alone.
  - At the end it writes C(run.json), the hosts that the run expected and what became of each,
    where they failed, what was skipped and why, and what roles chose (custom statistics
    C(trueup_*)); then the report, where C(trueup_report) named a folder for it.
requirements:
  - enabled in C(ansible.cfg) with C(callbacks_enabled)
options:
  results_dir:
    description: Folder of the results, where no play has the variable C(trueup_results).
    type: path
    default: results
    env:
      - name: TRUEUP_RESULTS
"""

# Ansible's words and ours.
_COUNTS = {"failures": "failed"}
# Tags of plays that measure.
_MEASURES = frozenset(("health", "benchmark"))
_LIBRARY = project.file("library")
# Those that hand on the record of a module, which the gate has checked.
_RECORDERS = frozenset(("trueup_measure", "node_state"))
# Actions that plan roles.
_PLANNERS = frozenset(("trueup_plan", "trueup_preflight"))
# Characters of a traceback's last line that are shown.
_LAST_WORDS = 300
# Lookups of playbooks/: a worker takes 20 ms to read the documentation of one.
_LOOKUPS = ("env", "vars", "varnames")
# The keys of an earlier manifest that are kept.
_KEPT: dict[str, type[dict[str, Any] | list[Any]]] = {
    **dict.fromkeys(("hosts", "failed_in", "chosen", "refused"), dict),
    **dict.fromkeys(("expected", "skipped", "warnings"), list),
}


class AnswerRefused(AnsibleError):
    """A node's answer that does not fit. No action of ours mends it, as it would a failed module:
    the task fails."""


class CallbackModule(CallbackBase):
    """Ansible calls the ``v2_`` methods."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "trueup_records"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self._started_at = _now()
        self._playbook = ""
        # Whether some play of it measures, and the run that is resumed.
        self._measures = False
        self._resume = ""
        self._run_id = ""
        # The play's trueup_results, once a run is begun.
        self._results = ""
        self._warnings: list[str] = []
        # Of the play that runs: its hosts, those of its batch (serial), and roles that failed.
        self._play_hosts: set[str] = set()
        self._batch: set[str] = set()
        self._failed_roles: dict[str, list[str]] = {}
        # Roles that failed on a host while it was configured, which fail the run at its end.
        self._lost_roles: dict[str, list[str]] = {}
        # The last failure on each host: where, and which hosts it ended.
        self._failures: dict[str, tuple[str, set[str]]] = {}
        # Until Ansible counts, at the end: whom it cannot reach, and who failed and did not go on.
        self._unreachable: set[str] = set()
        self._ended: dict[str, str] = {}
        # Skipped and unmeasured work so far, with the reasons.
        self._skipped: list[dict[str, str]] = []
        self._plans = False

    def v2_playbook_on_start(self, playbook: Any) -> None:
        gate.guard(ActionBase, gate.documented(_LIBRARY), _refuse)
        # Workers are forked from this process, one for every task of every node: they need not
        # load again the modules that are loaded here (docs/dev/measurements.md).
        filter_loader.get(project.full_name("trueup_family"))
        test_loader.get("match")
        os.register_at_fork(after_in_child=_spare_the_collector)
        # Ansible leaves lines to the buffer of a file or pipe: a log would be silent for minutes,
        # and would lack the last ones where the run is killed.
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(line_buffering=True)
        for name in _LOOKUPS:
            lookup_loader.get(f"ansible.builtin.{name}")
        self._playbook = os.path.basename(str(playbook._file_name))
        self._measures = any(_MEASURES.intersection(play.tags) for play in playbook.get_plays())

    def v2_playbook_on_play_start(self, play: Any) -> None:
        variables = play.get_variable_manager()
        inventory = variables._inventory
        self._resume = str(variables.extra_vars.get("trueup_resume", ""))
        self._results = self._results or str(variables.extra_vars.get("trueup_results", ""))
        meant = inventory.get_hosts(play.hosts, ignore_restrictions=True)
        # The localhost that no inventory lists is the controller, and no node.
        self._play_hosts = {host.get_name() for host in meant if not host.implicit}
        # Before Ansible looks for a host's facts in a file of its name.
        if wrong := host_names.problems(self._play_hosts):
            self._stop(" ".join(wrong))
        self._batch = {host.get_name() for host in inventory.get_hosts(play.hosts)}
        self._failed_roles = {}
        if self._run_id:
            self._write_progress()

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        del is_conditional
        if _action(task) in _PLANNERS and not self._plans:
            self._plans = True
            for name in ("trueup_plan", "gpu_facts"):
                sys.modules[
                    action_loader.get(project.full_name(name), class_only=True).__module__
                ].preload()
        if _is_recorder(task):
            gate.preload()

    def v2_runner_on_ok(self, result: Any) -> None:
        self._ended.pop(result._host.get_name(), None)
        self._keep(result)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        self._unreachable.add(result._host.get_name())

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        self._keep(result)  # a failed benchmark is kept either way
        if not ignore_errors:
            self._note_failure(result)
            self._say_without_answer(result)

    def v2_runner_item_on_ok(self, result: Any) -> None:
        self._keep(result)

    def v2_runner_item_on_failed(self, result: Any) -> None:
        self._keep(result)
        self._say_without_answer(result)

    def v2_playbook_on_stats(self, stats: Any) -> None:
        hosts = {
            host: {_COUNTS.get(name, name): count for name, count in stats.summarize(host).items()}
            for host in sorted(stats.processed)
        }
        custom = getattr(stats, "custom", {})
        skipped = [
            {"node": host, "what": item["what"], "why": item["why"]}
            for host in sorted(hosts)
            for item in custom.get(host, {}).get("trueup_skipped", [])
        ]
        chosen = {
            host: {
                name.removeprefix("trueup_"): value
                for name, value in custom[host].items()
                if name.startswith("trueup_") and name != "trueup_skipped"
            }
            for host in sorted(set(hosts) & set(custom))
        }
        self._ended = {}
        nobody = bool(hosts) and self._unreachable >= set(hosts)
        if self._measures and not self._run_id and nobody:
            # Nobody was there to start it: without a run of today, yesterday's would be judged.
            self._run_id = records.run_of(self._folder(), self._resume)
        self._write_manifest(
            hosts=hosts,
            failed_in=self._failed_in(hosts),
            skipped=skipped,
            chosen={host: choices for host, choices in chosen.items() if choices},
            finished_at=_now(),
        )
        self._report(custom.get("_run", {}).get("trueup_report"))
        self._fail_for_refused(hosts)

    def _note_failure(self, result: Any) -> None:
        host, task = result._host.get_name(), result._task
        roles = self._failed_roles.setdefault(host, [])
        if task._role is None:
            # A play that fails at its end, after roles that did (playbooks/benchmark.yml).
            lost = self._lost_roles.get(host, [])
            where = ", ".join(dict.fromkeys([*lost, *roles])) or str(result.task_name)
        else:
            where = str(task._role.get_name(include_role_fqcn=False))
            if where not in roles:
                roles.append(where)
        self._ended[host] = where
        # A task that runs once ends all hosts, of which Ansible counts one.
        self._failures[host] = (where, self._batch if task.run_once else {host})

    def _fail_for_refused(self, hosts: Mapping[str, Mapping[str, int]]) -> None:
        """End the run with status 1 where an answer was refused and a play tolerated that."""
        refused = gate.noted(DEFAULT_LOCAL_TMP)
        bad = {name for name, counts in hosts.items() if counts["failed"] or counts["unreachable"]}
        if set(refused) - bad:
            problems = [
                f"{node}: {reason}" for node, reasons in refused.items() for reason in reasons
            ]
            self._stop(f"refused: {'; '.join(problems)}")

    def _say_without_answer(self, result: Any) -> None:
        """One sentence for a module that gave no answer, of which Ansible shows a traceback."""
        last = _last_words(str(result._result.get("module_stderr", "")))
        if last:
            host = result._host.get_name()
            full = " `df -h` and `df -i` there show what is full." if "No space" in last else ""
            self._display.error(f"{host}: a module ended without an answer: {last}.{full}")

    def _failed_in(self, hosts: dict[str, dict[str, int]]) -> dict[str, str]:
        """Where each host failed for good; failures that were rescued do not count as failed."""
        final = {host: last for host, last in self._failures.items() if hosts[host]["failed"]}
        failed_at = {host: where for where, ended in final.values() for host in ended}
        failed_at |= {host: where for host, (where, _) in final.items()}
        lost = {host for host, counts in hosts.items() if counts["unreachable"]}
        return {host: where for host, where in failed_at.items() if host not in lost}

    def _report(self, folder: str | None) -> None:
        """Write the report of the run, which has ended: only now is it known how."""
        if not folder or not self._run_id or ansible.context.CLIARGS.get("check"):
            return
        run = Path(self._folder()) / self._run_id
        argv = [*project.command(sys.executable), "report", str(run)]
        try:
            written = subprocess.run(  # noqa: S603 WHY: our own command, no shell
                [*argv, "--output", folder], capture_output=True, text=True, check=False
            )
        except OSError as error:
            reason = f"{argv[0]} cannot be run: {error.strerror}"
        else:
            self._display.display((written.stdout + written.stderr).strip())
            status = written.returncode
            reason = f"trueup report ended with status {status}" if status else ""
        if reason:
            self._stop(f"no report: {reason}")

    def _write_progress(self) -> None:
        """Write who was lost so far: plays that judge ask why a node has no record."""
        self._write_manifest(
            hosts={host: {"unreachable": 1} for host in sorted(self._unreachable)},
            failed_in=dict(self._ended),
        )

    def _write_manifest(self, finished_at: str | None = None, **facts: Any) -> None:
        """Write ``run.json``; a play that measured nothing has no run and leaves none.

        Args:
            facts: hosts and failed_in as far as they are known; at the end of a run skipped and
                chosen too.
        """
        if not self._run_id or ansible.context.CLIARGS.get("check"):
            return
        target = Path(self._folder()) / self._run_id / "run.json"
        before = _read(target)
        earlier_hosts, hosts = before.get("hosts", {}), facts.get("hosts", {})
        # Where a host failed counts until it takes part again.
        failures = before.get("failed_in", {}).items()
        earlier = {host: where for host, where in failures if host not in hosts}
        manifest = {
            # A resumed run keeps its first start time and its earlier entries.
            **records.new_manifest(
                self._run_id,
                before.get("count") or 0,
                self._playbook,
                before.get("started_at", self._started_at),
            ),
            "finished_at": finished_at,
            # Each play adds its own. A run that an older release began names those with a task.
            "expected": sorted(self._play_hosts.union(before.get("expected", earlier_hosts))),
            "hosts": {**earlier_hosts, **hosts},
            "failed_in": {**earlier, **facts.get("failed_in", {})},
            "skipped": _joined(
                _joined(before.get("skipped", []), facts.get("skipped", [])), self._skipped
            ),
            "chosen": {**before.get("chosen", {}), **facts.get("chosen", {})},
            "warnings": _joined(before.get("warnings", []), self._warnings),
            "refused": {**before.get("refused", {}), **gate.noted(DEFAULT_LOCAL_TMP)},
        }
        try:
            records.write_manifest(self._folder(), manifest)
        except TrueupError as error:
            self._stop(f"{error}; the run is stopped")

    def _keep(self, result: Any) -> None:
        returned, action = result._result, _action(result._task)
        facts = returned.get("ansible_facts") or {}
        if "trueup_node" in facts:
            host = result._host.get_name()
            self._warnings += [f"{host}: {text}" for text in facts["trueup_node"]["warnings"]]
        if action == "set_fact":
            self._take(result, facts)
        elif action == "trueup_skips":
            self._skipped = _joined(self._skipped, _skips(result, returned.get("skips") or ()))
        elif _is_recorder(result._task):
            # A case that earlier results have made needless.
            needless = returned.get("needless") if action == "trueup_measure" else None
            self._skipped = _joined(self._skipped, _skips(result, [needless] if needless else ()))
            if returned.get("record"):
                self._write(result, returned["record"], returned.get("raw"))

    def _take(self, result: Any, variables: Mapping[str, Any]) -> None:
        """Take the variables that a play sets, on the controller."""
        if "trueup_failed_roles" in variables:
            self._lost_roles[result._host.get_name()] = list(variables["trueup_failed_roles"])
        unmeasured = variables.get("trueup_unmeasured_here") or ()
        self._skipped = _joined(self._skipped, _skips(result, unmeasured))
        run_id = str(variables.get("trueup_run_id", ""))
        if run_id and not self._run_id:
            self._results = str(variables.get("trueup_results") or "")
            if not records.is_run_id(run_id):
                self._stop(f"trueup_run_id is {run_id!r}: it must be like 20261120T091300Z-7c1e")
            self._run_id = run_id
            self._write_progress()
            self._name_run()

    def _folder(self) -> str:
        """The folder of all results."""
        return os.path.expanduser(self._results or str(self.get_option("results_dir")))

    def _name_run(self) -> None:
        """Answer ``make run``, which asks by ``TRUEUP_RUN_FILE`` which run it was."""
        run_file = os.environ.get("TRUEUP_RUN_FILE")
        if not run_file:
            return
        try:
            Path(run_file).write_text(self._run_id)
        except OSError as error:
            reason = error.strerror
            self._stop(
                f"TRUEUP_RUN_FILE {run_file} could not be written: {reason}; the run is stopped"
            )

    def _stop(self, reason: str) -> NoReturn:
        """End the run with status 1.

        Ansible turns a callback's exception into a warning and goes on: a run whose records are
        lost must not look like a good one, and measuring on would only burn money.
        """
        if terminal.screen is not None:
            terminal.screen.finish()
        self._display.error(reason)
        sys.stdout.flush()
        os._exit(1)

    def _write(self, result: Any, record: dict[str, Any], raw: str | None) -> None:
        try:
            record = too_short.marked(record, project.CATALOG)
            path = records.write_record(self._folder(), record, raw)
        except TrueupError as error:
            self._stop(f"{error}; the run is stopped")
        status = f"recorded {record['outcome']}"
        if terminal.screen is None or not terminal.screen.take(result, status, path):
            self._display.display(f"{status}: {path}", color="bright blue")


def _action(task: Any) -> str:
    """The name of a task's action, without a collection where it is Ansible's own or none."""
    name = project.short_name(str(task.action))
    return name.removeprefix("ansible.builtin.").removeprefix("ansible.legacy.")


def _is_recorder(task: Any) -> bool:
    """Whether a task returns a record that is to be written."""
    name = _action(task)
    measures = name.endswith("_bench") and (_LIBRARY / f"{name}.py").is_file()
    # A job that is left to itself answers to nobody.
    return (name in _RECORDERS or measures) and not task.async_val


def _refuse(sender: str, reason: str) -> NoReturn:
    """Fail a task whose node gave an answer that does not fit."""
    gate.note(DEFAULT_LOCAL_TMP, sender, reason)
    message = f"{sender} is not believed: {reason}"
    raise AnswerRefused(message)


def _read(path: Path) -> dict[str, Any]:
    """An earlier manifest of the run; empty when there is none that can be read."""
    try:
        manifest = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    if not isinstance(manifest, dict):
        return {}
    is_valid = all(isinstance(manifest.get(name, kind()), kind) for name, kind in _KEPT.items())
    return manifest if is_valid else {}


def _last_words(stderr: str) -> str:
    """The error at the end of a Python's traceback; empty where there is none."""
    matches = re.findall(r"^(?:\w+\.)*\w+(?:Error|Exception)(?:: .*)?$", stderr, re.MULTILINE)
    last = matches[-1].rstrip(".")[:_LAST_WORDS] if "Traceback" in stderr and matches else ""
    # The node's own words, on the user's terminal.
    return "".join(char if char.isprintable() else "?" for char in last)


def _skips(result: Any, items: Iterable[Mapping[str, str]]) -> list[dict[str, str]]:
    node = result._host.get_name()
    return [{"node": node, "what": item["what"], "why": item["why"]} for item in items]


def _joined(before: list[Any], now: list[Any]) -> list[Any]:
    """The entries of both, each once, in their order."""
    joined = list(before)
    for item in now:
        if item not in joined:
            joined.append(item)
    return joined


def _spare_the_collector() -> None:
    """Exclude the objects from before the fork from a worker's garbage collection. The collector
    would scan them some ten times in the half second that a worker lives."""
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
