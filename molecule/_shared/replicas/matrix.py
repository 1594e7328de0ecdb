#!/usr/bin/env python3
"""Configures every replica as every family (molecule/matrix) twice and once more after a restart.

    matrix.py [NODE ...]       all nodes of the scenario, or these

The nodes have a mirror of what a connected node would get (mirror.py). The first run is the whole
of site.yml; the second and the one after the restart end where it would measure. After each, the
table of bench/results/replicas.md is written: what each role did, what the benchmarks said and what
the runs changed; rows of other nodes stay. A restart of a container is what a reboot is to it:
services stop and start, the kernel stays.
"""

from __future__ import annotations

import collections
import json
import os
import string
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mirror
import replica
import yaml

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

ROOT = replica.ROOT
SCENARIO = ROOT / "molecule" / "matrix" / "molecule.yml"
PAGE = ROOT / "bench" / "results" / "replicas.md"
# Not in the scenario's folder, which goes with its nodes.
SAID = ROOT / ".cache" / "replicas"
# As molecule/matrix/molecule.yml names it.
MIRROR = ROOT / ".cache" / "mirror"
BEGIN, END = "<!-- Written by `make replicas`. -->\n", "<!-- Up to here. -->\n"
HEADER = (
    "| image | Python | MPI | family | what the roles did | benchmarks | first run | second |"
    " after a restart |"
)
FAMILIES = {
    "hbv3": "HBv3",
    "nca100": "NC A100 v4",
    "ndh100": "ND H100 v5",
    "ndv4": "NDv4",
    "nva10": "NV A10 v5",
}
# By the runs' names: what each plays, a path in the project.
CONFIGURES = "molecule/_shared/converge.yml"
RUNS = {"first": "site.yml", "second": CONFIGURES, "restarted": CONFIGURES}
# The plays of site.yml whose roles are benchmarks, and the one that refuses before any change.
MEASURING = ("Install benchmarks", "Report failed roles", "Measure health", "Measure benchmarks")
PREFLIGHT = "Check nodes before changes"
REASON_CHARACTERS = 110


def environment(folder: Path, scenario: Path = SCENARIO) -> dict[str, str]:
    """What molecule sets for the scenario's playbooks, with its files in ``folder``."""
    given = yaml.safe_load(scenario.read_text(encoding="utf-8"))["provisioner"]["env"]
    known = {"MOLECULE_PROJECT_DIRECTORY": str(ROOT), "MOLECULE_EPHEMERAL_DIRECTORY": str(folder)}
    filled = {name: string.Template(text).safe_substitute(known) for name, text in given.items()}
    return {**os.environ, **known, **filled}


def play(nodes: list[str], folder: Path, name: str) -> dict[str, Any]:
    """The run of that name over the nodes: what Ansible says of it, which SAID keeps too."""
    argv = [
        *("ansible-playbook", "--inventory", str(folder / "inventory")),
        *("--inventory", str(MIRROR / "inventory.yml"), "--limit", ",".join(nodes)),
        str(ROOT / RUNS[name]),
    ]
    more = {"ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json"}
    said = subprocess.run(  # noqa: S603 WHY: argv of this file
        argv, env={**environment(folder), **more}, capture_output=True, text=True, check=False
    ).stdout
    SAID.mkdir(parents=True, exist_ok=True)
    (SAID / f"{name}.json").write_text(said, encoding="utf-8")
    # Other callbacks may print before and after it.
    found: dict[str, Any] = json.loads(said[said.index("{\n") : said.rindex("}") + 1])
    return found


def roles_of(
    run: dict[str, Any], node: str, *, measuring: bool = False
) -> dict[str, dict[str, Any]]:
    """By role of the plays that measure, or of the others: how many tasks ``changed``, whether the
    image's was ``kept``, the ``error``, what was ``warned`` of, whether a case ``ran`` well and
    whether it got beyond the ``preflight``."""
    roles: dict[str, dict[str, Any]] = collections.defaultdict(
        lambda: {
            "changed": 0,
            "kept": False,
            "error": "",
            "warned": [],
            "ran": False,
            "preflight": True,
        }
    )
    for play_name, task, result in _results(run, node):
        if (play_name in MEASURING) == measuring:
            role, _, title = task.partition(" : ")
            if not title:
                role = "failed" if result.get("failed") else "playbooks"
            _add(roles[role], title, result)
            roles[role]["preflight"] &= play_name == PREFLIGHT
    return roles


