"""What runs and their work cost: node-hours and US$ from run times, rates of work and
catalog/prices.csv."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from ..load import Loaded
from .by_record import ByRecord
from .pooling import rows_to_price, work_priced
from .prices import OWN, Pricing, Terms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trueup.health.expectations import Expectations


@dataclass(frozen=True)
class CostTable:
    """Cost by case, and by sweep. What is unknown is a missing value in the sense of
    ``pandas.isna``.

    Attributes:
        table: one row a case, in the order of reading, the benchmarks one after the other. Pooled
            are repeats over runs and, on Azure, over nodes of a size; apart are versions of the
            tool, other work under the same name, and machines off Azure. Columns: benchmark,
            version (of the tool, "" when unknown), configuration (the publication's set-up or ""),
            case, apart (what else tells it from rows of the same case, or ""), vm_size (as billed),
            node_count, cores, n (repeats), records, metric, value, unit, message_bytes, device,
            devices (the headline figure, median over the records, in base units; the device where
            all have the same), run_seconds (median), node_hours, region, os, offer, currency
            ("USD"), usd_per_hour (one node), price_date (text; "" when undated), price_source,
            usd_per_run, ``<key>_per_node_hour`` and ``usd_per_<key>`` of every unit of work of the
            benchmarks' views (missing in the rows of others), list_usd_per_hour (pay-as-you-go,
            same size and region), saving (fraction of the list price; missing unless the offer is
            cheaper), compared_by (the column by which rows of the same work are compared; "" where
            a row is alone), cheapest (bool: the least of that column, ties included).
        totals: one row a sweep of what has run times: configuration, version, vm_size, region,
            offer, runs, sum_run_hours (sum of run times, not node-hours), published_hours (what a
            publication prints for it), node_hours, usd, usd_by_sum (what the sum of run times would
            bill), underbilled (node_hours / sum_run_hours).
        warnings: sentences. unknown: what has no price, and why, one sentence each.
    """

    table: pd.DataFrame
    totals: pd.DataFrame
    warnings: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    @property
    def has_prices(self) -> bool:
        """Whether the price of any row is known."""
        return bool(self.table["usd_per_hour"].notna().any())


def table(
    loaded: Loaded,
    *,
    prices: Sequence[Mapping[str, Any]],
    terms: Terms = OWN,
    expectations: Expectations | None = None,
) -> CostTable:
    """Cost of every case with outcome ok and a run time or a rate of work, published ones too; not
    of vLLM's, whose tokens ``tokens.table`` prices.

    Args:
        prices: as ``read_prices`` gives them.
        expectations: they say at which message size a figure counts; else the largest.

    Raises:
        BadInput: no such case, or a case without a node count.
    """
    pricing = Pricing(prices, terms)
    unpriced, mismatched = rows_to_price(loaded, expectations)
    rows = pricing.rows(unpriced)
    rows["node_hours"] = rows["node_count"].astype(float) * rows["run_seconds"] / 3600
    rows["usd_per_run"] = rows["node_hours"] * rows["usd_per_hour"]
    keys = list(dict.fromkeys(work.key for name in rows["benchmark"] for work in work_priced(name)))
    for key in keys:
        rows[f"usd_per_{key}"] = rows["usd_per_hour"] / rows[f"{key}_per_node_hour"]
    rows["compared_by"], rows["cheapest"] = _cheapest(rows)
    return CostTable(
        table=rows,
        totals=_totals(rows, loaded),
        warnings=[*pricing.warnings(), *mismatched],
        unknown=pricing.unknown(),
    )


_TOTALS = [
    *("configuration", "version", "region", "offer", "vm_size", "runs", "sum_run_hours"),
    *("published_hours", "node_hours", "usd", "usd_by_sum", "underbilled"),
]
# Below this, costs of the same work differ by rounding only.
_TIE: Final = 1e-9
# Rows that agree in these are of the same work.
_COMPARED: Final = ("benchmark", "same_work", "metric", "message_bytes")


def _cheapest(rows: pd.DataFrame) -> tuple[list[str], list[bool]]:
    """Of each row the column by which it is compared with others of the same work, and whether it
    is the cheapest of them.

    That column is the first unit of work that most of them have a cost in, else the run.
    """
    by, cheapest = [""] * len(rows), [False] * len(rows)
    groups: dict[tuple[Any, ...], list[int]] = {}
    for place, keys in enumerate(zip(*(rows[name].tolist() for name in _COMPARED), strict=True)):
        groups.setdefault(tuple(str(key) for key in keys), []).append(place)
    costs = {name: rows[name].tolist() for name in rows if str(name).startswith("usd_per_")}
    for (benchmark, *_), same in groups.items():
        columns = [*(f"usd_per_{work.key}" for work in work_priced(benchmark)), "usd_per_run"]
        known = {
            name: [place for place in same if not math.isnan(costs[name][place])]
            for name in columns
        }
        column = max(columns, key=lambda name: len(known[name]))
        if len(known[column]) > 1:
            least = min(costs[column][place] for place in known[column])
            for place in known[column]:
                by[place] = column
                cheapest[place] = costs[column][place] <= least * (1 + _TIE)
    return by, cheapest


def _totals(rows: pd.DataFrame, loaded: Loaded) -> pd.DataFrame:
    """What each sweep costs as a whole, beside the plain sum of its run times."""
    published = ByRecord(loaded).median("wall_clock_sum")
    sums = loaded.cases[loaded.cases["benchmark"] == "devito_sums"]
    printed = {
        parameters["configuration"]: float(published[record]) / 3600
        for record, parameters in zip(sums["record"], sums["parameters"], strict=True)
    }
    rows = rows[rows["run_seconds"].notna()]
    # A publication's table is one sweep whatever its sizes; measured cases are one sweep for each
    # benchmark, version, machine and way of being billed, so that each case counts once.
    named = rows["configuration"] != ""
    label = rows["configuration"].where(named, rows["benchmark"])
    where = rows["vm_size"].astype(object).fillna(rows["machine"]).where(~named, "")
    keys = [label.rename("label"), where.rename("where"), "version", "region", "offer"]
    found = []
    for (configuration, _, version, region, offer), group in rows.groupby(
        keys, sort=False, dropna=False
    ):
        sizes = [str(size) for size in group["vm_size"].dropna().unique()]
        hours = float(group["run_seconds"].sum()) / 3600
        node_hours = float(group["node_hours"].sum())
        usd = float(group["usd_per_run"].sum(min_count=len(group)))
        by_sum = float(
            (group["run_seconds"] / 3600 * group["usd_per_hour"]).sum(min_count=len(group))
        )
        found.append(
            {
                "configuration": configuration,
                "version": version,
                "region": region,
                "offer": offer,
                "vm_size": sizes[0]
                if len(sizes) == 1
                else (f"{len(sizes)} sizes" if sizes else None),
                "runs": len(group),
                "sum_run_hours": hours,
                "published_hours": printed.get(str(configuration), float("nan")),
                "node_hours": node_hours,
                "usd": usd,
                "usd_by_sum": by_sum,
                "underbilled": node_hours / hours,
            }
        )
    return pd.DataFrame(found, columns=_TOTALS)
