"""The role enroot_pyxis: what it refuses and what it would write on this machine, in check mode,
and its shell files with stand-ins. Nothing of this machine is changed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import plays
import pytest
import yaml
from helpers import ROLES
from role_plans import node
from trueup_controller.sites.enroot_pyxis import read_look

FILES = ROLES["enroot_pyxis"] / "files"
SUM = "a" * 64
NODE = node("local", "debian-12")
GIVEN = {
    "enroot_pyxis_enroot_checksums": {
        "enroot_4.0.1-1_amd64.deb": SUM,
        "enroot+caps_4.0.1-1_amd64.deb": SUM,
    },
    "enroot_pyxis_free_bytes": 1,
}


def check(
    folder: Path, cases: list[tuple[dict[str, Any], dict[str, Any]]], role: str = "enroot_pyxis"
) -> list[tuple[int, dict[str, str], str]]:
    """Of nodes in one play: exit status, path to content of what would be written, and what was
    said. A case is what the node is and the role's variables."""
    hosts = {
        f"n{number}": {
            "trueup_node": {**NODE, **node},
            "enroot_pyxis_scratch": str(folder),
            "enroot_pyxis_slurm_dir": str(folder / "slurm"),
            **GIVEN,
            **variables,
        }
        for number, (node, variables) in enumerate(cases)
    }
    options = ("--check", "--diff", "--tags", "configure")
    play = {"roles": [role]}
    answer = plays.answer(plays.roles(folder, play, *options, hosts=hosts, env=plays.AS_JSON))
    return [_found(answer, plays.results(answer, name), name) for name in hosts]


def _found(
    answer: dict[str, Any], results: list[dict[str, Any]], name: str
) -> tuple[int, dict[str, str], str]:
    said = " ".join(str(result.get("msg", "")) for result in results)
    diffs = [diff for result in results for diff in result.get("diff") or []]
    written = {diff["after_header"]: diff["after"].partition("\n")[2] for diff in diffs}
    return 2 if answer["stats"][name]["failures"] else 0, written, said


def test_what_cannot_work_is_refused(tmp_path: Path) -> None:
    (tmp_path / "slurm").mkdir()
    (tmp_path / "slurm/plugstack.conf").write_text("required /usr/lib/other.so\n")
    cases: list[tuple[dict[str, Any], str]] = [
        ({"enroot_pyxis_scratsh": "/x"}, "no such variable; did you mean enroot_pyxis_scratch?"),
        ({"enroot_pyxis_free_bytes": 1 << 60}, "free some, or give enroot_pyxis_scratch"),
        # Slurm's configuration of a site is not edited.
        ({}, f"add the line `include {tmp_path}/slurm/plugstack.conf.d/*` to it"),
    ]
    found = check(tmp_path, [({}, variables) for variables, _ in cases])
    for (status, written, said), (_, sentence) in zip(found, cases, strict=True):
        assert (status, written) == (2, {})
        assert sentence in said


def settings(text: str, uid: int) -> dict[str, str]:
    """The settings as enroot 4.0.1 takes them from a file: bash's words, names first."""
    loop = (
        "while IFS=$' \\t=' read -r name value; do"
        ' [[ $name != ENROOT_* ]] || echo "$name $(eval echo "$value")"; done'
    )
    prefix = f"id() {{ [ $1 = -u ] && echo {uid}; }}; "
    done = subprocess.run(
        ["bash", "-c", prefix + loop], input=text, capture_output=True, text=True, check=True
    )
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


def test_each_user_has_folders_of_its_own_on_scratch(tmp_path: Path) -> None:
    profile = tmp_path / "nccl.sh"
    profile.write_text("export NCCL_TOPO_FILE=/opt/microsoft/ndv5/topo.xml\n")
    # A role of its own, whose profile of role nccl is that file.
    role = shutil.copytree(ROLES["enroot_pyxis"], tmp_path / "roles" / "enroot_pyxis")
    data = yaml.safe_load((role / "vars" / "main.yml").read_text())
    data["__enroot_pyxis_variables_file"] = str(profile)
    (role / "vars" / "main.yml").write_text(yaml.safe_dump(data))
    given = {
        "enroot_pyxis_settings": {"ENROOT_MOUNT_HOME": "n"},
        "enroot_pyxis_plugin_arguments": ["container_scope=job"],
    }
    adapter = {"infiniband": [{"name": "mlx5_ib0"}]}
    [(status, written, said)] = check(tmp_path, [(adapter, given)], str(role))
    assert status == 0, said
    conf = written["/etc/enroot/enroot.conf.d/00-trueup.conf"]
    assert settings(conf, 1000) == {
        "ENROOT_RUNTIME_PATH": f"{tmp_path}/enroot/runtime/user-1000",
        "ENROOT_CACHE_PATH": f"{tmp_path}/enroot/cache/user-1000",
        "ENROOT_DATA_PATH": f"{tmp_path}/enroot/data/user-1000",
        "ENROOT_TEMP_PATH": f"{tmp_path}/enroot/temp",
        "ENROOT_SQUASH_OPTIONS": "-noI -noD -noF -noX -no-duplicates",
        "ENROOT_MOUNT_HOME": "n",
        "ENROOT_RESTRICT_DEV": "y",
        "ENROOT_ROOTFS_WRITABLE": "y",
    }
    assert "\nMELLANOX_VISIBLE_DEVICES all\n" in conf
    assert written[f"{tmp_path}/slurm/plugstack.conf.d/pyxis.conf"].splitlines()[1] == (
        "required /opt/trueup/pyxis/spank_pyxis.so"
        f" runtime_path={tmp_path}/enroot/pyxis container_scope=job"
    )
    stack = written[f"{tmp_path}/slurm/plugstack.conf"]
    assert f"\ninclude {tmp_path}/slurm/plugstack.conf.d/*.conf\n" in stack
    mounts = written["/etc/enroot/mounts.d/60-trueup.fstab"].splitlines()
    assert mounts[-1].split()[:2] == ["/opt/microsoft", "/opt/microsoft"]
    assert "ro" in mounts[-1].split()[-1].split(",")
    hook = tmp_path / "hook.sh"
    hook.write_text(written["/etc/enroot/hooks.d/60-trueup-variables.sh"])
    given = "NCCL_TOPO_FILE=/opt/microsoft/ndv5/topo.xml\n"
    assert variables(hook, "IMAGE=1\n", {}) == f"IMAGE=1\n{given}"
    # What the image or the job has stays.
    assert variables(hook, "NCCL_TOPO_FILE=\n", {}) == "NCCL_TOPO_FILE=\n"
    assert variables(hook, "", {"NCCL_TOPO_FILE": "/mine"}) == ""


