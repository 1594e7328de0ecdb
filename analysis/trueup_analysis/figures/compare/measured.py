"""Figures of records as columns: by work, node and device, and by run."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import numpy as np
from trueup_node.cases import TYPICAL, Figure

from ... import packed
from ...cases import FiguresOf
from ...rooms import view_of
from ..groups import apart_of, masked
from .significance import range_in_deviations

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    import pandas as pd
    from numpy.typing import NDArray
    from trueup_node.cases import Case

    from ...packed import Column

    Floats = NDArray[np.float64]
    Numbers = NDArray[np.int64]

_REPEATS: Final = 3
# Codes of several columns in one number, before they are numbered anew.
_MOST_MIXED: Final = 2**40
# Bits of a place's number that name its device.
_DEVICE_BITS: Final = 20
_MOST_SHORT: Final = 2**16
KIND: Final = [name for name in packed.FIGURES if name != "value"]


class Work(NamedTuple):
    """What the paired records of two sides have in common.

    Attributes:
        case: its name without those of nodes.
        apart: the parameters of the view that tell work apart.
        machine: the VM size; "" where the sides are of other sizes on purpose.
    """

    benchmark: str
    case: str
    apart: tuple[tuple[str, str], ...]
    node_count: int | None
    layout: str
    machine: str


class FigureKey(NamedTuple):
    """One figure of a work."""

    work: Work
    metric: str
    unit: str
    direction: str
    message_bytes: int | None


class Place(NamedTuple):
    """Where a figure was measured: a node ("a+b" of two), and one of its devices."""

    node: str
    device: str | None


_Key = TypeVar("_Key")


class _Numbered(dict[_Key, int]):
    """Numbers of things, in the order in which they appear."""

    def __init__(self) -> None:
        super().__init__()
        self.all: list[_Key] = []

    def __missing__(self, key: _Key) -> int:
        self[key] = len(self.all)
        self.all.append(key)
        return self[key]


class Keys:
    """The numbers of works, figures, nodes and devices."""

    def __init__(self) -> None:
        self._works: _Numbered[Work] = _Numbered()
        self._figures: _Numbered[FigureKey] = _Numbered()
        self._nodes: _Numbered[str] = _Numbered()
        self._devices: _Numbered[str | None] = _Numbered()
        self.work, self.works = self._works.__getitem__, self._works.all
        self.figure, self.figures = self._figures.__getitem__, self._figures.all
        self.node, self.device = self._nodes.__getitem__, self._devices.__getitem__

    def number(self, place: Place) -> int:
        """The number of a place."""
        return (self.node(place.node) << _DEVICE_BITS) + self.device(place.device)

    def place(self, number: int) -> Place:
        """The place of a number."""
        device = number & ((1 << _DEVICE_BITS) - 1)
        return Place(self._nodes.all[number >> _DEVICE_BITS], self._devices.all[device])

    def names(self, places: Numbers) -> list[str]:
        """The nodes of some places, each once, in their order."""
        numbers = dict.fromkeys(nodes_of(places).tolist())
        return [self._nodes.all[number] for number in numbers]

    def in_order(self, places: Numbers) -> tuple[Numbers, Keys]:
        """The numbers of some places by which nodes and devices are in alphabetic order, and the
        keys of these."""
        keys = Keys()
        numbers = []
        for all_names, number in (
            (self._nodes.all, keys.node),
            (self._devices.all, keys.device),
        ):
            for name in sorted(all_names, key=lambda name: (name is not None, name or "")):
                number(name)  # type: ignore[arg-type]
            numbers.append(np.array([number(name) for name in all_names], np.int64))  # type: ignore[arg-type]
        node = numbers[0][nodes_of(places)] << _DEVICE_BITS
        return node + numbers[1][device_of(places)], keys


def nodes_of(places: Numbers) -> Numbers:
    """The numbers of the nodes of some places."""
    return places >> _DEVICE_BITS


def device_of(places: Numbers) -> Numbers:
    """The numbers of the devices of some places."""
    return places & ((1 << _DEVICE_BITS) - 1)


class Table(NamedTuple):
    """Measurements, one a row: the typical value of a figure in one record.

    Attributes:
        figure, place: numbers of ``Keys``.
        run: the number of the run.
        value: in base units.
        spread: the standard deviation of its repeats as a logarithm, NaN where it does not say
            the least and the greatest of three or more.
        repeats: how many these are.
    """

    figure: NDArray[np.int32]
    place: Numbers
    run: NDArray[np.int32]
    value: Floats
    spread: Floats
    repeats: NDArray[np.int32]

    def only(self, rows: NDArray[np.bool_] | Numbers | slice) -> Table:
        """Some rows."""
        columns: list[Any] = [column[rows] for column in self]
        return Table(*columns)


def joined(tables: list[Table]) -> Table:
    """The rows of several tables. The list is emptied: a year's rows fit into memory once."""
    columns = [list(column) for column in zip(*tables, strict=True)]
    tables.clear()
    return Table(*(np.concatenate(columns.pop(0)) for _ in range(len(columns))))


