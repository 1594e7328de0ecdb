"""The report as one HTML file: the content of a page (plain dataclasses) and its rendering.

Tables are sheets, as every format renders them. Everything else arrives as finished text, which
this module escapes and sets. The one script of the page is ours; its digest in the page's policy
admits no other.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from .. import units
from . import csv
from .plots.palette import PALETTE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..sheets.sheet import Column, Sheet
    from .plots.drawing import Drawing

UNKNOWN: Final = "unknown"
# A page shows this many rows of a table; the CSV file beside it has all of them.
ROWS_SHOWN: Final = 200
# The colours of verdicts, (light, dark): told apart by people who do not see all colours, and never
# by colour alone.
VERDICTS: Final = {
    "pass": ("#2a8f6a", "#57bd97"),
    "warn": ("#b97a00", "#e5ac3f"),
    "fail": ("#c0392b", "#ff8275"),
    "lost": ("#6b5bb0", "#a99bea"),
}
# The key of a row's links to its record and raw output, which no CSV file has.
LINKS: Final = "links"
_TEMPLATES: Final = Path(__file__).resolve().parent / "templates"
# A card shows so many nodes; the others are folded.
_NODES_SHOWN: Final = 6
# Text longer than this wraps in its cell.
_LONG: Final = 40


@dataclass(frozen=True)
class Figure:
    """A plot with its finding in words: for the caption, and for readers who cannot see it."""

    name: str
    caption: str
    drawing: Drawing


class Fact(NamedTuple):
    """A name and its value."""

    label: str
    value: str


class Link(NamedTuple):
    """A file beside the report; without ``href`` it is not there."""

    text: str
    href: str


class Affected(NamedTuple):
    """A node of a finding, with its own figure."""

    node: str
    device: str
    figure: str
    links: Sequence[Link] = ()


class Card(NamedTuple):
    """A finding on some nodes.

    Attributes:
        check: the check that it is of; ``at`` is its message size.
        figures: the worst figure, its limit, and the figure of healthy nodes.
        nodes: the affected nodes, the worst first.
        remedy: the reason, then the fix.
    """

    verdict: str
    check: str
    at: str
    code: str
    figures: Sequence[Fact]
    nodes: Sequence[Affected]
    remedy: Sequence[Fact]
    sources: Sequence[str]


@dataclass(frozen=True)
class Part:
    """One thing under a section.

    Attributes:
        drawn: a drawing of ours that is no plot (its text is escaped by who made it).
        beside: narrow tables that stand next to the plots where the page is wide.
    """

    title: str = ""
    paragraphs: Sequence[str] = ()
    warnings: Sequence[str] = ()
    drawn: Markup | str = ""
    cards: Sequence[Card] = ()
    figures: Sequence[Figure] = ()
    beside: Sequence[Sheet] = ()
    sheets: Sequence[Sheet] = ()
    notes: Sequence[str] = ()
    terms: Sequence[Fact] = ()

    def tables(self) -> tuple[Sheet, ...]:
        """All tables in the order of the page."""
        return (*self.beside, *self.sheets)


class Section(NamedTuple):
    """A heading of the page.

    Attributes:
        name: its anchor, and the name of its CSV file.
        data: the sheets of that file; those on the page where None. Empty for no file.
    """

    name: str
    title: str
    parts: Sequence[Part]
    data: Sequence[Sheet] | None = None

    def csv(self) -> bytes:
        """The content of its CSV file, as the command of the same table writes it; none where it
        has no file."""
        sheets = self._in_file()
        # Of a hundred thousand records 30 MB.
        return b"".join(map(str.encode, csv.parts(sheets))) if sheets else b""

    def file_of(self, sheet: Sheet) -> str:
        """The CSV file with all rows of a table, told by its name; "" where none has them."""
        is_there = any(
            other is sheet or other.name == sheet.name != "" for other in self._in_file()
        )
        return f"tables/{self.name}.csv" if is_there else ""

    def _in_file(self) -> Sequence[Sheet]:
        if self.data is not None:
            return self.data
        return [sheet for section_part in self.parts for sheet in section_part.tables()]


class Headline(NamedTuple):
    """One figure that the page opens with."""

    label: str
    value: str
    unit: str
    detail: str


class Warnings(NamedTuple):
    """Warnings or notes of one kind, under a line that says which."""

    title: str
    lines: Sequence[Fact] = ()
    more: str = ""


class Verdicts(NamedTuple):
    """Each check of each node, for the page's own search.

    Attributes:
        nodes, levels: the names that rows refer to by number.
        checks: name, limit and unit of each.
        rows: number of node, of check and of verdict, and the figure.
    """

    nodes: Sequence[str]
    levels: Sequence[str]
    checks: Sequence[tuple[str, str, str]]
    rows: Sequence[tuple[int, int, int, str]]

    def data(self) -> Markup:
        """As JSON that cannot end the element around it."""
        text = json.dumps(self._asdict(), ensure_ascii=True, separators=(",", ":"))
        return Markup(text.replace("<", "\\u003c"))  # noqa: S704 WHY: no tag can begin in it


@dataclass(frozen=True)
class Page:
    """The whole report: ``first`` are the sections before the warnings, ``sections`` those after
    the headline figures, ``verdicts`` the data of the page's own search.
    ``records_at`` is the folder of the records as seen from the page.
    """

    title: str
    subtitle: str
    summary: Sequence[str]
    first: Sequence[Section] = ()
    warnings: Sequence[Warnings] = ()
    notes: Sequence[Warnings] = ()
    headlines: Sequence[Headline] = ()
    facts: Sequence[Fact] = ()
    sections: Sequence[Section] = field(default=())
    verdicts: Verdicts | None = None
    records_at: str = ""

    def every_section(self) -> tuple[Section, ...]:
        """All sections in the order of the page."""
        return (*self.first, *self.sections)

    def figures(self) -> list[Figure]:
        """All plots in the order of the page."""
        parts = [section_part for section in self.every_section() for section_part in section.parts]
        return [figure for section_part in parts for figure in section_part.figures]


class _Cell(NamedTuple):
    text: str
    kind: str


class _Row(NamedTuple):
    """A row, the sentences beneath it, and the links to its records."""

    cells: Sequence[_Cell]
    style: str
    beneath: Sequence[Fact]
    links: Sequence[Link]


class _Table(NamedTuple):
    """A sheet as the page shows it."""

    name: str
    caption: str
    heads: Sequence[_Cell]
    rows: Sequence[_Row]
    hidden: int
    notes: Sequence[str]
    warnings: Sequence[str]
    linked: bool


def render_html(page: Page) -> str:
    """The page as one self-contained HTML document; every text in it is escaped."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        # By name alone jinja2 would leave a template called .j2 unescaped.
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["known"] = _known
    template = environment.get_template("report.html.j2")
    script = (_TEMPLATES / "report.js").read_text(encoding="utf-8")
    text = template.render(
        page=page,
        unknown=UNKNOWN,
        style=_style(),
        script=Markup(script),  # noqa: S704 - our own file, nothing from records
        script_digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        verdict_class=verdict_class,
        nodes_shown=_NODES_SHOWN,
        id=id,
        tables=dict(_tables(page)),
        # Matplotlib escaped the text in its SVG.
        svg={figure.name: Markup(figure.drawing.svg) for figure in page.figures()},  # noqa: S704
    )
    # Control characters (bidirectional overrides) are shown as "?", in drawings too.
    obeyed = [char for char in set(text) - {"\n"} if units.text(char) != char]
    return text.translate(dict.fromkeys(map(ord, obeyed), "?"))


