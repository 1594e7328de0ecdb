"""One section per benchmark: its results, plots and figures, from its view alone."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from .. import units
from ..figures.compare.changes import BETTER, MIXED, WORSE
from ..figures.groups import apart_words, differing, pooled
from ..render.html import LINKS, Figure, Part, Section
from ..rooms import judged_by, names_of, view_of
from ..sheets.compare import signed
from ..sheets.health import SIGNS
from ..sheets.sheet import Column, Sheet, place_text, short_size, unshown
from ..units import in_unit, plural, size_of
from .charts.lines import over_parameter, over_sizes
from .charts.matrices import matrices
from .charts.rows import over_cases, over_devices

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from trueup_node.cases import Case
    from trueup_node.health.expectations import Expectation
    from trueup_node.view import Chart, Measure, View

    from ..figures.compare.comparing import Deltas
    from ..figures.groups import Group, Pooled
    from .charts.common import Drawn, Judged
    from .records import Evidence

# Sentences about results; the table has all.
_FINDINGS: Final = 4
# Verdicts of a change that are shown.
_COUNTS: Final = frozenset({WORSE, BETTER, MIXED})
# Figures beside the headline that a page has room for; the CSV file has all.
_FIGURES_SHOWN: Final = 7
# Plots of one kind in one section; the table has the rest.
_PLOTS: Final = 6
_UNIT_WORDS: Final = {
    "s": "seconds",
    "byte/s": "bytes_per_second",
    "bit/s": "bits_per_second",
    "flop/s": "flop_per_second",
    "point/s": "points_per_second",
    "1/s": "per_second",
    "byte": "bytes",
    "ns/day": "ns_per_day",
    "kJ/mol/ps": "kj_per_mol_and_ps",
}


def benchmark_section(
    groups: Sequence[Group],
    judged: Judged,
    more: Sequence[Part],
    evidence: Evidence,
    deltas: Deltas,
) -> Section:
    """One benchmark's section.

    Args:
        groups: its groups.
        more: further parts (scaling, layouts, roofline), below its figures.
        evidence: the files of its records.
        deltas: the changes since the run before.
    """
    benchmark = groups[0].benchmark
    sheet = figures_sheet(groups, judged, deltas)
    linked = [
        {**row, LINKS: evidence.of_group(group)}
        for row, group in zip(sheet.rows, groups, strict=True)
    ]
    sheet = replace(sheet, rows=linked)
    plots = _charts(groups, judged)
    wide = len(plots) % 2 == 0 or len(sheet.shown()) > 5
    sentences = Part(paragraphs=[finding(group) for group in _told(groups)])
    first = Part(
        figures=plots,
        beside=() if wide and plots else (sheet,),
        sheets=(sheet,) if wide and plots else (),
    )
    return Section(benchmark, names_of(benchmark), (sentences, first, *more), data=(sheet,))


def _told(groups: Sequence[Group]) -> list[Group]:
    """The groups that sentences are about: most nodes first, then the best figure."""
    headed = [group for group in groups if group.head is not None]
    if len(headed) <= _FINDINGS:
        return headed

    def rank(group: Group) -> tuple[int, float]:
        assert group.head is not None  # noqa: S101 WHY: for mypy; filtered above
        higher = group.head.measure.direction == "higher"
        return -len(group.nodes), -group.head.value if higher else group.head.value

    best: dict[object, Group] = {}
    for group in sorted(headed, key=rank):
        best.setdefault((group.machine, group.apart), group)
    return list(best.values())[:_FINDINGS]


def finding(group: Group) -> str:
    """ "all_reduce on h100-01: bus bandwidth 484.20 GB/s at 16 GiB." """
    head, view = group.head, view_of(group.benchmark)
    layout = group.layout if view is not None and view.layouts else ""
    start = f"{', '.join(filter(None, (group.label, layout)))} on {group.where}"
    if head is None:
        return f"{start}: no figure."
    measure = head.measure
    text = f"{start}: {measure.label} {in_unit(head.value, measure.shown)} {measure.shown}".rstrip()
    if len(group.cases) == 1:
        return f"{text}{place_text(head.shown)}."
    ends = (head.value if end is None else end for end in (head.low, head.high))
    low, high = (in_unit(end, measure.shown) for end in ends)
    worst = f"; worst: {head.worst.node}" if len(group.nodes) > 1 else ""
    return f"{text}{_at(head)} (median; {low} to {high}{worst})."


def _at(head: Pooled) -> str:
    size = head.shown.message_bytes
    return "" if size is None else f" at {size_of(size)}"


def figures_sheet(groups: Sequence[Group], judged: Judged, deltas: Deltas) -> Sheet:
    """Results of the cases, one row per measurement; nodes with the same measurement are one row,
    with their median, the ends and the worst node.
    """
    view = view_of(groups[0].benchmark)
    assert view is not None  # noqa: S101 WHY: for mypy; groups have a view
    names = differing(groups)
    rows = [_row(group, names, view, judged) | _since(group, deltas) for group in groups]
    _mark_best(rows, groups)
    heads = _headlines(groups)
    other_measures = _others(view, heads, rows)
    sizes = len({row["vm_size"] for row in rows})
    told_apart = _told_apart(rows)
    columns = [
        Column("case", None if told_apart else "case", words=True),
        Column("differs", "case" if told_apart else None, words=True),
        Column("layout", "layout" if view.layouts else None, words=True),
        Column("vm_size", "size\n(Standard_)" if sizes > 1 else None, short_size, words=True),
        Column("where", "nodes", words=True, data=False),
        Column("node_count", "nodes\na case" if _varies(rows, "node_count") else None, units.count),
        Column("nodes"),
        Column("n", "n", units.count),
        Column("message_bytes", "at", _size),
        *(column for measure in heads for column in _headline_columns(measure)),
        Column("since_shown", "since the\nrun before", data=False),
        *(unshown("since_run_before") if any(row["since_shown"] for row in rows) else []),
        Column("worst_node", "worst\nnode", words=True),
        Column("device", "worst\ndevice", words=True),
        Column("expected", "expected", data=False),
        Column("expected_value"),
        Column("healthy", "healthy", data=False),
        Column("healthy_value"),
        Column("peak_share", "of peak", partial(units.percent, digits=1)),
        *(
            Column(
                _key(measure),
                _header(measure) if number < _FIGURES_SHOWN else None,
                partial(in_unit, unit=measure.shown),
            )
            for number, measure in enumerate(other_measures)
        ),
    ]
    size = rows[0]["vm_size"] if sizes == 1 else None
    title = f"{view.title}, {size}" if size else view.title
    return Sheet(
        title=title,
        columns=columns,
        rows=rows,
        notes=_notes(groups, len(other_measures) - _FIGURES_SHOWN),
        facts={"kind": "figures", "benchmark": groups[0].benchmark},
        marks="mark",
        name=f"{groups[0].benchmark}-figures",
    )


def _others(
    view: View, heads: Sequence[Measure], rows: Sequence[Mapping[str, Any]]
) -> list[Measure]:
    """The figures beside the headline that any row holds."""
    taken = {_key(measure) for measure in heads}
    keyed = {_key(measure): measure for measure in view.figures}
    return [
        measure
        for key, measure in keyed.items()
        if key not in taken and any(row.get(key) is not None for row in rows)
    ]


def _headline_columns(measure: Measure) -> list[Column]:
    key = _key(measure)
    return [
        Column(key, _header(measure), partial(in_unit, unit=measure.shown)),
        *unshown(f"{key}_min", f"{key}_max"),
        Column(f"{key}:span", "min to max", data=False),
    ]


def _told_apart(rows: Sequence[dict[str, Any]]) -> bool:
    """Whether rows need no name of a case: their differences identify them."""
    names = ("differs", "layout", "vm_size", "where")
    row_keys = {tuple(row[name] for name in names) for row in rows}
    named = all(row["differs"] or row["layout"] for row in rows)
    # Of many parameters the case's own name is the shorter one.
    short = all(len(row["differs"] or "") <= len(row["case"]) for row in rows)
    return len(rows) > 1 and len(row_keys) == len(rows) and named and short


def _notes(groups: Sequence[Group], more: int) -> list[str]:
    notes = []
    if more > 0:
        file = f"tables/{groups[0].benchmark}.csv"
        notes.append(f"{file} has {plural(more, 'more figure')} of each row.")
    if any(len(group.cases) > 1 for group in groups):
        notes.append(
            "Figures are medians over the nodes and repeats of a row; min to max are the outermost"
            " of them."
        )
    missed = [group for group in groups if group.head and group.head.shown.judged_bytes]
    if missed:
        size = missed[0].head.shown.judged_bytes  # type: ignore[union-attr]
        notes.append(
            f"The judged message size, {size_of(size or 0)}, was not reached by"
            f" {plural(len(missed), 'row')}: the figure at the largest size stands there."
        )
    return notes


def _size(value: Any) -> str:
    return units.UNKNOWN if value is None else size_of(int(value))


def _varies(rows: Sequence[dict[str, Any]], key: str) -> bool:
    return len({row[key] for row in rows}) > 1


def _key(measure: Measure) -> str:
    """The name of a column: the metric, its statistic, and the base unit."""
    words = [measure.metric, measure.statistic, _UNIT_WORDS.get(measure.unit, "")]
    return "_".join(text for text in words if text)


def _header(measure: Measure) -> str:
    label = measure.label
    if " " in label:
        first, _, rest = label.rpartition(" ")
        label = f"{first}\n{rest}"
    return f"{label}\n{measure.shown}".rstrip()


def _headlines(groups: Sequence[Group]) -> list[Measure]:
    held = {id(group.head.measure): group.head.measure for group in groups if group.head}
    return list({_key(measure): measure for measure in held.values()}.values())


def _row(group: Group, names: Collection[str], view: View, judged: Judged) -> dict[str, Any]:
    first = group.cases[0]
    row: dict[str, Any] = {
        "case": group.label,
        "differs": apart_words(group, names) or None,
        "layout": group.layout or None,
        "vm_size": first.vm_size,
        "where": group.where,
        "node_count": group.node_count,
        "nodes": len(group.nodes),
        "n": _repeats(group, judged),
        "mark": "",
    }
    for measure in view.figures:
        other = pooled(group.cases, measure, judged.heads)
        row[_key(measure)] = None if other is None else other.value
    head = group.head
    if head is None:
        return row
    key = _key(head.measure)
    row |= {
        key: head.value,
        f"{key}_min": head.low,
        f"{key}_max": head.high,
        f"{key}:span": units.UNKNOWN
        if head.low is None or head.high is None
        else f"{in_unit(head.low, head.measure.shown)} to {in_unit(head.high, head.measure.shown)}",
        "message_bytes": head.shown.message_bytes,
        "device": head.shown.device if head.shown.devices > 1 and len(group.cases) == 1 else None,
        "worst_node": head.worst.node if len(group.nodes) > 1 and len(group.cases) > 1 else None,
    }
    peak = judged.sizes.peak(first, head.measure.peak)
    row["peak_share"] = None if peak is None else head.value / peak
    return row | _expected(first, head, judged)


def _since(group: Group, deltas: Deltas) -> dict[str, Any]:
    """The change of the headline figure since the run before, and whether it counts."""
    if (head := group.head) is None:
        return {"since_run_before": None, "since_shown": None}
    ratio, verdict = deltas.of(group.cases, head.measure.metric, head.shown.message_bytes)
    return {
        "since_run_before": ratio,
        "since_shown": None
        if ratio is None
        else f"{signed(ratio)} {verdict if verdict in _COUNTS else ''}".rstrip(),
    }


def _expected(case: Case, head: Pooled, judged: Judged) -> dict[str, Any]:
    """The limit of the headline figure and the figure of healthy nodes, where the catalog has
    them."""
    for item in judged_by(case, head.measure.metric, judged.expectations):
        key = (item.message_bytes, item.expected.base_unit, item.statistic)
        if key == (head.shown.message_bytes, head.measure.unit, None):
            value = item.expected.base
            text = SIGNS.get(item.comparison, "") + in_unit(value, head.measure.shown)
            return {"expected_value": value, "expected": text, **_healthy(item, head)}
    return {}


def _healthy(item: Expectation, head: Pooled) -> dict[str, Any]:
    if item.healthy is None:
        return {}
    value = item.healthy.value.base
    text = f"{in_unit(value, head.measure.shown)}: {units.percent(head.value / value)}"
    return {"healthy_value": value, "healthy": text}


def _repeats(group: Group, judged: Judged) -> int | None:
    """How many measurements the row is of: repeats over all cases, else the cases."""
    if group.head is None:
        return len(group.cases)
    measure = group.head.measure
    held = judged.heads.held(group.cases, measure)
    counts = (
        [case.repeats(measure.metric) or 0 for case in group.cases]
        if held is None
        else held["repeats"].tolist()
    )
    return sum(counts) if all(counts) else len(group.cases)


def _mark_best(rows: Sequence[dict[str, Any]], groups: Sequence[Group]) -> None:
    """The best of the rows that ran the same problem."""
    problems: dict[object, list[tuple[float, dict[str, Any]]]] = {}
    for group, row in zip(groups, rows, strict=True):
        if group.head is None:
            continue
        measure = group.head.measure
        value = group.head.value if measure.direction == "lower" else -group.head.value
        key = (group.apart, measure.metric, group.node_count)
        problems.setdefault(key, []).append((value, row))
    for members in problems.values():
        if len(members) > 1:
            min(members, key=lambda pair: pair[0])[1]["mark"] = "best"


def _charts(groups: Sequence[Group], judged: Judged) -> list[Figure]:
    """The plots of one benchmark's groups, in the order of its view."""
    if not groups:
        return []
    view = view_of(groups[0].benchmark)
    figures: list[Figure] = []
    for number, chart in enumerate(view.charts if view is not None else (), 1):
        drawn = list(_drawn(chart, groups, judged))[:_PLOTS]
        for again, (plot, caption, description) in enumerate(drawn, 1):
            name = f"{groups[0].benchmark}-{number}" + (f"-{again}" if len(drawn) > 1 else "")
            figures.append(Figure(name, caption, plot(name=name, description=description)))
    return figures


def _drawn(chart: Chart, groups: Sequence[Group], judged: Judged) -> Iterator[Drawn]:
    """The plots of one chart: how to draw, the caption, and the finding in words."""
    if chart.kind == "matrix":
        return matrices(chart, groups, judged)
    if chart.kind == "rows":
        over = over_devices if chart.over == "device" else over_cases
        return over(chart, groups, judged)
    if chart.over == "message_bytes":
        return over_sizes(chart, groups, judged)
    return over_parameter(chart, groups)
