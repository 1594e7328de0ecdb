"""Nodes that lie in every answer: nothing outside the run's folder changes, no command runs, the
other node's records stay, and the one that lied is named."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import hostile_answers
import plays
import pytest
from hostile_answers import FAILED, NOTHING, REFUSED, RUN_ID, Patch
from trueup_analysis.load import load

ROOT = Path(__file__).parents[2]
PRINTED = ROOT / "tests" / "data" / "stream" / "kernel_streaming.json"
CASE = {"threads": 2, "binding": "none", "node": {}, "timeout_seconds": 60}
# Each module once for each of its patches; the honest node's answers are its own.
ASKS: dict[str, dict[str, Any]] = {
    hostile_answers.STATE: {"node_state": {}},
    hostile_answers.STREAM: {"trueup_measure": {"benchmark": "stream", "case": "{{ case }}"}},
    hostile_answers.COMMAND: {"ansible.builtin.command": {"argv": ["true"]}},
    hostile_answers.GPU: {"gpu_facts": {"settle_seconds": 0}},
    hostile_answers.IB: {"ib_facts": {}},
    hostile_answers.SLURM: {"slurm_facts": {"plugins": "/nowhere"}},
    hostile_answers.KEYS: {
        "ssh_keys": {
            "state": "made",
            "run_id": RUN_ID,
            "names": "{{ [inventory_hostname] }}",
            "folder": "{{ keys }}",
        }
    },
    hostile_answers.IDENTIFY: {"azure_node_facts": {}},
}


class Ran(NamedTuple):
    """What a controller did with all of the hostile node's answers."""

    status: int
    said: str
    # Patch to what the task said of it.
    outcomes: dict[int, dict[str, Any]]
    changed: list[str]
    results: Path
    patches: list[Patch]


