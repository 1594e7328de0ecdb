"""Lists of prices and sizes: the newest price of each, its age, and the changes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, Final

from trueup_node.errors import BadInput
from trueup_node.suggest import did_you_mean

from .lifecycle import ended
from .prices import day_of_reading, region_name, standing
from .sizes import gpu_fraction

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Key = tuple[str, str, str, str]
_KEY: Final = ("size", "region", "os", "offer")
# The columns of catalog/vm_sizes.csv that are numbers, and their names in a list of sizes.
_FIGURES: Final = {
    "vcpus": "cores",
    "memory_gib": "memory_gib",
    "gpus": "gpus",
    "gpu_memory_gib": "gpu_memory_gib",
    "rdma_nics": "rdma_nics",
    "rdma_gbps_per_nic": "rdma_gbps_per_nic",
    "nvme_disks": "nvme_disks",
}


@dataclass(frozen=True)
class PriceQuery:
    """Which prices are meant, in any case, a region as "East US" too; None is any."""

    size: str | None = None
    region: str | None = None
    os: str | None = None
    offer: str | None = None

    def of(self, row: Mapping[str, Any]) -> bool:
        return all(
            requested is None or str(row[name]).lower() == region_name(requested)
            for name, requested in vars(self).items()
        )


def newest(rows: Iterable[Mapping[str, Any]]) -> dict[Key, Mapping[str, Any]]:
    """Of each size, region, system and offer the row with the newest date; one without a date is
    older than any."""
    by_key: dict[Key, Mapping[str, Any]] = {}
    for row in rows:
        key = (row["size"], row["region"], row["os"], row["offer"])
        if key not in by_key or row["as_of_date"] > by_key[key]["as_of_date"]:
            by_key[key] = row
    return by_key


def chosen(prices: Sequence[Mapping[str, Any]], query: PriceQuery, today: date) -> list[Any]:
    """The newest prices that are meant, with ``age_days``.

    Raises:
        BadInput: there is none.
    """
    rows = [
        {**row, "age_days": standing(row["as_of_date"], row["notes"], today).age_days}
        for row in newest(row for row in prices if query.of(row)).values()
    ]
    if not rows:
        query_text = ", ".join(
            f"{name} {requested}" for name, requested in vars(query).items() if requested
        )
        hints = [
            did_you_mean(requested, sorted({row[name] for row in prices}))
            for name, requested in vars(query).items()
            if requested and region_name(requested) not in {row[name].lower() for row in prices}
        ]
        raise BadInput(f"no price of {query_text or 'anything'}{''.join(hints)}")
    return sorted(rows, key=lambda row: [row[name] for name in _KEY])


def changes(
    before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Changes by newer prices: a row for each that differs or is new, with ``change`` as a part of
    the earlier price, NaN where there was none. Both hold US$ an hour."""
    earlier_prices, rows = newest(before), []
    for key, row in sorted(newest(after).items()):
        earlier = earlier_prices.get(key)
        was = math.nan if earlier is None else earlier["usd_per_hour"]
        if was == row["usd_per_hour"] or (earlier and earlier["as_of_date"] > row["as_of_date"]):
            continue
        rows.append(
            {
                **dict(zip(_KEY, key, strict=True)),
                "earlier_usd_per_hour": was,
                "earlier_date": earlier["as_of_date"] if earlier else "",
                "usd_per_hour": row["usd_per_hour"],
                "as_of_date": row["as_of_date"],
                "change": row["usd_per_hour"] / was - 1,
            }
        )
    return rows


@dataclass(frozen=True)
class Needs:
    """The properties that a size must have."""

    gpu: str | None = None
    gpus: int | None = None
    rdma: bool = False
    family: str | None = None
    memory_gib: float | None = None
    retired: bool = False


def sizes(
    rows: Sequence[Mapping[str, str]],
    needs: Needs,
    prices: Sequence[Mapping[str, Any]],
    query: PriceQuery,
    today: date,
) -> list[dict[str, Any]]:
    """The sizes of catalog/vm_sizes.csv that meet the needs, with their price: that of the
    region asked for, or else the lowest of all regions and which one that is. One that is retired
    counts only where these are asked for.

    Raises:
        BadInput: there is none, or no size has such a GPU or is of that family.
    """
    _refuse_strange(rows, needs)
    size_rows = []
    for row in rows:
        listed = {ours: _number(row[column]) for column, ours in _FIGURES.items()}
        if not _fits(row, listed, needs, today):
            continue
        size_query = PriceQuery(row["size"], query.region, query.os, query.offer)
        price = lowest(prices, size_query, today)
        as_of = price.get("as_of_date", "")
        age = standing(as_of, "", today)
        usd = price.get("usd_per_hour", math.nan)
        gpus = listed["gpus"] * gpu_fraction(row)
        size_rows.append(
            {
                "size": row["size"],
                "family": row["family"],
                "gpu_model": row["gpu_model"],
                "status": _status(row),
                **listed,
                "usd_per_hour": usd,
                "usd_per_gpu_hour": usd / gpus if gpus else math.nan,
                "region": price.get("region", ""),
                "price_date": as_of,
                "price_age": age.age,
                "age_days": age.age_days,
            }
        )
    if not size_rows:
        raise BadInput("no size of the catalog has all of that; ask for less")
    return size_rows


def _refuse_strange(rows: Sequence[Mapping[str, str]], needs: Needs) -> None:
    """Refuse a GPU or a family that no size has."""
    models = sorted({row["gpu_model"] for row in rows} - {""})
    families = sorted({row["family"] for row in rows} - {""})
    if needs.gpu is not None and not any(needs.gpu.lower() in model.lower() for model in models):
        raise BadInput(f"--gpu {needs.gpu}: no size has one; there are {', '.join(models)}")
    if needs.family is not None and needs.family.lower() not in families:
        raise BadInput(
            f"--family {needs.family}: no size is of it{did_you_mean(needs.family, families)};"
            f" there are {', '.join(families)}"
        )


def _fits(row: Mapping[str, str], listed: Mapping[str, float], needs: Needs, today: date) -> bool:
    """Whether a size meets the needs; an unknown figure does not."""
    return (
        (needs.gpu is None or needs.gpu.lower() in row["gpu_model"].lower())
        and (needs.gpus is None or listed["gpus"] == needs.gpus)
        and (not needs.rdma or listed["rdma_nics"] > 0)
        and (needs.family is None or row["family"] == needs.family.lower())
        and (needs.memory_gib is None or listed["memory_gib"] >= needs.memory_gib)
        and (needs.retired or not ended(row["status"], today))
    )


def _status(row: Mapping[str, str]) -> str:
    closed = row.get("closed_since")
    parts = (row["status"], closed and f"closed to new subscriptions since {closed}")
    return ", ".join(text for text in parts if text) or "unknown"


def lowest(
    prices: Sequence[Mapping[str, Any]], query: PriceQuery, on: date | None = None
) -> Mapping[str, Any]:
    """The lowest of the newest prices that are meant and may rank; empty without one.

    Args:
        on: the day of reading; else today.
    """
    day = on or day_of_reading()
    candidates = newest(
        row
        for row in prices
        if query.of(row) and not standing(row["as_of_date"], row["notes"], day).refusal
    ).values()
    return min(candidates, key=lambda row: float(row["usd_per_hour"]), default={})


def _number(text: str) -> float:
    if not text:
        return math.nan
    return int(text) if text.isdecimal() else float(text)
