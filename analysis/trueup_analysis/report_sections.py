"""The report's analysed sections: scaling, layouts, roofline, bandwidth, cost, published results.

Each function takes data in base units and returns a ``Section``, or None if it would be empty.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from trueup.errors import BadInput

from .load import load
from .reference import compare, sums
from .render.html import Column, Figure, Part, Row, Section, Table
from .render.plots import (
    Curve,
    LayoutPlot,
    Point,
    RooflinePlot,
    ScalingPlot,
    draw_layouts,
    draw_roofline,
    draw_scaling,
)
from .render.printed import UNKNOWN, count, measure, money, percent, plural, scaled, seconds, span
from .render.units import is_missing
from .report_cases import Figures, problem

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pandas as pd

    from .cost import CostTable
    from .load import Loaded
    from .reference import Comparison, Sums
    from .report_cases import Case
    from .scaling import Fit, Series

__all__ = [
    "Size",
    "bandwidth_section",
    "cost_section",
    "layouts_section",
    "read_sizes",
    "reference_section",
    "roofline_section",
    "scaling_section",
]

# Rows that a plot of layouts can hold before its labels shrink; the table below it has them all.
_LAYOUTS_SHOWN: Final = 12
# Rows of a table that has one for each record; its CSV file has them all.
_ROWS_SHOWN: Final = 200
_SAMPLES: Final = 40
_FIGURE_TITLES: Final = {"run_time": "Run time", "triad_rate": "Triad"}
_UNIT_NAMES: Final = {"s": "s", "byte/s": "GB/s"}


@dataclass(frozen=True)
class Size:
    """What the catalog says of an Azure size: nominal memory bandwidth in byte/s and peak in
    flop/s, None if unknown.
    """

    bandwidth: float | None
    peak: float | None


def read_sizes(path: Path) -> dict[str, Size]:
    """catalog/vm_sizes.csv, by size.

    Raises:
        BadInput: the file cannot be read, or a figure in it is no number.
    """
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            return {
                row["size"]: Size(
                    bandwidth=_giga(row["memory_bandwidth_gbps"]),
                    peak=_giga(row["peak_fp64_gflops"]),
                )
                for row in csv.DictReader(stream)
            }
    except (OSError, UnicodeDecodeError, csv.Error, KeyError, ValueError) as error:
        message = f"{path} is not a readable table of VM sizes: {error}"
        raise BadInput(message) from error


def _giga(text: str) -> float | None:
    return float(text) * 1e9 if text else None


# --- scaling --------------------------------------------------------------------------------------


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
    title, unit = _FIGURE_TITLES[one.metric], _UNIT_NAMES[one.unit]
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
    if one.metric == "run_time":
        columns += [
            Column("GFLOP/s", kind="number"),
            Column("GPts/s", kind="number"),
            Column("Roofline", "%", "number"),
        ]
    if several:
        columns.append(Column("Fastest here"))
    cells = []
    for row in rows:
        cell = [
            count(row["resource"]),
            *((count(row["cores"]),) if one.over == "nodes" else ()),
            _layout_text(row["layout"]),
            count(row["n"]),
            measure(row["median"], one.unit),
            span(row["min"], row["max"], one.unit),
            f"{row['speedup']:.2f}",
            percent(row["efficiency"]),
        ]
        if one.kind == "strong":
            cell.append(
                "baseline" if row["resource"] == one.baseline else f"{row['serial_fraction']:.3f}"
            )
        if one.metric == "run_time":
            cell += [
                measure(row["flop_rate"], "flop/s"),
                measure(row["point_rate"], "point/s"),
                percent(row["roofline_fraction"]),
            ]
        if several:
            cell.append("yes" if row["best"] else "no")
        cells.append(Row(tuple(cell), mark="best" if row["speedup"] == fastest else ""))
    base = plural(one.baseline, one.over[:-1])
    caption = f"{one.kind.capitalize()} scaling over {one.over}, baseline {base}."
    if several:
        caption += f" The fastest layout stands for its count of {one.over}."
    return Table(name, caption, tuple(columns), tuple(cells))


def _layout_text(layout: Any) -> str:
    text = str(layout)
    return text.replace("x", " × ", 1) if text else UNKNOWN


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


# --- layouts --------------------------------------------------------------------------------------


def layouts_section(ok: Sequence[Case]) -> Section | None:
    """Which layout was fastest, for each problem that one kind of machine ran with several."""
    groups: dict[tuple[str, str, int], list[Case]] = {}
    for case in ok:
        if case.measured and case.benchmark == "devito" and case.median("run_time"):
            key = (problem(case), case.machine.kind, case.node_count or 1)
            groups.setdefault(key, []).append(case)
    parts = [
        _layouts_part(what, _where(cases), cases, f"layouts-{number}")
        for number, ((what, _, _), cases) in enumerate(
            (
                (key, cases)
                for key, cases in groups.items()
                if len({case.layout for case in cases}) > 1
            ),
            1,
        )
    ]
    return Section("layouts", "Layouts compared", tuple(parts)) if parts else None


def _where(cases: Sequence[Case]) -> str:
    """The node that all of the cases ran on, else their number and kind."""
    nodes = {node for case in cases for node in case.machine.nodes.split("+")}
    return min(nodes) if len(nodes) == 1 else f"{len(nodes):,} nodes of {cases[0].machine.kind}"


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
    behind = _ratio(next_best.median, best.median) - 1
    sentence = (
        f"Fastest: {first}, {seconds(best.median)} s; the next, {second}, takes {percent(behind)} %"
        " longer."
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
                "fastest" if time is best else percent(_ratio(time.median, best.median) - 1),
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


def _ratio(value: float | None, reference: float | None) -> float:
    return value / reference if value and reference else math.nan


def _point(figures: Figures, label: str) -> Point:
    middle = figures.median or 0.0
    low = middle if figures.low is None else figures.low
    high = middle if figures.high is None else figures.high
    return Point(middle, 0.0, low, high, label)


# --- roofline -------------------------------------------------------------------------------------


def roofline_section(ok: Sequence[Case], sizes: dict[str, Size]) -> Section | None:
    """Floating-point rates under the roof of the memory bandwidth that was measured on the same
    kind of machine.
    """
    rates: dict[str, list[Case]] = {}
    for case in ok:
        if case.median("flop_rate") and case.median("operational_intensity"):
            rates.setdefault(case.machine.kind, []).append(case)
    roofs = _bandwidths(ok)
    parts = [
        _roofline_part(_where(cases), cases, roofs.get(kind), sizes, f"roofline-{number}")
        for number, (kind, cases) in enumerate(rates.items(), 1)
    ]
    return Section("roofline", "Roofline", tuple(parts)) if parts else None


def _bandwidths(ok: Sequence[Case]) -> dict[str, Case]:
    """The case with the highest measured triad for each kind of machine."""
    found: dict[str, Case] = {}
    for case in ok:
        rate = case.median("triad_rate")
        if rate is not None and rate > (
            found[case.machine.kind].median("triad_rate") or 0 if case.machine.kind in found else 0
        ):
            found[case.machine.kind] = case
    return found


def _roofline_part(
    where: str, cases: Sequence[Case], roof: Case | None, sizes: dict[str, Size], name: str
) -> Part:
    size = sizes.get(cases[0].machine.vm_size or "", Size(None, None))
    bandwidth = None if roof is None else roof.median("triad_rate")
    ranked = sorted(cases, key=lambda case: -(_per_node(case, "flop_rate") or 0.0))
    several = len({problem(case) for case in cases}) > 1
    columns = (
        *((Column("Problem", kind="text"),) if several else ()),
        Column("Layout"),
        Column("Intensity", "flop/byte", "number"),
        Column("Per node", "GFLOP/s", "number"),
        Column("Roof there", "GFLOP/s", "number"),
        Column("Recorded", "% of roof", "number"),
    )
    rows = []
    for case in ranked:
        intensity = case.median("operational_intensity") or 0.0
        limit = None if bandwidth is None else min(bandwidth * intensity, size.peak or math.inf)
        rows.append(
            Row(
                (
                    *((problem(case),) if several else ()),
                    _layout_text(case.short_layout),
                    measure(intensity),
                    measure(_per_node(case, "flop_rate"), "flop/s"),
                    measure(limit, "flop/s"),
                    percent(case.median("roofline_fraction")),
                ),
                mark="best" if case is ranked[0] else "",
            )
        )
    notes = (
        []
        if size.peak
        else ["The machine's peak floating-point rate is unknown, so only memory bounds the roof."]
    )
    figures: tuple[Figure, ...] = ()
    if bandwidth is None:
        notes.append(
            "No memory bandwidth was measured on this machine, so there is no roof to draw."
        )
    else:
        figures = (_roofline_figure(where, ranked, bandwidth, size.peak, name),)
    listing = Table(
        name,
        "Highest rate first; layouts are ranks × threads, bound by.",
        columns,
        tuple(rows),
        shown=_ROWS_SHOWN,
    )
    return Part(
        title=where,
        figures=figures,
        beside=() if several else (listing,),
        tables=(listing,) if several else (),
        notes=tuple(notes),
    )


def _per_node(case: Case, metric: str) -> float | None:
    value = case.median(metric)
    return None if value is None else value / (case.node_count or 1)


def _roofline_figure(
    where: str, cases: Sequence[Case], bandwidth: float, peak: float | None, name: str
) -> Figure:
    points = []
    for case in cases:
        rate, nodes = case.figures["flop_rate"], case.node_count or 1
        low, high = (rate.median if end is None else end for end in (rate.low, rate.high))
        middle, least, most = (
            scaled((value or 0.0) / nodes, "flop/s") for value in (rate.median, low, high)
        )
        points.append(Point(case.median("operational_intensity") or 0.0, middle, least, most))
    plot = RooflinePlot(
        bandwidth=scaled(bandwidth, "byte/s"),
        bandwidth_label=f"memory roof: measured triad, {measure(bandwidth, 'byte/s')} GB/s",
        peak=None if peak is None else scaled(peak, "flop/s"),
        peak_label=""
        if peak is None
        else f"peak of the size, nominal, {scaled(peak, 'flop/s'):,.0f} GFLOP/s",
        points=tuple(points),
    )
    best = points[0]
    drawing = draw_roofline(
        plot,
        name=name,
        description=f"Roofline plot of {where}: {plot.bandwidth_label};"
        f" {plural(len(points), 'point')}, the highest"
        f" {best.y:.4g} GFLOP/s at {best.x:.3g} flop/byte.",
    )
    return Figure(
        name,
        "Floating-point rate per node over operational intensity; both axes logarithmic.",
        drawing,
    )


# --- memory bandwidth -----------------------------------------------------------------------------


def bandwidth_section(ok: Sequence[Case], sizes: dict[str, Size]) -> Section | None:
    """The measured memory bandwidths, with the size's nominal one where the catalog has it."""
    cases = [case for case in ok if "triad_rate" in case.figures]
    if not cases:
        return None
    nominal = any(
        sizes.get(case.machine.vm_size or "", Size(None, None)).bandwidth for case in cases
    )
    fastest = max(case.median("triad_rate") or 0.0 for case in cases)
    columns = (
        Column("Node"),
        Column("Threads", kind="number"),
        Column("Binding"),
        Column("Array", "MiB", "number"),
        Column("n", kind="number"),
        Column("Triad", "GB/s", "number"),
        Column("Triad, min to max", "GB/s", "number"),
        Column("Add", "GB/s", "number"),
        Column("Scale", "GB/s", "number"),
        Column("Copy", "GB/s", "number"),
        *((Column("Of nominal", "%", "number"),) if nominal else ()),
    )
    rows = []
    for case in cases:
        triad = case.figures["triad_rate"]
        size = sizes.get(case.machine.vm_size or "", Size(None, None))
        share = _ratio(triad.median, size.bandwidth)
        array = case.parameters.get("array_bytes")
        rows.append(
            Row(
                (
                    case.machine.nodes,
                    count(case.parameters.get("threads", case.cores)),
                    str(case.parameters.get("binding") or UNKNOWN),
                    f"{array / 1024**2:,.0f}" if array else UNKNOWN,
                    count(triad.n),
                    measure(triad.median, "byte/s"),
                    span(triad.low, triad.high, "byte/s"),
                    *(
                        measure(case.median(f"{kind}_rate"), "byte/s")
                        for kind in ("add", "scale", "copy")
                    ),
                    *((percent(share),) if nominal else ()),
                ),
                mark="best" if triad.median == fastest else "",
            )
        )
    caption = "Memory bandwidth by threads: medians, and the spread of the triad."
    listing = Table("bandwidth", caption, columns, tuple(rows), shown=_ROWS_SHOWN)
    return Section("bandwidth", "Memory bandwidth", (Part(tables=(listing,)),))


