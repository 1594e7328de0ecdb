"""The role nx_desktop on a simulated Windows host: a made-up installer stands for the site's."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import plays
import pytest
from simulated_windows import File, Host, Installer, Leaves, Product, serving

CODE = "{11111111-2222-3333-4444-555555555555}"
URL = "https://mirror.example/nx.zip"
SHA256 = "0123456789abcdef" * 4
ENVIRONMENT = r"HKLM:\SYSTEM\CurrentControlSet\Control\Session Manager\Environment"
NODE = {
    "system": "windows",
    "family": "nv_a10_v5",
    "vm_size": "Standard_NV12ads_A10_v5",
    "os": "Windows 11 Enterprise multi-session 25H2",
}
NX = {
    "url": URL,
    "sha256": SHA256,
    "setup": r"nx\SiemensNX.exe",
    "arguments": ["/quiet"],
    "product": CODE,
    "version": "2506.4",
    "environment": {"LICENCE_SERVER": "28000@licences"},
}
INSTALLER = ("setup", "arguments", "product", "version")


class Desk:
    """A host, and the role run on it."""

    def __init__(self, folder: Path, host: Host, variables: dict[str, Any]) -> None:
        self.folder, self.host, self.variables = folder, host, variables

    def run(self, *options: str, **given: Any) -> tuple[int, int, str]:
        """Exit status, tasks that changed something, and all that was said, on one line."""
        values = {**NX, **given}
        values["installer"] = {name: values.pop(name) for name in INSTALLER}
        role = {f"nx_desktop_{name}": value for name, value in values.items()}
        hosts = {"nv0": {**self.variables, "trueup_node": NODE, **role}}
        done = plays.roles(self.folder, {"roles": ["nx_desktop"]}, *options, hosts=hosts)
        status, changed, said = plays.counted(done)
        print(said)
        return status, changed, " ".join(said.split())

    def licence(self) -> Any:
        return self.host.registry.value(ENVIRONMENT, "LICENCE_SERVER")


def offer(host: Host, *, status: int = 0, version: str = "2506.4000", sha256: str = SHA256) -> None:
    """Let the host download the site's zip and run the installer in it."""
    setup = f"made-up SiemensNX.exe {version}".encode()
    host.downloads[URL] = File(b"zip", sha256=sha256, holds={r"nx\SiemensNX.exe": File(setup)})
    product = Product(version, "Siemens", product_id=CODE)
    host.installers[hashlib.sha256(setup).hexdigest()] = Installer(
        arguments=["/quiet"],
        needs=["/quiet"],
        status=status,
        leaves=Leaves(products={"Siemens NX": product}),
        reboot=status == 3010,
    )


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    host = Host.nv_a10()
    offer(host)
    with serving(host) as (_, variables):
        yield Desk(tmp_path, host, variables)


def test_a_fresh_host_gets_nx_once(desk: Desk) -> None:
    status, changed, said = desk.run("--check")
    assert (status, desk.host.installed, desk.licence()) == (0, [], None), said
    assert changed == 2
    status, _, said = desk.run()
    assert (status, desk.licence()) == (0, "28000@licences"), said
    assert (len(desk.host.installed), desk.host.requests) == (1, [URL])
    assert desk.host.below(r"C:\Program Files\trueup\nx_desktop") == []
    assert desk.run()[:2] == (0, 0)
    assert desk.run("--check")[:2] == (0, 0)


def test_drift_is_repaired_and_what_is_not_declared_goes(desk: Desk) -> None:
    desk.run()
    desk.host.registry.set(ENVIRONMENT, "LICENCE_SERVER", "string", "another")
    desk.host.registry.set(ENVIRONMENT, "SITE", "string", "theirs")
    assert desk.run()[:2] == (0, 1)
    assert desk.licence() == "28000@licences"
    assert desk.run(environment={})[:2] == (0, 1)
    assert (desk.licence(), desk.host.registry.value(ENVIRONMENT, "SITE")) == (None, "theirs")
    assert desk.run(environment={})[:2] == (0, 0)


def test_what_goes_wrong_is_one_sentence(desk: Desk) -> None:
    desk.host.downloads[URL].sha256 = "f" * 64
    status, _, said = desk.run()
    assert (status, desk.host.installed, desk.licence()) == (2, [], None)
    assert "NX 2506.4: https://mirror.example/nx.zip" in said
    offer(desk.host, status=1603)
    status, _, said = desk.run()
    assert (status, "NX 2506.4: its installer failed" in said) == (2, True)
    # Another zip, which installs another version than the site says.
    offer(desk.host, version="2406", sha256="e" * 64)
    status, _, said = desk.run(sha256="e" * 64)
    assert (status, "correct product or version of nx_desktop_installer" in said) == (2, True)


def test_a_reboot_is_asked_for(desk: Desk) -> None:
    offer(desk.host, status=3010)
    status, _, said = desk.run()
    assert (status, "nx_desktop_reboot_required" in said) == (2, True)
    status, _, said = desk.run(reboot_allowed=True)
    assert (status, desk.host.boots, desk.licence()) == (0, 1, "28000@licences"), said


def test_without_an_installer_it_does_nothing(desk: Desk) -> None:
    status, changed, _ = desk.run(url="")
    assert (status, changed, desk.host.installed, desk.licence()) == (0, 0, [], None)
