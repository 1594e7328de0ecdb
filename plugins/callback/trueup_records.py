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
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import ansible.context
from ansible.errors import AnsibleError
from ansible.plugins.callback import CallbackBase
from ansible.plugins.loader import action_loader, filter_loader, lookup_loader, test_loader

# Ansible loads this before anything else of the project's.
try:
    if find_spec("jsonschema") is None:
        raise ModuleNotFoundError(name="jsonschema")
    from trueup import record as records
    from trueup.errors import TrueupError
    from trueup_controller import host_names
except ModuleNotFoundError as missing:
    message = (
        f"The Python of this Ansible has no {missing.name}, which trueup's plays need: run `make"
        " controller-venv` in trueup's checkout, and use the ansible-playbook in its .venv/bin."
    )
    raise AnsibleError(message) from None

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from jsonschema import ValidationError

DOCUMENTATION = r"""
name: trueup_records
type: notification
short_description: Keeps the records that benchmark modules return
description:
  - Writes each record into C(results/<run_id>/) on the controller when its task ends, whether it
    succeeded or failed,
    with the tool's own output beside it. A play that is stopped later loses none of them.
  - At the end it writes C(run.json), the hosts that the run expected and what became of each,
    where they failed, what was skipped and why, and what roles chose (custom statistics
    C(trueup_*)); then the report, where C(trueup_report) named a folder for it.
requirements:
  - enabled in C(ansible.cfg) with C(callbacks_enabled)
options:
  results_dir:
    description: Folder of the results.
    type: path
    default: results
    env:
      - name: TRUEUP_RESULTS
"""

