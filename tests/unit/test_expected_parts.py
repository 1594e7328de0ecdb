"""Each size of the catalog is judged on the parts that its row has."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import machines
import pytest
from trueup_analysis.figures.health import expectations
from trueup_analysis.figures.health.examine import Health, examine
from trueup_controller import new_machine
from trueup_controller.sizes import read_sizes, read_sources
from trueup_node.cases import Case
from trueup_node.node import identify, infiniband, state
from trueup_node.node.expected_parts import with_parts
from trueup_node.record import Metric

ROOT = Path(__file__).parents[2]
PATH = str(ROOT / "catalog" / "vm_sizes.csv")
SIZES = read_sizes(PATH)
CATALOG = expectations.read_catalog()
PUBLISHED = expectations.read(ROOT / "catalog" / "expectations.yml")
GIB = 1024**3
HBV5, GB200 = "Standard_HB368rs_v5", "Standard_ND128isr_NDR_GB200_v6"
# Sizes without an entry in expectations.yml.
UNPUBLISHED = [size for size in SIZES if not PUBLISHED.knows(size)]


def node_of(size: str) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The facts of a node that has what the catalog's row says: node, GPUs, adapters."""
    row = SIZES[size]
    gpu_bytes = row.get("gpu_memory_gib", 0) * GIB * 0.97
    node = {
        "cpus": row["vcpus"],
        "cores": row["vcpus"],
        "memory_bytes": row["memory_gib"] * GIB * 0.98,
        "gpus": [{}] * row.get("gpus", 0),
        "nvme": [{"local": True}] * row.get("nvme_disks", 0),
    }
    links = {
        "nvlinks": {"active": 18},
        "fabric": {"state": "Completed", "status": "Success", "health": None},
    }
    gpu = {"devices": [{"memory_bytes": gpu_bytes, **links} for _ in range(row.get("gpus", 0))]}
    ports = [
        {
            "device": f"mlx5_ib{number}",
            "kind": "infiniband",
            "state": "ACTIVE",
            "rate_gbps": row.get("rdma_gbps_per_nic"),
        }
        for number in range(row.get("rdma_nics", 0))
    ]
    return node, gpu, {"devices": ports}


def case(size: str, figures: list[Metric], benchmark: str = "node_state") -> Case:
    return Case(
        *(("n1",), size, benchmark, "state", "ok", None, {}, {}, figures),
        node_count=1,
        started_at="2026-11-20T09:00:00Z",
    )


def judged(size: str, *changes: tuple[int, str, Any]) -> Health:
    """The health of a node of the size after changes: which fact, its member, the value."""
    facts = node_of(size)
    for number, member, value in changes:
        facts[number][member] = value
    return examine([case(size, state.metrics(*facts))], CATALOG)


@pytest.mark.parametrize("size", UNPUBLISHED)
def test_a_node_with_the_parts_of_its_size_passes(size: str) -> None:
    found = judged(size)
    assert (found.status, found.findings) == (0, [])
    assert found.sentence == "1 of 1 node judged: nothing is wrong"
    row = SIZES[size]
    columns = (
        *("vcpus", "memory_gib", "gpus", "gpu_memory_gib", "rdma_nics", "rdma_gbps_per_nic"),
        "nvme_disks",
    )
    assert len({item.metric for item in found.verdicts}) == sum(bool(row.get(c)) for c in columns)


@pytest.mark.parametrize("size", ["Standard_ND96isr_MI300X_v5", "Standard_NV24ads_V710_v5"])
def test_amds_gpus_are_not_measured_and_not_missing(size: str) -> None:
    ubuntu = new_machine.os_release("ubuntu-24.04")
    node = new_machine.fresh(size, SIZES, ubuntu, free_bytes=50 * GIB)
    metrics = state.metrics(node, None, None)
    assert "gpus" not in {metric.name for metric in metrics}
    found = examine([case(size, metrics)], CATALOG)
    of_gpus = {item.verdict for item in found.verdicts if (item.metric or "").startswith("gpu")}
    assert of_gpus == {"not measured"}
    assert (node["has_gpu"], node["gpu_count_expected"]) == (False, 0)
    assert f"{size} has AMD GPUs: no role, benchmark or check looks at them" in node["warnings"]


