"""Records pooled into cases, with the work that each did, to be priced."""

from __future__ import annotations

import math
import re
import statistics
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trueup_node.cases import TYPICAL, Case, Figure
from trueup_node.errors import BadInput

from ..cases import read_cases
from ..packed import alike
from ..rooms import amount_rate, headline, is_served, view_of
from .frames import HOW, MEDIANS, first, of_kinds, rows_of, work_of

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence

    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray
    from trueup_node.health.expectations import Expectations
    from trueup_node.view import Measure, View, Work

    from ..load import Loaded

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


def has_work(loaded: Loaded) -> bool:
    """Whether any record is ok and holds a run time or a rate of work, so that ``table`` has
    rows."""
    return next(_held(loaded), None) is not None


def work_priced(benchmark: str) -> tuple[Work, ...]:
    """The units of work by which ``table`` prices a benchmark; none where it has no view."""
    view = None if is_served(benchmark) else view_of(benchmark)
    return () if view is None else view.work


class _Held(NamedTuple):
    """The records of one benchmark that can be priced, and their figures.

    Attributes:
        works: the units of their work.
    """

    benchmark: str
    view: View | None
    works: tuple[Work, ...]
    loaded: Loaded
    records: pd.DataFrame

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

    def figures(self) -> pd.DataFrame:
        """Their figures, of the statistics that stand for one."""
        statistics = {*TYPICAL, *(measure.statistic for measure in self.heads)} - {""}
        rows = self.loaded.figures
        rows = rows[rows["name"].isin(self.needed) & rows["statistic"].isin(statistics)]
        return rows[rows["record"].isin(self.records.index)]


def _held(loaded: Loaded) -> Iterator[_Held]:
    """The benchmarks that can be priced, in the order of reading."""
    ok = loaded.records[loaded.records["outcome"] == "ok"]
    for name, group in ok.groupby("benchmark", sort=False, observed=True):
        benchmark = str(name)
        if is_served(benchmark):
            continue
        works = work_priced(benchmark)
        worked = _holding(loaded, group, [_RUN_TIME])
        for work in works:
            worked |= _holding(loaded, group, (work.rate, *work.also)) & _did(group, work)
        if worked.any():
            view = view_of(benchmark) if works else None
            yield _Held(benchmark, view, works, loaded, group[worked])


def _holding(loaded: Loaded, records: pd.DataFrame, names: Collection[str]) -> NDArray[np.bool_]:
    """Which records hold any of some figures."""
    figures = loaded.figures
    return records.index.isin(figures.loc[figures["name"].isin(names), "record"])


def _did(records: pd.DataFrame, work: Work) -> NDArray[np.bool_] | bool:
    """Which records did such work, as far as their parameters say."""
    if not work.parameter:
        return True
    return of_kinds(
        records,
        ["parameters"],
        lambda parameters: str(parameters.get(work.parameter)) == work.value,
        kind="bool",
    ).to_numpy()


def rows_to_price(
    loaded: Loaded, expectations: Expectations | None
) -> tuple[list[dict[str, Any]], list[str]]:
    """One row a case, NaN or None for an unknown value, and warnings on figures in another
    unit than their view's."""
    case_rows: list[dict[str, Any]] = []
    warnings: list[str] = []
    unpriced: list[str] = []
    for every in _held(loaded):
        counted = every.records["node_count"].notna()
        held = every._replace(records=every.records[counted])
        unpriced += [] if counted.all() else [_unpriced(every, every.records[~counted])]
        if held.records.empty:
            continue
        rows, unit_warnings = _in_units(held, held.figures())
        warnings += unit_warnings
        case_rows += _cases_of(held, rows, expectations)
    if not case_rows and unpriced:
        raise BadInput("; ".join(unpriced))
    if not case_rows:
        raise BadInput(
            f"none of {len(loaded.records)} records is ok and holds a run time or a rate of"
            " tokens or of other work, so there is nothing to price"
        )
    return case_rows, [*unpriced, *warnings]


def _unpriced(held: _Held, records: pd.DataFrame) -> str:
    """A sentence on records without a number of nodes."""
    case = f"case {first(records, 'case')} ({first(records, 'source')})"
    more = f" and {len(records) - 1:,} more of {held.benchmark}" if len(records) > 1 else ""
    return (
        f"{case}{more} does not say on how many nodes it ran, so it has no cost; `trueup import"
        " --nodes` says it of logs"
    )


