"""From an answer to sheets: the choices, their sensitivities, and the refused sizes."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from .. import units
from ..figures.advise.access import Advised
from ..figures.advise.answers import named
from ..figures.advise.backtest import coverage
from ..figures.advise.estimates import DISTANCES, MODEL, PUBLISHED, RECORD
from ..figures.advise.kinds import TOLD
from . import advise_services
from . import advise_serving as serving
from .advise_sizings import sized
from .price_list import age_notes, price_notes
from .sheet import Column, Sheet, price, short_size, unshown, worded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..figures.advise.answers import Answer, Choice, Sensitivity
    from ..figures.advise.backtest import Tested
    from ..figures.advise.kinds import Sized

# Of the answer: what more choices say is for --explain.
_MOST: Final = 5
_SHOWN: Final = 3
_SPOT: Final = "spot"
# A range whose high end is more times its low one is called unsure.
_WIDE: Final = 3.0
_CORES: Final = re.compile(r"(?<=\d)-\d+(?=[a-z])")
_RANGE: Final = (
    "Hours and US$ are estimates. Range: the parts of the hours between which they are expected, 9"
    " times of 10 where other results have tested it (trueup advise --backtest)."
)
_EXPECTED: Final = (
    "Ranges are those that results are expected in, 9 times of 10 where others have tested it"
    " (trueup advise --backtest)."
)
_HOLD: Final = (
    "Hours hold work that failures and evictions lose; US$ hold the nodes alone: no storage,"
    " licences, login node or transfer."
)
_FRONT: Final = f"Rows that are not faint: no other choice is both cheaper and faster. {_HOLD}"


def advised(advice: Advised | Sized, *, explain: bool, every: bool = False) -> list[Sheet]:
    """The answer, and the storage where it was asked for."""
    if not isinstance(advice, Advised):
        return sized(advice, explain=explain)
    sheets = answer(advice.answer, explain=explain, every=every)
    if advice.storage is None:
        return sheets
    return [*sheets, advise_services.storage(advice.storage, explain=explain)]


def answer(ranking: Answer, *, explain: bool, every: bool = False) -> list[Sheet]:
    """The advice in a sentence, the best choices or ``every`` one, and the assumptions that would
    change it; with ``explain`` every choice, the evidence of each figure and every refusal too."""
    listed = list(ranking.choices) if explain or every else _best(ranking)
    sheets = [_first(ranking, listed, explain=explain)]
    sheets += break_evens(ranking)
    sheets += sensitivities(ranking)
    if explain:
        sheets += _explained(ranking, listed)
    return sheets


def _best(ranking: Answer) -> list[Choice]:
    """The marked choices, then those of which none is both cheaper and faster, then the cheapest of
    each size and offer, one of those that differ in cores alone; a few."""
    marked = [choice for choice in ranking.choices if choice.best]
    front = [choice for choice in ranking.choices if choice.front and not choice.best]
    cheapest: dict[tuple[str, str], Choice] = {}
    for choice in ranking.choices:
        cheapest.setdefault(_way(choice), choice)
    ways = {_way(choice) for choice in (*marked, *front)}
    others = [choice for way, choice in cheapest.items() if way not in ways]
    return [*marked, *front, *others][:_MOST]


def _way(choice: Choice) -> tuple[str, str]:
    """Offer, and size without its number of cores, as in HB368-336rs_v5."""
    return _CORES.sub("", choice.estimate.size), choice.offer


def headline(ranking: Answer) -> str:
    """The advice in a sentence: the machines, their time and price, what that rests on, and how
    sure it is."""
    best = ranking.marked("cheapest")
    if best is None:
        limits = _limits(ranking) or "what was asked for"
        return f"Nothing is sure to stay within {limits}; the nearest choices are below."
    if _service(ranking):
        return _serve(ranking, best)
    told = _told(best).partition(", from ")[0]
    return f"Rent {told}. {_basis(best)}"


def _serve(ranking: Answer, best: Choice) -> str:
    """Of a service the cheapest machines that nobody takes away, where there are some."""
    text = serving.headline(serving.steady(ranking) or best)
    if best.offer == _SPOT:
        cheaper = price(best.price.usd_per_hour * best.estimate.nodes)
        text += f" Spot machines are from {cheaper} US$/h and may all be taken away at once."
    return text


def _basis(choice: Choice) -> str:
    """What a choice rests on, and how sure it is."""
    estimate = choice.estimate
    start = f"It rests on {_TRUST[estimate.trust]}"
    if choice.evicted is not None and not choice.evicted.known:
        start = f"How often it is taken away is not known. {start}"
    if estimate.beyond or estimate.trust == MODEL or estimate.seconds.width > _WIDE:
        return f"{start} and is unsure: measure it once before you rent more."
    if estimate.trust == RECORD:
        return f"{start} and is sure within its range."
    return f"{start} of such work on this size and is fairly sure."


def _checkpoints(ranking: Answer) -> list[str]:
    """The checkpoints of the cheapest choice, and how often they are written."""
    best = ranking.marked("cheapest") or ranking.choices[0]
    each = ranking.checkpoint
    if each is None:
        return []
    if not each.seconds:
        return [f"Checkpoints: {each.words}. Lost work begins anew."]
    start = f"Checkpoints: {each.words}, {units.significant(each.seconds, 3)} s each"
    if not best.interval:
        return [f"{start}; the job is too short to need one."]
    minutes = units.significant(best.interval / 60, 3)
    share = units.percent(best.lost, digits=1)
    lost = f"With restarts and lost work they take {share} of the time."
    return [f"{start}, every {minutes} min (Young and Daly). {lost}"]


def _evictions(listed: Sequence[Choice]) -> list[str]:
    """The eviction rates of the spot choices, by source."""
    places: dict[tuple[float, str, bool], list[str]] = {}
    for choice in listed:
        if choice.evicted is not None:
            place = f"{short_size(choice.estimate.size)} in {choice.region}"
            places.setdefault(choice.evicted, []).append(place)
    sentences = []
    for (rate, source, known), names in places.items():
        where = ", ".join(dict.fromkeys(names))
        if known:
            sentences.append(
                f"Spot nodes of {where} are taken away {rate:g} times an hour: {source}."
            )
        else:
            sentences.append(
                f"How often spot nodes of {where} are taken away is not known: {rate:g} an hour is"
                " assumed. `trueup prices spot` asks Azure."
            )
    return sentences


def _first(ranking: Answer, listed: Sequence[Choice], *, explain: bool) -> Sheet:
    """The choices themselves."""
    service = _service(ranking)
    limits = bool(ranking.ask["deadline_hours"] or ranking.ask["budget_usd"])
    notes = serving.verdicts(ranking) if service else _verdicts(ranking)
    notes += [ranking.unsaid] if ranking.unsaid else []
    notes += [*_checkpoints(ranking), *_evictions(listed)]
    notes += [_EXPECTED] if service else [_RANGE, _FRONT]
    notes += [out] if (out := ranking.transfer) else []
    notes += price_notes((choice.price.date, choice.price.age) for choice in listed)
    if len(listed) < len(ranking.choices):
        notes.append(f"{len(ranking.choices) - len(listed)} more choices: --explain lists them.")
    return Sheet(
        title=headline(ranking),
        columns=serving.COLUMNS if service else _CHOICES,
        rows=[
            serving.row(choice, ranking) if service else _choice(choice, limits=limits)
            for choice in listed
        ],
        notes=notes,
        warnings=_warnings(ranking, explain=explain),
        faint="front",
        marks="mark",
        name="advise",
        facts={
            "kind": "advise",
            "ask": dict(ranking.ask),
            "assumed": dict(ranking.assumed),
            "recommended": recommended(ranking),
        },
    )


_CHOICES: Final = [
    Column("best", "best", words=True),
    Column("choice", "choice", words=True, data=False),
    Column("region", "region", words=True),
    Column("hours", "h", partial(units.significant, digits=3)),
    Column("usd", "US$", price),
    Column("within", "range", words=True, data=False),
    Column("trust", "from", words=True),
    Column("in_time", "in limits", words=True),
    *unshown("size", "nodes", "offer", "hours_low", "hours_high", "usd_low", "usd_high"),
    *serving.BASIS,
]


def _choice(choice: Choice, *, limits: bool) -> dict[str, Any]:
    misses = [text for text, is_so in (("late", choice.late), ("too dear", choice.dear)) if is_so]
    return {
        "best": choice.best,
        "size": choice.estimate.size,
        "nodes": choice.estimate.nodes,
        "offer": choice.offer,
        "region": choice.region,
        "hours": choice.hours.value,
        "hours_low": choice.hours.low,
        "hours_high": choice.hours.high,
        "choice": f"{choice.estimate.nodes} x {short_size(choice.estimate.size)}, {choice.offer}",
        "within": " .. ".join(
            f"{end / choice.hours.value:.2f}" for end in (choice.hours.low, choice.hours.high)
        ),
        "usd": choice.usd.value,
        "usd_low": choice.usd.low,
        "usd_high": choice.usd.high,
        "trust": choice.estimate.trust,
        "in_time": (", ".join(misses) or "yes") if limits else "",
        **serving.basis(choice),
    }


def _verdicts(ranking: Answer) -> list[str]:
    sentences, limits = [], _limits(ranking)
    for best in ("cheapest", "fastest"):
        pick = ranking.marked(best)
        words = f" within {limits}, high ends counted" if limits else ""
        if pick is None:
            sentences.append(f"{best.capitalize()}{words}: none.")
        else:
            beyond = f" Not seen before: {pick.estimate.beyond}" if pick.estimate.beyond else ""
            sentences.append(
                f"{best.capitalize()}{words}: {named(pick)} in {pick.region},"
                f" {units.significant(pick.hours.value, 3)} h, {price(pick.usd.value)} US$.{beyond}"
            )
    return sentences


def recommended(ranking: Answer) -> str:
    """The recommended choice in words, with its range, and the fastest; else the nearest one."""
    if _service(ranking):
        return _served(ranking)
    limits = _limits(ranking)
    best, quick = ranking.marked("cheapest"), ranking.marked("fastest")
    if best is None:
        near = min(ranking.choices, key=lambda choice: _excess(choice, ranking.ask))
        return f"No choice is sure to stay within {limits}. The nearest is {_told(near)}"
    clause = f" that stays within {limits}, also at the high end of its range" if limits else ""
    text = f"Rent {_told(best)} It is the cheapest choice{clause}."
    if quick is not None and quick is not best:
        text += f" The fastest{' such' if limits else ''} choice is {_told(quick)}"
    return text


def _service(ranking: Answer) -> bool:
    return bool(ranking.need and ranking.need.term)


def _served(ranking: Answer) -> str:
    best = ranking.marked("cheapest")
    sentences = [headline(ranking), *serving.cheapest(best)]
    if best is not None and best.load is not None:
        load, low, high = (
            units.percent(end, digits=0) for end in (best.load.value, best.load.low, best.load.high)
        )
        sentences.append(
            f"The rate takes about {load} of what they can serve (between {low} and {high})."
        )
    return " ".join(sentences)


def _excess(choice: Choice, ask: Mapping[str, Any]) -> float:
    """How many times above its limits the high end of a choice is."""
    limits: tuple[float | None, ...] = (ask["deadline_hours"], ask["budget_usd"])
    ends = (choice.hours.high, choice.usd.high)
    return max(end / limit for end, limit in zip(ends, limits, strict=True) if limit)


def _told(pick: Choice) -> str:
    per_hour, unit = next(
        (factor, unit)
        for least, factor, unit in ((1, 1, "hours"), (1 / 60, 60, "minutes"), (0, 3600, "seconds"))
        if pick.hours.value >= least
    )
    hours, low, high = (
        units.significant(end * per_hour, 3)
        for end in (pick.hours.value, pick.hours.low, pick.hours.high)
    )
    usd = f"{price(pick.usd.value)} US$ (between {price(pick.usd.low)} and {price(pick.usd.high)})"
    beyond = f" Not seen before: {pick.estimate.beyond}" if pick.estimate.beyond else ""
    offer = serving.OFFERS[pick.offer]
    return (
        f"{pick.estimate.nodes} x {short_size(pick.estimate.size)} as {offer} in"
        f" {pick.region}: about {hours} {unit} (between {low} and {high}) and {usd}, from"
        f" {_TRUST[pick.estimate.trust]}.{beyond}"
    )


_TRUST: Final = {
    RECORD: "records of ours",
    PUBLISHED: "published results",
    MODEL: "a model of other results",
}


def changes(ranking: Answer) -> list[str]:
    """The assumptions that make another choice the cheapest, with its cost."""
    best = ranking.marked("cheapest")
    usual = "nothing" if best is None else named(best)
    sentences = []
    for sensitivity in ranking.sensitivities:
        for end, usd, choice in (
            (sensitivity.low, sensitivity.usd_low, sensitivity.choice_low),
            (sensitivity.high, sensitivity.usd_high, sensitivity.choice_high),
        ):
            if choice != usual:
                cost = "" if usd is None else f", at {price(usd)} US$"
                unit = "" if sensitivity.unit == "1" else f" {sensitivity.unit}"
                at = f"{units.significant(end, 3)}{unit}"
                sentences.append(f"With {sensitivity.name} at {at} the cheapest is {choice}{cost}.")
    if best is None and not sentences:
        return ["At neither end of any assumption does a choice stay within the limits."]
    if ranking.sensitivities and not sentences:
        sentences.append(
            "No assumption, at either end of its range, makes another choice the cheapest."
        )
    return sentences


def front(ranking: Answer) -> Sheet:
    """The choices of which none is both cheaper and faster, for who decides."""
    table, service = answer(ranking, explain=False)[0], _service(ranking)
    ages = age_notes((choice.price.date, choice.price.age) for choice in ranking.choices)
    condition = (
        "the cheapest of each offer" if service else "none is both cheaper and faster than another"
    )
    notes = [serving.NOTE, _EXPECTED] if service else [_RANGE, _HOLD]
    return replace(
        table,
        title=f"Choices: {condition}",
        rows=[row for row in table.rows if row["front"] or row["best"]],
        notes=[*filter(None, [ranking.unsaid, *notes, ranking.transfer]), *ages],
        warnings=(),
    )


def asked(inputs: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The inputs and the assumptions, by name."""
    return [(name, _plain(value)) for name, value in inputs.items() if value not in (None, [], "")]


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:,.10g}" if isinstance(value, float) else str(value)


