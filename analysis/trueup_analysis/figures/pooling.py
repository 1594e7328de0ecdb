"""Records pooled into cases, with the work that each did: what can be priced."""

from __future__ import annotations

import math
import re
import statistics
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd
from trueup.cases import TYPICAL, Case, Figure
from trueup.errors import BadInput

from ..cases import read_cases
from ..frames import rows_of
from . import tokens
from .views import amount_rate, headline, view_of
from .work import HOW, work_of

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

    from trueup.health.expectations import Expectations
    from trueup.view import Measure, View, Work

    from ..load import Loaded

_RUN_TIME: Final = "run_time"
_CASE_KEYS = [
    *("version", "configuration", "case", "work", "vm_size", "machine", "region", "offer"),
    *("node_count", "ranks", "threads_per_rank", "cores", "metric", "message_bytes"),
]
# A single measurement is the median of one.
_MEDIANS: Final = (None, "median", "single")
_KEPT = [
    *("record", "benchmark", "case", "nodes", "vm_size", "region", "offer", "node_count", "ranks"),
    *("threads_per_rank", "cores", "parameters", "software", "source"),
]


def has_work(loaded: Loaded) -> bool:
    """Whether any record is ok and holds a run time or a rate of work, so that ``table`` has
    rows."""
    return next(_held(loaded), None) is not None


def work_priced(benchmark: str) -> tuple[Work, ...]:
    """The units of work by which ``table`` prices a benchmark; none where it has no view."""
    view = None if benchmark == tokens.BENCHMARK else view_of(benchmark)
    return () if view is None else view.work


@dataclass(frozen=True)
class _Held:
    """The records of one benchmark that can be priced.

    Attributes:
        works: what their work is counted in.
        cases: rows of ``Loaded.cases``.
    """

    benchmark: str
    view: View | None
    works: tuple[Work, ...]
    cases: pd.DataFrame

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

    def figures(self, metrics: pd.DataFrame, *, all_records: bool) -> pd.DataFrame:
        """Their rows of ``Loaded.metrics``, of the statistics that stand for a figure."""
        wanted = {*TYPICAL, *(measure.statistic for measure in self.heads)} - {None, ""}
        typical = metrics["statistic"].isna() | metrics["statistic"].isin(wanted)
        chosen = typical & metrics["name"].isin(self.needed)
        return metrics[chosen if all_records else chosen & _among(metrics, self.cases)]


def _among(metrics: pd.DataFrame, cases: pd.DataFrame) -> pd.Series:
    """Which figures are of these records."""
    return metrics["record"].isin(cases["record"])


def _held(loaded: Loaded) -> Iterator[_Held]:
    """The benchmarks that can be priced, in the order of reading."""
    ok = (loaded.cases["outcome"] == "ok") & (loaded.cases["benchmark"] != tokens.BENCHMARK)
    cases = loaded.cases.loc[ok, _KEPT]
    names, records = loaded.metrics["name"], loaded.metrics["record"]
    for benchmark in cases["benchmark"].unique():
        works = work_priced(benchmark)
        group = cases[cases["benchmark"] == benchmark]
        worked = group["record"].isin(records[names == _RUN_TIME].unique())
        for work in works:
            held = records[names.isin((work.rate, *work.also))].unique()
            worked |= group["record"].isin(held) & _did(group["parameters"], work)
        if worked.any():
            view = view_of(benchmark) if works else None
            yield _Held(benchmark, view, works, group[worked])


def _did(parameters: pd.Series, work: Work) -> pd.Series | bool:
    """Which cases did such work, as far as their parameters say."""
    if not work.parameter:
        return True
    told = [str(item.get(work.parameter)) == work.value for item in parameters]
    return pd.Series(told, index=parameters.index)


def rows_to_price(
    loaded: Loaded, expectations: Expectations | None
) -> tuple[pd.DataFrame, list[str]]:
    """One row a case, and what must be said of figures in another unit than their view's."""
    made: list[dict[str, Any]] = []
    warnings = []
    for held in _held(loaded):
        if held.cases["node_count"].isna().any():
            row = held.cases[held.cases["node_count"].isna()].iloc[0]
            raise BadInput(
                f"case {row['case']} ({row['source']}) does not say on how many nodes it ran,"
                " so it cannot be priced"
            )
        everything = len(held.cases) == len(loaded.cases)
        rows, said = _in_units(held, held.figures(loaded.metrics, all_records=everything))
        warnings += said
        made += _cases_of(held, loaded, rows, expectations)
    if not made:
        raise BadInput(
            f"none of {len(loaded.cases)} records is ok and holds a run time or a rate of tokens"
            " or of other work, so there is nothing to price"
        )
    whole_numbers = ["node_count", "cores", "n", "message_bytes", "devices"]
    return pd.DataFrame(made).astype(dict.fromkeys(whole_numbers, "Int64")), warnings


