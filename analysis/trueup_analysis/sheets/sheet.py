"""A sheet: what every format renders. Rows hold base units; a column says how a figure is written
for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from .. import units

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        key: its name in the rows, and in CSV and JSON, where figures stay in base units and
            unrounded.
        header: what people read above it, the unit included; None keeps it out of tables and
            Markdown.
        show: how a value is written for people.
        words: text (left, may wrap) rather than a figure (right, never wraps).
        data: whether CSV and JSON hold it; what only repeats another column for the eye is not.
    """

    key: str
    header: str | None = None
    show: Callable[[Any], str] = units.text
    words: bool = False
    data: bool = True


def unshown(*keys: str) -> list[Column]:
    """Columns of CSV and JSON alone."""
    return [Column(key) for key in keys]


def worded(*keys: str) -> list[Column]:
    """Columns of words under their own names."""
    return [Column(key, key, words=True) for key in keys]


class Columns(Sequence[Mapping[str, Any]]):
    """Rows that are kept column by column: a hundred thousand need a tenth of the memory."""

    def __init__(self, columns: Mapping[str, Sequence[Any]]) -> None:
        self._columns = columns

    def __len__(self) -> int:
        return len(next(iter(self._columns.values())))

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        return {key: column[place] for key, column in self._columns.items()}

    def values(self, key: str) -> Sequence[Any]:
        """One column; None in each row where there is none of that name."""
        return self._columns.get(key) or [None] * len(self)


@dataclass(frozen=True)
class Sheet:
    """One table.

    Attributes:
        faint: key of a boolean column: rows where it is false are shown, but do not count.
        marks: key of what a row is marked as: "best", "bad" or "" (a page shows it beside the row).
        name: what the table is called in a page's anchors and file names, such as "cost".
        notes: sentences below the table. warnings: sentences that also go to standard error.
        facts: what JSON says of the table as a whole.
    """

    title: str
    columns: Sequence[Column]
    rows: Sequence[Mapping[str, Any]]
    notes: Sequence[str] = ()
    warnings: Sequence[str] = ()
    faint: str | None = None
    marks: str | None = None
    name: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)

    def values(self, key: str) -> Sequence[Any]:
        """What the rows hold under a key."""
        if isinstance(self.rows, Columns):
            return self.rows.values(key)
        return [row.get(key) for row in self.rows]

    def data(self) -> list[str]:
        """The keys that CSV and JSON hold."""
        return [column.key for column in self.columns if column.data]

    def shown(self) -> list[Column]:
        """The columns for people: those with a header, less those in which nothing is known."""
        return [
            column
            for column in self.columns
            if column.header is not None
            and any(
                column.show(value) not in {units.UNKNOWN, ""} for value in self.values(column.key)
            )
        ]


def short_size(value: Any) -> str:
    """A VM size without the word that all of them begin with."""
    return units.text(value).removeprefix("Standard_")


def times(value: Any) -> str:
    """A ratio: "2.4x"."""
    return units.UNKNOWN if units.is_missing(value) else f"{units.fixed(value, 1)}x"


two, three, four = (partial(units.fixed, digits=digits) for digits in (2, 3, 4))
flops = partial(units.measure, unit="flop/s")


def price(value: Any) -> str:
    """US$, or that nobody knows."""
    return "unknown" if units.is_missing(value) else units.money(value)