def _tables(page: Page) -> Iterator[tuple[int, _Table]]:
    """The tables of the page by the identity of their sheet, no name twice."""
    name_counts: dict[str, int] = {}
    for section in page.every_section():
        for section_part in section.parts:
            for sheet in section_part.tables():
                name = sheet.name or section.name
                name_counts[name] = name_counts.get(name, 0) + 1
                again = f"-{name_counts[name]}" if name_counts[name] > 1 else ""
                yield id(sheet), _table(sheet, name + again)


def _table(sheet: Sheet, name: str) -> _Table:
    columns = [column for column in sheet.shown() if not column.beneath]
    sentences = [column for column in sheet.shown() if column.beneath]
    texts = [
        [units.text(column.show(row.get(column.key))) for column in columns]
        for row in sheet.rows[:ROWS_SHOWN]
    ]
    kinds = [
        _kind(column, [cells[column_number] for cells in texts])
        for column_number, column in enumerate(columns)
    ]
    rows = [
        _Row(
            [_Cell(text, kind) for text, kind in zip(cells, kinds, strict=True)],
            _row_style(sheet, row),
            [
                Fact(f"{column.header}".capitalize(), units.text(text))
                for column in sentences
                if (text := column.show(row.get(column.key))) != units.UNKNOWN
            ],
            row.get(LINKS) or (),
        )
        for row, cells in zip(sheet.rows[:ROWS_SHOWN], texts, strict=True)
    ]
    heads = [
        _Cell((column.header or "").replace("-\n", "-").replace("\n", " "), kind)
        for column, kind in zip(columns, kinds, strict=True)
    ]
    hidden = max(len(sheet.rows) - ROWS_SHOWN, 0)
    linked = any(row.links for row in rows)
    return _Table(name, sheet.title, heads, rows, hidden, sheet.notes, sheet.warnings, linked)


def verdict_class(verdict: str) -> str:
    """The class of elements of a verdict."""
    return f"v-{verdict.replace(' ', '-')}"


def _row_style(sheet: Sheet, row: Any) -> str:
    if sheet.marks is not None and row.get(sheet.marks):
        return str(row[sheet.marks])
    return "faint" if sheet.faint is not None and not row.get(sheet.faint) else ""


def _kind(column: Column, texts: Sequence[str]) -> Literal["number", "word", "text"]:
    if not column.words:
        return "number"
    return "text" if max((len(text) for text in texts), default=0) > _LONG else "word"


def _known(text: str) -> str:
    """The dash of ``units`` as the word that a page has room for."""
    return UNKNOWN if text == units.UNKNOWN else text


def _style() -> Markup:
    """The stylesheet: the palette's variables for light and dark, then report.css."""
    colours = PALETTE | VERDICTS
    light = "".join(f"--{name}:{pair[0]};" for name, pair in colours.items())
    dark = "".join(f"--{name}:{pair[1]};" for name, pair in colours.items())
    rules = (_TEMPLATES / "report.css").read_text(encoding="utf-8")
    variables = (
        f":root{{color-scheme:light dark;{light}}}\n"
        f"@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}\n"
    )
    return Markup(variables + rules)  # noqa: S704 - our own file, nothing from records
