"""A private root for apt and dpkg, with small packages of stand-ins: real transactions, no root."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest

PROGRAMS = ("apt-get", "dpkg-deb", "dpkg-query", "apt-ftparchive")
_CONFIGURATION = """\
Dir "{root}";
Dir::State::status "{root}/var/lib/dpkg/status";
Dir::Bin::methods "/usr/lib/apt/methods";
Dir::Bin::dpkg "/usr/bin/dpkg";
Debug::NoLocking "true";
APT::Architecture "amd64";
APT::Sandbox::User "";
DPkg::Path "/usr/sbin:/usr/bin:/sbin:/bin";
Dpkg::Options {{ "--root={root}"; "--force-not-root"; "--force-script-chrootless"; }};
"""


def lacking() -> str:
    """The program that this machine lacks for it; empty where it has all."""
    return next((name for name in PROGRAMS if shutil.which(name) is None), "")


class PrivateApt:
    """apt's and dpkg's folders below ``root``, and a repository beside it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.repository = folder / "root", folder / "repository"
        self.repository.mkdir()
        for name in (
            *("var/lib/apt/lists/partial", "var/cache/apt/archives/partial", "var/log/apt"),
            *("var/lib/dpkg/info", "var/lib/dpkg/updates", "etc/apt/sources.list.d"),
            *("etc/apt/preferences.d", "etc/apt/apt.conf.d", "etc/apt/trusted.gpg.d"),
        ):
            (self.root / name).mkdir(parents=True)
        self.status = self.root / "var/lib/dpkg/status"
        self.status.touch()
        (self.root / "etc/apt/sources.list").write_text(
            f"deb [trusted=yes] file:{self.repository} ./\n"
        )
        configuration = folder / "apt.conf"
        configuration.write_text(_CONFIGURATION.format(root=self.root))
        monkeypatch.setenv("APT_CONFIG", str(configuration))
        monkeypatch.setenv("DPKG_ADMINDIR", str(self.root / "var/lib/dpkg"))

    def offer(self, name: str, version: str, **fields: str) -> None:
        """A package in the repository; its index is written by ``publish``."""
        package = self.repository / "build"
        (package / "DEBIAN").mkdir(parents=True)
        (package / "DEBIAN" / "control").write_text(_control(name, version, fields))
        argv = ["dpkg-deb", "--build", "--root-owner-group", str(package), str(self.repository)]
        subprocess.run(argv, check=True, capture_output=True)
        shutil.rmtree(package)

    def publish(self) -> None:
        """The repository's index."""
        argv = ["apt-ftparchive", "packages", "."]
        done = subprocess.run(argv, cwd=self.repository, check=True, capture_output=True, text=True)
        (self.repository / "Packages").write_text(done.stdout)

    def have(self, name: str, version: str, **fields: str) -> None:
        """A package that is installed already."""
        paragraph = _control(name, version, {"Status": "install ok installed", **fields})
        self.status.write_text(f"{self.status.read_text()}{paragraph}\n")
        (self.root / f"var/lib/dpkg/info/{name}.list").write_text("/.\n")

    def installed(self) -> Mapping[str, str]:
        """Every installed package with its version."""
        shown = "--showformat=${db:Status-Status} ${Package} ${Version}\\n"
        argv = ["dpkg-query", "--show", shown]
        shown_packages = subprocess.run(argv, check=True, capture_output=True, text=True)
        rows = [line.split() for line in shown_packages.stdout.splitlines()]
        return {name: version for status, name, version in rows if status == "installed"}


def _control(name: str, version: str, fields: Mapping[str, str]) -> str:
    merged = {
        "Package": name,
        "Version": version,
        "Architecture": "amd64",
        "Maintainer": "trueup tests <tests@trueup.invalid>",
        **fields,
        "Description": "Stand-in for tests",
    }
    return "".join(f"{key}: {value}\n" for key, value in merged.items())
