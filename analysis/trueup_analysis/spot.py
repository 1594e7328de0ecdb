"""Spot prices and eviction rates of Azure Resource Graph, table SpotResources.

Source: MicrosoftDocs/azure-compute-docs virtual-machines/spot-vms.md for both queries and their
members: the price history of 90 days, newest first, and the eviction rate of the last 28 days. The
rate is a band in percent an hour ("0-5", "20+"). Its member is properties.evictionRate of the size
sku.name, in lower case.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trueup_node.errors import BadInput, TrueupError

from . import catalog

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

FILE: Final = "spot_evictions.csv"
COLUMNS: Final = (
    *("size", "region", "low_percent_per_hour", "high_percent_per_hour", "as_of_date", "source"),
)
SOURCE: Final = "Azure Resource Graph, SpotResources"
_PRICES: Final = "microsoft.compute/skuspotpricehistory/ostype/location"
_RATES: Final = "microsoft.compute/skuspotevictionrate/location"
_BAND: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(?:-\s*(\d+(?:\.\d+)?)|(\+))\s*%?")
# The highest band has no upper end: taken as twice its lower one.
_OPEN_END: Final = 2.0


class History(NamedTuple):
    """The spot price of a size, region and system.

    Attributes:
        usd_per_hour: the newest price.
        low, high: of all prices of the history.
        entries: how many prices it has.
    """

    size: str
    region: str
    os: str
    usd_per_hour: float
    low: float
    high: float
    entries: int


class Evictions(NamedTuple):
    """How often a spot VM is taken away: percent an hour, from a band."""

    size: str
    region: str
    low: float
    high: float
    date: str
    source: str

    @property
    def per_hour(self) -> float:
        """The middle of the band, 1/h."""
        return (self.low + self.high) / 200


def price_query(sizes: Sequence[str], regions: Sequence[str]) -> str:
    return (
        f"SpotResources | where type =~ '{_PRICES}' | where sku.name in~ ({_quoted(sizes)})"
        f" | where location in~ ({_quoted(regions)})"
        " | project id, skuName = tostring(sku.name), osType = tostring(properties.osType),"
        " location = tostring(location), spotPrices = properties.spotPrices | order by id asc"
    )


def rate_query(sizes: Sequence[str], regions: Sequence[str]) -> str:
    return (
        f"SpotResources | where type =~ '{_RATES}' | where sku.name in~ ({_quoted(sizes)})"
        f" | where location in~ ({_quoted(regions)})"
        " | project id, skuName = tostring(sku.name), location = tostring(location),"
        " evictionRate = tostring(properties.evictionRate) | order by id asc"
    )


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def histories(rows: Iterable[Mapping[str, Any]], sizes: Sequence[str]) -> list[History]:
    """The price histories of a query's rows, by the catalog's names of sizes.

    Raises:
        TrueupError: a row is not as documented.
    """
    names = {size.lower(): size for size in sizes}
    found = []
    for row in rows:
        size, region, system = (_word(row, name) for name in ("skuName", "location", "osType"))
        entries = row.get("spotPrices")
        prices = [_usd(entry) for entry in entries] if isinstance(entries, list) else []
        if not prices or any(price is None for price in prices):
            raise TrueupError(
                f"Resource Graph has no spotPrices with priceUSD of {size} in {region}: its form"
                " has changed, and nothing was taken"
            )
        usd = [price for price in prices if price is not None]
        found.append(
            History(
                size=names.get(size.lower(), size),
                region=region.lower(),
                os=system.lower(),
                usd_per_hour=usd[0],
                low=min(usd),
                high=max(usd),
                entries=len(usd),
            )
        )
    return sorted(found)


def _word(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    if not isinstance(value, str) or not value:
        raise TrueupError(
            f"Resource Graph gives a row of SpotResources without {name}: its form has changed,"
            " and nothing was taken"
        )
    return value


def _usd(entry: Any) -> float | None:
    value = entry.get("priceUSD") if isinstance(entry, dict) else None
    try:
        usd = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return usd if 0 < usd < math.inf else None


def evictions(rows: Iterable[Mapping[str, Any]], sizes: Sequence[str], day: str) -> list[Evictions]:
    """The eviction rates of a query's rows.

    Raises:
        TrueupError: a row is not as documented.
    """
    names = {size.lower(): size for size in sizes}
    found = []
    for row in rows:
        size, region = (_word(row, name) for name in ("skuName", "location"))
        band = _BAND.fullmatch(_word(row, "evictionRate").strip())
        if band is None:
            raise TrueupError(
                f"Resource Graph gives {row['evictionRate']!r} as the eviction rate of {size} in"
                f" {region}, and a band such as 0-5 or 20+ is known; nothing was taken"
            )
        low = float(band[1])
        high = float(band[2]) if band[2] else low * _OPEN_END
        found.append(
            Evictions(names.get(size.lower(), size), region.lower(), low, high, day, SOURCE)
        )
    return sorted(found)


def price_rows(some: Iterable[History], day: str) -> list[dict[str, str]]:
    """Rows of the user's prices.csv."""
    return [
        dict(
            zip(
                catalog.PRICE_COLUMNS,
                (
                    *(each.size, each.region, each.os, "spot", f"{each.usd_per_hour:.10g}"),
                    *(day, SOURCE, f"{each.low:g} to {each.high:g} in {each.entries} prices"),
                ),
                strict=True,
            )
        )
        for each in some
    ]


def rate_rows(some: Iterable[Evictions]) -> list[dict[str, str]]:
    """Rows of the user's spot_evictions.csv."""
    return [
        dict(
            zip(
                COLUMNS,
                (each.size, each.region, f"{each.low:g}", f"{each.high:g}", each.date, each.source),
                strict=True,
            )
        )
        for each in some
    ]


def read_evictions(path: Path | None = None) -> dict[tuple[str, str], Evictions]:
    """The newest eviction rate by size in lower case and region, of the user's file; empty without
    one.

    Raises:
        BadInput: the file is no such file.
    """
    path = path or catalog.own_file(FILE)
    if not path.exists():
        return {}
    newest: dict[tuple[str, str], Evictions] = {}
    for where, row in catalog.rows(path, *COLUMNS):
        try:
            low, high = float(row["low_percent_per_hour"]), float(row["high_percent_per_hour"])
        except ValueError:
            raise BadInput(f"{where}: an eviction rate is a number of percent an hour") from None
        if not 0 <= low <= high <= 100:
            raise BadInput(f"{where}: {low:g} to {high:g} is no band of percent")
        rate = Evictions(row["size"], row["region"], low, high, row["as_of_date"], row["source"])
        key = (rate.size.lower(), rate.region)
        if key not in newest or rate.date > newest[key].date:
            newest[key] = rate
    return newest
