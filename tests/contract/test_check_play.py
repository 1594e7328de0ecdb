"""The morning's check: nodes that answer are judged, whatever has become of the others."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import plays
import pytest

# ssh ends with 255 where it cannot connect; so does this, on machines without ssh too.
NO_WAY = """#!/bin/sh
echo "ssh: connect to host dead port 22: No route to host" >&2
exit 255
"""
LIVING = ("first", "second")


@pytest.fixture(scope="module", name="ran")
def _ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, str, dict[str, Any], Path]:
    """Exit status, what was said, run.json, and the run's folder."""
    folder = tmp_path_factory.mktemp("check")
    (folder / "no_way").write_text(NO_WAY)
    (folder / "no_way").chmod(0o755)
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    far = {"ansible_connection": "ssh", "ansible_ssh_executable": str(folder / "no_way")}
    # Between the others in every order that Ansible may take.
    # The first has fewer cores than its size: what is read at once is a verdict without measuring.
    sized = {"trueup_vm_size": "Standard_HB120rs_v3", "trueup_health_benchmarks": []}
    hosts = {"first": {**local, **sized}, "dead": far, "second": local}
    (folder / "hosts.json").write_text(json.dumps({"all": {"hosts": hosts}}))
    nowhere = "trueup_metadata_url=http://127.0.0.1:9"
    done = plays.playbook(
        folder, "-i", str(folder / "hosts.json"), "playbooks/check.yml", "-e", nowhere
    )
    print(done.stdout, done.stderr)
    [manifest] = (folder / "results").glob("*/run.json")
    return done.returncode, done.stdout, json.loads(manifest.read_text()), manifest.parent


def test_a_dead_node_leaves_the_others_judged(ran: Any) -> None:
    _, said, manifest, folder = ran
    recorded = [json.loads(path.read_text()) for path in folder.glob("node_state-*.json")]
    assert sorted(record["nodes"][0] for record in recorded) == list(LIVING)
    assert "first: fail: CPU cores" in said
    # The play's own judgement names who is missing, while the run goes on.
    assert "dead: not measured: any record (unreachable)." in said
    assert "0 of 3 nodes judged; 1 failed." in said
    assert manifest["failed_in"]["first"] == "Fail if a node is not healthy"


def test_the_dead_node_is_named_and_the_status_is_not_0(ran: Any) -> None:
    status, _, manifest, _ = ran
    assert status != 0
    assert manifest["expected"] == ["dead", *LIVING]
    assert manifest["hosts"]["dead"]["unreachable"] == 1
    assert manifest["finished_at"] is not None


def test_pairs_are_measured_on_request_alone(ran: Any) -> None:
    _, said, _, _ = ran
    assert "Measure every pair of nodes" in said
    assert "Install perftest" not in said


def test_a_morning_on_which_nobody_answers_is_a_run_too(tmp_path: Path) -> None:
    (tmp_path / "no_way").write_text(NO_WAY)
    (tmp_path / "no_way").chmod(0o755)
    far = {"ansible_connection": "ssh", "ansible_ssh_executable": str(tmp_path / "no_way")}
    hosts = {"all": {"hosts": {"dead": far, "gone": far}}}
    (tmp_path / "hosts.json").write_text(json.dumps(hosts))
    done = plays.playbook(tmp_path, "-i", str(tmp_path / "hosts.json"), "playbooks/check.yml")
    [path] = (tmp_path / "results").glob("*/run.json")
    manifest = json.loads(path.read_text())
    assert done.returncode != 0
    assert manifest["expected"] == ["dead", "gone"]
    assert {name: host["unreachable"] for name, host in manifest["hosts"].items()} == {
        "dead": 1,
        "gone": 1,
    }
    judged = subprocess.run(
        [Path(sys.executable).with_name("trueup"), "health", str(tmp_path / "results")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert judged.returncode == 2
    assert [name for name in ("dead", "gone") if name in judged.stdout] == ["dead", "gone"]
