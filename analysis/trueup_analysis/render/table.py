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
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False, pad_edge=False)
        for column in columns:
            table.add_column(
                Text(column.header or ""),
                justify="left" if column.words else "right",
                no_wrap=not column.words,
                overflow="fold",
                vertical="top",
            )
        for row in sheet.rows:
            faint = sheet.faint is not None and not row.get(sheet.faint)
            table.add_row(
                *(Text(units.text(column.show(row.get(column.key)))) for column in columns),
                style="dim" if faint else None,
            )
        if sheet.rows:
            console.print(table)
        for note in sheet.notes:
            console.print(Padding(Text(units.text(note)), (0, 0, 0, 2)))
    # rich pads each line to the table's width.
    return "".join(line.rstrip() + "\n" for line in out.getvalue().splitlines())
