"""The plots of a benchmark's section, from what its view says and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median, quantiles
from typing import TYPE_CHECKING, Final, Literal

from ..cases import TYPICAL
from ..figures.groups import apart_words
from ..figures.views import judged_by, view_of
from ..render.html import Figure
from ..render.plots import (
    Drawing,
    Line,
    LinesPlot,
    MatrixPlot,
    Point,
    Reference,
    RowsPlot,
    draw_lines,
    draw_matrix,
    draw_rows,
)
from ..units import in_unit, number, plural, scaled_to, size_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trueup.view import Chart, Measure

    from ..cases import Case
    from ..cases import Figure as Row
    from ..figures.groups import Group
    from ..figures.health.expectations import Expectations
    from ..figures.sizes import Sizes

__all__ = ["Judged", "charts"]

_LINES: Final = 8
_ROWS: Final = 24
# More nodes than this are one band, with those that do not pass as lines of their own.
_SINGLE_NODES: Final = 4
_OUTLIERS: Final = 5
# Plots of one kind in one section; the table has what is not drawn.
_PLOTS: Final = 6
_PAIR: Final = 2
# Rows and columns of a matrix: those in the worst pairs, where there are more.
_CELLS: Final = 600
_SIGNS: Final = {"at_least": "at least", "at_most": "at most", "exactly": "exactly"}


@dataclass(frozen=True)
class Judged:
    """What figures are held against.

    Attributes:
        bad: (node, benchmark) of what does not pass, to be named in plots of a fleet.
    """

    expectations: Expectations
    sizes: Sizes
    bad: frozenset[tuple[str, str]] = frozenset()


def charts(found: Sequence[Group], judged: Judged) -> list[Figure]:
    """The plots of one benchmark's groups, in the order of its view."""
    if not found:
        return []
    view = view_of(found[0].benchmark)
    made: list[Figure] = []
    for place, chart in enumerate(view.charts if view is not None else (), 1):
        drawn = list(_drawn(chart, found, judged))[:_PLOTS]
        for again, (plot, caption, said) in enumerate(drawn, 1):
            name = f"{found[0].benchmark}-{place}" + (f"-{again}" if len(drawn) > 1 else "")
            made.append(Figure(name, caption, plot(name=name, description=said)))
    return made


# How to draw it (by name and finding), its caption, and the finding in words.
_Drawn = tuple[Callable[..., Drawing], str, str]


def _drawn(chart: Chart, found: Sequence[Group], judged: Judged) -> Iterator[_Drawn]:
    """The plots of one chart: how to draw, the caption, and the finding in words."""
    if chart.kind == "matrix":
        yield from _matrices(chart, found, judged)
    elif chart.kind == "rows":
        yield from _rows(chart, found, judged)
    elif chart.over == "message_bytes":
        yield from _over_sizes(chart, found, judged)
    else:
        yield from _over_parameter(chart, found)


def _axis(measures: Sequence[Measure]) -> str:
    """ "bus bandwidth, GB/s": the title of the axis of figures."""
    labels = list(dict.fromkeys(measure.label for measure in measures))
    unit = measures[0].shown
    if len(labels) > _PAIR and unit:
        return unit
    return f"{' and '.join(labels[:_PAIR])}{', ' + unit if unit else ''}"


def _typical(case: Case, measure: Measure, statistic: str = "") -> list[Row]:
    """The rows that stand for a measure: those of one statistic."""
    rows = list(case.of(measure.metric))
    asked = statistic or measure.statistic
    wanted: Sequence[str | None] = (asked,) if asked and asked != "median" else TYPICAL
    one = next((word for word in wanted if any(row.statistic == word for row in rows)), "")
    return [row for row in rows if row.statistic == one]


# ---- over message sizes ----


def _over_sizes(chart: Chart, found: Sequence[Group], judged: Judged) -> Iterator[_Drawn]:
    together: dict[tuple[object, ...], list[Group]] = {}
    for group in found:
        together.setdefault((group.machine, group.apart), []).append(group)
    for members in together.values():
        for measures in _by_unit(chart.measures):
            lines = _size_lines(chart, measures, members, judged)
            if not lines or max(len(line.xs) for line in lines) < _PAIR:
                continue
            references = _references(measures, members, judged)
            words = apart_words(members[0], found) or members[0].label
            title = f"{chart.title}: {words}, {members[0].machine}."
            # A rate is read where it levels out, which a logarithmic axis hides.
            scale: Literal["auto", "linear"] = (
                "linear" if measures[0].direction == "higher" else "auto"
            )
            plot = LinesPlot(
                "message size", _axis(measures), tuple(lines), "bytes", scale, references
            )
            yield (
                partial(draw_lines, plot),
                _caption(title, lines),
                _line_finding(title, lines, measures[0], references, size_of),
            )


