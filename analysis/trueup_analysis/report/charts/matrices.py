"""Matrices: from device to device, or from node to node."""

from __future__ import annotations

from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Final

from ...render.plots.cells import draw_matrix
from ...render.plots.data import MatrixPlot
from ...units import scaled_to
from .common import PAIR, Drawn, Judged, axis, figures_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trueup_node.view import Chart, Measure

    from ...figures.groups import Group

# Rows and columns: those in the worst pairs, where there are more.
_CELLS: Final = 600


def matrices(chart: Chart, groups: Sequence[Group], judged: Judged) -> Iterator[Drawn]:
    for measure in chart.measures:
        parts: dict[tuple[object, ...], list[Group]] = {}
        for group in groups:
            if chart.over == "node" and group.node_count != PAIR:
                continue
            parts.setdefault((group.machine, group.apart), []).append(group)
        for members in parts.values():
            cells = (
                _node_cells(members, measure)
                if chart.over == "node"
                else _device_cells(members, measure)
            )
            if len(cells) < PAIR:
                continue
            yield _matrix(chart, members, measure, cells, judged)


def _device_cells(members: Sequence[Group], measure: Measure) -> dict[tuple[str, str], float]:
    """From device to device; of several nodes the worst figure of each pair."""
    pick = min if measure.direction == "higher" else max
    cells: dict[tuple[str, str], float] = {}
    for group in members:
        for case in group.cases:
            for row in figures_of(case, measure):
                source, _, other = (row.device or "").partition(">")
                if other:
                    value = scaled_to(row.value, measure.shown)
                    cells[source, other] = pick(cells.get((source, other), value), value)
    return cells


def _node_cells(members: Sequence[Group], measure: Measure) -> dict[tuple[str, str], float]:
    """From node to node; of several adapters the worst."""
    pick = min if measure.direction == "higher" else max
    cells: dict[tuple[str, str], float] = {}
    for group in members:
        for case in group.cases:
            if len(case.nodes) != PAIR:
                continue
            rows = figures_of(case, measure)
            largest = max((row.message_bytes or 0 for row in rows), default=0)
            for row in rows:
                if (row.message_bytes or 0) == largest:
                    key = (case.nodes[0], case.nodes[1])
                    value = scaled_to(row.value, measure.shown)
                    cells[key] = pick(cells.get(key, value), value)
    return cells


def _matrix(
    chart: Chart,
    members: Sequence[Group],
    measure: Measure,
    cells: dict[tuple[str, str], float],
    judged: Judged,
) -> Drawn:
    pick = min if measure.direction == "higher" else max
    worst_first = sorted(cells, key=lambda pair: cells[pair], reverse=pick is max)
    worst_labels = list(dict.fromkeys(label for pair in worst_first for label in pair))[:_CELLS]
    labels = sorted(worst_labels, key=_by_number)
    (row, other), worst = pick(cells.items(), key=lambda item: item[1])
    nodes = list(dict.fromkeys(node for group in members for node in group.nodes))
    where = f"on {nodes[0]}" if len(nodes) == 1 else f"on {len(nodes):,} nodes"
    rule = ""
    if chart.over != "node" and len(nodes) > 1:
        rule = " Each cell is the worst node's figure."
    title = f"{chart.title}, {where}."
    plot = MatrixPlot(
        row_title="from",
        column_title="to",
        value_label=axis([measure]),
        row_labels=tuple(labels),
        column_labels=tuple(labels),
        values=tuple(tuple(cells.get((a, b)) for b in labels) for a in labels),
        marked=frozenset(label for label in labels if (label, members[0].benchmark) in judged.bad),
    )
    middle = median(cells.values())
    description = (
        f"{title} Median {middle:.4g} {measure.shown}; worst {worst:.4g} {measure.shown} from {row}"
        f" to {other}."
    )
    return (
        partial(draw_matrix, plot),
        f"{title}{rule} The worst is {worst:.4g} {measure.shown}, from {row} to {other}.",
        description,
    )


def _by_number(label: str) -> tuple[str, int, str]:
    digits = "".join(char for char in label if char.isdecimal())[-12:]
    return label.rstrip("0123456789"), int(digits or 0), label
