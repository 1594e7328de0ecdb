"""CSV for other programs: base units, unrounded, all sheets in one rectangle whose first column
names the sheet."""

from __future__ import annotations

import csv
import functools
import io
from typing import TYPE_CHECKING, Any

from .. import units

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..sheets.sheet import Sheet


# What a formula begins with, in Excel and LibreOffice.
_FORMULA = ("=", "+", "-", "@")


def render(sheets: Sequence[Sheet]) -> str:
    """What is unknown is an empty cell."""
    keys = list(dict.fromkeys(key for sheet in sheets for key in sheet.data()))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["table", *keys])
    for sheet in sheets:
        for row in sheet.rows:
            writer.writerow([_cell(sheet.title), *(_cell(row.get(key)) for key in keys)])
    return out.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        return _text(value)
    if units.is_missing(value):
        return ""
    return str(value).lower() if isinstance(value, bool) else value


# Sweeps repeat most of their texts.
@functools.lru_cache(2**16)
def _text(value: str) -> str:
    shown = units.text(value)
    # A spreadsheet would run it as a formula.
    return f"'{shown}" if shown.startswith(_FORMULA) and shown != units.UNKNOWN else shown
