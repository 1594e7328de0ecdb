"""The user's contract: own prices, discounts and currency, laid over public prices.

contract: 1
name: EA 2026
as_of: 2026-11-01
currency: EUR
usd_per_unit: 1.08
discounts:
  - {percent: 12, sizes: ["Standard_ND*"], offers: [payg]}
  - {percent: 5, items: ["disk:*", address]}
prices:
  - {size: Standard_ND96isr_H100_v5, region: eastus, per_hour: 61.5}
services:
  - {item: "anf:Ultra", region: southcentralus, unit: GiB-hour, price: 0.0005}
"""

from __future__ import annotations

import datetime as dt
import math
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

import msgspec
from trueup_controller.typed import typed
from trueup_node.errors import BadInput

from . import catalog

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

_USD: Final = "USD"


class Discount(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Percent off the public price of what all its patterns hold for. The first that fits counts.

    Attributes:
        sizes, items: patterns of VM sizes and of items of service_prices.csv.
        offers, regions: names; empty for all.
    """

    percent: float
    sizes: tuple[str, ...] = ()
    items: tuple[str, ...] = ()
    offers: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The contract's price of an hour of a VM, in its currency."""

    size: str
    region: str
    per_hour: float
    offer: str = "payg"
    os: str = "linux"


class ServicePrice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The contract's price of an item, in its currency."""

    item: str
    region: str
    unit: str
    price: float


class Contract(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A contract file.

    Attributes:
        contract: the form of the file, 1.
        as_of: the day on which its figures hold.
        usd_per_unit: US$ of one unit of the currency; needed unless that is USD.
    """

    contract: int
    name: str
    as_of: dt.date
    currency: str = _USD
    usd_per_unit: float | None = None
    discounts: tuple[Discount, ...] = ()
    prices: tuple[Price, ...] = ()
    services: tuple[ServicePrice, ...] = ()

    @property
    def rate(self) -> float:
        return 1.0 if self.usd_per_unit is None else self.usd_per_unit

    @property
    def source(self) -> str:
        conversion = f", {self.currency} at {self.rate:g} US$" if self.currency != _USD else ""
        return f"your contract {self.name}{conversion}"


def read(path: Path) -> Contract:
    """
    Raises:
        BadInput: the file cannot be read or is no contract; says the place in it.
    """
    contract = typed(
        catalog.document(path), Contract, f"{path} is no contract (docs/guides/prices.md has one)"
    )
    problems = [
        (contract.contract != 1, f"contract is {contract.contract}; this trueup reads 1"),
        (
            contract.currency != _USD and contract.usd_per_unit is None,
            f"currency {contract.currency} has no usd_per_unit (US$ of one {contract.currency})",
        ),
        (not 0 < contract.rate < math.inf, f"usd_per_unit is {contract.rate:g}: it is above 0"),
        (
            contract.currency == _USD and contract.rate != 1,
            f"usd_per_unit is {contract.rate:g} and the currency USD: name the currency",
        ),
        *_discount_problems(contract.discounts),
        *(
            (not 0 < price.per_hour < math.inf, f"prices: per_hour of {price.size} is above 0")
            for price in contract.prices
        ),
        *_service_problems(contract.services),
    ]
    wrong = [text for is_wrong, text in problems if is_wrong]
    if wrong:
        raise BadInput(f"{path}: {'; '.join(wrong)}")
    return contract


def _discount_problems(discounts: Sequence[Discount]) -> list[tuple[bool, str]]:
    problems = []
    for number, discount in enumerate(discounts, 1):
        where = f"discounts: line {number}"
        out = not 0 < discount.percent < 100
        problems.append((out, f"{where}: {discount.percent:g} percent is not between 0 and 100"))
        both = bool(discount.sizes) == bool(discount.items)
        problems.append((both, f"{where}: it has sizes, or items: one of the two"))
    return problems


def _service_problems(services: Sequence[ServicePrice]) -> list[tuple[bool, str]]:
    problems = []
    for service in services:
        problems += [
            (not 0 < service.price < math.inf, f"services: price of {service.item} is above 0"),
            (
                service.unit not in catalog.METER_UNITS,
                f"services: {service.unit} is no unit: {', '.join(catalog.METER_UNITS)}",
            ),
        ]
    return problems


def over(path: Path, rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows as of ``prices.read_prices`` with the prices and discounts of a contract file."""
    contract = read(path)
    own = {
        (price.size.lower(), price.region.lower(), price.os, price.offer): price
        for price in contract.prices
    }
    laid = []
    for row in rows:
        if (row["size"].lower(), row["region"], row["os"], row["offer"]) in own:
            continue
        percent = _percent(contract.discounts, row["size"], row["region"], row["offer"])
        laid.append(_discounted(row, "usd_per_hour", percent, contract))
    for price in contract.prices:
        figures = (price.size, price.region.lower(), price.os, price.offer)
        usd = price.per_hour * contract.rate
        cells = (*figures, usd, contract.as_of.isoformat(), contract.source, "")
        laid.append(dict(zip(catalog.PRICE_COLUMNS, cells, strict=True)))
    return laid


def over_services(path: Path, rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows as of ``meters.read`` with the prices and discounts of a contract file."""
    contract = read(path)
    own = {(service.item, service.region.lower()) for service in contract.services}
    laid = []
    for row in rows:
        if (row["item"], row["region"]) in own:
            continue
        percent = _percent(contract.discounts, row["item"], row["region"], None)
        laid.append(_discounted(row, "usd", percent, contract))
    for service in contract.services:
        usd = service.price * contract.rate
        figures = (service.item, service.region.lower(), service.unit, 0.0, usd)
        cells = (*figures, contract.as_of.isoformat(), contract.source, "")
        laid.append(dict(zip(catalog.METER_COLUMNS, cells, strict=True)))
    return laid


def _percent(discounts: Sequence[Discount], name: str, region: str, offer: str | None) -> float:
    """The percent off; ``offer`` is None of an item that is no VM."""
    for discount in discounts:
        patterns = discount.items if offer is None else discount.sizes
        if (
            any(fnmatchcase(name.lower(), pattern.lower()) for pattern in patterns)
            and (not discount.offers or offer in discount.offers)
            and (not discount.regions or region in map(str.lower, discount.regions))
        ):
            return discount.percent
    return 0.0


def _discounted(
    row: Mapping[str, Any], column: str, percent: float, contract: Contract
) -> dict[str, Any]:
    if not percent:
        return dict(row)
    source = f"{row['source']}, less {percent:g} % ({contract.source})"
    return {**row, column: row[column] * (1 - percent / 100), "source": source}
