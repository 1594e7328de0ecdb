"""From an answer about a service to sheets: machines for a term, and what they are held against."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from .. import units
from ..figures.advise.answers import LATENCY, named
from .sheet import Column, Sheet, price, short_size, unshown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..figures.advise.answers import Answer, Choice
    from ..figures.advise.evens import Even

_MONTH: Final = 730.0
_MILLION: Final = 1e6
NOTE: Final = (
    "US$ are of nodes that are paid for all of the term, and hold the nodes alone. Load: the rate"
    " asked for over the rate that they are estimated to serve, with its range. US$/Mtok: a million"
    " tokens of prompts and answers, at the rate asked for and at full load."
)


def _percent(value: float) -> str:
    return units.percent(value, digits=0)


# What each choice rests on, beside what is shown of it.
BASIS: Final = [
    *unshown(
        "lost_share",
        "usd_per_node_hour",
        "price_date",
        "price_age",
        "price_source",
        "front",
        "beyond",
    ),
    *unshown("evidence", "mark"),
]
COLUMNS: Final = [
    Column("best", "best", words=True),
    Column("choice", "choice", words=True, data=False),
    Column("engines", "engines"),
    Column("region", "region", words=True),
    Column("usd_per_hour", "US$/h", price),
    Column("usd_per_month", "US$/month", price),
    Column("usd_per_million", "US$/Mtok", price),
    Column("load", "load", _percent),
    Column("within", "load from .. to", words=True, data=False),
    Column("full", "US$/Mtok, full", words=True, data=False),
    Column("trust", "from", words=True),
    Column("holds", "holds", words=True),
    *unshown("size", "nodes", "offer", "load_low", "load_high", "usd", "latency", "latency_held"),
    *unshown("usd_per_million_full_low", "usd_per_million_full", "usd_per_million_full_high"),
    *BASIS,
]


def basis(one: Choice) -> dict[str, Any]:
    """The values of BASIS."""
    return {
        "lost_share": one.lost,
        "usd_per_node_hour": one.price.usd_per_hour,
        "price_date": one.price.date,
        "price_age": one.price.age,
        "price_source": one.price.source,
        "front": one.front,
        "beyond": one.estimate.beyond,
        "evidence": "; ".join(f"{each.kind}: {each.source}" for each in one.estimate.evidence),
        "mark": "best" if one.best else "",
    }


def row(one: Choice, found: Answer) -> dict[str, Any]:
    """One choice of a service."""
    assert found.need is not None  # noqa: S101 (asked of a service alone)
    assert one.load is not None  # noqa: S101
    term, tokens = found.need.term, found.need.work.value
    million = one.usd.value / tokens * _MILLION
    full = one.load.times(million)
    return {
        "best": one.best,
        "choice": f"{one.estimate.nodes} x {short_size(one.estimate.size)}, {one.offer}",
        "engines": one.estimate.units,
        "size": one.estimate.size,
        "nodes": one.estimate.nodes,
        "offer": one.offer,
        "region": one.region,
        "usd": one.usd.value,
        "usd_per_hour": one.usd.value / term,
        "usd_per_month": one.usd.value / term * _MONTH,
        "usd_per_million": million,
        "load": one.load.value,
        "load_low": one.load.low,
        "load_high": one.load.high,
        "within": f"{_percent(one.load.low)} .. {_percent(one.load.high)}",
        "full": f"{price(full.low)} .. {price(full.high)}",
        "usd_per_million_full": full.value,
        "usd_per_million_full_low": full.low,
        "usd_per_million_full_high": full.high,
        "trust": one.estimate.trust,
        "holds": _holds(one, found),
        "latency": " ".join(one.estimate.notes),
        "latency_held": one.estimate.held,
        **basis(one),
    }


def _holds(one: Choice, found: Answer) -> str:
    misses = [
        word
        for word, is_so in (
            ("rate not at the slow end", one.late),
            ("too dear", one.dear),
            ("latency missed", one.estimate.held is False),
        )
        if is_so
    ]
    if misses:
        return ", ".join(misses)
    asked = found.ask["ttft_ms"] or found.ask["tpot_ms"]
    return "rate; latency not judged" if asked and one.estimate.held is None else "yes"


def verdicts(found: Answer) -> list[str]:
    """The cheapest, and what is known of its latency."""
    one = found.marked("cheapest")
    if one is None:
        return ["Nothing holds what was asked for, slow end counted: holds says what is missed."]
    beyond = f" Not seen before: {one.estimate.beyond}" if one.estimate.beyond else ""
    words = f"{_costs(one)}.{beyond}"
    said = [f"Cheapest that holds the rate, slow end counted: {words}"]
    if one.offer == "spot":
        said.append("Spot nodes may all be taken away at once, and nothing is served then.")
    said += [f"{note}." for note in one.estimate.notes]
    if not one.estimate.notes:
        said.append("No limit of latency was given: TTFT and TPOT were not judged.")
    elif not one.estimate.held:
        sure = found.marked(LATENCY)
        words = "nothing" if sure is None else f"{_costs(sure)}. {'. '.join(sure.estimate.notes)}"
        said.append(f"Cheapest whose latency is known to be held: {words}.")
    return [*said, NOTE]


def _costs(one: Choice) -> str:
    usd = price(one.price.usd_per_hour * one.estimate.nodes)
    return f"{named(one)} in {one.region}, {usd} US$/h"


def evens(found: Sequence[Even]) -> Sheet:
    """From what use on the machines, or a reservation of them, are cheaper."""
    rows = [
        {
            "choice": named(one.choice),
            "against": one.against,
            "usd": one.usd,
            "per": one.per,
            "share": one.share.value,
            "share_low": one.share.low,
            "share_high": one.share.high,
            "share_range": f"{_percent(one.share.low)} .. {_percent(one.share.high)}",
            "rate": one.rate,
            "words": one.words,
            "source": one.source,
        }
        for one in found
    ]
    return Sheet(
        title="Break-even",
        columns=[
            Column("choice", "machines", words=True),
            Column("against", "against", words=True),
            Column("usd", "US$", partial(units.significant, digits=3)),
            Column("per", "per", words=True),
            Column("share", "even at", _percent),
            Column("share_range", "from .. to", words=True, data=False),
            Column("rate", "requests/s", partial(units.significant, digits=3)),
            Column("words", "cheaper", words=True),
            *unshown("share_low", "share_high", "source"),
        ],
        rows=rows,
        notes=[
            "API: the share of their rate from which on machines are cheaper; above 100 %: never.",
            "Reservation: the share of its hours from which on it is cheaper than by the hour.",
        ],
        name="advise-break-even",
        facts={"kind": "advise_break_even"},
    )
