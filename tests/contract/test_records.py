"""What the modules return is what the callback writes is what analysis loads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import devito_bench
import plays
import pytest
import stream_bench
from ansible.module_utils.trueup_node.node.topology import Topology
from bench_modules import FakeRun
from helpers import parametrized
from trueup_analysis.load import load
from trueup_node import record as records
from trueup_records import CallbackModule

ROOT = Path(__file__).parent.parent.parent
DATA = ROOT / "tests" / "data"
MACHINE = Topology(
    cpus=(0, 1), numa={0: (0, 1)}, l3_groups=((0, 1),), cores=((0,), (1,)), last_level_cache_bytes=1
)
CASES = [
    (devito_bench, "devito/driver_openmp.log", {"threads_per_rank": 2, "shape": "64x64x64"}),
    (stream_bench, "stream/kernel_streaming.json", {}),
]


@pytest.mark.parametrize(("module", "recording", "arguments"), CASES)
def test_what_a_module_returns_is_what_analysis_loads(
    module: ModuleType,
    recording: str,
    arguments: dict[str, Any],
    runner: Any,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(module, "read_topology", lambda **_: MACHINE)
    run = runner(module, prefix=str(tmp_path), **arguments)
    result = run(FakeRun(stdout=(DATA / recording).read_text()))
    failed = run(FakeRun(returncode=1, seconds=1.5))
    results = tmp_path / "results"
    for each in (result, failed):
        records.write_record(str(results), each["record"], each["raw"])
    loaded = load([results])
    assert loaded.excluded == []
    outcomes = loaded.values("outcome")
    assert sorted(outcomes) == ["failed", "ok"]
    figures = loaded.figures
    assert figures.loc[figures["record"] == outcomes.index("ok"), "value"].tolist() == [
        row["value"] for row in result["record"]["metrics"]
    ]


PLAY = """
- name: Return records
  hosts: localhost
  connection: local
  gather_facts: false
  tasks:
    - name: Start
      ansible.builtin.set_fact:
        trueup_run_id: 20261120T091300Z-7c1e
    # As the plays of site.yml do, each of them.
    - name: Go on
      ansible.builtin.import_tasks: start_run.yml
    - name: Go on again
      ansible.builtin.import_tasks: start_run.yml
    - name: Return a record
      devito_bench:
        run_id: "{{ trueup_run_id }}"
        node_name: node-1
        record: "{{ lookup('ansible.builtin.file', item) | from_json }}"
        fails: "{{ item is search('bad') }}"
        spoils: "{{ spoils }}"
      loop: "{{ files }}"
"""
MODULE = """#!/usr/bin/python
import os
from ansible.module_utils.basic import AnsibleModule
def main():
    module = AnsibleModule(
        argument_spec={
            "record": {"type": "dict"}, "fails": {"type": "bool"}, "spoils": {"type": "str"},
            "run_id": {"type": "str"}, "node_name": {"type": "str"},
        },
        supports_check_mode=True,
    )
    given = module.params
    if module.check_mode:
        module.exit_json(changed=False, record=None)
    if given["spoils"]:
        os.remove(given["spoils"])
        os.mkdir(given["spoils"])
    if given["fails"]:
        module.fail_json(msg="it failed", record=given["record"], raw="words")
    module.exit_json(changed=False, record=given["record"], raw="words")
