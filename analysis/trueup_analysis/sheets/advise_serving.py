"""From an answer about a service to sheets: machines for a term, and the offers beside them."""

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
    " tokens of prompts and answers, at the rate asked for and at full load. Layout and requests in"
    " flight are the recipe's: `trueup model CONFIG` compares layouts, with as many in flight as"
    " the limits allow, and may need fewer nodes."
)


def _percent(value: float) -> str:
    return units.percent(value, digits=0)


# The basis of each choice, beside the shown columns.
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


def basis(choice: Choice) -> dict[str, Any]:
    """The values of BASIS."""
    return {
        "lost_share": choice.lost,
        "usd_per_node_hour": choice.price.usd_per_hour,
        "price_date": choice.price.date,
        "price_age": choice.price.age,
        "price_source": choice.price.source,
        "front": choice.front,
        "beyond": choice.estimate.beyond,
        "evidence": "; ".join(f"{each.kind}: {each.source}" for each in choice.estimate.evidence),
        "mark": "best" if choice.best else "",
    }


def row(choice: Choice, ranking: Answer) -> dict[str, Any]:
    """One choice of a service."""
    assert ranking.need is not None  # noqa: S101 (asked of a service alone)
    assert choice.load is not None  # noqa: S101
    term, tokens = ranking.need.term, ranking.need.work.value
    million = choice.usd.value / tokens * _MILLION
    full = choice.load.times(million)
    return {
        "best": choice.best,
        "choice": f"{choice.estimate.nodes} x {short_size(choice.estimate.size)}, {choice.offer}",
        "engines": choice.estimate.units,
        "size": choice.estimate.size,
        "nodes": choice.estimate.nodes,
        "offer": choice.offer,
        "region": choice.region,
        "usd": choice.usd.value,
        "usd_per_hour": choice.usd.value / term,
        "usd_per_month": choice.usd.value / term * _MONTH,
        "usd_per_million": million,
        "load": choice.load.value,
        "load_low": choice.load.low,
        "load_high": choice.load.high,
        "within": f"{_percent(choice.load.low)} .. {_percent(choice.load.high)}",
        "full": f"{price(full.low)} .. {price(full.high)}",
        "usd_per_million_full": full.value,
        "usd_per_million_full_low": full.low,
        "usd_per_million_full_high": full.high,
        "trust": choice.estimate.trust,
        "holds": _holds(choice, ranking),
        "latency": " ".join(choice.estimate.notes),
        "latency_held": choice.estimate.held,
        **basis(choice),
    }


def _holds(choice: Choice, ranking: Answer) -> str:
    misses = [
        text
        for text, is_so in (
            ("rate not at the slow end", choice.late),
            ("too dear", choice.dear),
            ("latency missed", choice.estimate.held is False),
        )
        if is_so
    ]
    if misses:
        return ", ".join(misses)
    has_limit = ranking.ask["ttft_ms"] or ranking.ask["tpot_ms"]
    return "rate; latency not judged" if has_limit and choice.estimate.held is None else "yes"


def verdicts(ranking: Answer) -> list[str]:
    """The cheapest choice, and the known facts on its latency."""
    choice = ranking.marked("cheapest")
    if choice is None:
        return ["Nothing holds what was asked for, slow end counted: holds says what is missed."]
    beyond = f" Not seen before: {choice.estimate.beyond}" if choice.estimate.beyond else ""
    words = f"{_costs(choice)}.{beyond}"
    sentences = [f"Cheapest that holds the rate, slow end counted: {words}"]
    if choice.offer == "spot":
        sentences.append("Spot nodes may all be taken away at once, and nothing is served then.")
    sentences += [f"{note}." for note in choice.estimate.notes]
    if not choice.estimate.notes:
        sentences.append("No limit of latency was given: TTFT and TPOT were not judged.")
    elif not choice.estimate.held:
        sure = ranking.marked(LATENCY)
        words = "nothing" if sure is None else f"{_costs(sure)}. {'. '.join(sure.estimate.notes)}"
        sentences.append(f"Cheapest whose latency is known to be held: {words}.")
    return [*sentences, NOTE]


def _costs(choice: Choice) -> str:
    usd = price(choice.price.usd_per_hour * choice.estimate.nodes)
    return f"{named(choice)} in {choice.region}, {usd} US$/h"


def evens(break_evens: Sequence[Even]) -> Sheet:
    """The use from which the machines, or a reservation of them, are cheaper."""
    rows = [
        {
            "choice": named(even.choice),
            "against": even.against,
            "usd": even.usd,
            "per": even.per,
            "share": even.share.value,
            "share_low": even.share.low,
            "share_high": even.share.high,
            "share_range": f"{_percent(even.share.low)} .. {_percent(even.share.high)}",
            "rate": even.rate,
            "words": even.words,
            "source": even.source,
        }
        for even in break_evens
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