def _in_units(held: _Held, rows: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The figures in the view's units, and a sentence on each of the others."""
    said = []
    for name, unit in sorted(held.units.items()):
        other = rows[(rows["name"] == name) & (rows["unit"] != unit)]
        for found, group in other.groupby("unit", observed=True):
            several = group["record"].nunique()
            said.append(
                f"{held.benchmark}: {name} is in {found}, not in {unit}, in"
                f" {several} {'record' if several == 1 else 'records'}, and does not count there."
            )
        if not other.empty:
            rows = rows.drop(other.index)
    return rows, said


def _cases_of(
    held: _Held, loaded: Loaded, rows: pd.DataFrame, expectations: Expectations | None
) -> list[dict[str, Any]]:
    """One row a case of one benchmark: its records pooled, in the order of reading."""
    placed = (rows["message_bytes"].notna() | rows["device"].notna()).to_numpy()
    single = _record_by_record(held, loaded, set(rows.loc[placed, "record"]), expectations)
    cases = _keyed(held, single)
    number = cases.groupby(_CASE_KEYS, dropna=False, sort=False).ngroup().to_numpy()
    of_record = pd.Series(number, index=cases["record"].to_numpy())
    whole = _whole(rows[~placed], of_record)
    parts: dict[int, list[dict[str, Any]]] = {}
    for group, part in zip(of_record.reindex(list(single)), single.values(), strict=True):
        parts.setdefault(int(group), []).append(part)
    first = cases[~pd.Series(number).duplicated().to_numpy()]
    kept = rows_of(first.drop(columns=["record", "metric", "message_bytes"]))
    records = np.bincount(number)
    for group, row in enumerate(kept):
        case = _as_case(held, row["parameters"], whole.get(group, ()))
        row.update(_of_parts(held, parts[group]) if group in parts else _of_case(held, case, None))
        run = next(iter(case.of(_RUN_TIME)), None)
        row["run_seconds"] = math.nan if run is None else run.value
        # Where no record says its n, the sum is 0.
        row["n"] = (row["n"] if run is None else run.n) or None
        row["records"] = int(records[group])
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


def _keyed(held: _Held, single: Mapping[int, Mapping[str, Any]]) -> pd.DataFrame:
    """The records with what tells rows apart."""
    cases = held.cases
    places = [single.get(record, {}) for record in cases["record"]] if single else [{}] * len(cases)
    names = cases["case"].to_numpy(object, copy=True)
    for place in np.flatnonzero((cases["node_count"] > 1).to_numpy()):
        names[place] = _general(names[place], cases["nodes"].iloc[place])
    return cases.drop(columns=["nodes", "software", "source"]).assign(
        case=names,
        work=_texts(cases["parameters"], lambda one: _work(held.view, one, ())),
        configuration=_texts(cases["parameters"], lambda one: str(one.get("configuration", ""))),
        version=_texts(cases["software"], lambda one: str(one.get(held.benchmark, ""))),
        # Off Azure the size says nothing, so machines are kept apart by name.
        machine=cases["nodes"].where(cases["vm_size"].isna(), ""),
        metric=np.array([place.get("metric") for place in places], dtype=object),
        message_bytes=np.array([place.get("message_bytes") for place in places], dtype=object),
    )


def _texts(column: pd.Series, text: Callable[[Mapping[str, Any]], str]) -> Any:
    """A text for each mapping. Equal ones are one object (see packed), so most are made once."""
    values = column.to_numpy()
    codes, firsts = np.unique(list(map(id, values)), return_index=True, return_inverse=True)[2:0:-1]
    return np.array([text(values[place]) for place in firsts], dtype=object)[codes]


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


def _whole(rows: pd.DataFrame, of_record: pd.Series) -> dict[int, list[Figure]]:
    """Figures of whole cases, pooled over the records of each row: the median, and n added up."""
    if rows.empty:
        return {}
    names, statistics = pd.Categorical(rows["name"]), pd.Categorical(rows["statistic"])
    # A single measurement is the median of one; missing (-1) is either.
    words = [*statistics.categories, None]
    same = [words.index(one) if one not in _MEDIANS else -1 for one in words]
    keys = [
        of_record.reindex(rows["record"]).to_numpy(),
        names.codes,
        np.array(same)[statistics.codes],
    ]
    grouped = rows[["value", "n"]].groupby(keys, sort=False)
    values, counts = grouped["value"].median(), grouped["n"].sum()
    pooled: dict[int, list[Figure]] = {}
    for (group, name, statistic), value, n in zip(values.index, values, counts, strict=True):
        word = "median" if statistic == -1 else words[statistic]
        figure = Figure(names.categories[name], value, "s", "lower", None, None, word, int(n))
        pooled.setdefault(int(group), []).append(figure)
    return pooled


def _record_by_record(
    held: _Held, loaded: Loaded, records: set[int], expectations: Expectations | None
) -> dict[int, dict[str, Any]]:
    """Headline figure and rates of the records that hold figures of devices or message sizes."""
    units = held.units
    found = {}
    for case in read_cases(loaded, records=records, metrics=held.needed) if records else ():
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