def _by_unit(measures: Sequence[Measure]) -> list[list[Measure]]:
    """Measures that may share an axis: those of one unit."""
    units: dict[str, list[Measure]] = {}
    for measure in measures:
        units.setdefault(measure.shown, []).append(measure)
    return list(units.values())


def _size_lines(
    chart: Chart, measures: Sequence[Measure], members: Sequence[Group], judged: Judged
) -> list[Line]:
    lines: list[Line] = []
    for measure in measures:
        for statistic in chart.statistics or ("",):
            words = [measure.label] if len(measures) > 1 else []
            words += [statistic] if len(chart.statistics) > 1 else []
            for group in members:
                lines += _group_lines(group, measure, statistic, words, judged)
    return lines[:_LINES]


def _group_lines(
    group: Group, measure: Measure, statistic: str, words: Sequence[str], judged: Judged
) -> list[Line]:
    """One line a case; of many nodes their median with a band, and those that do not pass."""
    curves = []
    for case in group.cases:
        rows = [row for row in _typical(case, measure, statistic) if row.message_bytes]
        by_device: dict[str | None, dict[int, float]] = {}
        for row in rows:
            by_device.setdefault(row.device, {})[row.message_bytes or 0] = row.value
        curves += [(case, device, curve) for device, curve in by_device.items() if curve]
    if not curves:
        return []
    if len(curves) <= _SINGLE_NODES:
        return [
            _line(", ".join([*words, *_names(case, device)]), curve, measure)
            for case, device, curve in curves
        ]
    values: dict[int, list[float]] = {}
    for _, _, curve in curves:
        for size, value in curve.items():
            values.setdefault(size, []).append(value)
    sizes = sorted(values)
    bands = [_band(values[size]) for size in sizes]
    scale = [tuple(scaled_to(value, measure.shown) for value in band) for band in bands]
    label = f"median of {plural(len(curves), 'node' if len(group.nodes) > 1 else 'device')}"
    usual = Line(
        ", ".join([*words, f"{label}, 10th to 90th percentile"]),
        tuple(map(float, sizes)),
        tuple(one[1] for one in scale),
        tuple(one[0] for one in scale),
        tuple(one[2] for one in scale),
        role="usual",
    )
    named = [
        (case, device, curve)
        for case, device, curve in curves
        if any((node, group.benchmark) in judged.bad for node in case.nodes)
    ][:_OUTLIERS]
    return [
        usual,
        *(
            _line(", ".join([*words, *_names(case, device)]), curve, measure, "outlier")
            for case, device, curve in named
        ),
    ]


def _band(values: Sequence[float]) -> tuple[float, float, float]:
    """10th percentile, median, 90th percentile."""
    if len(values) < _PAIR:
        return values[0], values[0], values[0]
    tenths = quantiles(values, n=10, method="inclusive")
    return tenths[0], median(values), tenths[-1]


def _names(case: Case, device: str | None) -> list[str]:
    nodes = case.nodes[0] if len(case.nodes) == 1 else plural(len(case.nodes), "node")
    return [nodes, *([device] if device else [])]


def _line(label: str, curve: dict[int, float], measure: Measure, role: str = "main") -> Line:
    sizes = sorted(curve)
    return Line(
        label,
        tuple(map(float, sizes)),
        tuple(scaled_to(curve[size], measure.shown) for size in sizes),
        role=role,  # type: ignore[arg-type]
    )


def _references(
    measures: Sequence[Measure], members: Sequence[Group], judged: Judged
) -> tuple[Reference, ...]:
    """What is expected of the measures, each once."""
    found: dict[tuple[float, int | None], Reference] = {}
    for group in members:
        for measure in measures:
            for item in judged_by(group.cases[0], measure.metric, judged.expectations):
                if item.expected.base_unit != measure.unit:
                    continue
                value = scaled_to(item.expected.base, measure.shown)
                sign = _SIGNS.get(item.comparison, "")
                at = "" if item.message_bytes is None else f" at {size_of(item.message_bytes)}"
                label = f"expected {sign} {in_unit(item.expected.base, measure.shown)}"
                x = None if item.message_bytes is None else float(item.message_bytes)
                found.setdefault(
                    (value, item.message_bytes),
                    Reference(value, f"{label} {measure.shown}{at}".strip(), x),
                )
    return tuple(found.values())[:_SINGLE_NODES]


