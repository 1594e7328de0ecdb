"""What a service on rented machines is held against: an API's price, and a reservation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from .estimates import around

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ..prices import Book
    from .answers import Choice
    from .estimates import Range
    from .kinds.kind import Need

_HOUR: Final = 3600
_MILLION: Final = 1e6
_PAYG: Final = "payg"
_RESERVED: Final = ("1y", "3y", "savings1y", "savings3y")


class Even(NamedTuple):
    """From what use on something is cheaper.

    Attributes:
        choice: the machines.
        against: what they are held against.
        usd: its price, with ``per``.
        share: of an API, of what the machines can serve, from which on they are cheaper (above 1:
            never); of a reservation, of its hours, from which on it is cheaper than by the hour.
        rate: requests a second at that share; None of a reservation.
        words: what is cheaper for what was asked.
    """

    choice: Choice
    against: str
    usd: float
    per: str
    share: Range
    rate: float | None
    words: str
    source: str = "yours"


def away(per_hour: float, minutes: float) -> float:
    """The share of the time that a node is not there, stopped so often and back after so long."""
    lost = per_hour * minutes / 60
    return lost / (1 + lost)


def break_evens(
    choices: Sequence[Choice], need: Need, ask: Mapping[str, Any], book: Book
) -> list[Even]:
    """Of the choices of a service that stand first; nothing for other work."""
    if not need.term:
        return []
    found = []
    for one in choices:
        if one.front:
            found += [*_of_api(one, ask), *_of_reservations(one, ask, book)]
    return found


def _of_api(one: Choice, ask: Mapping[str, Any]) -> Iterator[Even]:
    prices = {name: ask[f"api_usd_per_million_{name}"] for name in ("input", "output")}
    request = sum(ask[f"{name}_tokens"] * (usd or 0.0) for name, usd in prices.items()) / _MILLION
    if not request or one.load is None:
        return
    rate = one.estimate.nodes * one.price.usd_per_hour / request / _HOUR
    asked = ask["requests_per_second"]
    better = "the machines" if rate < asked else "the API"
    words = f"{better}, at {asked:g} requests/s"
    yield Even(one, "API", request, "request", one.load.times(rate / asked), rate, words)


def _of_reservations(one: Choice, ask: Mapping[str, Any], book: Book) -> Iterator[Even]:
    if one.offer != _PAYG:
        return
    size, each = one.estimate.size, one.price.usd_per_hour
    told = [
        (offer, quote.usd_per_hour, quote.source)
        for offer in _RESERVED
        if (quote := book.find(size, one.region, "linux", offer)) is not None
    ]
    if ask["reserved_usd_per_hour"]:
        told.append(("reservation", ask["reserved_usd_per_hour"], "yours"))
    for name, usd, source in told:
        share = around(usd / each, 1.0)
        words = "by the hour, always" if usd >= each else f"reserved, from {usd / each:.0%} on"
        yield Even(one, name, usd, "node and hour", share, None, words, source)