def refusals(ranking: Answer) -> list[str]:
    """How many choices were refused, by reason."""
    late = sum(
        choice.late or (choice.load is not None and choice.load.high > 1)
        for choice in ranking.choices
    )
    dear = sum(choice.dear for choice in ranking.choices)
    failure = "not hold the rate" if _service(ranking) else "miss the deadline"
    sentences = [f"{late} of {len(ranking.choices)} choices may {failure}."] * bool(late)
    sentences += [f"{dear} of {len(ranking.choices)} choices may exceed the budget."] * bool(dear)
    sentences += _unable(ranking, explain=False)
    return sentences


def _limits(ranking: Answer) -> str:
    within = []
    if ranking.ask["deadline_hours"]:
        within.append(f"{ranking.ask['deadline_hours']:g} h")
    if ranking.ask["budget_usd"]:
        within.append(f"{ranking.ask['budget_usd']:g} US$")
    return " and ".join(within)


def _warnings(ranking: Answer, *, explain: bool) -> list[str]:
    sentences = _unable(ranking, explain=explain)
    if ranking.refused and not explain:
        fewer = "" if _service(ranking) else " with fewer nodes"
        sentences.append(f"{len(ranking.refused)} sizes cannot do it{fewer}: --explain says why.")
    return sentences


def _unable(ranking: Answer, *, explain: bool) -> list[str]:
    sentences = []
    if ranking.unpriced:
        sentences.append(_some("No price, so not ranked", list(ranking.unpriced), explain=explain))
    if ranking.lossy:
        sentences.append(_some("Would not come to an end", list(ranking.lossy), explain=explain))
    return sentences


