"""docs/untested.md and the site's page of acceptance checks, from catalog/acceptance.yml."""

from __future__ import annotations

import json
import re
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
CHECKS = "reference/acceptance.md"
HEAD = """\
# What is not tested, and how to test it

`make options` writes this page from catalog/acceptance.yml, which says for each id below which
test to run and the expected result; the site shows it as "Acceptance checks".

The hardware or service was not available. If you have it, run:

    make acceptance ARGS="-i inventories/mine"                  # on a new VM
    make run ARGS="-i inventories/mine -e trueup_max_usd=40"    # measures; again after a reboot
    make acceptance ARGS="-i inventories/mine"
    make acceptance ARGS="-i inventories/mine -e trueup_acceptance_change=true"

`make acceptance` checks what fits the machine and writes one bundle,
`results/acceptance/<time>.json`: passed, failed, not applicable or not measured, with evidence. Put
it into `catalog/acceptance/`, and the site shows the outcome. With `trueup_acceptance_change=true`
it changes an idle node for a moment (a link goes down, a lock of the clocks is lost) and puts it
back; a power failure prevents that. It takes at most {hbv3} minutes on one HB120rs_v3 and {ndv4} on
one ND96asr_v4, without installing.
"""
CHECKS_HEAD = """\
# Acceptance checks

Each row of [the untested](../untested.md) with the test to run and the expected result.

| id | not tested | test to run | expected result | settled by |
| --- | --- | --- | --- | --- |
"""
KINDS = {
    "By make acceptance": lambda row: bool(row.checks) and not row.steps,
    "By make acceptance, with steps that change the node": lambda row: bool(row.steps),
    "By hand": lambda row: not row.checks,
}
# Words of a subject that is shown whole.
LONGEST = 10
_ASIDE = re.compile(r"\s*\([^()]*(?:\([^()]*\)[^()]*)*\)")


def page(root: Path) -> str:
    """The page's text: the rows by who settles them."""
    rows = acceptance.rows(_data(root))
    head = HEAD.format(**{family: minutes(rows, family) for family in ("hbv3", "ndv4")})
    return head + "".join(
        f"\n## {title}\n\n" + "".join(map(_line, filter(is_of_kind, rows)))
        for title, is_of_kind in KINDS.items()
    )


def _line(row: acceptance.Row) -> str:
    """The subject of a row, without its asides and, of a long one, its details."""
    subject = re.split(r"[:;] ", _ASIDE.sub("", row.what))[0]
    if len(subject.split()) > LONGEST:
        subject = subject.split(", ")[0]
    return f"- `{row.id}`: {subject}\n"


def checks(root: Path) -> str:
    """The page of the site with every check and its outcomes."""
    bundles = [
        bundle(path.read_text(encoding="utf-8"), path.name)
        for path in sorted((root / BUNDLES).glob("*.json"))
    ]
    return CHECKS_HEAD + "".join(
        f"| `{row.id}` | {row.what} | {row.test} | {row.expected} | {_settled(row, bundles)} |\n"
        for row in acceptance.rows(_data(root))
    )


def _data(root: Path) -> Any:
    return yaml.safe_load((root / acceptance.FILE).read_text(encoding="utf-8"))


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
