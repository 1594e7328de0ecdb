"""The report's scaling section: plot, table and fits of every series."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Final

from ..render.html import Column, Figure, Part, Row, Section, Table
from ..render.plots import Curve, Point, ScalingPlot, draw_scaling
from ..render.units import DISPLAYED, count, fixed, measure, percent_figure, plural, span
from .cells import layout_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pandas as pd

    from ..fits import Fit
    from ..scaling import Series

__all__ = ["scaling_section"]

_SAMPLES: Final = 40
_FIGURE_TITLES: Final = {"run_time": "Run time", "triad_rate": "Triad"}


def scaling_section(found: Sequence[Series]) -> Section | None:
    """Every scaling series: plot, table, fits, and where adding resources stops paying."""
    parts = [
        _series_part(one, f"scaling-{number}-{one.benchmark}-{one.kind}")
        for number, one in enumerate(found, 1)
    ]
    return Section("scaling", "Scaling", tuple(parts)) if parts else None


def _series_part(one: Series, name: str) -> Part:
    word = (
        "Strong scaling, the same work"
        if one.kind == "strong"
        else "Weak scaling, equal work per core"
    )
    best = one.table[one.table["best"]]
    figures = (_scaling_figure(one, best, name),) if len(best) > 1 else ()
    fits = [fit for fit in (one.amdahl, one.usl) if fit is not None]
    beside = (_fit_table(fits, one, name),) if fits else ()
    origin = (
        [] if one.provenance == "measured" else [f"Published, not measured here: {one.provenance}."]
    )
    pays = one.stops_paying
    return Part(
        title=f"{word}: {one.title}",
        paragraphs=(pays,) if pays else (),
        warnings=tuple(one.warnings),
        figures=figures,
        beside=beside,
        tables=(_scaling_table(one, name),),
        notes=(*origin, *one.notes),
    )


def _scaling_figure(one: Series, best: pd.DataFrame, name: str) -> Figure:
    strong = one.kind == "strong"
    base = best[best["baseline"]].iloc[0]
    reference = float(base["median"])
    points = []
    for row in best.to_dict("records"):
        value = float(row["speedup" if strong else "efficiency"])
        ends = [_gain(reference, float(row[key]), one.direction) for key in ("min", "max")]
        # A publication that states no spread gives NaN here: then the point stands alone.
        known = [end for end in ends if not math.isnan(end)] or [value]
        points.append(Point(float(row["resource"]), value, min(known), max(known)))
    last = max(point.x for point in points)
    curves = [_ideal(one.baseline, last, strong=strong)]
    if one.amdahl:
        curves.append(_law(one.amdahl, "amdahl", one.baseline, last))
    if one.usl:
        curves.append(_law(one.usl, "usl", one.baseline, last))
    what = (
        f"speed-up over {plural(one.baseline, one.over[:-1])}"
        if strong
        else "parallel efficiency, 1 = ideal"
    )
    drawing = draw_scaling(
        ScalingPlot(
            x_label=one.over,
            y_label=what,
            points=tuple(points),
            curves=tuple(curves),
            measured=one.provenance == "measured",
        ),
        name=name,
        description=f"Plot of the {what}: "
        + "; ".join(f"{p.x:.0f} {one.over} {p.y:.2f}" for p in points)
        + ".",
    )
    spread = "Bars reach from the least to the greatest of the repeats"
    if one.provenance != "measured":
        spread = "The publication states no spread"
    growth = "" if strong else "; the work grows with the cores"
    caption = f"{what[:1].upper()}{what[1:]}; the fastest layout at each count. {spread}{growth}."
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


def _scaling_table(one: Series, name: str) -> Table:
    """One row a layout and count; the columns that no row can fill are left out."""
    title = _FIGURE_TITLES.get(one.metric, one.metric.replace("_", " ").capitalize())
    unit = DISPLAYED.get(one.unit, one.unit)
    rows = one.table.to_dict("records")
    fastest = max(row["speedup"] for row in rows)
    several = not one.table["best"].all()
    columns = [
        Column(one.over[:-1].capitalize() + "s", kind="number"),
        *((Column("Cores", kind="number"),) if one.over == "nodes" else ()),
        Column("Layout"),
        Column("n", kind="number"),
        Column(title, f"median, {unit}", "number"),
        Column("Min to max", unit, "number"),
        Column("Speed-up", kind="number"),
        Column("Efficiency", "%", "number"),
    ]
    if one.kind == "strong":
        columns.append(Column("Serial fraction", kind="number"))
    rates: list[tuple[str, Callable[..., str]]] = []
    if one.metric == "run_time":
        rates += [
            ("flop_rate", partial(measure, unit="flop/s")),
            ("point_rate", partial(measure, unit="point/s")),
            ("roofline_fraction", percent_figure),
        ]
        columns += [
            Column("GFLOP/s", kind="number"),
            Column("GPts/s", kind="number"),
            Column("Roofline", "%", "number"),
        ]
    if one.table["halo_share"].notna().any():
        columns.append(Column("Halo exchange", "% of the time", "number"))
        rates.append(("halo_share", percent_figure))
    if several:
        columns.append(Column("Fastest here"))
    cells = []
    for row in rows:
        cell = [
            count(row["resource"]),
            *((count(row["cores"]),) if one.over == "nodes" else ()),
            layout_text(row["layout"]),
            count(row["n"]),
            measure(row["median"], one.unit),
            span(row["min"], row["max"], one.unit),
            fixed(row["speedup"], 2),
            percent_figure(row["efficiency"]),
        ]
        if one.kind == "strong":
            cell.append(
                "baseline" if row["resource"] == one.baseline else f"{row['serial_fraction']:.3f}"
            )
        cell += [text(row[name]) for name, text in rates]
        if several:
            cell.append("yes" if row["best"] else "no")
        cells.append(Row(tuple(cell), mark="best" if row["speedup"] == fastest else ""))
    base = plural(one.baseline, one.over[:-1])
    caption = f"{one.kind.capitalize()} scaling over {one.over}, baseline {base}."
    if several:
        caption += f" The fastest layout stands for its count of {one.over}."
    return Table(name, caption, tuple(columns), tuple(cells))


def _fit_table(fits: Sequence[Fit], one: Series, name: str) -> Table:
    columns = (
        Column("Fitted law"),
        Column("σ", "contention", "number"),
        Column("κ", "coherency", "number"),
        Column("RMS error", kind="number"),
        Column("Fastest at", one.over, "number"),
    )
    rows = [
        Row(
            (
                "Amdahl" if fit.law == "Amdahl" else "USL",
                _parameter(fit, "sigma"),
                _parameter(fit, "kappa") if "kappa" in fit.parameters else "none",
                f"{fit.residual:.3g}",
                "no maximum" if fit.peak is None else f"{fit.peak:.0f}",
            )
        )
        for fit in fits
    ]
    return Table(
        f"{name}-fits",
        f"Laws fitted to the speed-ups at {fits[0].points} counts of {one.over}, ± standard error.",
        columns,
        tuple(rows),
    )


def _parameter(fit: Fit, name: str) -> str:
    value, error = fit.parameters[name]
    return f"{value:.3g} (on its bound)" if math.isnan(error) else f"{value:.3g} ± {error:.2g}"