def _some(heading: str, names: Sequence[str], *, explain: bool) -> str:
    listed = list(names) if explain else list(names)[:_SHOWN]
    more = len(names) - len(listed)
    return f"{heading}: {', '.join(listed)}" + (f" and {more} more." if more else ".")


def break_evens(ranking: Answer) -> list[Sheet]:
    """Of a service, the other offers; nothing where these were not asked for."""
    return [serving.evens(ranking.evens)] if ranking.evens else []


def sensitivities(ranking: Answer) -> list[Sheet]:
    """The cheapest choice with each assumption at an end; nothing where nothing is assumed."""
    return [_sensitivities(ranking.sensitivities)] if ranking.sensitivities else []


def _sensitivities(assumptions: Sequence[Sensitivity]) -> Sheet:
    plain = partial(units.significant, digits=3)
    return Sheet(
        title="What would change the answer",
        columns=[
            Column("name", "assumption", words=True),
            Column("low", "low", plain),
            Column("high", "high", plain),
            Column("unit", "unit", words=True),
            Column("usd_low", "US$ at low", price),
            Column("usd_high", "US$ at high", price),
            Column("choice_low", "cheapest at low", words=True),
            Column("choice_high", "cheapest at high", words=True),
            *unshown("source"),
        ],
        rows=[assumption._asdict() for assumption in assumptions],
        notes=[
            "US$ of the cheapest choice, with one assumption at an end, the others as they are."
        ],
        name="advise-assumptions",
        facts={"kind": "advise_assumptions"},
    )


