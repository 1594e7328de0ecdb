"""Floating-point rates under the roof of the memory bandwidth that was measured beside them."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from .. import units
from ..figures.frames import plain
from ..render.html import Figure, Part
from ..render.plots.curves import draw_roofline
from ..render.plots.data import Point, RooflinePlot
from ..sheets.sheet import Column, Columns, Sheet
from ..units import measure, plural, scaled

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from numpy.typing import NDArray
    from trueup_node.cases import Case

    from ..figures.sizes import Sizes

_TRIAD: Final = "triad_rate"
_RATE: Final = "flop_rate"
_INTENSITY: Final = "operational_intensity"


def roofline_parts(
    benchmark_cases: Sequence[Case], ok: Sequence[Case], sizes: Sizes, figures: pd.DataFrame
) -> list[Part]:
    """A part for each kind of machine whose cases hold a rate and its operational intensity.

    Args:
        benchmark_cases: one benchmark's cases.
        ok: all cases with outcome ok: the roof is the highest triad that any of them measured.
        figures: the figures of all records.
    """
    held = plain(figures, metric=_RATE) * plain(figures, metric=_INTENSITY)
    holding = set(held.index[held.fillna(0) != 0])
    rates: dict[str, list[Case]] = {}
    for case in benchmark_cases:
        # The rate of a node is unknown where their number is.
        if case.record in holding and case.node_count is not None:
            rates.setdefault(case.machine, []).append(case)
    if not rates:
        return []
    roofs = _bandwidths(ok, figures)
    return [
        _roofline_part(_where(cases), cases, roofs.get(kind), sizes, figures, f"roofline-{number}")
        for number, (kind, cases) in enumerate(rates.items(), 1)
    ]


def _where(cases: Sequence[Case]) -> str:
    """The node that all of the cases ran on, else their number and kind."""
    nodes = {node for case in cases for node in case.nodes}
    return min(nodes) if len(nodes) == 1 else f"{len(nodes):,} nodes of {cases[0].machine}"


def _bandwidths(ok: Sequence[Case], figures: pd.DataFrame) -> dict[str, float]:
    """The highest measured triad of each kind of machine."""
    triads = plain(figures, metric=_TRIAD).to_dict()
    by_machine: dict[str, float] = {}
    for case in ok:
        if (rate := triads.get(case.record)) is not None:
            by_machine[case.machine] = max(rate, by_machine.get(case.machine, rate))
    return by_machine


def _roofline_part(
    where: str,
    cases: Sequence[Case],
    bandwidth: float | None,
    sizes: Sizes,
    figures: pd.DataFrame,
    name: str,
) -> Part:
    peak = sizes.figure(cases[0].vm_size, "peak_fp64_gflops")
    peak = None if peak is None else peak * 1e9
    rates = _per_node(cases, figures)
    order = np.argsort(-rates, kind="stable").tolist()
    ranked = [cases[index] for index in order]
    intensities = _of(ranked, figures, _INTENSITY)
    roofs = [
        None if bandwidth is None else min(bandwidth * intensity, peak or math.inf)
        for intensity in intensities.tolist()
    ]
    rows = Columns(
        {
            "case": [case.case for case in ranked],
            "layout": _layouts(ranked),
            "operational_intensity": intensities.tolist(),
            "flop_per_second_and_node": rates[order].tolist(),
            "roof": roofs,
            "roofline_fraction": _of(ranked, figures, "roofline_fraction").tolist(),
            "mark": ["best", *[""] * (len(ranked) - 1)],
        }
    )
    notes = []
    if not peak:
        notes.append(
            "The machine's peak floating-point rate is unknown, so only memory bounds the roof."
        )
    drawn: tuple[Figure, ...] = ()
    if bandwidth is None:
        notes.append(
            "No memory bandwidth was measured on this machine, so there is no roof to draw."
        )
    else:
        points = _points(ranked, intensities, figures)
        drawn = (_roofline_figure(where, points, bandwidth, peak, name),)
    flops = partial(measure, unit="flop/s")
    listing = Sheet(
        title="Highest rate first",
        columns=[
            Column("case"),
            Column("layout", "layout", words=True),
            Column("operational_intensity", "intensity\nflop/byte", measure),
            Column("flop_per_second_and_node", "per node\nGFLOP/s", flops),
            Column("roof", "roof there\nGFLOP/s", flops),
            Column("roofline_fraction", "recorded\nof roof", partial(units.percent, digits=1)),
        ],
        rows=rows,
        marks="mark",
        name=name,
    )
    return Part(title=f"Roofline, {where}", figures=drawn, beside=(listing,), notes=notes)


def _layouts(cases: Sequence[Case]) -> list[str]:
    """The layout of each, of which sweeps repeat most."""
    # Equal parameters of records are one object.
    keys = [(case.ranks, case.threads, id(case.parameters)) for case in cases]
    layouts = {key: case.layout for key, case in dict(zip(keys, cases, strict=True)).items()}
    return [layouts[key] for key in keys]


def _of(
    cases: Sequence[Case], figures: pd.DataFrame, metric: str, statistic: str = ""
) -> NDArray[np.float64]:
    """A figure of each case, NaN where it has none."""
    values = plain(figures, metric=metric, statistic=statistic)
    return values.reindex([case.record for case in cases]).to_numpy()


def _per_node(
    cases: Sequence[Case], figures: pd.DataFrame, statistic: str = ""
) -> NDArray[np.float64]:
    nodes = np.array([case.node_count for case in cases], np.float64)
    return _of(cases, figures, _RATE, statistic) / nodes


def _points(
    cases: Sequence[Case], intensities: NDArray[np.float64], figures: pd.DataFrame
) -> list[Point]:
    """Where a spread is not recorded, the point stands alone."""
    middle = _per_node(cases, figures)
    ends = [
        np.where(np.nan_to_num(end) == 0, middle, end)
        for end in (_per_node(cases, figures, statistic) for statistic in ("min", "max"))
    ]
    rates = ([scaled(rate, "flop/s") for rate in numbers.tolist()] for numbers in (middle, *ends))
    return [Point(*point) for point in zip(intensities.tolist(), *rates, strict=True)]


def _roofline_figure(
    where: str, points: Sequence[Point], bandwidth: float, peak: float | None, name: str
) -> Figure:
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
