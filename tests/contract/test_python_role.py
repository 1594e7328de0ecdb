"""The role python, through pinned_venv: a standalone build is unpacked, checked and used.

The build is played by the interpreter of these tests, copied into an archive: it is none of
python-build-standalone, and needs the libraries of this machine.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import plays
import pytest
import role_plans
import yaml
from trueup_node.node import pythons
from trueup_node.node.pythons import Need, interpreter
from trueup_node.plan import PlanInputs

VERSION = f"3.{sys.version_info.minor}"
LEFT_OUT = {"test", "__pycache__", "site-packages", "idlelib", "turtledemo", "lib2to3"}


@dataclass(frozen=True)
class Site:
    """A site with its own build.

    Attributes:
        build: the archive.
        version: which Python is said to be in it.
        sha256: what is said of it.
    """

    folder: Path
    build: Path
    version: str
    sha256: str

    def to_install(self) -> dict[str, Any]:
        """What the plan of a benchmark says on a node that has no such Python."""
        need = Need.of(
            {"oldest": self.version, "newest": self.version, "headers": True, "wants": ""}
        )
        site = {"url": self.build.as_uri(), "sha256": self.sha256, "version": self.version}
        named = {f"python_standalone_{name}": value for name, value in site.items()}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pythons, "_OWN", str(self.folder / "pythons"))
            found = interpreter(
                PlanInputs(
                    options={"python": "python3"},
                    node={"privilege": None, "architecture": "x86_64"},
                    variables=named,
                    found={"python": None, "pythons": []},
                    catalog=role_plans.catalog,
                ),
                need,
            )
        assert found is not None
        return found.to_install

    def run(self, *options: str) -> tuple[int, int, str]:
        """Exit status, how many tasks said changed, and all that was said."""
        given = self.to_install()
        path = given["check"][0]
        variables = {
            "pinned_venv_environment": {
                "path": str(self.folder / "made" / "venv"),
                "python": path,
                # Once it is there, the plan says nothing of it.
                "to_install": {} if Path(path).exists() else given,
                "requirements": [str(self.folder / "roles/user/files/requirements.txt")],
                "find_links": "",
                "no_index": True,
            }
        }
        task = {"ansible.builtin.include_role": {"name": "pinned_venv"}, "vars": variables}
        for name, text in (
            ("tasks/main.yml", yaml.safe_dump([task])),
            ("files/requirements.txt", ""),
        ):
            file = self.folder / "roles" / "user" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        places = {"ANSIBLE_ROLES_PATH": f"{self.folder / 'roles'}:{plays.ROLES_PATH}"}
        node = {"roles": ["user"], "vars": {"trueup_node": {"privilege": None}}}
        return plays.counted(plays.roles(self.folder, node, *options, env=places))


@pytest.fixture(name="build", scope="module")
def _build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def kept(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        return None if LEFT_OUT & set(Path(member.name).parts) else member

    archive = tmp_path_factory.mktemp("build") / "python.tar"
    base = Path(sys.base_prefix)
    with tarfile.open(archive, "w") as tar:
        for name in (f"bin/python{VERSION}", f"include/python{VERSION}", f"lib/python{VERSION}"):
            tar.add(base / name, f"python/{name}", filter=kept)
    return archive


@pytest.fixture(name="site")
def _site(tmp_path: Path, build: Path) -> Site:
    return Site(tmp_path, build, VERSION, hashlib.sha256(build.read_bytes()).hexdigest())


def test_a_build_is_unpacked_and_the_environment_made_with_it(site: Site) -> None:
    status, changed, said = site.run("--check")
    assert (status, (site.folder / "pythons").exists()) == (0, False), said
    assert changed > 0
    status, changed, said = site.run()
    assert status == 0, said
    program = (
        "import os, sys, sysconfig; print(sys.base_prefix,"
        " os.path.isfile(sysconfig.get_path('include') + '/Python.h'))"
    )
    python = site.folder / "made" / "venv" / "bin" / "python"
    answer = subprocess.run([python, "-c", program], capture_output=True, text=True, check=True)
    folder = site.to_install()["archive"]["place"]
    assert answer.stdout.split() == [folder, "True"]
    assert [path.name for path in Path(folder).glob("*.tar")] == []
    status, changed, said = site.run()
    assert (status, changed) == (0, 0), said


def test_an_archive_with_another_sha256_is_not_unpacked(site: Site) -> None:
    status, _, said = replace(site, sha256="ab" * 32).run()
    assert (status == 0, "a file of another sha256" in said) == (False, True), said
    assert list((site.folder / "pythons").rglob("python3*")) == []


def test_an_archive_that_is_cut_off_is_said(site: Site) -> None:
    cut = site.folder / "cut.tar"
    cut.write_bytes(site.build.read_bytes()[:10_000_000])
    sha256 = hashlib.sha256(cut.read_bytes()).hexdigest()
    status, _, said = replace(site, build=cut, sha256=sha256).run()
    assert status != 0
    assert "Unpack the build" in said


def test_a_build_of_another_version_is_refused(site: Site, tmp_path: Path) -> None:
    """The program has the name that was asked for, and is another."""
    other = f"3.{sys.version_info.minor + 1}"
    wrong = tmp_path / "wrong.tar"
    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    program.chmod(0o755)
    with tarfile.open(wrong, "w") as tar:
        tar.add(program, f"python/bin/python{other}")
    sha256 = hashlib.sha256(wrong.read_bytes()).hexdigest()
    status, _, said = Site(tmp_path, wrong, other, sha256).run()
    assert (status == 0, f"this is Python {VERSION}, not {other}" in said) == (False, True), said