def _caption(title: str, lines: Sequence[Line]) -> str:
    named = sum(line.role == "outlier" for line in lines)
    if not named:
        return title
    if named == 1:
        return f"{title} The node that does not pass is a line of its own."
    return f"{title} {named} nodes that do not pass are lines of their own."


def _line_finding(
    title: str,
    lines: Sequence[Line],
    measure: Measure,
    references: Sequence[Reference],
    place: Callable[[int], str],
) -> str:
    """Where each line begins and ends, and what is expected."""
    unit = f" {measure.shown}" if measure.shown else ""
    said = [
        f"{line.label}: {line.ys[0]:.4g}{unit} at {place(int(line.xs[0]))},"
        f" {line.ys[-1]:.4g}{unit} at {place(int(line.xs[-1]))}"
        for line in lines
    ]
    said += [f"{one.label[:1].upper()}{one.label[1:]}" for one in references]
    return f"{title} " + "; ".join(said) + "."


# ---- over a parameter ----


def _over_parameter(chart: Chart, found: Sequence[Group]) -> Iterator[_Drawn]:
    """Lines over a parameter's values, those of other machines beside them."""
    together: dict[tuple[object, ...], dict[str, list[tuple[float, Group]]]] = {}
    for group in found:
        x = number(group.cases[0].parameters.get(chart.over))
        # 0 stands for "no limit", which has no place on an axis.
        if not x:
            continue
        rest = tuple(pair for pair in group.apart if pair[0] not in (chart.over, *chart.along))
        together.setdefault(rest, {}).setdefault(group.machine, []).append((x, group))
    for machines in together.values():
        for measures in _by_unit(chart.measures):
            lines = [
                line
                for machine, members in machines.items()
                for line in _parameter_lines(
                    chart, measures, members, machine if len(machines) > 1 else ""
                )
            ][:_LINES]
            if not lines or max(len(line.xs) for line in lines) < _PAIR:
                continue
            word = chart.over.replace("_", " ")
            title = f"{chart.title}."
            plot = LinesPlot(word, _axis(measures), tuple(lines), "log" if chart.log else "linear")
            yield (
                partial(draw_lines, plot),
                title,
                _line_finding(title, lines, measures[0], (), partial("{} {}".format, word)),
            )


def _parameter_lines(
    chart: Chart, measures: Sequence[Measure], members: Sequence[tuple[float, Group]], machine: str
) -> list[Line]:
    lines = []
    for measure in measures:
        for statistic in chart.statistics or ("",):
            points: dict[float, list[float]] = {}
            for x, group in members:
                for case in group.cases:
                    points.setdefault(x, []).extend(
                        row.value
                        for row in _typical(case, measure, statistic)
                        if row.device is None and row.message_bytes is None
                    )
            known = {x: values for x, values in sorted(points.items()) if values}
            if not known:
                continue
            words = [machine.removeprefix("Standard_")] if machine else []
            words += [measure.label] if len(measures) > 1 or not words else []
            words += [statistic] if len(chart.statistics) > 1 else []
            scaled = [[scaled_to(value, measure.shown) for value in known[x]] for x in known]
            several = any(len(values) > 1 for values in scaled)
            lines.append(
                Line(
                    ", ".join(words),
                    tuple(known),
                    tuple(median(values) for values in scaled),
                    tuple(min(values) for values in scaled) if several else (),
                    tuple(max(values) for values in scaled) if several else (),
                )
            )
    return lines


# ---- rows ----


