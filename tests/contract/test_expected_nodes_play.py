"""What run.json says of the nodes of a real run, and what analysis makes of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import plays
import pytest
from trueup_analysis.figures.health.required import ExpectedNode, expected_nodes
from trueup_analysis.load import load

ROOT = Path(__file__).parent.parent.parent
RUN_ID = "20261120T091300Z-7c1e"
RECORD = ROOT / "tests" / "data" / "records" / "valid.json"
# As the plays of site.yml: one for the controller, one that configures, one that measures.
PLAYS = f"""
- name: Have nodes
  hosts: localhost
  connection: local
  gather_facts: false
  tasks:
    - name: Work on the controller
      ansible.builtin.debug:

- name: Configure
  hosts: all
  gather_facts: false
  tasks:
    - name: Look at the node
      ansible.builtin.command: {{argv: ["true"]}}
      changed_when: false
    - name: Give the node what breaks
      ansible.builtin.include_role: {{name: breaks}}
      when: inventory_hostname == 'broken'
    - name: Refuse the node
      ansible.builtin.fail: {{msg: not this one}}
      when: inventory_hostname == 'refused'
    - name: Keep what is skipped
      ansible.builtin.set_stats:
        per_host: true
        data: {{trueup_skipped: [{{what: stream, why: no compiler}}]}}
      when: inventory_hostname == 'skipped'

- name: Measure
  hosts: all
  gather_facts: false
  tasks:
    - name: Start the run
      ansible.builtin.set_fact: {{trueup_run_id: {RUN_ID}}}
      run_once: true
    - name: Return a record
      devito_bench:
        run_id: "{{{{ trueup_run_id }}}}"
        node_name: "{{{{ inventory_hostname }}}}"
        record: "{{{{ lookup('ansible.builtin.file', 'record.json') | from_json }}}}"
      when: inventory_hostname == 'well'
    - name: Run one benchmark
      ansible.builtin.include_tasks: {ROOT}/playbooks/tasks/benchmark.yml
      vars: {{trueup_benchmark_role: breaks}}
      when: inventory_hostname in ['unmeasured', 'mended']
    - name: Keep what is known of the run while it goes on
      ansible.builtin.copy:
        src: results/{RUN_ID}/run.json
        dest: "{{{{ playbook_dir }}}}/midway.json"
        mode: "0644"
      when: inventory_hostname == 'well'
    - name: Fail when a benchmark failed
      ansible.builtin.fail: {{msg: "{{{{ trueup_failed | default([]) }}}}"}}
      when: inventory_hostname == 'unmeasured'

- name: Judge
  hosts: stopped:well
  order: reverse_sorted
  gather_facts: false
  tasks:
    - name: Judge what was measured
      ansible.builtin.fail: {{msg: cannot be judged}}
      run_once: true
"""
BREAKS = """
- name: Break
  ansible.builtin.fail: {msg: it broke}
"""
MODULE = """#!/usr/bin/python
from ansible.module_utils.basic import AnsibleModule
def main():
    names = ("run_id", "node_name")
    spec = {"record": {"type": "dict"}, **{name: {"type": "str"} for name in names}}
    module = AnsibleModule(argument_spec=spec)
    module.exit_json(changed=False, record=module.params["record"], raw="words")
main()
"""
# ssh ends with 255 where it cannot connect; so does this, on machines without ssh too.
NO_WAY = """#!/bin/sh
echo "ssh: connect to host lost port 22: No route to host" >&2
exit 255
"""
NODES = ("broken", "left", "mended", "refused", "skipped", "stopped", "unmeasured", "well")


def write(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which these plays ran, without the node ``left``."""
    folder = tmp_path_factory.mktemp("run")
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    far = {"ansible_connection": "ssh", "ansible_ssh_executable": str(folder / "no_way")}
    hosts = {**dict.fromkeys(NODES, local), "lost": far}
    record = {**json.loads(RECORD.read_text()), "run_id": RUN_ID, "nodes": ["well"]}
    write(folder / "hosts.json", json.dumps({"all": {"hosts": hosts}}))
    write(folder / "plays.yml", PLAYS)
    write(folder / "record.json", json.dumps(record))
    write(folder / "no_way", NO_WAY, 0o755)
    write(folder / "library" / "devito_bench.py", MODULE)
    for name in ("main", "benchmark"):
        write(folder / "roles" / "breaks" / "tasks" / f"{name}.yml", BREAKS)
    limit = ("--limit", "all:localhost:!left")
    done = plays.bare(
        folder, "-i", "hosts.json", "plays.yml", *limit, env={"ANSIBLE_PIPELINING": "1"}
    )
    # 4: a host was unreachable.
    assert done.returncode == 4, done.stdout + done.stderr
    return folder


def ran_of(ran: Path) -> Path:
    return ran / "results" / RUN_ID / "run.json"


def manifest(ran: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ran_of(ran).read_text())
    return found


def test_the_manifest_says_whom_the_run_meant_and_where_each_failed(ran: Path) -> None:
    found = manifest(ran)
    assert found["expected"] == [
        *("broken", "lost", "mended", "refused", "skipped", "stopped", "unmeasured", "well")
    ]
    assert found["failed_in"] == {
        "broken": "breaks",
        "refused": "Refuse the node",
        # It ran once, on the node "well"; Ansible counts no failure of the other.
        "stopped": "Judge what was measured",
        "unmeasured": "breaks",
        "well": "Judge what was measured",
    }
    assert found["hosts"]["stopped"]["failed"] == 0
    assert found["hosts"]["lost"]["unreachable"] == 1
    assert found["hosts"]["mended"]["rescued"] == 1


def test_every_node_without_a_record_is_there_with_the_reason(ran: Path) -> None:
    loaded = load([ran / "results"])
    measured = list(zip(loaded.values("run_id"), loaded.values("nodes"), strict=True))
    assert loaded.excluded == []
    assert expected_nodes(loaded.runs, measured) == [
        ExpectedNode("broken", RUN_ID, False, "failed in breaks"),
        ExpectedNode("lost", RUN_ID, False, "unreachable"),
        ExpectedNode("mended", RUN_ID, False, "no record, and run.json does not say why"),
        ExpectedNode("refused", RUN_ID, False, "failed in Refuse the node"),
        ExpectedNode("skipped", RUN_ID, False, "skipped: stream: no compiler"),
        ExpectedNode("stopped", RUN_ID, False, "failed in Judge what was measured"),
        ExpectedNode("unmeasured", RUN_ID, False, "failed in breaks"),
        ExpectedNode("well", RUN_ID, True, None),
    ]


def test_a_run_that_is_stopped_midway_names_all_of_them(ran: Path) -> None:
    midway = json.loads((ran / "midway.json").read_text())
    assert {node.name: node.why for node in expected_nodes([midway], [(RUN_ID, "well")])} == {
        **dict.fromkeys(manifest(ran)["expected"], "the run did not finish"),
        # What was known when the run began.
        "broken": "failed in breaks",
        "lost": "unreachable",
        "refused": "failed in Refuse the node",
        "well": None,
    }


def test_runs_are_counted_and_a_run_keeps_its_number(ran: Path) -> None:
    counts = [json.loads(path.read_text())["count"] for path in (ran / "midway.json", ran_of(ran))]
    assert counts == [1, 1]
