"""Rows of dots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .axes import legend, legend_inches, references, shortened, value_axis, worded
from .data import RowsPlot, Value
from .drawing import Drawing, draw
from .palette import LEGEND_LABEL, LIGHT, ROW_LABEL

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_ROWS: Final = 24


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
    labels = [*marked, *(shortened(reference.label, LEGEND_LABEL) for reference in plot.references)]

    def paint(axes: Axes) -> list[Value]:
        dots = {}
        for row, point in enumerate(plot.points):
            mark, colour, marker = marks.get(row, ("", "muted", "o"))
            colour = LIGHT[colour]
            axes.plot([point.low, point.high], [row, row], color=colour, lw=5, alpha=0.35)
            (dots[mark],) = axes.plot([point.x], [row], color=colour, marker=marker, ms=7, ls="")
        axes.set_yticks(range(rows), [shortened(point.label, ROW_LABEL) for point in plot.points])
        axes.set_ylim(rows - 0.4, -0.6)
        values = [end for point in plot.points for end in (point.low, point.x, point.high)]
        value_axis(axes, "x", [*values, *(reference.value for reference in plot.references)])
        handles = [dots[mark] for mark in marked] + references(axes, plot.references)
        axes.grid(visible=False, axis="y")
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel(plot.x_label)
        if labels:
            legend(axes, handles, labels)
        return [
            Value(point.x, row, worded(point.label, "", point.x, plot.x_label))
            for row, point in enumerate(plot.points)
        ]

    row_inches = 0.32 if rows <= _MOST_ROWS / 2 else 0.24
    height = 0.9 + row_inches * rows + legend_inches(labels)
    return draw(paint, name=name, description=description, height_inches=height)
