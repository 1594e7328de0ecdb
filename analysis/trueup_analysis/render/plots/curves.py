"""Lines over numbers: scaling, figures over sizes and parameters, rooflines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from .axes import (
    in_bytes,
    legend,
    legend_inches,
    log2_axis,
    measured,
    number_axis,
    one_two_five,
    plain,
    references,
    shortened,
    title_y,
    value_axis,
    worded,
)
from .data import Line, LinesPlot, RooflinePlot, ScalingPlot, Value
from .drawing import Drawing, draw
from .palette import LEGEND_LABEL, LIGHT, LINE_COLOURS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes

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
_MOST_LINES: Final = 8
_DASHES: Final = {"ideal": (0, (1, 2)), "amdahl": (0, (6, 2.5)), "usl": (0, (7, 2, 1.5, 2))}
_MEASURED: Final = "measured: median, min to max"
_ROLE_COLOUR: Final = {"ideal": "muted", "amdahl": "second", "usl": "third"}


def draw_scaling(plot: ScalingPlot, *, name: str, description: str) -> Drawing:
    """Measured points with their spread, and the curves that were fitted to them; both axes base
    2.
    """

    def paint(axes: Axes) -> list[Value]:
        for curve in plot.curves:
            colour = LIGHT[_ROLE_COLOUR[curve.role]]
            style = _DASHES[curve.role]
            axes.plot(curve.xs, curve.ys, color=colour, ls=style, lw=1.5, label=curve.label)
        label = _MEASURED if plot.measured else "published"
        measured(axes, plot.points, label=label, line=True)
        xs = [point.x for point in plot.points]
        ys = [point.high for point in plot.points] + [y for c in plot.curves for y in c.ys]
        log2_axis(axes, "x", xs, marks=xs)
        if max(ys) / min(point.low for point in plot.points) >= 2:  # one octave
            log2_axis(axes, "y", [*ys, *(point.low for point in plot.points)], marks=())
        else:
            axes.set_ylim(0, max(ys) * 1.15)
            axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.set_xlabel(plot.x_label)
        title_y(axes, plot.y_label)
        legend(axes)
        return [
            Value(point.x, point.y, f"{plain(point.x)} {plot.x_label}: {point.y:.2f}")
            for point in plot.points
        ]

    return draw(paint, name=name, description=description, height_inches=4.2)


def draw_lines(plot: LinesPlot, *, name: str, description: str) -> Drawing:
    """Lines that differ in colour, marker and dash, their spread as bands, and the references
    beside them.

    Raises:
        ValueError: there are more than eight lines, too many to be told apart.
    """
    if len(plot.lines) > _MOST_LINES:
        raise ValueError(f"{len(plot.lines)} lines are too many for one plot")
    grey = next((line for line in plot.lines if line.role == "usual"), None)
    named = [
        *(line.label for line in plot.lines),
        *(line.label for line in plot.right if line.xs),
        *(reference.label for reference in plot.references),
    ]
    labels = [shortened(label, LEGEND_LABEL) for label in named]

    def paint(axes: Axes) -> list[Value]:
        at = number_axis(axes, plot)
        handles: list[Any] = []
        for number, line in enumerate(plot.lines):
            colour = LIGHT["muted" if line is grey else LINE_COLOURS[number]]
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
        value_axis(axes, "y", values, scale=plot.y_scale)
        on_right, right_values = _right(axes, plot, at)
        handles += on_right + references(axes, plot.references, at)
        _noted(axes, plot.lines, at)
        axes.set_xlabel(plot.x_label)
        title_y(axes, plot.y_label)
        legend(axes, handles, labels)
        return _line_values(plot, at) + right_values

    height = 3.1 + legend_inches(labels)
    return draw(paint, name=name, description=description, height_inches=height)


def _right(
    axes: Axes, plot: LinesPlot, at: Callable[[float], float]
) -> tuple[list[Any], list[Value]]:
    """Dotted lines at an axis of their own: their handles, and their figures at places of the left
    one."""
    if not plot.right:
        return [], []
    other = axes.twinx()
    other.grid(visible=False)
    other.spines["right"].set_visible(True)
    handles: list[Any] = []
    for number, line in enumerate(plot.right):
        if not line.xs:
            continue
        (drawn,) = other.plot(
            [at(x) for x in line.xs],
            line.ys,
            color=LIGHT[LINE_COLOURS[number]],
            ls=(0, (1, 1.5)),
            lw=1.6,
            marker=_LINE_MARKERS[number],
            ms=4,
            markerfacecolor="none",
        )
        handles.append(drawn)
    value_axis(other, "y", [y for line in plot.right for y in line.ys])
    other.set_ylabel(plot.right_label)
    values = []
    for line in plot.right:
        for x, y in zip(line.xs, line.ys, strict=True):
            place = axes.transData.inverted().transform(other.transData.transform((at(x), y)))
            text = worded(line.label, plain(x), y, f", {plot.right_label}")
            values.append(Value(float(place[0]), float(place[1]), text))
    return handles, values


def _line_values(plot: LinesPlot, at: Callable[[float], float]) -> list[Value]:
    write = in_bytes if plot.x_scale == "bytes" else plain
    return [
        Value(at(x), y, worded(line.label, write(x), y, plot.y_label))
        for line in plot.lines
        for x, y in zip(line.xs, line.ys, strict=True)
    ]


def _noted(axes: Axes, lines: Sequence[Line], at: Callable[[float], float]) -> None:
    """Words beside points: to the right of each, above it, or below where one above would lie on
    another's."""
    (left_end, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    taken: list[tuple[float, float]] = []
    points = [point for line in lines for point in zip(line.xs, line.ys, line.notes, strict=False)]
    for x, y, note in points:
        position = (at(x) - left_end) / (right - left_end), (y - bottom) / (top - bottom)
        near = any(abs(position[0] - a) < 0.25 and abs(position[1] - b) < 0.06 for a, b in taken)
        taken.append((position[0], position[1] - (0.07 if near else 0)))
        offset = (6, -11) if near else (6, 4)
        axes.annotate(note, (at(x), y), offset, textcoords="offset points", fontsize=8.5)


def draw_roofline(plot: RooflinePlot, *, name: str, description: str) -> Drawing:
    """The roof of memory bandwidth (and of peak flops where known) with the measured points
    beneath; log-log.
    """

    def paint(axes: Axes) -> list[Value]:
        intensities = [point.x for point in plot.points]
        ridge = plot.peak / plot.bandwidth if plot.peak else max(intensities)
        left_end = min([*intensities, ridge]) / 2.5
        right = max([*intensities, ridge]) * 3
        roof_end = min(ridge, right) if plot.peak else right
        axes.plot(
            [left_end, roof_end],
            [left_end * plot.bandwidth, roof_end * plot.bandwidth],
            color=LIGHT["second"],
            lw=1.8,
            label=plot.bandwidth_label,
        )
        if plot.peak:
            axes.plot(
                [ridge, right],
                [plot.peak, plot.peak],
                color=LIGHT["third"],
                lw=1.8,
                label=plot.peak_label,
            )
        axes.set_xscale("log")
        axes.set_yscale("log")
        measured(axes, plot.points, label=_MEASURED, line=False)
        lowest = min(point.low for point in plot.points)
        highest = max(plot.peak or 0, right * plot.bandwidth if not plot.peak else 0)
        axes.set_xlim(left_end, right)
        axes.set_ylim(min(lowest, left_end * plot.bandwidth) / 1.5, highest * 1.6)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(FixedLocator(one_two_five(*axis.get_view_interval())))
            axis.set_minor_locator(NullLocator())
            axis.set_major_formatter(FuncFormatter(plain))
        axes.set_xlabel("operational intensity, flop/byte")
        title_y(axes, "GFLOP/s")
        legend(axes)
        return [
            Value(
                point.x,
                point.y,
                worded(point.label, f"{plain(point.x)} flop/byte", point.y, ", GFLOP/s"),
            )
            for point in plot.points
        ]

    return draw(paint, name=name, description=description, height_inches=4.0)
