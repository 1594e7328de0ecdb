"""The cost of a user's hour on hosts that several users share: US$ an hour of the host over its
users, at the base rate and at the Windows rate."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trueup_controller.desktops.preflight import USD_PER_VCPU_HOUR

from .. import catalog
from ..cases import read_cases
from .prices import LIST_OFFER, Book, Pricing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from trueup_node.cases import Case

    from ..load import Loaded
    from .terms import Terms

BENCHMARK: Final = "nv_a10"
# The benchmark name of a publication, and its metric.
PUBLISHED: Final = "nx_avd"
_PUBLISHED_USERS: Final = "users_per_host"
_RATE: Final = "session_frame_rate"
COMPUTED: Final = f"base rate + {USD_PER_VCPU_HOUR:g} US$ per vCPU and hour, computed"


class UserTable(NamedTuple):
    """Cost by the hour of a user.

    Attributes:
        rows: one a case of nv_a10, publication, or size where the number of users was given:
            benchmark, case (both "" for a size), vm_size, region, offer, users, frame_rate (1/s,
            median; NaN where none was measured), held (yes or no; "" where nobody measured it),
            records, usd_per_hour and usd_per_user_hour (base rate), price_date, price_source,
            windows_usd_per_hour, windows_usd_per_user_hour, windows_source. An unknown
            value is NaN.
        warnings: sentences. unknown: rows without a price, and why, one sentence each.
    """

    rows: list[dict[str, Any]]
    warnings: list[str]
    unknown: list[str]

    @property
    def has_prices(self) -> bool:
        """Whether the price of any row is known."""
        return any(not math.isnan(row["usd_per_hour"]) for row in self.rows)


def has_users(loaded: Loaded, terms: Terms) -> bool:
    """Whether ``table`` has rows."""
    named = {BENCHMARK, PUBLISHED} & set(loaded.values("benchmark"))
    return terms.users is not None or bool(named and _shared(loaded))


def read_vcpus(path: Path) -> dict[str, int]:
    """The vCPUs of each size, as ``catalog.counts`` reads them."""
    return catalog.counts(path, "vcpus", "vCPUs")


def table(
    loaded: Loaded,
    *,
    prices: Sequence[Mapping[str, Any]],
    vcpus: Mapping[str, int],
    terms: Terms,
) -> UserTable:
    """Cost of a user's hour for cases that say how many users there are; with ``terms.users`` for
    that many on each size of the records.

    Args:
        prices: as ``read_prices`` gives them.
        vcpus: as ``read_vcpus`` gives them.
    """
    billing = _Billing(prices, vcpus, terms)
    rows = _by_size(loaded, terms) if terms.users is not None else _by_case(loaded)
    priced = [billing.row(row) for row in rows]
    unique = {repr(row): row for row in priced}
    return UserTable(list(unique.values()), billing.base.warnings(), billing.base.unknown())


def _shared(loaded: Loaded) -> list[Case]:
    """The cases that say how many users a host has."""
    cases = read_cases(loaded, metrics=[_RATE, _PUBLISHED_USERS])
    return [case for case in cases if case.outcome == "ok" and _users(case)]


def _users(case: Case) -> int:
    """How many users the case has; 0 where it does not say."""
    stated = case.typical(_PUBLISHED_USERS)
    if case.benchmark == PUBLISHED and stated:
        return int(stated[0].value)
    sessions, frame_rate = (case.parameters.get(name) for name in ("sessions", "frames_per_second"))
    if case.benchmark != BENCHMARK or not case.typical(_RATE) or type(sessions) is not int:
        return 0
    return sessions if isinstance(frame_rate, (int, float)) else 0


def _by_size(loaded: Loaded, terms: Terms) -> list[dict[str, Any]]:
    cases = [case for case in read_cases(loaded, metrics=[]) if case.outcome == "ok"]
    blank = {"benchmark": "", "case": "", "users": terms.users, "records": 0}
    measured = {"frame_rate": math.nan, "held": ""}
    return [{**_place(case), **blank, **measured} for case in cases]


def _place(case: Case) -> dict[str, Any]:
    return {"vm_size": case.vm_size, "region": case.region, "offer": case.offer}


def _by_case(loaded: Loaded) -> list[dict[str, Any]]:
    """A row for each case of a size, over all its nodes and runs."""
    pooled: dict[tuple[Any, ...], list[Case]] = {}
    for case in _shared(loaded):
        key = (case.benchmark, case.case, case.machine, case.region, case.offer)
        pooled.setdefault((*key, case.parameters.get("frames_per_second")), []).append(case)
    return [_row(cases) for cases in pooled.values()]


def _row(cases: Sequence[Case]) -> dict[str, Any]:
    first = cases[0]
    rates = [figure.value for case in cases for figure in case.typical(_RATE)]
    rate, held = math.nan, ""
    if rates:
        rate = statistics.median(rates)
        held = "yes" if rate >= float(first.parameters["frames_per_second"]) else "no"
    return {
        **_place(first),
        "benchmark": first.benchmark,
        "case": first.case,
        "users": _users(first),
        "frame_rate": rate,
        "held": held,
        "records": len(cases),
    }


class _Billing:
    """The cost of an hour of a host at both rates."""

    def __init__(
        self, prices: Sequence[Mapping[str, Any]], vcpus: Mapping[str, int], terms: Terms
    ) -> None:
        self.base = Pricing(prices, terms)
        self._book = Book(prices, terms.price_date)
        self._vcpus, self._terms = vcpus, terms

    def row(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """The row with its prices."""
        terms = self._terms
        size, region = terms.as_size or row["vm_size"], terms.region or row["region"]
        offer = terms.offer or row["offer"] or LIST_OFFER
        quote = self.base.quote(size, region, offer)
        usd = float(quote["usd_per_hour"])
        windows, source = self._windows(usd, size, region, offer)
        return {
            **row,
            "vm_size": size,
            "region": region,
            "offer": offer,
            "os": "linux",
            **{
                name: quote[name]
                for name in ("usd_per_hour", "price_date", "price_age", "price_source")
            },
            "usd_per_user_hour": usd / row["users"],
            "windows_usd_per_hour": windows,
            "windows_usd_per_user_hour": windows / row["users"],
            "windows_source": source,
        }

    def _windows(
        self, base: float, size: str | None, region: str | None, offer: str
    ) -> tuple[float, str]:
        vcpus = self._vcpus.get((size or "").lower(), 0)
        # A price that was given is of no region of the table.
        where = region if size and self._terms.price is None else None
        return windows_rate(self._book, base, size or "", where or None, offer, vcpus)


def windows_rate(
    book: Book, base: float, size: str, region: str | None, offer: str, vcpus: int
) -> tuple[float, str]:
    """The Windows rate and where it is from: the price table, else base rate and surcharge, which
    is known of the list price alone; NaN and "" where neither is known.

    Args:
        region: None where the table says nothing of the base rate.
        vcpus: of the size; 0 where that is not known.
    """
    listed = None if region is None else book.find(size, region, "windows", offer)
    if listed is not None:
        return listed.usd_per_hour, f"as of {listed.dated}, {listed.source}"
    if vcpus and not math.isnan(base) and offer == LIST_OFFER:
        return base + USD_PER_VCPU_HOUR * vcpus, COMPUTED
    return math.nan, ""