# --- cost -----------------------------------------------------------------------------------------


def cost_section(billed: CostTable | None) -> Section | None:
    """What each run costs, and each sweep; a price that is not known is shown as unknown."""
    if billed is None:
        return None
    columns = (
        Column("Case"),
        Column("Billed as"),
        Column("Region"),
        Column("Offer"),
        Column("Nodes", kind="number"),
        Column("Run time", "s", "number"),
        Column("Node-hours", kind="number"),
        Column("Node-hour", "US$", "number"),
        Column("Run", "US$", "number"),
        Column("10⁶ GFLOP", "US$", "number"),
        Column("10⁶ GPts", "US$", "number"),
        Column("Price of"),
        Column("Price source"),
    )
    rows = [
        Row(
            (
                _words(row["case"]),
                _words(row["vm_size"], "not an Azure size"),
                _words(row["region"]),
                _words(row["offer"]),
                count(row["node_count"]),
                seconds(row["run_seconds"]),
                measure(row["node_hours"]),
                money(row["usd_per_hour"]),
                money(row["usd_per_run"]),
                money(row["usd_per_gflop"], 1e6),
                money(row["usd_per_gpt"], 1e6),
                _words(row["price_date"]),
                _words(row["price_source"]),
            )
        )
        for row in billed.table.to_dict("records")
    ]
    listing = Table(
        "cost",
        "Cost of one run of each case, in US$ (currency: USD).",
        columns,
        tuple(rows),
        shown=_ROWS_SHOWN,
    )
    totals = (
        Column("Sweep"),
        Column("Billed as"),
        Column("Runs", kind="number"),
        Column("Sum of run times", "h", "number"),
        Column("Node-hours", kind="number"),
        Column("Cost", "US$", "number"),
        Column("Node-hours / run times", kind="number"),
    )
    sweeps = [
        Row(
            (
                _words(row["configuration"]),
                _words(row["vm_size"], "not an Azure size"),
                count(row["runs"]),
                measure(row["sum_run_hours"]),
                measure(row["node_hours"]),
                money(row["usd"]),
                f"{row['underbilled']:.2f}",
            )
        )
        for row in billed.totals.to_dict("records")
    ]
    caption = "Each sweep as a whole. What is billed are node-hours, not the sum of run times."
    return Section(
        "cost",
        "Cost",
        (Part(tables=(listing, Table("cost-sweeps", caption, totals, tuple(sweeps)))),),
    )


