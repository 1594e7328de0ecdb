"""The report's plots, drawn once by matplotlib: PNG for papers, SVG that follows the page's theme.

Every colour comes from ``PALETTE``. A PNG keeps its light values; in the SVG each becomes a CSS
variable of the page, so that one drawing serves the light, the dark and the printed page. What a
colour says, a marker, a dash or a number says too. Values arrive in the units that the axis titles
name.
"""

from __future__ import annotations

import base64
import io
import math
import re

# The tree holds only what matplotlib has just written: no text from outside is parsed as XML.
import xml.etree.ElementTree as ET
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.colorbar import make_axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator
from PIL import Image

from .. import units

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

__all__ = [
    "PALETTE",
    "Curve",
    "Drawing",
    "Line",
    "LinesPlot",
    "MatrixPlot",
    "Point",
    "Reference",
    "RooflinePlot",
    "RowsPlot",
    "ScalingPlot",
    "draw_lines",
    "draw_matrix",
    "draw_roofline",
    "draw_rows",
    "draw_scaling",
]

# name: (light, dark). Text colours reach a contrast of 4.5 against both backgrounds, lines 3.0
# (WCAG 2.2, 1.4.3 and 1.4.11). From "accent" on they are told apart without red, green or blue
# cones too: 0.05 in OKLab at least, under the simulation of Machado and others (2009).
PALETTE: Final[dict[str, tuple[str, str]]] = {
    "ink": ("#1b232d", "#e7ebf0"),
    "muted": ("#566270", "#a5b0bc"),
    "rule": ("#d9dfe6", "#323b46"),
    "paper": ("#fdfdfe", "#14181d"),
    "accent": ("#0a5fb4", "#6db3f8"),
    "second": ("#a8480a", "#f0a35c"),
    "third": ("#1d6b41", "#7be0a6"),
    "fourth": ("#d8589b", "#e7436d"),
    "fifth": ("#a57710", "#f0dc4e"),
    "sixth": ("#2f95b5", "#328bb0"),
    "seventh": ("#5a1f7a", "#a35be0"),
    "eighth": ("#721b3c", "#f2b8d8"),
}
_LIGHT: Final = {name: pair[0] for name, pair in PALETTE.items()}
_WIDTH_INCHES: Final = 5.6
_PNG_DPI: Final = 160
# 72 dots an inch make a point of the drawing a pixel of the SVG's own coordinates.
_STYLE: Final[dict[Any, Any]] = {
    "svg.hashsalt": "trueup",
    "svg.fonttype": "none",
    "svg.id": None,
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.edgecolor": _LIGHT["muted"],
    "axes.facecolor": "none",
    "axes.labelcolor": _LIGHT["ink"],
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.labelsize": 10,
    "grid.color": _LIGHT["rule"],
    "grid.linewidth": 0.8,
    "xtick.color": _LIGHT["muted"],
    "ytick.color": _LIGHT["muted"],
    "xtick.labelcolor": _LIGHT["ink"],
    "ytick.labelcolor": _LIGHT["ink"],
    "xtick.labelsize": 9.5,
    "ytick.labelsize": 9.5,
    "text.color": _LIGHT["ink"],
    "text.parse_math": False,
    "legend.frameon": False,
    "legend.fontsize": 9.5,
    "legend.handlelength": 3,
    "hatch.linewidth": 0.6,
    "figure.facecolor": "none",
    "figure.constrained_layout.use": True,
}
_LINE_COLOURS: Final = (
    "accent",
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
)
_LINE_DASHES: Final[tuple[Any, ...]] = (
    "-",
    (0, (6, 2)),
    (0, (1.5, 1.5)),
    (0, (7, 2, 1.5, 2)),
    (0, (10, 3)),
    (0, (3, 1.5)),
    (0, (7, 2, 1.5, 2, 1.5, 2)),
    (0, (1, 3)),
)
_LINE_MARKERS: Final = "os^DvPX*"
_REFERENCE_DASHES: Final[tuple[Any, ...]] = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1, 2)))
_MOST_LINES: Final = 8
_MOST_ROWS: Final = 24
_BYTE_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_TWO_DECADES: Final = 100
# In characters: what a legend of one and of two columns has room for, and what leaves rows of dots
# two thirds of the width.
_LEGEND_LABEL, _LEGEND_PAIR, _ROW_LABEL = 60, 52, 32
_MATRIX_LABEL: Final = 18
_MATRIX_LABELS: Final = 24
_CELLS_WITH_NUMBERS: Final = 16
_CELLS_SMOOTHED_FROM: Final = 200**2
# An image of 200,000 cells takes at most 267 kB in base64 with a byte a cell. With 4 bits a cell
# 600 x 600 take 240 kB: 15 colours, and one for what was not measured.
_CELLS_IN_ALL_COLOURS: Final = 200_000
# Colours that are the same in the dark, as those of the cells are: as names, for what has a hash is
# a theme's.
_FIXED: Final = {"#ffffff": "white", "#808080": "grey"}
# White is none of the colours of a value, in any theme.
_NOT_MEASURED: Final[dict[str, Any]] = {
    "facecolor": "white",
    "hatch": "/////",
    "edgecolor": "grey",
    "linewidth": 0,
}
# Measurements of equal hardware differ by a few per cent: the colours span at least this part of
# the greatest value, so that noise does not look like a fault.
_LEAST_COLOUR_SPAN: Final = 0.2
# A luminance at which black and white have the same contrast (WCAG 2.2).
_BLACK_FROM: Final = 0.179
_DASHES: Final = {"ideal": (0, (1, 2)), "amdahl": (0, (6, 2.5)), "usl": (0, (7, 2, 1.5, 2))}
_MEASURED: Final = "measured: median, min to max"
_ROLE_COLOUR: Final = {"ideal": "muted", "amdahl": "second", "usl": "third"}


