"""playbooks/identify.yml as a user runs it, with a loopback server for the metadata service."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from metadata_server import document, send, serving

if TYPE_CHECKING:
    from metadata_server import Behaviour

ROOT = Path(__file__).parents[2]


def play(tmp_path: Path, **variables: str) -> tuple[str, dict[str, Any]]:
    """Run the playbook on this machine; its output, and the node's fact and groups."""
    after = tmp_path / "after.yml"
    result = tmp_path / "result.json"
    after.write_text(
        f"""---
- ansible.builtin.import_playbook: {ROOT}/playbooks/identify.yml
- name: Keep what came out
  hosts: all
  gather_facts: false
  tasks:
    - name: Write the fact and the groups
      ansible.builtin.copy:
        content: >-
          {{{{ {{'node': ansible_facts['trueup_node'], 'groups': group_names}} | to_json }}}}
        dest: {result}
        mode: "0600"
"""
    )
    extra = {"ansible_python_interpreter": sys.executable, **variables}
    run = subprocess.run(
        [
            *(str(Path(sys.executable).parent / "ansible-playbook"), str(after)),
            *("-i", "localhost,", "-c", "local", "-e", json.dumps(extra)),
        ],
        cwd=ROOT,
        env={
            **os.environ,
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(tmp_path / "facts"),
            # In place of the callback that writes records: this play has none.
            "ANSIBLE_CALLBACKS_ENABLED": "ansible.posix.timer",
        },
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    kept: dict[str, Any] = json.loads(result.read_text())
    return run.stdout, kept


def test_a_node_joins_the_group_of_its_family(tmp_path: Path) -> None:
    with serving(send(document())) as (url, requests):
        output, kept = play(tmp_path, trueup_metadata_url=url)
    node = kept["node"]
    assert len(requests) == 1
    assert kept["groups"] == ["hbv3"]
    assert (node["vm_size"], node["family"], node["region"], node["offer"]) == (
        "Standard_HB120rs_v3",
        "hbv3",
        "southcentralus",
        "spot",
    )
    assert node["catalog"]["memory_bandwidth_gbps"] == 350
    assert node["cores"] >= 1
    assert "hbv3: Standard_HB120rs_v3" in output
    assert output.partition("Keep what came out")[0].count("changed: ") == 0


@pytest.mark.parametrize(
    ("behave", "warning"),
    [
        (send(b"", 302, {"Location": "http://127.0.0.1:9/"}), "a redirect (status 302"),
        (send(b"<html>"), "not JSON"),
    ],
)
def test_a_strange_answer_is_a_warning(behave: Behaviour, warning: str, tmp_path: Path) -> None:
    with serving(behave) as (url, _):
        output, kept = play(tmp_path, trueup_metadata_url=url)
    assert kept["groups"] == [kept["node"]["family"]]
    assert kept["node"]["metadata_status"] == "unusable"
    assert warning in output.replace("\n", " ")


def test_a_size_given_by_hand(tmp_path: Path) -> None:
    with serving(send(b"", 404)) as (url, _):
        _, kept = play(tmp_path, trueup_metadata_url=url, trueup_vm_size="standard_nd96isr_h100_v5")
    assert kept["groups"] == ["nd_h100_v5"]
    assert kept["node"]["vm_size"] == "Standard_ND96isr_H100_v5"