def _results(run: dict[str, Any], node: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Play, task and result of all that was not skipped on the node."""
    for part in run["plays"]:
        for one in part["tasks"]:
            result = one["hosts"].get(node)
            if result is not None and not result.get("skipped"):
                yield part["play"]["name"], one["task"]["name"], result


def _add(what: dict[str, Any], title: str, result: dict[str, Any]) -> None:
    what["changed"] += bool(result.get("changed"))
    what["kept"] |= bool(result.get("kept"))
    what["warned"] += [one for one in result.get("warnings") or [] if one not in what["warned"]]
    what["ran"] |= title.startswith("Run ") and not result.get("failed")
    # The first: what follows collects it.
    if result.get("failed") and not what["error"]:
        what["error"] = _reason(result)


def _reason(result: dict[str, Any]) -> str:
    """Why a task failed: of a loop the first item that did, of a command its last line."""
    failed = [item for item in result.get("results") or [] if item.get("failed")]
    one = failed[0] if failed else result
    lines = str(one.get("stderr") or "").strip().splitlines()
    message = str(one.get("msg") or "failed")
    return lines[-1] if lines and message == "non-zero return code" else message


def skips(run: dict[str, Any], node: str) -> dict[str, str]:
    """What the run says that this node cannot have, with the reason."""
    found = {}
    for _, task, result in _results(run, node):
        if task == "Report what is skipped" and isinstance(result.get("msg"), list):
            for line in result["msg"]:
                _, name, why = line.split(": ", 2)
                found.setdefault(name, why)
    return found


def did(roles: dict[str, dict[str, Any]], skipped: Collection[str] = ()) -> str:
    """What the roles did in the first run, as a cell."""
    said = []
    for role, what in roles.items():
        # In preflight each is planned, the benchmarks too.
        if role in ("playbooks", "failed") or what["preflight"]:
            continue
        words = [f"warned in preflight: {_short(text)}" for text in what["warned"]]
        words += ["kept"] * what["kept"]
        words += [f"changed {what['changed']}"] * bool(what["changed"])
        words += ["skipped"] * (role in skipped and not words)
        said.append(f"{role}: {'FAILED' if what['error'] else ', '.join(words) or 'verified'}")
    return "; ".join(said) or "-"


def measured(roles: dict[str, dict[str, Any]], skipped: dict[str, str]) -> str:
    """What the benchmarks said in the first run, as a cell."""
    said = {
        role: _short(what["error"]) if what["error"] else "measured"
        for role, what in roles.items()
        if role not in ("playbooks", "failed") and (what["error"] or what["ran"])
    }
    for name, why in skipped.items():
        if (ROOT / "roles" / name / "tasks" / "benchmark.yml").exists():
            said.setdefault(name, f"skipped: {_short(why)}")
    return "; ".join(f"{role}: {words}" for role, words in said.items()) or "-"


def _short(text: str) -> str:
    """A text as a part of a cell."""
    words = " ".join(text.split()).replace("|", "/")
    return words if len(words) <= REASON_CHARACTERS else words[:REASON_CHARACTERS].rstrip() + "..."


def outcome(run: dict[str, Any], node: str) -> str:
    """How a run went, as a cell. What was not measured stands in a cell of its own."""
    counts = run["stats"][node]
    roles = roles_of(run, node)
    wrong = [what for what in roles.values() if what["error"]]
    missed = roles_of(run, node, measuring=True)["failed"]["error"]
    if wrong or counts["unreachable"] or (counts["failures"] and not missed):
        text = " ".join((wrong[0]["error"] if wrong else "unreachable").split()).replace("|", "/")
        refused = all(what["preflight"] for what in roles.values() if what["error"]) and wrong
        return f"{'refused in preflight' if refused else 'failed'}: {text[:200]}"
    # The reasons are the benchmarks' cell.
    return f"changed={counts['changed']}" + (f"; {missed.split(';')[0]}" if missed else "")


def row(node: str, given: dict[str, Any], runs: list[dict[str, Any]]) -> str:
    """The node's line."""
    data = replica.described(given["node_replica"])
    pythons = ", ".join(dict.fromkeys(data["pythons"].values()))
    mpi = f"HPC-X {data['versions']['HPCX']}"
    family = FAMILIES[node.rpartition("-")[2]]
    skipped = skips(runs[0], node)
    cells = [given["node_replica"], pythons, mpi, family]
    cells += [did(roles_of(runs[0], node), skipped)]
    cells += [measured(roles_of(runs[0], node, measuring=True), skipped)]
    went = [outcome(run, node) for run in runs]
    cells += ["the same" if one in went[:1] and number else one for number, one in enumerate(went)]
    cells += ["not run"] * (len(RUNS) - len(runs))
    return f"| {' | '.join(cells)} |"


def write(hosts: dict[str, Any], nodes: list[str], runs: list[dict[str, Any]]) -> str:
    """The page's table with these nodes' rows; gives the table."""
    text = PAGE.read_text(encoding="utf-8")
    before, after = text.index(BEGIN) + len(BEGIN), text.index(END)
    lines = {_of(line): line for line in text[before:after].splitlines()[2:]}
    lines |= {_of(line): line for line in (row(node, hosts[node], runs) for node in nodes)}
    order = [(hosts[node]["node_replica"], FAMILIES[node.rpartition("-")[2]]) for node in hosts]
    there = [lines[key] for key in order if key in lines]
    table = "\n".join([HEADER, "| --- " * HEADER.count(" | ") + "| --- |", *there, ""])
    PAGE.write_text(text[:before] + table + text[after:], encoding="utf-8")
    return table


def _of(line: str) -> tuple[str, str]:
    """The image and the family of a row."""
    cells = line.strip("| ").split(" | ")
    return cells[0], cells[3]


def main() -> None:
    """Create, run three times, write, remove."""
    provisioner = yaml.safe_load(SCENARIO.read_text(encoding="utf-8"))["provisioner"]
    hosts = provisioner["inventory"]["host_vars"]
    nodes = sys.argv[1:] or list(hosts)
    folder = ROOT / ".cache" / "matrix"
    folder.mkdir(parents=True, exist_ok=True)
    where = environment(folder)

    def scenario(verb: str) -> None:
        argv = ["molecule", verb, "--scenario-name", "matrix"]
        subprocess.run(argv, env=where, check=True)  # noqa: S603 WHY: argv of this file

    def inside(node: str, *argv: str) -> str:
        return str(replica.vendor.run(["podman", "exec", node, *argv], env=where))

    scenario("destroy")
    runs: list[dict[str, Any]] = []
    try:
        # It is mounted as the nodes start, and filled when a node can say which packages it has.
        MIRROR.mkdir(parents=True, exist_ok=True)
        scenario("create")
        began = time.monotonic()
        mirror.make(MIRROR, hosts, inside(mirror.asking(hosts), "cat", "/var/lib/dpkg/status"))
        for node, script in mirror.scripts(hosts, nodes).items():
            inside(node, "sh", "-c", script)
        print(f"mirror: {(time.monotonic() - began) / 60:.1f} minutes", flush=True)
        for name in RUNS:
            if name == "restarted":
                replica.vendor.run(["podman", "restart", "--time", "20", *nodes], env=where)
            began = time.monotonic()
            runs.append(play(nodes, folder, name))
            table = write(hosts, nodes, runs)
            print(f"{name}: {(time.monotonic() - began) / 60:.1f} minutes", flush=True)
    finally:
        scenario("destroy")
    print(table)


if __name__ == "__main__":
    main()
