"""Rows, for values without an order: one per device, or one per case."""

from __future__ import annotations

from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Final

from ...figures.groups import apart_words, differing
from ...render.plots.data import Point, Reference, RowsPlot
from ...render.plots.rows import draw_rows
from ...units import in_unit, scaled_to
from .common import PAIR, Drawn, Judged, axis, by_unit, figures_of, references

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trueup_node.cases import Case
    from trueup_node.view import Chart, Measure

    from ...figures.groups import Group

_ROWS: Final = 24
_ENDS: Final = ("min", "max")


def over_devices(chart: Chart, groups: Sequence[Group], judged: Judged) -> Iterator[Drawn]:
    """One row a device of each group: the best above, the worst marked."""
    names = differing(groups)
    for group in groups:
        # The reference of a device's figure holds for that figure alone.
        for measure in chart.measures:
            points = _device_points(group, measure)
            if len(points) < PAIR:
                continue
            higher = measure.direction == "higher"
            order = sorted(range(len(points)), key=lambda index: points[index].x, reverse=higher)
            drawn = [points[index] for index in sorted(order[-_ROWS:])]
            # Of many nodes one bad device is seen at the end of its bar, not in the median.
            ends = [point.low if higher else -point.high for point in drawn]
            where = ", ".join(filter(None, (apart_words(group, names), group.where)))
            title = f"{_titled(chart, [measure])}: {where}."
            expected = _held_against([measure], [group], judged)
            plot = RowsPlot(axis([measure]), tuple(drawn), None, ends.index(min(ends)), expected)
            worst = "" if len(group.cases) == 1 else _worst_device(group, measure)
            yield (
                partial(draw_rows, plot),
                f"{title}{_left_out(drawn, points)}{worst}",
                _finding(title, drawn, measure, expected),
            )


def over_cases(chart: Chart, groups: Sequence[Group], judged: Judged) -> Iterator[Drawn]:
    """One row a case; figures of one unit beside each other, the best marked where there is one."""
    for measures in by_unit(chart.measures):
        points = _case_points(chart, groups, measures)
        if len(points) < PAIR:
            continue
        higher = measures[0].direction == "higher"
        order = sorted(range(len(points)), key=lambda index: points[index].x, reverse=higher)
        drawn = [points[index] for index in sorted(order[:_ROWS])]
        values = [point.x for point in drawn]
        best = values.index(max(values) if higher else min(values))
        title = f"{_titled(chart, measures)}."
        expected = _held_against(measures, groups, judged)
        plot = RowsPlot(
            axis(measures), tuple(drawn), best if len(measures) == 1 else None, None, expected
        )
        yield (
            partial(draw_rows, plot),
            f"{title}{_left_out(drawn, points)}",
            _finding(title, drawn, measures[0], expected),
        )


def _titled(chart: Chart, measures: Sequence[Measure]) -> str:
    """The chart's title; where a plot has one of several measures, with its name."""
    alone = len(measures) == 1 < len(chart.measures)
    return f"{chart.title}, {measures[0].label}" if alone else chart.title


def _left_out(drawn: Sequence[Point], points: Sequence[Point]) -> str:
    few = len(drawn) < len(points)
    return f" {len(drawn)} of {len(points)} are drawn." if few else ""


def _finding(
    title: str, drawn: Sequence[Point], measure: Measure, expected: Sequence[Reference]
) -> str:
    """The highest and the lowest, and the expectations."""
    highest = max(drawn, key=lambda point: point.x)
    lowest = min(drawn, key=lambda point: point.x)
    return (
        f"{title} Highest {highest.x:.4g} {measure.shown}, {highest.label}; lowest"
        f" {lowest.x:.4g} {measure.shown}, {lowest.label}."
        + "".join(f" {reference.label[:1].upper()}{reference.label[1:]}." for reference in expected)
    )


def _worst_device(group: Group, measure: Measure) -> str:
    """Which device of which node has the worst figure, where many nodes are one row."""
    pick = min if measure.direction == "higher" else max
    rows = [
        (row.value, row.device, case.node)
        for case in group.cases
        for row in figures_of(case, measure)
        if row.device and ">" not in row.device
    ]
    value, device, node = pick(rows)
    return f" The worst: {in_unit(value, measure.shown)} {measure.shown}, {device} of {node}."


def _held_against(
    measures: Sequence[Measure], members: Sequence[Group], judged: Judged
) -> tuple[Reference, ...]:
    """The expectations, and one peak."""
    peaks = {}
    for group in members:
        for measure in measures:
            value = judged.sizes.peak(group.cases[0], measure.peak)
            if value is not None:
                label = f"peak, nominal: {in_unit(value, measure.shown)} {measure.shown}"
                peaks[value] = Reference(scaled_to(value, measure.shown), label)
    return references(measures, members, judged) + tuple(peaks.values())[:1]


def _device_points(group: Group, measure: Measure) -> list[Point]:
    """A device each; of several nodes their median, between the worst and the best."""
    values: dict[str, list[float]] = {}
    ends: dict[str, list[float]] = {}
    for case in group.cases:
        for row in figures_of(case, measure):
            if row.device and ">" not in row.device:
                values.setdefault(row.device, []).append(scaled_to(row.value, measure.shown))
        for row in case.of(measure.metric):
            if row.device in values and row.statistic in _ENDS:
                ends.setdefault(str(row.device), []).append(scaled_to(row.value, measure.shown))
    return [_point(device, typical, ends.get(device, ())) for device, typical in values.items()]


def _point(label: str, typical: Sequence[float], ends: Sequence[float]) -> Point:
    every = [*typical, *ends]
    return Point(median(typical), 0.0, min(every), max(every), label)


def _case_points(
    chart: Chart, members: Sequence[Group], measures: Sequence[Measure]
) -> list[Point]:
    points = []
    machines = {group.machine for group in members}
    for group in members:
        held = sum(any(group.cases[0].of(measure.metric)) for measure in measures)
        for measure in measures:
            for statistic in chart.statistics or ("",):
                values = _of_cases(group.cases, measure, statistic)
                if not values:
                    continue
                words = [_name(group, members)]
                words += [measure.label] if held > 1 else []
                words += [statistic] if len(chart.statistics) > 1 else []
                words += [group.machine.removeprefix("Standard_")] if len(machines) > 1 else []
                ends = [] if chart.statistics else _ends_of(group.cases, measure)
                points.append(_point(", ".join(words), values, ends))
    return points


def _name(group: Group, members: Sequence[Group]) -> str:
    """A group's label; where others have the same one, with its difference from them."""
    if sum(other.label == group.label for other in members) == 1:
        return group.label
    return f"{group.label}, {apart_words(group, differing(members)) or group.where}"


def _of_cases(cases: Sequence[Case], measure: Measure, statistic: str) -> list[float]:
    return [
        scaled_to(row.value, measure.shown)
        for case in cases
        for row in figures_of(case, measure, statistic)
        if row.message_bytes is None
    ]


def _ends_of(cases: Sequence[Case], measure: Measure) -> list[float]:
    """The least and the greatest of the repeats of each case."""
    return [
        scaled_to(row.value, measure.shown)
        for case in cases
        for row in case.of(measure.metric)
        if row.statistic in _ENDS and row.message_bytes is None
    ]
