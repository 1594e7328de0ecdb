"""The role eessi on this machine, below folders of the test's own, one for each node of a play: the
stand-ins of the CernVM-FS client and of the repository
(molecule/_shared/vendor_repo/packages/eessi.yml), of nvidia-smi, of sudo and of systemctl. Packages
are not installed here."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import plays
import role_plans
import yaml
from helpers import ROLES, ROOT

PACKAGES = yaml.safe_load(
    (ROOT / "molecule/_shared/vendor_repo/packages/eessi.yml").read_text(encoding="utf-8")
)["packages"]
MACHINE = os.uname().machine
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
SUDO = """#!/bin/sh
# Stand-in for tests: notes that it was asked, and changes no user.
echo "$*" >> "$0.log"
while [ "$1" != /bin/sh ]; do shift; done
exec "$@"
"""


class Node:
    """A folder with what the stand-in packages bring, and variables."""

    def __init__(self, folder: Path, **variables: Any) -> None:
        self.root = folder
        for name in ("etc", "dev", "var/log", "usr/lib", "opt"):
            (self.root / name).mkdir(parents=True)
        for name in ("etc/passwd", "etc/group", "dev/fuse", "usr/lib/libcuda.so.1"):
            (self.root / name).touch()
        for package in PACKAGES:
            for path, entry in package["files"].items():
                self.write(path.lstrip("/"), entry["content"], entry["mode"])
        self.write("usr/bin/systemctl", SYSTEMCTL, "0755")
        self.write("usr/bin/sudo", SUDO, "0755")
        root = str(self.root)
        # A role of its own, for which this folder is the whole node.
        role = shutil.copytree(ROLES["eessi"], self.root / "roles" / "eessi")
        (role / "vars" / "main.yml").write_text(
            (role / "vars" / "main.yml").read_text().replace('root: ""', f"root: {root}")
        )
        self.seen: dict[str, Any] = role_plans.node(
            "hbv3", "debian-12", architecture=MACHINE, nvme=[]
        )
        self.variables = {
            "root": root,
            "ansible_become_exe": f"{root}/usr/bin/sudo",
            "eessi_cache_base": f"{root}/var/lib/cvmfs",
            "eessi_cache_mb": 1000,
            "trueup_node": self.seen,
            **variables,
        }

    def write(self, name: str, content: str, mode: str = "0644") -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        path.chmod(int(mode, 8))

    def gpu(self, driver: str | None) -> None:
        self.seen["has_gpu"] = True
        if driver:
            self.write("usr/bin/nvidia-smi", f"#!/bin/sh\necho {driver}\n", "0755")

    def calls(self) -> list[str]:
        log = self.root / "var/log/stand-in-cvmfs_config.log"
        return log.read_text().splitlines() if log.exists() else []

    def text(self, name: str) -> str:
        return (self.root / name).read_text()


class Nodes:
    """Nodes of which one play is run on several: ansible-playbook takes a second to start."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.all: dict[str, Node] = {}
        # A stand-in of the role that would install packages: it only says which.
        tasks = folder / "stand-ins/vendor_packages/tasks"
        tasks.mkdir(parents=True)
        said = "{{ [vendor_packages_repository, vendor_packages_pins] | to_json }}"
        (tasks / "main.yml").write_text(yaml.safe_dump([{"debug": {"msg": said}}]))

    def add(self, name: str, **variables: Any) -> Node:
        self.all[name] = Node(self.folder / name, **variables)
        return self.all[name]

    def run(self, names: str, *options: str) -> dict[str, tuple[bool, int, str]]:
        """Of each node: whether all went well, how many tasks changed something, what was said."""
        hosts = {name: self.all[name].variables for name in names.split()}
        play = {
            "environment": {
                "PATH": "{{ root }}/usr/bin:" + os.environ["PATH"],
                "STAND_IN_ROOT": "{{ root }}",
                "TRUEUP_UNITS": "{{ root }}/var/lib/trueup/units",
            },
            "tasks": [{"include_role": {"name": "{{ root }}/roles/eessi"}, "tags": ["always"]}],
        }
        env = {
            **plays.AS_JSON,
            "ANSIBLE_ROLES_PATH": f"{self.folder / 'stand-ins'}:{plays.ROLES_PATH}",
            # sudo is asked though this is root.
            "ANSIBLE_BECOME_ALLOW_SAME_USER": "1",
        }
        done = plays.roles(self.folder, play, *options, hosts=hosts, env=env)
        answer = plays.answer(done)
        found = {}
        for name in hosts:
            stats = answer["stats"][name]
            said = json.dumps(plays.results(answer, name))
            well = stats["failures"] == stats["unreachable"] == 0
            found[name] = (well, stats["changed"], said.replace("\\", ""))
        assert done.returncode == (0 if all(well for well, _, _ in found.values()) else 2)
        return found


# By a node each: the variable, its value, and what is said.
REFUSED: dict[str, tuple[str, Any, str]] = {
    "misspelt": ("eessi_versoin", "2025.06", "eessi_versoin: the role eessi has no such variable"),
    "squid": ("eessi_http_proxies", ["squid"], "eessi_http_proxies has squid: write a proxy as"),
    "small": (
        "eessi_cache_mb",
        10**9,
        "eessi_cache_mb is 1000000000 (10^6 bytes each): make room, lower it",
    ),
}


