#!/usr/bin/env python3
"""Configures every replica as every family (molecule/matrix) twice and once more after a restart.

    matrix.py [NODE ...]       all nodes of the scenario, or these

It writes the table of docs/images.md: what each role did, and what the runs changed. A restart of a
container is what a reboot is to it: services stop and start, the kernel stays.
"""

from __future__ import annotations

import collections
import json
import os
import string
import subprocess
import sys
from pathlib import Path
from typing import Any

import replica
import yaml

ROOT = replica.ROOT
SCENARIO = ROOT / "molecule" / "matrix" / "molecule.yml"
PAGE = ROOT / "docs" / "images.md"
BEGIN, END = "<!-- Written by `make replicas`. -->\n", "<!-- Up to here. -->\n"
HEADER = (
    "| image | Python | MPI | family | what the roles did | first run | second | after a restart |"
)
FAMILIES = {"hbv3": "HBv3", "ndv4": "NDv4", "nva10": "NV A10 v5"}


def environment(folder: Path) -> dict[str, str]:
    """What molecule sets for the scenario's playbooks, with its files in ``folder``."""
    given = yaml.safe_load(SCENARIO.read_text(encoding="utf-8"))["provisioner"]["env"]
    known = {
        "MOLECULE_PROJECT_DIRECTORY": str(ROOT),
        "MOLECULE_EPHEMERAL_DIRECTORY": str(folder),
    }
    filled = {name: string.Template(text).safe_substitute(known) for name, text in given.items()}
    return {**os.environ, **known, **filled}


def play(nodes: list[str], folder: Path, name: str) -> dict[str, Any]:
    """One run over the nodes; what Ansible says of it, kept as ``name``.json too."""
    argv = [
        *("ansible-playbook", "--inventory", str(folder / "inventory"), "--limit", ",".join(nodes)),
        str(ROOT / "molecule/_shared/converge.yml"),
    ]
    more = {"ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json"}
    said = subprocess.run(  # noqa: S603 WHY: argv of this file
        argv, env={**environment(folder), **more}, capture_output=True, text=True, check=False
    ).stdout
    (folder / f"{name}.json").write_text(said, encoding="utf-8")
    # Other callbacks may print before and after it.
    found: dict[str, Any] = json.loads(said[said.index("{\n") : said.rindex("}") + 1])
    return found


def roles_of(run: dict[str, Any], node: str) -> dict[str, dict[str, Any]]:
    """By role: how many tasks ``changed``, whether the image's was ``kept``, the ``error``."""
    roles: dict[str, dict[str, Any]] = collections.defaultdict(
        lambda: {"changed": 0, "kept": False, "error": ""}
    )
    for one in (task for part in run["plays"] for task in part["tasks"]):
        result = one["hosts"].get(node)
        role, _, title = one["task"]["name"].partition(" : ")
        if result is None or result.get("skipped"):
            continue
        if not title:
            role = "failed" if result.get("failed") else "playbooks"
        roles[role]["changed"] += bool(result.get("changed"))
        roles[role]["kept"] |= bool(result.get("kept"))
        if result.get("failed"):
            roles[role]["error"] = str(result.get("msg") or result.get("stderr") or "failed")
    return roles


def did(roles: dict[str, dict[str, Any]]) -> str:
    """What the roles did in the first run, as a cell."""
    said = []
    for role, what in roles.items():
        if role in ("playbooks", "failed"):
            continue
        words = "kept" if what["kept"] else ""
        words += f"{', ' if words else ''}changed {what['changed']}" if what["changed"] else ""
        said.append(f"{role}: {'FAILED' if what['error'] else words or 'verified'}")
    return "; ".join(said) or "-"


def outcome(run: dict[str, Any], node: str) -> str:
    """How a run went, as a cell."""
    counts = run["stats"][node]
    errors = [what["error"] for what in roles_of(run, node).values() if what["error"]]
    if counts["failures"] or counts["unreachable"] or errors:
        text = " ".join((errors or ["unreachable"])[0].split()).replace("|", "/")
        return f"failed: {text[:200]}"
    return f"changed={counts['changed']}"


def row(node: str, given: dict[str, Any], runs: list[dict[str, Any]]) -> str:
    """The node's line."""
    data = replica.described(given["node_replica"])
    pythons = ", ".join(dict.fromkeys(data["pythons"].values()))
    mpi = f"HPC-X {data['versions']['HPCX']}"
    family = FAMILIES[node.rpartition("-")[2]]
    cells = [given["node_replica"], pythons, mpi, family, did(roles_of(runs[0], node))]
    cells += [outcome(run, node) for run in runs]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Create, run three times, write, remove."""
    hosts = yaml.safe_load(SCENARIO.read_text(encoding="utf-8"))["provisioner"]["inventory"]
    nodes = sys.argv[1:] or list(hosts["host_vars"])
    folder = ROOT / ".cache" / "matrix"
    folder.mkdir(parents=True, exist_ok=True)
    where = environment(folder)

    def scenario(verb: str) -> None:
        argv = ["molecule", verb, "--scenario-name", "matrix"]
        subprocess.run(argv, env=where, check=True)  # noqa: S603 WHY: argv of this file

    scenario("destroy")
    try:
        scenario("create")
        runs = [play(nodes, folder, name) for name in ("first", "second")]
        replica.vendor.run(["podman", "restart", "--time", "20", *nodes], env=where)
        runs.append(play(nodes, folder, "restarted"))
    finally:
        scenario("destroy")
    lines = [row(node, hosts["host_vars"][node], runs) for node in nodes]
    table = "\n".join([HEADER, "| --- " * HEADER.count(" | ") + "| --- |", *lines, ""])
    text = PAGE.read_text(encoding="utf-8")
    before, after = text.index(BEGIN) + len(BEGIN), text.index(END)
    PAGE.write_text(text[:before] + table + text[after:], encoding="utf-8")
    print(table)


if __name__ == "__main__":
    main()
