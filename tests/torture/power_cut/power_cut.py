"""Callback: takes the power from a node after its Nth task, and notes what ran.

TRUEUP_POWER_PLAN is a JSON file: for a node its folder ``root``, ``pid`` of its first process, and
the moment: ``after`` that many tasks of roles and ``delay`` seconds more. TRUEUP_POWER_TOLD gets a
JSON line for each task and each loss.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

# linux/fs.h, XFS_IOC_GOINGDOWN and EXT4_IOC_SHUTDOWN: _IOR('X', 125, __u32).
_SHUTDOWN = 0x8004587D
# Nothing is written any more, the journal neither.
_WITHOUT_LOG = 2


def cut(root: str, pid: int) -> None:
    """End the node: its processes, and all of its files that had not reached the disk.

    ``pid`` is as os.kill has it; 0 where there is none.
    """
    if pid:
        os.kill(pid, signal.SIGKILL)
        # The first process of a node goes when all others have gone: none is to see its disk fail.
        for _ in range(200):
            if not Path(f"/proc/{pid}").exists():
                break
            time.sleep(0.005)
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.ioctl(folder, _SHUTDOWN, struct.pack("I", _WITHOUT_LOG))
    finally:
        os.close(folder)


def _note(path: str, **told: Any) -> None:
    with Path(path).open("a", encoding="utf-8") as stream:
        stream.write(json.dumps({"at": time.time(), **told}) + "\n")


def main() -> None:
    """Later, in a process of its own: the node, its folder, its process, the delay, the notes."""
    host, root, pid, delay, told = sys.argv[1:]
    time.sleep(float(delay))
    cut(root, int(pid))
    _note(told, host=host, lost=True)


if __name__ == "__main__":
    main()
else:
    from ansible.plugins.callback import CallbackBase

    class CallbackModule(CallbackBase):  # type: ignore[misc]
        """What the module says."""

        CALLBACK_VERSION = 2.0
        CALLBACK_TYPE = "notification"
        CALLBACK_NAME = "power_cut"
        CALLBACK_NEEDS_ENABLED = True

        def __init__(self) -> None:
            super().__init__()
            self._plan = json.loads(Path(os.environ["TRUEUP_POWER_PLAN"]).read_text())
            self._told = os.environ["TRUEUP_POWER_TOLD"]
            self._done: dict[str, int] = {}

        def v2_runner_on_ok(self, result: Any) -> None:
            self._task(result, failed=False)

        def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
            self._task(result, failed=not ignore_errors)

        def v2_runner_on_unreachable(self, result: Any) -> None:
            # A task with no_log has no message, and Ansible says so in its place.
            said = result._result.get("msg") or result._result.get("censored", "")
            _note(self._told, host=result._host.get_name(), unreachable=str(said))

        def v2_playbook_on_stats(self, stats: Any) -> None:
            hosts = {host: stats.summarize(host) for host in stats.processed}
            _note(self._told, stats=hosts)

        def _task(self, result: Any, *, failed: bool) -> None:
            task = result._task
            # Before the nodes are configured, roles only look.
            looks = task._role is None or task.name.startswith("Plan ")
            if looks and not failed:
                return
            host = result._host.get_name()
            items = [one.get("msg", "") for one in result._result.get("results", ())]
            _note(
                self._told,
                host=host,
                role="" if task._role is None else task._role.get_name(),
                task=task.name,
                changed=bool(result._result.get("changed")),
                failed=failed,
                said=" ".join(map(str, [result._result.get("msg", ""), *items]))[:2000]
                if failed
                else "",
            )
            if looks:
                return
            done = self._done[host] = self._done.get(host, 0) + 1
            moment = self._plan.get(host, {})
            if moment.get("after") != done:
                return
            if not moment["delay"]:
                cut(moment["root"], moment["pid"])
                _note(self._told, host=host, lost=True)
                return
            given = [host, moment["root"], str(moment["pid"]), str(moment["delay"]), self._told]
            subprocess.Popen([sys.executable, __file__, *given], start_new_session=True)