def variables(hook: Path, environment: str, job: dict[str, str]) -> str:
    """A container's environment after the hook."""
    file = hook.with_name("environment")
    file.write_text(environment)
    given = {"PATH": os.environ["PATH"], "ENROOT_ENVIRON": str(file), **job}
    subprocess.run(["bash", str(hook)], env=given, check=True)
    return file.read_text()


class Build:
    """A folder with header files of a Slurm and a source whose Makefile is a stand-in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "include/slurm").mkdir(parents=True)
        self.header = folder / "include/slurm/slurm_version.h"
        self.header.write_text("#define SLURM_VERSION_NUMBER 0x180b04\n")
        (folder / "source").mkdir()
        makefile = "spank_pyxis.so:\n\techo $(CPPFLAGS) >$@\nclean:\n\trm -f spank_pyxis.so\n"
        (folder / "source/Makefile").write_text(makefile)
        self.plugin = folder / "opt/pyxis/spank_pyxis.so"

    def run(self, slurm: str) -> tuple[int, str]:
        done = subprocess.run(
            ["sh", "-s", str(self.folder / "source"), str(self.plugin), slurm],
            input=(FILES / "build.sh").read_text(),
            env={"PATH": os.environ["PATH"], "SLURM_INCLUDE": str(self.folder / "include")},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stderr


@pytest.mark.parametrize("version", ["24.11.4", "24.11.4-1"])
def test_pyxis_is_built_against_the_headers_of_this_slurm(tmp_path: Path, version: str) -> None:
    build = Build(tmp_path)
    assert build.run(version) == (0, "")
    assert build.plugin.read_text() == f"-I{tmp_path}/include\n"


def test_headers_of_another_slurm_are_refused(tmp_path: Path) -> None:
    build = Build(tmp_path)
    status, said = build.run("24.05.4")
    assert (status, build.plugin.exists()) == (1, False)
    assert "is of Slurm 24.11.4, and srun is 24.05.4: install the development package" in said
    assert "there is no srun on this node" in build.run("")[1]
    build.header.unlink()
    assert "is missing: install Slurm's development package" in build.run("24.11.4")[1]


def test_what_a_node_says(tmp_path: Path) -> None:
    tools = {
        "dpkg-query": (
            '[ "$3" = enroot ] && echo "installed 4.0.1-1";'
            ' [ "$1" = -S ] && echo slurm-smd-client: /x'
        ),
        "enroot": "echo 4.0.1; echo more",
        "srun": '[ $1 = --help ] && echo "--container-image=x" || echo "slurm-wlm 22.05.8"',
        "systemctl": "exit 0",
    }
    for name, text in tools.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n# stand-in of {name}\n{text}\n")
        (tmp_path / name).chmod(0o755)
    plugin = tmp_path / "spank_pyxis.so"
    plugin.touch()
    (tmp_path / "spank_pyxis.so.built").write_text("pyxis abc slurm 22.05.8\n")
    # Its last line has no end, and is a line all the same.
    (tmp_path / "variables").write_text("export A=1\nexport B=2")
    given = {
        "PATH": f"{tmp_path}:/usr/bin:/bin",
        "MANAGER": "apt",
        "PACKAGES": "enroot enroot+caps",
        "PLACES": f"/no/place {tmp_path}",
        "PLUGIN": str(plugin),
        "SLURM_DIR": str(tmp_path / "slurm"),
        "SLURM_INCLUDE": str(tmp_path),
        "VARIABLES": str(tmp_path / "variables"),
    }

    def look() -> dict[str, dict[str, Any]]:
        done = subprocess.run(
            ["sh", "-s"],
            input=(FILES / "look.sh").read_text(),
            env=given,
            capture_output=True,
            text=True,
            check=True,
        )
        return read_look(done.stdout)

    said = look()
    assert list(said["paths"]) == [str(tmp_path)]
    assert said["paths"][str(tmp_path)]["free_bytes"] > 0
    assert said["files"][str(tmp_path / "variables")] == ["export A=1", "export B=2"]
    assert said["kernel"]["user.max_user_namespaces"] >= 0
    answers = {
        "package enroot": "4.0.1-1",
        "enroot": "4.0.1",
        "slurm": "22.05.8",
        "schedmd": "slurm-smd",
        "srun": "--container-image",
        "built": "pyxis abc slurm 22.05.8",
    }
    assert {name: said["answers"].get(name) for name in answers} == answers
    # A note without its plugin would keep it from being built again.
    plugin.unlink()
    (tmp_path / "srun").unlink()
    (tmp_path / "enroot").unlink()
    assert set(answers) & set(look()["answers"]) == {"package enroot"}
