"""The report's comparison of layouts: which was fastest, and by how much."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Final

from ..render.html import Column, Figure, Part, Row, Section, Table
from ..render.plots import LayoutPlot, Point, draw_layouts
from ..render.units import count, percent_figure, seconds, span
from .cases import Figures, problem
from .cells import ratio, where

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .cases import Case

__all__ = ["layouts_section"]

# Rows that a plot of layouts can hold before its labels shrink; the table below it has them all.
_LAYOUTS_SHOWN: Final = 12


def layouts_section(ok: Sequence[Case]) -> Section | None:
    """Which layout was fastest, for each problem that one kind of machine ran with several in one
    version of Devito.
    """
    groups: dict[tuple[str, str, str, int], list[Case]] = {}
    for case in ok:
        if case.measured and case.benchmark == "devito" and case.median("run_time"):
            version = case.software.get(case.benchmark, "")
            key = (problem(case), version, case.machine.kind, case.node_count or 1)
            groups.setdefault(key, []).append(case)
    parts = [
        _layouts_part(_title(what, version, groups), where(cases), cases, f"layouts-{number}")
        for number, ((what, version, _, _), cases) in enumerate(
            (
                (key, cases)
                for key, cases in groups.items()
                if len({case.layout for case in cases}) > 1
            ),
            1,
        )
    ]
    return Section("layouts", "Layouts compared", tuple(parts)) if parts else None


def _title(what: str, version: str, groups: Iterable[tuple[str, str, str, int]]) -> str:
    """The problem, and the version where several ran it."""
    versions = {other for problem_, other, _, _ in groups if problem_ == what}
    return f"{what}, Devito {version or 'of unknown version'}" if len(versions) > 1 else what


def _layouts_part(what: str, nodes: str, cases: Sequence[Case], name: str) -> Part:
    tuned = len({case.parameters.get("autotune") for case in cases}) > 1
    times: dict[str, list[Figures]] = {}
    for case in cases:
        label = (
            f"{case.layout}, autotune {case.parameters.get('autotune')}" if tuned else case.layout
        )
        times.setdefault(label, []).append(case.figures["run_time"])
    ranked = sorted(
        ((_pooled(figures), label) for label, figures in times.items()),
        key=lambda pair: (pair[0].median or 0.0, pair[1]),
    )
    (best, first), (next_best, second) = ranked[0], ranked[1]
    behind = ratio(next_best.median, best.median) - 1
    sentence = (
        f"Fastest: {first}, {seconds(best.median)} s; the next, {second}, takes"
        f" {percent_figure(behind)} % longer."
    )
    if best.high is not None and next_best.low is not None and next_best.low <= best.high:
        sentence += " Their repeats overlap, so which of the two is faster may be chance."
    columns = (
        Column("Layout"),
        Column("n", kind="number"),
        Column("Run time", "median, s", "number"),
        Column("Min to max", "s", "number"),
        Column("Slower by", "%", "number"),
    )
    rows = [
        Row(
            (
                label,
                count(time.n),
                seconds(time.median),
                span(time.low, time.high, "s"),
                "fastest" if time is best else percent_figure(ratio(time.median, best.median) - 1),
            ),
            mark="best" if time is best else "",
        )
        for time, label in ranked
    ]
    points = tuple(_point(time, label) for time, label in ranked[:_LAYOUTS_SHOWN])
    drawing = draw_layouts(
        LayoutPlot("run time, s (less is better)", points),
        name=name,
        description="Plot of run times by layout, fastest first: "
        + "; ".join(f"{point.label} {point.x:.3g} s" for point in points)
        + ".",
    )
    caption = "Median run time (dot) and the least to the greatest of the repeats (bar)."
    if len(ranked) > len(points):
        caption += f" The {len(points)} fastest of {len(ranked)}; the table has all."
    listing = Table(
        name, "Layouts, fastest first; repeats in several runs are pooled.", columns, tuple(rows)
    )
    return Part(
        title=f"{what[:1].upper()}{what[1:]}, on {nodes}",
        paragraphs=(sentence,),
        figures=(Figure(name, caption, drawing),),
        beside=(listing,),
    )


def _pooled(times: Sequence[Figures]) -> Figures:
    """One layout's repeats over several records: median of the medians, the outermost ends."""
    counts = [time.n for time in times if time.n is not None]
    return Figures(
        unit="s",
        median=median(time.median for time in times if time.median is not None),
        low=min((time.low for time in times if time.low is not None), default=None),
        high=max((time.high for time in times if time.high is not None), default=None),
        n=sum(counts) if len(counts) == len(times) else None,
    )


def _point(figures: Figures, label: str) -> Point:
    middle = figures.median or 0.0
    low = middle if figures.low is None else figures.low
    high = middle if figures.high is None else figures.high
    return Point(middle, 0.0, low, high, label)