# --- published results ----------------------------------------------------------------------------


def reference_section(loaded: Loaded, path: Path) -> Section | None:
    """Each published table of the benchmark that was run, this run beside it; ``path`` is
    reference_results.csv.
    """
    cases = loaded.cases
    ours = cases[(cases["provenance"] == "measured") & (cases["benchmark"] == "devito")]
    ours = ours[ours["outcome"] == "ok"]
    if ours.empty:
        return None
    mine = replace(
        loaded, cases=ours, metrics=loaded.metrics[loaded.metrics["record"].isin(ours["record"])]
    )
    published = load([path])
    parts = [
        _comparison_part(one, f"reference-{number}")
        for number, one in enumerate(compare(published, mine), 1)
    ]
    return Section(
        "reference", "Published results beside this run", (*parts, _sums_part(sums(published)))
    )


def _comparison_part(one: Comparison, name: str) -> Part:
    rows = one.table.to_dict("records")
    beside = any(_number(row["mine_seconds"]) is not None for row in rows)
    columns = [
        Column("Cores", kind="number"),
        Column("Nodes", kind="number"),
        Column("Published size"),
        Column("Published time", "s", "number"),
        Column("Published rate", "GFLOP/s", "number"),
        Column("Speed-up as printed", kind="number"),
        Column("Speed-up recomputed", kind="number"),
        Column("Published efficiency", "%", "number"),
    ]
    if beside:
        columns += [
            Column("This run's layout"),
            Column("This run's time", "s", "number"),
            Column("This run's rate", "GFLOP/s", "number"),
            Column("This run's speed-up", kind="number"),
            Column("This run's efficiency", "%", "number"),
        ]
    cells = []
    for row in rows:
        printed = _number(row["published_seconds"]) is not None
        cell = [count(row["cores"]), count(row["nodes"])]
        cell += (
            [
                _words(row["vm_size"]),
                seconds(_number(row["published_seconds"])),
                measure(_number(row["published_flop_per_second"]), "flop/s"),
                _two(row["published_speedup"]),
                _two(row["speedup"]),
                percent(_number(row["efficiency"])),
            ]
            if printed
            else ["not published", *[""] * 5]
        )
        if beside:
            cell += (
                [
                    _layout_text(row["mine_layout"]),
                    seconds(_number(row["mine_seconds"])),
                    measure(_number(row["mine_flop_per_second"]), "flop/s"),
                    _two(row["mine_speedup"]),
                    percent(_number(row["mine_efficiency"])),
                ]
                if _number(row["mine_seconds"]) is not None
                else ["not run", *[""] * 4]
            )
        cells.append(Row(tuple(cell)))
    caption = "Published figures" + (
        " and this run, by resource." if beside else "; this run has no such series."
    )
    listing = Table(name, caption, tuple(columns), tuple(cells))
    return Part(title=one.title, tables=(listing,), notes=tuple(one.notes))


def _sums_part(found: Sums) -> Part:
    columns = (
        Column("Published sweep"),
        Column("Published", "h", "number"),
        Column("Sum of run times", "h", "number"),
        Column("Node-hours", kind="number"),
        Column("Node-hours / run times", kind="number"),
    )
    rows = tuple(
        Row(
            (
                _words(row["configuration"]),
                measure(_number(row["published_hours"])),
                measure(_number(row["sum_run_hours"])),
                measure(_number(row["node_hours"])),
                _two(row["underbilled"]),
            )
        )
        for row in found.table.to_dict("records")
    )
    listing = Table(
        "reference-hours", "The published hours, and what would be billed.", columns, rows
    )
    return Part(title=found.title, tables=(listing,), notes=tuple(found.notes))


def _number(value: Any) -> float | None:
    """A frame's number, None where it is missing."""
    return None if is_missing(value) else float(value)


def _two(value: Any) -> str:
    return UNKNOWN if is_missing(value) else f"{float(value):.2f}"


def _words(value: Any, missing: str = UNKNOWN) -> str:
    """Text of a frame's cell; what is missing or empty becomes ``missing``."""
    return value if isinstance(value, str) and value else missing
