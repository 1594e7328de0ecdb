"""Records pooled into cases, with the work that each did: what can be priced."""

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
# What tells rows apart, beside the headline figure and where it was measured.
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
    view = None if benchmark == tokens.BENCHMARK else view_of(benchmark)
    return () if view is None else view.work


class _Held(NamedTuple):
    """The records of one benchmark that can be priced.

    Attributes:
        works: what their work is counted in.
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
        shown = () if self.view is None else self.view.figures
        known = {measure.metric: measure.unit for measure in (*shown, *self.heads)}
        return {_RUN_TIME: "s", **{name: known[name] for name in self.needed if name in known}}

    @property
    def needed(self) -> set[str]:
        """The figures that costs or the headline need."""
        rates = {metric for work in self.works for metric in (work.rate, *work.also)}
        return {_RUN_TIME, *rates, *(measure.metric for measure in self.heads)}

    def figures(self) -> Counts:
        """The places of their figures, of the statistics that stand for one."""
        every = self.records.loaded.figures
        wanted = {*TYPICAL, *(measure.statistic for measure in self.heads)} - {""}
        among = np.zeros(len(every.starts) - 1, np.bool_)
        among[self.records.records] = True
        rows = np.flatnonzero(every.name.marks(self.needed))
        rows = rows[every.statistic.taken(rows).marks(wanted)]
        found: Counts = rows[among[every.owners[rows]]]
        return found


def _held(loaded: Loaded) -> Iterator[_Held]:
    """The benchmarks that can be priced, in the order of reading."""
    every = all_of(loaded)
    ok = every.taken(every.words("outcome").marks(["ok"]))
    benchmarks = ok.words("benchmark")
    for code in distinct(benchmarks.codes):
        benchmark = benchmarks.words[code]
        if benchmark == tokens.BENCHMARK:
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
    said = records.mappings("parameters")
    did = [code for code, one in said.items() if str(one.get(work.parameter)) == work.value]
    return np.isin(records.words("parameters").codes, did)


def rows_to_price(
    loaded: Loaded, expectations: Expectations | None
) -> tuple[list[dict[str, Any]], list[str]]:
    """One row a case, NaN or None for what is unknown, and what must be said of figures in another
    unit than their view's."""
    made: list[dict[str, Any]] = []
    warnings: list[str] = []
    unpriced: list[str] = []
    for every in _held(loaded):
        counted = every.records.count("node_count") >= 0
        held = every._replace(records=every.records.taken(counted))
        unpriced += [_unpriced(every, ~counted)] if not counted.all() else []
        if not counted.any():
            continue
        rows, said = _in_units(held, held.figures())
        warnings += said
        made += _cases_of(held, rows, expectations)
    if not made and unpriced:
        raise BadInput("; ".join(unpriced))
    if not made:
        raise BadInput(
            f"none of {loaded.table.num_rows} records is ok and holds a run time or a rate of"
            " tokens or of other work, so there is nothing to price"
        )
    return made, [*unpriced, *warnings]


def _unpriced(held: _Held, missing: NDArray[np.bool_]) -> str:
    """What is said of records without a number of nodes."""
    records = held.records.taken(missing)
    one = f"case {records.first('case')} ({records.first('source')})"
    others = f" and {len(records) - 1:,} more of {held.benchmark}" if len(records) > 1 else ""
    return (
        f"{one}{others} does not say on how many nodes it ran, so it has no cost; `trueup import"
        " --nodes` says it of logs"
    )


def _in_units(held: _Held, rows: Counts) -> tuple[Counts, list[str]]:
    """The figures in the view's units, and a sentence on each of the others."""
    every = held.records.loaded.figures
    said = []
    for name, unit in sorted(held.units.items()):
        is_other = every.name.taken(rows).marks([name]) & ~every.unit.taken(rows).marks([unit])
        other, rows = rows[is_other], rows[~is_other]
        of = every.unit.taken(other)
        for found in of.held():
            several = len(np.unique(every.owners[other[of.marks([found])]]))
            said.append(
                f"{held.benchmark}: {name} is in {found}, not in {unit}, in"
                f" {several} {'record' if several == 1 else 'records'}, and does not count there."
            )
    return rows, said