# Ansible's words and ours.
_COUNTS = {"failures": "failed"}
# Tags of plays that measure.
_MEASURES = frozenset(("health", "benchmark"))
_SCHEMA = Path(records.__file__).with_name("record.schema.json")
# Actions that plan roles.
_PLANNERS = frozenset(("trueup_plan", "trueup_preflight", "trueup_measurable"))
# Lookups of playbooks/: a worker takes 20 ms to read the documentation of one.
_LOOKUPS = ("env", "vars", "varnames")
# What of an earlier manifest is kept.
_KEPT: dict[str, type[dict[str, Any] | list[Any]]] = {
    **dict.fromkeys(("hosts", "failed_in", "chosen"), dict),
    **dict.fromkeys(("expected", "skipped", "warnings"), list),
}


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
        # What was skipped or not measured so far, with the reasons.
        self._skipped: list[dict[str, str]] = []
        self._plans = False

    def v2_playbook_on_start(self, playbook: Any) -> None:
        # Workers are forked from this process, one for every task of every node: what is loaded
        # here they need not load again (docs/controller_cost.md).
        filter_loader.get("trueup_family")
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
        if task.action in _PLANNERS and not self._plans:
            self._plans = True
            for name in ("trueup_plan", "gpu_facts"):
                sys.modules[action_loader.get(name, class_only=True).__module__].preload()

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
            self._run_id = records.run_of(str(self.get_option("results_dir")), self._resume)
        self._write_manifest(
            hosts=hosts,
            failed_in=self._failed_in(hosts),
            skipped=skipped,
            chosen={host: choices for host, choices in chosen.items() if choices},
            finished_at=_now(),
        )
        self._report(custom.get("_run", {}).get("trueup_report"))

    def _note_failure(self, result: Any) -> None:
        host, task = result._host.get_name(), result._task
        roles = self._failed_roles.setdefault(host, [])
        if task._role is None:
            # A play that fails at its end, after roles that did (playbooks/benchmark.yml).
            lost = self._lost_roles.get(host, [])
            where = ", ".join(dict.fromkeys([*lost, *roles])) or str(result.task_name)
        else:
            where = str(task._role.get_name())
            if where not in roles:
                roles.append(where)
        self._ended[host] = where
        # What runs once ends all hosts, of which Ansible counts one.
        self._failures[host] = (where, self._batch if task.run_once else {host})

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
        found = {host: where for where, ended in final.values() for host in ended}
        found |= {host: where for host, (where, _) in final.items()}
        lost = {host for host, counts in hosts.items() if counts["unreachable"]}
        return {host: where for host, where in found.items() if host not in lost}

    def _report(self, folder: str | None) -> None:
        """Write the report of the run, which has ended: only now is it known how."""
        if not folder or not self._run_id or ansible.context.CLIARGS.get("check"):
            return
        run = Path(self.get_option("results_dir")) / self._run_id
        argv = [str(Path(sys.executable).with_name("trueup")), "report", str(run)]
        try:
            written = subprocess.run(  # noqa: S603 WHY: our own command, no shell
                [*argv, "--output", folder], capture_output=True, text=True, check=False
            )
        except OSError as error:
            why = f"{argv[0]} cannot be run: {error.strerror}"
        else:
            self._display.display((written.stdout + written.stderr).strip())
            status = written.returncode
            why = f"trueup report ended with status {status}" if status else ""
        if why:
            self._stop(f"no report: {why}")

    def _write_progress(self) -> None:
        """Write who was lost so far: plays that judge ask why a node has no record."""
        self._write_manifest(
            hosts={host: {"unreachable": 1} for host in sorted(self._unreachable)},
            failed_in=dict(self._ended),
        )

    def _write_manifest(self, finished_at: str | None = None, **told: Any) -> None:
        """Write ``run.json``; a play that measured nothing has no run and leaves none.

        Args:
            told: hosts and failed_in as far as they are known; at the end of a run skipped and
                chosen too.
        """
        if not self._run_id or ansible.context.CLIARGS.get("check"):
            return
        target = Path(self.get_option("results_dir")) / self._run_id / "run.json"
        before = _read(target)
        known, hosts = before.get("hosts", {}), told.get("hosts", {})
        # Where a host failed counts until it takes part again.
        failures = before.get("failed_in", {}).items()
        earlier = {host: where for host, where in failures if host not in hosts}
        manifest = {
            # A run that is resumed began when it began, and keeps what was said of it.
            **records.new_manifest(
                self._run_id,
                before.get("count") or 0,
                self._playbook,
                before.get("started_at", self._started_at),
            ),
            "finished_at": finished_at,
            # Each play adds its own. A run that an older release began names those with a task.
            "expected": sorted(self._play_hosts.union(before.get("expected", known))),
            "hosts": {**known, **hosts},
            "failed_in": {**earlier, **told.get("failed_in", {})},
            "skipped": _joined(
                _joined(before.get("skipped", []), told.get("skipped", [])), self._skipped
            ),
            "chosen": {**before.get("chosen", {}), **told.get("chosen", {})},
            "warnings": _joined(before.get("warnings", []), self._warnings),
        }
        try:
            records.write_manifest(str(self.get_option("results_dir")), manifest)
        except TrueupError as error:
            self._stop(f"{error}; the run is stopped")

    def _keep(self, result: Any) -> None:
        returned = result._result
        facts = returned.get("ansible_facts") or {}
        if "trueup_node" in facts:
            host = result._host.get_name()
            self._warnings += [f"{host}: {text}" for text in facts["trueup_node"]["warnings"]]
        if "trueup_failed_roles" in facts:
            self._lost_roles[result._host.get_name()] = list(facts["trueup_failed_roles"])
        # A case that what was measured has made needless.
        needless = returned.get("needless")
        for items in (
            facts.get("trueup_unmeasured_here"),
            returned.get("skips"),
            [needless] if needless else None,
        ):
            self._skipped = _joined(self._skipped, _skips(result, items or ()))
        if "trueup_run_id" in facts and not self._run_id:
            self._run_id = str(facts["trueup_run_id"])
            self._write_progress()
            self._name_run()
        record = returned.get("record")
        if isinstance(record, dict) and record.get("schema") == records.SCHEMA:
            self._write(record, returned.get("raw"))

    def _name_run(self) -> None:
        """Answer ``make run``, which asks by ``TRUEUP_RUN_FILE`` which run it was."""
        asked = os.environ.get("TRUEUP_RUN_FILE")
        if not asked:
            return
        try:
            Path(asked).write_text(self._run_id)
        except OSError as error:
            why = error.strerror
            self._stop(f"TRUEUP_RUN_FILE {asked} could not be written: {why}; the run is stopped")

    def _stop(self, why: str) -> NoReturn:
        """End the run with status 1.

        Ansible turns a callback's exception into a warning and goes on: a run whose records are
        lost must not look like a good one, and measuring on would only burn money.
        """
        self._display.error(why)
        sys.stdout.flush()
        os._exit(1)

    @cached_property
    def _problem(self) -> Callable[[dict[str, Any]], ValidationError | None]:
        """What is most wrong in a record. The import takes up to a second, which a play that
        measures nothing does not need."""
        from jsonschema import Draft202012Validator  # noqa: PLC0415
        from jsonschema.exceptions import best_match  # noqa: PLC0415

        validator = Draft202012Validator(json.loads(_SCHEMA.read_text()))
        return lambda record: best_match(validator.iter_errors(record))

    def _write(self, record: dict[str, Any], raw: str | None) -> None:
        try:
            problem = self._problem(record)
            if problem is not None:
                where = "/".join(str(part) for part in problem.absolute_path) or "the record"
                message = f"record of {record.get('benchmark')}: {where}: {problem.message}"
                raise TrueupError(message)
            path = records.write_record(str(self.get_option("results_dir")), record, raw)
        except TrueupError as error:
            self._stop(f"{error}; the run is stopped")
        self._display.display(f"recorded {record['outcome']}: {path}", color="bright blue")


def _read(path: Path) -> dict[str, Any]:
    """An earlier manifest of the run; empty when there is none that can be read."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    known = all(isinstance(found.get(name, kind()), kind) for name, kind in _KEPT.items())
    return found if known else {}


def _last_words(stderr: str) -> str:
    """The error at the end of a Python's traceback; empty where there is none."""
    found = re.findall(r"^(?:\w+\.)*\w+(?:Error|Exception)(?:: .*)?$", stderr, re.MULTILINE)
    return found[-1].rstrip(".") if "Traceback" in stderr and found else ""


def _skips(result: Any, items: Iterable[Mapping[str, str]]) -> list[dict[str, str]]:
    node = result._host.get_name()
    return [{"node": node, "what": item["what"], "why": item["why"]} for item in items]


def _joined(before: list[Any], now: list[Any]) -> list[Any]:
    return before + [item for item in now if item not in before]


def _spare_the_collector() -> None:
    """Let a worker's garbage collector leave alone what the worker was forked with, which it would
    look through some ten times in the half second that a worker lives."""
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
