"""The cost of listing Azure's machines: calls and seconds of the inventory plugin azure_hpc.

The emulated cloud answers on the loopback, so that the network's and Azure's own time is not in it.

Beside it a file of the same hosts is listed. Calls: at most 1 + machines / 1,000 + uniform scale
sets.

``TRUEUP_BENCH_AZURE_RM=FOLDER``, an environment with the collection azure.azcollection and its
requirements, lists the same machines with azure_rm in the same run (docs/guides/azure.md), and
those of a deployment.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from measure import ROOT, Spent, row, spend

if TYPE_CHECKING:
    from conftest import Bench
    from measure import Side

sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "bench" / "inventory")]

from azure_rm import Manager, environment  # noqa: E402 WHY: found by the path above
from emulated_cloud import SUBSCRIPTION, Cloud, profile, serving  # noqa: E402 WHY: likewise

NODES = [int(text) for text in os.environ.get("TRUEUP_BENCH_MACHINES", "1,600,5000").split(",")]
OTHER = os.environ.get("TRUEUP_BENCH_AZURE_RM", "")
# azure_rm took 5 to 14 times as long as azure_hpc.
BESIDE_AZURE_RM = 0.5
# Start-up, and the cost of a machine.
BESIDE_A_FILE, A_MACHINE = 1.8, 0.00085


def graph(program: str | Path, inventory: str | Path, **env: str) -> Side:
    """`ansible-inventory --graph` of an inventory."""
    return lambda: spend([program, "-i", inventory, "--graph"], env=env)


def hosts(spent: Spent) -> int:
    """How many machines it listed."""
    lines = spent.out.splitlines()
    return len({line.rpartition("--")[2] for line in lines if "--vm-" in line})


@pytest.mark.parametrize("nodes", NODES)
def test_listing_machines(bench: Bench, nodes: int, tmp_path: Path) -> None:
    cloud = Manager() if OTHER else Cloud()
    for number in range(nodes):
        cloud.add_vm(f"vm-{number}", tags={"role": "compute"})
    file = tmp_path / "hosts.ini"
    file.write_text("".join(f"vm-{number}\n" for number in range(nodes)), encoding="utf-8")
    mine = Path(sys.executable).with_name("ansible-inventory")
    figure = f"inventory, {nodes:,} machines"
    calls = []
    with serving(cloud, tmp_path):
        profile_variables = profile(tmp_path, cloud.url)

        def listed() -> Spent:
            cloud.calls.clear()
            spent = graph(mine, "inventories/azure", **profile_variables)()
            calls.append(len(cloud.calls))
            return spent

        sides = {"azure_hpc": listed, "a file": graph(mine, file, **profile_variables)}
        if OTHER:
            config = tmp_path / "azure_rm.yml"
            config.write_text("plugin: azure.azcollection.azure_rm\nauth_source: msi\n")
            (tmp_path / "ansible.cfg").write_text("[inventory]\nany_unparsed_is_failed = true\n")
            theirs = {**profile_variables, **environment(tmp_path, cloud.url)}
            sides["azure_rm"] = graph(f"{OTHER}/bin/ansible-inventory", config, **theirs)
        by_side = bench.measure(sides)
    beside = {"a file": BESIDE_A_FILE + A_MACHINE * nodes, "azure_rm": BESIDE_AZURE_RM}
    bench.judge(
        *(
            row(figure, name, by_side["azure_hpc"], by_side[name], promise=promise)
            for name, promise in beside.items()
            if name in by_side
        )
    )
    assert {hosts(spent) for each in by_side.values() for spent in each} == {nodes}
    assert max(calls) <= 1 + -(-nodes // 1000)


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
    inventory = json.loads(
        done.stdout, object_hook=lambda mapping: mapping.get("__ansible_unsafe", mapping)
    )
    machines = inventory["_meta"]["hostvars"].values()
    # azure_rm gives no size of an instance of a uniform set.
    assert {
        (
            machine["virtual_machine_size"],
            machine["powerstate"],
            machine["private_ipv4_addresses"][0],
        )
        for machine in machines
    } == {
        ("Standard_D4d_v5", "running", "10.42.128.4"),
        (None, "running", "10.42.0.4"),
        (None, "running", "10.42.0.5"),
    }
    assert {machine["tags"]["recipe"] for machine in machines} == {"devito-hbv3"}