@dataclass(frozen=True)
class Point:
    """One measured figure: its median with the least and the greatest measurement."""

    x: float
    y: float
    low: float
    high: float
    label: str = ""


@dataclass(frozen=True)
class Curve:
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


@dataclass(frozen=True)
class Reference:
    """What measurements are held against: a peak, an expectation.

    ``x`` is where it holds, None for everywhere; rows have no x.
    """

    value: float
    label: str
    x: float | None = None


@dataclass(frozen=True)
class Line:
    """One line of measurements, with its spread where ``low`` and ``high`` are given.

    ``role`` is "main"; "usual" for the median of many, drawn in grey; "outlier" for one that the
    reader must find, drawn on top and thicker.
    """

    label: str
    xs: tuple[float, ...]
    ys: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    role: Literal["main", "usual", "outlier"] = "main"


@dataclass(frozen=True)
class LinesPlot:
    """Up to eight lines over a number; ``x_scale`` "bytes" is logarithmic and written as 1 KiB.

    ``y_scale`` "auto" starts at 0, and is logarithmic where values span more than two decades.
    """

    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    x_scale: Literal["bytes", "linear", "log"] = "linear"
    y_scale: Literal["auto", "linear", "log"] = "auto"
    references: tuple[Reference, ...] = ()


@dataclass(frozen=True)
class MatrixPlot:
    """A figure for each pair of row and column; None was not measured.

    ``value_label`` names what is measured and its unit. Labels in ``marked`` are written even where
    there is room for a few only.
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


@dataclass
class Drawing:
    """A finished plot: ``svg`` to be put inline into HTML, ``png()`` to be written to a file."""

    svg: str
    _figure: Figure | None = field(repr=False, compare=False)
    _png: bytes = field(default=b"", repr=False, compare=False)

    def png(self) -> bytes:
        """The same plot, in its light colours, as a PNG file; made when first asked for."""
        if self._figure is not None:
            pixels = io.BytesIO()
            with _styled():
                self._figure.set_dpi(_PNG_DPI)
                self._figure.set_facecolor(_LIGHT["paper"])
                canvas: Any = FigureCanvasAgg(self._figure)
                # Without a version in it, the same numbers give the same file whatever drew it.
                canvas.print_png(pixels, metadata={"Software": None})
            self._png = pixels.getvalue()
            self._figure = None
            # The figure waits for the garbage collector, and every text in it holds the renderer
            # with its pixels: 2 MB a plot.
            vars(canvas.renderer).clear()
        return self._png


def draw_scaling(plot: ScalingPlot, *, name: str, description: str) -> Drawing:
    """Measured points with their spread, and the curves that were fitted to them; both axes base
    2.
    """

    def paint(axes: Axes) -> None:
        for curve in plot.curves:
            colour = _LIGHT[_ROLE_COLOUR[curve.role]]
            style = _DASHES[curve.role]
            axes.plot(curve.xs, curve.ys, color=colour, ls=style, lw=1.5, label=curve.label)
        label = _MEASURED if plot.measured else "published"
        _measured(axes, plot.points, label=label, line=True)
        xs = [point.x for point in plot.points]
        ys = [point.high for point in plot.points] + [y for c in plot.curves for y in c.ys]
        _log2_axis(axes, "x", xs, marks=xs)
        if max(ys) / min(point.low for point in plot.points) >= 2:  # one octave
            _log2_axis(axes, "y", [*ys, *(point.low for point in plot.points)], marks=())
        else:
            axes.set_ylim(0, max(ys) * 1.15)
            axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.set_xlabel(plot.x_label)
        _title_y(axes, plot.y_label)
        _legend(axes)

    return _draw(paint, name=name, description=description, height_inches=4.2)


def draw_lines(plot: LinesPlot, *, name: str, description: str) -> Drawing:
    """Lines that differ in colour, marker and dash, their spread as bands, and what they are held
    against.

    Raises:
        ValueError: there are more than eight lines, too many to be told apart.
    """
    if len(plot.lines) > _MOST_LINES:
        raise ValueError(f"{len(plot.lines)} lines are too many for one plot")
    grey = next((line for line in plot.lines if line.role == "usual"), None)
    named = [*(line.label for line in plot.lines), *(one.label for one in plot.references)]
    labels = [_label(label, _LEGEND_LABEL) for label in named]

    def paint(axes: Axes) -> None:
        at = _number_axis(axes, plot)
        handles: list[Any] = []
        for number, line in enumerate(plot.lines):
            colour = _LIGHT["muted" if line is grey else _LINE_COLOURS[number]]
            xs = [at(x) for x in line.xs]
            (drawn,) = axes.plot(
                xs,
                line.ys,
                color=colour,
                ls=_LINE_DASHES[number],
                lw=2.2 if line.role == "outlier" else 1.6,
                marker=_LINE_MARKERS[number],
                ms=5,
                # A marker at each of a hundred points would hide the dash.
                markevery=max(1, len(xs) // 12),
                zorder={"usual": 2.1, "main": 2.2, "outlier": 2.3}[line.role],
            )
            if line.low and line.high:
                band = axes.fill_between(xs, line.low, line.high, color=colour, alpha=0.2, lw=0)
                handles.append((band, drawn))
            else:
                handles.append(drawn)
        values = [y for line in plot.lines for y in (*line.ys, *line.low, *line.high)]
        values += [reference.value for reference in plot.references]
        _value_axis(axes, "y", values, scale=plot.y_scale)
        handles += _references(axes, plot.references, at)
        axes.set_xlabel(plot.x_label)
        _title_y(axes, plot.y_label)
        _legend(axes, handles, labels)

    height = 3.1 + _legend_inches(labels)
    return _draw(paint, name=name, description=description, height_inches=height)


def draw_matrix(plot: MatrixPlot, *, name: str, description: str) -> Drawing:
    """A cell for each pair, coloured by its value; up to 16 x 16 with the number in it.

    Raises:
        ValueError: the values are not a row for each row's label and a column for each column's, or
            none was measured.
    """
    rows, columns = len(plot.row_labels), len(plot.column_labels)
    if [len(row) for row in plot.values] != [columns] * rows:
        raise ValueError(f"the values are not {rows} rows of {columns}")
    figures = np.array(plot.values, dtype=float).reshape(rows, columns)
    measured = ~np.isnan(figures)
    if not measured.any():
        raise ValueError(f"none of {rows} x {columns} pairs was measured")
    # The cells are square where that leaves the plot neither flat nor longer than a screen.
    side = min(max(4.2 * rows / columns, 1.0), 4.6)

    def paint(axes: Axes) -> None:
        low, high, shades = _scale(figures[measured], figures.size)
        steps = (figures - low) / (high - low) * len(shades)
        picked = np.where(measured, steps, 0).astype(int).clip(0, len(shades) - 1)
        cells = shades[picked]
        cells[~measured, 3] = 0
        axes.patch.set(**_NOT_MEASURED)
        # Drawn as stored, a pixel a cell; whoever shows it scales it.
        axes.imshow(cells, interpolation="none", aspect="auto")
        if max(rows, columns) <= _CELLS_WITH_NUMBERS:
            _write_numbers(axes, figures, cells, cell_points=(3.6 * 72 / columns, side * 72 / rows))
        _label_cells(axes, plot)
        axes.set_xlabel(plot.column_title)
        _title_y(axes, plot.row_title)
        bar, _ = make_axes(axes, location="right", fraction=0.05, pad=0.02)
        extent = (0.0, 1.0, low, high)
        bar.imshow(shades[:, None], extent=extent, origin="lower", interpolation="none")
        bar.set(aspect="auto", xticks=[], ylabel=plot.value_label)
        bar.yaxis.set_label_position("right")
        bar.yaxis.tick_right()
        bar.yaxis.set_major_locator(MaxNLocator(5))
        bar.yaxis.set_major_formatter(FuncFormatter(_plain))
        for one in (axes, bar):
            one.grid(visible=False)
            one.spines[:].set_visible(True)
            one.tick_params(length=2)
        if not measured.all():
            _legend(axes, [Patch(**_NOT_MEASURED)], ["not measured"])

    return _draw(paint, name=name, description=description, height_inches=side + 0.9)


def draw_rows(plot: RowsPlot, *, name: str, description: str) -> Drawing:
    """A dot at the median, a bar from min to max; the best and the worst differ in colour and
    marker.

    Raises:
        ValueError: there are more than 24 rows.
    """
    rows = len(plot.points)
    if rows > _MOST_ROWS:
        raise ValueError(f"{rows} rows are too many for one plot")
    marks = {plot.best: ("best", "accent", "D"), plot.worst: ("worst", "second", "X")}
    marked = [label for row, (label, _, _) in marks.items() if row is not None]
    labels = [*marked, *(_label(reference.label, _LEGEND_LABEL) for reference in plot.references)]

    def paint(axes: Axes) -> None:
        dots = {}
        for row, point in enumerate(plot.points):
            mark, colour, marker = marks.get(row, ("", "muted", "o"))
            colour = _LIGHT[colour]
            axes.plot([point.low, point.high], [row, row], color=colour, lw=5, alpha=0.35)
            (dots[mark],) = axes.plot([point.x], [row], color=colour, marker=marker, ms=7, ls="")
        axes.set_yticks(range(rows), [_label(point.label, _ROW_LABEL) for point in plot.points])
        axes.set_ylim(rows - 0.4, -0.6)
        values = [end for point in plot.points for end in (point.low, point.x, point.high)]
        _value_axis(axes, "x", [*values, *(reference.value for reference in plot.references)])
        handles = [dots[mark] for mark in marked] + _references(axes, plot.references)
        axes.grid(visible=False, axis="y")
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel(plot.x_label)
        if labels:
            _legend(axes, handles, labels)

    row_inches = 0.32 if rows <= _MOST_ROWS / 2 else 0.24
    height = 0.9 + row_inches * rows + _legend_inches(labels)
    return _draw(paint, name=name, description=description, height_inches=height)


def draw_roofline(plot: RooflinePlot, *, name: str, description: str) -> Drawing:
    """The roof of memory bandwidth (and of peak flops where known) with the measured points
    beneath; log-log.
    """

    def paint(axes: Axes) -> None:
        intensities = [point.x for point in plot.points]
        ridge = plot.peak / plot.bandwidth if plot.peak else max(intensities)
        left = min([*intensities, ridge]) / 2.5
        right = max([*intensities, ridge]) * 3
        roof_end = min(ridge, right) if plot.peak else right
        axes.plot(
            [left, roof_end],
            [left * plot.bandwidth, roof_end * plot.bandwidth],
            color=_LIGHT["second"],
            lw=1.8,
            label=plot.bandwidth_label,
        )
        if plot.peak:
            axes.plot(
                [ridge, right],
                [plot.peak, plot.peak],
                color=_LIGHT["third"],
                lw=1.8,
                label=plot.peak_label,
            )
        axes.set_xscale("log")
        axes.set_yscale("log")
        _measured(axes, plot.points, label=_MEASURED, line=False)
        lowest = min(point.low for point in plot.points)
        highest = max(plot.peak or 0, right * plot.bandwidth if not plot.peak else 0)
        axes.set_xlim(left, right)
        axes.set_ylim(min(lowest, left * plot.bandwidth) / 1.5, highest * 1.6)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(FixedLocator(_one_two_five(*axis.get_view_interval())))
            axis.set_minor_locator(NullLocator())
            axis.set_major_formatter(FuncFormatter(_plain))
        axes.set_xlabel("operational intensity, flop/byte")
        _title_y(axes, "GFLOP/s")
        _legend(axes)

    return _draw(paint, name=name, description=description, height_inches=4.0)


def _measured(axes: Axes, points: Sequence[Point], *, label: str, line: bool) -> None:
    accent = _LIGHT["accent"]
    axes.errorbar(
        [point.x for point in points],
        [point.y for point in points],
        yerr=[
            [max(point.y - point.low, 0.0) for point in points],
            [max(point.high - point.y, 0.0) for point in points],
        ],
        fmt="o-" if line else "o",
        color=accent,
        ms=6,
        lw=1.8,
        elinewidth=1.3,
        capsize=4,
        label=label,
    )


def _title_y(axes: Axes, text: str) -> None:
    """The y axis' title, level and above it: readable, and no wider in a font other than the one
    measured.
    """
    axes.set_title(text, loc="left", fontsize=10, color=_LIGHT["ink"], pad=8, x=0.0)


def _label(text: str, most: int) -> str:
    """A label from data on one line; a longer one loses its middle, as names differ at the ends."""
    shown = units.text(text)
    return shown if len(shown) <= most else f"{shown[: most // 2]}…{shown[-(most - 1) // 2 :]}"


def _legend(axes: Axes, handles: Sequence[Any] = (), labels: Sequence[str] = ()) -> None:
    figure = axes.get_figure(root=True)
    if figure is not None:
        if not handles:
            handles, labels = axes.get_legend_handles_labels()
        # Below the drawing: there it covers no point, whatever was measured.
        columns = _legend_columns(labels)
        figure.legend(handles, labels, loc="outside lower left", ncols=columns)


def _legend_columns(labels: Sequence[str]) -> int:
    """Two where there are many labels, and the longest of either half fit side by side."""
    half = math.ceil(len(labels) / 2)
    longest = [max(map(len, part), default=0) for part in (labels[:half], labels[half:])]
    return 2 if len(labels) > 3 and sum(longest) <= _LEGEND_PAIR else 1


def _legend_inches(labels: Sequence[str]) -> float:
    return 0.2 * math.ceil(len(labels) / _legend_columns(labels))


def _references(
    axes: Axes, references: Sequence[Reference], at: Callable[[float], float] | None = None
) -> list[Any]:
    """A line at each reference's value: across the plot, or around its x, which ``at`` places;
    without it values run along the x axis.
    """
    handles = []
    for number, reference in enumerate(references):
        dash = _REFERENCE_DASHES[number % len(_REFERENCE_DASHES)]
        ink = _LIGHT["ink"]
        if at is None:
            drawn = axes.axvline(reference.value, color=ink, ls=dash, lw=1.4)
        elif reference.x is None:
            drawn = axes.axhline(reference.value, color=ink, ls=dash, lw=1.4)
        else:
            scale = axes.xaxis.get_transform()
            (middle,) = scale.transform([at(reference.x)])
            left, right = scale.transform(axes.get_xlim())
            reach = (right - left) * 0.04
            ends = scale.inverted().transform([middle - reach, middle, middle + reach])
            ys = [reference.value] * 3
            (drawn,) = axes.plot(ends, ys, color=ink, ls=dash, lw=2, zorder=2.5)
            # Hollow: what was measured there stays in sight.
            drawn.set(marker="d", markevery=[1], markersize=8, markerfacecolor="none")
        handles.append(drawn)
    return handles


def _number_axis(axes: Axes, plot: LinesPlot) -> Callable[[float], float]:
    """Set the x axis of lines; returns where an x stands: 0 on a logarithmic axis left of the
    others.
    """
    xs = sorted({x for line in plot.lines for x in line.xs} | _judged(plot.references))
    if plot.x_scale == "linear":
        return _linear_axis(axes, xs)
    return _log_axis(axes, xs, in_bytes=plot.x_scale == "bytes")


def _linear_axis(axes: Axes, xs: Sequence[float]) -> Callable[[float], float]:
    margin = (xs[-1] - xs[0]) * 0.05 or 0.5
    axes.set_xlim(xs[0] - margin, xs[-1] + margin)
    whole = all(x == int(x) for x in xs)
    between = MaxNLocator(8, integer=whole, steps=[1, 2, 5, 10])
    axes.xaxis.set_major_locator(between if len(xs) > 1 else FixedLocator(xs))
    axes.xaxis.set_major_formatter(FuncFormatter(_plain))
    return lambda x: x


def _log_axis(axes: Axes, xs: Sequence[float], *, in_bytes: bool) -> Callable[[float], float]:
    low, high = next((x for x in xs if x > 0), 1.0), xs[-1]
    zero = low / 4
    # Labels like 512 KiB take an eighth of the axis, numbers less.
    widest = (high / low) ** (0.13 if in_bytes else 0.08)
    ticks = [x for x in xs if x > 0]
    if any(b / a < widest for a, b in zip(ticks, ticks[1:], strict=False)):
        ticks = _octaves(low, high, most=7) if in_bytes else _one_two_five(low, high)
    write = _bytes if in_bytes else _plain
    axes.set_xscale("log", base=2 if in_bytes else 10)
    axes.xaxis.set_major_locator(FixedLocator([*([zero] if xs[0] <= 0 else []), *ticks]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: write(0.0 if x == zero else x)))
    margin = max((high / low) ** 0.05, 1.25)
    axes.set_xlim((zero if xs[0] <= 0 else low) / margin, high * margin)
    return lambda x: x if x > 0 else zero


def _judged(references: Sequence[Reference]) -> set[float]:
    return {reference.x for reference in references if reference.x is not None}


def _value_axis(
    axes: Axes,
    which: str,
    values: Sequence[float],
    *,
    scale: Literal["auto", "linear", "log"] = "auto",
) -> None:
    """An axis from 0; a logarithmic one where values span more than two decades."""
    x = which == "x"
    axis, set_limits = (axes.xaxis, axes.set_xlim) if x else (axes.yaxis, axes.set_ylim)
    low, high = min(values), max(values)
    wide = low > 0 and high / low > _TWO_DECADES
    if low > 0 and (scale == "log" or (scale == "auto" and wide)):
        (axes.set_xscale if x else axes.set_yscale)("log")
        set_limits(low / 1.3, high * 1.3)
        axis.set_major_locator(FixedLocator(_one_two_five(low / 1.3, high * 1.3)))
        axis.set_minor_locator(NullLocator())
    else:
        set_limits(min(low * 1.06, 0.0), max(high * 1.06, 0.0) or 1.0)
        axis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axis.set_major_formatter(FuncFormatter(_plain))


def _scale(values: NDArray[np.float64], cells: int) -> tuple[float, float, NDArray[np.uint8]]:
    """The values that the colours begin and end with, and the colours."""
    low, high = float(values.min()), float(values.max())
    low = min(low, high - _LEAST_COLOUR_SPAN * abs(high))
    if low == high:  # all are 0
        high = 1.0
    steps = 255 if cells <= _CELLS_IN_ALL_COLOURS else 15
    colours = mpl.colormaps["cividis"](np.linspace(0, 1, steps))
    return low, high, (colours * 255).round().astype(np.uint8)


def _write_numbers(
    axes: Axes,
    figures: NDArray[np.float64],
    cells: NDArray[np.uint8],
    *,
    cell_points: tuple[float, float],
) -> None:
    """The value in each cell, with the same decimals, in black or white: cells keep their colour in
    the dark.
    """
    greatest = float(np.nanmax(np.abs(figures)))
    decimals = min(max(2 - math.floor(math.log10(greatest)), 0), 4) if greatest else 0
    linear = cells[..., :3] / 255
    linear = np.where(linear <= 0.04045, linear / 12.92, ((linear + 0.055) / 1.055) ** 2.4)
    luminance = linear @ (0.2126, 0.7152, 0.0722)
    texts = {
        (int(row), int(column)): f"{figures[row, column]:,.{decimals}f}"
        for row, column in np.argwhere(~np.isnan(figures))
    }
    width, height = cell_points
    # A digit of DejaVu Sans is 0.64 of its size wide.
    size = min(9.0, 0.6 * height, 0.88 * width / (0.64 * max(map(len, texts.values()))))
    for (row, column), text in texts.items():
        colour = "black" if luminance[row, column] > _BLACK_FROM else "white"
        axes.text(column, row, text, color=colour, size=size, ha="center", va="center_baseline")


def _label_cells(axes: Axes, plot: MatrixPlot) -> None:
    for axis, labels in ((axes.xaxis, plot.column_labels), (axes.yaxis, plot.row_labels)):
        room = len(labels) / _MATRIX_LABELS
        places = [place for place, label in enumerate(labels) if label in plot.marked]
        step = 1 if room <= 1 else 2 if room <= 2 else 5 * math.ceil(room / 5)
        places += range(0, len(labels), step)
        written: list[int] = []
        for place in places:
            if all(abs(place - other) >= room for other in written):
                written.append(place)
        written.sort()
        shown = [_label(labels[place], _MATRIX_LABEL) for place in written]
        axis.set_ticks(written, shown, fontsize=8)
        for place, text in zip(written, axis.get_ticklabels(), strict=True):
            if labels[place] in plot.marked:
                text.set(color=_LIGHT["second"], weight="bold")
        # Level where the longest fits, else from bottom to top.
        width = 4.0 * 72 / min(len(labels), _MATRIX_LABELS)
        if axis is axes.xaxis and max(map(len, shown)) * 0.64 * 8 > width:
            axis.set_tick_params(rotation=90)


def _log2_axis(axes: Axes, which: str, values: Sequence[float], *, marks: Sequence[float]) -> None:
    """A base-2 axis with ticks at ``marks`` when they are few, else at powers of two."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    low, high = min(values), max(values)
    (axes.set_xscale if which == "x" else axes.set_yscale)("log", base=2)
    ticks = sorted(set(marks))
    spread_out = all(b / a >= 1.18 for a, b in zip(ticks, ticks[1:], strict=False))
    if not ticks or len(ticks) > 8 or not spread_out:  # as many labels as fit
        ticks = _octaves(low / 1.5, high * 1.5, most=12)
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(_plain))
    margin = 1.12 if high / low < 4 else 1.25  # room for the outer markers
    limits = (low / margin, high * margin)
    (axes.set_xlim if which == "x" else axes.set_ylim)(*limits)


