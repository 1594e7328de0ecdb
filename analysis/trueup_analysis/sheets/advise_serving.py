"""From an answer about a service to sheets: machines for a term, and the offers beside them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from .. import units
from ..figures.advise.answers import named
from . import model as of_model
from .sheet import Column, Sheet, price, short_size, unshown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..figures.advise.answers import Answer, Choice
    from ..figures.advise.evens import Even
    from ..figures.models.answers import Choice as Plan

_MONTH: Final = 730.0
_MILLION: Final = 1e6
NOTE: Final = (
    "US$ are of nodes that are paid for all of the term, and hold the nodes alone. Load: the rate"
    " asked for over the rate that the nodes are estimated to serve, with its range. US$/Mtok: a"
    " million tokens of prompts and answers, at the rate asked for. TTFT and TPOT are means at that"
    " rate. Nodes in brackets: at the high and at the low end of a node's rate."
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
    Column("layout", "parallel", words=True),
    Column("region", "region", words=True),
    Column("usd_per_hour", "US$/h", price),
    Column("usd_per_million", "US$/Mtok", price),
    Column("load", "load", _percent),
    Column("within", "load from .. to", words=True, data=False),
    Column("ttft", "TTFT, ms", of_model.milliseconds),
    Column("tpot", "TPOT, ms", of_model.milliseconds),
    Column("rests_on", "rests on", words=True),
    Column("holds", "holds", words=True),
    *unshown("size", "nodes", "nodes_low", "nodes_high", "offer", "load_low", "load_high"),
    *unshown("requests_low", "requests_high", "usd", "usd_per_month", "flags", "trust"),
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
    plan = _plan(choice)
    term, tokens = ranking.need.term, ranking.need.work.value
    return {
        "best": choice.best,
        "choice": f"{of_model.nodes(plan)} x {short_size(plan.size)}, {choice.offer}",
        "layout": plan.layout.words,
        "size": plan.size,
        "nodes": plan.nodes,
        "nodes_low": plan.low_nodes,
        "nodes_high": plan.high_nodes,
        "requests_low": plan.capacity.low,
        "requests_high": plan.capacity.high,
        "offer": choice.offer,
        "region": choice.region,
        "usd": choice.usd.value,
        "usd_per_hour": choice.usd.value / term,
        "usd_per_month": choice.usd.value / term * _MONTH,
        "usd_per_million": choice.usd.value / tokens * _MILLION,
        "load": choice.load.value,
        "load_low": choice.load.low,
        "load_high": choice.load.high,
        "within": f"{_percent(choice.load.low)} .. {_percent(choice.load.high)}",
        "ttft": plan.speed.ttft,
        "tpot": plan.speed.tpot,
        "flags": of_model.command_flags(plan),
        "trust": choice.estimate.trust,
        "rests_on": plan.basis.kind,
        "holds": _holds(choice),
        **basis(choice),
    }


def _plan(choice: Choice) -> Plan:
    assert choice.estimate.plan is not None  # noqa: S101 (asked of a service alone)
    return choice.estimate.plan


def _holds(choice: Choice) -> str:
    plan = _plan(choice)
    misses = ["rate not at the low end"] * (plan.high_nodes > plan.nodes)
    misses += ["times not at the low end"] * (not plan.is_sure)
    misses += ["too dear"] * choice.dear
    return ", ".join(misses) or "yes"


def steady(ranking: Answer) -> Choice | None:
    """The cheapest machines that nobody takes away; None where there are none."""
    return next((each for each in ranking.choices if each.offer != "spot" and each.able), None)


def headline(choice: Choice) -> str:
    """The nodes and the layout, what they rest on, and how sure that is."""
    plan = _plan(choice)
    size, offer = short_size(plan.size), OFFERS[choice.offer]
    usd = price(choice.price.usd_per_hour * plan.nodes)
    return (
        f"Serve on {plan.nodes} x {size} ({plan.layout.words}) as {offer} in {choice.region}:"
        f" {usd} US$/h. {of_model.sure(plan)}; {of_model.span(plan)}."
    )


OFFERS: Final = {"payg": "pay as you go", "spot": "spot machines"}


def cheapest(choice: Choice | None) -> list[str]:
    """The cheapest choice in a sentence, and a warning where it is of spot nodes."""
    if choice is None:
        return ["Nothing holds what was asked for: holds says what is missed."]
    usd = price(choice.price.usd_per_hour * choice.estimate.nodes)
    sentences = [f"Cheapest: {named(choice)} in {choice.region}, {usd} US$/h."]
    if choice.offer == "spot":
        sentences.append("Spot nodes may all be taken away at once, and nothing is served then.")
    return sentences


def verdicts(ranking: Answer) -> list[str]:
    """The cheapest choice, and the facts that would change the advice."""
    choice = ranking.marked("cheapest")
    advised = steady(ranking) or choice
    return [*cheapest(choice), *(of_model.changes(_plan(advised)) if advised else ()), NOTE]


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
