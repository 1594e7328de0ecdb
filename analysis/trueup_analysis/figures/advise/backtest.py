"""Each known result, predicted from the others: how good advice is, and how wide a range is."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from .estimates import PUBLISHED, UNTESTED, Range, around, spread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .kinds.kind import Point, Prediction, Tells
    from .knowledge import Knowledge

# Fewer errors than this say nothing of the next one.
LEAST_ERRORS = 3


class Tested(NamedTuple):
    """One known result beside what the others predict.

    Attributes:
        point: the result.
        range: the prediction; None where the others say nothing of it, with ``reason``.
    """

    kind: str
    point: Point
    range: Range | None
    reason: str = ""

    @property
    def error(self) -> float:
        """How much too high the prediction is, as a part of the known value."""
        assert self.range is not None  # noqa: S101 (asked of a prediction alone)
        return self.range.value / self.point.rate - 1

    @property
    def covered(self) -> bool:
        return self.range is not None and self.range.holds(self.point.rate)


def errors(kind: Tells, points: Sequence[Point], known: Knowledge) -> list[float]:
    """``ln(predicted / known)`` of each point from the others, where they say something of it."""
    found = []
    for place, point in enumerate(points):
        made = kind.predict(point, [*points[:place], *points[place + 1 :]], known)
        if made is not None:
            found.append(math.log(made.rate / point.rate))
    return found


def factor(kind: Tells, points: Sequence[Point], known: Knowledge) -> float | None:
    """How many times more or less than predicted a result may be; None where too little is known
    to say."""
    found = errors(kind, points, known)
    return spread(found) if len(found) >= LEAST_ERRORS else None


def expected(made: Prediction, wide: float) -> Range:
    """The range of a prediction: wider where the data have not been, since nothing tested that."""
    return around(made.rate, wide * (UNTESTED if made.beyond else 1.0))


def test(kind: Tells, known: Knowledge) -> list[Tested]:
    """Each published result from the others. Its range is as wide as the others' errors among
    themselves ask for: the result that is predicted has no part in it."""
    points = [one for one in kind.points(known) if one.evidence and one.evidence.kind == PUBLISHED]
    told = []
    for place, point in enumerate(points):
        others = [
            one
            for one in (*points[:place], *points[place + 1 :])
            if one.condition == point.condition
        ]
        made = kind.predict(point, others, known)
        wide = factor(kind, others, known)
        if made is None:
            told.append(Tested(kind.name, point, None, "the others say nothing of it"))
        elif wide is None:
            told.append(Tested(kind.name, point, None, "too few others to say how good it is"))
        else:
            told.append(Tested(kind.name, point, expected(made, wide)))
    return told


def coverage(told: Sequence[Tested]) -> tuple[int, int, float]:
    """How many known values lie in their range, of how many, and the median width of a range."""
    made = [one for one in told if one.range is not None]
    widths = sorted(one.range.width for one in made if one.range is not None)
    middle = widths[len(widths) // 2] if widths else math.nan
    return sum(one.covered for one in made), len(made), middle
