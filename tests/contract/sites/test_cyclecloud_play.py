"""playbooks/cyclecloud.yml as a user runs it, with a stand-in for CycleCloud on the loopback."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import plays
from cyclecloud_server import PASSWORD, SIZE, USERNAME, StandInCycleCloud, drop_after, stand_in


def play(
    tmp_path: Path, cloud: StandInCycleCloud, *arguments: str, **variables: Any
) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """Run the playbook and then one for all hosts; the run, and what each host knew of itself."""
    inventory = tmp_path / "hosts.yml"
    # A group without hosts: the play fills it, and its variables are the nodes'.
    inventory.write_text("all: {children: {compute: {vars: {of_the_group: 7}}}}\n")
    known = tmp_path / "known"
    shutil.rmtree(known, ignore_errors=True)
    known.mkdir()
    after = tmp_path / "after.yml"
    after.write_text(
        f"""---
- name: Keep what the hosts know
  hosts: all
  gather_facts: false
  connection: local
  tasks:
    - name: Write it down
      ansible.builtin.copy:
        content: "{{{{ [ansible_host, ansible_user, of_the_group] | to_json }}}}"
        dest: {known}/{{{{ inventory_hostname }}}}
        mode: "0600"
      check_mode: false
"""
    )
    extra = {
        "ansible_python_interpreter": sys.executable,
        "cyclecloud_cluster": "hpc",
        "cyclecloud_nodearray": "execute",
        "cyclecloud_count": 2,
        "cyclecloud_name": "play",
        "cyclecloud_group": "compute",
        "cyclecloud_ssh_user": "azureuser",
        "cyclecloud_poll_seconds": 1,
        **variables,
    }
    run = plays.playbook(
        tmp_path,
        *("-vvv", "-i", str(inventory)),
        *("playbooks/cyclecloud.yml", str(after), "-e", json.dumps(extra), *arguments),
        env={
            "CYCLECLOUD_URL": cloud.url,
            "CYCLECLOUD_USERNAME": USERNAME,
            "CYCLECLOUD_PASSWORD": PASSWORD,
        },
    )
    assert PASSWORD not in run.stdout + run.stderr
    return run, {path.name: json.loads(path.read_text()) for path in known.iterdir()}


def tally(run: subprocess.CompletedProcess[str]) -> dict[str, int]:
    """localhost's line of the recap."""
    recap = run.stdout.partition("PLAY RECAP")[2]
    line = next(line for line in recap.splitlines() if line.startswith("localhost"))
    return {word.split("=")[0]: int(word.split("=")[1]) for word in line.split(":")[1].split()}


def test_nodes_are_made_used_and_terminated(tmp_path: Path) -> None:
    hosts = {"execute-1": ["10.0.0.4", "azureuser", 7], "execute-2": ["10.0.0.5", "azureuser", 7]}
    with stand_in(StandInCycleCloud()) as cloud:
        run, known = play(tmp_path, cloud, "--check")
        assert (run.returncode, known, cloud.made) == (0, {}, 0)
        assert f"would create 2 nodes of {SIZE} in nodearray execute" in run.stdout

        cloud.faults = {("POST", "create"): [drop_after]}
        run, known = play(tmp_path, cloud)
        assert run.returncode == 0, run.stdout + run.stderr
        assert known == hosts
        assert (tally(run)["changed"], cloud.made) == (1, 2)

        run, known = play(tmp_path, cloud)
        assert (tally(run)["changed"], known, cloud.made) == (0, hosts, 2)

        run, known = play(tmp_path, cloud, cyclecloud_state="status")
        assert (run.returncode, known, "cluster hpc is" in run.stdout) == (0, {}, True)

        run, known = play(tmp_path, cloud, cyclecloud_state="absent")
        assert (run.returncode, known, cloud.nodes) == (0, {}, {})
        assert "terminated 2 nodes" in run.stdout
        run, known = play(tmp_path, cloud, cyclecloud_state="absent")
        assert (run.returncode, tally(run)["changed"]) == (0, 0)


def test_a_node_that_fails_ends_the_run(tmp_path: Path) -> None:
    cloud = StandInCycleCloud(fates={"execute-2": "failed:disk is full"})
    with stand_in(cloud):
        run, known = play(tmp_path, cloud)
    assert (run.returncode, known) == (2, {})
    assert "1 node is in state Failed (execute-2: disk is full)" in run.stdout
    assert "Traceback" not in run.stdout + run.stderr


def test_a_variable_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with stand_in(StandInCycleCloud()) as cloud:
        run, known = play(tmp_path, cloud, cyclecloud_nodes=4)
        assert (run.returncode, known, cloud.calls) == (2, {}, [])
        assert "There is no cyclecloud_nodes; the variables are" in run.stdout
        run, _ = play(tmp_path, cloud, cyclecloud_cluster="")
        assert (run.returncode, cloud.calls) == (2, [])
        assert "cyclecloud_cluster is not set" in run.stdout
