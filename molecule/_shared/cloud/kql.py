"""As much of Kusto's query language as trueup's queries use, over rows in memory.

A part of the emulated cloud. What it does not know it refuses, so that a query that it answers uses
nothing else: where, extend, project, join kind=leftouter, order by; == != =~ !~ in~ and or; the
functions below. Limits of Resource Graph: three joins, one of them over tables.

A missing value is null; in a column of text it is the empty text, as Kusto has it.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Row = dict[str, Any]
_WORDS = re.compile(
    r"\s+|(?P<text>'[^']*')|(?P<sign>in~|=~|!~|==|!=|[|(),.=\[\]])|(?P<number>\d+)|(?P<name>\w+)"
)
# Columns of every row of Resource Graph; text, or dynamic.
TEXTS = {
    *("id", "name", "type", "tenantId", "kind", "location", "resourceGroup", "subscriptionId"),
    "managedBy",
}
DYNAMICS = {"properties", "tags", "sku", "zones", "plan", "identity", "extendedLocation"}


class QueryError(Exception):
    """A query that Resource Graph, or this part of it, does not take."""


def _words(text: str) -> list[tuple[str, str]]:
    words, at = [], 0
    while at < len(text):
        found = _WORDS.match(text, at)
        if not found:
            raise QueryError(f"ParserFailure at {text[at : at + 20]!r}")
        at = found.end()
        if found.lastgroup:
            words.append((found.lastgroup, found[0]))
    return words


def _json_text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _split(text: Any, by: Any) -> list[str]:
    return str(text or "").split(by)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "tostring": _json_text,
    "tolower": lambda text: _json_text(text).lower(),
    "split": _split,
    "isempty": lambda value: value in (None, ""),
    "isnotempty": lambda value: value not in (None, ""),
}
_TEXT_FUNCTIONS = ("tostring", "tolower")


class Query:
    """One query over tables.

    Args:
        text: the query.
        tables: rows by the table's name in lower case.
    """

    def __init__(self, text: str, tables: Mapping[str, list[Row]]) -> None:
        self.words = _words(text)
        self.at = 0
        self.tables = tables
        self.joins = self.crossing = 0

    def run(self) -> tuple[list[Row], bool]:
        """The rows, and whether the columns have an id, without which nothing is paged."""
        rows, columns, _ = self.pipeline()
        if self.at != len(self.words):
            raise QueryError(f"ParserFailure at {self.words[self.at][1]!r}")
        if self.joins > 3 or self.crossing > 1:
            raise QueryError("DisallowedMaxNumberOfRemoteTables or joins: three, one over tables")
        return [{key: row.get(key) for key in columns} for row in rows], "id" in columns

    # -- words --

    def look(self) -> str:
        return self.words[self.at][1] if self.at < len(self.words) else ""

    def take(self, wanted: str | None = None) -> str:
        word = self.look()
        if not word or (wanted is not None and word != wanted):
            raise QueryError(f"ParserFailure: {word or 'the end'!r} instead of {wanted!r}")
        self.at += 1
        return word

    def name(self) -> str:
        if self.at >= len(self.words) or self.words[self.at][0] != "name":
            raise QueryError(f"ParserFailure: {self.look()!r} is no name")
        return self.take()

    # -- operators --

    def pipeline(self) -> tuple[list[Row], dict[str, str], str]:
        table = self.name().lower()
        if table not in self.tables:
            raise QueryError(f"InvalidTable: {table}")
        rows = self.tables[table]
        columns = dict.fromkeys(TEXTS, "text") | dict.fromkeys(DYNAMICS, "dynamic")
        while self.look() == "|":
            self.take("|")
            operator = self.name()
            if operator == "where":
                keep, _ = self.either(columns)
                rows = [row for row in rows if keep(row)]
            elif operator in ("extend", "project"):
                rows, columns = self.columns_of(rows, columns, only=operator == "project")
            elif operator == "join":
                rows, columns = self.join(rows, columns, table)
            elif operator == "order":
                rows = self.order(rows, columns)
            else:
                raise QueryError(f"this cloud knows no operator {operator}")
        return rows, columns, table

    def order(self, rows: list[Row], columns: dict[str, str]) -> list[Row]:
        self.take("by")
        key = self.known(self.name(), columns)
        down = self.take() == "desc"
        return sorted(rows, key=lambda row: _json_text(row.get(key)), reverse=down)

    def columns_of(
        self, rows: list[Row], columns: dict[str, str], *, only: bool
    ) -> tuple[list[Row], dict[str, str]]:
        made: dict[str, tuple[Any, str]] = {}
        while True:
            name = self.name()
            if self.look() == "=":
                self.take("=")
                made[name] = self.value(columns)
            else:
                self.at -= 1
                made[name] = self.value(columns)
            if self.look() != ",":
                break
            self.take(",")
        kinds = {name: kind for name, (_, kind) in made.items()}
        return (
            [
                ({} if only else dict(row)) | {name: give(row) for name, (give, _) in made.items()}
                for row in rows
            ],
            kinds if only else columns | kinds,
        )

    def join(
        self, rows: list[Row], columns: dict[str, str], table: str
    ) -> tuple[list[Row], dict[str, str]]:
        for word in ("kind", "=", "leftouter", "("):
            self.take(word)
        right, right_columns, right_table = self.pipeline()
        self.take(")")
        self.take("on")
        key = self.known(self.name(), columns)
        self.known(key, right_columns)
        if columns[key] != "text" or right_columns[key] != "text":
            raise QueryError(f"join key {key} is of type dynamic: use an explicit cast")
        self.joins += 1
        self.crossing += table != right_table
        by_key: dict[str, list[Row]] = {}
        for row in right:
            by_key.setdefault(row[key], []).append(row)
        renamed = {name: name if name not in columns else f"{name}1" for name in right_columns}
        nothing = {name: "" if kind == "text" else None for name, kind in right_columns.items()}
        joined = [
            row | {renamed[name]: value for name, value in other.items()}
            for row in rows
            for other in by_key.get(row[key], [nothing])
        ]
        return joined, columns | {renamed[name]: kind for name, kind in right_columns.items()}

    # -- expressions: what gives the value of a row, and its type --

    def either(self, columns: dict[str, str]) -> tuple[Any, str]:
        return self.joined("or", any, self.both, columns)

    def both(self, columns: dict[str, str]) -> tuple[Any, str]:
        return self.joined("and", all, self.compared, columns)

    def joined(
        self,
        word: str,
        holds: Callable[[Iterable[Any]], bool],
        part: Callable[[dict[str, str]], tuple[Any, str]],
        columns: dict[str, str],
    ) -> tuple[Any, str]:
        """Parts with the word between them; one alone is what it is."""
        left, kind = part(columns)
        while self.look() == word:
            self.take()
            sides = (left, part(columns)[0])
            left, kind = (lambda row, sides=sides: holds(side(row) for side in sides)), "bool"
        return left, kind

    def compared(self, columns: dict[str, str]) -> tuple[Any, str]:
        left, kind = self.value(columns)
        sign = self.look()
        if sign == "in~":
            self.take()
            self.take("(")
            options = []
            while True:
                options.append(self.value(columns)[0]({}).lower())
                if self.take() == ")":
                    return (lambda row: _json_text(left(row)).lower() in options), "bool"
        if sign not in ("==", "!=", "=~", "!~"):
            return left, kind
        self.take()
        right, _ = self.value(columns)
        fold: Callable[[str], str] = str.lower if "~" in sign else str
        wanted = sign[0] != "!"

        def holds(row: Row) -> bool:
            return (fold(_json_text(left(row))) == fold(_json_text(right(row)))) is wanted

        return holds, "bool"

    def known(self, name: str, columns: dict[str, str]) -> str:
        if name not in columns:
            raise QueryError(f"InvalidQuery: column {name!r} does not exist")
        return name

    def value(self, columns: dict[str, str]) -> tuple[Any, str]:
        if self.at < len(self.words) and self.words[self.at][0] == "text":
            text = self.take()[1:-1]
            return (lambda _: text), "text"
        name = self.name()
        if self.look() == "(":
            give, kind = self.called(name, columns)
        else:
            self.known(name, columns)
            give, kind = (lambda row: row.get(name)), columns[name]
        while self.look() in (".", "["):
            give, kind = self.within(give, kind)
        return give, kind

    def called(self, name: str, columns: dict[str, str]) -> tuple[Any, str]:
        if name not in FUNCTIONS:
            raise QueryError(f"this cloud knows no function {name}")
        self.take("(")
        given = [self.value(columns)[0]]
        while self.take() == ",":
            given.append(self.value(columns)[0])
        function = FUNCTIONS[name]
        kind = "text" if name in _TEXT_FUNCTIONS else "dynamic" if name == "split" else "bool"
        return (lambda row: function(*(give(row) for give in given))), kind

    def within(self, give: Any, kind: str) -> tuple[Any, str]:
        if kind != "dynamic":
            raise QueryError(f"a path into a value of type {kind}")
        if self.take() == "[":
            index = int(self.take())
            self.take("]")
            return (lambda row: (give(row) or [None])[index]), "dynamic"
        name = self.name()
        return (lambda row: value.get(name) if isinstance(value := give(row), dict) else None), (
            "dynamic"
        )
