"""From an answer to sheets: the choices, what else they depend on, what cannot do it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from .. import units
from ..figures.advise.access import Advised, transfer
from ..figures.advise.answers import named
from ..figures.advise.backtest import coverage
from ..figures.advise.estimates import MODEL, PUBLISHED, RECORD
from ..figures.advise.kinds import TOLD
from . import advise_services
from . import advise_serving as serving
from .advise_sizings import sized
from .price_list import age_notes
from .sheet import Column, Sheet, price, short_size, unshown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..figures.advise.answers import Answer, Choice, Sensitivity
    from ..figures.advise.backtest import Tested
    from ..figures.advise.kinds import Sized

# Of those beside the front.
_OTHERS: Final = 8
_SHOWN: Final = 3
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


def advised(found: Advised | Sized, *, explain: bool, every: bool = False) -> list[Sheet]:
    """The answer, and the storage where it was asked for."""
    if not isinstance(found, Advised):
        return sized(found, explain=explain)
    made = answer(found.answer, explain=explain, every=every)
    if found.storage is None:
        return made
    return [*made, advise_services.storage(found.storage, explain=explain)]


def answer(found: Answer, *, explain: bool, every: bool = False) -> list[Sheet]:
    """The ranked choices, the best or ``every`` one; with ``explain`` every one, the evidence of
    each figure and every refusal too."""
    front = [one for one in found.choices if one.front]
    others = [one for one in found.choices if not one.front]
    shown = [*front, *(others if explain or every else others[:_OTHERS])]
    made = [_first(found, shown, explain=explain)]
    made += break_evens(found)
    made += sensitivities(found)
    if explain:
        made += _explained(found, shown)
    return made


def _first(found: Answer, shown: Sequence[Choice], *, explain: bool) -> Sheet:
    """The choices themselves."""
    service = _service(found)
    limits = bool(found.ask["deadline_hours"] or found.ask["budget_usd"])
    notes = serving.verdicts(found) if service else _verdicts(found)
    notes += [found.unsaid] if found.unsaid else []
    notes += [_EXPECTED] if service else [_RANGE, _FRONT]
    notes += [out] if (out := transfer(found.ask)) else []
    notes += age_notes((one.price.date, one.price.age) for one in shown)
    if len(shown) < len(found.choices):
        notes.append(f"{len(found.choices) - len(shown)} dearer choices: --explain lists them.")
    return Sheet(
        title=found.kind.title,
        columns=serving.COLUMNS if service else _CHOICES,
        rows=[serving.row(one, found) if service else _choice(one, limits=limits) for one in shown],
        notes=notes,
        warnings=_warnings(found, explain=explain),
        faint="front",
        marks="mark",
        name="advise",
        facts={
            "kind": "advise",
            "ask": dict(found.ask),
            "assumed": dict(found.assumed),
            "recommended": recommended(found),
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


def _choice(one: Choice, *, limits: bool) -> dict[str, Any]:
    misses = [word for word, is_so in (("late", one.late), ("too dear", one.dear)) if is_so]
    return {
        "best": one.best,
        "size": one.estimate.size,
        "nodes": one.estimate.nodes,
        "offer": one.offer,
        "region": one.region,
        "hours": one.hours.value,
        "hours_low": one.hours.low,
        "hours_high": one.hours.high,
        "choice": f"{one.estimate.nodes} x {short_size(one.estimate.size)}, {one.offer}",
        "within": " .. ".join(
            f"{end / one.hours.value:.2f}" for end in (one.hours.low, one.hours.high)
        ),
        "usd": one.usd.value,
        "usd_low": one.usd.low,
        "usd_high": one.usd.high,
        "trust": one.estimate.trust,
        "in_time": (", ".join(misses) or "yes") if limits else "",
        **serving.basis(one),
    }


def _verdicts(found: Answer) -> list[str]:
    said, limits = [], _limits(found)
    for best in ("cheapest", "fastest"):
        one = found.marked(best)
        words = f" within {limits}, high ends counted" if limits else ""
        if one is None:
            said.append(f"{best.capitalize()}{words}: none.")
        else:
            beyond = f" Not seen before: {one.estimate.beyond}" if one.estimate.beyond else ""
            said.append(
                f"{best.capitalize()}{words}: {named(one)} in {one.region},"
                f" {units.significant(one.hours.value, 3)} h, {price(one.usd.value)} US$.{beyond}"
            )
    return said


def recommended(found: Answer) -> str:
    """What to rent, in words, with its range; what is faster; or that nothing keeps the limits."""
    if _service(found):
        return _served(found)
    limits = _limits(found)
    best, quick = found.marked("cheapest"), found.marked("fastest")
    if best is None:
        near = min(found.choices, key=lambda one: _excess(one, found.ask))
        return f"No choice is sure to stay within {limits}. The nearest is {_told(near)}"
    kept = f" that stays within {limits}, also at the high end of its range" if limits else ""
    said = f"Rent {_told(best)} It is the cheapest choice{kept}."
    if quick is not None and quick is not best:
        said += f" The fastest{' such' if limits else ''} choice is {_told(quick)}"
    return said


def _service(found: Answer) -> bool:
    return bool(found.need and found.need.term)


def _served(found: Answer) -> str:
    best = found.marked("cheapest")
    said = serving.verdicts(found)
    if best is not None and best.load is not None:
        load, low, high = (
            units.percent(end, digits=0) for end in (best.load.value, best.load.low, best.load.high)
        )
        said[-1] = f"The rate takes about {load} of what they can serve (between {low} and {high})."
    return " ".join(said)


def _excess(one: Choice, ask: Mapping[str, Any]) -> float:
    """How many times above its limits the high end of a choice is."""
    limits: tuple[float | None, ...] = (ask["deadline_hours"], ask["budget_usd"])
    ends = (one.hours.high, one.usd.high)
    return max(end / limit for end, limit in zip(ends, limits, strict=True) if limit)


def _told(one: Choice) -> str:
    per_hour, unit = next(
        (factor, unit)
        for least, factor, unit in ((1, 1, "hours"), (1 / 60, 60, "minutes"), (0, 3600, "seconds"))
        if one.hours.value >= least
    )
    hours, low, high = (
        units.significant(end * per_hour, 3)
        for end in (one.hours.value, one.hours.low, one.hours.high)
    )
    usd = f"{price(one.usd.value)} US$ (between {price(one.usd.low)} and {price(one.usd.high)})"
    beyond = f" Not seen before: {one.estimate.beyond}" if one.estimate.beyond else ""
    return (
        f"{one.estimate.nodes} x {short_size(one.estimate.size)} as {_OFFERS[one.offer]} in"
        f" {one.region}: about {hours} {unit} (between {low} and {high}) and {usd}, from"
        f" {_TRUST[one.estimate.trust]}.{beyond}"
    )


_OFFERS: Final = {"payg": "pay as you go", "spot": "spot machines"}
_TRUST: Final = {
    RECORD: "records of ours",
    PUBLISHED: "published results",
    MODEL: "a model of other results",
}


def changes(found: Answer) -> list[str]:
    """Which assumption makes another choice the cheapest, or what it costs at most."""
    best = found.marked("cheapest")
    usual = "nothing" if best is None else named(best)
    said = []
    for one in found.sensitivities:
        for end, usd, choice in (
            (one.low, one.usd_low, one.choice_low),
            (one.high, one.usd_high, one.choice_high),
        ):
            if choice != usual:
                cost = "" if usd is None else f", at {price(usd)} US$"
                unit = "" if one.unit == "1" else f" {one.unit}"
                at = f"{units.significant(end, 3)}{unit}"
                said.append(f"With {one.name} at {at} the cheapest is {choice}{cost}.")
    if best is None and not said:
        return ["At neither end of any assumption does a choice stay within the limits."]
    if found.sensitivities and not said:
        said.append("No assumption, at either end of its range, makes another choice the cheapest.")
    return said


def front(found: Answer) -> Sheet:
    """The choices of which none is both cheaper and faster, for who decides."""
    table, service = answer(found, explain=False)[0], _service(found)
    ages = age_notes((one.price.date, one.price.age) for one in found.choices)
    what = (
        "the cheapest of each offer" if service else "none is both cheaper and faster than another"
    )
    notes = [serving.NOTE, _EXPECTED] if service else [_RANGE, _HOLD]
    return replace(
        table,
        title=f"Choices: {what}",
        rows=[row for row in table.rows if row["front"] or row["best"]],
        notes=[*filter(None, [found.unsaid, *notes, transfer(found.ask)]), *ages],
        warnings=(),
    )


def asked(said: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What was asked and what was taken for granted, by name."""
    return [(name, _plain(value)) for name, value in said.items() if value not in (None, [], "")]


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:,.10g}" if isinstance(value, float) else str(value)


