"""Records pooled into cases, with the work that each did, to be priced."""

from __future__ import annotations

import math
import re
import statistics
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from trueup.cases import TYPICAL, Case, Figure
from trueup.errors import BadInput

from ..cases import read_cases
from ..columns import Words, numbered
from . import tokens
from .coded import all_of, distinct, first_of_each, words_of
from .views import amount_rate, headline, view_of
from .work import HOW, work_of

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Collection,
        Container,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )

    from numpy.typing import NDArray
    from trueup.health.expectations import Expectations
    from trueup.view import Measure, View, Work

    from ..load import Loaded
    from .coded import Coded, Counts

    # Headline figure and rates, by the number of the record.
    _Single = dict[int, dict[str, Any]]

_RUN_TIME: Final = "run_time"
# Columns that tell rows apart, beside the headline figure and where it was measured.
_NAMES: Final = (
    "version",
    "configuration",
    "case",
    "work",
    "vm_size",
    "machine",
    "region",
    "offer",
)
_RESOURCES: Final = ("node_count", "ranks", "threads_per_rank", "cores")
# A single measurement is the median of one.
_MEDIANS: Final = (None, "median", "single")


def has_work(loaded: Loaded) -> bool:
    """Whether any record is ok and holds a run time or a rate of work, so that ``table`` has
    rows."""
    return next(_held(loaded), None) is not None


def work_priced(benchmark: str) -> tuple[Work, ...]:
    """The units of work by which ``table`` prices a benchmark; none where it has no view."""
    view = None if tokens.is_served(benchmark) else view_of(benchmark)
    return () if view is None else view.work


class _Held(NamedTuple):
    """The records of one benchmark that can be priced.

    Attributes:
        works: the units of their work.
    """

    benchmark: str
    view: View | None
    works: tuple[Work, ...]
    records: Coded

    @property
    def heads(self) -> tuple[Measure, ...]:
        """The figures of which one stands for a case."""
        return () if self.view is None else self.view.headlines

    @property
    def units(self) -> dict[str, str]:
        """The unit of each figure that costs or the headline need, where the view says it."""
        measures = () if self.view is None else self.view.figures
        unit_by_metric = {measure.metric: measure.unit for measure in (*measures, *self.heads)}
        return {
            _RUN_TIME: "s",
            **{name: unit_by_metric[name] for name in self.needed if name in unit_by_metric},
        }

    @property
    def needed(self) -> set[str]:
        """The figures that costs or the headline need."""
        rates = {metric for work in self.works for metric in (work.rate, *work.also)}
        return {_RUN_TIME, *rates, *(measure.metric for measure in self.heads)}

    def figures(self) -> Counts:
        """The places of their figures, of the statistics that stand for one."""
        every = self.records.loaded.figures
        statistic_names = {*TYPICAL, *(measure.statistic for measure in self.heads)} - {""}
        among = np.zeros(len(every.starts) - 1, np.bool_)
        among[self.records.records] = True
        rows = np.flatnonzero(every.name.marks(self.needed))
        rows = rows[every.statistic.taken(rows).marks(statistic_names)]
        figure_rows: Counts = rows[among[every.owners[rows]]]
        return figure_rows


def _held(loaded: Loaded) -> Iterator[_Held]:
    """The benchmarks that can be priced, in the order of reading."""
    every = all_of(loaded)
    ok = every.taken(every.words("outcome").marks(["ok"]))
    benchmarks = ok.words("benchmark")
    for code in distinct(benchmarks.codes):
        benchmark = benchmarks.words[code]
        if tokens.is_served(benchmark):
            continue
        works = work_priced(benchmark)
        group = ok.taken(benchmarks.codes == code)
        worked = _holding(group, [_RUN_TIME])
        for work in works:
            worked |= _holding(group, (work.rate, *work.also)) & _did(group, work)
        if worked.any():
            view = view_of(benchmark) if works else None
            yield _Held(benchmark, view, works, group.taken(worked))


def _holding(records: Coded, names: Collection[str]) -> NDArray[np.bool_]:
    """Which records hold any of some figures."""
    every = records.loaded.figures
    held = np.zeros(len(every.starts) - 1, np.bool_)
    held[every.owners[every.name.marks(names)]] = True
    return held[records.records]


def _did(records: Coded, work: Work) -> NDArray[np.bool_] | bool:
    """Which records did such work, as far as their parameters say."""
    if not work.parameter:
        return True
    by_code = records.mappings("parameters")
    did = [
        code
        for code, parameters in by_code.items()
        if str(parameters.get(work.parameter)) == work.value
    ]
    return np.isin(records.words("parameters").codes, did)


