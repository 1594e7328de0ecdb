"""Floating-point rates under the roof of the memory bandwidth that was measured beside them."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Final

from .. import units
from ..render.html import Figure, Part
from ..render.plots.curves import draw_roofline
from ..render.plots.data import Point, RooflinePlot
from ..sheets.sheet import Column, Sheet
from ..units import measure, plural, scaled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trueup.cases import Case

    from ..figures.sizes import Sizes

_TRIAD: Final = "triad_rate"


def roofline_parts(found: Sequence[Case], ok: Sequence[Case], sizes: Sizes) -> list[Part]:
    """A part for each kind of machine whose cases hold a rate and its operational intensity.

    Args:
        found: one benchmark's cases.
        ok: all cases with outcome ok: the roof is the highest triad that any of them measured.
    """
    rates: dict[str, list[Case]] = {}
    for case in found:
        if case.plain("flop_rate") and case.plain("operational_intensity"):
            rates.setdefault(case.machine, []).append(case)
    roofs = _bandwidths(ok)
    return [
        _roofline_part(_where(cases), cases, roofs.get(kind), sizes, f"roofline-{number}")
        for number, (kind, cases) in enumerate(rates.items(), 1)
    ]


def _where(cases: Sequence[Case]) -> str:
    """The node that all of the cases ran on, else their number and kind."""
    nodes = {node for case in cases for node in case.nodes}
    return min(nodes) if len(nodes) == 1 else f"{len(nodes):,} nodes of {cases[0].machine}"


def _bandwidths(ok: Sequence[Case]) -> dict[str, Case]:
    """The case with the highest measured triad for each kind of machine."""
    found: dict[str, Case] = {}
    for case in ok:
        rate = case.plain(_TRIAD)
        known = found.get(case.machine)
        if rate is not None and (known is None or rate > (known.plain(_TRIAD) or 0.0)):
            found[case.machine] = case
    return found


def _roofline_part(
    where: str, cases: Sequence[Case], roof: Case | None, sizes: Sizes, name: str
) -> Part:
    peak = sizes.figure(cases[0].vm_size, "peak_fp64_gflops")
    peak = None if peak is None else peak * 1e9
    bandwidth = None if roof is None else roof.plain(_TRIAD)
    ranked = sorted(cases, key=lambda case: -(_per_node(case) or 0.0))
    rows = []
    for case in ranked:
        intensity = case.plain("operational_intensity") or 0.0
        rows.append(
            {
                "case": case.case,
                "layout": case.layout,
                "operational_intensity": intensity,
                "flop_per_second_and_node": _per_node(case),
                "roof": None if bandwidth is None else min(bandwidth * intensity, peak or math.inf),
                "roofline_fraction": case.plain("roofline_fraction"),
                "mark": "best" if case is ranked[0] else "",
            }
        )
    notes = []
    if not peak:
        notes.append(
            "The machine's peak floating-point rate is unknown, so only memory bounds the roof."
        )
    figures: tuple[Figure, ...] = ()
    if bandwidth is None:
        notes.append(
            "No memory bandwidth was measured on this machine, so there is no roof to draw."
        )
    else:
        figures = (_roofline_figure(where, ranked, bandwidth, peak, name),)
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
    return Part(title=f"Roofline, {where}", figures=figures, beside=(listing,), notes=notes)


def _per_node(case: Case, statistic: str = "") -> float | None:
    value = case.plain("flop_rate", statistic)
    return None if value is None else value / (case.node_count or 1)


def _roofline_figure(
    where: str, cases: Sequence[Case], bandwidth: float, peak: float | None, name: str
) -> Figure:
    points = []
    for case in cases:
        middle = _per_node(case) or 0.0
        ends = (_per_node(case, "min") or middle, _per_node(case, "max") or middle)
        least, most = (scaled(end, "flop/s") for end in ends)
        intensity = case.plain("operational_intensity") or 0.0
        points.append(Point(intensity, scaled(middle, "flop/s"), least, most))
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
