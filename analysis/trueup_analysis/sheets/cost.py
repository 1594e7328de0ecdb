"""From costs to sheets."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from .. import units
from ..figures.pooling import work_priced
from ..figures.prices import GIVEN
from ..rooms import names_of, view_of
from .compare import SINCE
from .sheet import Column, Sheet, four, price, short_size, three, times, unshown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trueup_node.view import Measure, Work

    from ..figures.cost import CostTable

# A heading is no wider than its figures: its words stand one below the other.
_HEADING: Final = 12
# Columns that are shown only where they vary, with their headers.
_PLACED: Final = {
    "version": "version",
    "vm_size": "size\n(Standard_)",
    "node_count": "nodes",
    "n": "n",
    "records": "records",
    "region": "region",
    "offer": "offer",
    "usd_per_hour": "US$ per\nnode-h",
    "price_date": "price of",
}
# The columns that are named below the table otherwise (a price says the rest).
_SAID: Final = {
    "version": "Version",
    "vm_size": "Size",
    "node_count": "Nodes",
    "n": "Repeats in each row (n)",
    "records": "Records pooled in each row, by their median",
}
# The headline figure as data.
_FIGURE: Final = ("metric", "value", "unit", "message_bytes", "device", "devices")
_SET_UP: Final = "Measured time only: set-up bills too."
_WHOLE_VM: Final = (
    "US$ per unit of work = nodes x US$ per node-hour / work done in an hour at the measured rate:"
    " whole VMs are billed, whatever part of them works."
)


def cost(result: CostTable) -> list[Sheet]:
    """Cost by case, one table per benchmark, with the sources of the prices; and cost by sweep of
    cases with run times."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in result.table:
        groups.setdefault(row["benchmark"], []).append(row)
    # Notes on all tables stand below the first.
    by_work = [_WHOLE_VM] if any(map(work_priced, groups)) else []
    sheets: list[Sheet] = []
    for benchmark, rows in groups.items():
        sheets.append(_benchmark(benchmark, rows, result, [] if sheets else by_work))
    sheets[0] = replace(sheets[0], warnings=[*result.warnings, *result.unknown])
    return [*sheets, _sweeps(result.totals)] if result.totals else sheets


def answer(sentences: Sequence[str]) -> list[Sheet]:
    """The sentences on the cheapest, above all tables; nothing without any."""
    if not sentences:
        return []
    first, *others = sentences
    return [Sheet(title=first, lead=others, columns=[], rows=[])]


def _benchmark(
    benchmark: str, table: Sequence[Mapping[str, Any]], result: CostTable, of_all: Sequence[str]
) -> Sheet:
    works = work_priced(benchmark)
    headers = {name: None if _same(table, name) else _PLACED[name] for name in _PLACED}
    measures = {row["metric"]: _measure(benchmark, row["metric"]) for row in table}
    rows = [{**row, **_texts(row, works, measures)} for row in table]
    runs = any(row["run_seconds"] is not None for row in table)
    subject = "one run of each case" if runs else "the work of each case"
    return Sheet(
        title=f"Cost of {subject}: {names_of(benchmark)}",
        columns=[
            *unshown("benchmark", "configuration", "case", "apart"),
            Column("shown_case", "case", words=True, data=False),
            Column("version", headers["version"], words=True),
            Column("vm_size", headers["vm_size"], short_size, words=True),
            Column("node_count", headers["node_count"], units.count),
            Column("cores"),
            Column("n", headers["n"], units.count),
            Column("records", headers["records"], units.count),
            *unshown(*_FIGURE),
            Column("shown_figure", _figure_header(measures), words=True, data=False),
            *(SINCE if "since_shown" in rows[0] else ()),
            Column("run_seconds", "run\ns", units.seconds),
            Column("node_hours", "node-\nhours", partial(units.significant, digits=4)),
            Column("region", headers["region"], words=True),
            Column("os"),
            Column("offer", headers["offer"], words=True),
            Column("currency"),
            Column("usd_per_hour", headers["usd_per_hour"], price),
            Column("price_date", headers["price_date"], words=True),
            *unshown("price_age", "price_source", "usd_per_run"),
            Column("shown_usd_per_run", "US$\nper run", data=False),
            *(column for work in works for column in _work_columns(work)),
            Column("list_usd_per_hour"),
            Column("saving", "below\nlist", units.percent),
            *unshown("compared_by", "cheapest"),
            Column("mark", "", _star, words=True, data=False),
        ],
        rows=rows,
        notes=[*_common(rows), *_price_notes(table), _SET_UP, *of_all, *_best(table)],
        facts={"kind": "cases", "currency": "USD", "unknown_prices": list(result.unknown)},
        marks="mark",
        name=f"cost-{benchmark}",
    )


def _same(rows: Sequence[Mapping[str, Any]], name: str) -> bool:
    """Whether all rows have the same value there; of dates, those with a price."""
    if name == "price_date":
        rows = [row for row in rows if row["usd_per_hour"] is not None]
    return len({row[name] for row in rows}) <= 1