def _cases_of(held: _Held, rows: Counts, expectations: Expectations | None) -> list[dict[str, Any]]:
    """One row a case of one benchmark: its records pooled, in the order of reading."""
    every, records = held.records.loaded.figures, held.records
    placed = (every.message_bytes[rows] >= 0) | (every.device.codes[rows] >= 0)
    single = _record_by_record(held, every.owners[rows[placed]], expectations)
    names = _names(held)
    first, number = first_of_each(_keys(records, names, single))
    whole = _whole(held, rows[~placed], number)
    parts: dict[int, list[dict[str, Any]]] = {}
    for place in np.flatnonzero(np.isin(records.records, list(single))).tolist():
        parts.setdefault(int(number[place]), []).append(single[int(records.records[place])])
    kept = _kept(held, names, first)
    pooled = np.bincount(number)
    for group, row in enumerate(kept):
        case = _as_case(held, row["parameters"], whole.get(group, ()))
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
    return [{**row, "apart": apart} for row, apart in zip(kept, _apart(held, kept), strict=True)]


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
    found = {
        "case": words_of(cases, number),
        "work": _told(records, "parameters", lambda one: _work(held.view, one, ())),
        "configuration": _told(records, "parameters", lambda one: one.get("configuration", "")),
        "version": _told(records, "software", lambda one: one.get(held.benchmark, "")),
        # Off Azure the size says nothing, so machines are kept apart by name.
        "machine": Words(np.where(size.codes < 0, nodes.codes, -1), nodes.words),
    }
    return {name: found[name] if name in found else records.words(name) for name in _NAMES}


def _told(records: Coded, name: str, text: Callable[[Mapping[str, Any]], Any]) -> Words:
    """A text for each mapping of a column."""
    first, number = first_of_each([records.words(name).codes])
    said = records.taken(first).mappings(name)
    return words_of([str(text(one)) for one in said.values()], number)


def _keys(records: Coded, names: Mapping[str, Words], single: _Single) -> list[NDArray[Any]]:
    """Whole numbers that tell rows apart."""
    keys: list[NDArray[Any]] = [
        *(names[name].codes for name in _NAMES),
        *(records.count(name) for name in _RESOURCES),
    ]
    if single:
        parts = [single.get(record, _NO_HEADLINE) for record in records.records.tolist()]
        metrics = {name: code for code, name in enumerate({part["metric"] for part in parts})}
        sizes = [part["message_bytes"] for part in parts]
        keys.append(np.array([metrics[part["metric"]] for part in parts]))
        keys.append(numbered(np.array([-1 if size is None else size for size in sizes])))
    return keys


