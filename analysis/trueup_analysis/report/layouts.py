"""Which layout of ranks and threads was fastest, and by how much."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..figures.groups import apart_words, differing
from ..render.html import Figure, Part
from ..render.plots.data import Point, RowsPlot
from ..render.plots.rows import draw_rows
from ..units import in_unit, percent_figure, scaled_to

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..figures.groups import Group, Pooled

# Rows that a plot of layouts can hold before its labels shrink; the table has them all.
_LAYOUTS_SHOWN: Final = 12
_TWO: Final = 2
_PLOTS: Final = 6


def layout_parts(groups: Sequence[Group]) -> list[Part]:
    """One part with a plot for each problem that one kind of machine ran in several layouts."""
    problems: dict[tuple[object, ...], list[tuple[Pooled, Group]]] = {}
    for group in groups:
        if group.head is not None and group.layout and group.cases[0].measured:
            version = group.cases[0].software.get(group.benchmark, "")
            key = (group.machine, group.node_count, group.apart, version, group.head.measure.metric)
            problems.setdefault(key, []).append((group.head, group))
    several = [
        members
        for members in problems.values()
        if len({group.layout for _, group in members}) >= _TWO
    ]
    drawn = [
        _layouts(members, groups, f"{members[0][1].benchmark}-layouts-{number}")
        for number, members in enumerate(several[:_PLOTS], 1)
    ]
    if not drawn:
        return []
    notes = ["Dots are medians, bars reach from the least to the greatest of the repeats."]
    if len(several) > _PLOTS:
        notes.append(f"{_PLOTS} of {len(several)} problems are drawn; the table has all.")
    return [Part(title="Layouts", figures=drawn, notes=notes)]


def _layouts(members: Sequence[tuple[Pooled, Group]], groups: Sequence[Group], name: str) -> Figure:
    measure = members[0][0].measure
    higher = measure.direction == "higher"
    ranked = sorted(members, key=lambda pair: -pair[0].value if higher else pair[0].value)
    (best, first), (next_best, _) = ranked[0], ranked[1]
    ratio = best.value / next_best.value if higher else next_best.value / best.value
    labels = _labels([group for _, group in ranked])
    finding = (
        f"Fastest: {labels[0]}, {in_unit(best.value, measure.shown)} {measure.shown}; the next,"
        f" {labels[1]}, is {percent_figure(ratio - 1)} % slower."
    )
    if _overlap(best, next_best):
        finding += " Their repeats overlap, so which of the two is faster may be chance."
    points = tuple(
        Point(
            scaled_to(head.value, measure.shown),
            0.0,
            scaled_to(head.value if head.low is None else head.low, measure.shown),
            scaled_to(head.value if head.high is None else head.high, measure.shown),
            label,
        )
        for (head, _), label in zip(ranked[:_LAYOUTS_SHOWN], labels, strict=False)
    )
    better = "more" if higher else "less"
    plot = RowsPlot(f"{measure.label}, {measure.shown} ({better} is better)", points, best=0)
    words = apart_words(first, differing(groups))
    title = f"Layouts{': ' + words if words else ''}, on {first.where}."
    if len(ranked) > len(points):
        finding += f" The {len(points)} fastest of {len(ranked)} are drawn."
    drawing = draw_rows(plot, name=name, description=f"{title} {finding}")
    return Figure(name, f"{title} {finding}", drawing)


def _labels(ranked: Sequence[Group]) -> list[str]:
    """The layouts, with how they were tuned where that differs."""
    short = [group.cases[0].short_layout for group in ranked]
    if len(set(short)) == len(short):
        return short
    tunings = [group.cases[0].parameters.get("autotune") for group in ranked]
    if len(set(map(str, tunings))) == 1:
        return [group.layout for group in ranked]
    return [
        f"{group.layout}, autotune {tuning}" for group, tuning in zip(ranked, tunings, strict=True)
    ]


def _overlap(best: Pooled, other: Pooled) -> bool:
    ends = best.low, best.high, other.low, other.high
    if None in ends:
        return False
    low, high, other_low, other_high = (end or 0.0 for end in ends)
    return other_low <= high and low <= other_high