def test_sizes_without_a_published_entry() -> None:
    assert {HBV5, "Standard_HB120-96rs_v2", "Standard_D4s_v4"} <= set(UNPUBLISHED)
    assert len(UNPUBLISHED) == 58


def test_a_healthy_gb200_passes() -> None:
    """Its links have published entries, its other parts none."""
    assert (judged(GB200).status, judged(GB200).findings) == (0, [])


@pytest.mark.parametrize(
    ("size", "change", "what", "fault"),
    [
        (HBV5, (0, "cpus", 367), "CPUs", "NHC2001"),
        (HBV5, (0, "memory_bytes", 388 * GIB), "memory, less 10%", "NHC2001"),
        (HBV5, (0, "nvme", [{"local": True}] * 7), "local NVMe disks", "NHC2023"),
        (GB200, (0, "gpus", [{}] * 3), "GPUs", "NHC2009"),
        # The kernel shows 24 GiB, as of half a GPU (MIG).
        (GB200, (1, "devices", [{"memory_bytes": 96 * GIB}] * 4), "memory of each GPU", ""),
        (GB200, (2, "devices", node_of(GB200)[2]["devices"][:3]), "InfiniBand adapters", "NHC2002"),
        # Sizes with published entries are judged by their rows on what these leave out.
        ("Standard_HB120rs_v3", (0, "nvme", [{"local": True}]), "local NVMe disks", "NHC2023"),
        ("Standard_NV36ads_A10_v5", (0, "cpus", 18), "CPUs", "NHC2001"),
    ],
)
def test_a_node_that_lacks_a_part_fails(
    size: str, change: tuple[int, str, Any], what: str, fault: str
) -> None:
    found = judged(size, change)
    failed = {
        (v.what.partition(", less")[0], v.fault or "")
        for v in found.findings
        if v.verdict == "fail"
    }
    assert (failed, found.status) == ({(what.partition(", less")[0], fault)}, 1)


def test_a_link_at_half_its_rate_fails_and_a_faster_one_does_not() -> None:
    devices = node_of(HBV5)[2]["devices"]
    slow = [devices[0] | {"rate_gbps": 100}, *devices[1:]]
    found = judged(HBV5, (2, "devices", slow))
    assert [(v.device, v.measured, v.expected, v.fault) for v in found.findings] == [
        ("mlx5_ib0", 100e9, 200e9, "NHC2003")
    ]
    down = [devices[0] | {"state": "DOWN"}, *devices[1:]]
    assert [(v.measured, v.fault) for v in judged(HBV5, (2, "devices", down)).findings] == [
        (0.0, "NHC2004")
    ]
    fast = [device | {"rate_gbps": 400} for device in devices]
    assert judged(HBV5, (2, "devices", fast)).status == 0


def test_what_could_not_be_read_is_not_measured() -> None:
    found = judged(GB200, (0, "nvme", None), (1, "devices", []))
    assert {(v.metric, v.verdict, v.reason) for v in found.findings} == {
        ("nvme_disks", "not measured", "it could not be read"),
        *(
            (metric, "not measured", "it could not be read")
            for metric in ("gpu_memory", "nvlinks_active", "fabric_ready")
        ),
    }
    assert found.status == 2


def test_the_source_is_that_of_the_row_and_the_limit_of_memory_is_nine_tenths() -> None:
    [memory] = [item for item in CATALOG.of(HBV5.upper()) if item.metric == "memory"]
    assert memory.source == f"catalog/vm_sizes.csv: {read_sources(PATH)[HBV5]}"
    assert (memory.expected.base, memory.warn) == (432 * GIB * 0.9, None)
    # NDm A100 v4 shows 0.933 of the document's figure, the least of the described machines.
    assert judged(HBV5, (0, "memory_bytes", int(432 * GIB * 0.93))).status == 0


