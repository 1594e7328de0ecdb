"""The role gpu_grid, planned for the family and the systems that get it."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from role_plans import ROOT, asked, families_of, node
from trueup.errors import BadInput
from trueup.node.gpu_grid import plan, programs

MANIFEST = ROOT / "tests" / "data" / "grid" / "resources.json"
SHA256 = hashlib.sha256(MANIFEST.read_bytes()).hexdigest()
NEWEST = "595.58.03"
# A driver that the manifest has.
OF_MANIFEST = {
    "branch": "18.6",
    "version": "570.211.01",
    "checksums": {"570.211.01": "a" * 64},
    "manifest": str(MANIFEST),
    "manifest_sha256": SHA256.upper(),
}

NOTHING: dict[str, Any] = {"files": defaultdict(bool)}


def values(on: dict[str, Any], found: dict[str, Any] | None = None, /, **options: Any) -> Any:
    planned = plan(asked("gpu_grid", on, {**NOTHING, **(found or {})}, **options))
    assert planned.refused == []
    return planned.as_result()


@pytest.mark.parametrize("family", families_of("gpu_grid"))
@pytest.mark.parametrize(
    ("system", "library", "headers"),
    [
        ("ubuntu-22.04", "/usr/lib/x86_64-linux-gnu", "linux-headers-6.8.0-1030-azure"),
        ("ubuntu-24.04", "/usr/lib/x86_64-linux-gnu", "linux-headers-6.8.0-1030-azure"),
        ("debian-12", "/usr/lib/x86_64-linux-gnu", "linux-headers-6.8.0-1030-azure"),
        ("almalinux-9", "/usr/lib64", "kernel-devel-6.8.0-1030-azure"),
    ],
)
def test_what_the_family_gets_on_each_system(
    family: str, system: str, library: str, headers: str
) -> None:
    on, there = node(family, system), f"{library}/libnvidia-ml.so.{NEWEST}"
    result = values(on)
    assert (result["library"], result["missing"]) == (there, True)
    assert programs(asked("gpu_grid", on)) == {"files": [there]}
    assert values(on, {"files": {there: True}})["missing"] is False
    assert result["packages"] == ["gcc", "make", "dkms", headers]
    assert result["file"] == f"/var/tmp/NVIDIA-Linux-x86_64-{NEWEST}-grid-azure.run"
    assert result["installer"] == ["sh", result["file"], "--silent", "--dkms"]
    assert result["checksum"].startswith("sha256:5dbfcd09")
    assert [file["path"] for file in result["files"]] == [
        "/etc/modprobe.d/trueup-gpu-grid.conf",
        "/etc/nvidia/gridd.conf",
    ]


def test_the_files() -> None:
    modprobe, licence = values(node("nv_a10_v5"), licence_settings={"A": "1", "B": "FALSE"})[
        "files"
    ]
    assert modprobe["content"].splitlines()[1:] == [
        "blacklist nouveau",
        "blacklist lbm-nouveau",
        "options nouveau modeset=0",
    ]
    assert licence["content"] == "# Written by trueup (role gpu_grid).\nA=1\nB=FALSE\n"


def test_a_containers_kernel_modules_are_its_hosts() -> None:
    on = node("nv_a10_v5", container=True, secure_boot=True)
    result = values(on, installer_options=["--x"])
    assert result["packages"] == ["gcc", "make"]
    assert result["installer"][2:] == ["--silent", "--no-kernel-modules", "--x"]


def test_the_manifest_is_fetched_from_elsewhere_once() -> None:
    fetched = values(node("nv_a10_v5"))
    assert fetched["manifest"] == str(Path.home() / ".trueup-grid-c88598e2b992")
    assert (fetched["is_fetched"], fetched["url"]) == (True, "")
    local = values(node("nv_a10_v5"), **OF_MANIFEST)
    assert (local["is_fetched"], local["manifest"]) == (False, str(MANIFEST))


def test_the_address_is_the_manifests_or_the_sites() -> None:
    installing = {"installing": True}
    found = values(node("nv_a10_v5"), installing, **OF_MANIFEST)
    assert found["url"] == "https://example.invalid/570.211.01.run"
    given = values(node("nv_a10_v5"), installing, url="file:///srv/grid.run")
    assert (given["url"], given["is_fetched"]) == ("file:///srv/grid.run", False)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"manifest_sha256": "0" * 64}, f"sha256 {SHA256}, expected {'0' * 64}$"),
        ({"manifest": "/nonexistent"}, "No such file"),
        ({"branch": "19.9"}, r"the driver manifest has no GRID 19\.9"),
    ],
)
def test_a_manifest_that_does_not_say_it_fails(options: dict[str, str], said: str) -> None:
    given = {**OF_MANIFEST, **options}
    with pytest.raises(BadInput, match=said):
        plan(asked("gpu_grid", node("nv_a10_v5"), {**NOTHING, "installing": True}, **given))


def test_a_driver_that_nobody_knows_may_be_allowed() -> None:
    result = values(node("nv_a10_v5"), checksums={}, unverified_allowed=True)
    assert result["checksum"] == ""


@pytest.mark.parametrize(
    ("family", "changes", "options", "said"),
    [
        ("ndv4", {}, {}, ["gpu_grid: Standard_ND96asr_v4 is of the family ndv4"]),
        (
            "local",
            {},
            {},
            ["gpu_grid: this machine is of the family local", "gpu_grid: this machine shows no"],
        ),
        ("nv_a10_v5", {"gpus": []}, {}, ["gpu_grid: this machine shows no NVIDIA GPU"]),
        ("nv_a10_v5", {"secure_boot": True}, {}, ["gpu_grid: Secure Boot is on"]),
        ("nv_a10_v5", {}, {"branch": "17.5"}, ["GRID 17.5 breaks CUDA on the A10"]),
        ("nv_a10_v5", {}, {"branch": "17.5", "cuda_needed": False}, []),
        ("nv_a10_v5", {}, {"version": "1.2"}, ["gpu_grid: no sha256 is known for driver 1.2"]),
        (
            "nv_a10_v5",
            {"hpc_image": {"NVIDIA": "580.126.16"}},
            {},
            ["gpu_grid: this Azure HPC image has NVIDIA's data-centre driver 580.126.16"],
        ),
        ("nv_a10_v5", {"hpc_image": {"NVIDIA_GRID": "595.58.03"}}, {}, []),
        ("nv_a10_v5", {"free_bytes": {"/": 5}}, {}, ["gpu_grid: 5 bytes are free below /"]),
    ],
)
def test_what_cannot_work_is_refused(
    family: str, changes: dict[str, Any], options: dict[str, Any], said: list[str]
) -> None:
    refused = plan(asked("gpu_grid", node(family, **changes), NOTHING, **options)).refused
    assert [one[: len(start)] for one, start in zip(refused, said)] == said
    assert len(refused) == len(said)
