"""Count the tasks that the nodes of a play ran, for the benchmark of the controller."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from ansible.plugins.callback import CallbackBase
from ansible.plugins.loader import connection_loader

DOCUMENTATION = r"""
name: controller_cost
type: aggregate
short_description: Counts the tasks of each node
description:
  - Writes, to the file that E(TRUEUP_COST_FILE) names, how many tasks each node ran (skipped ones
    and includes count, since each costs the controller a process) and what each task took.
  - Loads the recording of the connection C(recorded) once, before workers are forked, so that the
    simulation costs next to nothing itself.
requirements:
  - enabled by E(ANSIBLE_CALLBACKS_ENABLED)
"""

_COUNTED = ("ok", "skipped", "failures", "unreachable")


class CallbackModule(CallbackBase):
    """Ansible calls the ``v2_`` methods."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "controller_cost"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        # By the task's id: nodes that go at their own pace answer while others begin.
        self._tasks: dict[str, dict[str, Any]] = {}
        recording = os.environ.get("TRUEUP_COST_RECORDING")
        if recording:
            module = __import__(
                connection_loader.get("recorded", class_only=True).__module__,
                fromlist=["answers_in"],
            )
            module.answers_in(recording)

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        del is_conditional
        self._begin(task)

    def v2_playbook_on_handler_task_start(self, task: Any) -> None:
        self._begin(task)

    def v2_runner_on_ok(self, result: Any) -> None:
        self._end(result, "ok")

    def v2_runner_on_skipped(self, result: Any) -> None:
        self._end(result, "skipped")

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        del ignore_errors
        self._end(result, "failed")

    def v2_playbook_on_stats(self, stats: Any) -> None:
        hosts = {host: stats.summarize(host) for host in sorted(stats.processed)}
        report = {
            "hosts": {
                host: {"tasks": sum(counts[name] for name in _COUNTED), **counts}
                for host, counts in hosts.items()
            },
            "tasks": list(self._tasks.values()),
        }
        Path(os.environ["TRUEUP_COST_FILE"]).write_text(json.dumps(report, indent=1) + "\n")

    def _begin(self, task: Any) -> None:
        about = {"name": task.get_name(), "action": task.action, "ok": 0, "skipped": 0, "failed": 0}
        begun = {**about, "begun": time.monotonic(), "seconds": 0.0}
        self._tasks.setdefault(task._uuid, begun)

    def _end(self, result: Any, counter: str) -> None:
        task = self._tasks[result._task._uuid]
        task[counter] += 1
        task["seconds"] = time.monotonic() - task["begun"]
