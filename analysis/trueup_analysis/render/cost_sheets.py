"""From costs to sheets."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from trueup_analysis.cost import GIVEN

from . import units
from .sheet import Column, Sheet, rows_of, short_size, times

if TYPE_CHECKING:
    import pandas as pd

    from trueup_analysis.cost import CostTable

__all__ = ["cost"]

_three = partial(units.fixed, digits=3)
_hours = partial(units.fixed, digits=4)


def cost(result: CostTable) -> list[Sheet]:
    """Cost by case, where the prices come from, and cost by sweep."""
    table = result.table
    # What is the same for all rows stands below the table, with the source of the price.
    place = {
        name: header if table[name].nunique(dropna=False) > 1 else None
        for name, header in (
            ("version", "version"),
            ("region", "region"),
            ("offer", "offer"),
            ("price_date", "price of"),
        )
    }
    columns = [
        Column("benchmark"),
        Column("configuration"),
        Column("case", "case", words=True),
        Column("version", place["version"], words=True),
        Column("vm_size", "size\n(Standard_)", short_size, words=True),
        Column("node_count", "nodes", units.count),
        Column("cores"),
        Column("n", "n", units.count),
        Column("records"),
        Column("run_seconds", "run\ns", units.seconds),
        Column("node_hours", "node-\nhours", partial(units.significant, digits=4)),
        Column("region", place["region"], words=True),
        Column("os"),
        Column("offer", place["offer"], words=True),
        Column("currency"),
        Column("usd_per_hour", "US$ per\nnode-h", _price),
        Column("price_date", place["price_date"], words=True),
        Column("price_source"),
        Column("usd_per_run", "US$\nper run", _price),
        Column("usd_per_gflop", "US$ per\n1e6 GFLOP", _per_million),
        Column("usd_per_gpt", "US$ per\n1e6 GPts", _per_million),
        Column("list_usd_per_hour"),
        Column("saving", "below\nlist", units.percent),
    ]
    return [
        Sheet(
            title="Cost of one run of each case (run time of the operator only; set-up bills too)",
            columns=columns,
            rows=rows_of(table),
            notes=[*_price_notes(table), *_amounts(table)],
            warnings=[*result.warnings, *result.unknown],
            facts={"kind": "cases", "currency": "USD", "unknown_prices": list(result.unknown)},
        ),
        _sweeps(result.totals, place),
    ]


def _price(value: Any) -> str:
    return "unknown" if units.is_missing(value) else units.money(value)


def _per_million(value: Any) -> str:
    return units.UNKNOWN if value is None else units.money(float(value) * 1e6)


def _price_notes(table: pd.DataFrame) -> list[str]:
    """Where the prices come from: one sentence for each region, offer, date and source."""
    priced = table[table["usd_per_hour"].notna()]
    notes = []
    for row in rows_of(priced, ("region", "os", "offer", "price_date", "price_source")):
        if row["price_source"] == GIVEN:
            notes.append(f"Prices: USD, {GIVEN}.")
            continue
        date = row["price_date"] or "unknown date"
        notes.append(
            f"Prices: USD, {row['region']}, {row['os']}, {row['offer']}, as of {date},"
            f" {row['price_source']}."
        )
    return list(dict.fromkeys(notes))


def _amounts(table: pd.DataFrame) -> list[str]:
    if table[["usd_per_gflop", "usd_per_gpt"]].isna().all(axis=None):
        return []
    return [
        (
            "GFLOP and GPts are amounts of work, not rates: 1e9 floating-point operations and 1e9"
            " updates of a grid point. 1e6 of them are the unit of a column."
        )
    ]


def _sweeps(totals: pd.DataFrame, place: dict[str, str | None]) -> Sheet:
    return Sheet(
        title="Cost of each sweep as a whole (every case once)",
        columns=[
            Column("configuration", "sweep", words=True),
            Column("version", place["version"], words=True),
            Column("vm_size", "size\n(Standard_)", short_size, words=True),
            Column("region", place["region"], words=True),
            Column("offer", place["offer"], words=True),
            Column("runs", "runs", units.count),
            Column("published_hours", "published\nh", _three),
            Column("sum_run_hours", "sum of run\ntimes h", _hours),
            Column("node_hours", "node-\nhours", _hours),
            Column("underbilled", "node-h /\nsum", times),
            Column("usd", "US$", units.money),
            Column("usd_by_sum", "US$ by\nthe sum", units.money),
        ],
        rows=rows_of(totals),
        notes=[
            (
                "What is billed is node-hours. The sum of run times is not node-hours: it leaves"
                " the node count out, and 'US$ by the sum' is what it would make of the price."
            )
        ],
        facts={"kind": "sweeps"},
    )