def _explained(ranking: Answer, listed: Sequence[Choice]) -> list[Sheet]:
    """The source of each figure, and the refused sizes."""
    sources: dict[tuple[str, str, str], list[str]] = {}
    for choice in listed:
        for each in choice.estimate.evidence:
            sources.setdefault((each.kind, each.source, each.date), []).append(named(choice))
        key = ("price", choice.price.source, choice.price.dated)
        sources.setdefault(key, []).append(named(choice))
    rows = [
        {"kind": key[0], "source": key[1], "date": key[2], "used_for": len(names)}
        for key, names in sources.items()
    ]
    sheets = [
        Sheet(
            title="Where the figures are from",
            columns=[
                Column("kind", "kind", words=True),
                Column("source", "source", words=True),
                Column("date", "date", words=True),
                Column("used_for", "choices"),
            ],
            rows=rows,
            name="advise-sources",
            facts={"kind": "advise_sources"},
        )
    ]
    return [*sheets, *refused(ranking)]


def refused(ranking: Answer) -> list[Sheet]:
    """Sizes that cannot do it, with the nodes that would do; and sizes no longer advised."""
    sheets = []
    if ranking.refused:
        sheets.append(
            Sheet(
                title="What cannot do it",
                columns=[
                    Column("size", "size", short_size, words=True),
                    Column("nodes", "nodes"),
                    Column("reason", "why not", words=True),
                    Column("least_nodes", "nodes that would do"),
                ],
                rows=[refusal._asdict() for refusal in ranking.refused],
                name="advise-refused",
                facts={"kind": "advise_refused"},
            )
        )
    if ranking.withheld:
        by_reason: dict[str, list[str]] = {}
        for size, reason in ranking.withheld.items():
            by_reason.setdefault(reason, []).append(short_size(size))
        sheets.append(
            Sheet(
                title="Not advised",
                columns=[
                    Column("sizes", "sizes", words=True),
                    Column("reason", "why not", words=True),
                ],
                rows=[
                    {"sizes": ", ".join(sizes), "reason": reason}
                    for reason, sizes in by_reason.items()
                ],
                name="advise-withheld",
                facts={"kind": "advise_withheld"},
            )
        )
    return sheets