def _rows(chart: Chart, found: Sequence[Group], judged: Judged) -> Iterator[_Drawn]:
    """One row a device, or a case; figures of one unit beside each other."""
    parts = [[group] for group in found] if chart.over == "device" else [list(found)]
    for members in parts:
        # What a figure of a device is held against holds for that figure alone.
        alone = [[measure] for measure in chart.measures]
        for measures in alone if chart.over == "device" else _by_unit(chart.measures):
            points = (
                _device_points(members[0], measures)
                if chart.over == "device"
                else _case_points(chart, members, measures)
            )
            if len(points) < _PAIR:
                continue
            higher = measures[0].direction == "higher"
            order = sorted(range(len(points)), key=lambda place: points[place].x, reverse=higher)
            kept = sorted(order[-_ROWS:] if chart.over == "device" else order[:_ROWS])
            shown = tuple(points[place] for place in kept)
            values = [point.x for point in shown]
            best, worst = values.index(max(values)), values.index(min(values))
            if not higher:
                best, worst = worst, best
            if chart.over == "device":
                # Of many nodes one bad device is seen at the end of its bar, not in the median.
                ends = [point.low if higher else -point.high for point in shown]
                worst = ends.index(min(ends))
            references = _references(measures, members, judged) + _peaks(measures, members, judged)
            words = apart_words(members[0], found) if chart.over == "device" else ""
            place = (
                f": {', '.join(filter(None, (words, members[0].where)))}"
                if len({group.machine for group in members}) == 1 and chart.over == "device"
                else ""
            )
            which = f", {measures[0].label}" if _alone_of(measures, chart) else ""
            title = f"{chart.title}{which}{place}."
            few = "" if len(shown) == len(points) else f" {len(shown)} of {len(points)} are drawn."
            plot = RowsPlot(
                _axis(measures),
                shown,
                best if chart.over != "device" and len(measures) == 1 else None,
                worst if chart.over == "device" else None,
                references,
            )
            yield (
                partial(draw_rows, plot),
                title + few + _worst_device(members[0], measures[0], chart),
                f"{title} Highest {max(values):.4g} {measures[0].shown},"
                f" {shown[values.index(max(values))].label}; lowest {min(values):.4g}"
                f" {measures[0].shown}, {shown[values.index(min(values))].label}."
                + "".join(f" {one.label[:1].upper()}{one.label[1:]}." for one in references),
            )


def _alone_of(measures: Sequence[Measure], chart: Chart) -> bool:
    """Whether a plot has one of several measures of its chart."""
    return len(measures) == 1 < len(chart.measures)


def _worst_device(group: Group, measure: Measure, chart: Chart) -> str:
    """Which device of which node has the worst figure, where many nodes are one row."""
    if chart.over != "device" or len(group.cases) == 1:
        return ""
    pick = min if measure.direction == "higher" else max
    rows = [
        (row.value, row.device, case.node)
        for case in group.cases
        for row in _typical(case, measure)
        if row.device and ">" not in row.device
    ]
    value, device, node = pick(rows)
    return f" The worst: {in_unit(value, measure.shown)} {measure.shown}, {device} of {node}."


def _peaks(
    measures: Sequence[Measure], members: Sequence[Group], judged: Judged
) -> tuple[Reference, ...]:
    found = {}
    for group in members:
        for measure in measures:
            value = judged.sizes.peak(group.cases[0], measure.peak)
            if value is not None:
                shown = f"peak, nominal: {in_unit(value, measure.shown)} {measure.shown}"
                found[value] = Reference(scaled_to(value, measure.shown), shown)
    return tuple(found.values())[:1]


def _device_points(group: Group, measures: Sequence[Measure]) -> list[Point]:
    found = []
    for measure in measures:
        values: dict[str, list[float]] = {}
        ends: dict[str, list[float]] = {}
        for case in group.cases:
            for row in _typical(case, measure):
                if row.device and ">" not in row.device:
                    values.setdefault(row.device, []).append(scaled_to(row.value, measure.shown))
            for row in case.of(measure.metric):
                if row.device in values and row.statistic in ("min", "max"):
                    ends.setdefault(str(row.device), []).append(scaled_to(row.value, measure.shown))
        for device, found_there in values.items():
            every = [*found_there, *ends.get(device, [])]
            label = device if len(measures) == 1 else f"{device}, {measure.label}"
            middle = median(found_there)
            found.append(Point(middle, 0.0, min(every), max(every), label))
    return found


