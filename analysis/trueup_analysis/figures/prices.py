"""The price of an hour of a VM size: catalog/prices.csv, and the price that counts for a row."""

from __future__ import annotations

import math
import os
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trueup_node.errors import BadInput
from trueup_node.suggest import did_you_mean, nearest

from .. import catalog
from .terms import Terms, is_date

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

CURRENCY = "USD"
# Expected off Azure, so the report takes it for a note.
NO_SIZE = "A machine without an Azure size has no price; give --size SIZE or --price US$."
GIVEN = "given on the command line"
LIST_OFFER = "payg"
# The columns of a price, where none is known.
_QUOTED: Final[dict[str, Any]] = {
    "usd_per_hour": math.nan,
    "price_date": "",
    "price_age": "",
    "price_source": "unknown",
    "list_usd_per_hour": math.nan,
    "saving": math.nan,
}


def read_prices(path: Path) -> list[dict[str, Any]]:
    """catalog/prices.csv: size, region, os, offer, usd_per_hour (float), as_of_date ("" when
    undated: such a price counts nowhere), source, notes.

    Raises:
        BadInput: not such a file, or a row with a price or date that cannot be one.
    """
    return [_price_row(row, where) for where, row in catalog.rows(path, *catalog.PRICE_COLUMNS)]


def read_all(chosen: Path | None = None, agreed: Path | None = None) -> list[dict[str, Any]]:
    """The prices of a catalog, with the built-in one the user's own beside them, of which the
    newest of a size counts (``trueup prices refresh``), and the user's contract over all of them.

    Args:
        chosen: as of ``catalog.folder``; a named catalog has the only prices.
        agreed: as of ``catalog.contract_file``.

    Raises:
        BadInput: as of ``catalog.folder``, ``read_prices`` and ``contract.read``.
    """
    rows = read_public(chosen)
    contract_file = catalog.contract_file(agreed)
    if contract_file is None:
        return rows
    from .. import contract  # noqa: PLC0415 WHY: few have a contract

    return contract.over(contract_file, rows)


def read_public(chosen: Path | None = None) -> list[dict[str, Any]]:
    """As ``read_all``, without the user's contract."""
    folder = catalog.folder(chosen)
    rows = read_prices(folder / "prices.csv")
    user_file = catalog.own_prices()
    return (
        [*rows, *read_prices(user_file)]
        if folder == catalog.built_in() and user_file.exists()
        else rows
    )


def _price_row(row: dict[str, str], where: str) -> dict[str, Any]:
    try:
        price = float(row["usd_per_hour"])
    except ValueError as error:
        raise BadInput(f"{where}: {row['usd_per_hour']!r} is not a price") from error
    if not math.isfinite(price) or price <= 0:
        raise BadInput(f"{where}: a price of {price} is not above zero")
    if row["as_of_date"] and not is_date(row["as_of_date"]):
        raise BadInput(f"{where}: {row['as_of_date']!r} is not a date like 2026-06-18")
    return {**{name: row[name] for name in catalog.PRICE_COLUMNS}, "usd_per_hour": price}


def region_name(region: str) -> str:
    """ "East US" and "EastUS" as "eastus"."""
    return region.lower().replace(" ", "")


# Azure changes prices without notice: an older one is shown with its age.
_RECENT_DAYS: Final = 90


class Standing(NamedTuple):
    """Whether a price may rank sizes and choices, and how old it is.

    Attributes:
        refusal: why it may not rank; empty where it may.
        age_days: on the day of reading; NaN without a date.
        age: in words with that day; empty for a price of the last 90 days.
    """

    refusal: str
    age_days: float
    age: str


def standing(as_of: str, notes: str, on: date) -> Standing:
    """The standing of a price.

    Args:
        as_of: its date (YYYY-MM-DD), or empty.
        notes: of the price table.
        on: the day of reading.
    """
    days = (on - date.fromisoformat(as_of)).days if as_of else math.nan
    age = f"{days} days old on {on}" if days > _RECENT_DAYS else ""
    if not as_of:
        return Standing("it has no date", days, age)
    fixture = "test fixture" in notes
    return Standing("the table marks it as a test fixture" if fixture else "", days, age)


def day_of_reading(price_date: str | None = None) -> date:
    """The day from which ages of prices count: the one that was asked for, else today in UTC.

    SOURCE_DATE_EPOCH (seconds, https://reproducible-builds.org/specs/source-date-epoch) stands for
    the present, so that the same input gives the same output on another day.

    Raises:
        BadInput: SOURCE_DATE_EPOCH is no time.
    """
    if price_date is not None:
        return date.fromisoformat(price_date)
    seconds = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not seconds:
        return datetime.now(UTC).date()
    try:
        return datetime.fromtimestamp(int(seconds), UTC).date()
    except (ValueError, OverflowError, OSError):
        raise BadInput(
            f"SOURCE_DATE_EPOCH is {seconds!r}; write seconds since 1970, or unset it"
        ) from None