class Samples(NamedTuple):
    """The measurements of one figure, by place.

    Attributes:
        places: their numbers, ascending.
        values: the median of each.
        counts: how many measurements each has.
        squares: of each the sum of squared deviations of the logarithms from their mean.
        spreads, spread_counts, freedoms: of each the sum of the squared spreads, how many these
            are, and the sum of their degrees of freedom.
        logs: the logarithms of all measurements, place after place.
        least: the least of all measurements.
    """

    places: Numbers
    values: Floats
    counts: Numbers
    squares: Floats
    spreads: Floats
    spread_counts: Numbers
    freedoms: Numbers
    logs: Floats
    least: float


# Kinds of figures, without values: those of one kind differ in their values alone.
Kinds = _Numbered[Figure]


class Rows(NamedTuple):
    """Rows of figures.

    Attributes:
        case: the number of the case of each.
        place: the place of each in the order of records.
        value: in base units.
        kind: the number of the kind of each in ``kinds``.
    """

    case: NDArray[np.integer[Any]]
    place: NDArray[np.integer[Any]]
    value: Floats
    kind: Numbers
    kinds: Kinds


def work_of(case: Case, ignored: Collection[str], *, one_machine: bool) -> Work:
    """The work of a record.

    Args:
        ignored: parameters that may differ between the sides.
        one_machine: whether the VM size is part of it.
    """
    apart = apart_of(case, view_of(case.benchmark))
    return Work(
        case.benchmark,
        masked(case),
        tuple(pair for pair in apart if pair[0] not in ignored),
        case.node_count,
        case.short_layout,
        case.machine if one_machine else "",
    )


def rows_of(cases: Sequence[Case]) -> Rows:
    """The figures of some cases."""
    ranges = [case.figures for case in cases]
    tables = {id(each.of): each.of for each in ranges if isinstance(each, FiguresOf)}
    if len(tables) != 1 or not all(isinstance(each, FiguresOf) for each in ranges):
        frame = packed.from_columns({}, ranges).figures
        return _rows(frame["record"].to_numpy(np.int64), np.arange(len(frame)), frame)
    (table,) = tables.values()
    starts = np.array([each.start for each in ranges if isinstance(each, FiguresOf)])
    lengths = np.array([len(each) for each in ranges])
    ends = np.cumsum(lengths)
    place = np.arange(ends[-1]) + np.repeat(starts - (ends - lengths), lengths)
    frame = table.frame
    if len(place) != len(frame) or (place != np.arange(len(frame))).any():
        frame = frame.take(place)
    return _rows(np.repeat(np.arange(len(cases)), lengths), place, frame)


def _rows(case: Numbers, place: Numbers, frame: pd.DataFrame) -> Rows:
    kinds = Kinds()
    columns = {name: packed.as_column(frame[name]) for name in KIND}
    return Rows(case, place, frame["value"].to_numpy(), kinds_of(columns, kinds), kinds)


class Records(NamedTuple):
    """The records whose figures are tabulated, by their numbers.

    Attributes:
        is_ok: whether the figures of each count.
        work, node: numbers of ``Keys``. run: the number of the run.
    """

    is_ok: NDArray[np.bool_]
    work: Numbers
    node: Numbers
    run: Numbers


def records_of(
    cases: Sequence[Case],
    keys: Keys,
    *,
    ignored: Collection[str] = (),
    one_machine: bool = True,
    runs: Mapping[str, int] | None = None,
) -> Records:
    """The records of some cases.

    Args:
        runs: the numbers of the runs that count; without it all are of run 0.
    """
    is_ok = [case.outcome == "ok" and (runs is None or case.run_id in runs) for case in cases]
    works = [
        keys.work(work_of(case, ignored, one_machine=one_machine)) if is_meant else 0
        for case, is_meant in zip(cases, is_ok, strict=True)
    ]
    nodes = [
        keys.node(case.node) if is_meant else 0 for case, is_meant in zip(cases, is_ok, strict=True)
    ]
    numbers = [0 if runs is None else runs.get(case.run_id, 0) for case in cases]
    columns = (np.array(column, np.int64) for column in (works, nodes, numbers))
    return Records(np.array(is_ok, np.bool_), *columns)


