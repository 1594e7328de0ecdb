"""What listing Azure's machines costs: calls and seconds of the inventory plugin azure_hpc.

The emulated cloud answers on the loopback, so that the network's and Azure's own time is not in it.

- 5,000 machines take less than 5 s of the controller's CPU (3.1 were measured).
- Calls: at most 1 + machines / 1,000 + uniform scale sets.

``TRUEUP_BENCH_AZURE_RM=FOLDER``, an environment with the collection azure.azcollection and its
requirements, lists the same machines with azure_rm in the same run (docs/azure.md).
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "bench" / "inventory")]

from azure_rm import Manager, environment  # noqa: E402
from emulated_cloud import Cloud, profile, serving  # noqa: E402

NODES = [int(text) for text in os.environ.get("TRUEUP_BENCH_MACHINES", "1,600,5000").split(",")]
OTHER = os.environ.get("TRUEUP_BENCH_AZURE_RM", "")
MOST_CPU_SECONDS = 5.0


@dataclass
class Listing:
    """One `ansible-inventory --graph`."""

    calls: int
    hosts: int
    wall_seconds: float
    cpu_seconds: float


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def listing(cloud: Cloud, program: str, inventory: str, folder: Path, **more: str) -> Listing:
    cloud.calls.clear()
    begun, before = time.monotonic(), cpu()
    done = subprocess.run(
        [program, "-i", inventory, "--graph"],
        cwd=ROOT,
        env={**os.environ, **profile(folder, cloud.url), **more},
        capture_output=True,
        text=True,
        check=False,
    )
    wall, used = time.monotonic() - begun, cpu() - before
    assert done.returncode == 0, done.stderr[-2000:]
    hosts = {line.rpartition("--")[2] for line in done.stdout.splitlines() if "--vm-" in line}
    return Listing(len(cloud.calls), len(hosts), wall, used)


@pytest.mark.parametrize("nodes", NODES)
def test_listing_machines(nodes: int, tmp_path: Path, record_property: Any) -> None:
    cloud = Manager() if OTHER else Cloud()
    for number in range(nodes):
        cloud.add_vm(f"vm-{number}", tags={"role": "compute"})
    with serving(cloud, tmp_path):
        found = listing(cloud, "ansible-inventory", "inventories/azure", tmp_path)
        print(f"\nazure_hpc, {nodes} machines: {found}")
        if OTHER:
            file = tmp_path / "azure_rm.yml"
            file.write_text("plugin: azure.azcollection.azure_rm\nauth_source: msi\n")
            (tmp_path / "ansible.cfg").write_text("[inventory]\nany_unparsed_is_failed = true\n")
            program, more = f"{OTHER}/bin/ansible-inventory", environment(tmp_path, cloud.url)
            theirs = listing(cloud, program, str(file), tmp_path, **more)
            print(f"azure_rm, {nodes} machines: {theirs}")
            assert theirs.hosts == nodes
    record_property("calls", found.calls)
    record_property("cpu_seconds", found.cpu_seconds)
    assert found.hosts == nodes
    assert found.calls <= 1 + -(-nodes // 1000)
    assert found.cpu_seconds < MOST_CPU_SECONDS
