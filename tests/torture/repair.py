"""Repairs of planted faults of each of Azure's categories, their controller killed at every kind of
point; the emulated cloud and the nodes' state say what was done."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from torture import Tally

ROOT = Path(__file__).parents[2]
MOST_SECONDS = 60
# Lines of faults that are reported at once: none has a soft fix that is tried first.
PLANTED = (
    "NVRM: Xid (PCI:0001:00:00): 79, pid=1, GPU has fallen off the bus.",
    "NVRM: Xid (PCI:0002:00:00): 48, pid=1, DBE (double bit error)",
    "NVRM: Xid (PCI:0003:00:00): 74, pid=1, NVLink: fatal error detected on link 3",
    "NVRM: Xid (PCI:0001:00:00): 95, pid=1, Uncontained ECC error.",
    "NVRM: Xid (PCI:0001:00:00): 64, pid=1, row remap failure",
    "NVRM: Xid (PCI:0001:00:00): 119, pid=1, Timeout waiting for RPC from GSP!",
    "nvidia-nvswitch0: SXid (PCI:0005:00:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
    "NVRM: GPU 0001:00:00.0: GPU has fallen off the bus.",
    "NVRM: BAR0 is 0M @ 0x0 (PCI:0001:00:00.0)",
    "nvme nvme3: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0xffff",
    "Reason=gres/gpu count reported lower than configured (7 < 8) [slurm@2026-01-01T00:00:00]",
    "pcieport 0001:00:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer",
)


def killed(count: int, seed: int) -> Tally:
    tally = Tally()
    folders = ("tests", "module_utils", "controller", "analysis")
    sys.path[:0] = [str(ROOT / folder) for folder in folders]
    import repair_loop

    total: Counter[str] = Counter()
    seconds: list[float] = []
    with (
        repair_loop.cloud_process(count) as connection,
        tempfile.TemporaryDirectory(prefix="trueup-repair-") as folder,
    ):
        for label, figures, problems in repair_loop.campaign(Path(folder), count, seed, connection):
            total.update(figures)
            if figures["reports"]:
                seconds.append(figures["report_milliseconds"] / 1000)
            if problems:
                tally.lose(f"{label} (seed {seed}): {'; '.join(problems)}")
            else:
                tally.survived()
    tally.figures.append(
        f"{total['kills']} kills, {total['reports']} reports, {total['closed']} cases closed"
    )
    median = statistics.median(seconds)
    tally.figures.append(
        f"from a planted fault to its report: median {median:.1f} s, kills included"
    )
    if median >= MOST_SECONDS:
        tally.lose(f"the median is not below {MOST_SECONDS} s")
    return tally


def reports(count: int, _seed: int) -> Tally:
    """From a line in a node's log to its report, by the commands that an operator types. The
    evidence is collected by playbooks/evidence.yml on this machine, which stands for the node."""
    tally = Tally()
    folders = ("tests", "module_utils", "controller", "analysis")
    sys.path[:0] = [str(ROOT / folder) for folder in folders]
    import repair_loop
    from cloud import impact
    from emulated_cloud import Cloud, profile, serving

    seconds: list[float] = []
    with tempfile.TemporaryDirectory(prefix="trueup-report-") as name:
        folder, cloud = Path(name), Cloud(pace=0)
        with serving(cloud, folder):
            # A node's PATH: no Python of the person who runs this.
            path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
            environment = {**os.environ, **profile(folder, cloud.url), "PATH": path}

            def run(*words: str) -> str:
                argv = [str(Path(sys.executable).with_name("trueup")), *words]
                done = subprocess.run(
                    argv, cwd=folder, env=environment, capture_output=True, text=True, check=False
                )
                # 1: `trueup explain` found a cause.
                if done.returncode > (words[0] == "explain"):
                    raise RuntimeError(f"{words[:2]}: {done.stdout} {done.stderr}")
                return done.stdout

            for number in range(count):
                node, log = f"node-{number:04d}", folder / f"{number}.log"
                host = impact.host_of(cloud, repair_loop.add_machine(cloud, node))
                (folder / "hosts").write_text(f"{node} ansible_connection=local\n")
                log.write_text(f"[  900.000000] {PLANTED[number % len(PLANTED)]}\n")
                begun = time.monotonic()
                try:
                    explained = json.loads(run("explain", str(log), "-f", "json"))
                    fault = explained["tables"][0]["causes"][0]
                    run("case", "open", "--node", node, "--fault", fault, "--host", host)
                    run("case", "next", node, "-i", "hosts", "--yes", "--no-scheduler")
                except (RuntimeError, IndexError) as error:
                    tally.lose(f"{PLANTED[number % len(PLANTED)]}: {error}")
                    continue
                seconds.append(time.monotonic() - begun)
                if [one.puts for one in cloud.impacts.values() if one.host == host] != [1]:
                    tally.lose(f"{fault}: not reported once")
                elif not list((folder / "results" / "evidence").glob(f"*-{node}.tar.gz")):
                    tally.lose(f"{fault}: no evidence")
                else:
                    tally.survived()
    if not seconds:
        return tally
    median, most = statistics.median(seconds), max(seconds)
    tally.figures.append(
        f"from a line in the log to the report: median {median:.1f} s, most {most:.1f} s"
    )
    if median >= MOST_SECONDS:
        tally.lose(f"the median is not below {MOST_SECONDS} s")
    return tally
