"""How a benchmark scales: plot, table and fits of every series."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ..figures.scaling.split import axis
from ..render.html import Figure, Part
from ..render.plots.curves import draw_lines, draw_scaling
from ..render.plots.data import Curve, Line, LinesPlot, Point, ScalingPlot
from ..sheets import scaling as scaling_sheets
from ..units import scaled_to

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..figures.fits import Fit
    from ..figures.scaling.tables import Series

_SAMPLES: Final = 40
# More plots than these are not compared by eye; each takes a fifth of a second.
_PLOTS: Final = 8


def scaling_parts(all_series: Sequence[Series]) -> list[Part]:
    """A part for each series: plot, table, fits, and where adding resources stops paying. Of many
    series the first are drawn."""
    parts = [
        _series_part(series, f"{series.benchmark}-scaling-{number}", drawn=number <= _PLOTS)
        for number, series in enumerate(all_series, 1)
    ]
    if len(parts) > _PLOTS:
        note = f"{_PLOTS} of {len(parts)} series are drawn; each has its table."
        parts[_PLOTS] = replace(parts[_PLOTS], notes=(*parts[_PLOTS].notes, note))
    return [*_sizes(all_series), *parts]


def _sizes(all_series: Sequence[Series]) -> list[Part]:
    """Measured series of one work on several VM sizes over each other."""
    alike: dict[tuple[object, ...], dict[str, Series]] = {}
    for series in all_series:
        if series.vm_size is not None and series.provenance == "measured" and len(series.best) > 1:
            work = series.title.replace(series.vm_size, "")
            key = (work, series.kind, series.over, series.metric, series.message_bytes)
            alike.setdefault(key, {})[series.vm_size] = series
    several = [list(by_size.values()) for by_size in alike.values() if len(by_size) > 1]
    figures = [
        _over_each_other(each[:_PLOTS], f"{each[0].benchmark}-scaling-sizes-{number}")
        for number, each in enumerate(several[:_PLOTS], 1)
    ]
    return [Part(title="VM sizes beside each other", figures=figures)] if figures else []


def _over_each_other(each: Sequence[Series], name: str) -> Figure:
    first = each[0]
    lines = tuple(
        Line(
            str(series.vm_size).removeprefix("Standard_"),
            tuple(float(row.resource) for row in series.best),
            tuple(scaled_to(row.median, series.shown) for row in series.best),
        )
        for series in each
    )
    plot = LinesPlot(axis(first.over), f"{first.label}, {first.shown}", lines, "log", "log")
    caption = (
        f"{first.label[:1].upper()}{first.label[1:]} over {axis(first.over)} of"
        f" {len(each)} VM sizes; the fastest layout at each count."
    )
    ends = "; ".join(
        f"{line.label}: {line.ys[0]:.4g} at {line.xs[0]:g}, {line.ys[-1]:.4g} at {line.xs[-1]:g}"
        for line in lines
    )
    return Figure(name, caption, draw_lines(plot, name=name, description=f"{caption} {ends}."))


def _series_part(series: Series, name: str, *, drawn: bool) -> Part:
    sheet = replace(scaling_sheets.scaling(series, layouts=False), name=name)
    # One count is no scaling, and no plot.
    figures = (_scaling_figure(series, name),) if drawn and len(series.best) > 1 else ()
    origin = (
        ()
        if series.provenance == "measured"
        else (f"Published, not measured here: {series.provenance}.",)
    )
    return Part(figures=figures, sheets=(sheet,), notes=origin)


def _scaling_figure(series: Series, name: str) -> Figure:
    strong = series.kind == "strong"
    best = series.best
    reference = next(row.median for row in best if row.baseline)
    points = []
    for row in best:
        value = row.speedup if strong else row.efficiency
        # A publication may state no spread: then the point stands alone.
        ends = [
            _gain(reference, end, series.direction) for end in (row.min, row.max) if end is not None
        ] or [value]
        points.append(Point(float(row.resource), value, min(ends), max(ends)))
    last = max(point.x for point in points)
    curves = [_ideal(series.baseline, last, strong=strong)]
    if series.amdahl:
        curves.append(_law(series.amdahl, "amdahl", series.baseline, last))
    if series.usl:
        curves.append(_law(series.usl, "usl", series.baseline, last))
    quantity = (
        f"speed-up over {f'{series.baseline:,} {axis(series.over, series.baseline)}'}"
        if strong
        else "parallel efficiency, 1 = ideal"
    )
    drawing = draw_scaling(
        ScalingPlot(
            x_label=axis(series.over),
            y_label=quantity,
            points=tuple(points),
            curves=tuple(curves),
            measured=series.provenance == "measured",
        ),
        name=name,
        description=f"{quantity[:1].upper()}{quantity[1:]}, {series.title}: "
        + "; ".join(f"{p.x:,.0f} {axis(series.over, int(p.x))} {p.y:.2f}" for p in points)
        + ".",
    )
    spread = "Bars reach from the least to the greatest of the repeats"
    if series.provenance != "measured":
        spread = "The publication states no spread"
    growth = "" if strong else f"; the work grows with the {axis(series.over)}"
    if series.flat:
        growth = f"; the {series.label} stays the same where scaling is perfect"
    caption = (
        f"{quantity[:1].upper()}{quantity[1:]}; the fastest layout at each count. {spread}{growth}."
    )
    return Figure(name, caption, drawing)


def _gain(reference: float, value: float, direction: str) -> float:
    return reference / value if direction == "lower" else value / reference


def _ideal(base: int, last: float, *, strong: bool) -> Curve:
    return Curve("ideal", "ideal", (float(base), last), (1.0, last / base if strong else 1.0))


def _law(fit: Fit, role: str, base: int, last: float) -> Curve:
    """A fitted law between the first and the last point; Amdahl's is the universal law without
    kappa.
    """
    sigma = fit.parameters["sigma"][0]
    kappa = fit.parameters.get("kappa", (0.0, 0.0))[0]
    ratios = [(last / base) ** (step / _SAMPLES) for step in range(_SAMPLES + 1)]
    speedups = [ratio / (1 + sigma * (ratio - 1) + kappa * ratio * (ratio - 1)) for ratio in ratios]
    label = "Amdahl fit" if role == "amdahl" else "universal scalability (USL) fit"
    return Curve(label, role, tuple(base * ratio for ratio in ratios), tuple(speedups))
