"""Retail prices of the emulated cloud, in the shape of Azure's Retail Prices API.

Amounts and dates are those of catalog/prices.csv, the newest of each price: nothing here was asked
of Azure. Ids, and the names of products and meters, are made up from the names of sizes.

Source: https://learn.microsoft.com/rest/api/cost-management/retail-prices/azure-retail-prices
"""

from __future__ import annotations

import functools
import re
import urllib.parse
import uuid
from typing import TYPE_CHECKING, Any

from .capacity import quotes
from .replies import Refused, Reply, versioned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .resources import Document

PRICES = "/api/retail/prices"
PRICE_VERSIONS = ("2023-01-01-preview",)
MOST_ROWS = 1000
# Name in a filter: member of a row.
_FIELDS = {
    name: name
    for name in (
        *("armRegionName", "location", "meterId", "meterName", "productId", "skuId"),
        *("productName", "skuName", "serviceName", "serviceId", "serviceFamily", "armSkuName"),
    )
} | {"priceType": "type"}
_WORDS = re.compile(r"'[^']*'|\w+|\S")
_ENDINGS = {"spot": " Spot", "lowpriority": " Low Priority"}
_TERMS = {"1y": ("1 Year", 8760), "3y": ("3 Years", 3 * 8760)}


class Prices:
    """Attributes:
    page_rows: the most in a page.
    rows: instead of those of the catalog, where a test says so.
    """

    def __init__(self) -> None:
        self.page_rows = MOST_ROWS
        self.rows: list[Document] | None = None

    def answer(self, url: str, query: dict[str, str]) -> Reply:
        """A page; the next one is at ``url``, a cloud's.

        Raises:
            Refused: a filter, or a place to begin, that is not known.
        """
        own = {key: one for key, one in query.items() if key not in ("$filter", "$skip")}
        refused = versioned(own, PRICE_VERSIONS)
        if refused:
            return refused
        begin = query.get("$skip", "0")
        if not re.fullmatch("[0-9]{1,9}", begin):
            raise Refused(400, "InvalidSkip", f"$skip is a count, and not {begin!r}.")
        holds = _Filter(query["$filter"]).whole() if "$filter" in query else lambda _: True
        rows = listed() if self.rows is None else self.rows
        found, end = [one for one in rows if holds(one)], int(begin) + self.page_rows
        page = found[int(begin) : end]
        following = urllib.parse.urlencode({**query, "$skip": str(end)})
        return Reply(
            200,
            {
                "BillingCurrency": "USD",
                "CustomerEntityId": "Default",
                "CustomerEntityType": "Retail",
                "Items": page,
                "NextPageLink": f"{url}{PRICES}?{following}" if end < len(found) else None,
                "Count": len(page),
            },
        )


@functools.lru_cache(maxsize=1)
def listed() -> list[Document]:
    """All of the catalog's prices."""
    return [_item(row) for row in quotes().values()]


def _item(row: dict[str, str]) -> Document:
    size, offer = row["size"], row["offer"]
    name = size.removeprefix("Standard_").replace("_", " ")
    sold = name + _ENDINGS.get(offer, "")
    term, hours = _TERMS.get(offer, ("", 1))
    if offer not in {"payg", *_ENDINGS, *_TERMS}:
        raise ValueError(f"the emulated cloud cannot sell {size} as {offer!r}")
    price = float(row["usd_per_hour"])
    # A reservation's is that of its whole term, in whole US$.
    price = float(round(price * hours)) if term else price
    day = row["as_of_date"]
    return {
        "currencyCode": "USD",
        "tierMinimumUnits": 0.0,
        **({"reservationTerm": term} if term else {}),
        "retailPrice": price,
        "unitPrice": price,
        "armRegionName": row["region"],
        "location": row["region"],
        **({"effectiveStartDate": f"{day}T00:00:00Z"} if day else {}),
        "meterId": str(uuid.uuid5(uuid.NAMESPACE_URL, "/".join(list(row.values())[:4]))),
        "meterName": sold,
        "productId": f"EMULATED/{size}",
        "skuId": f"EMULATED/{size}/{offer}",
        "productName": f"Virtual Machines {name} Series"
        + (" Windows" if row["os"] == "windows" else ""),
        "skuName": sold,
        "serviceName": "Virtual Machines",
        "serviceId": "DZH313Z7MMC8",
        "serviceFamily": "Compute",
        "unitOfMeasure": "1 Hour",
        "type": "Reservation" if term else "Consumption",
        "isPrimaryMeterRegion": True,
        "armSkuName": size,
    }


class _Filter:
    """As much of OData as trueup asks: ``field eq 'text'``, ``contains(field, 'text')``, ``and``,
    ``or`` and brackets. Values are held against as they are written, as this API version does."""

    def __init__(self, text: str) -> None:
        self.text, self.words, self.at = text, _WORDS.findall(text), 0

    def whole(self) -> Callable[[Document], bool]:
        """What rows it holds for.

        Raises:
            Refused: it has something else in it.
        """
        try:
            found = self._many("or")
        except RecursionError:
            raise self._refused("brackets without end") from None
        if self.at < len(self.words):
            raise self._refused(repr(self.words[self.at]))
        return found

    def _take(self) -> str:
        self.at += 1
        return str(self.words[self.at - 1]) if self.at <= len(self.words) else ""

    def _refused(self, what: str) -> Refused:
        said = f"The emulated cloud knows no filter {self.text[:200]!r}: {what} in it."
        return Refused(400, "InvalidFilter", said)

    def _many(self, sign: str) -> Callable[[Document], bool]:
        how: Callable[[Iterable[Any]], bool] = any if sign == "or" else all
        parts = [self._part(sign)]
        while self.words[self.at : self.at + 1] == [sign]:
            self.at += 1
            parts.append(self._part(sign))
        return lambda row: how(part(row) for part in parts)

    def _part(self, sign: str) -> Callable[[Document], bool]:
        if sign == "or":
            return self._many("and")
        word = self._take()
        if word == "(":
            inner = self._many("or")
            if self._take() != ")":
                raise self._refused("a bracket that does not end")
            return inner
        if word == "contains":
            field, text = self._contained()
            return lambda row: text in str(row.get(field, ""))
        equals, text = self._take(), self._take()
        if word not in _FIELDS or equals != "eq" or text[:1] != "'" or len(text) == 1:
            raise self._refused(repr(f"{word} {equals} {text}".strip()))
        return lambda row: row.get(_FIELDS[word]) == text[1:-1]

    def _contained(self) -> tuple[str, str]:
        """Member and text of ``contains(field, 'text')``."""
        words = [self._take() for _ in range(5)]
        bracket, field, comma, text, end = words
        if (bracket, comma, end) != ("(", ",", ")") or field not in _FIELDS or text[:1] != "'":
            raise self._refused(repr("contains" + "".join(words)))
        return _FIELDS[field], text[1:-1]
