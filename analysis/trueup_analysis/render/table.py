"""Tables for a terminal, by rich."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from . import units

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .sheet import Column, Sheet

__all__ = ["WIDTH", "render"]

# What a table is made for when nobody looks: a file, a pipe, a log.
WIDTH = 100
# A column of text is not squeezed below this.
NARROWEST = 18


def _widths(columns: Sequence[Column], cells: Sequence[Sequence[str]], room: int) -> list[int]:
    """As wide as the widest cell; of text, which may wrap, the widest columns give way until the
    table fits.
    """
    widths = [
        max(len(text) for text in (*(column.header or "").split("\n"), *(row[n] for row in cells)))
        for n, column in enumerate(columns)
    ]
    while sum(widths) + 2 * (len(widths) - 1) > room:
        yielding = [n for n, column in enumerate(columns) if column.words and widths[n] > NARROWEST]
        if not yielding:
            break
        widths[max(yielding, key=lambda n: widths[n])] -= 1
    return widths


def _folded(text: str, width: int) -> str:
    """Broken at blanks and hyphens where it can be: names of cases have no blanks."""
    if len(text) <= width:
        return text
    lines = [""]
    for piece in re.split(r"(?<=[ /-])", text):
        if len(lines[-1]) + len(piece.rstrip()) > width and lines[-1]:
            lines.append("")
        lines[-1] += piece
        while len(lines[-1].rstrip()) > width:
            lines[-1:] = [lines[-1][:width], lines[-1][width:]]
    return "\n".join(line.rstrip() for line in lines)


def render(sheets: Sequence[Sheet], *, width: int = WIDTH, colour: bool = False) -> str:
    """The sheets one below the other. Data never becomes markup or a terminal command."""
    out = io.StringIO()
    console = Console(
        file=out,
        width=width,
        force_terminal=colour,
        color_system="standard" if colour else None,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    for number, sheet in enumerate(sheets):
        if number:
            console.print()
        console.print(Text(units.text(sheet.title), style="bold"))
        columns = sheet.shown()
        cells = [
            [units.text(column.show(row.get(column.key))) for column in columns]
            for row in sheet.rows
        ]
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False, pad_edge=False)
        widths = _widths(columns, cells, width)
        for column, wide in zip(columns, widths, strict=True):
            table.add_column(
                Text(column.header or ""), justify="left" if column.words else "right", width=wide
            )
        for row, texts in zip(sheet.rows, cells, strict=True):
            faint = sheet.faint is not None and not row.get(sheet.faint)
            folded = [_folded(text, wide) for text, wide in zip(texts, widths, strict=True)]
            table.add_row(*map(Text, folded), style="dim" if faint else None)
        if cells:
            # A table that does not fit is wider than asked for: cut figures would be wrong ones.
            console.width = max(width, sum(widths) + 2 * len(widths))
            console.print(table, crop=False)
            console.width = width
        for note in sheet.notes:
            console.print(Padding(Text(units.text(note)), (0, 0, 0, 2)))
    # rich pads each line to the table's width.
    return "".join(line.rstrip() + "\n" for line in out.getvalue().splitlines())
