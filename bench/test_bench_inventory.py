"""What listing Azure's machines costs: calls and seconds of the inventory plugin azure_hpc.

The emulated cloud answers on the loopback, so that the network's and Azure's own time is not in it.

- 5,000 machines take less than 5 s of the controller's CPU (3.1 were measured).
- Calls: at most 1 + machines / 1,000 + uniform scale sets.

``TRUEUP_BENCH_AZURE_RM=FOLDER``, an environment with the collection azure.azcollection and its
requirements, lists the same machines with azure_rm in the same run (docs/azure.md), and those of a
deployment.
"""

from __future__ import annotations

import json
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
from emulated_cloud import SUBSCRIPTION, Cloud, profile, serving  # noqa: E402

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


@pytest.mark.skipif(not OTHER, reason="TRUEUP_BENCH_AZURE_RM names no environment")
def test_azure_rm_lists_what_was_deployed(tmp_path: Path) -> None:
    cloud = Cloud()
    template = json.loads((ROOT / "tests/data/azure/template-devito-hbv3.json").read_text())
    group = f"/subscriptions/{SUBSCRIPTION}/resourcegroups/one"
    version = {"api-version": "2025-04-01"}
    cloud.do("PUT", group, version, {"location": "southcentralus"})
    properties = {
        "mode": "Incremental",
        "template": template,
        "parameters": {"sshPublicKey": {"value": "ssh-ed25519 AAAA one"}},
    }
    path = f"{group}/providers/Microsoft.Resources/deployments/one"
    cloud.do("PUT", path, version, {"properties": properties})
    cloud.settle()
    with serving(cloud, tmp_path):
        file = tmp_path / "azure_rm.yml"
        file.write_text(
            "plugin: azure.azcollection.azure_rm\nauth_source: msi\nplain_host_names: true\n"
            "include_vmss_resource_groups: ['*']\n"
        )
        (tmp_path / "ansible.cfg").write_text("[inventory]\nany_unparsed_is_failed = true\n")
        done = subprocess.run(
            [f"{OTHER}/bin/ansible-inventory", "-i", str(file), "--list"],
            cwd=ROOT,
            env={
                **os.environ,
                **profile(tmp_path, cloud.url),
                **environment(tmp_path, cloud.url),
            },
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-2000:]
    said = json.loads(done.stdout, object_hook=lambda one: one.get("__ansible_unsafe", one))
    found = said["_meta"]["hostvars"].values()
    # azure_rm gives no size of an instance of a uniform set.
    assert {
        (one["virtual_machine_size"], one["powerstate"], one["private_ipv4_addresses"][0])
        for one in found
    } == {
        ("Standard_D4d_v5", "running", "10.42.128.4"),
        (None, "running", "10.42.0.4"),
        (None, "running", "10.42.0.5"),
    }
    assert {one["tags"]["recipe"] for one in found} == {"devito-hbv3"}
