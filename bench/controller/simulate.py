"""Run the main job's first steps on simulated nodes, and print their cost for the controller.

    python bench/controller/simulate.py tests/data/controller/local.json --nodes 10 100 600

The nodes are simulated: the connection `recorded` answers from a recording, at once. This leaves
the controller's own work, without ssh and without the time that nodes take.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# Identify, preflight and configure, as site.yml has them.
STEPS = ROOT / "molecule" / "_shared" / "converge.yml"


@dataclass(frozen=True)
class Cost:
    """A play's cost for the controller.

    Attributes:
        nodes: how many nodes there were.
        tasks: tasks of a node, the most of all nodes; skipped ones and includes count.
        ran: the same without those that were skipped.
        results: tasks of all nodes.
        wall_seconds: from start to end, of the whole process.
        cpu_seconds: of the process and of all workers, user and system.
        rss_bytes: resident memory of the largest process.
        status: exit status of ansible-playbook.
        counts: for each node, the results of its tasks (ok, changed, skipped, failures, ...).
        by_task: for each task its name, action, counts and wall seconds.
        output: output of ansible-playbook.
    """

    nodes: int
    tasks: int
    ran: int
    results: int
    wall_seconds: float
    cpu_seconds: float
    rss_bytes: int
    status: int
    counts: Mapping[str, Mapping[str, int]]
    by_task: list[dict[str, Any]]
    output: str

    @property
    def summary(self) -> str:
        """One line of figures."""
        per_result = self.cpu_seconds / max(1, self.results) * 1000
        return (
            f"{self.nodes} nodes: {self.ran} tasks a node ran and {self.tasks - self.ran} were "
            f"skipped, wall {self.wall_seconds:.1f} s "
            f"({self.wall_seconds / self.nodes:.3f} s a node), CPU {self.cpu_seconds:.1f} s "
            f"({self.cpu_seconds / self.nodes:.3f} s a node, {per_result:.1f} ms a task and node), "
            f"largest process {self.rss_bytes / 2**20:.0f} MiB"
        )


def simulate(
    recording: Path,
    nodes: int,
    folder: Path,
    *,
    playbook: Path = STEPS,
    settings: Mapping[str, str] | None = None,
) -> Cost:
    """Run ``playbook`` in check mode on simulated nodes; ``settings`` are environment variables."""
    recorded = json.loads(recording.read_text(encoding="utf-8"))
    inventory = folder / "inventory.ini"
    inventory.write_text(f"node-[0001:{nodes:04}]\n")
    variables = {
        # The health check's measurements are no part of the first steps.
        **({"trueup_health_benchmarks": []} if playbook == STEPS else {}),
        **recorded["variables"],
        "ansible_connection": "recorded",
        "ansible_recorded_file": str(recording),
    }
    return run(
        ["--inventory", str(inventory), "--check", "--extra-vars", json.dumps(variables)],
        folder,
        playbook=playbook,
        settings={"TRUEUP_COST_RECORDING": str(recording), **(settings or {})},
    )


def run(arguments: list[str], folder: Path, *, playbook: Path, settings: Mapping[str, str]) -> Cost:
    """Run ansible-playbook with this project's configuration, and measure it."""
    report, printed = folder / "cost.json", folder / "output.txt"
    report.unlink(missing_ok=True)
    environment = {
        **os.environ,
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_CONNECTION_PLUGINS": str(HERE / "connection_plugins"),
        "ANSIBLE_CALLBACK_PLUGINS": f"{ROOT / 'plugins/callback'}:{HERE / 'callback_plugins'}",
        "ANSIBLE_CALLBACKS_ENABLED": "trueup_records,controller_cost",
        "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(folder / "facts"),
        "TRUEUP_RESULTS": str(folder / "results"),
        "TRUEUP_COST_FILE": str(report),
        **settings,
    }
    command = [str(Path(sys.executable).with_name("ansible-playbook")), *arguments, str(playbook)]
    begun = time.monotonic()
    with printed.open("wb") as stream:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
        )
        # The usage of a process includes that of the workers that it has waited for.
        _, waited, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(waited)
    wall = time.monotonic() - begun
    output = printed.read_text(encoding="utf-8", errors="replace")
    if not report.exists():
        message = f"ansible-playbook ended with status {process.returncode}:\n{output[-4000:]}"
        raise RuntimeError(message)
    counted = json.loads(report.read_text(encoding="utf-8"))
    per_node = [host["tasks"] for host in counted["hosts"].values()]
    return Cost(
        nodes=len(per_node),
        tasks=max(per_node),
        ran=max(host["tasks"] - host["skipped"] for host in counted["hosts"].values()),
        results=sum(per_node),
        wall_seconds=wall,
        cpu_seconds=usage.ru_utime + usage.ru_stime,
        rss_bytes=usage.ru_maxrss * 1024,
        status=process.returncode,
        counts=counted["hosts"],
        by_task=counted["tasks"],
        output=output,
    )


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recording", type=Path)
    parser.add_argument("--nodes", type=int, nargs="+", default=[10, 100, 600])
    parser.add_argument("--playbook", type=Path, default=STEPS)
    parser.add_argument("--setting", action="append", default=[], metavar="VARIABLE=VALUE")
    parser.add_argument("--tasks", action="store_true", help="show what each task took")
    arguments = parser.parse_args()
    settings = dict(setting.split("=", 1) for setting in arguments.setting)
    for nodes in arguments.nodes:
        with tempfile.TemporaryDirectory() as folder:
            cost = simulate(
                arguments.recording.resolve(),
                nodes,
                Path(folder),
                playbook=arguments.playbook.resolve(),
                settings=settings,
            )
        if cost.status:
            sys.exit(cost.output[-4000:])
        print(cost.summary, flush=True)
        if arguments.tasks:
            for task in cost.by_task:
                print(
                    f"  {task['seconds']:7.2f} s  {task['action']:32} {task['name']}"
                    f" (ok {task['ok']}, skipped {task['skipped']})"
                )


if __name__ == "__main__":
    main()
