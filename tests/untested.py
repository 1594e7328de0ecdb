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
not available:

| what | test to run | expected result |
| --- | --- | --- |
"""


def page(root: Path) -> str:
    """The page's text."""
    data = yaml.safe_load((root / acceptance.FILE).read_text(encoding="utf-8"))
    return HEAD + "".join(
        f"| {row.what} | {row.test} | {row.expected} |\n" for row in acceptance.rows(data)
    )