def rows_to_price(
    loaded: Loaded, expectations: Expectations | None
) -> tuple[list[dict[str, Any]], list[str]]:
    """One row a case, NaN or None for an unknown value, and warnings on figures in another
    unit than their view's."""
    case_rows: list[dict[str, Any]] = []
    warnings: list[str] = []
    unpriced: list[str] = []
    for every in _held(loaded):
        counted = every.records.count("node_count") >= 0
        held = every._replace(records=every.records.taken(counted))
        unpriced += [_unpriced(every, ~counted)] if not counted.all() else []
        if not counted.any():
            continue
        rows, unit_warnings = _in_units(held, held.figures())
        warnings += unit_warnings
        case_rows += _cases_of(held, rows, expectations)
    if not case_rows and unpriced:
        raise BadInput("; ".join(unpriced))
    if not case_rows:
        raise BadInput(
            f"none of {loaded.table.num_rows} records is ok and holds a run time or a rate of"
            " tokens or of other work, so there is nothing to price"
        )
    return case_rows, [*unpriced, *warnings]


def _unpriced(held: _Held, missing: NDArray[np.bool_]) -> str:
    """A sentence on records without a number of nodes."""
    records = held.records.taken(missing)
    first = f"case {records.first('case')} ({records.first('source')})"
    more = f" and {len(records) - 1:,} more of {held.benchmark}" if len(records) > 1 else ""
    return (
        f"{first}{more} does not say on how many nodes it ran, so it has no cost; `trueup import"
        " --nodes` says it of logs"
    )


def _in_units(held: _Held, rows: Counts) -> tuple[Counts, list[str]]:
    """The figures in the view's units, and a sentence on each of the others."""
    every = held.records.loaded.figures
    warnings = []
    for name, unit in sorted(held.units.items()):
        is_other = every.name.taken(rows).marks([name]) & ~every.unit.taken(rows).marks([unit])
        other, rows = rows[is_other], rows[~is_other]
        of = every.unit.taken(other)
        for other_unit in of.held():
            several = len(np.unique(every.owners[other[of.marks([other_unit])]]))
            warnings.append(
                f"{held.benchmark}: {name} is in {other_unit}, not in {unit}, in"
                f" {several} {'record' if several == 1 else 'records'}, and does not count there."
            )
    return rows, warnings


def _cases_of(held: _Held, rows: Counts, expectations: Expectations | None) -> list[dict[str, Any]]:
    """One row a case of one benchmark: its records pooled, in the order of reading."""
    every, records = held.records.loaded.figures, held.records
    placed = (every.message_bytes[rows] >= 0) | (every.device.codes[rows] >= 0)
    single = _record_by_record(held, every.owners[rows[placed]], expectations)
    names = _names(held)
    first, number = first_of_each(_keys(records, names, single))
    pooled_figures = _whole(held, rows[~placed], number)
    parts: dict[int, list[dict[str, Any]]] = {}
    for index in np.flatnonzero(np.isin(records.records, list(single))).tolist():
        parts.setdefault(int(number[index]), []).append(single[int(records.records[index])])
    case_rows = _kept(held, names, first)
    pooled = np.bincount(number)
    for group, row in enumerate(case_rows):
        case = _as_case(held, row["parameters"], pooled_figures.get(group, ()))
        row.update(_of_parts(held, parts[group]) if group in parts else _of_case(held, case, None))
        run = next(iter(case.of(_RUN_TIME)), None)
        row["run_seconds"] = math.nan if run is None else run.value
        # Where no record says its n, the sum is 0.
        row["n"] = (row["n"] if run is None else run.n) or None
        row["records"] = int(pooled[group])
        row["same_work"] = row["case"]
        if row["parameters"]:
            row["same_work"] = _work(held.view, row["parameters"], HOW)
        if held.view is not None and not held.view.headlines[0].grows:
            # A figure of each rank: more nodes move more at the same figure, at no other cost.
            row["same_work"] += f" on {row['node_count']} nodes"
        for work in held.works:
            done = row.pop(f"rate:{work.key}") * 3600 / (work.amount * work.seconds)
            row[f"{work.key}_per_node_hour"] = done / row["node_count"]
    return [
        {**row, "apart": apart}
        for row, apart in zip(case_rows, _apart(held, case_rows), strict=True)
    ]


def _as_case(held: _Held, parameters: Mapping[str, Any], pooled: Sequence[Figure]) -> Case:
    """Pooled figures as one case. They have no place, so it needs neither nodes nor a size."""
    return Case(
        nodes=(),
        vm_size=None,
        benchmark=held.benchmark,
        case="",
        outcome="ok",
        reason=None,
        parameters=parameters,
        software={},
        figures=pooled,
    )


