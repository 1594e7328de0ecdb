"""Lines over message sizes, or over a parameter's values."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from statistics import median, quantiles
from typing import TYPE_CHECKING, Final, Literal

from ...figures.groups import apart_words, differing
from ...render.plots.curves import draw_lines
from ...render.plots.data import Line, LinesPlot, Reference
from ...units import number, plural, scaled_to, size_of
from .common import PAIR, Drawn, Judged, axis, by_unit, figures_of, references

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trueup_node.cases import Case
    from trueup_node.view import Chart, Measure

    from ...figures.groups import Group

_LINES: Final = 8
# More nodes than this are one band, with those that do not pass as lines of their own.
_SINGLE_NODES: Final = 4
_OUTLIERS: Final = 5
# A case, a device of it, and its figure by message size.
_Curve = tuple["Case", "str | None", dict[int, float]]


def over_sizes(chart: Chart, groups: Sequence[Group], judged: Judged) -> Iterator[Drawn]:
    """Lines over message sizes: machines that measured the same over each other where their lines
    fit one plot, else a plot each."""
    together: dict[tuple[object, ...], dict[str, list[Group]]] = {}
    for group in groups:
        together.setdefault(group.apart, {}).setdefault(group.machine, []).append(group)
    for machines in together.values():
        for measures in by_unit(chart.measures):
            lines = {
                machine: _size_lines(chart, measures, members, judged)
                for machine, members in machines.items()
            }
            lines = {machine: drawn for machine, drawn in lines.items() if _is_curve(drawn)}
            one_plot = len(lines) > 1 and sum(map(len, lines.values())) <= _LINES
            for plotted in [[*lines]] if one_plot else [[machine] for machine in lines]:
                members = [group for machine in plotted for group in machines[machine]]
                words = apart_words(members[0], differing(groups)) or members[0].label
                where = plotted[0] if len(plotted) == 1 else f"{len(plotted)} machines"
                title = f"{chart.title}: {words}, {where}."
                drawn = [line for machine in plotted for line in _named(machine, lines, plotted)]
                yield _over_sizes(title, drawn, measures, references(measures, members, judged))


def _is_curve(lines: Sequence[Line]) -> bool:
    return bool(lines) and max(len(line.xs) for line in lines) >= PAIR


def _named(
    machine: str, lines: Mapping[str, Sequence[Line]], plotted: Sequence[str]
) -> Iterator[Line]:
    """The lines of a machine, with its name beside others."""
    for line in lines[machine]:
        name = machine.removeprefix("Standard_")
        # Grey is for the one median of a plot.
        role = "main" if line.role == "usual" else line.role
        several = len(plotted) > 1
        yield line._replace(label=f"{name}, {line.label}", role=role) if several else line


def _over_sizes(
    title: str, lines: Sequence[Line], measures: Sequence[Measure], expected: tuple[Reference, ...]
) -> Drawn:
    # A rate is read where it levels out, which a logarithmic axis hides.
    scale: Literal["auto", "linear"] = "linear" if measures[0].direction == "higher" else "auto"
    plot = LinesPlot(
        "message size", axis(measures), tuple(lines), "bytes", scale, references=expected
    )
    return (
        partial(draw_lines, plot),
        _caption(title, lines),
        _line_finding(title, lines, measures[0], expected, size_of),
    )


def _size_lines(
    chart: Chart, measures: Sequence[Measure], members: Sequence[Group], judged: Judged
) -> list[Line]:
    lines: list[Line] = []
    for measure in measures:
        for statistic in chart.statistics or ("",):
            words = [measure.label] if len(measures) > 1 else []
            words += [statistic] if len(chart.statistics) > 1 else []
            for group in members:
                lines += _group_lines(group, measure, statistic, words, judged)
    return lines[:_LINES]


def _group_lines(
    group: Group, measure: Measure, statistic: str, words: Sequence[str], judged: Judged
) -> list[Line]:
    """One line a case; of many nodes their median with a band, and those that do not pass."""
    curves = [
        (case, device, curve)
        for case in group.cases
        for device, curve in _by_device(case, measure, statistic).items()
    ]
    if len(curves) <= _SINGLE_NODES:
        return [_line(words, curve, measure) for curve in curves]
    bad = [
        curve
        for curve in curves
        if any((node, group.benchmark) in judged.bad for node in curve[0].nodes)
    ]
    count = plural(len(curves), "node" if len(group.nodes) > 1 else "device")
    usual = _band_line([*words, f"median of {count}, 10th to 90th percentile"], curves, measure)
    return [usual, *(_line(words, curve, measure, "outlier") for curve in bad[:_OUTLIERS])]


def _by_device(case: Case, measure: Measure, statistic: str) -> dict[str | None, dict[int, float]]:
    """Device -> its figure by message size."""
    curves: dict[str | None, dict[int, float]] = {}
    for row in figures_of(case, measure, statistic):
        if row.message_bytes:
            curves.setdefault(row.device, {})[row.message_bytes] = row.value
    return curves


def _band_line(words: Sequence[str], curves: Sequence[_Curve], measure: Measure) -> Line:
    values: dict[int, list[float]] = {}
    for _, _, curve in curves:
        for size, value in curve.items():
            values.setdefault(size, []).append(value)
    sizes = sorted(values)
    low, middle, high = zip(
        *(
            tuple(scaled_to(value, measure.shown) for value in _band(values[size]))
            for size in sizes
        ),
        strict=True,
    )
    return Line(", ".join(words), tuple(map(float, sizes)), middle, low, high, role="usual")


def _band(values: Sequence[float]) -> tuple[float, float, float]:
    """10th percentile, median, 90th percentile."""
    if len(values) < PAIR:
        return values[0], values[0], values[0]
    tenths = quantiles(values, n=10, method="inclusive")
    return tenths[0], median(values), tenths[-1]


def _line(
    words: Sequence[str],
    curve: _Curve,
    measure: Measure,
    role: Literal["main", "outlier"] = "main",
) -> Line:
    case, device, values = curve
    node = case.nodes[0] if len(case.nodes) == 1 else plural(len(case.nodes), "node")
    sizes = sorted(values)
    return Line(
        ", ".join([*words, node, *([device] if device else [])]),
        tuple(map(float, sizes)),
        tuple(scaled_to(values[size], measure.shown) for size in sizes),
        role=role,
    )


def _caption(title: str, lines: Sequence[Line]) -> str:
    named = sum(line.role == "outlier" for line in lines)
    if not named:
        return title
    if named == 1:
        return f"{title} The node that does not pass is a line of its own."
    return f"{title} {named} nodes that do not pass are lines of their own."


def _line_finding(
    title: str,
    lines: Sequence[Line],
    measure: Measure,
    expected: Sequence[Reference],
    show_position: Callable[[int], str],
) -> str:
    """The ends of each line, and the expectations."""
    unit = f" {measure.shown}" if measure.shown else ""
    sentences = [
        f"{line.label}: {line.ys[0]:.4g}{unit} at {show_position(int(line.xs[0]))},"
        f" {line.ys[-1]:.4g}{unit} at {show_position(int(line.xs[-1]))}"
        for line in lines
    ]
    sentences += [f"{reference.label[:1].upper()}{reference.label[1:]}" for reference in expected]
    return f"{title} " + "; ".join(sentences) + "."


def over_parameter(chart: Chart, groups: Sequence[Group]) -> Iterator[Drawn]:
    """Lines over a parameter's values, those of other machines beside them."""
    together: dict[tuple[object, ...], dict[str, list[tuple[float, Group]]]] = {}
    for group in groups:
        x = number(group.cases[0].parameters.get(chart.over))
        # 0 stands for "no limit", which has no place on an axis.
        if x is None or x <= 0:
            continue
        rest = tuple(pair for pair in group.apart if pair[0] not in (chart.over, *chart.along))
        together.setdefault(rest, {}).setdefault(group.machine, []).append((x, group))
    for machines in together.values():
        for measures in by_unit(chart.measures):
            lines = [
                line
                for machine, members in machines.items()
                for line in _parameter_lines(
                    chart, measures, members, machine if len(machines) > 1 else ""
                )
            ][:_LINES]
            if not lines or max(len(line.xs) for line in lines) < PAIR:
                continue
            parameter = chart.over.replace("_", " ")
            title = f"{chart.title}."
            plot = LinesPlot(
                parameter, axis(measures), tuple(lines), "log" if chart.log else "linear"
            )
            yield (
                partial(draw_lines, plot),
                title,
                _line_finding(title, lines, measures[0], (), partial("{} {}".format, parameter)),
            )


