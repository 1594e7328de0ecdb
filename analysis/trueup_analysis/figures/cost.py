"""The cost of runs and of their work: node-hours and US$ from run times, rates of work and
catalog/prices.csv."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from .. import units
from ..packed import values
from .frames import of_whole_case
from .pooling import rows_to_price, work_priced
from .prices import Pricing
from .terms import OWN, Terms

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trueup_node.health.expectations import Expectations

    from ..load import Loaded
    from .sizes import Sizes
    from .tokens import TokenTable

_MILLION_TOKENS: Final = "usd_per_million_total_tokens"
# More sentences than these are a table.
_MOST_SENTENCES: Final = 3


@dataclass(frozen=True)
class CostTable:
    """Cost by case, and by sweep. An unknown value is None.

    Attributes:
        table: one row a case, in the order of reading, the benchmarks one after the other. Pooled
            are repeats over runs and, on Azure, over nodes of a size; apart are versions of the
            tool, other work under the same name, and machines off Azure. Columns: benchmark,
            version (of the tool, "" when unknown), configuration (the publication's set-up or ""),
            case, apart (differences from other rows of the case, or ""), vm_size (as billed),
            node_count, cores, n (repeats), records, metric, value, unit, message_bytes, device,
            devices (the headline figure, median over the records, in base units; the device where
            all have the same), run_seconds (median), node_hours, region, os, offer, currency
            ("USD"), usd_per_hour (one node), price_date (text; "" when undated), price_source,
            usd_per_run, ``<key>_per_node_hour`` and ``usd_per_<key>`` of every unit of work of the
            benchmark's view, list_usd_per_hour (pay-as-you-go, same size and region), saving
            (fraction of the list price; missing unless the offer is cheaper), compared_by (the
            column by which rows of the same work are compared; "" where a row is alone), cheapest
            (bool: the least of that column, ties included).
        totals: one row a sweep of cases with run times: configuration, version, vm_size, region,
            offer, runs, sum_run_hours (sum of run times, not node-hours), published_hours (the sum
            that a publication prints), node_hours, usd, usd_by_sum (the bill for the sum of run
            times), underbilled (node_hours / sum_run_hours).
        warnings: sentences. unknown: rows without a price, and why, one sentence each.
    """

    table: list[dict[str, Any]]
    totals: list[dict[str, Any]]
    warnings: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    @property
    def has_prices(self) -> bool:
        """Whether the price of any row is known."""
        return any(row["usd_per_hour"] is not None for row in self.table)


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
    for row in rows:
        row["node_hours"] = row["node_count"] * row["run_seconds"] / 3600
        row["usd_per_run"] = row["node_hours"] * row["usd_per_hour"]
        for work in work_priced(row["benchmark"]):
            row[f"usd_per_{work.key}"] = row["usd_per_hour"] / row[f"{work.key}_per_node_hour"]
    _mark_cheapest(rows)
    return CostTable(
        table=[units.known(row) for row in rows],
        totals=[units.known(row) for row in _totals(rows, loaded)],
        warnings=[*pricing.warnings(), *mismatched],
        unknown=pricing.unknown(),
    )


# Below this, costs of the same work differ by rounding only.
_TIE: Final = 1e-9
# Rows that agree in these are of the same work.
_COMPARED: Final = ("benchmark", "same_work", "metric", "message_bytes")


def _mark_cheapest(rows: Sequence[dict[str, Any]]) -> None:
    """Say of each row by which column it is compared with others of the same work, and whether it
    is the cheapest of them.

    That column is the first unit of work that most of them have a cost in, else the run.
    """
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        row |= {"compared_by": "", "cheapest": False}
        groups.setdefault(tuple(row[name] for name in _COMPARED), []).append(row)
    for (benchmark, *_), same in groups.items():
        columns = [*(f"usd_per_{work.key}" for work in work_priced(benchmark)), "usd_per_run"]
        priced = {name: [row for row in same if not math.isnan(row[name])] for name in columns}
        column = max(columns, key=lambda name: len(priced[name]))
        if len(priced[column]) > 1:
            least = min(row[column] for row in priced[column])
            for row in priced[column]:
                row["compared_by"] = column
                row["cheapest"] = row[column] <= least * (1 + _TIE)


def _totals(rows: Sequence[Mapping[str, Any]], loaded: Loaded) -> list[dict[str, Any]]:
    """The cost of each sweep as a whole, beside the plain sum of its run times."""
    printed = _published_hours(loaded)
    sweeps: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        if not math.isnan(row["run_seconds"]):
            # A publication's table is one sweep whatever its sizes; measured cases are one sweep
            # for each benchmark, version, machine and way of being billed, so that each case counts
            # once.
            named = row["configuration"]
            label = named or row["benchmark"]
            where = "" if named else row["vm_size"] or row["machine"]
            key = (label, where, row["version"], row["region"], row["offer"])
            sweeps.setdefault(key, []).append(row)
    return [_total(key, same, printed.get(key[0], math.nan)) for key, same in sweeps.items()]


def _published_hours(loaded: Loaded) -> dict[str, float]:
    """The sum of run times that a publication prints, by configuration."""
    sums = loaded.records[loaded.records["benchmark"] == "devito_sums"]
    seconds = of_whole_case(loaded.figures, metric="wall_clock_sum").reindex(sums.index)
    return {
        parameters["configuration"]: run_seconds / 3600
        for parameters, run_seconds in zip(values(sums["parameters"]), seconds, strict=True)
    }


def _total(
    key: tuple[Any, ...], rows: Sequence[Mapping[str, Any]], published_hours: float
) -> dict[str, Any]:
    configuration, _, version, region, offer = key
    sizes = list(dict.fromkeys(row["vm_size"] for row in rows if row["vm_size"] is not None))
    seconds, usd_per_hour, node_hours, usd = (
        np.array([row[name] for row in rows])
        for name in ("run_seconds", "usd_per_hour", "node_hours", "usd_per_run")
    )
    hours = float(seconds.sum()) / 3600
    return {
        "configuration": configuration,
        "version": version,
        "region": region,
        "offer": offer,
        "vm_size": sizes[0] if len(sizes) == 1 else (f"{len(sizes)} sizes" if sizes else None),
        "runs": len(rows),
        "sum_run_hours": hours,
        "published_hours": published_hours,
        "node_hours": float(node_hours.sum()),
        "usd": float(usd.sum()),
        "usd_by_sum": float((seconds / 3600 * usd_per_hour).sum()),
        "underbilled": float(node_hours.sum()) / hours,
    }


class _Offer(NamedTuple):
    """What is billed."""

    vm_size: str
    region: str | None
    offer: str | None


def cheapest_of_tokens(result: TokenTable, sizes: Sizes) -> list[str]:
    """For each model the cheapest offer of those that served the same cases, at its cheapest one of
    these."""
    models: dict[str, dict[_Offer, dict[str, float]]] = {}
    for row in result.table:
        if row[_MILLION_TOKENS] is not None and row["vm_size"] is not None:
            by_case = models.setdefault(row["model"], {}).setdefault(_offer(row), {})
            price = row[_MILLION_TOKENS]
            by_case[row["case"]] = min(price, by_case.get(row["case"], price))
    return list(_sentences(_of_models(models, sizes)))


def _of_models(
    models: Mapping[str, Mapping[_Offer, Mapping[str, float]]], sizes: Sizes
) -> Iterator[str]:
    for model, by_offer in models.items():
        common = set.intersection(*(set(by_case) for by_case in by_offer.values()))
        if len(by_offer) > 1 and common:
            costs = {
                offer: min(by_case[case] for case in common) for offer, by_case in by_offer.items()
            }
            yield _sentence(costs, "million tokens", model, sizes)


def cheapest_of_work(result: CostTable, sizes: Sizes) -> list[str]:
    """For each piece of work the cheapest of several offers."""
    groups: dict[tuple[Any, ...], dict[_Offer, float]] = {}
    for row in result.table:
        column = row["compared_by"]
        if column and row["vm_size"] is not None:
            key = (row["benchmark"], row["case"], column, row["same_work"], row["message_bytes"])
            costs = groups.setdefault(key, {})
            offer = _offer(row)
            costs[offer] = min(row[column], costs.get(offer, row[column]))
    sentences = (
        _sentence(costs, _unit(benchmark, column), f"{benchmark} {case}", sizes)
        for (benchmark, case, column, *_), costs in groups.items()
        if len(costs) > 1
    )
    return list(_sentences(sentences))


def _sentences(each: Iterator[str]) -> Iterator[str]:
    """All of a few sentences; none of many, which nobody reads."""
    sentences = list(each)
    yield from sentences if len(sentences) <= _MOST_SENTENCES else ()


def _unit(benchmark: str, column: str) -> str:
    """What a column's cost is of."""
    names = {f"usd_per_{work.key}": work.unit for work in work_priced(benchmark)}
    return names.get(column, "run")


def _offer(row: Mapping[str, Any]) -> _Offer:
    return _Offer(row["vm_size"], row["region"], row["offer"])


def _sentence(costs: Mapping[_Offer, float], unit: str, work: str, sizes: Sizes) -> str:
    """ "H200: 2.16 US$ per million tokens, 32 % below H100 (llama)"."""
    names = _names(list(costs), sizes)
    first, *others = sorted(costs, key=lambda offer: costs[offer])
    compared = [
        f"{units.percent(1 - costs[first] / costs[other])} below {names[other]}" for other in others
    ]
    end = f" ({work})" if work else ""
    cost = f"{units.money(costs[first])} US$ per {unit}"
    return f"{names[first]}: {cost}, {' and '.join(compared)}{end}."


def _names(offers: Sequence[_Offer], sizes: Sizes) -> dict[_Offer, str]:
    """The shortest names that tell offers apart: of GPUs, else of sizes, with region and offer
    where these differ."""
    vm_sizes = {offer.vm_size for offer in offers}
    gpus = {size: sizes.text(size, "gpu_model").partition("-")[0] for size in vm_sizes}
    by_gpu = all(gpus.values()) and len(set(gpus.values())) == len(vm_sizes)
    varying = [
        field
        for field in ("region", "offer")
        if len({getattr(offer, field) for offer in offers}) > 1
    ]
    return {
        offer: " ".join(
            [
                gpus[offer.vm_size] if by_gpu else offer.vm_size.removeprefix("Standard_"),
                *(str(getattr(offer, field) or "") for field in varying),
            ]
        ).strip()
        for offer in offers
    }
