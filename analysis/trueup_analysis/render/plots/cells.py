"""Matrices."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl
import numpy as np
from matplotlib.colorbar import make_axes
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from .axes import legend, plain, shortened, title_y, worded
from .data import MatrixPlot, Value
from .drawing import Drawing, draw
from .palette import LIGHT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

_MATRIX_LABEL: Final = 18
_MATRIX_LABELS: Final = 24
_CELLS_WITH_NUMBERS: Final = 16
# Of more rows or columns a cell is too small to point at.
_CELLS_WITH_VALUES: Final = 32
# An image of 200,000 cells takes at most 267 kB in base64 with a byte a cell. With 4 bits a cell
# 600 x 600 take 240 kB: 15 colours, and one for pairs not measured.
_CELLS_IN_ALL_COLOURS: Final = 200_000
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

    def paint(axes: Axes) -> list[Value]:
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
        title_y(axes, plot.row_title)
        colorbar, _ = make_axes(axes, location="right", fraction=0.05, pad=0.02)
        extent = (0.0, 1.0, low, high)
        colorbar.imshow(shades[:, None], extent=extent, origin="lower", interpolation="none")
        colorbar.set(aspect="auto", xticks=[], ylabel=plot.value_label)
        colorbar.yaxis.set_label_position("right")
        colorbar.yaxis.tick_right()
        colorbar.yaxis.set_major_locator(MaxNLocator(5))
        colorbar.yaxis.set_major_formatter(FuncFormatter(plain))
        for panel in (axes, colorbar):
            panel.grid(visible=False)
            panel.spines[:].set_visible(True)
            panel.tick_params(length=2)
        if not measured.all():
            legend(axes, [Patch(**_NOT_MEASURED)], ["not measured"])
        return _values(plot) if max(rows, columns) <= _CELLS_WITH_VALUES else []

    return draw(paint, name=name, description=description, height_inches=side + 0.9)


def _values(plot: MatrixPlot) -> list[Value]:
    return [
        Value(
            column,
            row,
            worded(
                f"{plot.row_title} {plot.row_labels[row]}",
                f"{plot.column_title} {plot.column_labels[column]}",
                value,
                plot.value_label,
            ),
            1.0,
            1.0,
        )
        for row, values in enumerate(plot.values)
        for column, value in enumerate(values)
        if value is not None
    ]


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
        places = [index for index, label in enumerate(labels) if label in plot.marked]
        step = 1 if room <= 1 else 2 if room <= 2 else 5 * math.ceil(room / 5)
        places += range(0, len(labels), step)
        written: list[int] = []
        for index in places:
            if all(abs(index - other) >= room for other in written):
                written.append(index)
        written.sort()
        tick_labels = [shortened(labels[index], _MATRIX_LABEL) for index in written]
        axis.set_ticks(written, tick_labels, fontsize=8)
        for index, text in zip(written, axis.get_ticklabels(), strict=True):
            if labels[index] in plot.marked:
                text.set(color=LIGHT["second"], weight="bold")
        # Level where the longest fits, else from bottom to top.
        width = 4.0 * 72 / min(len(labels), _MATRIX_LABELS)
        if axis is axes.xaxis and max(map(len, tick_labels)) * 0.64 * 8 > width:
            axis.set_tick_params(rotation=90)