def refusals(found: Answer) -> list[str]:
    """How many choices were refused for what."""
    late = sum(one.late for one in found.choices)
    dear = sum(one.dear for one in found.choices)
    what = "not hold the rate" if _service(found) else "miss the deadline"
    said = [f"{late} of {len(found.choices)} choices may {what}."] * bool(late)
    said += [f"{dear} of {len(found.choices)} choices may exceed the budget."] * bool(dear)
    said += _unable(found, explain=False)
    return said


def _limits(found: Answer) -> str:
    within = []
    if found.ask["deadline_hours"]:
        within.append(f"{found.ask['deadline_hours']:g} h")
    if found.ask["budget_usd"]:
        within.append(f"{found.ask['budget_usd']:g} US$")
    return " and ".join(within)


def _warnings(found: Answer, *, explain: bool) -> list[str]:
    said = _unable(found, explain=explain)
    if found.refused and not explain:
        said.append(
            f"{len(found.refused)} sizes cannot do it with fewer nodes: --explain says why."
        )
    return said


def _unable(found: Answer, *, explain: bool) -> list[str]:
    said = []
    if found.unpriced:
        said.append(_some("No price, so not ranked", list(found.unpriced), explain=explain))
    if found.lossy:
        said.append(_some("Would not come to an end", list(found.lossy), explain=explain))
    return said