def table_of(records: Records, rows: Rows, keys: Keys) -> Table:
    """The measurements of ok records; figures without a better direction are none.

    Args:
        rows: of these records, in any order.
    """
    kinds = rows.kinds.all
    is_judged = np.array([kind.direction != "none" for kind in kinds], np.bool_)
    chosen = np.flatnonzero(is_judged[rows.kind] & records.is_ok[rows.case])
    kind, record = rows.kind[chosen], rows.case[chosen]
    slots: dict[tuple[object, ...], int] = {}
    slot_of_kind = np.array(
        [slots.setdefault((each.name, *each[2:6]), len(slots)) for each in kinds], np.int64
    )
    sample = slot_of_kind[kind] * max(1, len(records.is_ok)) + record
    # Of each record and slot the row that stands for it comes first.
    rank = sample * (len(TYPICAL) + 1) + _ranks(kinds)[kind]
    if (np.diff(rank) <= 0).any():
        order = np.argsort(rank, kind="stable")
        if (np.diff(rank[order]) == 0).any():
            order = np.lexsort((rows.place[chosen], rank))
        chosen, kind, record, sample = chosen[order], kind[order], record[order], sample[order]
    value = rows.value[chosen]
    is_first = np.append(True, np.diff(sample) != 0)[: len(sample)]
    first = np.flatnonzero(is_first)
    least, most = (
        _of_statistic(name, kinds, kind, value, np.cumsum(is_first) - 1, len(first))
        for name in ("min", "max")
    )
    kind, record = kind[first], record[first]
    repeats = np.array([each.n or 0 for each in kinds], np.int64)[kind]
    device = np.array([keys.device(each.device) for each in kinds], np.int64)
    return Table(
        _figures(records.work[record], kind, kinds, keys).astype(np.int32),
        (records.node[record] << _DEVICE_BITS) + device[kind],
        records.run[record].astype(np.int32),
        value[first],
        _spread(least, most, repeats),
        repeats.astype(np.int32),
    )


def _ranks(kinds: Sequence[Figure]) -> Numbers:
    """How typical of a record each kind's statistic is, the most first."""
    by_statistic = {statistic: rank for rank, statistic in enumerate(TYPICAL)}
    return np.array([by_statistic.get(each.statistic, len(TYPICAL)) for each in kinds], np.int64)


def kinds_of(columns: Mapping[str, Column], kinds: Kinds) -> Numbers:
    """The number of each row's kind.

    Args:
        columns: all of a figure but its value.
    """
    count = len(columns["name"].codes)
    is_first = np.zeros(count, np.bool_)
    is_first[:1] = True
    for codes, _ in columns.values():
        is_first[1:] |= codes[1:] != codes[:-1]
    # Rows of a store are sorted by kind, so few are left.
    starts = np.flatnonzero(is_first)
    first, inverse = alike(columns.values(), starts)
    numbers = [
        kinds[Figure(value=0.0, **{name: _value(columns[name], row) for name in KIND})]
        for row in starts[first].tolist()
    ]
    lengths = np.diff(np.append(starts, count))
    return np.repeat(np.array(numbers, np.int64)[inverse], lengths)


def alike(columns: Iterable[Column], rows: Numbers) -> tuple[Numbers, Numbers]:
    """One of each kind of some rows that agree in all columns, and the number of each row's
    kind."""
    mixed = np.zeros(len(rows), np.int64)
    for codes, uniques in columns:
        mixed = mixed * (len(uniques) + 1) + codes[rows] + 1
        if mixed.max(initial=0) > _MOST_MIXED:
            mixed = np.unique(mixed, return_inverse=True)[1]
    return np.unique(mixed, return_index=True, return_inverse=True)[1:]


def _value(column: Column, row: int) -> Any:
    code = int(column.codes[row])
    return None if code < 0 else column.values[code]


def _sort_key(kind: Figure) -> tuple[object, ...]:
    values = (getattr(kind, name) for name in KIND)
    return tuple((value is not None, value) for value in values)


