"""Common to all kinds of plots: the figures of a measure, and their references."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ...render.plots.data import Reference
from ...render.plots.drawing import Drawing
from ...rooms import judged_by
from ...units import in_unit, scaled_to, size_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trueup_node.cases import Case
    from trueup_node.cases import Figure as Row
    from trueup_node.health.expectations import Expectation, Expectations
    from trueup_node.view import Measure

    from ...figures.frames import Heads
    from ...figures.groups import Group
    from ...figures.sizes import Sizes

PAIR: Final = 2
_REFERENCES: Final = 4
_SIGNS: Final = {"at_least": "at least", "at_most": "at most", "exactly": "exactly"}
# How to draw it (by name and finding), its caption, and the finding in words.
Drawn = tuple[Callable[..., Drawing], str, str]


@dataclass(frozen=True)
class Judged:
    """The references of figures.

    Attributes:
        heads: the headline figures of the cases.
        bad: (node, benchmark) of each verdict but passes, to be named in plots of a fleet.
    """

    expectations: Expectations
    sizes: Sizes
    heads: Heads
    bad: frozenset[tuple[str, str]] = frozenset()


def axis(measures: Sequence[Measure]) -> str:
    """ "bus bandwidth, GB/s": the title of the axis of figures."""
    labels = list(dict.fromkeys(measure.label for measure in measures))
    unit = measures[0].shown
    if len(labels) > PAIR and unit:
        return unit
    return f"{' and '.join(labels[:PAIR])}{', ' + unit if unit else ''}"


def figures_of(case: Case, measure: Measure, statistic: str = "") -> list[Row]:
    """The rows that stand for a measure: those of one statistic."""
    chosen = statistic or measure.statistic
    return case.typical(measure.metric, "" if chosen == "median" else chosen)


def by_unit(measures: Sequence[Measure]) -> list[list[Measure]]:
    """Measures that may share an axis: those of one unit."""
    units: dict[str, list[Measure]] = {}
    for measure in measures:
        units.setdefault(measure.shown, []).append(measure)
    return list(units.values())


def references(
    measures: Sequence[Measure], members: Sequence[Group], judged: Judged
) -> tuple[Reference, ...]:
    """The expectations of the measures, each once."""
    by_value: dict[tuple[float, int | None], Reference] = {}
    for group in members:
        for measure in measures:
            for item in judged_by(group.cases[0], measure.metric, judged.expectations):
                if item.expected.base_unit == measure.unit:
                    reference = _reference(item, measure)
                    by_value.setdefault((reference.value, item.message_bytes), reference)
    return tuple(by_value.values())[:_REFERENCES]


def _reference(item: Expectation, measure: Measure) -> Reference:
    sign, size = _SIGNS.get(item.comparison, ""), item.message_bytes
    at = "" if size is None else f" at {size_of(size)}"
    label = f"expected {sign} {in_unit(item.expected.base, measure.shown)} {measure.shown}{at}"
    value = scaled_to(item.expected.base, measure.shown)
    return Reference(value, label.strip(), None if size is None else float(size))
