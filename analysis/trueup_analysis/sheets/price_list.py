"""From lists of prices and sizes to sheets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import units
from .sheet import Column, Sheet, price, short_size, unshown, worded

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..spot import Evictions, History

_SIZE = Column("size", "size", short_size, words=True)
# Columns that identify a price.
_PRICED = (_SIZE, *worded("region", "os", "offer"))
_AGE = Column("age_days", "age\ndays", units.count)


def prices(rows: Sequence[Mapping[str, Any]]) -> Sheet:
    """Prices as they count, the newest of each."""
    undated = sum(not row["as_of_date"] for row in rows)
    notes = [f"{units.plural(undated, 'price')} without a date: they count nowhere."]
    return Sheet(
        title=f"{units.plural(len(rows), 'price')}, the newest of each",
        columns=[
            *_PRICED,
            Column("usd_per_hour", "US$/h", price),
            Column("as_of_date", "as of"),
            _AGE,
            Column("source", "source", words=True),
            *unshown("notes"),
        ],
        rows=rows,
        notes=notes if undated else [],
        facts={"kind": "prices", "currency": "USD"},
    )


def services(rows: Sequence[Mapping[str, Any]]) -> Sheet:
    """Prices of everything beside VMs, the newest of each."""
    return Sheet(
        title=f"{units.plural(len(rows), 'price')} of services, the newest of each",
        columns=[
            *worded("item", "region"),
            Column("usd", "US$", price),
            Column("unit", "a", words=True),
            Column("from_units", "from", units.count),
            Column("as_of_date", "as of"),
            _AGE,
            Column("source", "source", words=True),
            *unshown("notes"),
        ],
        rows=rows,
        notes=[
            "A month has 730 hours. `from`: units of a month from which the price holds.",
            "The region global holds everywhere.",
        ],
        facts={"kind": "service_prices", "currency": "USD"},
    )


def spots(histories: Sequence[History], rates: Sequence[Evictions]) -> Sheet:
    """Spot prices, their range in 90 days, and eviction rates."""
    by_place = {(rate.size, rate.region): rate for rate in rates}
    rows = []
    for each in histories:
        rate = by_place.pop((each.size, each.region), None)
        rows.append({**each._asdict(), **_rate(rate)})
    rows += [
        {"size": size, "region": region, "os": "", **dict.fromkeys(_SPOT, None), **_rate(rate)}
        for (size, region), rate in by_place.items()
    ]
    return Sheet(
        title=f"{units.plural(len(rows), 'spot price')}",
        columns=[
            _SIZE,
            *worded("region", "os"),
            Column("usd_per_hour", "US$/h", price),
            Column("low", "lowest", price),
            Column("high", "highest", price),
            Column("entries", "prices", units.count),
            Column("evicted", "taken away\n% an hour", words=True),
            *unshown("evicted_low_percent", "evicted_high_percent"),
        ],
        rows=rows,
        notes=["Lowest and highest of the last 90 days; taken away: of the last 28 days."],
        facts={"kind": "spot_prices", "currency": "USD"},
    )


_SPOT = ("usd_per_hour", "low", "high", "entries")


def _rate(rate: Evictions | None) -> dict[str, Any]:
    low, high = (None, None) if rate is None else (rate.low, rate.high)
    return {
        "evicted": "unknown" if rate is None else f"{low:g} to {high:g}",
        "evicted_low_percent": low,
        "evicted_high_percent": high,
    }


def changes(rows: Sequence[Mapping[str, Any]], older: str, newer: str) -> Sheet:
    """Differences between newer prices and the known ones."""
    return Sheet(
        title=f"{units.plural(len(rows), 'price')} that differ from {older} ({newer})",
        columns=[
            *_PRICED,
            Column("earlier_usd_per_hour", "earlier\nUS$/h", price),
            Column("earlier_date", "as of"),
            Column("usd_per_hour", "US$/h", price),
            Column("as_of_date", "as of"),
            Column("change", "change", _signed),
        ],
        rows=rows,
        facts={"kind": "price_changes", "currency": "USD"},
    )


def _signed(share: Any) -> str:
    return "new" if units.is_missing(share) else f"{share:+.1%}"


def sizes(rows: Sequence[Mapping[str, Any]], region: str | None, offer: str, system: str) -> Sheet:
    """Sizes with their properties, and the price of an hour."""
    lowest = f"the lowest of the regions that the table knows ({offer}, {system})"
    where = f"in {region} ({offer}, {system})" if region else lowest
    return Sheet(
        title=f"{units.plural(len(rows), 'size')}; US$ an hour {where}",
        columns=[
            _SIZE,
            *worded("family"),
            Column("cores", "vCPUs", units.count),
            Column("memory_gib", "memory\nGiB", units.count),
            Column("gpus", "GPUs", units.count),
            Column("gpu_model", "GPU", words=True),
            Column("gpu_memory_gib", "each\nGiB", units.count),
            Column("rdma_nics", "RDMA\nadapters", units.count),
            Column("rdma_gbps_per_nic", "each\nGb/s", units.count),
            Column("nvme_disks", "NVMe", units.count),
            Column("usd_per_hour", "US$/h", price),
            Column("usd_per_gpu_hour", "US$ a\nGPU-hour", units.money),
            Column("region", "region", words=True),
            Column("price_date", "as of"),
            *unshown("price_age"),
            _AGE,
            Column("status", "status", words=True),
        ],
        rows=rows,
        notes=[
            *age_notes((row["price_date"], row["price_age"]) for row in rows),
            *["Half a GPU is priced as half of one."]
            * any(row["size"].startswith("Standard_NV") for row in rows),
        ],
        facts={"kind": "sizes", "currency": "USD"},
    )


def price_notes(prices: Iterable[tuple[str, str]]) -> list[str]:
    """The dates of prices, and as of ``age_notes`` those that are old."""
    each = list(prices)
    days = sorted({day for day, _ in each})
    if not days:
        return []
    span = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    return [f"Prices are of {span}.", *age_notes(each)]


def age_notes(prices: Iterable[tuple[str, str]]) -> list[str]:
    """A sentence for each date of prices that are old.

    Args:
        prices: date and age of each, as of ``figures.prices.Quote``.
    """
    return [
        f"Prices of {day}: {age}; `trueup prices refresh` asks Azure for newer ones."
        for day, age in sorted(set(prices))
        if age
    ]