def _of_statistic(
    name: str, kinds: Sequence[Figure], kind: Numbers, value: Floats, sample: Numbers, count: int
) -> Floats:
    """The value of each sample's first row of a statistic, NaN where it has none."""
    is_named = np.array([each.statistic == name for each in kinds], bool)
    values = np.full(count, np.nan)
    if is_named.any():
        rows = np.flatnonzero(is_named[kind])[::-1]
        values[sample[rows]] = value[rows]
    return values


def _spread(least: Floats, most: Floats, repeats: Numbers) -> Floats:
    spread = np.full(len(least), np.nan)
    rows = np.flatnonzero((repeats >= _REPEATS) & (least > 0) & ~np.isnan(most))
    counts, codes = np.unique(repeats[rows], return_inverse=True)
    deviations = np.array([range_in_deviations(count) for count in counts.tolist()])
    if len(rows):
        spread[rows] = np.log(most[rows] / least[rows]) / deviations[codes]
    return spread


def _figures(work: Numbers, kind: Numbers, kinds: Sequence[Figure], keys: Keys) -> Numbers:
    """The number of each row's figure."""
    count = len(keys.works)
    pairs, codes = np.unique(kind * count + work, return_inverse=True)
    named = [(kinds[pair // count], pair % count) for pair in pairs.tolist()]
    numbers = np.zeros(len(pairs), np.int64)
    for place in sorted(
        range(len(pairs)), key=lambda each: (_sort_key(named[each][0]), named[each][1])
    ):
        each, of_work = named[place]
        numbers[place] = keys.figure(
            FigureKey(keys.works[of_work], each.name, each.unit, each.direction, each.message_bytes)
        )
    return numbers[codes]


def by_figure(table: Table) -> list[tuple[int, Table]]:
    """The rows of each figure, by its number; a column of equal values takes no memory."""
    # A sort of 16 bits takes a tenth of the time.
    is_short = table.figure.max(initial=0) < _MOST_SHORT
    order = np.argsort(table.figure.astype(np.uint16) if is_short else table.figure, kind="stable")
    figure = table.figure[order]
    starts = np.flatnonzero(np.append(True, np.diff(figure) != 0)[: len(figure)]).tolist()
    parts = [order[slice(*pair)] for pair in pairwise([*starts, len(order)])]
    return [
        (number, Table(*(_slim(column[part]) for column in table)))
        for number, part in zip(figure[starts].tolist(), parts, strict=True)
    ]


def _slim(column: NDArray[Any]) -> NDArray[Any]:
    first = column[0]
    is_one = np.isnan(column).all() if np.isnan(first) else (column == first).all()
    return np.broadcast_to(first, len(column)) if is_one else column


def samples_of(table: Table) -> dict[int, Samples]:
    """The measurements of each figure by place."""
    if not len(table.value):
        return {}
    table = table.only(np.lexsort((table.place, table.figure)))
    is_first = (np.diff(table.figure) != 0) | (np.diff(table.place) != 0)
    starts = np.flatnonzero(np.append(True, is_first))
    counts = np.diff(np.append(starts, len(table.value)))
    logs = np.log(table.value, out=np.zeros(len(table.value)), where=table.value > 0)
    means = np.add.reduceat(logs, starts) / counts
    squares = np.add.reduceat((logs - np.repeat(means, counts)) ** 2, starts)
    has_spread = ~np.isnan(table.spread)
    spreads = np.add.reduceat(np.where(has_spread, table.spread, 0.0) ** 2, starts)
    spread_counts = np.add.reduceat(has_spread.astype(np.int64), starts)
    freedoms = np.add.reduceat(np.where(has_spread, table.repeats - 1, 0), starts)
    values = _medians(table, starts, counts)
    figures, firsts = np.unique(table.figure[starts], return_index=True)
    held = {}
    for figure, begin, end in zip(
        figures.tolist(), firsts.tolist(), [*firsts[1:].tolist(), len(starts)], strict=True
    ):
        each = slice(begin, end)
        stop = int(starts[end]) if end < len(starts) else len(logs)
        rows = slice(int(starts[begin]), stop)
        held[figure] = Samples(
            table.place[starts[each]],
            *(values[each], counts[each], squares[each], spreads[each], spread_counts[each]),
            *(freedoms[each], logs[rows], float(table.value[rows].min())),
        )
    return held


def _medians(table: Table, starts: Numbers, counts: Numbers) -> Floats:
    """The median of each group of rows."""
    values = table.value
    if counts.max() > 1:
        values = values[np.lexsort((values, table.place, table.figure))]
    middle: Floats = (values[starts + (counts - 1) // 2] + values[starts + counts // 2]) / 2
    return middle
