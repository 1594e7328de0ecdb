"""Roles and packages: one way in which all of them install, with real apt on a private root, and
Enterprise Linux 8, whose packages are verified with rpm by command and not changed."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import plays
import private_apt
import pytest
import role_plans
import yaml

ROOT = Path(__file__).resolve().parents[2]
MODULES = {"apt", "apt_rpm", "dnf", "dnf5", "package", "yum", "zypper"}
PROGRAM = re.compile(r"\b(?:apt|apt-get|aptitude|dnf|microdnf|tdnf|yum)\b")
VERB = re.compile(r"\b(?:install|remove|purge|autoremove|upgrade|dist-upgrade|downgrade|erase)\b")
# Where package managers are started: the module, and the first boot of a node that configures
# itself, which gets git before it has a checkout.
STARTED = {
    "module_utils/trueup_node/node/transactions.py",
    "module_utils/trueup_node/vm/node_pull.py",
}


def tasks(node: Any) -> Iterator[dict[str, Any]]:
    """Every mapping of a YAML file."""
    if isinstance(node, dict):
        yield node
        for value in node.values():
            yield from tasks(value)
    elif isinstance(node, list):
        for value in node:
            yield from tasks(value)


def starts_a_manager(task: dict[str, Any]) -> bool:
    """Whether it is a task of Ansible's package modules, defaults for one, or a command that
    installs or removes packages."""
    commands = [task[key] for key in ("argv", "cmd", "command", "shell") if key in task]
    commands += [task[key] for key in task if str(key).endswith((".command", ".shell", ".raw"))]
    words = str(commands)
    named = {str(key).removeprefix("ansible.builtin.") for key in task if "." in str(key)}
    listed = {str(task.get("action", "")).removeprefix("ansible.builtin.")}
    return bool((named | listed) & MODULES) or bool(PROGRAM.search(words) and VERB.search(words))


def test_roles_and_playbooks_install_packages_in_one_way() -> None:
    files = [
        *(ROOT / "roles").rglob("*.yml"),
        *(ROOT / "playbooks").glob("**/*.yml"),
        ROOT / "site.yml",
    ]
    wrong = [
        str(path.relative_to(ROOT))
        for path in sorted(files)
        for task in tasks(yaml.safe_load(path.read_text(encoding="utf-8")))
        if starts_a_manager(task)
    ]
    assert wrong == []
    assert len(files) > 200


def test_package_managers_install_from_one_file() -> None:
    listed = re.compile(
        r'"(?:apt|apt-get|dnf|tdnf|yum)"[^\n]*(?:\n[^\n]*){0,3}"(?:install|remove)"'
    )
    files = [
        path
        for folder in ("module_utils", "controller", "library", "plugins")
        for path in (ROOT / folder).glob("**/*.py")
    ]
    starting = {
        str(path.relative_to(ROOT))
        for path in files
        if listed.search(path.read_text(encoding="utf-8"))
    }
    assert starting - STARTED == set()


@pytest.mark.skipif(private_apt.lacking() != "", reason=f"{private_apt.lacking()} is not installed")
def test_a_role_refuses_to_remove_the_images_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compiler, of which a dependency conflicts with an image's package."""
    apt = private_apt.PrivateApt(tmp_path, monkeypatch)
    apt.offer("gcc", "12.2-1", Depends="libucx0")
    apt.offer("libucx0", "1.13.1-1")
    for name in ("g++", "libc6-dev", "libgomp1"):
        apt.offer(name, "12.2-1")
    apt.publish()
    apt.have("ucx", "1.18.0-1", Conflicts="libucx0 (<< 1.18.0-1)")
    apt.have("doca-ofed", "2.10.0-1", Depends="ucx")
    node = role_plans.node("hbv3", "ubuntu-22.04", programs={"gcc": None})
    play = {"roles": ["compiler"], "vars": {"trueup_node": node}}
    env = {name: os.environ[name] for name in ("APT_CONFIG", "DPKG_ADMINDIR", "PATH")}
    env["TRUEUP_PACKAGES"] = str(tmp_path / "record.json")
    status, changed, output = plays.counted(plays.roles(tmp_path, play, env=env))
    assert (status == 0, changed) == (False, 0), output
    assert "apt would remove doca-ofed (2.10.0-1), ucx (1.18.0-1)" in output
    assert "the role compiler did not install" in output
    assert sorted(apt.installed()) == ["doca-ofed", "ucx"]


