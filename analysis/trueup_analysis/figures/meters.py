"""Prices of everything that bills beside VMs: disks, file systems, Blob storage, network.

An item is a word: ``disk:E10``, ``anf:Ultra``, ``amlfs:AMLFS-Durable-Premium-250``,
``blob:hot-lrs``, ``nat``, ``nat-data``, ``address``, ``bastion:Standard``, ``egress``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trueup_node.errors import BadInput

from .. import catalog
from .prices import region_name, standing
from .terms import is_date

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import date
    from pathlib import Path

FILE: Final = "service_prices.csv"
# A month has 730 hours on Azure's bills.
HOURS_A_MONTH: Final = 730
# The region of meters that every region shares.
GLOBAL: Final = "global"


class Tariff(NamedTuple):
    """The price of an item in a region.

    Attributes:
        steps: from how many units on, US$ a unit; the first is of 0 units.
        age: as of ``prices.Standing``.
    """

    item: str
    unit: str
    steps: tuple[tuple[float, float], ...]
    date: str
    source: str
    age: str = ""

    @property
    def usd(self) -> float:
        """US$ of the first unit that costs something."""
        return next((usd for _, usd in self.steps if usd), 0.0)

    def total(self, units: float) -> float:
        """US$ of so many units of one month."""
        ends = [start for start, _ in self.steps[1:]] + [math.inf]
        return sum(
            max(min(units, end) - start, 0.0) * usd
            for (start, usd), end in zip(self.steps, ends, strict=True)
        )

    @property
    def dated(self) -> str:
        return f"{self.date}, {self.age}" if self.age else self.date


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of a file like catalog/service_prices.csv; ``usd`` and ``from_units`` as numbers.

    Raises:
        BadInput: it is no such file, or a row has a price, step, unit or date that cannot be.
    """
    return [_row(row, where) for where, row in catalog.rows(path, *catalog.METER_COLUMNS)]


def read_all(chosen: Path | None = None, agreed: Path | None = None) -> list[dict[str, Any]]:
    """The rows of a catalog, with the user's own beside the built-in ones, and the user's contract
    over all of them.

    Args:
        agreed: as of ``catalog.contract_file``.

    Raises:
        BadInput: as of ``read`` and ``contract.read``.
    """
    rows, contract_file = read_public(chosen), catalog.contract_file(agreed)
    if contract_file is None:
        return rows
    from .. import contract  # noqa: PLC0415 WHY: few have a contract

    return contract.over_services(contract_file, rows)


def read_public(chosen: Path | None = None) -> list[dict[str, Any]]:
    """As ``read_all``, without the user's contract."""
    folder, user_file = catalog.folder(chosen), catalog.own_file(FILE)
    rows = read(catalog.find(FILE, chosen))
    if folder == catalog.built_in() and user_file.exists():
        rows += read(user_file)
    return rows


def keep(path: Path, rows: Iterable[Mapping[str, Any]]) -> int:
    """Write rows to the user's file, all or nothing; how many it then holds. The last of the same
    day counts."""
    from ..retail import write_rows  # noqa: PLC0415 WHY: whoever only reads needs no server

    # A number of the file and one of an answer are the same key.
    written = [{**row, "from_units": f"{float(row['from_units']):.10g}"} for row in rows]
    key = ("item", "region", "from_units", "as_of_date")
    return write_rows(path, catalog.METER_COLUMNS, key, written)


def _row(row: dict[str, str], where: str) -> dict[str, Any]:
    numbers = {}
    for name in ("usd", "from_units"):
        try:
            numbers[name] = float(row[name])
        except ValueError:
            raise BadInput(f"{where}: {name} is {row[name]!r}, which is no number") from None
        if not 0 <= numbers[name] < math.inf:
            raise BadInput(f"{where}: {name} is {row[name]}: it is 0 or more")
    if row["unit"] not in catalog.METER_UNITS:
        raise BadInput(
            f"{where}: {row['unit']!r} is no unit; there are {', '.join(catalog.METER_UNITS)}"
        )
    if not is_date(row["as_of_date"]):
        raise BadInput(f"{where}: {row['as_of_date']!r} is not a date like 2026-06-18")
    return {**{name: row[name] for name in catalog.METER_COLUMNS}, **numbers}


class Meters:
    """The tariff that counts for an item and region: that of the newest date.

    Args:
        on: the day of reading.
    """

    def __init__(self, rows: Sequence[Mapping[str, Any]], on: date) -> None:
        days: dict[tuple[str, str], dict[str, list[Mapping[str, Any]]]] = {}
        for row in rows:
            if not standing(row["as_of_date"], row["notes"], on).refusal:
                key = (row["item"], row["region"])
                days.setdefault(key, {}).setdefault(row["as_of_date"], []).append(row)
        self._tariffs = {key: _tariff(by_day[max(by_day)], on) for key, by_day in days.items()}

    def find(self, item: str, region: str) -> Tariff | None:
        region = region_name(region)
        return self._tariffs.get((item, region)) or self._tariffs.get((item, GLOBAL))

    def per_hour(self, item: str, region: str) -> Tariff | None:
        """The tariff as US$ an hour of one piece, or of one GiB; None where it has none."""
        tariff = self.find(item, region)
        if tariff is None or tariff.unit in ("hour", "GiB-hour"):
            return tariff
        if tariff.unit not in ("month", "GB-month"):
            return None
        steps = tuple((start, usd / HOURS_A_MONTH) for start, usd in tariff.steps)
        return tariff._replace(steps=steps)


def listed(rows: Sequence[Mapping[str, Any]], region: str | None, on: date) -> list[dict[str, Any]]:
    """The rows of each item and region with the newest date, and their age in days.

    Raises:
        BadInput: the region has none.
    """
    newest: dict[tuple[str, str], str] = {}
    for row in rows:
        key = (row["item"], row["region"])
        newest[key] = max(row["as_of_date"], newest.get(key, ""))
    wanted = None if region is None else region_name(region)
    found = [
        {**row, "age_days": standing(row["as_of_date"], row["notes"], on).age_days}
        for row in rows
        if row["as_of_date"] == newest[row["item"], row["region"]]
        and wanted in (None, row["region"])
    ]
    if not found:
        there = ", ".join(sorted({row["region"] for row in rows}))
        raise BadInput(f"no price of a service in {wanted}; there are {there}")
    return sorted(found, key=lambda row: (row["item"], row["region"], row["from_units"]))


def _tariff(rows: Sequence[Mapping[str, Any]], on: date) -> Tariff:
    first = rows[0]
    by_start = {row["from_units"]: row["usd"] for row in rows}
    # A meter of traffic begins behind its free units.
    by_start.setdefault(0.0, 0.0)
    age = standing(first["as_of_date"], "", on).age
    return Tariff(
        *(first["item"], first["unit"], tuple(sorted(by_start.items()))),
        *(first["as_of_date"], first["source"], age),
    )
