"""playbooks/identify.yml on described machines of the families that are configured.

One play takes them all: each node has a metadata service of its own (a stand-in on the loopback),
its /sys and /proc from tests/machines.py, and a PATH that begins with stand-ins of lscpu and
nvidia-smi, which print the described machine's files and fail on any other question.
"""

from __future__ import annotations

import contextlib
import copy
import shlex
import subprocess
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import forked
import plays
import pytest
import yaml
from machines import DATA, build, description
from metadata_server import document, send, serving
from trueup_controller.family import IDENTIFIED
from trueup_node.node.affinity import plan, srun_cpu_bind
from trueup_node.node.nvidia_smi import GPU_QUERY
from trueup_node.node.topology import cpu_mask, mask_words, parse_cpu_list, read_topology

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[2]
GIB = 1024**3

# Described machine: its size.
SIZES = {
    "nd96asr_v4": "Standard_ND96asr_v4",
    "nd96amsr_a100_v4": "Standard_ND96amsr_A100_v4",
    "nd96isr_h100_v5": "Standard_ND96isr_H100_v5",
    "nd96isr_h200_v5": "Standard_ND96isr_H200_v5",
    "hb120rs_v3": "Standard_HB120rs_v3",
    "hb120_96rs_v3": "Standard_HB120-96rs_v3",
    "hb120_64rs_v3": "Standard_HB120-64rs_v3",
    "hb120_32rs_v3": "Standard_HB120-32rs_v3",
    "hb120_16rs_v3": "Standard_HB120-16rs_v3",
    "nv36ads_a10_v5": "Standard_NV36ads_A10_v5",
}
# The same with a fault: machine it is like, and what is wrong.
FAULTS: dict[str, tuple[str, dict[str, Any]]] = {
    "seven_gpus": ("nd96isr_h100_v5", {"gpus": 7}),
    "seven_nics": ("nd96asr_v4", {"infiniband": 7}),
    "seven_disks": ("nd96asr_v4", {"nvme": 7}),
    "fewer_cpus": ("hb120rs_v3", {"numa": ["0-28", "30-59", "60-89", "90-119"]}),
    "slow_nic": ("nd96isr_h100_v5", {"infiniband": {3: {"rate": "200 Gb/sec (4X HDR)"}}}),
    "nic_down": (
        "nd96asr_v4",
        {"infiniband": {5: {"state": "1: DOWN", "rate": "10 Gb/sec (4X SDR)"}}},
    ),
    "short_memory": ("hb120rs_v3", {"memory_kib": 235271582}),
    "one_numa_node": ("nd96isr_h200_v5", {"numa": ["0-95"]}),
    "smaller_gpus": ("nd96amsr_a100_v4", {"nvidia_smi_of": "nd96asr_v4"}),
    "driver_gone": ("nd96isr_h100_v5", {"nvidia_smi": "fails"}),
}

NDV4_NUMA = ["0-23", "24-47", "48-71", "72-95"]
NDV5_NUMA = ["0-47", "48-95"]
# NUMA nodes of GPU 0 to 7 and of the NIC that each is paired with (facts: ndv4-topo.xml).
NDV4_NUMA_OF_GPU = [1, 1, 0, 0, 3, 3, 2, 2]
NDV5_NUMA_OF_GPU = [0, 0, 0, 0, 1, 1, 1, 1]
NDV4_MASKS = (
    "ffffff000000,ffffff000000,ffffff,ffffff,"
    "ffffff000000000000000000,ffffff000000000000000000,ffffff000000000000,ffffff000000000000"
)
NDV4_GPUS = ["0001", "0002", "0003", "0004", "000b", "000c", "000d", "000e"]
NDV5_GPUS = ["0001", "0002", "0003", "0008", "0009", "000a", "000b", "000c"]


def _faulty(name: str, root: Path) -> tuple[str, dict[str, Any], str | None]:
    """The size, the description and what nvidia-smi prints of a machine, with its fault."""
    like, fault = FAULTS.get(name, (name, {}))
    machine = copy.deepcopy(description(like))
    smi = DATA / like / "nvidia-smi.csv"
    printed = smi.read_text() if smi.exists() else None
    for what, change in fault.items():
        if what == "gpus" and printed is not None:
            printed = "".join(printed.splitlines(keepends=True)[: change + 1])
        elif what == "nvidia_smi":
            printed = None
        elif what == "nvidia_smi_of":
            printed = (DATA / change / "nvidia-smi.csv").read_text()
        elif isinstance(change, dict):
            for number, members in change.items():
                machine[what][number].update(members)
        elif isinstance(change, int) and isinstance(machine[what], list):
            machine[what] = machine[what][:change]
        else:
            machine[what] = change
    build(machine, root)
    return SIZES[like], machine, printed