def tasks(patches: list[Patch]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for module, ask in ASKS.items():
        numbers = [number for number, one in enumerate(patches) if one.module == module]
        found += [
            {
                "name": f"Ask the hostile node {module}",
                **ask,
                "environment": {"PATCH": "{{ item }}"},
                "loop": numbers,
                "ignore_errors": True,
                "when": "inventory_hostname == 'hostile'",
            },
            {"name": f"Ask both nodes {module}", **ask},
        ]
    return found


def tree(folder: Path) -> dict[str, str]:
    """Each file of the controller but those of the run, with its content."""
    kept = (folder / "results" / RUN_ID, *(folder / name for name in ("home", "facts", "nodes")))
    return {
        str(path): path.read_text() if path.is_file() else "a folder"
        for path in sorted(folder.rglob("*"))
        if not any(path == one or one in path.parents for one in kept)
    }


def write(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def nodes_of(folder: Path, patches: list[Patch]) -> dict[str, dict[str, Any]]:
    """The inventory: an honest and a hostile node, each with a folder of its own."""
    write(folder / "patches.json", json.dumps([one.how for one in patches]))
    found = {}
    for name, program in (("honest", ""), ("hostile", f" {ROOT / 'tests' / 'lying_python.py'}")):
        own = folder / "nodes" / name
        (own / "locks").mkdir(parents=True)
        (own / "locks").chmod(0o700)
        (own / "keys").mkdir()
        variables = f"PATCHES={folder}/patches.json TRUEUP_LOCKS={own}/locks"
        script = f'#!/bin/sh\nexec env {variables} {sys.executable}{program} "$@"\n'
        write(own / "python", script, 0o755)
        write(own / "stream_kernel-streaming", f"#!/bin/sh\ncat {PRINTED}\n", 0o755)
        found[name] = {
            "ansible_connection": "local",
            "ansible_python_interpreter": str(own / "python"),
            "keys": str(own / "keys"),
            "case": {**CASE, "prefix": str(own)},
            "trueup_metadata_url": "http://127.0.0.1:9/",
        }
    return found


@pytest.fixture(scope="module", name="ran")
def _ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    folder = tmp_path_factory.mktemp("controller")
    patches = hostile_answers.patches(str(folder))
    hosts = nodes_of(folder, patches)
    write(folder / "hosts.json", json.dumps({"all": {"hosts": hosts}}))
    start = str(ROOT / "playbooks" / "tasks" / "start_run.yml")
    attack = {
        "name": "Attack",
        "hosts": "all",
        "gather_facts": False,
        # As playbooks/group_vars/all.yml has them.
        "vars": {
            "trueup_results": str(folder / "results"),
            "trueup_report": "",
            "trueup_node": "{{ ansible_facts['trueup_node'] }}",
        },
        "tasks": [{"name": "Start", "ansible.builtin.import_tasks": start}, *tasks(patches)],
    }
    identify = {"ansible.builtin.import_playbook": str(ROOT / "playbooks" / "identify.yml")}
    write(folder / "attack.yml", json.dumps([identify, attack]))
    write(folder / "canaries" / "index.html", "nobody's report")
    write(folder / "results" / hostile_answers.OTHER_RUN / "run.json", "{}")
    (folder / "results" / RUN_ID).mkdir()
    before = tree(folder)
    done = plays.playbook(
        folder,
        *("attack.yml", "-i", "hosts.json", "-e", json.dumps({"trueup_resume": RUN_ID})),
        cwd=folder,
        env={**plays.AS_JSON, "HOME": str(folder / "home"), "TRUEUP_RUN_FILE": ""},
    )
    outcomes = {}
    for play in plays.answer(done)["plays"]:
        for task in play["tasks"]:
            for one in task["hosts"].get("hostile", {}).get("results", []):
                outcomes[one["item"]] = one
    return Ran(
        done.returncode,
        done.stdout + done.stderr,
        outcomes,
        sorted({*before.items()} ^ {*tree(folder).items()}),
        folder / "results",
        patches,
    )


def test_there_are_enough_of_them() -> None:
    assert len(hostile_answers.patches("/nowhere")) >= 200


def test_each_answer_is_refused_by_name_or_does_nothing(ran: Ran) -> None:
    ends = {}
    for number, outcome in ran.outcomes.items():
        refused = "hostile is not believed: answer of " in str(outcome.get("msg"))
        ends[number] = REFUSED if refused else FAILED if outcome.get("failed") else NOTHING
    wrong = [
        (patch, ends.get(number), ran.outcomes.get(number, {}).get("msg"))
        for number, patch in enumerate(ran.patches)
        if ends.get(number) != patch.ends
    ]
    assert wrong == [], "\n".join(map(str, wrong))


def test_nothing_outside_the_run_changes_and_no_command_runs(ran: Ran) -> None:
    assert ran.changed == []


def test_the_run_fails_and_names_the_node_that_lied(ran: Ran) -> None:
    manifest = json.loads((ran.results / RUN_ID / "run.json").read_text())
    assert (ran.status, sorted(manifest["refused"])) == (1, ["hostile"])
    assert (manifest["skipped"], manifest["chosen"], manifest["warnings"]) == ([], {}, [])
    refused = " ".join(manifest["refused"]["hostile"])
    for module in ASKS:
        assert f"answer of {module}:" in refused.replace("ansible.builtin.", "")
    # Nor did a statistic or a fact of the other node come from it.
    assert {name: counts["failed"] for name, counts in manifest["hosts"].items()} == {
        "honest": 0,
        "hostile": 0,
    }


def test_the_other_nodes_records_stay_and_none_is_made_up(ran: Ran) -> None:
    loaded = load([ran.results / RUN_ID])
    names = zip(*(loaded.values(one) for one in ("benchmark", "case", "outcome")), strict=True)
    found = Counter(names)
    assert loaded.excluded == []
    # The truth that the hostile node told in the end is one record of each.
    assert found == {("node_state", "state", "ok"): 2, ("stream", "streaming-t2-none", "ok"): 2}
    kinds = {path.name.split("-")[0] for path in (ran.results / RUN_ID).iterdir()}
    assert kinds == {"node_state", "stream", "run.json"}


def test_the_table_in_the_documentation_is_of_these_patches() -> None:
    table: dict[str, Counter[str]] = {}
    for one in hostile_answers.patches("/nowhere"):
        table.setdefault(one.kind, Counter())[one.ends] += 1
    page = (ROOT / "bench" / "results" / "attacks.md").read_text(encoding="utf-8")
    rows = [
        f"| {kind} | {ends.total()} | {ends[REFUSED]} | {ends[FAILED]} | {ends[NOTHING]} |"
        for kind, ends in table.items()
    ]
    assert [row for row in rows if row not in page] == []
