"""``trueup cost``: the cost of records."""

from __future__ import annotations

from typing import Annotated

import typer

from .interface import Common, Format, examples, flag, say_all, say_warnings, taking
from .records import (
    Billing,
    Changes,
    RecordQuery,
    deltas_of,
    end_incomplete,
    filters,
    load_with_others,
    say_notes,
)

app = typer.Typer()


@app.command(
    epilog=examples(
        "trueup cost --region eastus",
        "trueup cost --region southcentralus --offer spot",
        "trueup cost --size Standard_HB120rs_v3 --region eastus  # as if there",
        "trueup cost --price 3.60 --format json",
        "trueup cost --region eastus2 --api-price 0.60   # vLLM against an API",
        "trueup cost --ttft-ms 500 --tpot-ms 50          # sweeps by a service level",
        "trueup cost --region eastus --users 5           # US$ per user-hour",
        "trueup cost --region eastus --changes  # beside the run before",
        "trueup cost catalog/reference_results.csv       # published tables",
    ),
)
@taking(query=filters, billing=Billing, common=Common)
def cost(
    *,
    query: RecordQuery,
    billing: Billing,
    changes: Changes = False,
    strict: Annotated[bool, flag("--strict", "Exit 1 when a price is unknown.")] = False,
    common: Common,
) -> None:
    """Node-hours (nodes x run time), US$ per run, and US$ by the unit that each benchmark's work is
    counted in (PFLOP, TB, ns, billion grid points, million samples or tokens), the cheapest marked;
    US$ per user-hour of sessions that share a host, at the base and the Windows rate. Published
    rates of tokens are priced on their article's own terms too."""
    from ..sheets.cost import answer
    from ..tables.cost import cost as costs_of

    terms, level = billing.terms(), billing.level()
    every, loaded = load_with_others(*query)
    costs = costs_of(
        loaded,
        terms=terms,
        level=level,
        api=billing.api(loaded),
        catalog=common.catalog,
        deltas=deltas_of(every, loaded) if changes else None,
        tell=say_all,
    )
    tables = [*costs.sheets]
    if common.format_ in (Format.table, Format.markdown):
        tables = [*answer(costs.cheapest), *tables]
    common.write(tables)
    say_notes(loaded)
    say_warnings(tables)
    if strict and costs.unknown:
        raise typer.Exit(1)
    end_incomplete(loaded)
