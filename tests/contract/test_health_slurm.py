"""health_slurm.yml against a stand-in of scontrol: who is drained, why, and who is given back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
# Answers `show` with a file, and keeps every other call.
SCONTROL = """#!/bin/sh
case "$1" in
    --oneliner) cat "$SHOWN" ;;
    *) printf '%s\\n' "$*" >> "$CALLED" ;;
esac
"""
IDLE = "NodeName=n1 State=IDLE CPUTot=96\n"
OURS = "NodeName=n1 State=IDLE+DRAIN CPUTot=96 Reason=trueup: link rate [root@2026-11-21]\n"
THEIRS = "NodeName=n1 State=DOWN+DRAIN CPUTot=96 Reason=cooling [root@2026-11-21]\n"


def row(verdict: str, benchmark: str = "node_state") -> dict[str, Any]:
    empty = ("device", "measured", "expected", "comparison", "unit", "reason", "fault")
    made = {"node": "n1", "verdict": verdict, "what": "link rate", "benchmark": benchmark}
    return {**dict.fromkeys(empty), **made}


def calls(tmp_path: Path, shown: str, *rows: dict[str, Any], planned: tuple[str, ...]) -> list[str]:
    """What scontrol was asked to change."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "scontrol").write_text(SCONTROL)
    (folder / "scontrol").chmod(0o755)
    (tmp_path / "shown").write_text(shown)
    play = [
        {
            "hosts": "n1",
            "connection": "local",
            "gather_facts": False,
            "vars": {
                "trueup_health": {"stdout": json.dumps({"tables": [{"rows": list(rows)}]})},
                "trueup_health_measured": list(planned),
                "trueup_health_slurm_host": "n1",
                "ansible_python_interpreter": sys.executable,
            },
            "tasks": [
                {"include_tasks": str(ROOT / "playbooks" / "tasks" / "health_slurm.yml")},
            ],
        }
    ]
    (tmp_path / "play.yml").write_text(json.dumps(play))
    done = subprocess.run(
        [
            str(Path(sys.executable).with_name("ansible-playbook")),
            *("--inventory", "n1,", str(tmp_path / "play.yml")),
        ],
        env={
            **os.environ,
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(tmp_path / "facts"),
            "PATH": f"{folder}:{os.environ['PATH']}",
            "SHOWN": str(tmp_path / "shown"),
            "CALLED": str(tmp_path / "called"),
        },
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    called = tmp_path / "called"
    return called.read_text().splitlines() if called.exists() else []


DRAIN = "update nodename=n1 state=drain reason=trueup: n1: fail: link rate."
BACK = "update nodename=n1 state=resume"


@pytest.mark.parametrize(
    ("shown", "rows", "expected"),
    [
        (IDLE, [row("fail"), row("pass", "ib")], [DRAIN]),
        # Once is enough, and the reason that stands there stays.
        (THEIRS, [row("fail")], []),
        (OURS, [row("pass"), row("pass", "ib")], [BACK]),
        # One that somebody else drained is theirs to give back.
        (THEIRS, [row("pass"), row("pass", "ib")], []),
        # What was not measured is not known to be well.
        (OURS, [row("pass")], []),
        (OURS, [row("pass"), row("not measured", "ib")], []),
        (IDLE, [row("pass"), row("warn", "ib")], []),
    ],
)
def test_who_is_drained_and_who_is_given_back(
    tmp_path: Path, shown: str, rows: list[dict[str, Any]], expected: list[str]
) -> None:
    assert calls(tmp_path, shown, *rows, planned=("node_state", "ib")) == expected