main()
"""


def play(
    tmp_path: Path,
    *files: tuple[str, dict[str, object]],
    check: bool = False,
    report: str = "",
    spoils: str = "",
    run_file: str = "",
    python: str = sys.executable,
) -> subprocess.CompletedProcess[str]:
    """Run a play whose module returns the given records, with the product's callback; the module
    puts a folder in the place of the file ``spoils``.
    """
    (tmp_path / "library").mkdir(exist_ok=True)
    (tmp_path / "library" / "devito_bench.py").write_text(MODULE)
    (tmp_path / "play.yml").write_text(PLAY)
    start = ROOT / "playbooks" / "tasks" / "start_run.yml"
    (tmp_path / "start_run.yml").write_text(start.read_text())
    for name, record in files:
        (tmp_path / name).write_text(json.dumps(record))
    names = json.dumps(
        {
            "files": [str(tmp_path / name) for name, _ in files],
            "trueup_report": report,
            "spoils": spoils,
            "ansible_python_interpreter": python,
        }
    )
    arguments = ("play.yml", "-e", names, *(["--check"] if check else []))
    return plays.bare(tmp_path, *arguments, env={"TRUEUP_RUN_FILE": run_file})


def a_record(case: str, **changes: object) -> dict[str, object]:
    record = json.loads((DATA / "records" / "valid.json").read_text())
    return {**record, "case": case, **changes}


def test_the_callback_keeps_good_and_failed_records_and_the_run(tmp_path: Path) -> None:
    failed = a_record("bad", outcome="failed", reason="it failed", metrics=[])
    done = play(tmp_path, ("good.json", a_record("good")), ("bad.json", failed))
    assert done.returncode == 2
    folder = tmp_path / "results" / "20261120T091300Z-7c1e"
    loaded = load([tmp_path / "results"])
    assert dict(zip(loaded.values("case"), loaded.values("outcome"), strict=True)) == {
        "good": "ok",
        "bad": "failed",
    }
    assert len(list(folder.glob("*.raw.txt"))) == 2
    manifest = json.loads((folder / "run.json").read_text())
    assert manifest["hosts"]["localhost"]["failed"] == 1
    assert manifest["finished_at"] >= manifest["started_at"]


def test_a_resumed_run_keeps_its_beginning_and_its_hosts(tmp_path: Path) -> None:
    play(tmp_path, ("good.json", a_record("good")))
    path = tmp_path / "results" / "20261120T091300Z-7c1e" / "run.json"
    first = json.loads(path.read_text())
    first.update(started_at="2026-11-20T09:13:00Z", warnings=["said before"])
    first["hosts"]["lost"] = {"unreachable": 1}
    path.write_text(json.dumps(first))
    play(tmp_path, ("good.json", a_record("good")))
    second = json.loads(path.read_text())
    assert second["started_at"] == "2026-11-20T09:13:00Z"
    assert sorted(second["hosts"]) == ["localhost", "lost"]
    assert second["warnings"] == ["said before"]


SKIPS = """
- name: Skip
  hosts: localhost
  connection: local
  gather_facts: false
  tasks:
    - name: Start
      ansible.builtin.set_fact:
        trueup_run_id: 20261120T091300Z-7c1e
    - name: Report skips before changes
      trueup_skips:
        skips: [{what: dcgm, why: no dcgmi}]
    - name: Report skips of the health check
      trueup_skips:
        skips: [{what: dcgm, why: no dcgmi}]
