"""The role slurm in check mode: what it would write for hosts of a cluster, and its hooks as they
are written, with stand-ins. Nothing of this machine is changed."""

from __future__ import annotations

import base64
import re
import socket
import subprocess
from pathlib import Path
from typing import Any

import config_files
import plays
import pytest
import yaml
from helpers import parametrized

ROOT = Path(__file__).parent.parent.parent
ROLE = ROOT / "roles" / "slurm"
NODE = {
    "package_manager": "apt",
    "architecture": "x86_64",
    "os": "Debian 12",
    "privilege": "root",
    "family": "hbv3",
    "vm_size": None,
    "cpu_model": None,
    "cpus": 4,
    "cores": 4,
    "sockets": 1,
    "memory_bytes": 16 * 1024**3,
    "gpus": [],
    "infiniband": [],
    "nvme": [],
    "catalog": None,
    "container": False,
}
# head stands in groups of the site's own that are called as parts are.
INVENTORY = "[slurm_controller]\nhead\n[slurm_compute]\nn1\n[compute]\nhead\n[login]\nn1\n"


def check(folder: Path, **variables: Any) -> tuple[int, dict[str, dict[str, str]], str]:
    """Exit status, of each host path to content of what would be written, and what was said."""
    play = {
        "pre_tasks": [
            {
                "ansible.builtin.set_fact": {"trueup_node": NODE, "cacheable": True},
                "tags": ["always"],
            }
        ],
        "roles": ["slurm"],
        "vars": {"slurm_munge_key": base64.b64encode(bytes(64)).decode(), **variables},
    }
    options = ("--check", "--diff", "--tags", "configure")
    done = plays.roles(folder, play, *options, hosts=INVENTORY, env=plays.AS_JSON)
    written: dict[str, dict[str, str]] = {"head": {}, "n1": {}}
    said = []
    for task in (task for play in plays.answer(done)["plays"] for task in play["tasks"]):
        for host, result in task["hosts"].items():
            said.append(str(result.get("msg", "")))
            for diff in result.get("diff") or []:
                if "after_header" in diff:
                    after = str(diff["after"]).partition("\n")[2]
                    written[host][diff["after_header"]] = after
    return done.returncode, written, " ".join(said)


@pytest.fixture(scope="module", name="cluster")
def _cluster(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """Of a cluster whose hosts are reached by addresses, with a scratch of its own."""
    folder = tmp_path_factory.mktemp("slurm")
    status, written, said = check(
        folder,
        slurm_node_address="127.0.0.1",
        slurm_scratch="/scratch",
        slurm_hook_timeout_seconds=5,
    )
    assert status == 0, said
    return written


def test_a_host_is_what_its_groups_of_slurm_say(cluster: dict[str, dict[str, str]]) -> None:
    assert "NodeName=n1 NodeHostname=" in cluster["head"]["/etc/slurm/nodes.conf"]
    dropin = "/etc/systemd/system/slurmd.service.d/trueup.conf"
    assert [host for host in ("head", "n1") if dropin in cluster[host]] == ["n1"]


def test_hosts_are_found_by_what_they_call_themselves_not_by_the_inventorys_names(
    tmp_path: Path,
) -> None:
    """As early as in the first run, when nothing is known of them yet."""
    status, _, said = check(tmp_path)
    called = socket.gethostname().split(".")[0]
    lost = set(re.findall(r"(\S+) is not known by name", said))
    assert (status == 0, lost) in ((True, set()), (False, {called}))


@parametrized("given")
def test_a_misspelt_part_of_a_partition_or_switch_is_refused(
    tmp_path: Path, given: dict[str, Any]
) -> None:
    status, written, said = check(tmp_path, slurm_node_address="127.0.0.1", **given)
    assert (status, written) == (2, {"head": {}, "n1": {}})
    assert "Supported parameters include: " in said


def test_a_key_that_yaml_has_folded_is_written_whole() -> None:
    raw = bytes(range(96))
    text = base64.b64encode(raw).decode()
    tasks = yaml.safe_load((ROLE / "tasks" / "configure.yml").read_text())
    (file,) = [
        task["config_files"]["files"][0]
        for task in tasks
        if task["name"] == "Configure munge's key"
    ]
    assert (file["content"], file["encoding"]) == ("{{ slurm_munge_key }}", "base64")
    given = {**file, "content": f"{text[:76]} {text[76:]}\n"}
    assert config_files._bytes(None, given) == raw


def stand_ins(folder: Path, **programs: str) -> str:
    """A PATH with programs of these texts before the machine's own."""
    for name, text in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n# stand-in of {name}\n{text}\n")
        (folder / name).chmod(0o755)
    return f"{folder}:/usr/bin:/bin"


@parametrized(("free", "status"))
def test_a_scratch_that_only_root_can_write_to_is_full(
    cluster: dict[str, dict[str, str]], tmp_path: Path, free: str, status: int
) -> None:
    text = cluster["n1"]["/etc/slurm/prolog.d/10-trueup-health"]
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    line = f"echo 'Filesystem 1024-blocks Used Available'; echo '/dev/md0 9 9 {free} 100% /scratch'"
    done = subprocess.run(
        ["sh", "-c", text.replace("folder=/scratch", f"folder={scratch}")],
        env={"PATH": stand_ins(tmp_path, df=line)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, list(scratch.iterdir())) == (status, [])
    assert ("cannot be written to" in done.stdout) == bool(status)


@parametrized(("hook", "reason"))
def test_a_hook_that_fails_drains_the_node_with_its_last_line(
    cluster: dict[str, dict[str, str]], tmp_path: Path, hook: str, reason: str
) -> None:
    text = cluster["n1"]["/usr/local/libexec/trueup/slurm_prolog"]
    folder = tmp_path / "prolog.d"
    folder.mkdir()
    stand_ins(folder, **{"10-one": hook})
    path = stand_ins(tmp_path, scontrol=f'printf "%s\\n" "$@" >{tmp_path}/said')
    text = text.replace("/etc/slurm/prolog.d", str(folder))
    text = re.sub(r"PATH=\S+", f"PATH={path}", text).replace("-k 5", "-k 1")
    done = subprocess.run(
        ["sh", "-c", text],
        env={"SLURMD_NODENAME": "n1", "PATH": path},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1
    assert (tmp_path / "said").read_text().splitlines() == [
        *("update", "nodename=n1", "state=drain", reason)
    ]
