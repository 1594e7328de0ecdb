"""The report as one HTML file: what a page holds (plain dataclasses) and how it is written.

Everything arrives as finished text; this module escapes it, sets it and writes the same tables as
CSV.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from . import units
from .plots import PALETTE

if TYPE_CHECKING:
    from .plots import Drawing

__all__ = [
    "UNKNOWN",
    "Column",
    "Fact",
    "Figure",
    "Headline",
    "Page",
    "Part",
    "Row",
    "Section",
    "Table",
    "Warnings",
    "render_csv",
    "render_html",
]

UNKNOWN: Final = "unknown"
_TEMPLATES: Final = Path(__file__).resolve().parent / "templates"


@dataclass(frozen=True)
class Column:
    """A column's title and unit; ``kind`` sets how its cells are aligned and whether they may
    wrap.
    """

    title: str
    unit: str = ""
    kind: Literal["number", "word", "text", "code"] = "word"


@dataclass(frozen=True)
class Row:
    """The cells of one row; ``mark`` is "best" for the winner, "bad" for what failed, else
    empty.
    """

    cells: tuple[str, ...]
    mark: Literal["", "best", "bad"] = ""


@dataclass(frozen=True)
class Table:
    """A table, whole: the page shows its first ``shown`` rows, the CSV file all of them."""

    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    shown: int = 2000

    @property
    def hidden(self) -> int:
        """How many rows stand in the CSV file only."""
        return max(len(self.rows) - self.shown, 0)


@dataclass(frozen=True)
class Figure:
    """A plot with what it shows in words: for the caption, and for those who cannot see it."""

    name: str
    caption: str
    drawing: Drawing


@dataclass(frozen=True)
class Part:
    """One thing under a section. ``beside`` are narrow tables that stand next to the plots where
    the page is wide.
    """

    title: str = ""
    paragraphs: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    beside: tuple[Table, ...] = ()
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    terms: tuple[Fact, ...] = ()


@dataclass(frozen=True)
class Section:
    """A heading of the page; ``name`` is its anchor."""

    name: str
    title: str
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Headline:
    """One figure that the page opens with."""

    label: str
    value: str
    unit: str
    detail: str


@dataclass(frozen=True)
class Fact:
    """A name and what it is."""

    label: str
    value: str


@dataclass(frozen=True)
class Warnings:
    """Warnings or notes of one kind, under a line that says which."""

    title: str
    lines: tuple[Fact, ...] = ()
    more: str = ""


@dataclass(frozen=True)
class Page:
    """The whole report: ``warnings`` stand before the figures, ``notes`` after them."""

    title: str
    subtitle: str
    summary: tuple[str, ...]
    warnings: tuple[Warnings, ...] = ()
    notes: tuple[Warnings, ...] = ()
    headlines: tuple[Headline, ...] = ()
    headline_note: str = ""
    facts: tuple[Fact, ...] = ()
    sections: tuple[Section, ...] = field(default=())

    def tables(self) -> list[Table]:
        """All tables in the order of the page."""
        parts = [part for section in self.sections for part in section.parts]
        return [listing for part in parts for listing in (*part.beside, *part.tables)]

    def figures(self) -> list[Figure]:
        """All plots in the order of the page."""
        parts = [part for section in self.sections for part in section.parts]
        return [figure for part in parts for figure in part.figures]


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
    return template.render(
        page=page,
        unknown=UNKNOWN,
        style=_style(),
        # Matplotlib escaped the text in its SVG.
        svg={figure.name: Markup(figure.drawing.svg) for figure in page.figures()},  # noqa: S704
    )


def render_csv(table: Table) -> str:
    """The table's cells as the page shows them, all rows; the unit stands in the header in square
    brackets.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(f"{c.title} [{c.unit}]" if c.unit else c.title for c in table.columns)
    writer.writerows([_known(cell) for cell in row.cells] for row in table.rows)
    return text.getvalue()


def _known(text: str) -> str:
    """The dash of ``units`` as the word that a page has room for."""
    return UNKNOWN if text == units.UNKNOWN else text


def _style() -> Markup:
    """The stylesheet: the palette's variables for light and dark, then report.css."""
    light = "".join(f"--{name}:{pair[0]};" for name, pair in PALETTE.items())
    dark = "".join(f"--{name}:{pair[1]};" for name, pair in PALETTE.items())
    rules = (_TEMPLATES / "report.css").read_text(encoding="utf-8")
    variables = (
        f":root{{color-scheme:light dark;{light}}}\n"
        f"@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}\n"
    )
    return Markup(variables + rules)  # noqa: S704 - our own file, nothing from records