def _parameter_lines(
    chart: Chart, measures: Sequence[Measure], members: Sequence[tuple[float, Group]], machine: str
) -> list[Line]:
    lines = []
    for measure in measures:
        for statistic in chart.statistics or ("",):
            by_parameter = _by_parameter(members, measure, statistic)
            if not by_parameter:
                continue
            words = [machine.removeprefix("Standard_")] if machine else []
            words += [measure.label] if len(measures) > 1 or not words else []
            words += [statistic] if len(chart.statistics) > 1 else []
            every = list(by_parameter.values())
            several = max(map(len, every)) > 1
            low, high = (tuple(map(end, every)) if several else () for end in (min, max))
            middle = tuple(map(median, every))
            lines.append(Line(", ".join(words), tuple(by_parameter), middle, low, high))
    return lines


def _by_parameter(
    members: Sequence[tuple[float, Group]], measure: Measure, statistic: str
) -> dict[float, list[float]]:
    """The parameter's value -> figures of whole cases, as shown."""
    points: dict[float, list[float]] = {}
    for x, group in members:
        for case in group.cases:
            for row in figures_of(case, measure, statistic):
                if row.device is None and row.message_bytes is None:
                    points.setdefault(x, []).append(scaled_to(row.value, measure.shown))
    return dict(sorted(points.items()))