def _octaves(low: float, high: float, *, most: int) -> list[float]:
    """Powers of two: each, or each second, fifth or tenth, which 1 KiB, 1 MiB and 1 GiB are too."""
    powers = range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1)
    step = next(step for step in (1, 2, 5, 10) if len(powers) / step <= most or step == 10)
    return [2.0**power for power in powers if power % step == 0]


def _plain(value: float, _position: object = None) -> str:
    return f"{value:,.10g}"


def _bytes(value: float) -> str:
    step = min(int(math.log2(value)) // 10, len(_BYTE_UNITS) - 1) if value >= 1 else 0
    return f"{value / 1024**step:.4g} {_BYTE_UNITS[step]}"


def _one_two_five(low: float, high: float) -> list[float]:
    """Ticks at 1, 2 and 5 of each decade; of 1 only when there would be more than eight."""
    decades = range(-12, 16)
    fine = [m * 10.0**d for d in decades for m in (1, 2, 5) if low <= m * 10.0**d <= high]
    coarse = [10.0**d for d in decades if low <= 10.0**d <= high]
    return fine if len(fine) <= 8 or len(coarse) < 2 else coarse  # an axis needs two


@contextmanager
def _styled() -> Iterator[None]:
    with mpl.rc_context():
        # A reader's own matplotlibrc must not change what the report looks like.
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        yield


def _draw(
    paint: Callable[[Axes], None], *, name: str, description: str, height_inches: float
) -> Drawing:
    with _styled():
        figure = Figure(figsize=(_WIDTH_INCHES, height_inches), dpi=72)
        canvas: Any = FigureCanvasSVG(figure)
        paint(figure.subplots())
        # Laid out once for both files: savefig would do it again for each, and draw twice.
        layout = figure.get_layout_engine()
        if layout is not None:
            layout.execute(figure)
        figure.set_layout_engine("none")
        vector = io.BytesIO()
        canvas.print_svg(vector, metadata={"Date": None})
    svg = _themed(vector.getvalue().decode("utf-8"), name=name, description=description)
    return Drawing(svg, figure)


def _themed(svg: str, *, name: str, description: str) -> str:
    """Matplotlib's SVG as a part of an HTML page: no ids twice on a page, no metadata, colours by
    CSS variables.
    """
    tree = ET.fromstring(svg)  # noqa: S314 - matplotlib wrote it
    for element in tree.iter():
        element.tag = _local(element.tag)
        element.attrib = {
            _local(key): _restyled(_local(key), value, prefix=name)
            for key, value in element.attrib.items()
        }
        if element.tag == "image":
            _repack(element)
    # Its stylesheet would apply to the whole page; report.css has the rule for plots alone.
    for defs in tree.findall("defs"):
        for style in defs.findall("style"):
            defs.remove(style)
    for metadata in tree.findall("metadata"):
        tree.remove(metadata)
    tree.attrib = {"viewBox": tree.attrib["viewBox"], "role": "img", "aria-label": description}
    return ET.tostring(tree, encoding="unicode").strip()


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _restyled(key: str, value: str, *, prefix: str) -> str:
    if key == "id":
        return f"{prefix}-{value}"
    if key == "href":
        return f"#{prefix}-{value.removeprefix('#')}" if value.startswith("#") else value
    value = re.sub(r"url\(#", f"url(#{prefix}-", value)
    for code, word in _FIXED.items():
        value = value.replace(code, word)
    if key != "style":
        return value
    for colour, (light, _dark) in PALETTE.items():
        value = value.replace(light, f"var(--{colour})")
    # The page's own font is meant, not the one that the text was measured with.
    return re.sub(r"font(-family)?: [^;]*'DejaVu Sans'[^;]*;? ?", _font_size, value)


def _font_size(match: re.Match[str]) -> str:
    size = re.search(r"([0-9.]+px)", match.group(0))
    return f"font-size: {size.group(1)}; " if size else ""


def _repack(image: ET.Element) -> None:
    """The image of a matrix with its few colours as a palette: the same pixels in a quarter of the
    bytes.
    """
    encoded = image.attrib["href"].partition(",")[2]
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(encoded))).convert("RGBA"))
    colours, numbers = np.unique(pixels.view(np.uint32), return_inverse=True)
    table = colours.view(np.uint8).reshape(-1, 4)
    packed = Image.fromarray(numbers.reshape(pixels.shape[:2]).astype(np.uint8))
    packed.putpalette(table[:, :3].tobytes())
    target = io.BytesIO()
    packed.save(target, "png", transparency=table[:, 3].tobytes())
    image.attrib["href"] = "data:image/png;base64," + base64.b64encode(target.getvalue()).decode()
    if pixels.shape[0] * pixels.shape[1] > _CELLS_SMOOTHED_FROM:
        # There a screen has fewer pixels than cells, and must average rather than leave cells out.
        del image.attrib["style"]
