"""A page of the report, read by the standard library's parser."""

from __future__ import annotations

import html.parser
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from trueup_analysis import catalog

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["Seen", "advice", "look"]

_VOID = {"meta", "link", "br", "hr", "img", "input", "path", "use"}


@dataclass
class Seen(html.parser.HTMLParser):
    """What a page consists of.

    Attributes:
        cards: the words of each finding.
        scripts: the text of each script, data included.
        tables: the cells of each by its id, "table-" left out.
        sections: the text of each by the name of its heading.
    """

    ids: list[str] = field(default_factory=list)
    links: list[tuple[str, str]] = field(default_factory=list)
    headings: list[tuple[int, str]] = field(default_factory=list)
    tags: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    tables: dict[str, list[list[str]]] = field(default_factory=dict)
    sections: dict[str, str] = field(default_factory=dict)
    cards: list[str] = field(default_factory=list)
    scripts: list[str] = field(default_factory=list)
    text: str = ""
    open_tags: list[str] = field(default_factory=list)
    _table: str = ""
    _section: str = ""

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.tags.append((tag, values))
        if tag not in _VOID:
            self.open_tags.append(tag)
        self.ids += [values["id"]] if values.get("id") else []
        self.links += [
            (name, value or "")
            for name, value in attrs
            if name in ("href", "src", "xlink:href", "action")
        ]
        if re.fullmatch("h[1-6]", tag):
            self.headings.append((int(tag[1]), ""))
        if tag == "section":
            self._section = str(values["aria-labelledby"])
            self.sections[self._section] = ""
        if tag == "article":
            self.cards.append("")
        if tag == "table":
            self._table = str(values["id"]).removeprefix("table-")
            self.tables[self._table] = []
        if tag == "tr":
            self.tables[self._table].append([])
        if tag in ("th", "td"):
            self.tables[self._table][-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.open_tags.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag not in _VOID:
            assert self.open_tags.pop() == tag
        if tag == "section":
            self._section = ""

    def handle_data(self, data: str) -> None:
        if "style" in self.open_tags:
            return
        if "script" in self.open_tags:
            self.scripts.append(data)
            return
        self.text += data
        if "article" in self.open_tags:
            self.cards[-1] = " ".join(f"{self.cards[-1]} {data}".split())
        if self._section:
            self.sections[self._section] += data
        if re.fullmatch("h[1-6]", self.open_tags[-1] if self.open_tags else ""):
            level, so_far = self.headings[-1]
            self.headings[-1] = (level, so_far + data)
        if {"th", "td"} & set(self.open_tags) and self.tables[self._table][-1]:
            self.tables[self._table][-1][-1] += data

    @property
    def words(self) -> str:
        """All text with single blanks."""
        return " ".join(self.text.split())

    def section(self, name: str) -> str:
        """The text of a section with single blanks."""
        return " ".join(self.sections[name].split())


def look(path: Path) -> Seen:
    """Read a page."""
    seen = Seen()
    seen.feed(path.read_text(encoding="utf-8"))
    seen.close()
    return seen


def advice(call_trueup: Callable[..., Any], folder: Path, work: str) -> str:
    """The section of a report that begins with the advice for ``work``, a file's text. The report
    is in ``folder / "report"``."""
    (folder / "work.yml").write_text(work, "utf-8")
    record = catalog.built_in().parent / "tests" / "data" / "records" / "valid.json"
    asked = ("report", record, "--advise", folder / "work.yml", "--output", folder / "report")
    ended = call_trueup(*asked)
    assert (ended.status, ended.err) == (0, "")
    page = (folder / "report" / "index.html").read_text(encoding="utf-8")
    begin = page.index('<h2 id="advice"')
    return page[begin : page.index("</section>", begin)]
