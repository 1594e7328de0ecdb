"""health_slurm.yml against a stand-in of scontrol: who is drained, why, and who is given back."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import plays
import pytest

ROOT = Path(__file__).parents[2]
# Answers `show` with the node's file, and keeps every other call.
SCONTROL = """#!/bin/sh
case "$1" in
    --oneliner) cat "$SHOWN/$4" ;;
    *) printf '%s\\n' "$*" >> "$CALLED" ;;
esac
"""
IDLE = "NodeName=n1 State=IDLE CPUTot=96\n"
OURS = "NodeName=n1 State=IDLE+DRAIN CPUTot=96 Reason=trueup: link rate [root@2026-11-21]\n"
THEIRS = "NodeName=n1 State=DOWN+DRAIN CPUTot=96 Reason=cooling [root@2026-11-21]\n"


def row(verdict: str, benchmark: str = "node_state") -> dict[str, Any]:
    empty = ("device", "measured", "expected", "comparison", "unit", "reason", "fault")
    made = {"verdict": verdict, "what": "link rate", "benchmark": benchmark}
    return {**dict.fromkeys(empty), **made}


# By node: what Slurm shows of it, what was judged, and what Slurm is asked for then.
NODES: dict[str, tuple[str, list[dict[str, Any]], list[str]]] = {
    "fails": (
        IDLE,
        [row("fail")],
        ["update nodename=fails state=drain reason=trueup: fails: fail: link rate."],
    ),
    # Once is enough, and the reason that stands there stays.
    "fails-again": (THEIRS, [row("fail")], []),
    "mended": (OURS, [row("pass"), row("pass", "ib")], ["update nodename=mended state=resume"]),
    # One that somebody else drained is theirs to give back.
    "theirs": (THEIRS, [row("pass"), row("pass", "ib")], []),
    # What was not measured is not known to be well.
    "half": (OURS, [row("pass")], []),
    "unmeasured": (OURS, [row("pass"), row("not measured", "ib")], []),
    "warned": (IDLE, [row("pass"), row("warn", "ib")], []),
}


@pytest.fixture(scope="module", name="calls")
def _calls(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What scontrol was asked to change, by one play over all nodes."""
    folder = tmp_path_factory.mktemp("slurm")
    (folder / "bin").mkdir()
    (folder / "bin" / "scontrol").write_text(SCONTROL)
    (folder / "bin" / "scontrol").chmod(0o755)
    (folder / "shown").mkdir()
    hosts: dict[str, dict[str, Any]] = {}
    for node, (shown, rows, _) in NODES.items():
        (folder / "shown" / node).write_text(shown)
        judged = [{"node": node, **each} for each in rows]
        hosts[node] = {
            "trueup_health": {
                "stdout": json.dumps({"tables": [{"rows": judged, "sentence": "judged"}]})
            }
        }
    play = [
        {
            "hosts": "all",
            "connection": "local",
            "gather_facts": False,
            "vars": {
                "trueup_health_measured": ["node_state", "ib"],
                "trueup_health_slurm_host": "{{ inventory_hostname }}",
                "trueup_health_slurm_node": "{{ inventory_hostname }}",
                "trueup_verdict": (
                    "{{ trueup_health.stdout"
                    " | trueup_verdict(inventory_hostname, trueup_health_measured) }}"
                ),
                "ansible_python_interpreter": sys.executable,
            },
            "tasks": [{"include_tasks": str(ROOT / "playbooks" / "tasks" / "health_slurm.yml")}],
        }
    ]
    (folder / "play.yml").write_text(json.dumps(play))
    (folder / "hosts.json").write_text(json.dumps({"all": {"hosts": hosts}}))
    done = plays.playbook(
        folder,
        *("--inventory", str(folder / "hosts.json"), str(folder / "play.yml")),
        env={
            "PATH": f"{folder}/bin:{os.environ['PATH']}",
            "SHOWN": str(folder / "shown"),
            "CALLED": str(folder / "called"),
        },
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return (folder / "called").read_text().splitlines()


@pytest.mark.parametrize("node", NODES)
def test_who_is_drained_and_who_is_given_back(calls: list[str], node: str) -> None:
    asked = [call for call in calls if f"nodename={node} " in call]
    assert asked == NODES[node][2]