class Quote(NamedTuple):
    """The price found for a row: US$ an hour and node.

    Attributes:
        age: as of ``Standing``.
    """

    usd_per_hour: float
    date: str
    source: str
    notes: str
    age: str = ""

    @property
    def dated(self) -> str:
        """Its date, with its age where it is old."""
        return f"{self.date}, {self.age}" if self.age else self.date


class Book:
    """The price that counts for a size, region, operating system and offer. One that may not rank
    (``standing``) does not count.

    Args:
        on: the day of reading; else the price date, or today.
    """

    def __init__(
        self,
        prices: Sequence[Mapping[str, Any]],
        price_date: str | None,
        on: date | None = None,
    ) -> None:
        self._price_date = price_date
        on = on or day_of_reading(price_date)
        # Why a key without another price has none.
        self._refused: dict[tuple[str, str, str, str], str] = {}
        self.quotes: dict[tuple[str, str, str, str], Quote] = {}
        # The first date of a price after the price date.
        self._later: dict[tuple[str, str, str, str], str] = {}
        self.sizes: dict[str, str] = {}
        for row in prices:
            size, region, of_date = row["size"], row["region"], row["as_of_date"]
            self.sizes[size.lower()] = size
            usd = row["usd_per_hour"]
            if not 0 < usd < math.inf:
                continue
            key = (size.lower(), region, row["os"], row["offer"])
            status = standing(of_date, row["notes"], on)
            if status.refusal:
                self._refused[key] = f"{status.refusal} ({row['source']})"
                continue
            if price_date is not None and of_date > price_date:
                self._later[key] = min(of_date, self._later.get(key, of_date))
                continue
            earlier_quote = self.quotes.get(key)
            if earlier_quote is None or of_date > earlier_quote.date:
                self.quotes[key] = Quote(usd, of_date, row["source"], row["notes"], status.age)

    def find(self, size: str, region: str, os: str, offer: str) -> Quote | None:
        return self.quotes.get((size.lower(), region_name(region), os.lower(), offer.lower()))

    def knows(self, size: str) -> bool:
        return size.lower() in self.sizes

    def stranger(self, size: str) -> str:
        """That a size is not in the table, and which one may have been meant."""
        close = nearest(size, self.sizes.values())
        hint = "" if close is None else f" (did you mean {close}?)"
        return f"{size} is not in the price table{hint}"

    def why_not(self, size: str, region: str, os: str, offer: str) -> str:
        """Why there is no price, and a remedy."""
        if not self.knows(size):
            return self.stranger(size)
        regions = sorted(
            key[1]
            for key in self.quotes
            if key[0] == size.lower() and key[2:] == (os.lower(), offer.lower())
        )
        sentence = f"{size} in {region} ({os}, {offer}) has no price"
        refused = self._refused.get((size.lower(), region_name(region), os.lower(), offer.lower()))
        if refused:
            sentence += f" that counts, for {refused}"
        later = {
            key[1]: first
            for key, first in self._later.items()
            if key[0] == size.lower() and key[2:] == (os.lower(), offer.lower())
        }
        if later and (not regions or region_name(region) in later):
            anywhere = "" if region_name(region) in later else " in any region"
            first = later.get(region_name(region), min(later.values()))
            return (
                f"{sentence}{anywhere} on or before {self._price_date}; the first one is of {first}"
            )
        if regions:
            return f"{sentence}; the table has it for {', '.join(regions)}"
        offers = sorted({f"{key[2]} {key[3]}" for key in self.quotes if key[0] == size.lower()})
        return f"{sentence} in any region" + (
            f"; the table has {', '.join(offers)}" if offers else ""
        )


def refuse_unknown(prices: Sequence[Mapping[str, Any]], terms: Terms) -> None:
    """Refuse a name in the terms that no price has.

    Raises:
        BadInput: a size, region, offer or system that the table lacks.
    """
    if terms.price is not None or not prices:
        return
    requests = {
        ("--size", "size"): terms.as_size,
        ("--region", "region"): None if terms.region is None else region_name(terms.region),
        ("--offer", "offer"): terms.offer,
        ("--os", "os"): terms.os,
    }
    for (flag, column), requested in requests.items():
        table_names = dict.fromkeys(row[column] for row in prices)
        if requested is not None and requested.lower() not in {
            name.lower() for name in table_names
        }:
            hint = did_you_mean(requested, table_names)
            if not hint:
                names = "`trueup sizes` lists them"
                hint = (
                    f"; {names if column == 'size' else 'it has ' + ', '.join(sorted(table_names))}"
                )
            raise BadInput(f"{flag} {requested}: the price table has no such {column}{hint}")


