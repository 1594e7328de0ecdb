"""A reader of a publication, and its yield: rows, and how many results were skipped and why."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from trueup_node.errors import BadInput

from .. import names
from ..rows import Row, of_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ..tree import Tree


@dataclass
class Reading:
    """The rows of a publication.

    Attributes:
        skipped: results that are no rows, counted by reason.
    """

    tree: Tree
    source: str
    rows: list[Row] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)

    def hardware(self, name: str) -> str | None:
        """A GPU that Azure rents; any other is counted as skipped."""
        gpu = names.gpu(name)
        if gpu is None:
            self.skipped[
                f"{name.strip() or 'no accelerator'}: no GPU that Azure rents has this name"
            ] += 1
        return gpu

    def add(self, where: str, figures: Mapping[str, tuple[float, str]], **columns: Any) -> None:
        """A result: its figures with units by metric, and the columns that they share.

        Raises:
            BadInput: a value is not of its column's kind.
        """
        defaults = {
            "source": self.source,
            "repository": self.tree.repository,
            "commit": self.tree.commit,
            "date": self.tree.date,
            "publisher": self.tree.repository.partition("/")[0],
            "engine": "",
            "version": "",
            "scenario": "",
            "precision": "",
            "parallelism": "",
            "tokens_in": 0.0,
            "tokens_out": 0.0,
            "concurrency": 0.0,
        }
        for metric, (value, unit) in figures.items():
            row = {**defaults, **columns, "metric": metric, "value": value, "unit": unit}
            self.rows.append(of_text(row, where))


class Reader(NamedTuple):
    """A publication that trueup can read.

    Attributes:
        name: as it is asked for; the row's source.
        repository: where it is published, if the user says nothing else.
        title: its content, for the help.
        licence: of the repository.
        read: fills a reading.
    """

    name: str
    repository: str
    title: str
    licence: str
    read: Callable[[Reading], None]


def documents(tree: Tree, pattern: str) -> Iterator[tuple[str, Any]]:
    """The JSON files that match.

    Raises:
        BadInput: one is not JSON.
    """
    for name, text in tree.texts(tree.matching(pattern)):
        yield name, _document(f"{name} in {tree.path}", text)


def _document(where: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{where} is not JSON: {str(error)[:80]}") from error


def tables(text: str) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Each table of a Markdown page as rows by column, and the headings above it ("A > B")."""
    headings: dict[int, str] = {}
    header: list[str] = []
    rows: list[dict[str, str]] = []
    for line in [*text.splitlines(), ""]:
        cells = _cells(line)
        if cells is None:
            if rows:
                yield " > ".join(headings[level] for level in sorted(headings)), rows
            header, rows = [], []
            if match := re.match(r"(#{1,6})\s+(.*)", line):
                level = len(match[1])
                headings = {at: words for at, words in headings.items() if at < level}
                headings[level] = match[2].strip()
        elif not header:
            header = cells
        elif not all(re.fullmatch(r":?-*:?", cell) for cell in cells):
            rows.append(dict(zip(header, cells, strict=False)))


def _cells(line: str) -> list[str] | None:
    stripped = line.strip()
    if not stripped.startswith("|"):
        return None
    return [cell.strip(" *`") for cell in stripped.strip("|").split("|")]


def number(text: str) -> float | None:
    """The first number of a cell, such as "1,234 (5)"; None where it has none."""
    match = re.match(r"\s*([\d,]+(?:\.\d+)?)", text)
    return float(match[1].replace(",", "")) if match and match[1].strip(",") else None
