"""docs/untested.md, written from the rows of catalog/acceptance.yml. ``make options`` runs it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import role_plans
import yaml
from trueup_controller import acceptance
from trueup_controller.acceptance import FAILED, OUTCOMES, PASSED, SCHEMA
from trueup_node.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

PAGE = "docs/untested.md"
BUNDLES = "catalog/acceptance"
Bundle = dict[str, Any]
HEAD = """\
# What is not tested, and how to test it

`make options` writes this page from catalog/acceptance.yml. To add a row, add it there and run
`make options` (its head says what `id`, `what`, `applies`, `minutes`, `test` and `expected` are).

Everything else in docs/ ran on the machine that its page names. For the following the hardware was
not available. Whoever has it settles rows so:

    make acceptance ARGS="-i inventories/mine"                  # on a new VM: what only that shows
    make run ARGS="-i inventories/mine -e trueup_max_usd=40"    # measures; again after a reboot
    make acceptance ARGS="-i inventories/mine"                  # changes nothing
    make acceptance ARGS="-i inventories/mine -e trueup_acceptance_change=true"

`make acceptance` checks the rows that have `checks` and fit the machine, names what is still to be
measured, and writes one bundle, `results/acceptance/<time>.json`: of each row passed, failed, not
applicable or not measured, with its evidence, versions, machine and date. A replica of an image
says so there. Rows by hand are listed by name. A bundle that is put into `catalog/acceptance/`
stands in the last column.

A row with **steps** changes the node for a moment: a link goes down and up, a lock of the clocks is
lost, Azure's agent is restarted. That is done only with `trueup_acceptance_change=true`, one row
after the other, and not while a job of Slurm, a process on a GPU or a benchmark of trueup runs
there. What puts the node back (`restore` in the catalog) runs whatever the steps came to; the
bundle has each command with its exit status. A power failure prevents it: then run those commands
by hand.

The rows that one machine alone settles take at most {hbv3} minutes on one HB120rs_v3 and {ndv4} on
one ND96asr_v4, by the `minutes` of the catalog, without installing and rebooting. What a row needs
beyond that stands in the last column.

| what | test to run | expected result | settled by |
| --- | --- | --- | --- |
"""


def page(root: Path) -> str:
    """The page's text."""
    data = yaml.safe_load((root / acceptance.FILE).read_text(encoding="utf-8"))
    bundles = [
        bundle(path.read_text(encoding="utf-8"), path.name)
        for path in sorted((root / BUNDLES).glob("*.json"))
    ]
    rows = acceptance.rows(data)
    head = HEAD.format(**{family: minutes(rows, family) for family in ("hbv3", "ndv4")})
    return head + "".join(
        f"| {row.what} | {row.test} | {row.expected} | {_settled(row, bundles)} |\n" for row in rows
    )


def alone(rows: list[acceptance.Row], family: str) -> list[acceptance.Row]:
    """The rows that one machine of the family's first size with Ubuntu-HPC can settle alone."""
    node = role_plans.node(family, "ubuntu-22.04", hpc_image={"HPCX": "2"})
    return [row for row in rows if not row.beyond and acceptance.misfit(row, node) is None]


def minutes(rows: list[acceptance.Row], family: str) -> int:
    """How long they take together, at most."""
    return sum(row.minutes for row in alone(rows, family))


def _settled(row: acceptance.Row, bundles: list[Bundle]) -> str:
    """Who settles a row, and what came back of it: the newest outcome of each kind of machine."""
    who = f"`make acceptance` ({row.id})" if row.checks else f"by hand ({row.id})"
    who += ", with steps" if row.steps else ""
    needs = ", ".join(acceptance.BEYOND[word] for word in row.beyond)
    who += f"; needs {needs}" if needs else ""
    return "<br>".join([who, *came_back(row.id, bundles)])


def bundle(text: str, name: str) -> Bundle:
    """What playbooks/acceptance.yml wrote.

    Raises:
        BadInput: it is not that.
    """
    try:
        read = json.loads(text)
        fine = read["schema"] == SCHEMA and isinstance(read["date"], str)
        for machine in read["machines"]:
            for one in machine["rows"]:
                fine = fine and isinstance(one["row"], str) and one["outcome"] in OUTCOMES
    except (ValueError, LookupError, TypeError):
        fine = False
    if not fine:
        raise BadInput(f"{name} is no bundle of {SCHEMA}: put what `make acceptance` wrote there")
    return dict(read)


def came_back(row: str, bundles: Sequence[Bundle]) -> list[str]:
    """What bundles say of a row, the newest of each machine: one line each, a replica as such."""
    found = {}
    for one in sorted(bundles, key=lambda one: str(one["date"])):
        for machine in one["machines"]:
            what = f"replica {machine['replica']}" if machine.get("replica") else machine["vm_size"]
            for result in machine["rows"]:
                if result["row"] == row and result["outcome"] in (PASSED, FAILED):
                    where = f"{what}, {machine['os']}"
                    found[where] = f"{result['outcome']} {one['date']} ({where})"
    return list(found.values())
