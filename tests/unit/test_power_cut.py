"""What the callback of `make torture`'s power losses notes of a run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]


def test_a_node_that_is_lost_in_a_task_with_no_log_is_noted_too(tmp_path: Path) -> None:
    """Such a task has no message; two trials of role slurm were counted as lost for that."""
    tasks = [{"name": "Write a key", "ansible.builtin.command": "true", "no_log": True}]
    play = {"hosts": "all", "gather_facts": False, "tasks": tasks}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    (tmp_path / "plan.json").write_text("{}")
    (tmp_path / "told.jsonl").touch()
    environment = {
        **os.environ,
        "ANSIBLE_CALLBACK_PLUGINS": str(ROOT / "tests" / "torture" / "power_cut"),
        "ANSIBLE_CALLBACKS_ENABLED": "power_cut",
        "TRUEUP_POWER_PLAN": str(tmp_path / "plan.json"),
        "TRUEUP_POWER_TOLD": str(tmp_path / "told.jsonl"),
    }
    # Nothing listens there.
    given = ["-i", "lost,", "-e", "ansible_host=127.0.0.1 ansible_port=1 ansible_connection=ssh"]
    argv = [sys.executable, "-m", "ansible", "playbook", "play.yml", *given]
    done = subprocess.run(
        argv, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    events = [json.loads(line) for line in (tmp_path / "told.jsonl").read_text().splitlines()]
    assert done.returncode == 4, done.stdout
    assert [(one["host"], bool(one["unreachable"])) for one in events if "host" in one] == [
        ("lost", True)
    ]