_HELD_OUT: Final = (
    "All results of a publisher are held out together. Where all results of a kind are of one"
    " publisher, each result is held out alone."
)


def backtest(tests: Sequence[Tested]) -> list[Sheet]:
    """Coverage and width by kind and distance; then each published result beside its prediction
    from other publishers, one sheet per unit."""
    by_unit: dict[str, list[Tested]] = {}
    for test in tests:
        by_unit.setdefault(TOLD[test.kind].unit, []).append(test)
    return [_coverage(tests), *(_tested(unit, some) for unit, some in by_unit.items())]


_ALL: Final = "all"


def _coverage(tests: Sequence[Tested]) -> Sheet:
    groups: dict[tuple[str, str, str, str], list[Tested]] = {}
    for test in tests:
        of_kind = (test.kind, test.point.condition, test.held)
        for distance in (test.distance, _ALL) if test.range else ("",):
            groups.setdefault((*of_kind, distance), []).append(test)
    order = {name: rank for rank, name in enumerate((*DISTANCES, _ALL))}
    rows = []
    for key, some in sorted(groups.items(), key=lambda group: (*group[0][:3], order[group[0][3]])):
        if key[3] == _ALL and any(some == groups.get((*key[:3], name)) for name in DISTANCES):
            continue
        reached = coverage(some)
        rows.append(
            {
                "kind": key[0],
                "condition": key[1],
                "held_out": f"each {key[2]}",
                "distance": key[3] if reached.tried else "not predicted",
                "results": len(some),
                "sources": len({test.point.source for test in some}),
                "covered": reached.inside if reached.tried else None,
                "share": reached.inside / reached.tried if reached.tried else None,
                "width": reached.width if reached.tried else None,
            }
        )
    inside, tried, sources, width = coverage(tests)
    overall = (
        f"All kinds: {inside} of {tried} results of {sources} publishers lie in their range"
        f" ({inside / tried:.0%}); the median range spans {width:.2f} times (high over low)."
        if tried
        else "Nothing could be predicted."
    )
    return Sheet(
        title="Back-test: results predicted from those of other publishers",
        columns=[
            *worded("kind", "condition"),
            Column("held_out", "held out", words=True),
            Column("distance", "nearest\nother result", words=True),
            Column("results", "results", units.count),
            Column("sources", "publishers", units.count),
            Column("covered", "in range", units.count),
            Column("share", "in range\n%", units.percent),
            Column("width", "width\nx", units.significant),
        ],
        rows=rows,
        notes=[
            overall,
            f"{len(tests) - tried} results could not be predicted from the others.",
            _HELD_OUT,
        ],
        name="advise-coverage",
        facts={"kind": "advise_coverage", "covered": inside, "predicted": tried},
    )