def _names(held: _Held) -> dict[str, Words]:
    """The columns of ``_NAMES``."""
    records = held.records
    case, nodes, size = map(records.words, ("case", "nodes", "vm_size"))
    several = np.where(records.count("node_count") > 1, nodes.codes, -1)
    first, number = first_of_each([case.codes, several])
    cases = [
        case.words[code] if of < 0 else _general(case.words[code], nodes.words[of])
        for code, of in zip(case.codes[first].tolist(), several[first].tolist(), strict=True)
    ]
    columns = {
        "case": words_of(cases, number),
        "work": _told(records, "parameters", lambda parameters: _work(held.view, parameters, ())),
        "configuration": _told(
            records, "parameters", lambda parameters: parameters.get("configuration", "")
        ),
        "version": _told(records, "software", lambda software: software.get(held.benchmark, "")),
        # Off Azure the size says nothing, so machines are kept apart by name.
        "machine": Words(np.where(size.codes < 0, nodes.codes, -1), nodes.words),
    }
    return {name: columns[name] if name in columns else records.words(name) for name in _NAMES}


def _told(records: Coded, name: str, text: Callable[[Mapping[str, Any]], Any]) -> Words:
    """A text for each mapping of a column."""
    first, number = first_of_each([records.words(name).codes])
    by_code = records.taken(first).mappings(name)
    return words_of([str(text(mapping)) for mapping in by_code.values()], number)


def _keys(records: Coded, names: Mapping[str, Words], single: _Single) -> list[NDArray[Any]]:
    """Whole numbers that tell rows apart."""
    keys: list[NDArray[Any]] = [
        *(names[name].codes for name in _NAMES),
        *(records.count(name) for name in _RESOURCES),
    ]
    if single:
        parts = [single.get(record, _NO_HEADLINE) for record in records.records.tolist()]
        metrics = {name: code for code, name in enumerate({head["metric"] for head in parts})}
        sizes = [head["message_bytes"] for head in parts]
        keys.append(np.array([metrics[head["metric"]] for head in parts]))
        keys.append(numbered(np.array([-1 if size is None else size for size in sizes])))
    return keys


def _kept(held: _Held, names: Mapping[str, Words], first: Counts) -> list[dict[str, Any]]:
    """The columns that rows take from the first of their records."""
    records = held.records.taken(first)
    columns: dict[str, list[Any]] = {name: names[name].taken(first).values() for name in _NAMES}
    columns["machine"] = [name or "" for name in columns["machine"]]
    for name in _RESOURCES:
        columns[name] = [None if count < 0 else count for count in records.count(name).tolist()]
    by_code = records.mappings("parameters")
    columns["parameters"] = [by_code[code] for code in records.words("parameters").codes.tolist()]
    return [
        {"benchmark": held.benchmark, **dict(zip(columns, values, strict=True))}
        for values in zip(*columns.values(), strict=True)
    ]


def _general(case: str, nodes: str) -> str:
    """The name of a case with its nodes' names left out: that of a pair has both."""
    for node in sorted(nodes.split("+"), key=len, reverse=True):
        if node in case:
            case = re.sub(rf"(?<![A-Za-z0-9]){re.escape(node)}(?![A-Za-z0-9])", "*", case)
    return case


def _work(view: View | None, parameters: Mapping[str, Any], without: Container[str]) -> str:
    """Equal texts for equal work: the parameters by which the view tells cases apart, else all that
    say which work it was."""
    named_values = [
        (name, str(parameters[name]))
        for name in (() if view is None else view.apart)
        if name not in without and parameters.get(name) not in (None, "")
    ]
    return repr(named_values) if named_values else work_of(parameters)


