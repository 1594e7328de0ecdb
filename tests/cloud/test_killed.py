"""The controller dies at random moments of a run: the login node's switch stops the machines, and
what is left after that is found and removed by one command."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from conftest import SMALL, Site, emulated
from helpers import ROOT
from trueup_controller.azure import self_destruct

KILLS = int(os.environ.get("TRUEUP_CLOUD_KILLS", "10"))
# From the beginning of a run to its end on a quiet machine.
WITHIN_SECONDS = 100
SEED = int(os.environ.get("TRUEUP_CLOUD_SEED", "18"))


def children(of: int) -> list[int]:
    """A process and all below it: Ansible's workers have sessions of their own."""
    found = [of]
    for one in found:
        for task in Path(f"/proc/{one}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += map(int, task.read_text().split())
    return found


def kill(process: subprocess.Popen[bytes]) -> int:
    """SIGKILL to all of it at once, as a power cut does; how many there were."""
    there = children(process.pid)
    for one in there:
        with contextlib.suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)
    process.wait()
    return len(there)


def billing(site: Site, group: str) -> list[str]:
    """The machines of a group that run."""
    marker = f"/resourcegroups/{group}/"
    machines = site.cloud.state()["machines"]
    return [
        one["id"]
        for one in machines
        if marker in one["id"].lower() and one["power"] not in (None, "deallocated")
    ]


def test_a_dead_controller_leaves_nothing_that_bills(tmp_path: Path) -> None:
    moments = random.Random(SEED)
    with emulated(tmp_path) as site:
        ends: dict[str, datetime] = {}
        for number in range(KILLS):
            group = f"trueup-killed-{number}"
            # Time enough for a run that is not killed; a tag has minutes.
            end = datetime.now(UTC) + timedelta(seconds=WITHIN_SECONDS + 120)
            ends[group] = end.replace(second=0, microsecond=0)
            parameters = site.parameters(
                {"trueup_benchmarks": ["stream"]},
                nodes=SMALL,
                resource_group=group,
                expires=ends[group].strftime("%Y-%m-%dT%H:%MZ"),
            )
            after = moments.uniform(1, WITHIN_SECONDS)
            process = site.begin("devito-hbv3", parameters)
            time.sleep(after)
            there = kill(process)
            left = [len(billing(site, group)), len(site.left())]
            print(
                f"killed {there} processes after {after:.0f} s: machines, all that is there: {left}"
            )
        for group, end in ends.items():
            late = end + timedelta(minutes=self_destruct.WITHIN_MINUTES)
            while billing(site, group):
                assert datetime.now(UTC) < late, f"{group} bills: {billing(site, group)}"
                time.sleep(1)
        assert site.running() == []
        done = subprocess.run(
            ["trueup", "azure", "leftovers", "--delete"],
            cwd=ROOT,
            env=site.env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, site.left()) == (0, []), done.stdout + done.stderr