def _case_points(
    chart: Chart, members: Sequence[Group], measures: Sequence[Measure]
) -> list[Point]:
    found = []
    several = len({group.machine for group in members}) > 1
    labels = [group.label for group in members]
    held = {
        id(group): sum(any(group.cases[0].of(one.metric)) for one in measures) for group in members
    }
    for group in members:
        for measure in measures:
            for statistic in chart.statistics or ("",):
                values = [
                    scaled_to(row.value, measure.shown)
                    for case in group.cases
                    for row in _typical(case, measure, statistic)
                    if row.message_bytes is None
                ]
                if not values:
                    continue
                words = [group.label]
                if labels.count(group.label) > 1:
                    words += [apart_words(group, members) or group.where]
                words += [measure.label] if held[id(group)] > 1 else []
                words += [statistic] if len(chart.statistics) > 1 else []
                words += [group.machine.removeprefix("Standard_")] if several else []
                ends = (
                    [
                        scaled_to(row.value, measure.shown)
                        for case in group.cases
                        for row in case.of(measure.metric)
                        if row.statistic in ("min", "max") and row.message_bytes is None
                    ]
                    if not chart.statistics
                    else []
                )
                found.append(
                    Point(
                        median(values),
                        0.0,
                        min([*values, *ends]),
                        max([*values, *ends]),
                        ", ".join(words),
                    )
                )
    return found


# ---- matrices ----


def _matrices(chart: Chart, found: Sequence[Group], judged: Judged) -> Iterator[_Drawn]:
    for measure in chart.measures:
        parts: dict[tuple[object, ...], list[Group]] = {}
        for group in found:
            if chart.over == "node" and group.node_count != _PAIR:
                continue
            parts.setdefault((group.machine, group.apart), []).append(group)
        for members in parts.values():
            cells = (
                _node_cells(members, measure)
                if chart.over == "node"
                else _device_cells(members, measure)
            )
            if len(cells) < _PAIR:
                continue
            yield _matrix(chart, members, measure, cells, judged)


def _device_cells(members: Sequence[Group], measure: Measure) -> dict[tuple[str, str], float]:
    """From device to device; of several nodes the worst figure of each pair."""
    pick = min if measure.direction == "higher" else max
    found: dict[tuple[str, str], float] = {}
    for group in members:
        for case in group.cases:
            for row in _typical(case, measure):
                one, _, other = (row.device or "").partition(">")
                if other:
                    value = scaled_to(row.value, measure.shown)
                    found[one, other] = pick(found.get((one, other), value), value)
    return found


def _node_cells(members: Sequence[Group], measure: Measure) -> dict[tuple[str, str], float]:
    """From node to node; of several adapters the worst."""
    pick = min if measure.direction == "higher" else max
    found: dict[tuple[str, str], float] = {}
    for group in members:
        for case in group.cases:
            if len(case.nodes) != _PAIR:
                continue
            rows = _typical(case, measure)
            largest = max((row.message_bytes or 0 for row in rows), default=0)
            for row in rows:
                if (row.message_bytes or 0) == largest:
                    key = (case.nodes[0], case.nodes[1])
                    value = scaled_to(row.value, measure.shown)
                    found[key] = pick(found.get(key, value), value)
    return found


def _matrix(
    chart: Chart,
    members: Sequence[Group],
    measure: Measure,
    cells: dict[tuple[str, str], float],
    judged: Judged,
) -> _Drawn:
    pick = min if measure.direction == "higher" else max
    worst_first = sorted(cells, key=lambda pair: cells[pair], reverse=pick is max)
    kept = list(dict.fromkeys(label for pair in worst_first for label in pair))[:_CELLS]
    labels = sorted(kept, key=_by_number)
    (one, other), worst = pick(cells.items(), key=lambda item: item[1])
    nodes = list(dict.fromkeys(node for group in members for node in group.nodes))
    where = f"on {nodes[0]}" if len(nodes) == 1 else f"on {len(nodes):,} nodes"
    rule = ""
    if chart.over != "node" and len(nodes) > 1:
        rule = " Each cell is the worst node's figure."
    title = f"{chart.title}, {where}."
    plot = MatrixPlot(
        row_title="from",
        column_title="to",
        value_label=_axis([measure]),
        row_labels=tuple(labels),
        column_labels=tuple(labels),
        values=tuple(tuple(cells.get((a, b)) for b in labels) for a in labels),
        marked=frozenset(label for label in labels if (label, members[0].benchmark) in judged.bad),
    )
    middle = median(cells.values())
    said = (
        f"{title} Median {middle:.4g} {measure.shown}; worst {worst:.4g} {measure.shown} from {one}"
        f" to {other}."
    )
    return (
        partial(draw_matrix, plot),
        f"{title}{rule} The worst is {worst:.4g} {measure.shown}, from {one} to {other}.",
        said,
    )


def _by_number(label: str) -> tuple[str, int, str]:
    digits = "".join(char for char in label if char.isdigit())[-12:]
    return label.rstrip("0123456789"), int(digits or 0), label