class Pricing:
    """Finds prices, and collects warnings about them, once for all sizes that they hold for."""

    def __init__(self, prices: Sequence[Mapping[str, Any]], terms: Terms) -> None:
        refuse_unknown(prices, terms)
        self._book = Book(prices, terms.price_date)
        self._terms = terms
        self._known: dict[tuple[Any, Any, Any], dict[str, Any]] = {}
        # sentence with {sizes} in it -> the sizes
        self._warnings: dict[str, list[str]] = {}
        self._unknown: dict[str, list[str]] = {}

    def warnings(self) -> list[str]:
        size = self._terms.as_size
        as_size = (
            f"Priced as {size}: run times are those of the machine that ran, prices those of"
            f" {size}."
        )
        return [*([] if size is None else [as_size]), *_filled(self._warnings)]

    def unknown(self) -> list[str]:
        return _filled(self._unknown)

    def rows(self, rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The rows with the size and terms of their pricing, and the columns of their price."""
        return [self._priced(row) for row in rows]

    def _priced(self, row: Mapping[str, Any]) -> dict[str, Any]:
        terms = self._terms
        size = row["vm_size"] if terms.as_size is None else terms.as_size
        region = row["region"] if terms.region is None else terms.region
        offer = row["offer"] if terms.offer is None else terms.offer
        if offer is None:
            offer = LIST_OFFER
        billed = {"vm_size": size, "region": region, "offer": offer, "os": terms.os}
        return {**row, **billed, "currency": CURRENCY, **self.quote(size, region, offer)}

    def quote(self, vm_size: str | None, region: str | None, offer: str) -> dict[str, Any]:
        """The price columns of rows of one size, region and offer."""
        key = (vm_size, region, offer)
        if key not in self._known:
            self._known[key] = {
                **_QUOTED,
                **self._columns(vm_size, region, offer),
            }
        return self._known[key]

    def _columns(self, size: str | None, region: str | None, offer: str) -> dict[str, Any]:
        if self._terms.price is not None:
            return {"usd_per_hour": self._terms.price, "price_source": GIVEN}
        if size is None:
            self._unknown.setdefault(NO_SIZE, [])
            return {}
        if region is None and not self._book.knows(size):
            self._unknown.setdefault(
                self._book.stranger(size).replace("{", "{{").replace("}", "}}") + ".", []
            )
            return {}
        if region is None:
            sentence = (
                "No price without a region for {sizes}; give --region, such as --region eastus."
            )
            self._unknown.setdefault(sentence, []).append(size)
            return {}
        quote = self._book.find(size, region, self._terms.os, offer)
        if quote is None:
            sentence = self._book.why_not(size, region, self._terms.os, offer).replace("{", "{{")
            self._unknown.setdefault(sentence.replace("}", "}}") + ".", [])
            return {}
        if quote.age:
            self._warn(
                f"{offer} prices in {region} are of {quote.dated} (`trueup prices refresh` asks"
                " Azure for newer ones):",
                size,
            )
        listed = self._book.find(size, region, self._terms.os, LIST_OFFER)
        columns: dict[str, Any] = {
            "usd_per_hour": quote.usd_per_hour,
            "price_date": quote.date,
            "price_age": quote.age,
            "price_source": quote.source,
        }
        if offer != LIST_OFFER and listed is not None:
            columns["list_usd_per_hour"] = listed.usd_per_hour
            if quote.usd_per_hour < listed.usd_per_hour:
                columns["saving"] = 1 - quote.usd_per_hour / listed.usd_per_hour
            else:
                same = quote.usd_per_hour == listed.usd_per_hour
                how = "equals" if same else "exceeds"
                self._warn(
                    f"The {offer} price in {region} {how} the list price: no saving for", size
                )
        return columns

    def _warn(self, start: str, size: str) -> None:
        start = start.replace("{", "{{").replace("}", "}}")
        self._warnings.setdefault(start + " {sizes}.", []).append(size)


def _filled(sentences: dict[str, list[str]]) -> list[str]:
    return [
        sentence.format(sizes=", ".join(dict.fromkeys(sizes)))
        for sentence, sizes in sentences.items()
    ]
