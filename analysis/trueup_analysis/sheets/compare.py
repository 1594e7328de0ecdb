"""From a comparison to sheets: the answer in a sentence, and the changed figures."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from .. import units
from ..figures.compare import changes as verdicts
from .sheet import Column, Sheet, unshown, worded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..figures.compare.changes import Change, Comparison, Missing, Shift
    from ..figures.compare.measured import FigureKey
    from ..figures.compare.settings import Explanation
    from ..figures.compare.titles import Titles

_NAMES: Final = 3
_SETTINGS: Final = 3
_TONES: Final = {verdicts.WORSE: "bad", verdicts.MIXED: "bad", verdicts.BETTER: "best"}
_HOW: Final = (
    "A change counts where it is at least {least} and the false discovery rate over all figures"
    " and places stays below 1 %. Nodes are paired; errors come from the spread between nodes, of"
    " one or two nodes from that of records or of repeats."
)


def sheets(compared: Comparison, *, everything: bool) -> list[Sheet]:
    """The changed figures with places and settings, what failed, and what one side lacks.

    Args:
        everything: unchanged figures too.
    """
    chosen = [
        change for change in compared.changes if everything or change.verdict != verdicts.UNCHANGED
    ]
    tables = [_figures(compared, chosen)]
    if compared.failures:
        tables.append(_failures(compared))
    if compared.missing:
        tables.append(_missing(compared))
    return tables


def answer(compared: Comparison) -> str:
    """The comparison in a sentence or two."""
    between = f"from {compared.before.name} to {compared.after.name}"
    parts = []
    if compared.failures:
        first = compared.failures[0]
        more = len(compared.failures) - 1
        others = f" and {units.plural(more, 'more case')}" if more else ""
        reason = f" ({first.reason})" if first.reason else ""
        work = f"{first.work.benchmark} {first.work.case}"
        parts.append(f"Now fails: {work} on {first.node}{others}{reason}")
    moved = [
        change
        for change in compared.changes
        if change.verdict in {verdicts.WORSE, verdicts.BETTER, verdicts.MIXED}
    ]
    if moved:
        first_change = moved[0]
        verdict = first_change.verdict.capitalize()
        parts.append(f"{verdict}: {sentence(compared.titles, first_change)}{beside(first_change)}")
    rest = ", ".join(
        f"{count:,} {verdict}"
        for verdict, count in sorted(compared.counts.items(), key=_order)
        if count
    )
    lost = sum(item.side == "before" for item in compared.missing)
    rest += f", {lost:,} not on both sides" if lost else ""
    counted = f"{units.plural(len(compared.changes), 'figure')} {between}: {rest}"
    if not parts:
        return f"No change is seen. {counted}{_seen(compared)}."
    return ". ".join([*parts, counted]) + "."


def _order(item: tuple[str, int]) -> int:
    order = (
        *(verdicts.WORSE, verdicts.MIXED, verdicts.BETTER, verdicts.UNCHANGED, verdicts.UNSURE),
        verdicts.NOT_JUDGED,
    )
    return order.index(item[0])


def _seen(compared: Comparison) -> str:
    """How small a change of half of the figures would have been seen."""
    limits = sorted(change.detectable for change in compared.changes if change.detectable)
    if not limits:
        return "; how much they vary is not known, so more runs are needed to see a change"
    middle = limits[len(limits) // 2]
    if middle > 1:
        return "; they vary so much that more runs are needed to see a change"
    return f"; a change of {_share(middle)} would have been seen in half of them"


def sentence(titles: Titles, change: Change) -> str:
    """ "STREAM triad rate fell by 12.1 % (11.9 to 12.3 %) on all 200 nodes"."""
    places = change.worse if change.verdict != verdicts.BETTER else change.better
    nodes = list(dict.fromkeys(shift.place.node for shift in places))
    name = titles.of(change.figure)
    if places and len(nodes) < len(change.nodes):
        where = f"{len(nodes):,} of {len(change.nodes):,} nodes ({_few(nodes)}"
        where += f", {places[0].place.device})" if _one_device(places) else ")"
        middle = sorted(places, key=lambda shift: shift.log_ratio)[len(places) // 2]
        return f"{name} {_moved(middle.ratio)} on {where}"
    ratio = change.ratio
    if ratio is None:
        before, after = (_value(value, change.figure) for value in (change.before, change.after))
        return f"{name} went from {before} to {after}"
    interval = change.interval
    reach = "" if interval is None else f" ({_interval(interval)})"
    nodes_here = change.nodes
    where = f"on {nodes_here[0]}" if len(nodes_here) == 1 else f"on all {len(nodes_here):,} nodes"
    return f"{name} {_moved(ratio)}{reach} {where if change.paired else 'between their medians'}"


def _one_device(places: Sequence[Shift]) -> bool:
    return len({shift.place.device for shift in places}) == 1 and places[0].place.device is not None


def _moved(ratio: float) -> str:
    return f"{'rose' if ratio > 0 else 'fell'} by {_share(abs(ratio))}"


def _interval(interval: tuple[float, float]) -> str:
    low, high = sorted(100 * end for end in interval)
    return f"95 %: {low:+.1f} to {high:+.1f} %"


def _share(value: float) -> str:
    return units.percent(value, 1 if value < 1 else 0)


def _few(names: Sequence[str]) -> str:
    more = len(names) - _NAMES
    return ", ".join(names[:_NAMES]) + (f" and {more:,} more" if more > 0 else "")


def beside(change: Change) -> str:
    """What changed with it, or that nothing recorded did."""
    if not change.shifts or change.is_published:
        return ""
    if not change.explanations:
        return "; no recorded setting changed with it"
    words = ", ".join(map(setting_text, change.explanations[:_SETTINGS]))
    everywhere = all(item.everywhere for item in change.explanations)
    return f"; with it changed {words}" if everywhere else f"; where it changed: {words}"


def setting_text(item: Explanation) -> str:
    """ "nvidia_driver 570 to 580 on 100 nodes"."""
    values = item.before if item.before == item.after else f"{item.before} to {item.after}"
    where = "" if item.everywhere else f" on {units.plural(len(item.nodes), 'node')}"
    return f"{item.setting} {values}{where}"


def _figures(compared: Comparison, chosen: Sequence[Change]) -> Sheet:
    least = units.percent(compared.at_least, 1)
    hidden = len(compared.changes) - len(chosen)
    notes = [compared.how or _HOW.format(least=least)]
    if hidden:
        notes.insert(0, f"{units.plural(hidden, 'unchanged figure')}; --every-figure shows them.")
    return Sheet(
        title=answer(compared),
        columns=[
            *worded("verdict", "figure"),
            Column("before_shown", "before", data=False),
            Column("after_shown", "after", data=False),
            Column("unit_shown", "unit", words=True, data=False),
            Column("ratio_shown", "change", data=False),
            Column("interval_shown", "95 %", data=False),
            Column("nodes_shown", "nodes", data=False),
            Column("beside", "changed with it", words=True, data=False, beneath=True),
            *unshown(*DATA),
        ],
        rows=[row(compared.titles, change) for change in chosen],
        tone="bad" if compared.status == 1 else "good" if compared.status == 0 else "doubtful",
        notes=notes,
        marks="mark",
        name="compare",
        facts={
            "before": compared.before.name,
            "after": compared.after.name,
            "at_least": compared.at_least,
            "answer": answer(compared),
        },
    )


DATA: Final = (
    *("benchmark", "case", "metric", "unit", "direction", "message_bytes", "before", "after"),
    *("ratio_low", "ratio_high", "ratio", "detectable", "nodes", "changed_nodes", "paired"),
    "places",
    "settings",
)


def row(titles: Titles, change: Change) -> dict[str, Any]:
    figure = change.figure
    low, high = change.interval or (None, None)
    moved = [*change.worse, *change.better]
    shown = _shown(change, moved)
    unit = units.DISPLAYED.get(figure.unit, figure.unit)
    return {
        "verdict": change.verdict,
        "figure": titles.of(figure),
        "case": figure.work.case,
        "nodes": len(change.nodes),
        "changed_nodes": len({shift.place.node for shift in moved}),
        "before": change.before,
        "after": change.after,
        "before_shown": units.measure(shown.before, figure.unit),
        "after_shown": units.measure(shown.after, figure.unit),
        "ratio_shown": signed(shown.ratio),
        "unit_shown": "" if unit == "1" else unit,
        "ratio": change.ratio,
        "ratio_low": low,
        "ratio_high": high,
        "interval_shown": units.UNKNOWN
        if low is None or shown.of_places
        else f"{100 * low:+.1f} to {signed(high)}",
        "nodes_shown": _of_nodes(change, moved),
        "detectable": change.detectable,
        "benchmark": figure.work.benchmark,
        "metric": figure.metric,
        "unit": figure.unit,
        "direction": figure.direction,
        "message_bytes": figure.message_bytes,
        "paired": change.paired,
        "places": "; ".join(map(_place, moved)),
        "settings": "; ".join(map(setting_text, change.explanations)),
        "beside": "; ".join(map(setting_text, change.explanations[:_SETTINGS])),
        "mark": _TONES.get(change.verdict, ""),
    }


class _Shown(NamedTuple):
    """The figures that people read: of the changed places alone where these are not all nodes."""

    before: float
    after: float
    ratio: float | None
    of_places: bool


def _shown(change: Change, moved: Sequence[Shift]) -> _Shown:
    if not moved or len({shift.place.node for shift in moved}) == len(change.nodes):
        return _Shown(change.before, change.after, change.ratio, of_places=False)
    before, after, ratio = (
        median(getattr(shift, name) for shift in moved) for name in ("before", "after", "ratio")
    )
    return _Shown(before, after, ratio, of_places=True)


def _of_nodes(change: Change, moved: Sequence[Shift]) -> str:
    """ "3 of 200": on how many of the paired nodes alone the change shows; "all 200" where it shows
    in their mean only."""
    total = f"{len(change.nodes):,}"
    if not change.paired or (len(change.nodes) == 1 and not moved):
        return total
    if not moved and change.verdict not in {verdicts.UNCHANGED, verdicts.UNSURE}:
        return f"all {total}"
    return f"{len({shift.place.node for shift in moved}):,} of {total}"


def _place(shift: Shift) -> str:
    device = "" if shift.place.device is None else f" {shift.place.device}"
    return f"{shift.place.node}{device} {signed(shift.ratio)}"


# Columns of a figure's change since the run before.
SINCE: Final = (
    Column("since_shown", "since the\nrun before", words=True, data=False),
    *unshown("since_run_before", "since_verdict"),
)


def since_shown(ratio: float | None, verdict: str) -> str:
    """ "+1.2 % better"; of a change that may be none "+0.3 %, within noise"."""
    if ratio is None:
        return units.UNKNOWN
    if verdict == verdicts.UNCHANGED:
        return f"{signed(ratio)}, within noise"
    return f"{signed(ratio)}, {verdict}" if verdict else signed(ratio)


def signed(value: Any) -> str:
    """ "+1.2 %" of a share."""
    return units.UNKNOWN if units.is_missing(value) else f"{round(100 * value, 1) + 0.0:+.1f} %"


def _value(value: float, figure: FigureKey) -> str:
    unit = units.DISPLAYED.get(figure.unit, figure.unit)
    return units.measure(value, figure.unit) + ("" if unit == "1" else f" {unit}")


def _failures(compared: Comparison) -> Sheet:
    return Sheet(
        title=f"{units.plural(len(compared.failures), 'case')} that were ok before and now fail",
        columns=worded("node", "benchmark", "case", "outcome", "reason"),
        rows=[
            {
                "node": item.node,
                "benchmark": item.work.benchmark,
                "case": item.work.case,
                "outcome": item.outcome,
                "reason": item.reason,
                "mark": "bad",
            }
            for item in compared.failures
        ],
        marks="mark",
        name="failures",
    )


def _missing(compared: Comparison) -> Sheet:
    return Sheet(
        title="Figures of one side alone",
        columns=[
            *worded("side", "figure", "case"),
            Column("count", "nodes", units.count),
            Column("names", "which", words=True),
        ],
        rows=[_lacking(compared, item) for item in compared.missing],
        name="missing",
    )


def _lacking(compared: Comparison, item: Missing) -> dict[str, Any]:
    return {
        "side": f"only {item.side}",
        "figure": compared.titles.of(item.figure),
        "case": item.figure.work.case,
        "count": len(item.nodes),
        "names": _few(item.nodes),
    }