def _in_units(held: _Held, rows: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The figures in the view's units, and a sentence on each of the others."""
    warnings = []
    for name, unit in sorted(held.units.items()):
        is_other = (rows["name"] == name) & (rows["unit"] != unit)
        of_units = rows[is_other].groupby("unit", observed=True)["record"].nunique()
        for other_unit, several in sorted(of_units.items()):
            warnings.append(
                f"{held.benchmark}: {name} is in {other_unit}, not in {unit}, in"
                f" {several} {'record' if several == 1 else 'records'}, and does not count there."
            )
        rows = rows[~is_other]
    return rows, warnings


def _cases_of(
    held: _Held, rows: pd.DataFrame, expectations: Expectations | None
) -> list[dict[str, Any]]:
    """One row a case of one benchmark: its records pooled, in the order of reading."""
    is_placed = rows["message_bytes"].notna() | rows["device"].notna()
    single = _record_by_record(held, rows.loc[is_placed, "record"].unique(), expectations)
    names = _names(held)
    number = _numbers(names, single)
    pooled_figures = _whole(rows[~is_placed], number)
    parts: dict[int, list[dict[str, Any]]] = {}
    for record, figures in single.items():
        parts.setdefault(number[record], []).append(figures)
    case_rows = _kept(held, names, number)
    pooled = number.value_counts()
    members: dict[int, list[int]] = {}
    for record, row_number in zip(number.index.tolist(), number.tolist(), strict=True):
        members.setdefault(row_number, []).append(record)
    for group, row in enumerate(case_rows):
        case = _as_case(held, row["parameters"], pooled_figures.get(group, ()))
        row.update(_of_parts(held, parts[group]) if group in parts else _of_case(held, case, None))
        run = next(iter(case.of(_RUN_TIME)), None)
        row["run_seconds"] = math.nan if run is None else run.value
        # Where no record says its n, the sum is 0.
        row["n"] = (row["n"] if run is None else run.n) or None
        row["records"] = int(pooled[group])
        row["members"] = members[group]
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


def _names(held: _Held) -> pd.DataFrame:
    """The columns of ``_NAMES``."""
    records = held.records
    several = records["nodes"].where(records["node_count"] > 1)
    return records.assign(
        case=of_kinds(records.assign(several=several), ["case", "several"], _general),
        work=of_kinds(records, ["parameters"], lambda parameters: _work(held.view, parameters, ())),
        configuration=of_kinds(
            records, ["parameters"], lambda parameters: str(parameters.get("configuration", ""))
        ),
        version=of_kinds(
            records, ["software"], lambda software: str(software.get(held.benchmark, ""))
        ),
        # Off Azure the size says nothing, so machines are kept apart by name.
        machine=records["nodes"].where(records["vm_size"].isna()),
    )[[*_NAMES, *_RESOURCES, "parameters"]]


def _numbers(names: pd.DataFrame, single: _Single) -> pd.Series:
    """The row of each record."""
    keys = [*_NAMES, *_RESOURCES]
    if single:
        parts = [single.get(record, _NO_HEADLINE) for record in names.index]
        names = names.assign(
            metric=[head["metric"] for head in parts],
            message_bytes=[head["message_bytes"] for head in parts],
        )
        keys += ["metric", "message_bytes"]
    return alike(names, keys)


def _kept(held: _Held, names: pd.DataFrame, number: pd.Series) -> list[dict[str, Any]]:
    """The columns that rows take from the first of their records."""
    return [
        {"benchmark": held.benchmark, **row, "machine": row["machine"] or ""}
        for row in rows_of(names[~number.duplicated()])
    ]


def _general(case: str, nodes: str | None) -> str:
    """The name of a case with its nodes' names left out: that of a pair has both."""
    for node in sorted((nodes or "").split("+"), key=len, reverse=True):
        if node and node in case:
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


def _whole(rows: pd.DataFrame, number: pd.Series) -> dict[int, list[Figure]]:
    """Figures of whole cases, pooled over the records of each row: the median, and n added up.

    Args:
        number: of each record its row.
    """
    statistic = rows["statistic"].astype("str")
    pools = rows.assign(
        group=rows["record"].map(number),
        # A single measurement is the median of one; a missing one is either.
        statistic=statistic.mask(rows["statistic"].isin(MEDIANS), "median"),
    )
    by = pools.groupby(["group", "name", "statistic"], sort=False, observed=True)
    medians = by.agg(value=("value", "median"), n=("n", "sum")).reset_index()
    pooled: dict[int, list[Figure]] = {}
    for row in rows_of(medians):
        figure = Figure(
            row["name"], row["value"], "s", "lower", None, None, row["statistic"], row["n"]
        )
        pooled.setdefault(row["group"], []).append(figure)
    return pooled


def _record_by_record(
    held: _Held, records: Collection[int], expectations: Expectations | None
) -> _Single:
    """Headline figure and rates of the records that hold figures of devices or message sizes."""
    units = held.units
    by_record: _Single = {}
    for case in read_cases(held.loaded, records=records, metrics=held.needed):
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
