"""Markdown, for reports and pull requests."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .. import units

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..sheets.sheet import Sheet


def render(sheets: Sequence[Sheet]) -> str:
    """The sheets as headings, pipe tables and lists."""
    parts = []
    for sheet in sheets:
        lines = [f"### {_cell(sheet.title)}", ""]
        for sentence in sheet.lead:
            lines += [_cell(sentence), ""]
        columns = sheet.shown()
        if sheet.rows:
            lines.append(
                "| "
                + " | ".join(_cell(_one_line(column.header or "")) for column in columns)
                + " |"
            )
            lines.append(
                "|" + "|".join(":---" if column.words else "---:" for column in columns) + "|"
            )
            for row in sheet.rows:
                cells = [_cell(units.text(column.show(row.get(column.key)))) for column in columns]
                lines.append("| " + " | ".join(cells) + " |")
            lines.append("")
        marked = [f"- **Warning:** {_cell(text)}" for text in sheet.warnings]
        marked += [f"- {_cell(text)}" for text in sheet.notes]
        parts.append("\n".join([*lines, *marked, ""] if marked else lines))
    return "\n".join(parts)


def _one_line(header: str) -> str:
    return header.replace("-\n", "-").replace("\n", " ")


def _cell(value: str) -> str:
    """Text that Markdown shows as it is."""
    return re.sub(r"([\\|*_`\[\]<>#])", r"\\\1", units.text(value))
