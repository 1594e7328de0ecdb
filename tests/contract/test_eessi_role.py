"""The role eessi on this machine, below a folder of the test's own: the stand-ins of the CernVM-FS
client and of the repository (molecule/_shared/vendor_repo/packages/eessi.yml), of nvidia-smi and of
systemctl. Packages are not installed here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent.parent
PACKAGES = yaml.safe_load(
    (ROOT / "molecule/_shared/vendor_repo/packages/eessi.yml").read_text(encoding="utf-8")
)["packages"]
PROXIES = ["http://squid-1:3128", "http://squid-2:3128"]
SYSTEMCTL = """#!/bin/sh
# Stand-in for tests: autofs runs and is enabled; nothing else is known.
case "$*" in
    *is-enabled*) echo enabled ;;
    *show*autofs*) printf 'LoadState=loaded\\nActiveState=active\\nUnitFileState=enabled\\n' ;;
    daemon-reload | *is-active*) ;;
    *) echo "stand-in: no answer recorded for $*" >&2; exit 1 ;;
esac
"""


class Node:
    """A folder with what the stand-in packages bring."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "node"
        for name in ("etc", "dev", "var/log", "usr/lib", "opt"):
            (self.root / name).mkdir(parents=True)
        for name in ("etc/passwd", "etc/group", "dev/fuse", "usr/lib/libcuda.so.1"):
            (self.root / name).touch()
        for package in PACKAGES:
            for path, entry in package["files"].items():
                self.write(path.lstrip("/"), entry["content"], entry["mode"])
        self.write("usr/bin/systemctl", SYSTEMCTL, "0755")
        self.gpus = 0
        self.folder = folder
        # A stand-in of the role that would install packages: it only says which.
        tasks = folder / "stand-ins/vendor_packages/tasks"
        tasks.mkdir(parents=True)
        said = "{{ [vendor_packages_repository, vendor_packages_pins] | to_json }}"
        (tasks / "main.yml").write_text(yaml.safe_dump([{"debug": {"msg": said}}]))

    def write(self, name: str, content: str, mode: str = "0644") -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        path.chmod(int(mode, 8))

    def driver(self, version: str) -> None:
        self.gpus = 1
        self.write("usr/bin/nvidia-smi", f"#!/bin/sh\necho {version}\n", "0755")

    def run(self, *options: str, **variables: Any) -> tuple[int, int, str]:
        """Exit status, how many tasks changed something, and all that was said."""
        root = str(self.root)
        settings = {
            "__eessi_etc": f"{root}/etc",
            "__eessi_mount": f"{root}/cvmfs",
            "__eessi_fuse": f"{root}/dev/fuse",
            "__eessi_home": f"{root}/opt/trueup/eessi",
            "__eessi_state": f"{root}/var/lib/trueup/eessi_gpu.json",
            "__eessi_program": f"{root}/usr/libexec/eessi",
            "eessi_cache_base": f"{root}/var/lib/cvmfs",
            "eessi_nvidia_folder": f"{root}/opt/eessi/nvidia",
            "eessi_host_injections": f"{root}/opt/eessi/host_injections",
            "eessi_cache_mb": 1000,
            "trueup_node": {
                "package_manager": "apt",
                "distribution": "debian",
                "distribution_version": "12",
                "architecture": os.uname().machine,
                "container": False,
                "catalog": {"gpus": self.gpus, "rdma_nics": 1},
                "nvme": [],
            },
            **variables,
        }
        play = {"hosts": "all", "gather_facts": False, "roles": ["eessi"]}
        (self.folder / "play.yml").write_text(yaml.safe_dump([play]))
        (self.folder / "settings.json").write_text(json.dumps(settings))
        done = subprocess.run(
            [
                str(Path(sys.executable).with_name("ansible-playbook")),
                *("-i", "localhost,", "-c", "local"),
                *("-e", f"ansible_python_interpreter={sys.executable}", "-e", "@settings.json"),
                *options,
                "play.yml",
            ],
            cwd=self.folder,
            env={
                **os.environ,
                "PATH": f"{root}/usr/bin:{os.environ['PATH']}",
                "STAND_IN_ROOT": root,
                "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
                "ANSIBLE_ROLES_PATH": f"{self.folder / 'stand-ins'}:{ROOT / 'roles'}",
                "ANSIBLE_CACHE_PLUGIN": "memory",
                "ANSIBLE_NOCOLOR": "1",
                "TRUEUP_RESULTS": str(self.folder / "results"),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        said = done.stdout + done.stderr
        changed = [line for line in said.splitlines() if "changed=" in line]
        count = int(changed[-1].split("changed=")[1].split()[0]) if changed else -1
        return done.returncode, count, " ".join(said.split())

    def calls(self) -> list[str]:
        log = self.root / "var/log/stand-in-cvmfs_config.log"
        return log.read_text().splitlines() if log.exists() else []

    def text(self, name: str) -> str:
        return (self.root / name).read_text()


@pytest.fixture(name="node")
def _node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_one_node_is_set_up_once_and_reloads_on_change(node: Node) -> None:
    status, _, said = node.run("--check")
    assert (status, node.calls()) == (0, []), said
    assert '"suite": "bookworm-prod", "components": "main"' in said.replace("\\", "")
    assert '{"name": "cvmfs", "version": "2.13.3*"}' in said.replace("\\", "")
    status, changed, said = node.run()
    assert (status, changed) == (0, 2), said
    assert node.calls() == ["setup", "probe software.eessi.io"]
    client = node.text("etc/cvmfs/default.local")
    assert 'CVMFS_CLIENT_PROFILE="single"' in client
    assert "CVMFS_HTTP_PROXY" not in client
    assert f'EESSI_NVIDIA_OVERRIDE_DEFAULT="{node.root}/opt/eessi/nvidia"' in client
    assert "export OMPI_MCA_btl='^uct,ofi'" in node.text("opt/trueup/eessi/eessi.sh")
    assert (node.root / "etc/systemd/system/trueup-eessi-gpu.service").exists() is False
    for options in ((), ("--check",)):
        assert node.run(*options)[:2] == (0, 0)
    assert node.calls()[2:] == ["probe software.eessi.io"]
    servers = ["http://azure-us-east-s1.eessi.science/cvmfs/@fqrn@"]
    status, changed, said = node.run(eessi_http_proxies=PROXIES, eessi_servers=servers)
    assert (status, changed, node.calls()[3]) == (0, 2, "reload"), said
    client = node.text("etc/cvmfs/default.local")
    assert 'CVMFS_HTTP_PROXY="http://squid-1:3128|http://squid-2:3128"' in client
    assert "PROFILE" not in client
    assert f'CVMFS_SERVER_URL="{servers[0]}"' in node.text("etc/cvmfs/domain.d/eessi.io.local")


@pytest.mark.parametrize(
    ("version", "folder"),
    [
        ("2023.06", f"opt/eessi/host_injections/nvidia/{os.uname().machine}/host"),
        ("2025.06", "opt/eessi/nvidia"),
    ],
)
def test_the_drivers_libraries_are_linked_again_for_another_driver(
    node: Node, version: str, folder: str
) -> None:
    node.driver("570.211.01")
    status, changed, said = node.run(eessi_version=version)
    assert (status, changed) == (0, 3), said
    assert node.text(f"{folder}/driver_version.txt") == "570.211.01\n"
    assert node.run(eessi_version=version)[:2] == (0, 0)
    node.driver("580.126.16")
    assert node.run(eessi_version=version)[:2] == (0, 1)
    noted = json.loads(node.text("var/lib/trueup/eessi_gpu.json"))
    assert noted == {
        "driver": "580.126.16",
        "version": version,
        "folder": str(node.root / folder),
    }
    (node.root / folder / "libcuda.so.1").unlink()
    assert node.run(eessi_version=version)[:2] == (0, 1)
    unit = node.root / "etc/systemd/system/multi-user.target.wants/trueup-eessi-gpu.service"
    assert unit.resolve().name == "trueup-eessi-gpu.service"


REFUSED: list[dict[str, tuple[Any, str]]] = [
    {
        "eessi_versoin": ("2025.06", "eessi_versoin: the role eessi has no such variable"),
        "eessi_version": ("2024.06", "eessi_version is 2024.06: catalog/eessi.yml has 2023.06"),
        "eessi_http_proxies": (PROXIES[:1], "has 1 for 1 clients, and 2 are needed"),
        "eessi_servers": (["http://x/"], "eessi_servers has http://x/: write a server as"),
        "eessi_cache_mb": (10, "eessi_cache_mb is 10: CernVM-FS wants at least 1000 MB"),
        "__eessi_fuse": ("/no/fuse", "/no/fuse is not there, and CernVM-FS mounts by FUSE"),
        "eessi_host_injections": ("/x", ""),
        "eessi_nvidia_folder": ("/x/nvidia/y", "lies where 2023.06 makes folders"),
    },
    {
        "eessi_config": ("eessi", "eessi_config_package.apt.sha256 is missing"),
        "eessi_http_proxies": (PROXIES, "has 2 for 1001 clients, and 3 are needed"),
        "eessi_clients": (1001, ""),
        "eessi_cache_mb": (10**9, "eessi_cache_mb is 1000000000 (10^6 bytes each): make room"),
    },
    {"eessi_http_proxies": (["squid", "s:1"], "eessi_http_proxies has squid, s:1: write a proxy")},
]


@pytest.mark.parametrize("wrong", REFUSED)
def test_what_cannot_work_is_refused_before_anything_changes(
    node: Node, wrong: dict[str, tuple[Any, str]]
) -> None:
    status, changed, said = node.run(**{name: value for name, (value, _) in wrong.items()})
    assert (status, changed, node.calls()) == (2, 0, []), said
    assert [message for _, message in wrong.values() if message not in said] == []


def test_a_repository_that_does_not_answer_or_lacks_the_version_fails(node: Node) -> None:
    status, _, said = node.run(eessi_version="2026.06")
    assert status == 2
    assert "the version 2026.06 is not in the repository" in said
    (node.root / "cvmfs/software.eessi.io").unlink()
    status, _, said = node.run()
    assert status == 2
    assert (
        "cvmfs_config probe software.eessi.io failed (Probing /cvmfs/software.eessi.io..." in said
    )


def test_a_gpu_without_a_driver_is_named(node: Node) -> None:
    node.gpus = 1
    status, _, said = node.run()
    assert status == 2
    assert "nvidia-smi does not say the driver" in said
    assert "Traceback" not in said
