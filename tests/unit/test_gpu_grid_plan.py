"""The role gpu_grid, planned for the family and the systems that get it."""

from __future__ import annotations

import hashlib
import subprocess
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from role_plans import ROOT, asked, families_of, node
from trueup_controller.plans.gpu_grid import asks, lacks_cuda_13, plan, programs
from trueup_node.errors import BadInput

MANIFEST = ROOT / "tests" / "data" / "grid" / "resources.json"
SHA256 = hashlib.sha256(MANIFEST.read_bytes()).hexdigest()
DEFAULT = "570.211.01"
MICROSOFT = "https://download.microsoft.com/download/x/driver.run"
# A driver that the manifest has.
OF_MANIFEST = {
    "branch": "18.6",
    "version": "570.211.01",
    "checksums": {"570.211.01": "a" * 64},
    "manifest": str(MANIFEST),
    "manifest_sha256": SHA256.upper(),
}

UNFINISHED = "/var/lib/trueup/gpu_grid.unfinished"
NOTHING: dict[str, Any] = {"files": defaultdict(bool)}


def values(on: dict[str, Any], found: dict[str, Any] | None = None, /, **options: Any) -> Any:
    planned = plan(asked("gpu_grid", on, {**NOTHING, **(found or {})}, **options))
    assert planned.refused == []
    return planned.as_result()


@pytest.mark.parametrize("family", families_of("gpu_grid"))
@pytest.mark.parametrize("system", ["ubuntu-22.04", "ubuntu-24.04", "debian-12", "almalinux-9"])
def test_what_the_family_gets_on_each_system(family: str, system: str) -> None:
    library, headers = "/usr/lib/x86_64-linux-gnu", "linux-headers-6.8.0-1030-azure"
    if system == "almalinux-9":
        library, headers = "/usr/lib64", "kernel-devel-6.8.0-1030-azure"
    on, there = node(family, system), f"{library}/libnvidia-ml.so.{DEFAULT}"
    result = values(on)
    assert (result["library"], result["missing"]) == (there, True)
    assert programs(asked("gpu_grid", on)) == {"files": [there, UNFINISHED]}
    assert values(on, {"files": {there: True, UNFINISHED: False}})["missing"] is False
    assert values(on, {"files": {there: True, UNFINISHED: True}})["missing"] is True
    assert result["packages"] == ["gcc", "make", "dkms", headers]
    assert result["file"] == f"/var/cache/trueup-NVIDIA-Linux-x86_64-{DEFAULT}-grid-azure.run"
    assert result["installer"][:2] == ["sh", "-c"]
    assert result["installer"][3:] == [UNFINISHED, "sh", result["file"], "--silent", "--dkms"]
    assert (result["checksum"], result["kept"]) == ("", "")
    assert result["expected"] == {
        "driver_version": DEFAULT,
        "gpus": 1,
        "gpu_memory_gib": 4.0,
        "secure_boot": False,
    }
    assert [file["path"] for file in result["files"]] == [
        "/etc/modprobe.d/trueup-gpu-grid.conf",
        "/etc/nvidia/gridd.conf",
        UNFINISHED,
    ]


def test_the_files() -> None:
    modprobe, licence, _ = values(node("nv_a10_v5"))["files"]
    assert modprobe["content"].splitlines()[1:] == [
        "blacklist nouveau",
        "blacklist lbm-nouveau",
        "options nouveau modeset=0",
    ]
    assert licence["content"] == (
        "# Written by trueup (role gpu_grid).\nIgnoreSP=FALSE\nEnableUI=FALSE\n"
    )


def test_a_containers_kernel_modules_are_its_hosts() -> None:
    on = node("nv_a10_v5", container=True, secure_boot=True)
    result = values(on)
    assert result["packages"] == ["gcc", "make"]
    assert result["installer"][6:] == ["--silent", "--no-kernel-modules"]


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
    mirror = {"url": "file:///srv/grid.run", "checksums": {DEFAULT: "a" * 64}}
    given = values(node("nv_a10_v5"), installing, **mirror)
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


def test_release_20_is_for_who_asks_for_it() -> None:
    asks_for = {"branch": "20.0", "version": "595.58.03", "url": MICROSOFT}
    result = values(node("nv_a10_v5"), {"installing": True}, **asks_for)
    assert (result["sha256"][:8], result["taken"]) == ("5dbfcd09", "")


def running(version: str, gpus: int | None = 1) -> dict[str, Any]:
    return {"trueup_gpu": {"user_space": version, "gpus": gpus}}


@pytest.mark.parametrize(
    ("found", "options", "kept", "missing"),
    [
        (running(DEFAULT), {}, DEFAULT, False),
        (running("595.58.03"), {}, "595.58.03", False),
        (running("570.124.06"), {"working_driver": "replace"}, "", True),
        # Installed, and another one is loaded: nvidia-smi shows no GPU.
        (running("550.144", None), {}, "", True),
        ({"trueup_gpu": None}, {}, "", True),
    ],
)
def test_a_driver_that_works_is_kept(
    found: dict[str, Any], options: dict[str, Any], kept: str, missing: bool
) -> None:
    result = values(node("nv_a10_v5"), found, **options)
    assert (result["kept"], result["missing"]) == (kept, missing)
    assert result["expected"]["driver_version"] == (kept or DEFAULT)


def test_the_node_is_asked_for_its_driver() -> None:
    variables = {"trueup_sysfs_root": "/srv/sys"}
    question = replace(asked("gpu_grid", node("nv_a10_v5")), variables=variables)
    assert asks(question) == {
        "gpu_facts": {"sysfs_root": "/srv/sys", "procfs_root": None, "settle_seconds": 0}
    }


