"""What runs cost: node-hours and US$ from run times and catalog/prices.csv."""

from __future__ import annotations

import csv
import difflib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import pandas as pd
from trueup.errors import BadInput

from .render.sheet import rows_of
from .scaling import figures, work_of

if TYPE_CHECKING:
    from pathlib import Path

    from .load import Loaded

__all__ = [
    "CURRENCY",
    "GIVEN",
    "LIST_OFFER",
    "NO_SIZE",
    "Book",
    "CostTable",
    "Pricing",
    "Quote",
    "has_runs",
    "read_prices",
    "table",
]

CURRENCY = "USD"
# Expected off Azure, so the report takes it for a note.
NO_SIZE = "A machine without an Azure size has no price; give --as-size SIZE or --price US$."
GIVEN = "given on the command line"
_DATE = re.compile(r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")
_PRICE_COLUMNS = ("size", "region", "os", "offer", "usd_per_hour", "as_of_date", "source", "notes")
LIST_OFFER = "payg"


@dataclass(frozen=True)
class CostTable:
    """Cost by case, and by sweep. What is unknown is a missing value in the sense of
    ``pandas.isna``.

    Attributes:
        table: one row a case (repeats over runs pooled; versions of the tool, other work under the
            same name, and machines off Azure apart); columns: benchmark, version (of the tool, ""
            when unknown), configuration (the publication's set-up or ""), case, vm_size (as
            billed), node_count, cores, n, records, run_seconds (median), node_hours, region, os,
            offer, currency ("USD"), usd_per_hour (one node), price_date (text; "" when undated),
            price_source, usd_per_run, usd_per_gflop, usd_per_gpt (by work: 1e9 flop, 1e9 grid-point
            updates), list_usd_per_hour (pay-as-you-go, same size and region), saving (fraction of
            the list price; missing unless the offer is cheaper).
        totals: one row a sweep: configuration, version, vm_size, region, offer, runs,
            sum_run_hours (sum of run times, not node-hours), published_hours (what a publication
            prints for it), node_hours, usd, usd_by_sum (what the sum of run times would bill),
            underbilled (node_hours / sum_run_hours).
        warnings: sentences. unknown: what has no price, and why, one sentence each.
    """

    table: pd.DataFrame
    totals: pd.DataFrame
    warnings: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


def read_prices(path: Path) -> pd.DataFrame:
    """catalog/prices.csv: size, region, os, offer, usd_per_hour (float), as_of_date ("" when
    undated), source, notes.

    Raises:
        BadInput: not such a file, or a row with a price or date that cannot be one.
    """
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            reader = csv.DictReader(stream, strict=True)
            lacking = [name for name in _PRICE_COLUMNS if name not in (reader.fieldnames or ())]
            if lacking:
                message = f"{path} is not a price table: its header lacks {', '.join(lacking)}"
                raise BadInput(message)
            rows = [_price_row(row, f"{path} line {reader.line_num}") for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        message = f"{path} cannot be read: {error}"
        raise BadInput(message) from error
    return pd.DataFrame(rows, columns=list(_PRICE_COLUMNS))


def _price_row(row: dict[str, str], where: str) -> dict[str, Any]:
    try:
        price = float(row["usd_per_hour"])
    except ValueError as error:
        message = f"{where}: {row['usd_per_hour']!r} is not a price"
        raise BadInput(message) from error
    if not price > 0:
        message = f"{where}: a price of {price} is not above zero"
        raise BadInput(message)
    if row["as_of_date"] and not _DATE.match(row["as_of_date"]):
        message = f"{where}: {row['as_of_date']!r} is not a date like 2026-06-18"
        raise BadInput(message)
    return {**{name: row[name] for name in _PRICE_COLUMNS}, "usd_per_hour": price}


def _region_name(region: str) -> str:
    """ "East US" and "EastUS" as "eastus"."""
    return region.lower().replace(" ", "")


@dataclass(frozen=True)
class Quote:
    """The price found for a row: US$ an hour and node."""

    usd_per_hour: float
    date: str
    source: str
    notes: str


class Book:
    """The price that counts for a size, region, operating system and offer."""

    def __init__(self, prices: pd.DataFrame, price_date: str | None) -> None:
        if price_date is not None and not _DATE.match(price_date):
            message = f"price date {price_date!r} is not a date like 2026-06-18"
            raise BadInput(message)
        self.quotes: dict[tuple[str, str, str, str], Quote] = {}
        self.sizes: dict[str, str] = {}
        for row in prices.itertuples():
            size, region, date = str(row.size), str(row.region), str(row.as_of_date)
            self.sizes[size.lower()] = size
            # An undated price cannot be shown to have held on a given day, and gives way to any
            # dated one.
            if price_date is not None and (not date or date > price_date):
                continue
            key = (size.lower(), region, str(row.os), str(row.offer))
            known = self.quotes.get(key)
            if known is None or date > known.date:
                self.quotes[key] = Quote(
                    cast("float", row.usd_per_hour), date, str(row.source), str(row.notes)
                )

    def find(self, size: str, region: str, os: str, offer: str) -> Quote | None:
        return self.quotes.get((size.lower(), _region_name(region), os.lower(), offer.lower()))

    def knows(self, size: str) -> bool:
        return size.lower() in self.sizes

    def stranger(self, size: str) -> str:
        """That a size is not in the table, and which one may have been meant."""
        close = difflib.get_close_matches(size, list(self.sizes.values()), n=1)
        hint = f" (did you mean {close[0]}?)" if close else ""
        return f"{size} is not in the price table{hint}"

    def why_not(self, size: str, region: str, os: str, offer: str) -> str:
        """Why there is no price, and what would help."""
        if not self.knows(size):
            return self.stranger(size)
        regions = sorted(
            key[1]
            for key in self.quotes
            if key[0] == size.lower() and key[2:] == (os.lower(), offer.lower())
        )
        what = f"{size} in {region} ({os}, {offer}) has no price"
        if regions:
            return f"{what}; the table has it for {', '.join(regions)}"
        offers = sorted({f"{key[2]} {key[3]}" for key in self.quotes if key[0] == size.lower()})
        return f"{what} in any region" + (f"; the table has {', '.join(offers)}" if offers else "")


def table(
    loaded: Loaded,
    *,
    prices: pd.DataFrame,
    region: str | None = None,
    offer: str | None = None,
    os: str = "linux",
    price: float | None = None,
    as_size: str | None = None,
    price_date: str | None = None,
) -> CostTable:
    """Cost of every case with outcome ok and a run time.

    Args:
        region, offer: instead of the record's own; a record without an offer is priced as
            pay-as-you-go ("payg").
        price: US$ per node-hour for all rows, instead of the catalog.
        as_size: price every row as this size (also records made off Azure).
        price_date: newest price on or before this day (YYYY-MM-DD) instead of the newest.

    Raises:
        BadInput: no case with a run time, a case without a node count, or a price that is not
            above zero.
    """
    if price is not None and not 0 < price < float("inf"):
        message = f"a price of {price} US$ an hour is not above zero"
        raise BadInput(message)
    pricing = Pricing(Book(prices, price_date), os, price)
    rows = _rows(loaded)
    rows["vm_size"] = rows["vm_size"] if as_size is None else as_size
    rows["region"] = rows["region"] if region is None else region
    rows["offer"] = rows["offer"].fillna(LIST_OFFER) if offer is None else offer
    rows["os"] = os
    rows["currency"] = CURRENCY
    quotes = [pricing.quote(**keys) for keys in rows_of(rows, ("vm_size", "region", "offer"))]
    rows = pd.concat([rows, pd.DataFrame(quotes, index=rows.index)], axis=1)
    rows["node_hours"] = rows["node_count"].astype(float) * rows["run_seconds"] / 3600
    rows["usd_per_run"] = rows["node_hours"] * rows["usd_per_hour"]
    rows["usd_per_gflop"] = rows["usd_per_run"] / _amount(rows, "flop_rate")
    rows["usd_per_gpt"] = rows["usd_per_run"] / _amount(rows, "point_rate")
    warnings = pricing.warnings()
    if as_size is not None:
        warnings.insert(
            0,
            f"Priced as {as_size}, whatever machine ran it: a statement on that price, not on that"
            " machine.",
        )
    return CostTable(
        table=rows[_TABLE],
        totals=_totals(rows, loaded),
        warnings=warnings,
        unknown=pricing.unknown(),
    )


def has_runs(loaded: Loaded) -> bool:
    """Whether any record is ok and holds a run time, so that ``table`` has rows."""
    ok = loaded.cases.loc[loaded.cases["outcome"] == "ok", "record"]
    return bool(figures(loaded, [("run_time", None)])["run_time"].reindex(ok).notna().any())


def _amount(rows: pd.DataFrame, rate: str) -> pd.Series:
    """The work of a run in 1e9 flop or points; missing where the record's rate is 0 or missing."""
    return (rows[rate] * rows["run_seconds"] / 1e9).where(rows[rate] > 0)


_TABLE = [
    *("benchmark", "version", "configuration", "case", "vm_size", "node_count", "cores", "n"),
    *("records", "run_seconds", "node_hours", "region", "os", "offer", "currency", "usd_per_hour"),
    *("price_date", "price_source", "usd_per_run", "usd_per_gflop", "usd_per_gpt"),
    *("list_usd_per_hour", "saving"),
]
_CASE_KEYS = [
    *("benchmark", "version", "configuration", "case", "work", "vm_size", "machine", "region"),
    *("offer", "node_count", "cores"),
]


def _rows(loaded: Loaded) -> pd.DataFrame:
    """One row a case with a run time: repeats over runs pooled, in the order of reading."""
    cases = loaded.cases[loaded.cases["outcome"] == "ok"]
    wide = figures(loaded, [("run_time", None), ("flop_rate", None), ("point_rate", None)])
    cases = cases.merge(wide, left_on="record", right_index=True, how="left", validate="one_to_one")
    cases = cases[cases["run_time"].notna()]
    if cases.empty:
        message = (
            f"none of {len(loaded.cases)} records is ok and holds a run time or a rate of tokens,"
            " so there is nothing to price"
        )
        raise BadInput(message)
    if cases["node_count"].isna().any():
        row = cases[cases["node_count"].isna()].iloc[0]
        message = (
            f"case {row['case']} ({row['source']}) does not say on how many nodes it ran,"
            " so it cannot be priced"
        )
        raise BadInput(message)
    works: dict[int, str] = {}
    cases = cases.assign(
        # Equal parameters are one object (see packed), so most texts are made once.
        work=[
            works.get(id(it)) or works.setdefault(id(it), work_of(it)) for it in cases["parameters"]
        ],
        version=[
            str(software.get(benchmark, ""))
            for software, benchmark in zip(cases["software"], cases["benchmark"], strict=True)
        ],
        configuration=[str(item.get("configuration", "")) for item in cases["parameters"]],
        # Off Azure the size says nothing, so machines are kept apart by name.
        machine=cases["nodes"].where(cases["vm_size"].isna(), ""),
    )
    pooled = cases.groupby(_CASE_KEYS, dropna=False, sort=False).agg(
        n=("run_time:n", "sum"),
        records=("record", "size"),
        run_seconds=("run_time", "median"),
        flop_rate=("flop_rate", "median"),
        point_rate=("point_rate", "median"),
    )
    # Where no record says its n, the sum is 0.
    return pooled.assign(n=pooled["n"].replace(0, pd.NA)).reset_index()


class Pricing:
    """Finds prices, and collects what must be said about them, once for all sizes it holds for."""

    def __init__(self, book: Book, os: str, price: float | None) -> None:
        self._book = book
        self._os = os
        self._price = price
        self._known: dict[tuple[Any, Any, Any], dict[str, Any]] = {}
        # sentence with {sizes} in it -> the sizes
        self._warnings: dict[str, list[str]] = {}
        self._unknown: dict[str, list[str]] = {}

    def warnings(self) -> list[str]:
        return _filled(self._warnings)

    def unknown(self) -> list[str]:
        return _filled(self._unknown)

    def quote(self, vm_size: str | None, region: str | None, offer: str) -> dict[str, Any]:
        """The price columns of rows of one size, region and offer."""
        key = (vm_size, region, offer)
        if key not in self._known:
            self._known[key] = {
                "usd_per_hour": float("nan"),
                "price_date": "",
                "price_source": "unknown",
                "list_usd_per_hour": float("nan"),
                "saving": float("nan"),
                **self._columns(vm_size, region, offer),
            }
        return self._known[key]

    def _columns(self, size: str | None, region: str | None, offer: str) -> dict[str, Any]:
        if self._price is not None:
            return {"usd_per_hour": self._price, "price_source": GIVEN}
        if size is None:
            self._unknown.setdefault(NO_SIZE, [])
            return {}
        if region is None and not self._book.knows(size):
            self._unknown.setdefault(
                self._book.stranger(size).replace("{", "{{").replace("}", "}}") + ".", []
            )
            return {}
        if region is None:
            why = "No price without a region for {sizes}; give --region, such as --region eastus."
            self._unknown.setdefault(why, []).append(size)
            return {}
        found = self._book.find(size, region, self._os, offer)
        if found is None:
            why = self._book.why_not(size, region, self._os, offer).replace("{", "{{")
            self._unknown.setdefault(why.replace("}", "}}") + ".", [])
            return {}
        self._judge(found, size, region, offer)
        listed = self._book.find(size, region, self._os, LIST_OFFER)
        columns: dict[str, Any] = {
            "usd_per_hour": found.usd_per_hour,
            "price_date": found.date,
            "price_source": found.source,
        }
        if offer != LIST_OFFER and listed is not None:
            columns["list_usd_per_hour"] = listed.usd_per_hour
            if found.usd_per_hour < listed.usd_per_hour:
                columns["saving"] = 1 - found.usd_per_hour / listed.usd_per_hour
            else:
                same = found.usd_per_hour == listed.usd_per_hour
                how = "equals" if same else "exceeds"
                self._warn(
                    f"The {offer} price in {region} {how} the list price: no saving for", size
                )
        return columns

    def _judge(self, found: Quote, size: str, region: str, offer: str) -> None:
        if not found.date:
            self._warn(
                f"Undated {offer} prices in {region}, to be taken as a hint ({found.source}):", size
            )
        if "test fixture" in found.notes:
            self._warn(f"The catalog marks the {offer} price in {region} '{found.notes}':", size)

    def _warn(self, start: str, size: str) -> None:
        start = start.replace("{", "{{").replace("}", "}}")
        self._warnings.setdefault(start + " {sizes}.", []).append(size)


def _filled(sentences: dict[str, list[str]]) -> list[str]:
    return [
        sentence.format(sizes=", ".join(dict.fromkeys(sizes)))
        for sentence, sizes in sentences.items()
    ]


def _totals(rows: pd.DataFrame, loaded: Loaded) -> pd.DataFrame:
    """What each sweep costs as a whole, beside the plain sum of its run times."""
    published = figures(loaded, [("wall_clock_sum", None)])["wall_clock_sum"]
    sums = loaded.cases[loaded.cases["benchmark"] == "devito_sums"]
    printed = {
        parameters["configuration"]: float(published[record]) / 3600
        for record, parameters in zip(sums["record"], sums["parameters"], strict=True)
    }
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
    return pd.DataFrame(found)