def test_a_speed_without_a_published_figure_has_no_verdict_by_name() -> None:
    triad = Metric("triad_rate", 6.6e12, "byte/s", "higher")
    cases = [case(HBV5, state.metrics(*node_of(HBV5))), case(HBV5, [triad], "stream")]
    found = examine(cases, CATALOG)
    assert [(v.verdict, v.benchmark, v.reason) for v in found.findings] == [
        ("no verdict", "stream", f"nothing is expected of stream on {HBV5}")
    ]
    assert (found.status, dict(found.words)) == (0, {"n1": "pass"})


@pytest.mark.parametrize("size", [size for size in SIZES if PUBLISHED.knows(size)])
def test_published_limits_take_precedence(size: str) -> None:
    """A figure of state is judged once, and as it is published where it is."""
    metrics = [item.metric for item in CATALOG.of(size, "node_state")]
    assert len(metrics) == len(set(metrics))
    assert CATALOG.of(size)[-len(PUBLISHED.of(size)) :] == PUBLISHED.of(size)
    # Cores and CPUs are one part.
    assert len({"cpus", "cores"} & set(metrics)) == 1


MACHINES = {
    re.sub("_", "", path.name): path.name
    for path in machines.DATA.iterdir()
    if path.is_dir() and not path.name.startswith("lab")
}
OF_MACHINE = {
    MACHINES[plain]: size
    for size in SIZES
    if (plain := re.sub("[-_]", "", size.removeprefix("Standard_").lower())) in MACHINES
}


def test_every_described_machine_of_azure_has_its_size() -> None:
    assert sorted(OF_MACHINE) == sorted(MACHINES.values())


@pytest.mark.parametrize("machine", OF_MACHINE)
def test_a_described_machine_of_azure_fails_nothing(machine: str) -> None:
    """What healthy machines show, as the modules read it; the GPUs' own memory is asked of a
    driver."""
    size, root = OF_MACHINE[machine], machines.root_of(machine)
    sysfs = str(root / "sys")
    topology = machines.topology_of(machine)
    node = {
        "cpus": len(topology.cpus),
        "cores": len(topology.cores),
        "memory_bytes": identify.read_memory_bytes(str(root / "proc")),
        "gpus": identify.read_gpus(sysfs),
        "nvme": identify.read_nvme(sysfs),
    }
    figures = state.metrics(node, None, {"devices": infiniband.read_devices(sysfs)})
    found = examine([case(size, figures)], CATALOG)
    assert [v for v in found.findings if v.verdict in ("fail", "warn")] == []
    # With the row alone too.
    alone = with_parts(type(CATALOG)({}), SIZES, read_sources(PATH))
    by_row = examine([case(size, figures)], alone)
    unread = {v.metric for v in by_row.findings}
    assert unread <= {"gpu_memory"}
    assert by_row.counts["fail"] == 0


def test_the_command_judges_a_node_of_such_a_size(call_trueup: Any, tmp_path: Path) -> None:
    figures = [
        {"name": m.name, "value": m.value, "unit": m.unit, "direction": m.direction}
        | ({"device": m.device} if m.device else {})
        for m in state.metrics(*node_of(HBV5))
    ]
    record = json.loads((ROOT / "tests/data/records/valid.json").read_text())
    record |= {"nodes": ["n1"], "vm_size": HBV5, "benchmark": "node_state", "case": "state"}
    record |= {"metrics": figures, "parameters": {}, "outcome": "ok"}
    path = tmp_path / "state.json"
    path.write_text(json.dumps(record))
    done = call_trueup("health", path)
    assert (done.status, done.err) == (0, "1 of 1 node judged: nothing is wrong.\n")
