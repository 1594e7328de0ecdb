"""Estimates, priced and ranked: what is cheapest in time, fastest in budget, and worth a look."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trueup.errors import BadInput

from ..checkpoint import intervals
from .estimates import Estimate, Range, Refusal, around
from .evens import Even, away, break_evens
from .kinds.kind import estimates
from .kinds.sizing import cheapest_region

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..prices import Book, Quote
    from .kinds.kind import Kind, Need
    from .knowledge import Knowledge

_HOUR: Final = 3600
# Whose share of lost time is above this is not offered: it would be paid for and not done.
_MOST_LOST: Final = 0.9
_SPOT: Final = "spot"
# The mark of the cheapest whose latency results say to be held.
LATENCY: Final = "latency held"


@dataclass(frozen=True)
class Choice:
    """An estimate with its price.

    Attributes:
        hours: from begin to end, with work that is lost and done again.
        usd: nodes x hours x price, idle hours included.
        lost: the share of the hours that failures and evictions cost.
        best: why it is marked: "cheapest", "fastest" or "".
        load: of a service, the share of what the nodes can serve that is asked of them.
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

    @property
    def able(self) -> bool:
        """Within the limits, and nothing that was asked for is known to be missed."""
        return not self.late and not self.dear and self.estimate.held is not False


class Sensitivity(NamedTuple):
    """What the best choice costs, and which it would be, if one assumption were at an end."""

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
        known = [usd for usd in (self.usd_low, self.usd_high) if usd is not None]
        return max(known) - min(known) if len(known) > 1 else math.inf


