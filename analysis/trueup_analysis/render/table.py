"""Tables for a terminal, as plain text.

A figure is written whole. A cell of words wraps at blanks and after ``-`` or ``/``, and after
``_ + , : =`` where a piece is still too long; never inside a word. A heading breaks only where its
column says so.

A table that is too wide even so is written in blocks, one below the other, with a blank line
between them. Each block begins with the columns that name a row.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, repeat, takewhile
from typing import TYPE_CHECKING

from .. import units

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ..sheets.sheet import Column, Sheet

# Width of a table in a file, a pipe or a log, in characters.
WIDTH = 100
# Words are easy to read down to this width: a table in blocks keeps it where it can.
NARROWEST = 18
_GAP = "  "
_INDENT = "  "
_BOLD, _DIM, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"
_TONES = {"good": "\x1b[1;32m", "doubtful": "\x1b[1;33m", "bad": "\x1b[1;31m"}

# A sign belongs to its number.
_SIGN = r"(?<![\w)\]}>])[-+](?=\.?\d)"
# Marks inside these do not end a piece: 12,345, 09:13:20, the exponent of 1e-05, GB/s. A list of
# more numbers than the longest of them may be broken.
_FIGURE = (
    r"(?<![\d,])\d{1,3}(?:,\d{3}){1,4}(?![\d,])"
    r"|(?<![\d:])\d+(?::\d+){1,3}(?![\d:])"
    r"|(?<=\d[eE])[-+]\d{1,3}(?!\w)"
    r"|(?<=\w)/s(?!\w)"
)


def _pieces_after(marks: str) -> re.Pattern[str]:
    """Finds the pieces of a text, which end with blanks or marks. Marks that begin a word
    (``--region``) stay with the text after them.
    """
    mark = f"[{re.escape(marks)}]"
    inside = f"{_FIGURE}|{_SIGN}|[^ {re.escape(marks)}]"
    return re.compile(rf"(?=.) *{mark}*(?:{inside})*(?:(?:(?!{_SIGN}){mark})+[)\]}}>]*)? *")


_AT_BLANKS = re.compile(r"(?:(?<! ) +)?[^ ]+ *")
_AT_HYPHENS = _pieces_after("-/")
_AT_MARKS = _pieces_after("-/_+,:=")


@lru_cache(maxsize=4096)
def _cell(char: str) -> int:
    """How many cells of a terminal a character takes."""
    # The vowels and finals of Hangul are drawn into the cells of the consonant before them.
    if unicodedata.category(char) in {"Mn", "Me"} or "\u1160" <= char <= "\u11ff":
        return 0
    return 2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1


def _cells(text: str) -> int:
    return len(text) if text.isascii() else sum(map(_cell, text))


def _padded(text: str, width: int, *, right: bool) -> str:
    blanks = " " * (width - _cells(text))
    return blanks + text if right else text + blanks


def _folded(text: str, width: int, pieces: re.Pattern[str]) -> list[str]:
    """The text in lines; only a piece that cannot be broken is longer than the width."""
    if _cells(text) <= width:
        return [text.rstrip(" ")]
    lines = [""]
    used = 0
    for piece in pieces.findall(text):
        fits = _cells(piece.rstrip(" ")) <= width
        for chunk in (piece,) if fits else _AT_MARKS.findall(piece):
            if lines[-1] and used + _cells(chunk.rstrip(" ")) > width:
                lines.append("")
                used = 0
            lines[-1] += chunk
            used += _cells(chunk)
    return [line.rstrip(" ") for line in lines]


def _longest_piece(text: str) -> int:
    return max(map(_longest_part, _AT_HYPHENS.findall(text)), default=0)


# Pieces recur: units, names of sizes and cases.
@lru_cache(maxsize=4096)
def _longest_part(piece: str) -> int:
    return max((_cells(chunk.rstrip(" ")) for chunk in _AT_MARKS.findall(piece)), default=0)


@dataclass(frozen=True)
class _Written:
    """A column as it is written.

    Attributes:
        plain: whether every character of the cells takes one cell of a terminal.
    """

    heading: Sequence[str]
    texts: Sequence[str]
    words: bool
    plain: bool

    @classmethod
    def of(cls, column: Column, sheet: Sheet) -> _Written:
        texts = column.texts(sheet.values(column.key))
        together = "".join(texts)
        plain = together.isascii() and together.isprintable()
        return cls(
            heading=[units.text(line) for line in (column.header or "").split("\n")],
            texts=texts if plain else [units.text(text) for text in texts],
            words=column.words,
            plain=plain,
        )

    @cached_property
    def _heading_width(self) -> int:
        return max(map(_cells, self.heading))

    @cached_property
    def _widest_cell(self) -> int:
        return max(map(len if self.plain else _cells, self.texts), default=0)

    @cached_property
    def width(self) -> int:
        """Where nothing wraps."""
        return max(self._heading_width, self._widest_cell)

    @cached_property
    def least(self) -> int:
        """Below this, a figure, a word or the heading would be broken."""
        if not self.words:
            return self.width
        return max(self._heading_width, *map(_longest_piece, dict.fromkeys(self.texts)))

    @cached_property
    def narrow(self) -> int:
        """Below this, words are hard to read."""
        return min(self.width, max(self.least, NARROWEST))

    def cells(self, width: int) -> Iterable[str]:
        """The cells, padded to the width; the lines of a wrapped one are joined by ``\\n``."""
        if self.plain and self._widest_cell <= width:
            return map(str.ljust if self.words else str.rjust, self.texts, repeat(width))
        # Texts recur: names of cases, sizes and outcomes.
        padded = dict.fromkeys(self.texts, "")
        for text in padded:
            lines = _folded(text, width, _AT_HYPHENS) if self.words else [text]
            padded[text] = "\n".join(_padded(line, width, right=not self.words) for line in lines)
        return map(padded.__getitem__, self.texts)


def _sum(widths: Iterable[int]) -> int:
    """The width of a line of such cells."""
    each = list(widths)
    return sum(each) + len(_GAP) * (len(each) - 1)


def _widths(columns: Sequence[_Written], room: int) -> list[int]:
    """As wide as the widest cell; of words, which may wrap, the widest columns give way until the
    table fits.
    """
    widths = [column.width for column in columns]
    if _sum(widths) <= room:
        return widths
    widths = [min(column.width, max(column.least, room)) for column in columns]
    while _sum(widths) > room:
        yielding = [n for n, column in enumerate(columns) if widths[n] > column.least]
        if not yielding:
            break
        # The names of a row lead, and are the last to become hard to read.
        widths[max(yielding, key=lambda n: (widths[n], n if widths[n] <= NARROWEST else -n))] -= 1
    return widths


def _names(columns: Sequence[_Written], room: int) -> int:
    """How many columns name a row: the fewest leading text columns that distinguish as many rows
    as all of them, where they leave half of the room and enough for any other column; else one.
    """
    leading = sum(1 for _ in takewhile(lambda column: column.words, columns[:-1]))
    distinct_rows = [
        len(set(zip(*(column.texts for column in columns[:n]), strict=True)))
        for n in range(1, leading + 1)
    ]
    enough = distinct_rows.index(max(distinct_rows)) + 1 if distinct_rows else 1
    for n in range(enough, 1, -1):
        names = columns[:n]
        widest = max(column.least for column in columns[n:])
        if (
            _sum(column.narrow for column in names) <= room / 2
            and _sum([*(column.least for column in names), widest]) <= room
        ):
            return n
    return 1


def _blocks(columns: Sequence[_Written], room: int) -> list[list[_Written]]:
    """The columns of each block: one block where they fit, else the names of the rows and as many
    further columns as fit, at least one.
    """
    # Columns that fit need no search for break points.
    fits = _sum(column.width for column in columns) <= room
    if fits or _sum(column.least for column in columns) <= room or len(columns) == 1:
        return [list(columns)]
    named = _names(columns, room)
    blocks: list[list[_Written]] = []
    for column in columns[named:]:
        if not blocks or _sum(member.narrow for member in (*blocks[-1], column)) > room:
            blocks.append(list(columns[:named]))
        blocks[-1].append(column)
    return blocks


def _headings(columns: Sequence[_Written], widths: Sequence[int]) -> Iterator[str]:
    """The lines above the rule; short headings stand on it."""
    height = max(len(column.heading) for column in columns)
    lifted = [[*repeat("", height - len(column.heading)), *column.heading] for column in columns]
    for texts in zip(*lifted, strict=True):
        yield _GAP.join(
            _padded(text, width, right=not column.words)
            for text, width, column in zip(texts, widths, columns, strict=True)
        )


def _rows(columns: Sequence[_Written], widths: Sequence[int]) -> Iterator[list[str]]:
    """The lines of each row."""
    padded = [column.cells(width) for column, width in zip(columns, widths, strict=True)]
    for cells in zip(*padded, strict=True):
        line = _GAP.join(cells)
        if "\n" not in line:
            yield [line]
            continue
        lines = [cell.split("\n") for cell in cells]
        height = max(map(len, lines))
        for cell, width in zip(lines, widths, strict=True):
            cell.extend(repeat(" " * width, height - len(cell)))
        yield [_GAP.join(parts) for parts in zip(*lines, strict=True)]


def _table(sheet: Sheet, room: int, *, colour: bool) -> Iterator[str]:
    columns = [_Written.of(column, sheet) for column in sheet.shown()]
    if not columns:
        yield ""  # rows of which nothing is known
        return
    key = sheet.faint if colour else None
    for number, block in enumerate(_blocks(columns, room)):
        if number:
            yield ""
        widths = _widths(block, room)
        for line in _headings(block, widths):
            yield _styled(line, _BOLD if colour else "")
        yield "─" * _sum(widths)
        counts = repeat(True, len(sheet.rows)) if key is None else sheet.values(key)
        for does_count, lines in zip(counts, _rows(block, widths), strict=True):
            style = "" if does_count else _DIM
            for line in lines:
                yield _styled(line, style)


def _styled(line: str, style: str) -> str:
    line = line.rstrip()
    return f"{style}{line}{_PLAIN}" if style and line else line


def _sheet(sheet: Sheet, room: int, *, colour: bool) -> Iterator[str]:
    for line in _folded(units.text(sheet.title), room, _AT_BLANKS):
        yield _styled(line, _TONES.get(sheet.tone, _BOLD) if colour else "")
    for sentence in sheet.lead:
        yield from _folded(units.text(sentence), room, _AT_BLANKS)
    if sheet.lead and sheet.rows:
        yield ""
    if sheet.rows:
        yield from _table(sheet, room, colour=colour)
    for note in sheet.notes:
        for line in _folded(units.text(note), room - len(_INDENT), _AT_BLANKS):
            yield (_INDENT + line).rstrip()


def render(sheets: Sequence[Sheet], *, width: int = WIDTH, colour: bool = False) -> str:
    """The sheets one below the other. Data never becomes a terminal command.

    No line is longer than the width, save where the name of a row and one other column, or a word
    of a title or a note, is: cut, it would be wrong.
    """
    lines = chain.from_iterable(
        chain([""] if number else [], _sheet(sheet, width, colour=colour))
        for number, sheet in enumerate(sheets)
    )
    return "".join(f"{line}\n" for line in lines)
