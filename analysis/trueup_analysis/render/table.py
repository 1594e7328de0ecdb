"""Tables for a terminal, by rich."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from . import units

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .sheet import Sheet

__all__ = ["WIDTH", "render"]

# What a table is made for when nobody looks: a file, a pipe, a log.
WIDTH = 100
# A column of text is not squeezed below this.
NARROWEST = 18


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
        least = 0
        for index, column in enumerate(columns):
            header = column.header or ""
            widest = max(
                len(text) for text in (*header.split("\n"), *(row[index] for row in cells))
            )
            narrowest = min(widest, NARROWEST) if column.words else widest
            least += narrowest + 2
            table.add_column(
                Text(header),
                justify="left" if column.words else "right",
                no_wrap=not column.words,
                min_width=narrowest,
                overflow="fold",
            )
        for row, texts in zip(sheet.rows, cells, strict=True):
            faint = sheet.faint is not None and not row.get(sheet.faint)
            table.add_row(*map(Text, texts), style="dim" if faint else None)
        if cells:
            # A table that does not fit is wider than asked for: cut figures would be wrong ones.
            console.print(table, width=max(width, least), crop=False)
        for note in sheet.notes:
            console.print(Padding(Text(units.text(note)), (0, 0, 0, 2)))
    # rich pads each line to the table's width.
    return "".join(line.rstrip() + "\n" for line in out.getvalue().splitlines())
