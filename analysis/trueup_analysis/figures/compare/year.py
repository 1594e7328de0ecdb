"""The runs of a store, of which some figures of all days are read at a time."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from trueup_node.cases import Case
from trueup_node.errors import BadInput
from trueup_node.suggest import did_you_mean

from ... import packed
from ...cases import names as node_names
from ...cases import read_cases
from ...load import Loaded
from ...selection import rows_meant, run_ids, select
from .measured import Keys, Kinds, Records, Rows, alike, by_figure, kinds_of, table_of, work_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from ...selection import Selection
    from .history import RunsByFigure
    from .measured import FigureKey, Table

# Figures of all days that are read together: 20 bytes each.
_ROWS: Final = 12_000_000
# All its figures count as settings of a node.
STATE: Final = frozenset({"node_state"})
_NONE: Final = packed.Meant(names=frozenset())
# Columns of records that make the same work.
_WORK: Final = [
    *("benchmark", "case", "parameters", "system", "vm_size"),
    *("node_count", "ranks", "threads_per_rank"),
]
_OTHERS: Final = ["run_id", "started_at", "nodes", "outcome"]


def narrowed(loaded: Loaded, names: Collection[str]) -> Loaded:
    """The same with the figures of some names alone, and the states of nodes.

    Raises:
        BadInput: no record has such a figure.
    """
    _check(names, loaded.figures["name"].cat.categories)
    meant = packed.Meant(names=frozenset(names), always=STATE)
    held = packed.figures_meant(packed.Frames(loaded.records, loaded.figures), meant)
    return replace(loaded, figures=held.figures)


def _check(names: Collection[str], known: Collection[str]) -> None:
    for name in names:
        if name not in known:
            raise BadInput(
                f"--figure {name}: no record has such a figure{did_you_mean(name, known)}"
            )


class _Day(NamedTuple):
    """A file of the store.

    Attributes:
        benchmark: the number of the benchmark of each record.
    """

    path: Path
    records: Records
    benchmark: NDArray[np.int64]


class OfStore:
    """A source of histories.

    Args:
        index: of a store of which nothing was read.
        names: the figures that count; without any all.
    """

    def __init__(self, index: Loaded, chosen: Selection, names: Collection[str] = ()) -> None:
        known = {name for day in index.stored for _, name, _ in day.figures}
        _check(names, known)
        self._index, self._chosen, self._names = index, chosen, frozenset(names) or None
        self._benchmarks: dict[str, int] = {}
        self._named: dict[tuple[tuple[str, ...], tuple[str, ...]], NDArray[np.bool_]] = {}
        self.keys = Keys()
        self._begun: dict[str, str] = {}
        self._paths: dict[str, Path] = {}
        self._numbers = {run: number for number, run in enumerate(run_ids(index))}
        held: set[str] = set()
        self._days = [self._day(day.path, held) for day in index.stored if self._may_be_meant(day)]
        every = [run for run in self._numbers if run in held]
        place = np.full(len(self._numbers) + 1, -1)
        place[[self._numbers[run] for run in every]] = np.arange(len(every))
        self._days = [
            day._replace(records=day.records._replace(run=place[day.records.run]))
            for day in self._days
        ]
        self.runs, self.begun = every, [self._begun[run] for run in every]
        if not every and index.stored:
            # Says which name is unknown.
            select(self._loaded(index.stored[-1].path), chosen)

    def _may_be_meant(self, day: Any) -> bool:
        if self._chosen.since is None:
            return True
        first = f"{self._chosen.since:%Y-%m-%d}"
        return any(last >= first for _, last in day.times.values())

    def _loaded(self, path: Path, meant: packed.Meant = _NONE) -> Loaded:
        return Loaded(*packed.read(path, meant)[0])

    def _day(self, path: Path, held: set[str]) -> _Day:
        """The records of a file, by their numbers in it."""
        columns = packed.record_columns(path, [*_WORK, *_OTHERS])
        run, begun, node = (columns[name] for name in ("run_id", "started_at", "nodes"))
        is_meant = self._is_meant(columns)
        for code in np.unique(run.codes[is_meant]).tolist():
            name = run.values[code]
            if self._paths.setdefault(name, path) != path:
                raise BadInput(f"run {name} is in {self._paths[name]} and {path}: name one of them")
            its = set(begun.codes[is_meant & (run.codes == code)].tolist())
            self._begun[name] = min(begun.values[each] if each >= 0 else "" for each in its)
        is_ok = is_meant & _is_one_of(columns["outcome"], ["ok"])
        held |= {run.values[code] for code in np.unique(run.codes[is_ok]).tolist()}
        numbers = [self._numbers.get(name, len(self._numbers)) for name in run.values]
        nodes = [self.keys.node(name) for name in node.values]
        benchmark = columns["benchmark"]
        benchmarks = [
            self._benchmarks.setdefault(name, len(self._benchmarks)) for name in benchmark.values
        ]
        records = Records(
            is_ok,
            self._works(columns, np.flatnonzero(is_ok)),
            np.array(nodes)[node.codes],
            np.array(numbers)[run.codes],
        )
        return _Day(path, records, np.array(benchmarks)[benchmark.codes])

    def _is_meant(self, columns: Mapping[str, packed.Column]) -> NDArray[np.bool_]:
        """Which records are chosen, as ``selection.rows_meant`` has it."""
        chosen = self._chosen
        is_meant = np.ones(len(columns["run_id"].codes), np.bool_)
        for name, values in (("benchmark", chosen.benchmarks), ("outcome", chosen.outcomes)):
            if values:
                is_meant &= _is_one_of(columns[name], values)
        if chosen.nodes:
            codes, names = columns["nodes"]
            counts = columns["node_count"]
            is_several = np.array([(count or 0) > 1 for count in counts.values] + [False])
            alone = np.array([chosen.takes_node(name) for name in names])
            parts = np.array([any(map(chosen.takes_node, name.split("+"))) for name in names])
            is_meant &= np.where(is_several[counts.codes], parts[codes], alone[codes])
        if chosen.since is not None:
            first = f"{chosen.since.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
            codes, times = columns["started_at"]
            is_meant &= np.array([*(time >= first for time in times), False])[codes]
        return is_meant

    def _works(
        self, columns: Mapping[str, packed.Column], rows: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The number of each record's work. Records that agree in all that makes a work have one,
        unless their nodes' names do."""
        works = np.zeros(len(columns["run_id"].codes), np.int64)
        first, kind = alike((columns[name] for name in _WORK), rows)
        works[rows] = np.array([self._work(columns, row) for row in rows[first].tolist()])[kind]
        case = columns["case"]
        is_named = self._has_node(tuple(case.values), tuple(columns["nodes"].values))
        alone = rows[is_named[case.codes[rows]] | (columns["vm_size"].codes[rows] < 0)]
        works[alone] = [self._work(columns, row) for row in alone.tolist()]
        return works

    def _has_node(self, cases: tuple[str, ...], nodes: tuple[str, ...]) -> NDArray[np.bool_]:
        """Which names of cases have a node's in them; most days have the same ones."""
        if (cases, nodes) not in self._named:
            parts = {part for name in nodes for part in name.split("+")}
            has_node = [any(part in name for part in parts) for name in cases]
            self._named = {(cases, nodes): np.array(has_node, np.bool_)}
        return self._named[cases, nodes]

    def _work(self, columns: Mapping[str, packed.Column], row: int) -> int:
        held: dict[str, Any] = {
            name: None if columns[name].codes[row] < 0 else columns[name].values[code]
            for name in (*_WORK, "nodes")
            for code in (columns[name].codes[row],)
        }
        case = Case(
            nodes=node_names(held["nodes"], held["node_count"]),
            vm_size=held["vm_size"],
            benchmark=held["benchmark"],
            case=held["case"],
            outcome="ok",
            reason=None,
            parameters=packed.decoded(held["parameters"]),
            software={},
            figures=(),
            node_count=held["node_count"],
            ranks=held["ranks"],
            threads=held["threads_per_rank"],
            system=packed.decoded(held["system"]),
        )
        return self.keys.work(work_of(case, (), one_machine=True))

    def tables(self, only: RunsByFigure | None = None) -> Iterator[tuple[FigureKey, list[Table]]]:
        """As ``history.Source`` has it; figures of a benchmark are read together."""
        for benchmark, names in self._chunks(only):
            runs = _runs_of(only, benchmark, names)
            kinds = Kinds()
            held: dict[int, list[Table]] = {}
            for day in self._days:
                if runs is None or not runs.isdisjoint(day.records.run.tolist()):
                    for number, table in by_figure(self._table(day, benchmark, names, kinds)):
                        held.setdefault(number, []).append(table)
            for number in sorted(held):
                figure, tables = self.keys.figures[number], held.pop(number)
                if only is None or figure in only:
                    yield figure, tables

    def _chunks(self, only: RunsByFigure | None) -> list[tuple[str, frozenset[str]]]:
        """Benchmarks, each with names of figures that fit into memory together."""
        counts: Counter[tuple[str, str]] = Counter()
        for day in self._index.stored:
            for benchmark, name, count in day.figures:
                if self._names is None or name in self._names:
                    counts[benchmark, name] += count
        if only is not None:
            named = {(figure.work.benchmark, figure.metric) for figure in only}
            counts = Counter({name: count for name, count in counts.items() if name in named})
        chunks: list[tuple[str, set[str]]] = []
        size = 0
        for (benchmark, name), count in sorted(counts.items()):
            if self._chosen.benchmarks and benchmark not in self._chosen.benchmarks:
                continue
            size += count
            if not chunks or chunks[-1][0] != benchmark or size > _ROWS:
                chunks.append((benchmark, set()))
                size = count
            chunks[-1][1].add(name)
        return [(benchmark, frozenset(names)) for benchmark, names in chunks]

    def _table(self, day: _Day, benchmark: str, names: frozenset[str], kinds: Kinds) -> Table:
        """Figures of a benchmark on a day."""
        meant = packed.Meant(names=names, benchmarks=frozenset([benchmark]))
        is_of = day.benchmark == self._benchmarks.get(benchmark, -1)
        parts = [
            _rows(part, is_of, names, kinds, day.path)
            for part in packed.figure_rows(day.path, meant)
        ]
        rows = parts[0] if len(parts) == 1 else _joined(parts, kinds)
        return table_of(day.records, rows, self.keys)

    def cases(self, run: int) -> Sequence[Case]:
        """The records of a run, and the states of its nodes."""
        name = self.runs[run]
        meant = packed.Meant(names=frozenset(), always=STATE)
        loaded = self._loaded(self._paths[name], meant)
        rows = rows_meant(loaded, replace(self._chosen, run=name))
        return read_cases(loaded, records=rows)