@dataclass(frozen=True)
class Answer:
    """What is advised.

    Attributes:
        choices: those of the front first, by cost.
        refused: the smallest refusal of each size, by name.
        unpriced: sizes that fit and have no price for an offer asked for.
        unsaid: what a log left open.
        lossy: choices that failures would keep from an end.
        need: what was asked of the machines.
        evens: of a service, from what use on it is cheaper than what else could be bought.
        sensitivities: widest first.
        withheld: sizes of the catalog that are not to be had any more, with the reason.
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

    def marked(self, best: str) -> Choice | None:
        return next((one for one in self.choices if best in one.best.split(", ")), None)


def answer(
    kind: Kind, ask: Mapping[str, Any], known: Knowledge, book: Book, need: Need | None = None
) -> Answer:
    """What to rent for the ask.

    Args:
        need: what the work takes where a log says it, and the kind's own options do not.

    Raises:
        BadInput: a size that the catalog does not have, or nothing can do it (says why, and the
            smallest that could).
    """
    known.require(ask["sizes"])
    assumptions = () if need else kind.assumptions
    assumed = {one.name: ask.get(one.name, one.value) for one in assumptions}
    found = _answer(kind, ask, known, book, assumed, need)
    if not found.choices:
        raise BadInput(_why_nothing(found, known))
    tried = []
    for one in assumptions:
        if one.name in ask:
            continue
        ends = [
            _answer(kind, ask, known, book, {**assumed, one.name: end}, need)
            for end in (one.low, one.high)
        ]
        tried.append(_sensitivity(one.name, one.unit, one.low, one.high, one.source, ends))
    if _SPOT in ask["offers"]:
        rate = ask["spot_evictions_per_hour"]
        ends = [
            _answer(kind, {**ask, "spot_evictions_per_hour": end}, known, book, assumed, need)
            for end in (rate / 5, rate * 4)
        ]
        source = "yours, five times less and four times more"
        tried.append(
            _sensitivity("spot_evictions_per_hour", "1/h", rate / 5, rate * 4, source, ends)
        )
    tried.sort(key=lambda one: -one.swing)
    evens = break_evens(found.choices, found.need, ask, book) if found.need else ()
    more = {"sensitivities": tried, "evens": evens, "withheld": known.withheld}
    return Answer(**{**vars(found), **more, "unsaid": need.unsaid if need else ""})


def _answer(
    kind: Kind,
    ask: Mapping[str, Any],
    known: Knowledge,
    book: Book,
    assumed: Mapping[str, float],
    need: Need | None,
) -> Answer:
    refused: dict[str, Refusal] = {}
    choices, unpriced, lossy = [], set(), []
    need = need or kind.need(ask, assumed, known)
    for one in estimates(kind, need, known, ask["most_nodes"]):
        if ask["sizes"] and one.size not in ask["sizes"]:
            continue
        if isinstance(one, Refusal):
            refused[one.size] = one
            continue
        for offer in ask["offers"]:
            quoted = cheapest_region(book, one.size, ask["region"], offer)
            if quoted is None:
                unpriced.add(f"{one.size} ({offer})")
                continue
            if need.term:
                made: Choice | None = served(one, offer, *quoted, need, ask)
            else:
                made = _priced(one, offer, *quoted, ask)
            if made is None:
                lossy.append(f"{one.nodes} x {one.size} ({offer})")
            else:
                choices.append(made)
    ranked = _rank_services(choices) if need.term else _ranked(choices)
    refusals = list(refused.values())
    return Answer(kind, ask, assumed, ranked, refusals, sorted(unpriced), lossy, need=need)


def _priced(
    one: Estimate, offer: str, region: str, price: Quote, ask: Mapping[str, Any]
) -> Choice | None:
    """The choice, or None where failures and evictions leave next to nothing of the time."""
    rate = 1 / ask["node_mtbf_hours"]
    if offer == _SPOT:
        rate += ask["spot_evictions_per_hour"]
    ends = []
    for seconds in (one.seconds.low, one.seconds.value, one.seconds.high):
        lost = _lost(seconds, one.nodes * rate, ask["checkpoint_seconds"])
        if lost > _MOST_LOST:
            return None
        ends.append((seconds / (1 - lost) / _HOUR, lost))
    hours = Range(*(end[0] for end in ends))
    each = one.nodes * price.usd_per_hour
    usd = Range(*(each * (end[0] + ask["idle_hours"]) for end in ends))
    deadline, budget = ask["deadline_hours"], ask["budget_usd"]
    return Choice(
        *(one, offer, region, price, hours, usd, ends[1][1]),
        late=deadline is not None and hours.high > deadline,
        dear=budget is not None and usd.high > budget,
    )


def _lost(seconds: float, per_hour: float, checkpoint: float) -> float:
    """The share of the time that is lost where a job of so many seconds is stopped so often.

    Without checkpoints each stop begins it anew: the expected time is ``(exp(r t) - 1) / r``. With
    them, Daly's (module figures.checkpoint), or less where the job is shorter than his interval.
    """
    if per_hour <= 0:
        return 0.0
    work = seconds / _HOUR * per_hour
    anew = 1 - work / math.expm1(work) if work < 700 else 1.0
    if not checkpoint:
        return anew
    found = intervals(checkpoint, overhead=0.5, nodes=1, node_hours=1 / per_hour)
    return min(anew, found.lost_share or 0.0)


def _ranked(choices: Iterable[Choice]) -> list[Choice]:
    """The front first, by cost, then the others by cost; the best two marked."""
    ordered = sorted(choices, key=lambda one: (one.usd.value, one.hours.value))
    fastest, marked = math.inf, []
    for one in ordered:
        front = one.hours.value < fastest
        fastest = min(fastest, one.hours.value)
        marked.append(Choice(**{**vars(one), "front": front}))
    able = [one for one in marked if one.able]
    cheapest = min(able, key=lambda one: one.usd.value, default=None)
    quickest = min(able, key=lambda one: one.hours.value, default=None)
    named = [
        Choice(
            **{
                **vars(one),
                "best": ", ".join(
                    word
                    for word, best in (("cheapest", cheapest), ("fastest", quickest))
                    if one is best
                ),
            }
        )
        for one in marked
    ]
    return sorted(named, key=lambda one: (not one.front, not one.best, one.usd.value))


def _rank_services(choices: Iterable[Choice]) -> list[Choice]:
    """By cost; the cheapest of each offer that holds what was asked for first, and the cheapest
    whose latency is known to be held."""
    ordered = sorted(choices, key=lambda one: (one.usd.value, one.hours.value))
    first: dict[str, Choice] = {}
    for one in ordered:
        if one.able:
            first.setdefault(one.offer, one)
    chosen = list(first.values())
    sure = next((one for one in ordered if one.able and one.estimate.held), None)
    if sure is not None and not any(one is sure for one in chosen):
        chosen.append(sure)
    marked = []
    for place, one in enumerate(chosen):
        words = ["cheapest"] if place == 0 else []
        words += [LATENCY] if one is sure else []
        marked.append(replace(one, front=True, best=", ".join(words)))
    return [*marked, *(one for one in ordered if not any(one is each for each in chosen))]


def served(
    one: Estimate, offer: str, region: str, price: Quote, need: Need, ask: Mapping[str, Any]
) -> Choice:
    """A service on nodes that are paid for all of its term."""
    stops = 1 / ask["node_mtbf_hours"]
    if offer == _SPOT:
        stops += ask["spot_evictions_per_hour"]
    lost = away(stops, ask["restart_minutes"])
    hours = one.seconds.times(1 / (1 - lost) / _HOUR)
    usd = one.nodes * price.usd_per_hour * need.term
    budget = ask["budget_usd"]
    return Choice(
        *(one, offer, region, price, hours, around(usd, 1.0), lost),
        late=hours.high > need.term,
        dear=budget is not None and usd > budget,
        load=hours.times(1 / need.term),
    )


def _sensitivity(
    name: str, unit: str, low: float, high: float, source: str, ends: Sequence[Answer]
) -> Sensitivity:
    best = [one.marked("cheapest") for one in ends]
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


def named(one: Choice) -> str:
    """ "4 x Standard_HB120rs_v3, spot"."""
    return f"{one.estimate.nodes} x {one.estimate.size}, {one.offer}"


def _why_nothing(found: Answer, known: Knowledge) -> str:
    if found.lossy:
        return (
            f"nothing would come to its end: {found.lossy[0]} and {len(found.lossy) - 1} others"
            f" lose more than {_MOST_LOST:.0%} of their time to failures; give checkpoint_seconds"
        )
    if found.unpriced:
        where = found.ask["region"] or "any region"
        return f"no size that fits has a price in {where}: {', '.join(found.unpriced[:3])}"
    if found.refused:
        least = min(found.refused, key=lambda one: (not one.unknown, one.least_nodes or math.inf))
        if least.unknown:
            return f"{least.size}: {least.reason}"
        would = f"; {least.least_nodes} x {least.size} would" if least.least_nodes else ""
        return (
            f"nothing of up to {found.ask['most_nodes']} nodes can do it: {least.size}:"
            f" {least.reason}{would}"
        )
    if found.kind.silent:
        return found.kind.silent(found.ask, known)
    return "nothing known says how long this takes: measure it once (make run), and ask again"