def _stand_ins(folder: Path, like: str, printed: str | None) -> Path:
    """An interpreter whose PATH begins with stand-ins of lscpu and nvidia-smi."""
    folder.mkdir()
    answers = {"lscpu": ("--json", (DATA / like / "lscpu.json").read_text())}
    if printed is not None or (DATA / like / "nvidia-smi.csv").exists():
        answers["nvidia-smi"] = (f"--query-gpu={GPU_QUERY} --format=csv", printed or "")
    for name, (question, answer) in answers.items():
        (folder / f"{name}.answer").write_text(answer)
        works = (
            f'cat "{folder}/{name}.answer"' if answer else "echo 'stand-in: no driver' >&2; exit 9"
        )
        (folder / name).write_text(
            f"#!/bin/sh\n# Stand-in for tests: prints a described machine's answer.\n"
            f'if [ "$*" != {shlex.quote(question)} ]; then\n'
            f'  echo "stand-in: {name} $*: not known" >&2; exit 1\nfi\n{works}\n'
        )
        (folder / name).chmod(0o755)
    return forked.interpreter(folder)


@pytest.fixture(scope="module", name="play")
def _play(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """What one play over all machines printed, and each node's fact and groups."""
    folder = tmp_path_factory.mktemp("machines")
    hosts: dict[str, dict[str, str]] = {}
    with contextlib.ExitStack() as stack:
        for name in (*SIZES, *FAULTS):
            root = folder / name
            size, _, printed = _faulty(name, root)
            like = FAULTS.get(name, (name,))[0]
            vm_id = str(uuid.uuid5(uuid.NAMESPACE_DNS, name))
            url, _ = stack.enter_context(serving(send(document(vmSize=size, vmId=vm_id))))
            hosts[name] = {
                "trueup_metadata_url": url,
                "trueup_sysfs_root": str(root / "sys"),
                "trueup_procfs_root": str(root / "proc"),
                "ansible_python_interpreter": str(_stand_ins(root / "bin", like, printed)),
            }
        said, kept = plays.identify(folder, hosts)
    for name, about in kept.items():
        about["topology"] = read_topology(str(folder / name / "sys"))
    return said, kept


@pytest.fixture(name="nodes")
def _nodes(play: tuple[str, dict[str, Any]]) -> Mapping[str, Any]:
    return play[1]


@pytest.mark.parametrize(
    ("name", "family", "cpus", "numa", "gpus", "nics", "disks"),
    [
        ("nd96asr_v4", "ndv4", 96, NDV4_NUMA, 8, 8, 8),
        ("nd96amsr_a100_v4", "ndm_a100_v4", 96, NDV4_NUMA, 8, 8, 8),
        ("nd96isr_h100_v5", "nd_h100_v5", 96, NDV5_NUMA, 8, 8, 8),
        ("nd96isr_h200_v5", "nd_h200_v5", 96, NDV5_NUMA, 8, 8, 8),
        ("hb120rs_v3", "hbv3", 120, ["0-29", "30-59", "60-89", "90-119"], 0, 1, 2),
        ("hb120_96rs_v3", "hbv3", 96, ["0-23", "24-47", "48-71", "72-95"], 0, 1, 2),
        ("hb120_64rs_v3", "hbv3", 64, ["0-15", "16-31", "32-47", "48-63"], 0, 1, 2),
        ("hb120_32rs_v3", "hbv3", 32, ["0-7", "8-15", "16-23", "24-31"], 0, 1, 2),
        ("hb120_16rs_v3", "hbv3", 16, ["0-3", "4-7", "8-11", "12-15"], 0, 1, 2),
        ("nv36ads_a10_v5", "nv_a10_v5", 36, ["0-35"], 1, 0, 0),
    ],
)
def test_what_a_machine_is(
    nodes: Mapping[str, Any],
    name: str,
    family: str,
    cpus: int,
    numa: list[str],
    gpus: int,
    nics: int,
    disks: int,
) -> None:
    node = nodes[name]["node"]
    ports = [port for port in node["infiniband"] if port["link_layer"] == "InfiniBand"]
    assert nodes[name]["groups"] == sorted([family, IDENTIFIED])
    assert (node["vm_size"], node["family"], node["azure"]) == (SIZES[name], family, True)
    assert (node["cpus"], [part["cpus"] for part in node["numa"]]) == (cpus, numa)
    assert (len(node["gpus"]), len(ports)) == (gpus, nics)
    assert [disk["local"] for disk in node["nvme"]] == [True] * disks
    assert node["warnings"] == []


@pytest.mark.parametrize("name", SIZES)
def test_a_machine_is_what_its_catalog_row_expects(nodes: Mapping[str, Any], name: str) -> None:
    node = nodes[name]["node"]
    row = node["catalog"]
    ports = [port for port in node["infiniband"] if port["link_layer"] == "InfiniBand"]
    assert len(ports) == row["rdma_nics"]
    assert {(port["rate_gbps"], port["state"]) for port in ports} <= {
        (row.get("rdma_gbps_per_nic"), "ACTIVE")
    }
    assert (len(node["gpus"]), len(node["nvme"])) == (row["gpus"], row["nvme_disks"])
    assert len(node["numa"]) == row.get("numa_nodes", 1)
    assert node["memory_bytes"] / GIB == pytest.approx(row["memory_gib"], rel=0.07)
    for gpu in node["gpus"]:
        assert gpu["memory_bytes"] / GIB == pytest.approx(row["gpu_memory_gib"], rel=0.05)
        assert row["gpu_model"].partition("-")[0] in gpu["name"]
    for disk in node["nvme"]:
        # Documents write GB where they mean either: 2**30 or 10**9 bytes.
        assert 0.93 <= disk["size_bytes"] / GIB / row["nvme_gib_each"] <= 1.001


@pytest.mark.parametrize(
    ("name", "gpus", "numa_of_nic"),
    [
        ("nd96asr_v4", NDV4_GPUS, NDV4_NUMA_OF_GPU),
        ("nd96amsr_a100_v4", NDV4_GPUS, NDV4_NUMA_OF_GPU),
        ("nd96isr_h100_v5", NDV5_GPUS, NDV5_NUMA_OF_GPU),
        ("nd96isr_h200_v5", NDV5_GPUS, NDV5_NUMA_OF_GPU),
    ],
)
def test_gpus_and_their_nics(
    nodes: Mapping[str, Any], name: str, gpus: list[str], numa_of_nic: list[int]
) -> None:
    node = nodes[name]["node"]
    ports = [port for port in node["infiniband"] if port["link_layer"] == "InfiniBand"]
    assert [gpu["pci"] for gpu in node["gpus"]] == [f"{domain}:00:00.0" for domain in gpus]
    assert [port["device"] for port in ports] == [f"mlx5_ib{i}" for i in range(8)]
    assert [port["pci"] for port in ports] == [f"010{i + 1}:00:00.0" for i in range(8)]
    assert [port["numa_node"] for port in ports] == numa_of_nic


@pytest.mark.parametrize("name", ["nd96asr_v4", "nd96amsr_a100_v4"])
def test_ndv4_masks_follow_from_what_the_node_says(nodes: Mapping[str, Any], name: str) -> None:
    node = nodes[name]["node"]
    cpus = {part["node"]: parse_cpu_list(part["cpus"]) for part in node["numa"]}
    # GPU i is paired with mlx5_ib{i}.
    masks = [cpu_mask(cpus[port["numa_node"]]) for port in node["infiniband"]]
    assert ",".join(masks) == NDV4_MASKS


@pytest.mark.parametrize(
    ("name", "masks"),
    [
        (
            "nd96asr_v4",
            [
                "00000000,00000000,00ffffff",
                "00000000,0000ffff,ff000000",
                "000000ff,ffff0000,00000000",
                "ffffff00,00000000,00000000",
            ],
        ),
        ("nd96isr_h100_v5", ["00000000,0000ffff,ffffffff", "ffffffff,ffff0000,00000000"]),
        ("nd96isr_h200_v5", ["00000000,0000ffff,ffffffff", "ffffffff,ffff0000,00000000"]),
    ],
)
def test_affinity_masks_of_numa_nodes(
    nodes: Mapping[str, Any], name: str, masks: list[str]
) -> None:
    node = nodes[name]["node"]
    shown = [mask_words(parse_cpu_list(part["cpus"]), node["cpus"]) for part in node["numa"]]
    assert shown == masks


@pytest.mark.parametrize(
    ("name", "layouts"),
    [
        ("nd96asr_v4", [(4, 24, "numa"), (96, 1, "core")]),
        ("nd96isr_h100_v5", [(2, 48, "numa"), (96, 1, "core")]),
        ("hb120rs_v3", [(4, 30, "numa"), (16, 6, "l3"), (120, 1, "core")]),
        ("hb120_96rs_v3", [(4, 24, "numa"), (16, 6, "l3"), (96, 1, "core")]),
        ("hb120_64rs_v3", [(4, 16, "numa"), (16, 4, "l3"), (64, 1, "core")]),
        ("hb120_32rs_v3", [(4, 8, "numa"), (16, 2, "l3"), (32, 1, "core")]),
        ("hb120_16rs_v3", [(4, 4, "numa"), (16, 1, "l3")]),
        # 36 vCPUs are 18 cores with SMT.
        ("nv36ads_a10_v5", [(1, 18, "none"), (18, 1, "core")]),
    ],
)
def test_layouts_to_measure(
    nodes: Mapping[str, Any], name: str, layouts: list[tuple[int, int, str]]
) -> None:
    node = nodes[name]["node"]
    shown = {(x["ranks"], x["threads_per_rank"], x["binding"]) for x in node["layouts"]}
    assert set(layouts) <= shown
    most = max(ranks * threads for ranks, threads, _ in shown)
    assert most == node["cores"]


def test_documented_pinning_of_hbv3(nodes: Mapping[str, Any]) -> None:
    """Pinning examples of Azure/azurehpc, check_app_pinning_tool."""
    six = plan(nodes["hb120_96rs_v3"]["topology"], ranks=16, threads_per_rank=6, binding="l3")
    masks = srun_cpu_bind(six).removeprefix("mask_cpu:").split(",")
    assert [int(mask, 16) for mask in masks] == [0x3F << 6 * rank for rank in range(16)]
    four = plan(nodes["hb120_64rs_v3"]["topology"], ranks=16, threads_per_rank=4, binding="l3")
    assert four.per_rank[:2] == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert four.per_rank[4] == (16, 17, 18, 19)


@pytest.mark.parametrize(
    ("name", "each"),
    [
        *[("hb120rs_v3", 2), ("hb120_96rs_v3", 2), ("hb120_64rs_v3", 1)],
        *[("hb120_32rs_v3", 1), ("hb120_16rs_v3", 1)],
    ],
)
def test_stream_loads_every_l3_of_hbv3_alike(
    nodes: Mapping[str, Any], name: str, each: int
) -> None:
    """As the CPUs of Azure's own health check do (catalog/stream_placements.yml)."""
    size, topology = nodes[name]["node"]["vm_size"], nodes[name]["topology"]
    placements = yaml.safe_load((ROOT / "catalog" / "stream_placements.yml").read_text())
    [threads] = [item["threads"] for item in placements if size in item["sizes"]]
    placed = plan(topology, ranks=threads, threads_per_rank=1, binding="l3")
    cpus = {cpu for rank in placed.per_rank for cpu in rank}
    assert len(cpus) == threads
    assert [len(cpus & set(group)) for group in topology.l3_groups] == [each] * 16


@pytest.mark.parametrize(
    ("name", "warnings"),
    [
        ("seven_gpus", ["Standard_ND96isr_H100_v5 has 8 GPUs, this machine shows 7"]),
        ("seven_nics", ["Standard_ND96asr_v4 has 8 InfiniBand devices, this machine shows 7"]),
        ("seven_disks", ["Standard_ND96asr_v4 has 8 local NVMe disks, this machine shows 7"]),
        ("fewer_cpus", ["Standard_HB120rs_v3 has 120 vCPUs, this machine shows 119"]),
        ("slow_nic", ["mlx5_ib3 runs at 200 Gb/s, Standard_ND96isr_H100_v5 has 400 Gb/s"]),
        ("nic_down", ["mlx5_ib5 is DOWN, not ACTIVE"]),
        (
            "short_memory",
            ["Standard_HB120rs_v3 has 448 GiB of memory, this machine shows 224.4 GiB"],
        ),
        ("one_numa_node", ["Standard_ND96isr_H200_v5 has 2 NUMA nodes, this machine shows 1"]),
        (
            "smaller_gpus",
            [
                f"GPU {domain}:00:00.0 (NVIDIA A100-SXM4-40GB) shows 40.0 GiB,"
                " those of Standard_ND96amsr_A100_v4 have 80 GiB"
                for domain in NDV4_GPUS
            ],
        ),
        ("driver_gone", ["nvidia-smi failed with status 9: stand-in: no driver"]),
    ],
)
def test_a_wrong_machine_is_warned_of(
    play: tuple[str, dict[str, Any]], name: str, warnings: list[str]
) -> None:
    output, nodes = play
    assert nodes[name]["node"]["warnings"] == warnings
    family = nodes[FAULTS[name][0]]["node"]["family"]
    assert nodes[name]["groups"] == sorted([family, IDENTIFIED])
    printed = " ".join(output.split())
    assert all(f"Warning: {warning}" in printed for warning in warnings)


def test_a_stand_in_answers_only_what_was_recorded(tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    _stand_ins(folder, "nd96asr_v4", (DATA / "nd96asr_v4" / "nvidia-smi.csv").read_text())
    asked = subprocess.run(
        [folder / "nvidia-smi", "-L"], capture_output=True, text=True, check=False
    )
    assert (asked.returncode, asked.stdout) == (1, "")
    assert asked.stderr == "stand-in: nvidia-smi -L: not known\n"
