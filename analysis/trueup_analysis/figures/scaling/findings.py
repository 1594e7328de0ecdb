"""Sentences on a series: warnings, notes, and where adding resources stops paying."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ... import units
from .split import Raw, axis

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

# GFLOP/s x time varied by 0.12 % over the 13 rows of the Devito article; more than this is another
# problem size.
WORK_TOLERANCE = 0.005
# More speed than the resources allow by this much is no rounding.
SUPERLINEAR = 1.01
_MOST_DECIMALS = 12
_NAMED = 4


@dataclass(slots=True)
class Row:
    """One layout at one resource, in base units; None where no record says it.

    Attributes:
        variant: settings of these records that others of the same work have otherwise.
        n: repeats of all records. records: how many are pooled.
        best: whether it counts at its resource. baseline: whether speed-ups refer to it.
        efficiency: 1 is ideal. serial_fraction: Karp-Flatt; None at the baseline and in weak
            series.
        work: flop, flop_rate x time.
    """

    resource: int
    cores: int | None
    node_count: int
    vm_size: str | None
    layout: str
    variant: str
    gpus: int | None
    n: float | None
    records: int
    median: float
    min: float | None
    max: float | None
    flop_rate: float | None
    point_rate: float | None
    roofline_fraction: float | None
    halo_share: float | None
    published_speedup: float | None
    work: float | None
    best: bool = False
    baseline: bool = False
    speedup: float = math.nan
    efficiency: float = math.nan
    serial_fraction: float | None = None


def warnings(points: Sequence[Row], raw: Raw, base: int) -> list[str]:
    return _other_work(points, raw) + _superlinear(points, raw, base)


def _superlinear(points: Sequence[Row], raw: Raw, base: int) -> list[str]:
    """A warning where more resources brought more than their share. Fewer than the baseline's are
    rightly above 1.
    """
    baseline = next(point for point in points if point.resource == base)
    above = [
        f"{point.efficiency:.3f} at {point.resource} {axis(raw.over, point.resource)}"
        + (f" ({point.layout}; baseline {baseline.layout})" if point.layout else "")
        for point in points
        if point.resource > base and point.efficiency > SUPERLINEAR
    ]
    if not above:
        return []
    if raw.flat:
        return [
            (
                f"Better than perfect: an efficiency of {', '.join(above)}. That is noise, or a"
                f" baseline whose {raw.measure.label} is worse than it could be; measure the"
                " baseline again before counting on it."
            )
        ]
    return [
        (
            f"Super-linear: a parallel efficiency of {', '.join(above)}. That is noise, caches that"
            " hold more of the work, or a layout that the baseline did not use; measure the"
            " baseline again before counting on it."
        )
    ]


def _other_work(points: Sequence[Row], raw: Raw) -> list[str]:
    strong = raw.kind == "strong"
    work = {
        point.resource: point.work if strong else point.work / point.cores
        for point in points
        if point.work is not None and point.cores is not None
    }
    if len(work) < 2:
        return []
    typical = statistics.median(work.values())
    off = [
        f"{resource} {axis(raw.over)} ({units.percent(value / typical - 1, 2)})"
        for resource, value in work.items()
        if abs(value / typical - 1) > WORK_TOLERANCE
    ]
    if not off:
        return []
    quantity = "GFLOP/s x time" if strong else "GFLOP/s x time / cores"
    warning = (
        f"Not the same work: {quantity} differs from the series' median by more than"
        f" {units.percent(WORK_TOLERANCE, 1)} at {', '.join(off)}; speed-ups of these rows compare"
        " different problems."
    )
    return [warning]


def settings(best: Sequence[Row], raw: Raw) -> list[str]:
    """The other differences between the rows that count."""
    values: dict[str, dict[str, list[int]]] = {}
    for row in best:
        for pair in filter(None, row.variant.split("; ")):
            name, _, value = pair.partition("=")
            values.setdefault(name, {}).setdefault(value, []).append(row.resource)
    differences = [
        f"{name} (" + "; ".join(f"{value} at {_counts(at, raw)}" for value, at in of.items()) + ")"
        for name, of in values.items()
        if len(of) > 1
    ]
    if not differences:
        return []
    more = [f"{len(differences) - _NAMED} more"] if len(differences) > _NAMED else []
    return [f"The rows that count also differ in {', '.join([*differences[:_NAMED], *more])}."]


def _counts(numbers: Sequence[int], raw: Raw) -> str:
    """ "1, 2 and 4 nodes"."""
    *most, last = map(str, numbers)
    text = f"{', '.join(most)} and {last}" if most else last
    return f"{text} {axis(raw.over, numbers[0] if len(numbers) == 1 else 2)}"


def not_reached(points: pd.DataFrame) -> list[str]:
    missed = sorted(points["judged_bytes"].dropna().unique())
    if not missed:
        return []
    sizes = " and ".join(map(units.size_of, missed))
    reached = units.size_of(int(points["message_bytes"].iloc[0]))
    return [f"The judged size is {sizes}; the largest measured size is {reached}."]


def stops_paying(points: Sequence[Row], raw: Raw, threshold: float) -> str | None:
    """Where a step first brings under ``threshold`` of the added resource, and where one slows."""
    over = axis(raw.over)
    steps = list(zip(points, points[1:], strict=False))
    sentences = []
    if raw.flat:
        return _falls(steps, raw, threshold)
    for before, after in steps:
        gained = (after.speedup / before.speedup - 1) / (after.resource / before.resource - 1)
        if gained < threshold:
            if gained >= 0:
                share, limit = _told_apart(gained, threshold)
                sentences.append(
                    f"Going from {before.resource} to {after.resource} {over} brings {share} of the"
                    f" added {over} as speed (under {limit})."
                )
            break
    for before, after in steps:
        if after.speedup < before.speedup:
            sentences.append(_slower(before, after, raw))
            break
    return " ".join(sentences) or None


def _falls(steps: Sequence[tuple[Row, Row]], raw: Raw, threshold: float) -> str | None:
    """The first step that brings under ``threshold`` of the added resource, since it loses too much
    of a figure that should stay.
    """
    for before, after in steps:
        gained = (after.speedup / before.speedup - 1) / (after.resource / before.resource - 1)
        if gained < threshold:
            first, then = (
                units.in_unit(point.median, raw.measure.shown) for point in (before, after)
            )
            change = "falls" if raw.measure.direction == "higher" else "rises"
            return (
                f"Going from {before.resource} to {after.resource} {axis(raw.over)},"
                f" {raw.measure.label} {change} from {first} to {then} {raw.measure.shown}."
            )
    return None


def _told_apart(share: float, threshold: float) -> tuple[str, str]:
    """Two percentages with as many decimals as it takes to tell them apart: not 50 % under 50 %."""
    for digits in range(_MOST_DECIMALS):
        written = units.percent(share, digits), units.percent(threshold, digits)
        if written[0] != written[1]:
            break
    return written[0], units.percent(threshold, 0 if threshold * 100 % 1 == 0 else digits)


def _slower(before: Row, after: Row, raw: Raw) -> str:
    unit = raw.measure.shown
    first, then = (units.in_unit(point.median, unit) for point in (before, after))
    least = [point.min for point in (before, after) if point.min is not None]
    most = [point.max for point in (before, after) if point.max is not None]
    has_spread = len(least) == len(most) == 2
    overlap = ", within the spread of the repeats" if has_spread and max(least) <= min(most) else ""
    return (
        f"It gets slower from {before.resource} to {after.resource} {axis(raw.over)}"
        f" ({first} {unit} to {then} {unit}{overlap})."
    )
