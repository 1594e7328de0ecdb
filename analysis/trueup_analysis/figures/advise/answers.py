"""Estimates, priced and ranked: the cheapest in time, the fastest in budget, and alternatives."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trueup_node.errors import BadInput

from .access import transfer
from .estimates import Estimate, Range, Refusal
from .evens import Even, away, break_evens
from .kinds.kind import estimates, withheld_from
from .kinds.sizing import cheapest_region
from .stops import ASSUMED_EVICTIONS, Checkpoint, Evictions, checkpoint, evictions, loss

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..meters import Meters
    from ..prices import Book, Quote
    from .kinds.kind import Kind, Need
    from .knowledge import Knowledge

_HOUR: Final = 3600
# Whose share of lost time is above this is not offered: it would be paid for and not done.
_MOST_LOST: Final = 0.9
_SPOT: Final = "spot"


@dataclass(frozen=True)
class Choice:
    """An estimate with its price.

    Attributes:
        hours: from begin to end, with work that is lost and done again.
        usd: nodes x hours x price, idle hours included; of a service, with as many nodes as its
            rate takes at the ends of its range.
        lost: the share of the hours that failures and evictions cost.
        evicted: of spot, how often a node is taken away, and the source of it.
        interval: seconds between checkpoints; 0 without any.
        best: why it is marked: "cheapest", "fastest" or "".
        load: of a service, the requested share of the nodes' capacity.
        front: no other choice is both cheaper and faster; of a service, the cheapest of its offer.
    """

    estimate: Estimate
    offer: str
    region: str
    price: Quote
    hours: Range
    usd: Range
    lost: float
    late: bool = False
    dear: bool = False
    front: bool = False
    best: str = ""
    load: Range | None = None
    evicted: Evictions | None = None
    interval: float = 0.0

    @property
    def able(self) -> bool:
        """Within the limits."""
        return not self.late and not self.dear


class Sensitivity(NamedTuple):
    """The best choice and its cost with one assumption at its lowest and at its highest value."""

    name: str
    unit: str
    low: float
    high: float
    usd_low: float | None
    usd_high: float | None
    choice_low: str
    choice_high: str
    source: str

    @property
    def swing(self) -> float:
        costs = [usd for usd in (self.usd_low, self.usd_high) if usd is not None]
        return max(costs) - min(costs) if len(costs) > 1 else math.inf


@dataclass(frozen=True)
class Answer:
    """The advice for an ask.

    Attributes:
        choices: the front first, by cost.
        refused: the smallest refusal of each size, by name.
        unpriced: sizes that fit and have no price for an offer asked for.
        unsaid: facts that a log does not state.
        lossy: choices that failures would keep from finishing.
        need: the demands on the machines.
        evens: of a service, the use from which it is cheaper than the alternatives.
        sensitivities: widest first.
        transfer: the cost of data that leave the region, as a sentence; empty without any.
        checkpoint: what the work writes to keep what it has done; None of a service.
        withheld: sizes of the catalog that cannot be had or run, with the reason.
    """

    kind: Kind
    ask: Mapping[str, Any]
    assumed: Mapping[str, float]
    choices: Sequence[Choice]
    refused: Sequence[Refusal]
    unpriced: Sequence[str]
    lossy: Sequence[str]
    unsaid: str = ""
    sensitivities: Sequence[Sensitivity] = field(default=())
    need: Need | None = None
    evens: Sequence[Even] = field(default=())
    withheld: Mapping[str, str] = field(default_factory=dict)
    checkpoint: Checkpoint | None = None
    transfer: str = ""

    def marked(self, best: str) -> Choice | None:
        return next((choice for choice in self.choices if best in choice.best.split(", ")), None)


def answer(
    kind: Kind,
    ask: Mapping[str, Any],
    knowledge: Knowledge,
    book: Book,
    need: Need | None = None,
    tariffs: Meters | None = None,
) -> Answer:
    """The machines to rent for the ask.

    Args:
        need: the demands of the work where a log states them, and the kind's own options do not.
        tariffs: prices of services.

    Raises:
        BadInput: a size that the catalog does not have, or nothing can do it (says why, and the
            smallest that could).
    """
    withheld = withheld_from(kind, knowledge)
    knowledge.require(ask["sizes"], withheld)
    assumptions = () if need else kind.assumptions
    assumed = {
        assumption.name: ask.get(assumption.name, assumption.value) for assumption in assumptions
    }
    ranking = _answer(kind, ask, knowledge, book, assumed, need)
    if not ranking.choices:
        raise BadInput(_why_nothing(ranking, knowledge))
    tried = []
    for assumption in assumptions:
        if assumption.name in ask:
            continue
        ends = [
            _answer(kind, ask, knowledge, book, {**assumed, assumption.name: end}, need)
            for end in (assumption.low, assumption.high)
        ]
        tried.append(
            _sensitivity(
                assumption.name,
                assumption.unit,
                assumption.low,
                assumption.high,
                assumption.source,
                ends,
            )
        )
    if _SPOT in ask["offers"]:
        rate = ask["spot_evictions_per_hour"] or ASSUMED_EVICTIONS
        ends = [
            _answer(kind, {**ask, "spot_evictions_per_hour": end}, knowledge, book, assumed, need)
            for end in (rate / 5, rate * 4)
        ]
        whose = "assumed" if ask["spot_evictions_per_hour"] is None else "yours"
        source = f"{whose}, five times less and four times more"
        tried.append(
            _sensitivity("spot_evictions_per_hour", "1/h", rate / 5, rate * 4, source, ends)
        )
    if ranking.need and ranking.need.term and ranking.marked("cheapest"):
        tried.append(_rate_sensitivity(ranking.choices))
    tried.sort(key=lambda sensitivity: -sensitivity.swing)
    evens = break_evens(ranking.choices, ranking.need, ask, book) if ranking.need else ()
    region = (ranking.marked("cheapest") or ranking.choices[0]).region
    cost_of_transfer = transfer(ask, region, tariffs)
    more = {
        "transfer": cost_of_transfer,
        "sensitivities": tried,
        "evens": evens,
        "withheld": withheld,
    }
    return Answer(**{**vars(ranking), **more, "unsaid": need.unsaid if need else ""})


def _answer(
    kind: Kind,
    ask: Mapping[str, Any],
    knowledge: Knowledge,
    book: Book,
    assumed: Mapping[str, float],
    need: Need | None,
) -> Answer:
    refused: dict[str, Refusal] = {}
    choices, unpriced, lossy = [], set(), []
    need = need or kind.need(ask, assumed, knowledge)
    written = None if need.term else checkpoint(ask, need.state, knowledge)
    for estimate in estimates(kind, need, knowledge, ask["most_nodes"]):
        if ask["sizes"] and estimate.size not in ask["sizes"]:
            continue
        if isinstance(estimate, Refusal):
            refused[estimate.size] = estimate
            continue
        for offer in ask["offers"]:
            quoted = cheapest_region(book, estimate.size, ask["region"], offer)
            if quoted is None:
                unpriced.add(f"{estimate.size} ({offer})")
                continue
            evicted = (
                evictions(ask, knowledge, estimate.size, quoted[0]) if offer == _SPOT else None
            )
            if written is None:
                choice: Choice | None = served(estimate, offer, *quoted, need, ask, evicted)
            else:
                choice = _priced(estimate, offer, *quoted, ask, evicted, written)
            if choice is None:
                lossy.append(f"{estimate.nodes} x {estimate.size} ({offer})")
            else:
                choices.append(choice)
    ranked = _rank_services(choices) if need.term else _ranked(choices)
    refusals = list(refused.values())
    answers = (kind, ask, assumed, ranked, refusals, sorted(unpriced), lossy)
    return Answer(*answers, need=need, checkpoint=written)


def _priced(
    estimate: Estimate,
    offer: str,
    region: str,
    price: Quote,
    ask: Mapping[str, Any],
    evicted: Evictions | None,
    written: Checkpoint,
) -> Choice | None:
    """The choice, or None where failures and evictions leave next to nothing of the time."""
    rate = 1 / ask["node_mtbf_hours"] + (evicted.per_hour if evicted else 0.0)
    ends, losses = [], []
    for seconds in (estimate.seconds.low, estimate.seconds.value, estimate.seconds.high):
        lost = loss(seconds, estimate.nodes * rate, written, ask["restart_minutes"])
        if lost.share > _MOST_LOST:
            return None
        ends.append(seconds / (1 - lost.share) / _HOUR)
        losses.append(lost)
    hours = Range(*ends)
    each = estimate.nodes * price.usd_per_hour
    usd = Range(*(each * (end + ask["idle_hours"]) for end in ends))
    deadline, budget = ask["deadline_hours"], ask["budget_usd"]
    return Choice(
        *(estimate, offer, region, price, hours, usd, losses[1].share),
        late=deadline is not None and hours.high > deadline,
        dear=budget is not None and usd.high > budget,
        evicted=evicted,
        interval=losses[1].interval,
    )


def _ranked(choices: Iterable[Choice]) -> list[Choice]:
    """The front first, by cost, then the others by cost; the best two marked."""
    ordered = sorted(choices, key=lambda choice: (choice.usd.value, choice.hours.value))
    fastest, marked = math.inf, []
    for choice in ordered:
        front = choice.hours.value < fastest
        fastest = min(fastest, choice.hours.value)
        marked.append(Choice(**{**vars(choice), "front": front}))
    able = [choice for choice in marked if choice.able]
    cheapest = min(able, key=lambda choice: choice.usd.value, default=None)
    quickest = min(able, key=lambda choice: choice.hours.value, default=None)
    named = [
        Choice(
            **{
                **vars(choice),
                "best": ", ".join(
                    mark
                    for mark, best in (("cheapest", cheapest), ("fastest", quickest))
                    if choice is best
                ),
            }
        )
        for choice in marked
    ]
    return sorted(named, key=lambda choice: (not choice.front, not choice.best, choice.usd.value))


def _rank_services(choices: Iterable[Choice]) -> list[Choice]:
    """By cost at the low end of the rate, so that a choice is not first because little is known of
    it. First come the cheapest of each offer that meet the request."""
    ordered = sorted(
        choices,
        # Costs that differ in rounding alone are equal.
        key=lambda choice: (round(choice.usd.high, 4), choice.estimate.nodes, choice.estimate.size),
    )
    first: dict[str, Choice] = {}
    for choice in ordered:
        if choice.able:
            first.setdefault(choice.offer, choice)
    chosen = [
        replace(choice, front=True, best="cheapest" if index == 0 else "")
        for index, choice in enumerate(first.values())
    ]
    return [
        *chosen,
        *(choice for choice in ordered if not any(choice is each for each in first.values())),
    ]


def served(
    estimate: Estimate,
    offer: str,
    region: str,
    price: Quote,
    need: Need,
    ask: Mapping[str, Any],
    evicted: Evictions | None = None,
) -> Choice | None:
    """A service on nodes that are paid for all of its term, as many as it takes with those that
    are away; None where that is more than are allowed."""
    assert estimate.plan is not None  # noqa: S101 (of a service)
    stops = 1 / ask["node_mtbf_hours"] + (evicted.per_hour if evicted else 0.0)
    lost = away(stops, ask["restart_minutes"])
    plan = replace(estimate.plan, rate=estimate.plan.rate / (1 - lost))
    if plan.nodes > ask["most_nodes"]:
        return None
    share = estimate.seconds.times(estimate.nodes / plan.nodes / (1 - lost) / _HOUR)
    each = price.usd_per_hour * need.term
    usd = Range(each * plan.low_nodes, each * plan.nodes, each * plan.high_nodes)
    budget = ask["budget_usd"]
    return Choice(
        *(replace(estimate, nodes=plan.nodes, plan=plan), offer, region, price, share, usd, lost),
        dear=budget is not None and usd.high > budget,
        load=share.times(1 / need.term),
        evicted=evicted,
    )


def _rate_sensitivity(choices: Sequence[Choice]) -> Sensitivity:
    """The cheapest choice were every node as slow, or as fast, as its range allows."""
    best, *_ = (choice.estimate.plan for choice in choices if choice.best)
    assert best is not None  # noqa: S101 (of a service)
    ends = []
    for end in ("high", "low"):
        able = [(getattr(choice.usd, end), choice) for choice in choices if choice.able]
        usd, choice = min(able, key=lambda each: (each[0], each[1].estimate.size))
        nodes = getattr(choice.estimate.plan, f"{end}_nodes")
        words = named(replace(choice, estimate=replace(choice.estimate, nodes=nodes)))
        ends.append((usd, words))
    (usd_low, choice_low), (usd_high, choice_high) = ends
    return Sensitivity(
        name="rate_of_a_node",
        unit="x expected",
        low=best.capacity.low / best.capacity.value,
        high=best.capacity.high / best.capacity.value,
        usd_low=usd_low,
        usd_high=usd_high,
        choice_low=choice_low,
        choice_high=choice_high,
        source="the range of each choice",
    )


def _sensitivity(
    name: str, unit: str, low: float, high: float, source: str, ends: Sequence[Answer]
) -> Sensitivity:
    best = [ranking.marked("cheapest") for ranking in ends]
    return Sensitivity(
        name=name,
        unit=unit,
        low=low,
        high=high,
        usd_low=None if best[0] is None else best[0].usd.value,
        usd_high=None if best[1] is None else best[1].usd.value,
        choice_low="nothing" if best[0] is None else named(best[0]),
        choice_high="nothing" if best[1] is None else named(best[1]),
        source=source,
    )


def named(choice: Choice) -> str:
    """ "4 x Standard_HB120rs_v3, spot"."""
    return f"{choice.estimate.nodes} x {choice.estimate.size}, {choice.offer}"


def _why_nothing(ranking: Answer, knowledge: Knowledge) -> str:
    if ranking.lossy:
        return (
            f"nothing would come to its end: {ranking.lossy[0]} and {len(ranking.lossy) - 1} others"
            f" lose more than {_MOST_LOST:.0%} of their time to failures; give a checkpoint_to or"
            " checkpoint_seconds that is faster, or offers=payg"
        )
    if ranking.unpriced:
        where = ranking.ask["region"] or "any region"
        return f"no size that fits has a price in {where}: {', '.join(ranking.unpriced[:3])}"
    if ranking.refused:
        least = min(
            ranking.refused,
            key=lambda refusal: (not refusal.unknown, refusal.least_nodes or math.inf),
        )
        if least.unknown:
            return f"{least.size}: {least.reason}"
        would = f"; {least.least_nodes} x {least.size} would" if least.least_nodes else ""
        return (
            f"nothing of up to {ranking.ask['most_nodes']} nodes can do it: {least.size}:"
            f" {least.reason}{would}"
        )
    if ranking.kind.silent:
        return ranking.kind.silent(ranking.ask, knowledge)
    return "nothing known says how long this takes: measure it once, and ask again"
