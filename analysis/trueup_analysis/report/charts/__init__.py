"""The plots of a benchmark's section, from its view alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...render.html import Figure
from ...rooms import view_of
from .lines import over_parameter, over_sizes
from .matrices import matrices
from .rows import over_cases, over_devices

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trueup_node.view import Chart

    from ...figures.groups import Group
    from .common import Drawn, Judged

# Plots of one kind in one section; the table has the rest.
_PLOTS: Final = 6


def charts(groups: Sequence[Group], judged: Judged) -> list[Figure]:
    """The plots of one benchmark's groups, in the order of its view."""
    if not groups:
        return []
    view = view_of(groups[0].benchmark)
    figures: list[Figure] = []
    for number, chart in enumerate(view.charts if view is not None else (), 1):
        drawn = list(_drawn(chart, groups, judged))[:_PLOTS]
        for again, (plot, caption, description) in enumerate(drawn, 1):
            name = f"{groups[0].benchmark}-{number}" + (f"-{again}" if len(drawn) > 1 else "")
            figures.append(Figure(name, caption, plot(name=name, description=description)))
    return figures


def _drawn(chart: Chart, groups: Sequence[Group], judged: Judged) -> Iterator[Drawn]:
    """The plots of one chart: how to draw, the caption, and the finding in words."""
    if chart.kind == "matrix":
        return matrices(chart, groups, judged)
    if chart.kind == "rows":
        over = over_devices if chart.over == "device" else over_cases
        return over(chart, groups, judged)
    if chart.over == "message_bytes":
        return over_sizes(chart, groups, judged)
    return over_parameter(chart, groups)