def _rows(
    part: packed.FigureRows,
    is_of: NDArray[np.bool_],
    names: Collection[str],
    kinds: Kinds,
    path: Path,
) -> Rows:
    """The figures that have one of some names, in records for which ``is_of`` is set."""
    record = part.record
    if len(record) and not 0 <= record.min() <= record.max() < len(is_of):
        raise BadInput(f"{path} is not a file that `trueup pack` wrote")
    kind = kinds_of(part.kind, kinds)
    is_name = np.array([each.name in names for each in kinds.all], np.bool_)
    is_meant = is_name[kind] & is_of[record]
    rows = slice(None) if is_meant.all() else is_meant
    return Rows(record[rows], part.place[rows], part.value[rows], kind[rows], kinds)


def _joined(parts: Sequence[Rows], kinds: Kinds) -> Rows:
    none = np.zeros(0, np.int32)
    return Rows(
        np.concatenate([none, *(part.case for part in parts)]),
        np.concatenate([none, *(part.place for part in parts)]),
        np.concatenate([np.zeros(0), *(part.value for part in parts)]),
        np.concatenate([none, *(part.kind for part in parts)]),
        kinds,
    )


def _runs_of(only: RunsByFigure | None, benchmark: str, names: Collection[str]) -> set[int] | None:
    """The runs of figures of a benchmark; None for all."""
    if only is None:
        return None
    its = [
        runs
        for figure, runs in only.items()
        if figure.work.benchmark == benchmark and figure.metric in names
    ]
    return set().union(*its)


def _is_one_of(column: packed.Column, values: Collection[str]) -> NDArray[np.bool_]:
    is_value = np.array([*(value in values for value in column.values), False], np.bool_)
    chosen: NDArray[np.bool_] = is_value[column.codes]
    return chosen