def test_nodes_are_set_up_once_linked_for_each_driver_and_reload_on_change(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path)
    nodes.add("fresh")
    node = nodes.add("node")
    gpu = nodes.add("gpu", eessi_version="2025.06")
    gpu.gpu("570.211.01")
    # Preflight looks at the cache as root: others do not see what it holds.
    gpu.seen["privilege"] = "sudo"
    wrong = nodes.add("wrong")
    wrong.gpu(None)
    for name, (variable, value, _) in REFUSED.items():
        nodes.add(name, **{variable: value})
    (nodes.all["small"].root / "dev/fuse").unlink()
    # Local NVMe disks, and a cache that is not on them: space is asked for there all the same.
    moved = nodes.add("moved", eessi_cache_mb=10**9)
    moved.seen["nvme"] = [{"local": True}]

    found = nodes.run("node gpu wrong moved " + " ".join(REFUSED))
    assert found["node"][:2] == (True, 3), found["node"]
    assert node.calls() == ["setup", "probe software.eessi.io"]
    client = node.text("etc/cvmfs/default.local")
    assert 'CVMFS_CLIENT_PROFILE="single"' in client
    assert "CVMFS_HTTP_PROXY" not in client
    assert f'EESSI_NVIDIA_OVERRIDE_DEFAULT="{node.root}/opt/eessi/nvidia"' in client
    assert "export OMPI_MCA_btl='^uct,ofi'" in node.text("opt/trueup/eessi/eessi.sh")
    assert (node.root / "etc/systemd/system/trueup-eessi-gpu.service").exists() is False
    assert found["gpu"][:2] == (True, 4), found["gpu"]
    assert len(gpu.text("usr/bin/sudo.log").splitlines()) == 1
    assert gpu.text("opt/eessi/nvidia/driver_version.txt") == "570.211.01\n"
    assert found["wrong"][0] is False
    assert "nvidia-smi does not say the driver" in found["wrong"][2]
    for name, (_, _, message) in REFUSED.items():
        well, changed, said = found[name]
        assert (well, changed, nodes.all[name].calls()) == (False, 0, []), said
        assert message in said
    assert "dev/fuse is not there, and CernVM-FS mounts by FUSE" in found["small"][2]
    well, changed, said = found["moved"]
    assert (well, changed) == (False, 0), said
    assert "eessi_cache_mb is 1000000000" in said
    assert "Traceback" not in json.dumps(found)

    found = nodes.run("fresh node", "--check")
    well, _, said = found["fresh"]
    assert (well, nodes.all["fresh"].calls()) == (True, []), said
    assert '"suite": "bookworm-prod", "components": "main"' in said
    assert '{"name": "cvmfs", "version": "2.13.3*"}' in said
    assert found["node"][:2] == (True, 0), found
    assert len(node.calls()) == 2

    # The node without a GPU gets one, and EESSI's servers by proxies.
    servers = ["http://azure-us-east-s1.eessi.science/cvmfs/@fqrn@"]
    node.variables.update(eessi_http_proxies=PROXIES, eessi_servers=servers)
    node.gpu("570.211.01")
    wrong.seen["has_gpu"] = False
    wrong.variables["eessi_version"] = "2026.06"
    found = nodes.run("node gpu wrong")
    assert (found["node"][:2], node.calls()[2]) == ((True, 3), "reload"), found["node"]
    client = node.text("etc/cvmfs/default.local")
    assert 'CVMFS_HTTP_PROXY="http://squid-1:3128|http://squid-2:3128"' in client
    assert "PROFILE" not in client
    assert f'CVMFS_SERVER_URL="{servers[0]}"' in node.text("etc/cvmfs/domain.d/eessi.io.local")
    old = node.root / f"opt/eessi/host_injections/nvidia/{MACHINE}/host"
    assert (old / "driver_version.txt").read_text() == "570.211.01\n"
    assert found["gpu"][:2] == (True, 0), found["gpu"]
    assert gpu.calls() == ["setup", *["probe software.eessi.io"] * 2]
    assert found["wrong"][0] is False
    assert "the version 2026.06 is not in the repository" in found["wrong"][2]

    # Another driver on one, a link that is gone on the other; with --tags too the role knows what
    # its preflight found.
    node.gpu("580.126.16")
    (gpu.root / "opt/eessi/nvidia/libcuda.so.1").unlink()
    (wrong.root / "cvmfs/software.eessi.io").unlink()
    found = nodes.run("node gpu wrong", "--tags", "configure,verify")
    for name, driver, folder in (
        ("node", "580.126.16", old),
        ("gpu", "570.211.01", gpu.root / "opt/eessi/nvidia"),
    ):
        assert found[name][:2] == (True, 1), found[name]
        linked = nodes.all[name]
        noted = json.loads(linked.text("var/lib/trueup/eessi_gpu.json"))
        version = linked.variables.get("eessi_version", "2023.06")
        assert noted == {"driver": driver, "version": version, "folder": str(folder)}
        assert (folder / "driver_version.txt").read_text() == f"{driver}\n"
        assert (folder / "libcuda.so.1").exists()
        units = linked.root / "etc/systemd/system"
        wants = units / "multi-user.target.wants/trueup-eessi-gpu.service"
        assert wants.resolve() == units / "trueup-eessi-gpu.service"
    well, _, said = found["wrong"]
    assert well is False
    failed = "cvmfs_config probe software.eessi.io failed (Probing /cvmfs/software.eessi.io..."
    assert failed in said
