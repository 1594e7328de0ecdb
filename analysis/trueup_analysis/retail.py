"""Prices of Azure's Retail Prices API, and the user's own file of them.

Source: https://learn.microsoft.com/rest/api/cost-management/retail-prices/azure-retail-prices
(api-version 2023-01-01-preview) for the call and its members. The meaning of a row is not
written there: Azure/karpenter-provider-azure (pkg/providers/pricing) and dstackai/gpuhunt agree
that the system stands in the product's name, and Spot and Low Priority in the SKU's.
"""

from __future__ import annotations

import contextlib
import csv
import io
import math
import tempfile
import urllib.parse
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trueup_node import rest
from trueup_node.errors import BadInput, TrueupError

from .catalog import PRICE_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

HOST: Final = "https://prices.azure.com"
PATH: Final = "/api/retail/prices"
VERSION: Final = "2023-01-01-preview"
# As many names of sizes as a URL of about 1,500 characters holds.
_SIZES_A_CALL: Final = 20
_HOURS_A_YEAR: Final = 8760
_YEARS: Final = {"1 Year": 1, "3 Years": 3, "5 Years": 5}
_NAMED: Final = (
    *("armSkuName", "armRegionName", "productName", "skuName", "meterName", "serviceName"),
    *("type", "unitOfMeasure"),
)
_COUNTED: Final = ("retailPrice", "tierMinimumUnits")


class Server(rest.Client):
    """The Retail Prices API, which asks nobody who they are."""

    NAME = "the Retail Prices API"

    def __init__(self, url: str = HOST, **more: Any) -> None:
        options = {"connection": {}, "open_url": rest.open_plainly, "patience_seconds": 45, **more}
        super().__init__(url, **options)


@dataclass
class Fetched:
    """The prices of one region.

    Attributes:
        rows: prices as prices.csv has them, one for each size, system and offer.
        left_out: reason -> number of rows that were not taken.
    """

    region: str
    rows: list[dict[str, str]] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)


def fetch(
    server: rest.Client,
    region: str,
    sizes: Sequence[str],
    day: str,
    tell: Callable[[str], None] = lambda _text: None,
) -> Fetched:
    """The prices of sizes in a region, as of ``day`` (YYYY-MM-DD).

    Raises:
        TrueupError: no answer, or one that is not as documented; then nothing is taken.
    """
    fetched = Fetched(region)
    quotes: dict[tuple[str, str, str], dict[str, str]] = {}
    names = {size.lower(): size for size in sizes}
    source = source_of(server)
    for first in range(0, len(sizes), _SIZES_A_CALL):
        batch = sizes[first : first + _SIZES_A_CALL]
        tell(f"asking {server.NAME} for {region}: size {first + 1} of {len(sizes)}")
        condition = " or ".join(f"armSkuName eq '{size}'" for size in batch)
        query = {
            "api-version": VERSION,
            "$filter": f"serviceName eq 'Virtual Machines' and armRegionName eq '{region}'"
            f" and ({condition})",
        }
        documents, _ = server.pages(PATH, query)
        for item in (page_row for page in documents for page_row in page_rows(page, server.url)):
            for offer, usd in _offers(item, day, fetched.left_out):
                size = names.get(str(item["armSkuName"]).lower())
                if size is None or str(item["armRegionName"]).lower() != region:
                    fetched.left_out["of another size or region"] += 1
                    continue
                key = (size, _system(item), offer)
                row = _row(item, region, key, usd, (day, source))
                if quotes.setdefault(key, row)["usd_per_hour"] != row["usd_per_hour"]:
                    raise TrueupError(
                        f"{server.url} has two prices of {size} in {region} ({key[1]}, {offer}):"
                        f" {quotes[key]['usd_per_hour']} and {row['usd_per_hour']}; none was taken"
                    )
    fetched.rows = [quotes[key] for key in sorted(quotes)]
    return fetched


def source_of(server: rest.Client) -> str:
    """The source of an answer; a mirror, or a stand-in, is no source that is Azure's."""
    host = urllib.parse.urlsplit(server.url).netloc.rpartition("@")[2]
    return f"{host}{PATH} (api-version {VERSION})"


def page_rows(page: Mapping[str, Any], url: str) -> list[Mapping[str, Any]]:
    """The rows of a page.

    Raises:
        TrueupError: it is not as documented; says the row and its members.
    """
    items = page.get("Items")
    if not isinstance(items, list) or page.get("BillingCurrency") != "USD":
        raise TrueupError(f"{url} answers with a page that is no list of prices in US$")
    for number, item in enumerate(items, 1):
        if not isinstance(item, dict):
            raise TrueupError(f"{url}: row {number} of a page is no object")
        lacking = [name for name in _NAMED if not isinstance(item.get(name), str)]
        lacking += [name for name in _COUNTED if not _is_amount(item.get(name))]
        if item.get("currencyCode", "USD") != "USD":
            lacking.append("currencyCode (USD)")
        if lacking:
            raise TrueupError(
                f"{url}: row {number} of a page has no price as documented: it lacks"
                f" {', '.join(lacking)}; the API has changed, and nothing was taken"
            )
    return items