def _kept(held: _Held, names: Mapping[str, Words], first: Counts) -> list[dict[str, Any]]:
    """What rows have of the first of their records."""
    records = held.records.taken(first)
    columns: dict[str, list[Any]] = {name: names[name].taken(first).values() for name in _NAMES}
    columns["machine"] = [name or "" for name in columns["machine"]]
    for name in _RESOURCES:
        columns[name] = [None if one < 0 else one for one in records.count(name).tolist()]
    said = records.mappings("parameters")
    columns["parameters"] = [said[code] for code in records.words("parameters").codes.tolist()]
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
    told = [
        (name, str(parameters[name]))
        for name in (() if view is None else view.apart)
        if name not in without and parameters.get(name) not in (None, "")
    ]
    return repr(told) if told else work_of(parameters)


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
    same = np.array([-1 if word in _MEDIANS else code for code, word in enumerate(words)])
    of_kind = same[every.statistic.codes[rows]]
    first, part = first_of_each([groups, names.codes, of_kind])
    order = np.lexsort((every.value[rows], part))
    counts = np.bincount(part)
    starts = np.cumsum(counts) - counts
    values = every.value[rows][order]
    medians = (values[starts + (counts - 1) // 2] + values[starts + counts // 2]) / 2
    repeats = np.add.reduceat(every.n[rows].clip(0)[order], starts, dtype=np.int64)
    pooled: dict[int, list[Figure]] = {}
    columns = (groups[first], names.codes[first], of_kind[first], medians, repeats)
    for group, name, kind, value, n in zip(*(one.tolist() for one in columns), strict=True):
        word = "median" if kind == -1 else words[kind]
        figure = Figure(names.words[name], value, "s", "lower", None, None, word, n)
        pooled.setdefault(group, []).append(figure)
    return pooled


def _record_by_record(held: _Held, records: Counts, expectations: Expectations | None) -> _Single:
    """Headline figure and rates of the records that hold figures of devices or message sizes."""
    units = held.units
    found: _Single = {}
    chosen = set(records.tolist())
    loaded = held.records.loaded
    for case in read_cases(loaded, records=chosen, metrics=held.needed) if chosen else ():
        known = [one for one in case.figures if one.unit == units.get(one.name, one.unit)]
        found[case.record] = _of_case(held, replace(case, figures=known), expectations)
    return found


_NO_HEADLINE: Final = {
    **dict.fromkeys(("metric", "unit", "message_bytes", "device", "devices")),
    "value": math.nan,
    "n": 0,
}


def _of_case(held: _Held, case: Case, expectations: Expectations | None) -> dict[str, Any]:
    """Headline figure and rates of one case; NaN where it lacks them."""
    shown = headline(case, expectations)
    rates = {work.key: amount_rate(case, work, expectations) for work in held.works}
    found = {f"rate:{key}": math.nan if rate is None else rate for key, rate in rates.items()}
    if shown is None:
        return {**_NO_HEADLINE, **found}
    return {
        "metric": shown.measure.metric,
        "value": shown.value,
        "unit": shown.measure.unit,
        "message_bytes": shown.message_bytes,
        "device": shown.device,
        # Where there is a figure of the whole case, it is no device's.
        "devices": None if shown.device is None else shown.devices,
        "n": shown.n or 0,
        **found,
    }


def _of_parts(held: _Held, parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The same of several records of one case: medians, and n added up."""
    devices = {part["device"] for part in parts}
    medians = ["value", *(f"rate:{work.key}" for work in held.works)]
    return {
        **parts[0],
        "device": devices.pop() if len(devices) == 1 else None,
        "n": sum(part["n"] for part in parts),
        **{name: _median(part[name] for part in parts) for name in medians},
    }


def _median(values: Iterable[float]) -> float:
    """Of those that are known."""
    known = [value for value in values if not math.isnan(value)]
    return statistics.median(known) if known else math.nan


def _apart(held: _Held, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """What else than the columns beside it tells each row from others of the same case."""
    words: list[list[str]] = [[] for _ in rows]
    cases: dict[str, list[int]] = {}
    for place, row in enumerate(rows):
        cases.setdefault(row["case"], []).append(place)
    for same in cases.values():
        among = [rows[place] for place in same]
        differing = _differing(held.view, among)
        layouts = [_layout(row) for row in among]
        several = len(set(layouts)) > 1
        for place, row, layout in zip(same, among, layouts, strict=True):
            words[place] += [
                f"{name.replace('_', ' ')} {row['parameters'].get(name, 'unknown')}"
                for name in differing
            ]
            words[place] += [layout] if several else []
    if len({row["machine"] for row in rows}) > 1:
        for place, row in enumerate(rows):
            words[place].append(_machine(row))
    return [", ".join(filter(None, told)) for told in words]


def _machine(row: Mapping[str, Any]) -> str:
    name, *others = row["machine"].split("+")
    return "" if not name else f"on {name}" + (f" and {len(others)} more" if others else "")


def _differing(view: View | None, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The parameters by which the work of rows differs."""
    if len({row["work"] for row in rows}) == 1:
        return []
    of_rows = [row["parameters"] for row in rows]
    held = dict.fromkeys(name for one in of_rows for name in one)
    named = [] if view is None else [name for name in view.apart if name in held]
    names = named or [name for name in held if name not in HOW]
    return [name for name in names if len({str(one.get(name)) for one in of_rows}) > 1]


def _layout(row: Mapping[str, Any]) -> str:
    if row["ranks"] is None or row["threads_per_rank"] is None:
        return "" if row["cores"] is None else f"{row['cores']} cores"
    return f"{row['ranks']}x{row['threads_per_rank']}"