@pytest.mark.skipif(private_apt.lacking() != "", reason=f"{private_apt.lacking()} is not installed")
def test_the_lab_installs_what_a_fresh_machine_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before any play has identified the machine."""
    apt = private_apt.PrivateApt(tmp_path, monkeypatch)
    sets = yaml.safe_load((ROOT / "playbooks/vars/lab_packages.yml").read_text(encoding="utf-8"))
    names = sorted(sets["lab_packages_by_set"]["run"])
    for name in names:
        apt.offer(name, "1.0-1")
    apt.publish()
    env = {name: os.environ[name] for name in ("APT_CONFIG", "DPKG_ADMINDIR", "PATH")}
    done = plays.playbook(tmp_path, "playbooks/lab.yml", "-e", "lab_packages=run", env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(apt.installed()) == names


# Of AlmaLinux-HPC 8.10 without gcc-c++; a stand-in of rpm.
RPM = """#!/bin/sh
[ "$LC_ALL" = C ] && [ "$1 $2" = "--query --whatprovides" ] || exit 99
shift 2
missing=0
for name; do
    case $name in
        {missing}) echo "no package provides $name"; missing=$((missing + 1)) ;;
        *) echo "$name-8.5.0-28.el8_10.x86_64" ;;
    esac
done
exit $missing
"""


def _path_without(folder: Path, program: str, path: str) -> str:
    """A PATH with every program of another one but ``program``, which this machine may have."""
    folder.mkdir()
    for source in path.split(":"):
        for file in Path(source).glob("*"):
            link = folder / file.name
            if file.name != program and not link.is_symlink():
                link.symlink_to(file)
    return str(folder)


@pytest.mark.skipif(private_apt.lacking() != "", reason=f"{private_apt.lacking()} is not installed")
@pytest.mark.parametrize(("provides", "skipped"), [("", True), ("libucx0 (= 1.18.0-1)", False)])
def test_gromacs_is_skipped_by_name_where_its_mpi_would_cost_the_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, provides: str, skipped: bool
) -> None:
    """As preflight and the installation go, where DOCA's ucx is of before 1.19 or later."""
    apt = private_apt.PrivateApt(tmp_path, monkeypatch)
    apt.offer("gromacs", "2022.5-2", Depends="libopenmpi3")
    apt.offer("libopenmpi3", "4.1.4-3", Depends="libucx0 (>= 1.12)")
    apt.offer("libucx0", "1.13.1-1")
    apt.publish()
    more = {"Provides": provides} if provides else {}
    apt.have("ucx", "1.18.0-1", Conflicts="libucx0 (<< 1.18.0-1)", **more)
    apt.have("doca-ofed", "2.10.0-1", Depends="ucx")
    subprocess.run(["apt-get", "update"], check=True, capture_output=True)
    env = {name: os.environ[name] for name in ("APT_CONFIG", "DPKG_ADMINDIR", "PATH")}
    env["TRUEUP_PACKAGES"] = str(tmp_path / "record.json")
    env["PATH"] = _path_without(tmp_path / "programs", "gmx", env["PATH"])
    play = {
        "tasks": [
            {"ansible.builtin.include_role": {"name": "gromacs", "tasks_from": "preflight"}},
            {
                "ansible.builtin.debug": {
                    "msg": "{{ __gromacs_plan.install_package }} {{ __gromacs_plan.skipped_here }}"
                }
            },
        ],
        "vars": {"trueup_node": role_plans.node("hbv3", "ubuntu-22.04")},
    }
    status, _, output = plays.counted(plays.roles(tmp_path, play, env=env))
    assert status == 0, output
    assert ("True []" in output) is not skipped, output
    assert ("would remove or downgrade doca-ofed (2.10.0-1), ucx (1.18.0-1)" in output) is skipped
    assert sorted(apt.installed()) == ["doca-ofed", "ucx"]


@pytest.mark.parametrize("check", [(), ("--check",)], ids=["run", "check"])
@pytest.mark.parametrize("missing", ["none", "gcc-c++"])
def test_a_role_verifies_its_packages(tmp_path: Path, missing: str, check: Any) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "rpm").write_text(RPM.format(missing=missing))
    (programs / "rpm").chmod(0o755)
    node = role_plans.node("hbv3", "almalinux-8", programs={"gcc": None})
    play = {"roles": ["compiler"], "vars": {"trueup_node": node}}
    env = {"PATH": f"{programs}:{os.environ['PATH']}"}
    status, changed, said = plays.counted(plays.roles(tmp_path, play, *check, env=env))
    assert (status == 0, changed) == (missing == "none", 0), said
    assert ("gcc-c++: not installed" in said) is (missing != "none")


@pytest.mark.parametrize("image", [None, {"HPCX": "2.25.1"}], ids=["bare", "image"])
def test_preflight_lets_azures_image_pass_with_a_warning(tmp_path: Path, image: Any) -> None:
    node = role_plans.node("hbv3", "almalinux-8", hpc_image=image)
    known = {
        "trueup_node": node,
        "trueup_family_roles": ["rdma"],
        "trueup_cluster_roles": [],
        "trueup_plan": ["stream"],
        "trueup_health_plan": [],
    }
    play = {"tasks": [{"trueup_preflight": {}}], "vars": known}
    status, _, said = plays.counted(plays.roles(tmp_path, play))
    assert (status == 0) is (image is not None), said
    assert ("[WARNING]" in said and "none is installed" in said) is (image is not None), said