def _measure(benchmark: str, metric: str | None) -> Measure | None:
    """How the benchmark's view shows its headline figure."""
    view = view_of(benchmark)
    measures = () if view is None else view.headlines
    return next((measure for measure in measures if measure.metric == metric), None)


def _work_columns(work: Work) -> list[Column]:
    name = f"usd_per_{work.key}"
    header = "\n".join(textwrap.wrap(f"US$ per {work.unit}", _HEADING))
    return [
        Column(f"{work.key}_per_node_hour"),
        Column(name),
        Column(f"shown_{name}", header, data=False),
    ]


def _figure_header(measures: Mapping[str | None, Measure | None]) -> str | None:
    """The name of the headline figure; a run time has a column already."""
    if set(measures) <= {"run_time", None}:
        return None
    labels = {measure.label for measure in measures.values() if measure is not None}
    label = labels.pop() if len(labels) == 1 else "figure"
    return "\n".join(textwrap.wrap(label, _HEADING))


def _texts(
    row: Mapping[str, Any], works: Sequence[Work], measures: Mapping[str | None, Measure | None]
) -> dict[str, str]:
    """Texts that people read instead of a row's figures."""
    costs = {"usd_per_run": row["run_seconds"]}
    costs |= {f"usd_per_{work.key}": row[f"{work.key}_per_node_hour"] for work in works}
    return {
        "shown_case": ", ".join(text for text in (row["case"], row["apart"]) if text),
        "shown_figure": _figure(row, measures[row["metric"]], several=len(measures) > 1),
        # Without a rate there is no cost, whatever the price.
        **{
            f"shown_{name}": units.UNKNOWN if amount is None else price(row[name])
            for name, amount in costs.items()
        },
        "mark": "best" if row["cheapest"] else "",
    }


def _figure(row: Mapping[str, Any], measure: Measure | None, *, several: bool) -> str:
    """ "484.20 GB/s at 16 GiB", with its label where a table has several figures."""
    if measure is None or row["value"] is None:
        return units.UNKNOWN
    words = [measure.label] if several else []
    words += [units.in_unit(row["value"], measure.shown), measure.shown]
    if row["message_bytes"] is not None:
        words += ["at", units.size_of(row["message_bytes"])]
    text = " ".join(token for token in words if token)
    return f"{text}, slowest of {row['devices']}" if (row["devices"] or 0) > 1 else text


def _star(value: Any) -> str:
    return "*" if value == "best" else ""


def _common(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Values that are the same for all rows and therefore have no column."""
    return [
        f"{label}: {short_size(rows[0][name])}."
        for name, label in _SAID.items()
        if _same(rows, name) and rows[0][name] and (name, rows[0][name]) != ("records", 1)
    ]


def _price_notes(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Where the prices come from: one sentence for each region, offer, date and source."""
    priced = [row for row in rows if row["usd_per_hour"] is not None]
    usd = {row["usd_per_hour"] for row in rows}
    price_text = f"{units.money(usd.pop())} US$ per node-hour" if len(usd) == 1 else "USD"
    return list(dict.fromkeys(f"Prices: {price_text}, {source_of(row)}." for row in priced))


def _best(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The meaning of the mark, where there is one."""
    units_of = {f"usd_per_{work.key}": work.unit for work in work_priced(rows[0]["benchmark"])}
    by = dict.fromkeys(row["compared_by"] for row in rows if row["cheapest"])
    words = " or ".join(units_of.get(name, "run") for name in by)
    return [f"* The cheapest of the same work, by US$ per {words}."] if words else []


def _sweeps(rows: Sequence[Mapping[str, Any]]) -> Sheet:
    headers = {name: None if _same(rows, name) else name for name in ("version", "region", "offer")}
    return Sheet(
        title="Cost of each sweep as a whole (every case once)",
        columns=[
            Column("configuration", "sweep", words=True),
            Column("version", headers["version"], words=True),
            Column("vm_size", "size\n(Standard_)", short_size, words=True),
            Column("region", headers["region"], words=True),
            Column("offer", headers["offer"], words=True),
            Column("runs", "runs", units.count),
            Column("published_hours", "published\nh", three),
            Column("sum_run_hours", "sum of run\ntimes h", four),
            Column("node_hours", "node-\nhours", four),
            Column("underbilled", "node-h /\nsum", times),
            Column("usd", "US$", units.money),
            Column("usd_by_sum", "US$ by\nthe sum", units.money),
        ],
        rows=rows,
        notes=[
            (
                "Azure bills node-hours. The sum of run times leaves out the node count; 'US$ by"
                " the sum' is that sum x the price."
            )
        ],
        facts={"kind": "sweeps"},
        name="cost-sweeps",
    )


def source_of(row: Mapping[str, Any]) -> str:
    """Where the price of a row comes from: region, system, offer, date and source."""
    if row["price_source"] == GIVEN:
        return GIVEN
    date = ", ".join(filter(None, (row["price_date"], row["price_age"]))) or "unknown date"
    return f"{row['region']}, {row['os']}, {row['offer']}, as of {date}, {row['price_source']}"