def _whole(held: _Held, rows: Counts, number: Counts) -> dict[int, list[Figure]]:
    """Figures of whole cases, pooled over the records of each row: the median, and n added up.

    Args:
        number: of each record its row.
    """
    if not len(rows):
        return {}
    every = held.records.loaded.figures
    of_record = np.zeros(len(every.starts) - 1, np.int64)
    of_record[held.records.records] = number
    groups, names = of_record[every.owners[rows]], every.name.taken(rows)
    # A single measurement is the median of one; missing (-1) is either.
    words = [*every.statistic.words, None]
    same = np.array([-1 if statistic in _MEDIANS else code for code, statistic in enumerate(words)])
    of_kind = same[every.statistic.codes[rows]]
    first, pool = first_of_each([groups, names.codes, of_kind])
    order = np.lexsort((every.value[rows], pool))
    counts = np.bincount(pool)
    starts = np.cumsum(counts) - counts
    values = every.value[rows][order]
    medians = (values[starts + (counts - 1) // 2] + values[starts + counts // 2]) / 2
    repeats = np.add.reduceat(every.n[rows].clip(0)[order], starts, dtype=np.int64)
    pooled: dict[int, list[Figure]] = {}
    columns = (groups[first], names.codes[first], of_kind[first], medians, repeats)
    for group, name, kind, value, n in zip(*(column.tolist() for column in columns), strict=True):
        statistic = "median" if kind == -1 else words[kind]
        figure = Figure(names.words[name], value, "s", "lower", None, None, statistic, n)
        pooled.setdefault(group, []).append(figure)
    return pooled


def _record_by_record(held: _Held, records: Counts, expectations: Expectations | None) -> _Single:
    """Headline figure and rates of the records that hold figures of devices or message sizes."""
    units = held.units
    by_record: _Single = {}
    chosen = set(records.tolist())
    loaded = held.records.loaded
    for case in read_cases(loaded, records=chosen, metrics=held.needed) if chosen else ():
        in_unit = [
            figure for figure in case.figures if figure.unit == units.get(figure.name, figure.unit)
        ]
        by_record[case.record] = _of_case(held, replace(case, figures=in_unit), expectations)
    return by_record


_NO_HEADLINE: Final = {
    **dict.fromkeys(("metric", "unit", "message_bytes", "device", "devices")),
    "value": math.nan,
    "n": 0,
}


def _of_case(held: _Held, case: Case, expectations: Expectations | None) -> dict[str, Any]:
    """Headline figure and rates of one case; NaN where it lacks them."""
    head = headline(case, expectations)
    rates = {work.key: amount_rate(case, work, expectations) for work in held.works}
    rate_columns = {
        f"rate:{key}": math.nan if rate is None else rate for key, rate in rates.items()
    }
    if head is None:
        return {**_NO_HEADLINE, **rate_columns}
    return {
        "metric": head.measure.metric,
        "value": head.value,
        "unit": head.measure.unit,
        "message_bytes": head.message_bytes,
        "device": head.device,
        # Where there is a figure of the whole case, it is no device's.
        "devices": None if head.device is None else head.devices,
        "n": head.n or 0,
        **rate_columns,
    }


def _of_parts(held: _Held, parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The same of several records of one case: medians, and n added up."""
    devices = {head["device"] for head in parts}
    medians = ["value", *(f"rate:{work.key}" for work in held.works)]
    return {
        **parts[0],
        "device": devices.pop() if len(devices) == 1 else None,
        "n": sum(head["n"] for head in parts),
        **{name: _median(head[name] for head in parts) for name in medians},
    }


def _median(values: Iterable[float]) -> float:
    """The median of the known values."""
    numbers = [value for value in values if not math.isnan(value)]
    return statistics.median(numbers) if numbers else math.nan


def _apart(held: _Held, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The further differences of each row from others of the same case."""
    words: list[list[str]] = [[] for _ in rows]
    cases: dict[str, list[int]] = {}
    for index, row in enumerate(rows):
        cases.setdefault(row["case"], []).append(index)
    for same in cases.values():
        among = [rows[index] for index in same]
        differing = _differing(held.view, among)
        layouts = [_layout(row) for row in among]
        several = len(set(layouts)) > 1
        for index, row, layout in zip(same, among, layouts, strict=True):
            words[index] += [
                f"{name.replace('_', ' ')} {row['parameters'].get(name, 'unknown')}"
                for name in differing
            ]
            words[index] += [layout] if several else []
    if len({row["machine"] for row in rows}) > 1:
        for index, row in enumerate(rows):
            words[index].append(_machine(row))
    return [", ".join(filter(None, texts)) for texts in words]


def _machine(row: Mapping[str, Any]) -> str:
    name, *more = row["machine"].split("+")
    return "" if not name else f"on {name}" + (f" and {len(more)} more" if more else "")


def _differing(view: View | None, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The parameters by which the work of rows differs."""
    if len({row["work"] for row in rows}) == 1:
        return []
    of_rows = [row["parameters"] for row in rows]
    held = dict.fromkeys(name for parameters in of_rows for name in parameters)
    named = [] if view is None else [name for name in view.apart if name in held]
    names = named or [name for name in held if name not in HOW]
    return [
        name for name in names if len({str(parameters.get(name)) for parameters in of_rows}) > 1
    ]


def _layout(row: Mapping[str, Any]) -> str:
    if row["ranks"] is None or row["threads_per_rank"] is None:
        return "" if row["cores"] is None else f"{row['cores']} cores"
    return f"{row['ranks']}x{row['threads_per_rank']}"
