"""CSV for other programs: base units, unrounded, all sheets in one rectangle whose first column
names the sheet."""

from __future__ import annotations

import csv
import functools
import io
import math
from itertools import chain
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
    # A column of all sheets at once: most hold one kind of value, which is looked at once.
    titles = chain.from_iterable([_cell(sheet.title)] * len(sheet.rows) for sheet in sheets)
    columns = [
        _column(list(chain.from_iterable(sheet.values(key) for sheet in sheets))) for key in keys
    ]
    writer.writerows(zip(titles, *columns, strict=True))
    return out.getvalue()


def _column(values: Sequence[Any]) -> Sequence[Any]:
    """The cells of a column."""
    kinds = set(map(type, values))
    if kinds == {int} or (kinds == {float} and not any(map(math.isnan, values))):
        return values
    if kinds <= {str, type(None)}:
        made = {value: _cell(value) for value in set(values)}
        return [made[value] for value in values]
    return list(map(_cell, values))


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
