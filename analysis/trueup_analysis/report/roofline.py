"""The report's roofline and memory bandwidth sections."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trueup.errors import BadInput

from ..render.html import UNKNOWN, Column, Figure, Part, Row, Section, Table
from ..render.plots import Point, RooflinePlot, draw_roofline
from ..render.units import count, measure, number, percent_figure, plural, scaled, span
from .cases import problem
from .cells import layout_text, ratio, where

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .cases import Case

__all__ = ["Size", "bandwidth_section", "read_sizes", "roofline_section"]

# Rows of a table that has one for each record; its CSV file has them all.
_ROWS_SHOWN: Final = 200


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
        _roofline_part(where(cases), cases, roofs.get(kind), sizes, f"roofline-{number}")
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
                    layout_text(case.short_layout),
                    measure(intensity),
                    measure(_per_node(case, "flop_rate"), "flop/s"),
                    measure(limit, "flop/s"),
                    percent_figure(case.median("roofline_fraction")),
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
        share = ratio(triad.median, size.bandwidth)
        array = number(case.parameters.get("array_bytes"))
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
                    *((percent_figure(share),) if nominal else ()),
                ),
                mark="best" if triad.median == fastest else "",
            )
        )
    caption = "Memory bandwidth by threads: medians, and the spread of the triad."
    listing = Table("bandwidth", caption, columns, tuple(rows), shown=_ROWS_SHOWN)
    return Section("bandwidth", "Memory bandwidth", (Part(tables=(listing,)),))
