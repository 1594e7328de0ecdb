"""Two nodes meet: the server runs beside the client's task, and the record is the client's.

perftest is a stand-in, and both nodes are this machine with locks of their own.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import plays
from perftest_stand_in import Machine

MEET = str(plays.ROOT / "roles" / "ib" / "tasks" / "meet.yml")
RUN = "20261123T140001Z-cafe"


def meet(
    folder: Path, connect_seconds: int = 60, **server: Any
) -> tuple[str, list[dict[str, Any]]]:
    """What is said, and the records of one meeting of n1, the server, and n2."""
    machine = Machine(folder)
    case = {
        "device": "mlx5_ib3",
        "message_bytes": 1048576,
        "folder": str(machine.folder),
        "sysfs_root": str(machine.sysfs),
        "port": machine.port,
        "timeout_seconds": 60,
        "connect_seconds": connect_seconds,
    }
    ends = {
        "n1": {"peer": "n2", "end": {"role": "server", **server}},
        "n2": {"peer": "n1", "end": {"role": "client", "address": "127.0.0.1", "peer_name": "n1"}},
    }
    hosts: dict[str, Any] = {}
    for name, end in ends.items():
        (folder / f"locks-{name}").mkdir(mode=0o700)
        plan = {"rounds": [end], "pair_cases": [case], "server_seconds": 60}
        hosts[name] = {"__ib_plan": plan, "locks": str(folder / f"locks-{name}")}
    play = {
        "vars": {
            "trueup_run_id": RUN,
            "trueup_results": str(folder / "results"),
            "__ib_meeting": [0, 0],
            "__ib_failed": [],
        },
        "environment": {"TRUEUP_LOCKS": "{{ locks }}"},
        "tasks": [
            {"ansible.builtin.include_tasks": MEET},
            {
                "ansible.builtin.debug": {"msg": "failed: {{ __ib_failed | join }}"},
                "when": "__ib_failed | length > 0",
            },
        ],
    }
    done = plays.roles(folder, play, hosts=hosts)
    found = (folder / "results" / RUN).glob("ib-*.json")
    return done.stdout + done.stderr, [json.loads(one.read_text()) for one in sorted(found)]


def test_the_client_has_the_record_and_the_server_none(tmp_path: Path) -> None:
    said, records = meet(tmp_path)
    assert [(one["outcome"], one["nodes"]) for one in records] == [("ok", ["n2", "n1"])]
    assert "failed=0" in said
    assert "failed: " not in said


def test_a_server_that_cannot_start_is_told_where_it_is_waited_for(tmp_path: Path) -> None:
    said, records = meet(tmp_path, device="mlx5_ib9", connect_seconds=0)
    assert "device 'mlx5_ib9': this node has mlx5_ib3, mlx5_ib4" in " ".join(said.split())
    assert [one["outcome"] for one in records] == ["failed"]
