"""What --tags means on site.yml: each step and each role, alone."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import plays
import pytest
import yaml
from helpers import ROLES, role_files
from test_family_plays import LISTS, node_of

# Of the family, and two that are measured.
MINE = ["rdma", "stream", "devito"]
STEPS = ("install", "configure", "verify")
TAGGED = sorted(
    {role for lists in LISTS for role in lists["roles"]}
    | {*role_files("tasks/benchmark.yml"), "compiler"}
)
# Stand-ins for roles, which write into the node's log.
STEP = """
- name: Record {step}
  ansible.builtin.command: {{argv: [sh, -c, "echo {step} {role} >> {{{{ log }}}}"]}}
  changed_when: false
  tags: [{role}, {step}]
"""
ENTRY = """
- name: Record
  ansible.builtin.command: {{argv: [sh, -c, "echo {what} {role} >> {{{{ log }}}}"]}}
  changed_when: false
"""
BROKEN = """
- name: Check space
  ansible.builtin.fail: {{msg: no space left}}
  when: broken == '{role}'
"""


@pytest.fixture(name="roles", scope="module")
def _roles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all runs: their settings are the same (tests/forked.py)."""
    folder = tmp_path_factory.mktemp("roles")
    for role in MINE:
        tasks = folder / role / "tasks"
        tasks.mkdir(parents=True)
        steps = [STEP.format(step=step, role=role) for step in STEPS]
        (tasks / "main.yml").write_text("".join(steps))
        check = BROKEN.format(role=role) + ENTRY.format(what="check", role=role)
        (tasks / "preflight.yml").write_text(check)
        (tasks / "benchmark.yml").write_text(ENTRY.format(what="measure", role=role))
    return folder


def run(
    folder: Path, roles: Path, *options: str, broken: str = ""
) -> tuple[int, list[str], list[str]]:
    """site.yml on one node: status, what was done, and what there are records of."""
    log = folder / "log"
    log.write_text("")
    node = {
        "log": str(log),
        "broken": broken,
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "trueup_vm_size": "Standard_HB120rs_v3",
        "trueup_metadata_url": "http://127.0.0.1:9",
        "trueup_node": node_of("hb120rs_v3", "Standard_HB120rs_v3"),
        "trueup_family_roles": MINE[:1],
        "trueup_benchmarks": MINE[1:],
        "trueup_health_benchmarks": ["stream"],
        "trueup_health_fatal": False,
    }
    (folder / "hosts.json").write_text(json.dumps({"all": {"hosts": {"node": node}}}))
    done = plays.playbook(
        folder,
        *("-i", str(folder / "hosts.json"), "site.yml", *options),
        env={"ANSIBLE_ROLES_PATH": f"{roles}:{plays.ROLES_PATH}"},
    )
    print(done.stdout, done.stderr)
    records = [json.loads(path.read_text()) for path in folder.glob("results/*/*-*.json")]
    return (
        done.returncode,
        log.read_text().splitlines(),
        [record["benchmark"] for record in records],
    )


WANTED: dict[str, tuple[list[str], list[str]]] = {
    **{
        step: ([f"check {role}" for role in MINE] + [f"{step} {role}" for role in MINE], [])
        for step in STEPS
    },
    "health": (
        ["check stream"] * 2 + [*(f"{step} stream" for step in STEPS), "measure stream"],
        ["node_state"],
    ),
    "benchmark": (["check stream", "check devito", "measure stream", "measure devito"], []),
    "stream": (["check stream", *(f"{step} stream" for step in STEPS), "measure stream"], []),
    "rdma": (["check rdma", *(f"{step} rdma" for step in STEPS)], []),
}


@pytest.mark.parametrize("tag", WANTED)
def test_a_tag_does_what_it_says(tmp_path: Path, roles: Path, tag: str) -> None:
    # The stand-ins record nothing, and what health was to measure and did not fails the run.
    assert run(tmp_path, roles, "--tags", tag) == (2 if tag == "health" else 0, *WANTED[tag])


@pytest.mark.parametrize("broken", ["stream", "devito"])
def test_a_benchmark_that_cannot_be_had_costs_no_health_check(
    tmp_path: Path, roles: Path, broken: str
) -> None:
    status, done, recorded = run(tmp_path, roles, broken=broken)
    assert (status, recorded) == (2, ["node_state"])
    assert [line for line in done if line.endswith(f" {broken}")] == []
    assert {"verify rdma", f"measure {'devito' if broken == 'stream' else 'stream'}"} <= set(done)
    [manifest] = tmp_path.glob("results/*/run.json")
    assert json.loads(manifest.read_text())["failed_in"] == {"node": broken}


def tags_of(task: dict[str, Any], key: str = "tags") -> set[str]:
    return set(task.get(key) or [])


@pytest.mark.parametrize("role", TAGGED)
def test_every_task_of_a_role_has_its_name_and_a_step(role: str) -> None:
    """What is included while a play runs has the tags of its own ``apply``."""
    folder = ROLES[role] / "tasks"
    files = [folder / name for name in ("main.yml", "steps.yml") if (folder / name).is_file()]
    tasks = [task for path in files for task in yaml.safe_load(path.read_text())]
    # The steps have tags of their own.
    tasks = [task for task in tasks if task.get("ansible.builtin.include_tasks") != "steps.yml"]
    flat = [part for task in tasks for part in task.get("block", [task])]
    assert [task["name"] for task in flat if role not in tags_of(task)] == []
    assert [task["name"] for task in flat if not tags_of(task) & set(STEPS)] == []
    included = [task for task in flat if "ansible.builtin.include_tasks" in task]
    applied = [task["ansible.builtin.include_tasks"].get("apply", {}) for task in included]
    assert list(map(tags_of, applied)) == list(map(tags_of, included))
