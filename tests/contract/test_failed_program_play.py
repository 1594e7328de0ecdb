"""A program that fails after 30 MB of output with secrets in it: what a play shows, returns, writes
and keeps as facts is one text, which is short and without them."""

from __future__ import annotations

import hashlib
import json
import re
import textwrap
from pathlib import Path

import plays
import yaml
from dummy_secrets import left_in, printed
from trueup_node.redaction import redact

PROGRAM = """#!/usr/bin/env python3
import sys
from pathlib import Path
secrets, size = Path(__file__).with_name("secrets").read_text(), 0
print("fio: the first line")
while size < 30_000_000:
    size += sys.stdout.write("fio: 123.4 MiB/s of a long log\\n" * 1000 + secrets)
print("fio: the last line\\n", secrets, file=sys.stderr)
sys.exit(3)
"""
CASE = {"directory": "{{ playbook_dir }}", "workload": "sequential_write", "job_bytes": 1 << 20}
PLAY = {
    "name": "Measure what fails",
    "hosts": "localhost",
    "gather_facts": False,
    "environment": {"PATH": "{{ playbook_dir }}/bin:{{ lookup('env', 'PATH') }}"},
    "tasks": [
        {
            "name": "Start",
            "ansible.builtin.set_fact": {
                "trueup_run_id": "20261120T091300Z-7c1e",
                "trueup_results": "{{ playbook_dir }}/results",
            },
        },
        {
            "name": "Measure",
            "block": [
                {
                    "name": "Run a case",
                    "trueup_measure": {"benchmark": "fio", "case": CASE},
                    "register": "answer",
                }
            ],
            "always": [
                {
                    "name": "Keep the answer",
                    "ansible.builtin.copy": {
                        "content": "{{ answer | to_json }}",
                        "dest": "{{ playbook_dir }}/answer.json",
                        "mode": "0600",
                    },
                }
            ],
        },
    ],
}


def test_terminal_answer_record_and_file_hold_one_text(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "secrets").write_text(printed())
    (tmp_path / "bin" / "fio").write_text(PROGRAM)
    (tmp_path / "bin" / "fio").chmod(0o755)
    (tmp_path / "play.yml").write_text(yaml.safe_dump([PLAY]))
    # All of an answer is shown at -v.
    inventory = ("-v", "-i", "localhost,")
    done = plays.playbook(tmp_path, str(tmp_path / "play.yml"), *inventory, *plays.LOCAL)
    assert done.returncode == 2, done.stdout + done.stderr

    answer = json.loads((tmp_path / "answer.json").read_text())
    [record_file] = (tmp_path / "results").glob("*/fio-*.json")
    record = json.loads(record_file.read_text())
    written = (record_file.parent / record["raw"]["path"]).read_bytes()
    assert record["raw"]["sha256"] == hashlib.sha256(written).hexdigest()
    assert answer["raw"] == written.decode()
    assert answer["record"] == {**record, "raw": None}
    shown = re.search(r"FAILED! => \n((?:    .*\n|\n)+)", done.stdout)
    assert shown is not None
    terminal = yaml.safe_load(textwrap.dedent(shown[1]))
    # Ansible shows no line end at the end of a text.
    assert terminal["raw"] == answer["raw"].rstrip()
    names = ("output_tail", "record", "command", "msg")
    assert {name: terminal[name] for name in names} == {name: answer[name] for name in names}
    # 769,433 lines before.
    assert len((done.stdout + done.stderr).splitlines()) < 450
    assert answer["msg"].startswith("fio sequential_write-direct: fio ended with exit status 3")
    assert answer["raw"].startswith("fio: the first line\nfio: 123.4 MiB/s of a long log\n")
    assert redact("fio: the last line\n " + printed()).strip() in answer["raw"]

    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.parent.name != "bin"]
    texts = {path.name: path.read_text(errors="replace") for path in files}
    texts["terminal"] = done.stdout + done.stderr
    assert {name: left_in(text) for name, text in texts.items() if left_in(text)} == {}
