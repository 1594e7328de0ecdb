"""What a node is taken for, and what its files show."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from helpers import parametrized
from machines import DATA, topology_of
from trueup_node.errors import ParseError
from trueup_node.node.identify import (
    Observed,
    describe,
    identify,
    read_free_bytes,
    read_hpc_image,
    read_os_release,
    read_secure_boot,
    summary,
)
from trueup_node.node.lscpu import Lscpu, parse_lscpu
from trueup_node.node.metadata import Metadata
from trueup_node.node.nvidia_smi import Gpu, parse_nvidia_smi

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


@parametrized(("changes", "warnings"))
def test_devices_unlike_the_catalogs_are_warned_of(
    changes: dict[str, Any], warnings: list[str]
) -> None:
    catalog = {"Standard_HB120rs_v3": {"family": "hbv3", "rdma_nics": 1, "nvme_disks": 2}}
    identity = identify(HB120, given_size=None, catalog=catalog, azure_chassis=True)
    assert describe(identity, observed("hb120rs_v3", **changes))["warnings"] == warnings


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
        ({"numa_nodes": 2}, {}, ["Standard_HB120rs_v3 has 2 NUMA nodes, this machine shows 4"]),
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


def test_os_release(tmp_path: Path) -> None:
    file = tmp_path / "os-release"
    file.write_text('# c\nPRETTY_NAME="AlmaLinux 9.7 (x)"\nID=almalinux\nBROKEN="a\nnot a line\n')
    assert read_os_release(str(file)) == {
        "PRETTY_NAME": "AlmaLinux 9.7 (x)",
        "ID": "almalinux",
        "BROKEN": '"a',
    }


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


def test_nvidia_smi_where_a_figure_is_not_there() -> None:
    text = "name, pci.bus_id, memory.total [MiB]\n[N/A], 00000001:0A:1F.0, [N/A]\n\n"
    assert parse_nvidia_smi(text) == (Gpu(None, "0001:0a:1f.0", None),)


@parametrized(("text", "line"))
def test_nvidia_smi_that_is_none(text: str, line: int | None) -> None:
    with pytest.raises(ParseError) as refused:
        parse_nvidia_smi(text)
    assert refused.value.line_number == line