def _some(what: str, names: Sequence[str], *, explain: bool) -> str:
    shown = list(names) if explain else list(names)[:_SHOWN]
    more = len(names) - len(shown)
    return f"{what}: {', '.join(shown)}" + (f" and {more} more." if more else ".")


def break_evens(found: Answer) -> list[Sheet]:
    """Of a service, what else could be bought; nothing where that was not asked."""
    return [serving.evens(found.evens)] if found.evens else []


def sensitivities(found: Answer) -> list[Sheet]:
    """The cheapest choice with each assumption at an end; nothing where nothing is assumed."""
    return [_sensitivities(found.sensitivities)] if found.sensitivities else []


def _sensitivities(found: Sequence[Sensitivity]) -> Sheet:
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
        rows=[one._asdict() for one in found],
        notes=[
            "US$ of the cheapest choice, with one assumption at an end, the others as they are."
        ],
        name="advise-assumptions",
        facts={"kind": "advise_assumptions"},
    )


def _explained(found: Answer, shown: Sequence[Choice]) -> list[Sheet]:
    """Where each figure is from, and what cannot do it."""
    sources: dict[tuple[str, str, str], list[str]] = {}
    for one in shown:
        for each in one.estimate.evidence:
            sources.setdefault((each.kind, each.source, each.date), []).append(named(one))
        key = ("price", one.price.source, one.price.dated)
        sources.setdefault(key, []).append(named(one))
    rows = [
        {"kind": key[0], "source": key[1], "date": key[2], "used_for": len(names)}
        for key, names in sources.items()
    ]
    made = [
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
    return [*made, *refused(found)]


def refused(found: Answer) -> list[Sheet]:
    """What cannot do it, with what would; and the sizes that are not to be had any more."""
    made = []
    if found.refused:
        made.append(
            Sheet(
                title="What cannot do it",
                columns=[
                    Column("size", "size", short_size, words=True),
                    Column("nodes", "nodes"),
                    Column("reason", "why not", words=True),
                    Column("least_nodes", "nodes that would do"),
                ],
                rows=[one._asdict() for one in found.refused],
                name="advise-refused",
                facts={"kind": "advise_refused"},
            )
        )
    if found.withheld:
        by_reason: dict[str, list[str]] = {}
        for size, reason in found.withheld.items():
            by_reason.setdefault(reason, []).append(short_size(size))
        made.append(
            Sheet(
                title="Not advised any more",
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
    return made


def backtest(told: Sequence[Tested]) -> list[Sheet]:
    """Each published result beside what the others predict, a sheet for each unit; how good all of
    them are stands below the last."""
    inside, tried, width = coverage(told)
    by_unit: dict[str, list[Tested]] = {}
    for one in told:
        by_unit.setdefault(TOLD[one.kind].unit, []).append(one)
    made = [_tested(unit, some) for unit, some in by_unit.items()]
    overall = [
        f"All kinds: {inside} of {tried} lie in their range; the median range spans {width:.2f}"
        " times."
        if tried
        else "Nothing could be predicted.",
        f"{len(told) - tried} results could not be predicted from the others.",
    ]
    facts = {"covered": inside, "predicted": tried}
    last = made[-1]
    made[-1] = replace(last, notes=[*last.notes, *overall], facts={**last.facts, **facts})
    return made


def _tested(unit: str, told: Sequence[Tested]) -> Sheet:
    shown, figure = units.DISPLAYED.get(unit, unit), partial(units.measure, unit=unit)
    rows = [
        {
            "kind": one.kind,
            "label": one.point.label,
            "published": one.point.rate,
            "predicted": None if one.range is None else one.range.value,
            "low": None if one.range is None else one.range.low,
            "high": None if one.range is None else one.range.high,
            "error": None if one.range is None else one.error,
            "covered": one.reason or ("yes" if one.covered else "no"),
        }
        for one in told
    ]
    return Sheet(
        title=f"Published results in {shown}, each predicted from the others",
        columns=[
            Column("kind", "kind", words=True),
            Column("label", "result", words=True),
            Column("published", shown, figure),
            Column("predicted", "predicted", figure),
            Column("low", "from", figure),
            Column("high", "to", figure),
            Column("error", "error", partial(units.percent, digits=0)),
            Column("covered", "in range", words=True),
        ],
        rows=rows,
        notes=[_NOTES[unit]] if unit in _NOTES else [],
        name=f"advise-backtest-{shown.replace('/', '-').replace(' ', '-').lower()}",
        facts={"kind": "advise_backtest", "unit": unit},
    )


_NOTES: Final = {
    "operations/s at 2 ms": "Of one volume, by the published benchmark of EDA.",
    "flop/s": "Of all nodes; those of training count no operation that is done twice.",
    "tokens/s": "Of all engines, prompts and answers together.",
}
