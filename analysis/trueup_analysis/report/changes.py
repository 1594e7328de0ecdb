"""The report's section on the changes since the run before."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..render.html import Part, Section
from ..sheets import compare

if TYPE_CHECKING:
    from ..figures.compare.changes import Comparison


def changes_section(changes: Comparison) -> Section:
    """The changed figures, and what failed or is missing since."""
    figures, *others = compare.sheets(changes, everything=False)
    # The CSV beside the page has the unchanged figures.
    table = replace(figures, title="Changed figures", notes=figures.notes[-1:])
    changed = [table] if figures.rows else []
    unchanged = () if changed or others else ("No figure changed.",)
    return Section(
        "changes",
        "Since the run before",
        [Part(sheets=(*changed, *others), paragraphs=unchanged)],
        data=compare.sheets(changes, everything=True),
    )
