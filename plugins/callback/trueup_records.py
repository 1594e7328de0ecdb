"""Write every record that a benchmark module returns, as soon as it returns it."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import jsonschema
from ansible.plugins.callback import CallbackBase
from trueup import record as records
from trueup.errors import TrueupError

DOCUMENTATION = r"""
name: trueup_records
type: notification
short_description: Keeps the records that benchmark modules return
description:
  - Writes each record into C(results/<run_id>/) on the controller when its task ends, whether it
    succeeded or failed,
    with the tool's own output beside it. A play that is stopped later loses none of them.
  - At the end it writes C(run.json), the run's hosts, what was skipped and why.
requirements:
  - enabled in C(ansible.cfg) with C(callbacks_enabled)
options:
  results_dir:
    description: Folder of the results.
    type: path
    default: results
    env:
      - name: TRUEUP_RESULTS
    ini:
      - section: callback_trueup_records
        key: results_dir
"""

_SCHEMA = Path(records.__file__).with_name("record.schema.json")


class CallbackModule(CallbackBase):  # type: ignore[misc]  # WHY: ansible has no types
    """Ansible calls the ``v2_`` methods."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "trueup_records"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self._validator = jsonschema.Draft202012Validator(json.loads(_SCHEMA.read_text()))
        self._started_at = _now()
        self._playbook = ""
        self._run_id = ""

    def v2_playbook_on_start(self, playbook: Any) -> None:
        self._playbook = os.path.basename(str(playbook._file_name))

    def v2_runner_on_ok(self, result: Any) -> None:
        self._keep(result)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        del ignore_errors  # a failed benchmark is kept either way
        self._keep(result)

    def v2_runner_item_on_ok(self, result: Any) -> None:
        self._keep(result)

    def v2_runner_item_on_failed(self, result: Any) -> None:
        self._keep(result)

    def v2_playbook_on_stats(self, stats: Any) -> None:
        if not self._run_id:
            return
        per_host = {
            host: {
                name: int(count)
                for name, count in stats.summarize(host).items()
                if name in ("ok", "changed", "failures", "unreachable", "skipped", "rescued")
            }
            for host in sorted(stats.processed)
        }
        custom = getattr(stats, "custom", {})
        skipped = [
            {"node": host, **item}
            for host in sorted(custom)
            for item in custom[host].get("trueup_skipped", [])
        ]
        manifest = {
            "schema": "trueup.run/1",
            "run_id": self._run_id,
            "playbook": self._playbook,
            "started_at": self._started_at,
            "finished_at": _now(),
            "hosts": per_host,
            "skipped": skipped,
            "warnings": [],
        }
        target = Path(self.get_option("results_dir")) / self._run_id / "run.json"
        temporary = target.with_suffix(".tmp")
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps(manifest, indent=2, sort_keys=True) + "\n")
        temporary.replace(target)

    def _keep(self, result: Any) -> None:
        returned = result._result
        run_id = (returned.get("ansible_facts") or {}).get("trueup_run_id")
        if run_id:
            self._run_id = str(run_id)
        record = returned.get("record")
        if not isinstance(record, dict) or record.get("schema") != records.SCHEMA:
            return
        problem = jsonschema.exceptions.best_match(self._validator.iter_errors(record))
        try:
            if problem is not None:
                where = "/".join(str(part) for part in problem.absolute_path) or "the record"
                message = f"record of {record.get('benchmark')}: {where}: {problem.message}"
                raise TrueupError(message)
            path = records.write_record(
                str(self.get_option("results_dir")), record, returned.get("raw")
            )
        except TrueupError as error:
            # Ansible turns a callback's exception into a warning and goes on: a run whose records
            # are lost must not
            # look like a good one, and measuring on would only burn money.
            self._display.error(f"{error}; the run is stopped")
            sys.stdout.flush()
            os._exit(1)
        self._display.display(f"recorded {record['outcome']}: {path}", color="bright blue")


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
