"""Data of each kind of plot, in the units that its axes name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple


@dataclass(frozen=True)
class Point:
    """One measured figure: its median with the least and the greatest measurement."""

    x: float
    y: float
    low: float
    high: float
    label: str = ""


class Value(NamedTuple):
    """A figure of a drawing in words, at its place in the units of the axes.

    ``width`` and ``height`` are those of a cell around the place; 0 for a point.
    """

    x: float
    y: float
    text: str
    width: float = 0.0
    height: float = 0.0


class Curve(NamedTuple):
    """A line that was computed, not measured. ``role`` is ``ideal``, ``amdahl`` or ``usl``."""

    label: str
    role: str
    xs: tuple[float, ...]
    ys: tuple[float, ...]


@dataclass(frozen=True)
class ScalingPlot:
    """Speed-up or efficiency (1) over a count of resources; not ``measured`` means published."""

    x_label: str
    y_label: str
    points: tuple[Point, ...]
    curves: tuple[Curve, ...]
    measured: bool = True


class Reference(NamedTuple):
    """A value to compare measurements with: a peak, an expectation.

    ``x`` is where it holds, None for everywhere; rows have no x.
    """

    value: float
    label: str
    x: float | None = None


class Line(NamedTuple):
    """One line of measurements, with its spread where ``low`` and ``high`` are given.

    ``role`` is "main"; "usual" for the median of many, drawn in grey; "outlier" for one that the
    reader must find, drawn on top and thicker. ``notes`` stand beside the points, one each.
    """

    label: str
    xs: tuple[float, ...]
    ys: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    role: Literal["main", "usual", "outlier"] = "main"
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class LinesPlot:
    """Up to eight lines over a number; ``x_scale`` "bytes" is logarithmic and written as 1 KiB.

    ``y_scale`` "auto" starts at 0, and is logarithmic where values span more than two decades.
    ``right`` are lines of another unit, which ``right_label`` names at the right axis; each has the
    colour of the line at its place in ``lines``, and may be empty.
    """

    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    x_scale: Literal["bytes", "linear", "log"] = "linear"
    y_scale: Literal["auto", "linear", "log"] = "auto"
    right_label: str = ""
    right: tuple[Line, ...] = ()
    references: tuple[Reference, ...] = ()


@dataclass(frozen=True)
class MatrixPlot:
    """A figure for each pair of row and column; None was not measured.

    ``value_label`` names the measured quantity and its unit. Labels in ``marked`` are written even
    where there is room for a few only.
    """

    row_title: str
    column_title: str
    value_label: str
    row_labels: tuple[str, ...]
    column_labels: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]
    marked: frozenset[str] = frozenset()


@dataclass(frozen=True)
class RowsPlot:
    """Up to 24 labels, one above the other; each ``Point.x`` is the figure, in the unit that
    ``x_label`` names. ``best`` and ``worst`` are the numbers of the rows to be marked.
    """

    x_label: str
    points: tuple[Point, ...]
    best: int | None = None
    worst: int | None = None
    references: tuple[Reference, ...] = ()


@dataclass(frozen=True)
class RooflinePlot:
    """Measured points under the bandwidth roof.

    ``bandwidth`` is in GB/s, ``peak`` in GFLOP/s or None when it is not known; points are
    (flop/byte, GFLOP/s).
    """

    bandwidth: float
    bandwidth_label: str
    peak: float | None
    peak_label: str
    points: tuple[Point, ...]
