"""The role nfs_server in check mode on a machine without an NFS server. Nothing is changed."""

from __future__ import annotations

import os
from pathlib import Path

import plays

# As systemctl of a machine that has no such unit.
SYSTEMCTL = """#!/bin/sh
# Stand-in for tests: there is no unit.
case "$1" in
    show) printf 'LoadState=not-found\\nActiveState=inactive\\n' ;;
    *) exit 1 ;;
esac
"""


def test_a_check_on_a_fresh_server_leaves_folders_that_are_there_alone(tmp_path: Path) -> None:
    for name in ("home", "bin"):
        (tmp_path / name).mkdir(mode=0o755)
    (tmp_path / "bin/systemctl").write_text(SYSTEMCTL)
    (tmp_path / "bin/systemctl").chmod(0o755)
    paths = [f"{tmp_path}/home", f"{tmp_path}/new"]
    role = {"name": "nfs_server"}
    play = {
        "vars": {
            "lacks": {"packages": ["nfs-kernel-server"]},
            "trueup_node": {"package_manager": "apt", "container": False},
            "nfs_server_exports": [{"path": path, "clients": ["10.1.0.0/16"]} for path in paths],
        },
        # What is installed is not: that would ask this machine's package manager.
        "tasks": [
            {"include_role": {**role, "tasks_from": "preflight"}},
            # Also where this machine has a server.
            {"set_fact": {"__nfs_server_plan": "{{ __nfs_server_plan | combine(lacks) }}"}},
            {"include_role": {**role, "tasks_from": "configure"}},
        ],
    }
    env = {**plays.AS_JSON, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    done = plays.roles(tmp_path, play, "--check", env=env)
    tasks = {
        task["task"]["name"]: task["hosts"]["localhost"]
        for play in plays.answer(done)["plays"]
        for task in play["tasks"]
        if "localhost" in task["hosts"]
    }
    assert done.returncode == 0, done.stdout
    made = tasks["nfs_server : Create missing folders"]["results"]
    assert [(one["item"]["path"], one["changed"]) for one in made] == [(paths[1], True)]
    assert not Path(paths[1]).exists()
