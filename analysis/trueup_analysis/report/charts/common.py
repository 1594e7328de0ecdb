"""What the kinds of plots share: which figures a measure has, and what they are held against."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ...figures.views import judged_by
from ...render.plots.data import Reference
from ...render.plots.drawing import Drawing
from ...units import in_unit, scaled_to, size_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trueup.cases import Case
    from trueup.cases import Figure as Row
    from trueup.health.expectations import Expectation, Expectations
    from trueup.view import Measure

    from ...figures.groups import Group
    from ...figures.heads import Heads
    from ...figures.sizes import Sizes

PAIR: Final = 2
_REFERENCES: Final = 4
_SIGNS: Final = {"at_least": "at least", "at_most": "at most", "exactly": "exactly"}
# How to draw it (by name and finding), its caption, and the finding in words.
Drawn = tuple[Callable[..., Drawing], str, str]


@dataclass(frozen=True)
class Judged:
    """What figures are held against.

    Attributes:
        heads: the figures that stand for the cases.
        bad: (node, benchmark) of what does not pass, to be named in plots of a fleet.
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
    asked = statistic or measure.statistic
    return case.typical(measure.metric, "" if asked == "median" else asked)


def by_unit(measures: Sequence[Measure]) -> list[list[Measure]]:
    """Measures that may share an axis: those of one unit."""
    units: dict[str, list[Measure]] = {}
    for measure in measures:
        units.setdefault(measure.shown, []).append(measure)
    return list(units.values())


def references(
    measures: Sequence[Measure], members: Sequence[Group], judged: Judged
) -> tuple[Reference, ...]:
    """What is expected of the measures, each once."""
    found: dict[tuple[float, int | None], Reference] = {}
    for group in members:
        for measure in measures:
            for item in judged_by(group.cases[0], measure.metric, judged.expectations):
                if item.expected.base_unit == measure.unit:
                    made = _reference(item, measure)
                    found.setdefault((made.value, item.message_bytes), made)
    return tuple(found.values())[:_REFERENCES]


def _reference(item: Expectation, measure: Measure) -> Reference:
    sign, size = _SIGNS.get(item.comparison, ""), item.message_bytes
    at = "" if size is None else f" at {size_of(size)}"
    label = f"expected {sign} {in_unit(item.expected.base, measure.shown)} {measure.shown}{at}"
    value = scaled_to(item.expected.base, measure.shown)
    return Reference(value, label.strip(), None if size is None else float(size))
