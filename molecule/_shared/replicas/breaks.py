#!/usr/bin/env python3
"""Runs a checkout of trueup into what Azure's HPC images do to configuration management.

    breaks.py CHECKOUT [--only NAME ...]        an older commit, or this one

The nodes are replicas (molecule/breaks), made by this checkout and removed at the end; roles,
plugins and ansible-playbook are CHECKOUT's, after `make test-venv` in it. What the breaks are says
tests/data/images/breaks.yml. What was seen of each is printed. The status is the number of those
that were met, or of which nothing can be said: what a mended code shows was not seen either.

The nodes reach no server: the packages of ARCHIVE are downloaded with this machine's apt (Debian 12
as the nodes) and served inside the node under the name of Ubuntu's archive.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import matrix
import replica
import yaml

SCENARIO = replica.ROOT / "molecule" / "breaks" / "molecule.yml"
BREAKS = replica.ROOT / "tests" / "data" / "images" / "breaks.yml"
# Packages, and all that the plays said. Molecule empties its own folder.
FOLDER = replica.ROOT / ".cache" / "breaks"
NODES = FOLDER / "nodes"
ARCHIVE = [
    *("hpcc", "libopenblas0-pthread", "libopenmpi3", "mpi-default-bin", "openmpi-bin"),
    *("openmpi-common", "liblua5.1-0", "munge", "slurm-client", "slurm-wlm-basic-plugins"),
    *("slurmctld", "slurmd"),
    *("gromacs", "gromacs-data", "libgromacs7", "libfftw3-double3", "libfftw3-single3"),
    *("libblas3", "liblapack3", "libmuparser2v5", "libjs-mathjax", "fonts-mathjax"),
    *("isa-support", "sse4.2-support", "libucx0"),
]
# What pyenv's Python of the node lacks.
HEADER = {"/usr/include/python3.12/Python.h": {"content": "/* Stand-in. */\n"}}
TOLD = r"fatal|skipping: \[|^\s+(- )?'?(msg|skipped|stderr)|changed=|^\s+E: "


class Breaks:
    """One checkout, and the nodes that it meets."""

    def __init__(self, checkout: Path) -> None:
        self.checkout = checkout
        self.molecule = matrix.environment(NODES, SCENARIO)
        # The modules of a role's plan come with the environment that Ansible runs in.
        self.own = {
            **self.molecule,
            "ANSIBLE_CONFIG": str(checkout / "ansible.cfg"),
            "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(FOLDER / "facts"),
            "TRUEUP_RESULTS": str(FOLDER / "results"),
            "PATH": f"{checkout / '.venv' / 'bin'}:{os.environ['PATH']}",
        }

    def say(self, argv: list[str], script: str | None = None) -> str:
        """Both outputs of a program."""
        done = subprocess.run(  # noqa: S603 WHY: argv of this file
            argv,
            input=script,
            env=self.own,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.stdout

    def inside(self, node: str, script: str) -> str:
        """What a shell script says in the node."""
        return self.say(["podman", "exec", "--interactive", node, "sh"], script)

    def scenario(self, verb: str) -> None:
        """One verb of molecule's."""
        argv = ["molecule", verb, "--scenario-name", "breaks"]
        subprocess.run(argv, env=self.molecule, check=True)  # noqa: S603 WHY: as above

    def serve(self) -> None:
        """The archives, in the nodes that ask for one."""
        vendor, archive = replica.vendor, FOLDER / "archive"
        debs, rpms = archive / "ubuntu", archive / "el"
        if not (rpms / "repodata").exists():
            for folder in (debs, rpms):
                folder.mkdir(parents=True, exist_ok=True)
            vendor.run(["apt-get", "--quiet", "download", *ARCHIVE], cwd=debs)
            listed = vendor.run(["apt-ftparchive", "packages", "."], cwd=debs)
            (debs / "Packages").write_text(listed, encoding="utf-8")
            origin = ["-o", "APT::FTPArchive::Release::Origin=Ubuntu"]
            release = vendor.run(["apt-ftparchive", *origin, "release", "."], cwd=debs)
            (debs / "Release").write_text(release, encoding="utf-8")
            vendor.make_rpm({"name": "python3.12-devel", "files": HEADER}, "3.12.12-1", rpms)
            vendor.run(["createrepo_c", "--quiet", str(rpms)])
        for node in ("trueup-old-u22-hbv3", "trueup-old-u22old-hbv3", "trueup-old-a9-hbv3"):
            self.say(["podman", "cp", str(archive), f"{node}:/srv"])

    def play(self, one: dict[str, Any], more: str = "") -> str:
        """What site.yml said of this break's node; all of it stands in a file of its name."""
        name = one["name"].replace(" ", "_")
        groups = FOLDER / "groups.ini"
        groups.write_text(one.get("groups", ""), encoding="utf-8")
        argv = ["ansible-playbook", "--limit", one["node"], str(self.checkout / "site.yml")]
        for inventory in (NODES / "inventory", groups):
            argv += ["--inventory", str(inventory)]
        for option in ("tags", "skip-tags"):
            argv += [f"--{option}", one[option]] if option in one else []
        argv += ["--extra-vars", yaml.safe_dump(one.get("vars", {}), default_flow_style=True)]
        said = self.say(argv)
        (FOLDER / f"{name}{more}.log").write_text(said, encoding="utf-8")
        return said

    def meet(self, one: dict[str, Any]) -> tuple[str, list[str]]:
        """``met``, ``not met`` or ``unclear``, and the lines of what was seen that say so."""
        self.inside(one["node"], one.get("before", ""))
        said = self.play(one)
        seen = self.inside(one["node"], one.get("seen", ""))
        if one.get("again") == "restart":
            self.say(["podman", "restart", "--time", "20", one["node"]])
            self.inside(one["node"], "systemctl is-system-running --wait")
        if "again" in one:
            counted = re.findall(r"changed=\d+", self.play(one, "_again"))
            seen += f"again: {' '.join(counted) or 'no recap'}\n"
        lines = [line for line in said.splitlines() if re.search(TOLD, line)]
        found = "unclear"
        for answer in ("met", "not met"):
            if found == "unclear" and re.search(one[answer], said + seen):
                found = answer
        return found, [*lines, *seen.splitlines()]


def main() -> int:
    """Create, run into each, say what was seen, remove."""
    parser = argparse.ArgumentParser(description="Run a checkout into the breaks of breaks.yml.")
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME")
    asked = parser.parse_args()
    read = yaml.safe_load(BREAKS.read_text(encoding="utf-8"))
    known = {one["name"]: one for one in read["breaks"]}
    if unknown := set(asked.only) - set(known):
        parser.error(f"no break is called {', '.join(sorted(unknown))}: see {BREAKS}")
    checkout = asked.checkout.resolve()
    if not (checkout / ".venv/bin/ansible-playbook").exists():
        parser.error(f"{checkout} has no .venv with ansible-playbook: run make test-venv in it")
    NODES.mkdir(parents=True, exist_ok=True)
    breaks = Breaks(checkout)
    wanted = asked.only or list(known)
    left = len(wanted)
    breaks.scenario("destroy")
    try:
        breaks.scenario("create")
        breaks.serve()
        for name in wanted:
            found, lines = breaks.meet(known[name])
            left -= found == "not met"
            print(f"== {name}: {found}", *lines, sep="\n", flush=True)
    finally:
        breaks.scenario("destroy")
    return left


if __name__ == "__main__":
    sys.exit(main())