ARCHIVE = b"\x1f\x8b not a driver\n" * 40


def installer(version: str = DEFAULT, archive: bytes = ARCHIVE, skip: str = "6") -> bytes:
    """The head of NVIDIA's shell archive, and something for the archive behind it."""
    digest = hashlib.md5(archive, usedforsecurity=False).hexdigest()
    label = f"NVIDIA Accelerated Graphics Driver for Linux-x86_64 {version}"
    return (
        f'#!/bin/sh\nskip={skip}\nCRCsum=3232997086\nMD5={digest}\nlabel="{label}"\n'.encode()
        + archive
    )


@pytest.fixture(name="home")
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_a_driver_of_microsofts_host_is_taken_once_and_pinned(home: Path) -> None:
    installing = {"installing": True}
    first = values(node("nv_a10_v5"), installing, url=MICROSOFT)
    path = home / f".trueup-grid-{DEFAULT}.run"
    assert (first["taken"], first["checksum"]) == (str(path), "")
    path.write_bytes(installer())
    taken = values(node("nv_a10_v5"), {**installing, "taken": True}, url=MICROSOFT)
    sha256 = hashlib.sha256(installer()).hexdigest()
    assert (taken["taken"], taken["checksum"]) == ("", f"sha256:{sha256}")
    Path(taken["pin"]).write_text(f"{taken['sha256']}\n")
    path.unlink()
    later = values(node("nv_a10_v5"), installing, url=MICROSOFT)
    assert (later["taken"], later["sha256"]) == ("", sha256)
    # What was learned of Microsoft's host is not for a mirror's file.
    mirror = plan(asked("gpu_grid", node("nv_a10_v5"), NOTHING, url="https://mirror/x.run"))
    assert ["no sha256 is known" in sentence for sentence in mirror.refused] == [True]


def test_a_label_may_name_the_kind_of_driver(home: Path) -> None:
    content = installer(f"{DEFAULT}-grid-azure")
    (home / f".trueup-grid-{DEFAULT}.run").write_bytes(content)
    taken = values(node("nv_a10_v5"), {"installing": True, "taken": True}, url=MICROSOFT)
    assert taken["sha256"] == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (installer()[:-7], "is not whole"),
        (installer(skip="7"), "is not whole"),
        (installer("570.211.02"), "is no installer of the driver 570.211.01"),
        (installer(f"{DEFAULT}-2"), "is no installer"),
        (installer("1570.211.01"), "is no installer"),
        (installer(skip=""), "is no installer"),
        (installer().replace(b"MD5=", b"NO="), "says none"),
        (b"<html>Sorry</html>", "calls itself nothing"),
        (b"", "calls itself nothing"),
        (None, "No such file"),
    ],
)
def test_a_file_that_is_not_that_driver_pins_nothing(
    home: Path, content: bytes | None, said: str
) -> None:
    if content is not None:
        (home / f".trueup-grid-{DEFAULT}.run").write_bytes(content)
    found = {**NOTHING, "installing": True, "taken": True}
    with pytest.raises(BadInput, match=said):
        plan(asked("gpu_grid", node("nv_a10_v5"), found, url=MICROSOFT))


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
        ("nv_a10_v5", {}, {"branch": "17.5"}, ["GRID 17.5 with driver 570.211.01 does not work"]),
        (
            "nv_a10_v5",
            {},
            {"url": "https://mirror/x.run"},
            ["gpu_grid: no sha256 is known for driver 570.211.01"],
        ),
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


def test_an_older_driver_that_runs_is_refused_with_the_reason() -> None:
    found = {**NOTHING, **running("550.144.06")}
    refused = plan(asked("gpu_grid", node("nv_a10_v5"), found)).refused
    assert len(refused) == 1
    assert refused[0].startswith("gpu_grid: driver 550.144.06 runs here")


@pytest.mark.parametrize(
    ("family", "works", "wanted", "lacks"),
    [
        ("nv_a10_v5", None, None, "570.211.01"),
        ("nv_a10_v5", "570.211.01", "595.58.03", "570.211.01"),
        ("nv_a10_v5", None, "595.58.03", ""),
        ("nv_a10_v5", "595.58.03", None, ""),
        ("nd_h100_v5", "570.211.01", None, ""),
    ],
)
def test_cuda_13_needs_a_newer_driver_than_the_default(
    family: str, works: str | None, wanted: str | None, lacks: str
) -> None:
    question = replace(
        asked("gpu_grid", node(family)),
        variables={"gpu_grid_version": wanted} if wanted else {},
        hostvars={"node-1": {"ansible_facts": {"trueup_gpu": {"user_space": works}}}},
    )
    found = lacks_cuda_13(question)
    assert [one.split()[2] for one in found] == ([lacks] if lacks else [])
    assert asked("gpu_grid", node(family)).options["version"] == DEFAULT
    assert len(lacks_cuda_13(replace(question, hostvars={}))) == (
        family == "nv_a10_v5" and not wanted
    )


@pytest.mark.parametrize("status", [0, 1])
def test_a_driver_counts_when_its_installer_has_ended_and_is_on_the_disk(
    tmp_path: Path, status: int
) -> None:
    argv = values(node("nv_a10_v5", "ubuntu-24.04"))["installer"]
    marker = tmp_path / "lib" / "unfinished"
    seen = tmp_path / "seen"
    inner = ["sh", "-c", f"cp {marker} {seen}; exit {status}"]
    done = subprocess.run([*argv[:3], str(marker), *inner], check=False)
    assert (done.returncode, seen.exists(), marker.exists()) == (status, True, status == 1)
