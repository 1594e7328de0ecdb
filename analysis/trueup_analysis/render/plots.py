"""The report's plots, drawn once by matplotlib: PNG for papers, SVG that follows the page's theme.

Every colour comes from ``PALETTE``. A PNG keeps its light values; in the SVG each becomes a CSS
variable of the page, so that one drawing serves the light, the dark and the printed page. Values
arrive in the units that the axis titles name.
"""

from __future__ import annotations

import io
import re

# The tree holds only what matplotlib has just written: no text from outside is parsed as XML.
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes

__all__ = [
    "PALETTE",
    "Curve",
    "Drawing",
    "LayoutPlot",
    "Point",
    "RooflinePlot",
    "ScalingPlot",
    "draw_layouts",
    "draw_roofline",
    "draw_scaling",
]

# name: (light, dark). Text colours reach a contrast of 4.5 against both backgrounds, lines 3.0
# (WCAG 2.2, 1.4.3 and 1.4.11).
PALETTE: Final[dict[str, tuple[str, str]]] = {
    "ink": ("#1b232d", "#e7ebf0"),
    "muted": ("#566270", "#a5b0bc"),
    "rule": ("#d9dfe6", "#323b46"),
    "paper": ("#fdfdfe", "#14181d"),
    "accent": ("#0a5fb4", "#6db3f8"),
    "second": ("#a8480a", "#f0a35c"),
    "third": ("#26744a", "#6cc895"),
}
_LIGHT: Final = {name: pair[0] for name, pair in PALETTE.items()}
_WIDTH_INCHES: Final = 5.6
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
    "figure.facecolor": _LIGHT["paper"],
    "figure.constrained_layout.use": True,
}
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
class LayoutPlot:
    """Layouts from best to worst; each ``Point.x`` is the figure, in the unit that ``x_label``
    names.
    """

    x_label: str
    points: tuple[Point, ...]


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


@dataclass(frozen=True)
class Drawing:
    """A finished plot: ``svg`` to be put inline into HTML, ``png`` to be written to a file."""

    svg: str
    png: bytes


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


def draw_layouts(plot: LayoutPlot, *, name: str, description: str) -> Drawing:
    """One row a layout: a dot at the median, a bar from min to max; the best one first and in the
    accent colour.
    """
    rows = len(plot.points)

    def paint(axes: Axes) -> None:
        for row, point in enumerate(plot.points):
            colour = _LIGHT["accent" if row == 0 else "muted"]
            axes.plot([point.low, point.high], [row, row], color=colour, lw=5, alpha=0.35)
            axes.plot([point.x], [row], "o", color=colour, ms=7)
        axes.set_yticks(range(rows), [point.label for point in plot.points])
        axes.set_ylim(rows - 0.4, -0.6)
        axes.set_xlim(0, max(point.high for point in plot.points) * 1.06)
        axes.xaxis.set_major_locator(MaxNLocator(6))
        axes.grid(visible=False, axis="y")
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel(plot.x_label)

    return _draw(paint, name=name, description=description, height_inches=1.1 + 0.32 * rows)


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


def _legend(axes: Axes) -> None:
    figure = axes.get_figure(root=True)
    if figure is not None:
        # Below the drawing: there it covers no point, whatever was measured.
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower left", ncols=1)


def _log2_axis(axes: Axes, which: str, values: Sequence[float], *, marks: Sequence[float]) -> None:
    """A base-2 axis with ticks at ``marks`` when they are few, else at powers of two."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    low, high = min(values), max(values)
    (axes.set_xscale if which == "x" else axes.set_yscale)("log", base=2)
    ticks = sorted(set(marks))
    spread_out = all(b / a >= 1.18 for a, b in zip(ticks, ticks[1:], strict=False))
    if not ticks or len(ticks) > 8 or not spread_out:  # as many labels as fit
        ticks = [2.0**power for power in range(-8, 24) if low / 1.5 <= 2.0**power <= high * 1.5]
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(_plain))
    margin = 1.12 if high / low < 4 else 1.25  # room for the outer markers
    limits = (low / margin, high * margin)
    (axes.set_xlim if which == "x" else axes.set_ylim)(*limits)


def _plain(value: float, _position: object = None) -> str:
    return f"{value:,.10g}"


def _one_two_five(low: float, high: float) -> list[float]:
    """Ticks at 1, 2 and 5 of each decade; of 1 only when there would be more than eight."""
    decades = range(-6, 9)
    fine = [m * 10.0**d for d in decades for m in (1, 2, 5) if low <= m * 10.0**d <= high]
    coarse = [10.0**d for d in decades if low <= 10.0**d <= high]
    return fine if len(fine) <= 8 or len(coarse) < 2 else coarse  # an axis needs two


def _draw(
    paint: Callable[[Axes], None], *, name: str, description: str, height_inches: float
) -> Drawing:
    with mpl.rc_context():
        # A reader's own matplotlibrc must not change what the report looks like.
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        figure = Figure(figsize=(_WIDTH_INCHES, height_inches), dpi=72)
        paint(figure.subplots())
        vector, pixels = io.BytesIO(), io.BytesIO()
        figure.savefig(vector, format="svg", transparent=True, metadata={"Date": None})
        # Without a version in it, the same numbers give the same file whatever drew it.
        figure.savefig(pixels, format="png", dpi=160, metadata={"Software": None})
    return Drawing(
        svg=_themed(vector.getvalue().decode("utf-8"), name=name, description=description),
        png=pixels.getvalue(),
    )


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
        return f"#{prefix}-{value.removeprefix('#')}"
    value = re.sub(r"url\(#", f"url(#{prefix}-", value)
    if key != "style":
        return value
    for colour, (light, _dark) in PALETTE.items():
        value = value.replace(light, f"var(--{colour})")
    # The page's own font is meant, not the one that the text was measured with.
    return re.sub(r"font(-family)?: [^;]*'DejaVu Sans'[^;]*;? ?", _font_size, value)


def _font_size(match: re.Match[str]) -> str:
    size = re.search(r"([0-9.]+px)", match.group(0))
    return f"font-size: {size.group(1)}; " if size else ""
