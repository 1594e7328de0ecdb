"""Axes, ticks, legends and references that several kinds of plots have."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, Literal

from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from ... import units
from .data import LinesPlot, Point, Reference
from .palette import LEGEND_PAIR, LIGHT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes

_REFERENCE_DASHES: Final[tuple[Any, ...]] = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1, 2)))
_BYTE_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_TWO_DECADES: Final = 100


def measured(axes: Axes, points: Sequence[Point], *, label: str, line: bool) -> None:
    accent = LIGHT["accent"]
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


def title_y(axes: Axes, text: str) -> None:
    """The y axis' title, level and above it: readable, and no wider in a font other than the one
    measured.
    """
    axes.set_title(text, loc="left", fontsize=10, color=LIGHT["ink"], pad=8, x=0.0, y=1.0)


def worded(label: str, place: str, value: float, title: str) -> str:
    """ "h100-0017, 16 GiB: 236.1 GB/s": the unit is the end of the axis' title."""
    unit = title.rpartition(", ")[2] if ", " in title else ""
    where = ", ".join(filter(None, (units.text(label), place)))
    return f"{where}: {units.significant(value, 4)} {unit.partition(' (')[0]}".rstrip()


def shortened(text: str, most: int) -> str:
    """A label from data on one line; a longer one loses its middle, as names differ at the ends."""
    label = units.text(text)
    return label if len(label) <= most else f"{label[: most // 2]}…{label[-(most - 1) // 2 :]}"


def legend(axes: Axes, handles: Sequence[Any] = (), labels: Sequence[str] = ()) -> None:
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
    longest = [
        max(map(len, half_labels), default=0) for half_labels in (labels[:half], labels[half:])
    ]
    return 2 if len(labels) > 3 and sum(longest) <= LEGEND_PAIR else 1


def legend_inches(labels: Sequence[str]) -> float:
    return 0.2 * math.ceil(len(labels) / _legend_columns(labels))


def references(
    axes: Axes, references: Sequence[Reference], at: Callable[[float], float] | None = None
) -> list[Any]:
    """A line at each reference's value: across the plot, or around its x, which ``at`` places;
    without it values run along the x axis.
    """
    handles = []
    for number, reference in enumerate(references):
        dash = _REFERENCE_DASHES[number % len(_REFERENCE_DASHES)]
        ink = LIGHT["ink"]
        if at is None:
            drawn = axes.axvline(reference.value, color=ink, ls=dash, lw=1.4)
        elif reference.x is None:
            drawn = axes.axhline(reference.value, color=ink, ls=dash, lw=1.4)
        else:
            scale = axes.xaxis.get_transform()
            (middle,) = scale.transform([at(reference.x)])
            left_end, right = scale.transform(axes.get_xlim())
            reach = (right - left_end) * 0.04
            ends = scale.inverted().transform([middle - reach, middle, middle + reach])
            ys = [reference.value] * 3
            (drawn,) = axes.plot(ends, ys, color=ink, ls=dash, lw=2, zorder=2.5)
            # Hollow: the measured points there stay in sight.
            drawn.set(marker="d", markevery=[1], markersize=8, markerfacecolor="none")
        handles.append(drawn)
    return handles


def number_axis(axes: Axes, plot: LinesPlot) -> Callable[[float], float]:
    """Set the x axis of lines; returns where an x stands: 0 on a logarithmic axis left of the
    others.
    """
    xs = sorted({x for line in plot.lines for x in line.xs} | _judged(plot.references))
    if plot.x_scale == "linear":
        return _linear_axis(axes, xs)
    return _log_axis(axes, xs, of_bytes=plot.x_scale == "bytes")


def _linear_axis(axes: Axes, xs: Sequence[float]) -> Callable[[float], float]:
    margin = (xs[-1] - xs[0]) * 0.05 or 0.5
    axes.set_xlim(xs[0] - margin, xs[-1] + margin)
    are_integers = all(x == int(x) for x in xs)
    between = MaxNLocator(8, integer=are_integers, steps=[1, 2, 5, 10])
    axes.xaxis.set_major_locator(between if len(xs) > 1 else FixedLocator(xs))
    axes.xaxis.set_major_formatter(FuncFormatter(plain))
    return lambda x: x


def _log_axis(axes: Axes, xs: Sequence[float], *, of_bytes: bool) -> Callable[[float], float]:
    low, high = next((x for x in xs if x > 0), 1.0), xs[-1]
    zero = low / 4
    # Labels like 512 KiB take an eighth of the axis, numbers less.
    widest = (high / low) ** (0.13 if of_bytes else 0.08)
    ticks = [x for x in xs if x > 0]
    if any(b / a < widest for a, b in zip(ticks, ticks[1:], strict=False)):
        ticks = _octaves(low, high, most=7) if of_bytes else one_two_five(low, high)
    write = in_bytes if of_bytes else plain
    axes.set_xscale("log", base=2 if of_bytes else 10)
    axes.xaxis.set_major_locator(FixedLocator([*([zero] if xs[0] <= 0 else []), *ticks]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: write(0.0 if x == zero else x)))
    margin = max((high / low) ** 0.05, 1.25)
    axes.set_xlim((zero if xs[0] <= 0 else low) / margin, high * margin)
    return lambda x: x if x > 0 else zero


def _judged(references: Sequence[Reference]) -> set[float]:
    return {reference.x for reference in references if reference.x is not None}


def value_axis(
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
        axis.set_major_locator(FixedLocator(one_two_five(low / 1.3, high * 1.3)))
        axis.set_minor_locator(NullLocator())
    else:
        set_limits(min(low * 1.06, 0.0), max(high * 1.06, 0.0) or 1.0)
        axis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axis.set_major_formatter(FuncFormatter(plain))


def log2_axis(axes: Axes, which: str, values: Sequence[float], *, marks: Sequence[float]) -> None:
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
    axis.set_major_formatter(FuncFormatter(plain))
    margin = 1.12 if high / low < 4 else 1.25  # room for the outer markers
    limits = (low / margin, high * margin)
    (axes.set_xlim if which == "x" else axes.set_ylim)(*limits)


def _octaves(low: float, high: float, *, most: int) -> list[float]:
    """Powers of two: each, or each second, fifth or tenth, which 1 KiB, 1 MiB and 1 GiB are too."""
    powers = range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1)
    step = next(step for step in (1, 2, 5, 10) if len(powers) / step <= most or step == 10)
    return [2.0**power for power in powers if power % step == 0]


def plain(value: float, _position: object = None) -> str:
    return f"{value:,.10g}"


def in_bytes(value: float) -> str:
    step = min(int(math.log2(value)) // 10, len(_BYTE_UNITS) - 1) if value >= 1 else 0
    return f"{value / 1024**step:.4g} {_BYTE_UNITS[step]}"


def one_two_five(low: float, high: float) -> list[float]:
    """Ticks at 1, 2 and 5 of each decade; of 1 only when there would be more than eight."""
    decades = range(-12, 16)
    fine = [m * 10.0**d for d in decades for m in (1, 2, 5) if low <= m * 10.0**d <= high]
    coarse = [10.0**d for d in decades if low <= 10.0**d <= high]
    return fine if len(fine) <= 8 or len(coarse) < 2 else coarse  # an axis needs two
