"""From the history of figures to sheets: the changes, the last ones first, and all figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from .. import units
from . import compare
from .sheet import Column, Sheet, unshown, worded

if TYPE_CHECKING:
    from ..figures.compare.history import History, Step, Trend
    from ..figures.compare.titles import Titles


_HOW: Final = (
    "A change is a step in a figure over the runs, of the fleet or of single places against it; at"
    " most 1 % of the steps are none. Up to 10 runs before and after are compared."
)


def sheets(history: History, titles: Titles, *, everything: bool) -> list[Sheet]:
    """The changes of level; with ``everything`` each figure too.

    Args:
        titles: names each figure.
    """
    steps = Sheet(
        title=answer(history, titles),
        columns=[
            Column("since", "since", words=True),
            *worded("verdict", "figure"),
            Column("before_shown", "before", data=False),
            Column("after_shown", "after", data=False),
            Column("unit_shown", "unit", words=True, data=False),
            Column("ratio_shown", "change", data=False),
            Column("nodes_shown", "nodes", data=False),
            Column("beside", "changed with it", words=True, data=False, beneath=True),
            *unshown("run", "runs_before", "runs_after", *compare.DATA),
        ],
        rows=[_step(step, titles) for step in history.steps],
        tone="bad" if any(_is_bad(step) for step in history.steps) else "good",
        notes=[_HOW],
        marks="mark",
        name="history",
        facts={"runs": len(history.runs), "answer": answer(history, titles)},
    )
    return [steps, *([_trends(history, titles)] if everything else [])]


def answer(history: History, titles: Titles) -> str:
    """The history in a sentence."""
    runs = units.plural(len(history.runs), "run")
    over = f"{runs}, {history.begun[0][:10]} to {history.begun[-1][:10]}"
    figures = units.plural(len(history.trends), "figure")
    if not history.steps:
        return f"No change is seen in {figures} over {over}."
    worst = next(filter(_is_bad, history.steps), history.steps[0])
    text = compare.sentence(titles, worst.change) + compare.beside(worst.change)
    changes = units.plural(len(history.steps), "change")
    verdict = worst.change.verdict.capitalize()
    return f"{verdict} since {worst.begun[:16]}: {text}. {changes} in {figures} over {over}."


def _is_bad(step: Step) -> bool:
    return step.change.verdict != "better"


def _step(step: Step, titles: Titles) -> dict[str, Any]:
    return {
        **compare.row(titles, step.change),
        "since": step.begun[:16].replace("T", " "),
        "run": step.run,
        "runs_before": step.runs_before,
        "runs_after": step.runs_after,
    }


def _trends(history: History, titles: Titles) -> Sheet:
    return Sheet(
        title="Figures of the first and the last run",
        columns=[
            *worded("figure", "case"),
            Column("first_shown", "first", data=False),
            Column("last_shown", "last", data=False),
            Column("unit_shown", "unit", words=True, data=False),
            Column("ratio", "change", compare.signed),
            Column("runs", "runs", units.count),
            Column("places", "places", units.count),
            *unshown("benchmark", "metric", "unit", "message_bytes", "first", "last"),
        ],
        rows=[_trend(trend, titles) for trend in history.trends],
        name="trends",
    )


def _trend(trend: Trend, titles: Titles) -> dict[str, Any]:
    figure = trend.figure
    unit = units.DISPLAYED.get(figure.unit, figure.unit)
    return {
        "figure": titles.of(figure),
        "case": figure.work.case,
        "first": trend.first,
        "last": trend.last,
        "first_shown": units.measure(trend.first, figure.unit),
        "last_shown": units.measure(trend.last, figure.unit),
        "unit_shown": "" if unit == "1" else unit,
        "ratio": trend.last / trend.first - 1,
        "runs": trend.runs,
        "places": trend.places,
        "benchmark": figure.work.benchmark,
        "metric": figure.metric,
        "unit": figure.unit,
        "message_bytes": figure.message_bytes,
    }
