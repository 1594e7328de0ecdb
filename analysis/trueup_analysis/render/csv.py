"""CSV for other programs: base units, unrounded, all sheets in one rectangle whose first column
names the sheet."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from .. import units

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..sheets.sheet import Sheet


# The first character of a formula in Excel and LibreOffice.
_FORMULA = ("=", "+", "-", "@")
_ROWS_AT_ONCE: Final = 1000


def render(sheets: Sequence[Sheet]) -> str:
    """Sheets as CSV; an unknown value is an empty cell."""
    return "".join(parts(sheets))


def parts(sheets: Sequence[Sheet]) -> Iterator[str]:
    """The same, some rows at a time: the whole of a hundred thousand has 30 MB."""
    keys = list(dict.fromkeys(key for sheet in sheets for key in sheet.data()))
    yield _line(["table", *keys])
    for sheet in sheets:
        columns = [_column(sheet.values(key)) for key in keys]
        rows = zip([_cell(sheet.title)] * len(sheet.rows), *columns, strict=True)
        while some := list(islice(rows, _ROWS_AT_ONCE)):
            yield "".join(map(_line, some))


def _line(cells: Sequence[str]) -> str:
    return ",".join(cells) + "\n"


def _column(values: Sequence[Any]) -> Sequence[str]:
    """The cells of a column."""
    kinds = set(map(type, values))
    # Most columns repeat their values. Equal values of other types may be written otherwise.
    if kinds <= {str, int, type(None)}:
        texts = {value: _cell(value) for value in set(values)}
        return [texts[value] for value in values]
    return list(map(_cell, values))


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return _text(value)
    if units.is_missing(value):
        return ""
    return str(value).lower() if isinstance(value, bool) else _quoted(str(value))


def _text(value: str) -> str:
    text = units.text(value)
    # A spreadsheet would run it as a formula.
    is_formula = text.startswith(_FORMULA) and text != units.UNKNOWN
    return _quoted(f"'{text}" if is_formula else text)


def _quoted(text: str) -> str:
    """As RFC 4180 has it. No text holds the end of a line."""
    if '"' in text or "," in text:
        return '"' + text.replace('"', '""') + '"'
    return text