def _is_amount(value: Any) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and 0 <= value < math.inf


def in_force(item: Mapping[str, Any], day: str) -> bool:
    """Whether the price of a row holds on a day (YYYY-MM-DD)."""
    begin, end = (str(item.get(f"effective{name}Date") or "")[:10] for name in ("Start", "End"))
    return (not begin or begin <= day) and (not end or day <= end)


def _offers(
    item: Mapping[str, Any], day: str, left_out: Counter[str]
) -> Iterable[tuple[str, float]]:
    """Offers and their US$ an hour that a row says; why it says none is counted."""
    reason = _why_not(item, day)
    if reason:
        left_out[reason] += 1
        return
    price = float(item["retailPrice"])
    if item["type"] == "Reservation":
        years = _YEARS[item["reservationTerm"]]
        # Its unit says an hour, and its price is that of the whole term.
        yield f"{years}y", price / (_HOURS_A_YEAR * years)
        return
    legacy = {" Spot": "spot", " Low Priority": "lowpriority"}
    for ending, offer in legacy.items():
        if item["skuName"].endswith(ending):
            yield offer, price
            return
    yield "payg", price
    for plan in item.get("savingsPlan") or []:
        plan_price = plan.get("retailPrice") if isinstance(plan, dict) else None
        if isinstance(plan_price, (int, float)) and plan_price > 0 and plan.get("term") in _YEARS:
            yield f"savings{_YEARS[plan['term']]}y", float(plan_price)


def _why_not(item: Mapping[str, Any], day: str) -> str:
    """Why a row is no price of a virtual machine; empty where it is one."""
    product, kind = item["productName"], item["type"]
    term = item.get("reservationTerm")
    reasons = {
        "of another product than virtual machines": not product.startswith("Virtual Machines ")
        or product.endswith("Cloud Services"),
        "not in force today": not in_force(item, day),
        "of a dedicated host": "Dedicated" in product,
        "for development and test alone": kind == "DevTestConsumption",
        "of a volume tier": item["tierMinimumUnits"] > 0,
        "in another unit than an hour": item["unitOfMeasure"] != "1 Hour",
        "with a price of 0, which is unknown and not free": item["retailPrice"] == 0,
        "of a term that is not known": kind == "Reservation" and term not in _YEARS,
        f"of type {kind}": kind not in ("Consumption", "Reservation"),
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def _system(item: Mapping[str, Any]) -> str:
    return "windows" if item["productName"].endswith(" Windows") else "linux"


def _row(
    item: Mapping[str, Any],
    region: str,
    key: tuple[str, str, str],
    usd: float,
    day_and_source: tuple[str, str],
) -> dict[str, str]:
    size, system, offer = key
    since = str(item.get("effectiveStartDate") or "")[:10]
    figures = (size, region, system, offer, f"{usd:.10g}", *day_and_source)
    return dict(
        zip(PRICE_COLUMNS, (*figures, f"in force since {since}" if since else ""), strict=True)
    )


# ---- the user's own file ------------------------------------------------------------------------


def keep(path: Path, earlier: Iterable[Mapping[str, Any]], new: Iterable[Mapping[str, Any]]) -> int:
    """Write earlier prices and these to the file, all or nothing; how many it then holds. A price
    of the same day is replaced.

    Raises:
        BadInput: it cannot be written.
    """
    key = (*PRICE_COLUMNS[:4], "as_of_date")
    return write_rows(path, PRICE_COLUMNS, key, (*earlier, *new))


def write_rows(
    path: Path, columns: Sequence[str], key: Sequence[str], rows: Iterable[Mapping[str, Any]]
) -> int:
    """Write a CSV file, all or nothing; how many rows it holds. Of rows with the same key the last
    one counts.

    Raises:
        BadInput: it cannot be written.
    """
    merged = {tuple(str(row[name]) for name in key): row for row in rows}
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(merged[row_key] for row_key in sorted(merged))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as aside:
            stream = tempfile.NamedTemporaryFile(  # noqa: SIM115 WHY: it is closed before it is named
                "w", dir=path.parent, prefix=".prices-", delete=False, encoding="utf-8", newline=""
            )
            aside.callback(Path(stream.name).unlink, missing_ok=True)
            with stream:
                stream.write(text.getvalue())
            Path(stream.name).replace(path)
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}") from error
    return len(merged)