"""


def test_a_skip_that_two_plays_report_is_recorded_once(tmp_path: Path) -> None:
    (tmp_path / "play.yml").write_text(SKIPS)
    actions = {"ANSIBLE_ACTION_PLUGINS": str(ROOT / "plugins" / "action")}
    done = plays.bare(tmp_path, "play.yml", env=actions)
    assert done.returncode == 0, done.stderr
    path = tmp_path / "results" / "20261120T091300Z-7c1e" / "run.json"
    skip = {"node": "localhost", "what": "dcgm", "why": "no dcgmi"}
    assert json.loads(path.read_text())["skipped"] == [skip]


def test_check_mode_leaves_no_run(tmp_path: Path) -> None:
    done = play(tmp_path, ("good.json", a_record("good")), check=True)
    assert done.returncode == 0
    assert (tmp_path / "results").exists() is False


def test_a_run_that_is_asked_for_a_report_writes_it_when_it_has_ended(tmp_path: Path) -> None:
    failed = a_record("bad", outcome="failed", reason="it failed", metrics=[])
    done = play(
        tmp_path, ("good.json", a_record("good")), ("bad.json", failed), report=str(tmp_path / "r")
    )
    assert done.returncode == 2
    page = (tmp_path / "r" / "index.html").read_text()
    assert ("20261120T091300Z-7c1e" in page, "did not finish" in page) == (True, False)


def test_a_report_that_cannot_be_written_fails_the_run(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file where the folder should be")
    done = play(tmp_path, ("good.json", a_record("good")), report=str(tmp_path / "taken"))
    assert done.returncode == 1
    assert "no report: trueup report ended with status" in done.stderr


def test_without_the_program_there_is_no_report_and_the_run_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(os, "_exit", sys.exit)
    monkeypatch.setattr(CallbackModule, "get_option", lambda _self, _name: str(tmp_path))
    callback = CallbackModule()
    callback._run_id = "20261120T091300Z-7c1e"
    with pytest.raises(SystemExit) as ended:
        callback._report(str(tmp_path / "r"))
    said = capsys.readouterr().err.replace("\n", " ")
    assert ended.value.code == 1
    assert f"no report: {tmp_path}/trueup cannot be run: No such file" in said


def test_a_record_that_breaks_the_schema_fails_its_task_alone(tmp_path: Path) -> None:
    broken = a_record("broken", ranks=0)
    done = play(tmp_path, ("broken.json", broken), ("good.json", a_record("good")))
    said = " ".join((done.stdout + done.stderr).split())
    why = "answer of devito_bench: its record: ranks: 0 is less than the minimum of 1"
    assert (done.returncode, f"localhost is not believed: {why}" in said) == (2, True)
    folder = tmp_path / "results" / "20261120T091300Z-7c1e"
    assert [path.name for path in folder.glob("devito*.json")] == ["devito-good-node-1.json"]
    assert json.loads((folder / "run.json").read_text())["refused"] == {"localhost": [why]}


def test_a_record_that_cannot_be_written_stops_the_run(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("a file where the folder should be")
    done = play(tmp_path, ("good.json", a_record("good")))
    assert done.returncode != 0
    assert "the run is stopped" in done.stderr


def test_a_run_json_that_cannot_be_written_stops_the_run_before_it_measures(tmp_path: Path) -> None:
    run_json = tmp_path / "results" / "20261120T091300Z-7c1e" / "run.json"
    run_json.mkdir(parents=True)
    done = play(tmp_path, ("good.json", a_record("good")))
    said = " ".join(done.stderr.split())
    assert done.returncode == 1
    assert f"{run_json} could not be written: Is a directory; the run is stopped" in said
    assert [path.name for path in run_json.parent.iterdir()] == ["run.json"]


def test_a_run_json_that_cannot_be_finished_fails_the_run(tmp_path: Path) -> None:
    run_json = tmp_path / "results" / "20261120T091300Z-7c1e" / "run.json"
    done = play(tmp_path, ("good.json", a_record("good")), spoils=str(run_json))
    said = " ".join(done.stderr.split())
    assert done.returncode == 1
    assert f"{run_json} could not be written: Is a directory; the run is stopped" in said
    assert "PLAY RECAP" in done.stdout
    assert len(load([tmp_path / "results"]).records) == 1


def test_a_run_that_cannot_be_named_to_make_is_stopped(tmp_path: Path) -> None:
    done = play(tmp_path, ("good.json", a_record("good")), run_file=str(tmp_path))
    said = " ".join(done.stderr.split())
    assert done.returncode == 1
    assert f"TRUEUP_RUN_FILE {tmp_path} could not be written: Is a directory" in said


@parametrized(("last", "said"))
def test_a_module_without_an_answer_is_told_in_a_sentence(
    tmp_path: Path, last: str, said: str
) -> None:
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\nprintf "Traceback (most recent call):\n%s\n" "{last}" >&2\nexit 1'
    )
    python.chmod(0o755)
    done = play(tmp_path, ("good.json", a_record("good")), python=str(python))
    assert f"[ERROR]: localhost: a module ended without an answer: {last}.{said}" in done.stderr


def test_a_damaged_run_json_is_replaced_and_secrets_stay_out_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CallbackModule, "get_option", lambda _self, _name: str(tmp_path))
    callback = CallbackModule()
    callback._run_id = "20261120T091300Z-7c1e"
    callback._warnings = ["node-1: sig=AbCdEfGh12345678 was refused"]
    run_json = tmp_path / callback._run_id / "run.json"
    run_json.parent.mkdir()
    run_json.write_text('{"hosts": [], "warnings": ["before"]}')
    callback._write_manifest()
    assert json.loads(run_json.read_text())["warnings"] == ["node-1: sig=*** was refused"]
    assert [path.name for path in run_json.parent.iterdir()] == ["run.json"]
