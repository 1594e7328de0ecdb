"""The role gpu_grid, planned for the family and the systems that get it."""

from __future__ import annotations

import hashlib
import subprocess
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers import parametrized
from role_plans import ROOT, asked, node
from trueup_controller.plans.gpu_grid import lacks_cuda_13, plan
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

NOTHING: dict[str, Any] = {"files": defaultdict(bool)}


def values(on: dict[str, Any], found: dict[str, Any] | None = None, /, **options: Any) -> Any:
    planned = plan(asked("gpu_grid", on, {**NOTHING, **(found or {})}, **options))
    assert planned.refused == []
    return planned.as_result()


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


@parametrized(("options", "said"))
def test_a_manifest_that_does_not_say_it_fails(options: dict[str, str], said: str) -> None:
    given = {**OF_MANIFEST, **options}
    with pytest.raises(BadInput, match=said):
        plan(asked("gpu_grid", node("nv_a10_v5"), {**NOTHING, "installing": True}, **given))


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


@parametrized(("family", "works", "wanted", "lacks"))
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
