"""What a node is taken for, and what its files show."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from helpers import parametrized
from machines import DATA, build, root_of, topology_of
from trueup.errors import ParseError
from trueup.node.identify import (
    Observed,
    describe,
    identify,
    is_azure_chassis,
    package_manager,
    read_free_bytes,
    read_gpus,
    read_hpc_image,
    read_infiniband,
    read_memory_bytes,
    read_nvme,
    read_os_release,
    read_secure_boot,
    summary,
)
from trueup.node.lscpu import Lscpu, parse_lscpu
from trueup.node.metadata import Metadata
from trueup.node.nvidia_smi import Gpu, parse_nvidia_smi

if TYPE_CHECKING:
    from pathlib import Path

CATALOG: dict[str, dict[str, Any]] = {
    "Standard_HB120rs_v3": {"family": "hbv3", "vcpus": 120},
    "Standard_NC6s_v3": {"family": "ncv3", "vcpus": 6},
}
ABSENT = Metadata("absent", "nothing listens at the metadata address")
HB120 = Metadata("ok", vm_size="Standard_HB120rs_v3", region="eastus", offer="payg")
BROKEN = Metadata("unusable", "status 404 'Not Found'")


@pytest.mark.parametrize(
    ("metadata", "given", "azure_chassis", "expected"),
    [
        (ABSENT, None, False, ("local", None, False, [])),
        (HB120, None, True, ("hbv3", "Standard_HB120rs_v3", True, [])),
        (HB120, "STANDARD_hb120RS_v3", True, ("hbv3", "Standard_HB120rs_v3", True, [])),
        (ABSENT, "standard_hb120rs_v3", False, ("hbv3", "Standard_HB120rs_v3", False, [])),
        (
            HB120,
            "Standard_NC6s_v3",
            True,
            (
                "ncv3",
                "Standard_NC6s_v3",
                True,
                ["given by hand, Standard_NC6s_v3, is used; metadata says Standard_HB120rs_v3"],
            ),
        ),
        (
            Metadata("ok", vm_size="Standard_X9"),
            None,
            True,
            ("unknown", "Standard_X9", True, ["Standard_X9 is not in the catalog of 2 sizes"]),
        ),
        (
            ABSENT,
            "Standard_NC6_v3",
            False,
            (
                "unknown",
                "Standard_NC6_v3",
                False,
                ["not in the catalog of 2 sizes; the nearest in it is Standard_NC6s_v3"],
            ),
        ),
        (ABSENT, None, True, ("unknown", None, True, ["give it as trueup_vm_size"])),
        (
            BROKEN,
            None,
            True,
            ("unknown", None, True, ["gave status 404 'Not Found'", "give it as trueup_vm_size"]),
        ),
        (BROKEN, None, False, ("local", None, False, ["404 'Not Found'; this is taken for"])),
        (
            BROKEN,
            "Standard_HB120rs_v3",
            False,
            ("hbv3", "Standard_HB120rs_v3", False, ["gave status 404 'Not Found'"]),
        ),
    ],
)
def test_size_and_family(
    metadata: Metadata,
    given: str | None,
    azure_chassis: bool,
    expected: tuple[str, str | None, bool, list[str]],
) -> None:
    identity = identify(metadata, given_size=given, catalog=CATALOG, azure_chassis=azure_chassis)
    family, size, azure, warnings = expected
    assert (identity.family, identity.vm_size, identity.azure) == (family, size, azure)
    assert len(identity.warnings) == len(warnings)
    assert all(part in said for part, said in zip(warnings, identity.warnings, strict=True))
    assert identity.catalog == CATALOG.get(size or "")


def test_without_a_catalog_that_is_what_is_said() -> None:
    identity = identify(HB120, given_size=None, catalog={}, azure_chassis=True)
    assert identity.family == "unknown"
    assert identity.warnings == (
        "size Standard_HB120rs_v3 was not looked up: no catalog was given",
    )


def observed(name: str, **changes: Any) -> Observed:
    members: dict[str, Any] = {
        "topology": topology_of(name),
        "lscpu": parse_lscpu((DATA / name / "lscpu.json").read_text()),
        "gpus": (),
        "infiniband": (),
        "nvme": (),
        "memory_bytes": 1024,
        "os_release": {"PRETTY_NAME": "Ubuntu 24.04.3 LTS"},
        "kernel": "6.8.0",
        "architecture": "x86_64",
    }
    return Observed(**{**members, **changes})


def test_a_node_is_described_in_plain_json() -> None:
    identity = identify(HB120, given_size=None, catalog=CATALOG, azure_chassis=True)
    node = describe(identity, observed("hb120rs_v3"))
    assert json.loads(json.dumps(node)) == node
    assert node["numa"][1] == {"node": 1, "cpus": "30-59", "memory_bytes": 470543164 // 4 * 1024}
    assert node["l3_groups"][:5] == ["0-7", "8-15", "16-23", "24-29", "30-37"]
    assert node["cpu_model"] == "AMD EPYC 7V73X 64-Core Processor"
    assert (node["cpus"], node["cores"], node["sockets"]) == (120, 120, 2)
    assert node["last_level_cache_bytes"] == 1536 * 1024**2
    assert node["os"] == "Ubuntu 24.04.3 LTS"
    assert node["warnings"] == []


def test_a_node_in_one_line() -> None:
    identity = identify(HB120, given_size=None, catalog=CATALOG, azure_chassis=True)
    assert summary(describe(identity, observed("hb120rs_v3", memory_bytes=456 * 2**30))) == (
        "hbv3: Standard_HB120rs_v3, AMD EPYC 7V73X 64-Core Processor, 120 cores in 4 NUMA node(s)"
        " and 16 L3 group(s), 456.0 GiB, 0 GPU(s), 0 RDMA device(s), 0 NVMe disk(s)"
    )
    nothing = observed("hb120rs_v3", topology=None, lscpu=None, memory_bytes=None)
    unknown = identify(Metadata("absent"), given_size=None, catalog={}, azure_chassis=False)
    assert summary(describe(unknown, nothing)).startswith(
        "local: no Azure size, unnamed CPU, unknown cores in 0 NUMA node(s)"
    )


def test_a_machine_of_another_size_than_claimed_is_warned_of() -> None:
    identity = identify(HB120, given_size=None, catalog=CATALOG, azure_chassis=True)
    node = describe(identity, observed("lab_2core"))
    assert node["warnings"] == ["Standard_HB120rs_v3 has 120 vCPUs, this machine shows 2"]


@pytest.mark.parametrize(
    ("changes", "warnings"),
    [
        ({"infiniband": []}, []),
        ({"nvme": []}, []),
        (
            {"nvme": [{"device": "nvme0n1", "model": "x", "size_bytes": 1, "local": True}]},
            ["Standard_HB120rs_v3 has 2 local NVMe disks, this machine shows 1"],
        ),
        (
            {"infiniband": [{"device": f"mlx5_ib{i}", "link_layer": "InfiniBand"} for i in (0, 1)]},
            ["Standard_HB120rs_v3 has 1 InfiniBand devices, this machine shows 2"],
        ),
    ],
)
def test_devices_unlike_the_catalogs_are_warned_of(
    changes: dict[str, Any], warnings: list[str]
) -> None:
    catalog = {"Standard_HB120rs_v3": {"family": "hbv3", "rdma_nics": 1, "nvme_disks": 2}}
    identity = identify(HB120, given_size=None, catalog=catalog, azure_chassis=True)
    assert describe(identity, observed("hb120rs_v3", **changes))["warnings"] == warnings


@pytest.mark.parametrize(
    ("row", "gpus", "layers", "counts"),
    [
        # What is found counts without a row of the catalog, and the row before drivers are there.
        (None, 8, [], (True, 8, None, False, 0, None)),
        ({"gpus": 8, "rdma_nics": 8}, 0, [], (True, 0, 8, True, 0, 8)),
        ({"gpus": 8, "rdma_nics": 8}, 7, ["InfiniBand"], (True, 7, 8, True, 1, 8)),
        ({"gpus": 0, "rdma_nics": 0}, 0, ["Ethernet"], (False, 0, 0, False, 0, 0)),
        ({"gpus": 0}, 1, ["InfiniBand", "Ethernet", None], (True, 1, 0, True, 1, None)),
    ],
)
def test_whether_there_are_gpus_and_rdma_has_one_answer(
    row: dict[str, Any] | None, gpus: int, layers: list[str | None], counts: tuple[Any, ...]
) -> None:
    identity = identify(
        HB120,
        given_size=None,
        catalog={} if row is None else {"Standard_HB120rs_v3": {"family": "hbv3", **row}},
        azure_chassis=True,
    )
    shown = {
        "gpus": [Gpu(None, f"000{i}:00:00.0", None) for i in range(gpus)],
        "infiniband": [{"device": f"d{i}", "link_layer": x} for i, x in enumerate(layers)],
    }
    node = describe(identity, observed("hb120rs_v3", **shown))
    names = [f"{part}{end}" for part in ("gpu", "rdma") for end in ("_count", "_count_expected")]
    told = (node["has_gpu"], *(node[x] for x in names[:2]), node["has_rdma"])
    assert (*told, *(node[name] for name in names[2:])) == counts


@pytest.mark.parametrize(
    ("row", "changes", "warnings"),
    [
        (
            {"rdma_gbps_per_nic": 400},
            {"infiniband": [("mlx5_ib0", 400.0, "ACTIVE"), ("mlx5_ib1", 200.0, "ACTIVE")]},
            ["mlx5_ib1 runs at 200 Gb/s, Standard_HB120rs_v3 has 400 Gb/s"],
        ),
        (
            {"rdma_gbps_per_nic": 400},
            {"infiniband": [("mlx5_ib0", 10.0, "DOWN"), ("mlx5_ib1", None, None)]},
            ["mlx5_ib0 is DOWN, not ACTIVE"],
        ),
        ({}, {"infiniband": [("mlx5_ib0", 10.0, "ACTIVE")]}, []),
        ({"memory_gib": 448}, {"memory_bytes": 404 * 2**30}, []),
        (
            {"memory_gib": 448},
            {"memory_bytes": 224 * 2**30},
            ["Standard_HB120rs_v3 has 448 GiB of memory, this machine shows 224.0 GiB"],
        ),
        ({"memory_gib": 448}, {"memory_bytes": None}, []),
        (
            {"gpu_memory_gib": 80},
            {
                "gpus": (
                    Gpu("NVIDIA H100", "0001:00:00.0", 81559 * 2**20),
                    Gpu("A100", "0002:00:00.0", 40 * 2**30),
                    Gpu(None, "0003:00:00.0", None),
                )
            },
            ["GPU 0002:00:00.0 (A100) shows 40.0 GiB, those of Standard_HB120rs_v3 have 80 GiB"],
        ),
        (
            {"numa_nodes": 2},
            {},
            ["Standard_HB120rs_v3 has 2 NUMA nodes, this machine shows 4"],
        ),
        ({"numa_nodes": 2}, {"topology": None}, []),
    ],
)
def test_slower_or_smaller_devices_are_warned_of(
    row: dict[str, Any], changes: dict[str, Any], warnings: list[str]
) -> None:
    if "infiniband" in changes:
        members = ("device", "rate_gbps", "state")
        changes["infiniband"] = [
            {**dict(zip(members, port, strict=True)), "link_layer": "InfiniBand"}
            for port in changes["infiniband"]
        ]
    identity = identify(
        HB120,
        given_size=None,
        catalog={"Standard_HB120rs_v3": {"family": "hbv3", **row}},
        azure_chassis=True,
    )
    assert describe(identity, observed("hb120rs_v3", **changes))["warnings"] == warnings


@parametrized(("os_release", "expected"))
def test_the_package_manager(os_release: dict[str, str], expected: str | None) -> None:
    assert package_manager(os_release) == expected


@pytest.mark.parametrize(
    ("content", "expected"),
    [(b"\x06\0\0\0\x01", True), (b"\x06\0\0\0\0", False), (b"\x06", None), (None, None)],
)
def test_secure_boot(content: bytes | None, expected: bool | None, tmp_path: Path) -> None:
    variables = tmp_path / "firmware" / "efi" / "efivars"
    variables.mkdir(parents=True)
    if content is not None:
        (variables / "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c").write_bytes(content)
    assert read_secure_boot(str(tmp_path)) is expected


def test_secure_boot_needs_efi(tmp_path: Path) -> None:
    assert read_secure_boot(str(tmp_path)) is None
    (tmp_path / "firmware" / "acpi").mkdir(parents=True)
    assert read_secure_boot(str(tmp_path)) is False


@parametrized(("text", "expected"))
def test_what_an_hpc_image_holds(
    text: str | None, expected: dict[str, str] | None, tmp_path: Path
) -> None:
    path = tmp_path / "component_versions.txt"
    if text is not None:
        path.write_text(text)
    assert read_hpc_image(str(path)) == expected


def test_free_space(tmp_path: Path) -> None:
    free = read_free_bytes([str(tmp_path), str(tmp_path / "missing")])
    assert list(free) == [str(tmp_path)]
    assert 0 <= free[str(tmp_path)] <= os.statvfs(tmp_path).f_blocks * 4096 * 1024


def test_what_is_not_known_is_none() -> None:
    identity = identify(ABSENT, given_size=None, catalog=CATALOG, azure_chassis=False)
    blind = observed(
        "lab_2core", topology=None, lscpu=None, memory_bytes=None, os_release={}, warnings=["odd"]
    )
    node = describe(identity, blind)
    unknown = ("vm_size", "region", "offer", "image", "os", "cpu_model", "cpus", "cores", "catalog")
    assert [node[name] for name in unknown] == [None] * len(unknown)
    assert (node["numa"], node["l3_groups"], node["warnings"]) == ([], [], ["odd"])


def test_infiniband_devices() -> None:
    root = root_of("nd96isr_h100_v5") / "sys"
    devices = read_infiniband(str(root))
    assert [device["device"] for device in devices] == ["mlx5_an0"] + [
        f"mlx5_ib{i}" for i in range(8)
    ]
    assert devices[1] == {
        "device": "mlx5_ib0",
        "pci": "0101:00:00.0",
        "rate_gbps": 400.0,
        "state": "ACTIVE",
        "link_layer": "InfiniBand",
        "numa_node": 0,
    }
    assert (devices[0]["link_layer"], devices[0]["rate_gbps"]) == ("Ethernet", 100.0)
    assert [device["numa_node"] for device in devices[1:]] == [0] * 4 + [1] * 4


def test_an_infiniband_device_that_says_little(tmp_path: Path) -> None:
    (tmp_path / "class" / "infiniband" / "mlx5_ib0").mkdir(parents=True)
    assert read_infiniband(str(tmp_path)) == [
        {
            "device": "mlx5_ib0",
            "pci": None,
            "rate_gbps": None,
            "state": None,
            "link_layer": None,
            "numa_node": None,
        }
    ]


def test_a_nic_without_numa_affinity() -> None:
    root = root_of("hb120rs_v3") / "sys"
    device = read_infiniband(str(root))[0]
    assert (device["rate_gbps"], device["numa_node"]) == (200.0, None)


def test_nvme_disks_are_told_apart_by_model(tmp_path: Path) -> None:
    disks = [{"model": "Microsoft NVMe Direct Disk v2", "size_bytes": 960 * 10**9}] * 11
    disks.append(
        {"model": "MSFT NVMe Accelerator v1.0", "size_bytes": 1024, "namespace": "nvme11c3n2"}
    )
    root = build({"numa": ["0"], "nvme": disks}, tmp_path) / "sys"
    found = read_nvme(str(root))
    assert [disk["device"] for disk in found[:11]] == [f"nvme{i}n1" for i in range(11)]
    assert found[0] == {
        "device": "nvme0n1",
        "model": "Microsoft NVMe Direct Disk v2",
        "size_bytes": 960 * 10**9,
        "local": True,
    }
    assert found[11] == {
        "device": "nvme11n2",
        "model": "MSFT NVMe Accelerator v1.0",
        "size_bytes": 1024,
        "local": False,
    }


def test_gpus_on_the_bus_without_the_switches() -> None:
    root = root_of("nd96asr_v4") / "sys"
    found = read_gpus(str(root))
    assert [gpu.pci[:4] for gpu in found] == [
        *("0001", "0002", "0003", "0004", "000b", "000c", "000d", "000e")
    ]
    assert {(gpu.name, gpu.memory_bytes) for gpu in found} == {(None, None)}


@parametrized(("vendor", "device_class", "counted"))
def test_a_gpu_is_told_by_class_and_vendor(
    tmp_path: Path, vendor: str, device_class: str, counted: bool
) -> None:
    device = tmp_path / "bus" / "pci" / "devices" / "0001:00:00.0"
    device.mkdir(parents=True)
    (device / "class").write_text(f"{device_class}\n")
    if vendor:
        (device / "vendor").write_text(f"{vendor}\n")
    assert [gpu.pci for gpu in read_gpus(str(tmp_path))] == (["0001:00:00.0"] if counted else [])


def test_a_machine_with_nothing(tmp_path: Path) -> None:
    root = str(tmp_path)
    assert (read_gpus(root), read_infiniband(root), read_nvme(root)) == ((), [], [])
    assert (read_memory_bytes(root), read_os_release(root), is_azure_chassis(root)) == (
        None,
        {},
        False,
    )


def test_memory_and_chassis() -> None:
    root = root_of("hb120rs_v3")
    assert read_memory_bytes(str(root / "proc")) == 470543164 * 1024
    assert is_azure_chassis(str(root / "sys"))


def test_os_release(tmp_path: Path) -> None:
    file = tmp_path / "os-release"
    file.write_text('# c\nPRETTY_NAME="AlmaLinux 9.7 (x)"\nID=almalinux\nBROKEN="a\nnot a line\n')
    assert read_os_release(str(file)) == {
        "PRETTY_NAME": "AlmaLinux 9.7 (x)",
        "ID": "almalinux",
        "BROKEN": '"a',
    }


def test_lscpu_of_the_lab_machine() -> None:
    text = (DATA / "lab_2core" / "lscpu.json").read_text()
    assert parse_lscpu(text) == Lscpu(model="AMD EPYC", sockets=1)


def test_lscpu_in_its_nested_form() -> None:
    inner = [
        {
            "field": "Model name:",
            "data": "Neoverse-V2",
            "children": [{"field": "Socket(s):", "data": "-"}],
        }
    ]
    entries = [
        {"field": "Architecture:", "data": "aarch64"},
        {"field": "Vendor ID:", "data": "ARM", "children": inner},
    ]
    assert parse_lscpu(json.dumps({"lscpu": entries})) == Lscpu("Neoverse-V2", None)


@parametrized(("text", "problem"))
def test_lscpu_that_is_none(text: str, problem: str) -> None:
    with pytest.raises(ParseError, match=problem):
        parse_lscpu(text)


def test_nvidia_smi_of_eight_gpus() -> None:
    gpus = parse_nvidia_smi((DATA / "nd96asr_v4" / "nvidia-smi.csv").read_text())
    assert len(gpus) == 8
    assert gpus[4] == Gpu("NVIDIA A100-SXM4-40GB", "000b:00:00.0", 40960 * 1024**2)


def test_nvidia_smi_where_a_figure_is_not_there() -> None:
    text = "name, pci.bus_id, memory.total [MiB]\n[N/A], 00000001:0A:1F.0, [N/A]\n\n"
    assert parse_nvidia_smi(text) == (Gpu(None, "0001:0a:1f.0", None),)


@parametrized(("text", "line"))
def test_nvidia_smi_that_is_none(text: str, line: int | None) -> None:
    with pytest.raises(ParseError) as refused:
        parse_nvidia_smi(text)
    assert refused.value.line_number == line
