"""Loaded records as plain objects, one ``Case`` each.

Neither pandas nor Arrow is imported here: ``trueup read`` judges figures without a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import cached_property
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

from trueup_node.cases import Case, Figure

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    import pandas as pd

    from .load import Loaded

_COLUMNS: Final = (
    *("run_id", "benchmark", "case", "outcome", "reason", "vm_size", "region", "offer"),
    *("started_at", "raw_path", "source", "provenance", "node_count", "ranks", "cores", "gpus"),
    *("parameters", "software", "system", "command"),
)
# Columns that have another name here.
_RENAMED: Final = {"threads_per_rank": "threads", "duration_seconds": "duration"}


def read_cases(
    loaded: Loaded,
    *,
    records: Collection[int] | None = None,
    metrics: Collection[str] | None = None,
    as_size: str | None = None,
) -> list[Case]:
    """All records in the order in which they were read, or those of the given numbers.

    Args:
        metrics: only the figures of these names, which is quicker; None for all.
        as_size: the size that every record is taken for, instead of its own.
    """
    chosen, numbers = loaded, list(range(len(loaded.records)))
    if records is not None:
        numbers = sorted(records)
        chosen = loaded.only(numbers)
    columns = {name: chosen.values(name) for name in _COLUMNS}
    columns |= {ours: chosen.values(theirs) for theirs, ours in _RENAMED.items()}
    columns["nodes"] = _nodes(chosen.values("nodes"), columns["node_count"])
    columns["record"] = numbers
    columns["figures"] = figures_of(chosen, metrics)
    if as_size is not None:
        columns["vm_size"] = [as_size] * len(numbers)
    return list(map(Case, *(columns[field.name] for field in fields(Case))))


class FigureTable:
    """A frame of figures, of which a few rows at a time are wanted as objects: pandas takes half a
    millisecond for a record's."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self.frame = frame
        self._value = frame["value"].to_numpy()

    def rows(self, start: int, stop: int) -> list[Figure]:
        """The figures from one row to another."""
        return list(map(Figure, *(self.column(name, start, stop) for name in Figure._fields)))

    def column(self, name: str, start: int, stop: int) -> list[Any]:
        """A field of these figures."""
        if name == "value":
            values: list[Any] = self._value[start:stop].tolist()
            return values
        codes, each = self._codes[name]
        return [each[code] for code in codes[start:stop].tolist()]

    @cached_property
    def _codes(self) -> dict[str, tuple[Any, list[Any]]]:
        """By column the code of each row, and the value of each code; the last is None."""
        columns = {
            name: self.frame[name].astype("category").cat
            for name in Figure._fields
            if name != "value"
        }
        return {
            name: (column.codes.to_numpy(), [*column.categories.tolist(), None])
            for name, column in columns.items()
        }


class FiguresOf(Sequence[Figure]):
    """Those of one record, made when the first of them is asked for."""

    __slots__ = ("_made", "of", "start", "stop")

    def __init__(self, of: FigureTable, start: int, stop: int) -> None:
        self.of, self.start, self.stop = of, start, stop
        self._made: list[Figure] | None = None

    def _rows(self) -> list[Figure]:
        if self._made is None:
            self._made = self.of.rows(self.start, self.stop)
        return self._made

    def __len__(self) -> int:
        return self.stop - self.start

    def __iter__(self) -> Iterator[Figure]:
        return iter(self._rows())

    def __getitem__(self, index: Any) -> Any:
        return self._rows()[index]


def columns_of(figures: Sequence[Figure], *names: str) -> list[list[Any]]:
    """Some fields of figures, of which a record's have no object yet."""
    if isinstance(figures, FiguresOf):
        return [figures.of.column(name, figures.start, figures.stop) for name in names]
    return [[getattr(figure, name) for figure in figures] for name in names]


def as_figures(rows: pd.DataFrame) -> list[Figure]:
    """Some figures as plain values."""
    return list(map(Figure, *(plain(rows[name]) for name in Figure._fields)))


def plain(column: pd.Series) -> list[Any]:
    """A column as plain values, None where unknown; equal texts are one object."""
    # pandas-stubs do not know that None may stand for what is missing.
    values: list[Any] = column.to_numpy(dtype=object, na_value=None).tolist()  # type: ignore[call-overload]
    return values


def figures_of(loaded: Loaded, metrics: Collection[str] | None = None) -> list[Sequence[Figure]]:
    """The figures of each record, or those of them that have some names."""
    figures = loaded.figures
    if metrics is not None:
        figures = figures[figures["name"].isin(metrics)]
    starts = figures["record"].searchsorted(range(len(loaded.records) + 1)).tolist()
    return list(map(FiguresOf, repeat(FigureTable(figures)), starts, starts[1:]))


def _nodes(nodes: Sequence[str | None], counts: Sequence[int | None]) -> list[tuple[str, ...]]:
    """The nodes of each record; equal ones are one object."""
    names_by_nodes = {each: names(*each) for each in set(zip(nodes, counts, strict=True))}
    return [names_by_nodes[each] for each in zip(nodes, counts, strict=True)]


def names(nodes: str | None, count: int | None) -> tuple[str, ...]:
    """The nodes of a record; a single one may have a + in its name."""
    if nodes is None:
        return ("unknown",)
    return tuple(nodes.split("+")) if count is not None and count > 1 else (nodes,)
