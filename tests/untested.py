"""docs/untested.md, written from the rows of catalog/acceptance.yml. ``make options`` runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml
from trueup.cluster import acceptance

if TYPE_CHECKING:
    from pathlib import Path

PAGE = "docs/untested.md"
HEAD = """\
# What is not tested, and how to test it

`make options` writes this page from catalog/acceptance.yml. To add a row, add it there and run
`make options` (its head says what `id`, `what`, `applies`, `minutes`, `test` and `expected` are).

Everything else in docs/ ran on the machine that its page names. For the following the hardware was
not available. Whoever has it settles rows so:

    make run ARGS="-i inventories/mine -e trueup_max_usd=40"    # measures; again after a reboot
    make acceptance ARGS="-i inventories/mine"                  # changes nothing

`make acceptance` checks the rows that have `checks` and fit the machine, names what is still to be
measured, and writes one bundle, `results/acceptance/<time>.json`: of each row passed, failed, not
applicable or not measured, with its evidence, versions, machine and date. A replica of an image
says so there. Rows by hand are listed by name. A bundle that is put into `catalog/acceptance/`
stands in the last column.

| what | test to run | expected result | settled by |
| --- | --- | --- | --- |
"""


def page(root: Path) -> str:
    """The page's text."""
    data = yaml.safe_load((root / acceptance.FILE).read_text(encoding="utf-8"))
    bundles = [
        acceptance.bundle(path.read_text(encoding="utf-8"), path.name)
        for path in sorted((root / acceptance.BUNDLES).glob("*.json"))
    ]
    return HEAD + "".join(
        f"| {row.what} | {row.test} | {row.expected} | {_settled(row, bundles)} |\n"
        for row in acceptance.rows(data)
    )


def _settled(row: acceptance.Row, bundles: list[acceptance.Bundle]) -> str:
    """Who settles a row, and what came back of it: the newest outcome of each kind of machine."""
    who = f"`make acceptance` ({row.id})" if row.checks else f"by hand ({row.id})"
    return "<br>".join([who, *acceptance.came_back(row.id, bundles)])
