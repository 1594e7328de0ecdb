"""A sheet, which every format renders. Rows hold base units; a column says how a figure is written
for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import units

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..rooms import Headline


class Column(NamedTuple):
    """One column.

    Attributes:
        key: its name in the rows, and in CSV and JSON, where figures stay in base units and
            unrounded.
        header: its heading for people, the unit included; None keeps it out of tables and Markdown.
        show: how a value is written for people.
        words: text (left, may wrap) rather than a figure (right, never wraps).
        data: whether CSV and JSON hold it; a column that repeats another one for people is not.
        beneath: whether a page sets it beneath the row, over the whole width: sentences.
    """

    key: str
    header: str | None = None
    show: Callable[[Any], str] = units.text
    words: bool = False
    data: bool = True
    beneath: bool = False

    def texts(self, values: Sequence[Any]) -> list[str]:
        """How the values of its rows are written for people."""
        each = list(values)
        # Most columns repeat their values. Equal values of other types may be written otherwise.
        if set(map(type, each)) <= {str, int, type(None)}:
            texts = {value: self.show(value) for value in set(each)}
            return [texts[value] for value in each]
        return list(map(self.show, each))

    def is_known(self, values: Sequence[Any]) -> bool:
        """Whether people can read anything in it."""
        return any(self.show(value) not in {units.UNKNOWN, ""} for value in values)


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

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[row] for row in range(*index.indices(len(self)))]
        return {key: column[index] for key, column in self._columns.items()}

    def values(self, key: str) -> Sequence[Any]:
        """One column; None in each row where there is none of that name."""
        return self._columns.get(key) or [None] * len(self)


@dataclass(frozen=True)
class Sheet:
    """One table.

    Attributes:
        faint: key of a boolean column: rows where it is false are shown, but do not count.
        marks: key of a row's mark: "best", "bad" or "" (a page shows it beside the row).
        name: the table's name in a page's anchors and file names, such as "cost".
        tone: of the title: "good", "doubtful", "bad" or "", a colour on a terminal.
        lead: sentences between title and table.
        notes: sentences below the table. warnings: sentences that also go to standard error.
        facts: JSON's entries on the table as a whole.
    """

    title: str
    columns: Sequence[Column]
    rows: Sequence[Mapping[str, Any]]
    tone: str = ""
    lead: Sequence[str] = ()
    notes: Sequence[str] = ()
    warnings: Sequence[str] = ()
    faint: str | None = None
    marks: str | None = None
    name: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)

    def values(self, key: str) -> Sequence[Any]:
        """The rows' values of a key."""
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
            if column.header is not None and column.is_known(self.values(column.key))
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


def figure_text(headline: Headline) -> str:
    """ "bus bandwidth 308.00 GB/s at 1 GiB, below the judged size (16 GiB)"."""
    measure = headline.measure
    unit_name = measure.shown or units.DISPLAYED.get(measure.unit, "")
    unit = "" if unit_name == "1" else unit_name
    value = units.in_unit(headline.value, unit_name)
    return f"{measure.label} {value} {unit}".rstrip() + place_text(headline)


def place_text(headline: Headline) -> str:
    """Where a figure was measured: " at 16 GiB", ", gpu3, slowest of 8"; "" for the whole case."""
    words = "" if headline.message_bytes is None else f" at {units.size_of(headline.message_bytes)}"
    if headline.judged_bytes is not None:
        words += f", below the judged size ({units.size_of(headline.judged_bytes)})"
    if headline.device is not None:
        words += f", {headline.device}"
        worst = "slowest" if headline.measure.unit != "1" else "worst"
        words += f", {worst} of {headline.devices}" if headline.devices > 1 else ""
    return words
