"""The cost of repairs: hours and US$ of each case, from the first symptom to the give-back."""

from __future__ import annotations

import math
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from .prices import Pricing, read_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from trueup_controller.repair.case import Case

    from .terms import Terms

_SECONDS: Final = 3600


class Priced(NamedTuple):
    """A case with its hours and its price.

    Attributes:
        hours: by month, 2026-11.
        usd_per_hour: NaN where there is no price, and ``why`` then says why.
        price_source: with its date.
        is_over: whether the node is back, or the case is closed.
        is_false: drained for nothing.
    """

    case: Case
    hours: dict[str, float]
    usd_per_hour: float
    price_source: str
    is_over: bool
    is_false: bool

    @property
    def total_hours(self) -> float:
        return sum(self.hours.values())

    @property
    def usd(self) -> float:
        return self.total_hours * self.usd_per_hour


class Group(NamedTuple):
    """The sum of some cases.

    Attributes:
        usd: of the priced cases; ``unpriced`` counts the hours of the others.
    """

    name: str
    cases: int
    hours: float
    usd: float
    unpriced: float
    false_drains: int


class Bill(NamedTuple):
    """All cases, their sums, and sentences on missing prices."""

    cases: list[Priced]
    by: dict[str, list[Group]]
    unknown: list[str]
    warnings: list[str]


def bill(cases: Sequence[Case], now: str, terms: Terms, chosen: Path | None = None) -> Bill:
    """The bill of some cases.

    Args:
        now: the end of cases that are not over.
    """
    pricing = Pricing(read_all(chosen), terms)
    priced = [_priced(case, now, pricing, terms) for case in cases]
    keys: dict[str, Callable[[Priced], Iterator[tuple[str, float]]]] = {
        "node": lambda item: iter([(item.case.node, item.total_hours)]),
        "fault": lambda item: iter([(item.case.opened.fault, item.total_hours)]),
        "month": lambda item: iter(item.hours.items()),
    }
    by = {name: _groups(priced, parts) for name, parts in keys.items()}
    return Bill(priced, by, pricing.unknown(), pricing.warnings())


def _priced(case: Case, now: str, pricing: Pricing, terms: Terms) -> Priced:
    opened = case.opened
    back = case.given_back or case.closed
    quote = pricing.quote(
        terms.as_size or opened.vm_size or None,
        terms.region or opened.region or None,
        terms.offer or opened.offer or "payg",
    )
    usd = float(quote["usd_per_hour"])
    source = f"{quote['price_source']} {quote['price_date']}".strip()
    hours = months(opened.first_symptom, back.at if back else now)
    return Priced(
        case,
        hours,
        usd,
        "not priced" if math.isnan(usd) else source,
        back is not None,
        case.was_false_drain,
    )


def months(begin: str, end: str) -> dict[str, float]:
    """Hours between two times by month, in UTC."""
    start = datetime.fromisoformat(begin).astimezone(UTC)
    last = datetime.fromisoformat(end).astimezone(UTC)
    hours: dict[str, float] = {f"{start:%Y-%m}": 0.0}
    while start < last:
        following = (start.replace(day=1) + timedelta(days=32)).replace(
            day=1, hour=0, minute=0, second=0, microsecond=0
        )
        until = min(following, last)
        hours[f"{start:%Y-%m}"] = (until - start).total_seconds() / _SECONDS
        start = until
    return hours


def _groups(
    priced: Sequence[Priced], parts: Callable[[Priced], Iterator[tuple[str, float]]]
) -> list[Group]:
    members: dict[str, list[tuple[Priced, float]]] = defaultdict(list)
    for item in priced:
        for name, hours in parts(item):
            members[name].append((item, hours))
    return [
        Group(
            name,
            len(pairs),
            sum(hours for _, hours in pairs),
            sum(
                hours * item.usd_per_hour
                for item, hours in pairs
                if not math.isnan(item.usd_per_hour)
            ),
            sum(hours for item, hours in pairs if math.isnan(item.usd_per_hour)),
            sum(item.is_false for item, _ in pairs),
        )
        for name, pairs in sorted(members.items())
    ]
