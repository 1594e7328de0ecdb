"""Work without an end that is not estimated in time: machines or storage follow from limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from .. import stops

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trueup_node.options import Option

    from ...prices import Book, Quote
    from ..estimates import Assumption
    from ..knowledge import Knowledge
    from ..services import Limit, Services
    from .kind import Ask


class Held(NamedTuple):
    """The sources of a sizing."""

    known: Knowledge
    book: Book
    services: Services


# The terms of a run on machines, of which a store or a desktop has none.
OF_RUNS: Final = (
    *("offers", "most_nodes", "deadline_hours", "budget_usd", "idle_hours", *stops.NAMES),
    *("access", "data", "out_tb", "usd_per_gb_out"),
)


class Sizing(NamedTuple):
    """One kind of such work.

    Attributes:
        name, title: as it is asked for and shown.
        options: its questions; a required one has no default.
        unasked: the terms that say nothing of it.
        size: the answer, of the kind's own type.
        assumptions: none, for all of them are options.
    """

    name: str
    title: str
    options: Sequence[Option]
    unasked: tuple[str, ...]
    size: Callable[[Ask, Held], Any]
    assumptions: tuple[Assumption, ...] = ()


def cheapest_region(
    book: Book, size: str, region: str | None, offer: str
) -> tuple[str, Quote] | None:
    """The cheapest region with Linux, or the one asked for; None where it has no price."""
    quotes = [
        (where, quote)
        for (of, where, under, how), quote in book.quotes.items()
        if (of, under, how) == (size.lower(), "linux", offer) and region in (None, where)
    ]
    return min(quotes, key=lambda pair: (pair[1].usd_per_hour, pair[0]), default=None)


def limit_of(services: Services, service: str, field: str) -> Limit:
    """The limit that a service has on a field of Needs."""
    (row,) = (service_row for service_row in services.services if service_row.service == service)
    return next(limit for limit in row.limits if limit.of == field)
