"""Comparisons of a service on rented machines: with an API's price, and with a reservation."""

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
    """The use from which something is cheaper.

    Attributes:
        choice: the machines.
        against: the alternative that they are compared with.
        usd: its price, with ``per``.
        share: of an API, the share of the machines' capacity from which they are cheaper (above 1:
            never); of a reservation, the share of its hours from which it is cheaper than by the
            hour.
        rate: requests a second at that share; None of a reservation.
        words: the cheaper one for the request.
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
    evens = []
    for choice in choices:
        if choice.front:
            evens += [*_of_api(choice, ask), *_of_reservations(choice, ask, book)]
    return evens


def _of_api(choice: Choice, ask: Mapping[str, Any]) -> Iterator[Even]:
    prices = {name: ask[f"api_usd_per_million_{name}"] for name in ("input", "output")}
    request = sum(ask[f"{name}_tokens"] * (usd or 0.0) for name, usd in prices.items()) / _MILLION
    if not request or choice.load is None:
        return
    rate = choice.estimate.nodes * choice.price.usd_per_hour / request / _HOUR
    request_rate = ask["requests_per_second"]
    better = "the machines" if rate < request_rate else "the API"
    words = f"{better}, at {request_rate:g} requests/s"
    yield Even(
        choice, "API", request, "request", choice.load.times(rate / request_rate), rate, words
    )


def _of_reservations(choice: Choice, ask: Mapping[str, Any], book: Book) -> Iterator[Even]:
    if choice.offer != _PAYG:
        return
    size, each = choice.estimate.size, choice.price.usd_per_hour
    reservations = [
        (offer, quote.usd_per_hour, quote.source)
        for offer in _RESERVED
        if (quote := book.find(size, choice.region, "linux", offer)) is not None
    ]
    if ask["reserved_usd_per_hour"]:
        reservations.append(("reservation", ask["reserved_usd_per_hour"], "yours"))
    for name, usd, source in reservations:
        share = around(usd / each, 1.0)
        words = "by the hour, always" if usd >= each else f"reserved, from {usd / each:.0%} on"
        yield Even(choice, name, usd, "node and hour", share, None, words, source)