def _tested(unit: str, tests: Sequence[Tested]) -> Sheet:
    unit_text, figure = units.DISPLAYED.get(unit, unit), partial(units.measure, unit=unit)
    rows = [
        {
            "kind": test.kind,
            "label": test.point.label,
            "published": test.point.rate,
            "predicted": None if test.range is None else test.range.value,
            "low": None if test.range is None else test.range.low,
            "high": None if test.range is None else test.range.high,
            "error": None if test.range is None else test.error,
            "covered": test.reason or ("yes" if test.covered else "no"),
            "distance": test.distance,
            "source": test.point.source,
        }
        for test in tests
    ]
    return Sheet(
        title=f"Published results in {unit_text}, each predicted from other publishers",
        columns=[
            Column("kind", "kind", words=True),
            Column("label", "result", words=True),
            Column("published", unit_text, figure),
            Column("predicted", "predicted", figure),
            Column("low", "from", figure),
            Column("high", "to", figure),
            Column("error", "error", partial(units.percent, digits=0)),
            Column("covered", "in range", words=True),
            *unshown("distance", "source"),
        ],
        rows=rows,
        notes=[_NOTES[unit]] if unit in _NOTES else [],
        name=f"advise-backtest-{unit_text.replace('/', '-').replace(' ', '-').lower()}",
        facts={"kind": "advise_backtest", "unit": unit},
    )


_NOTES: Final = {
    "operations/s at 2 ms": "Of one volume, by the published benchmark of EDA.",
    "flop/s": "Of all nodes; those of training count no operation that is done twice.",
    "tokens/s": "Of all engines, prompts and answers together.",
}
