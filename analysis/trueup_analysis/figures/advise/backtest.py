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
    """One known result beside the prediction from the others.

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


def errors(kind: Tells, points: Sequence[Point], knowledge: Knowledge) -> list[float]:
    """``ln(predicted / known)`` of each point from the others, where they say something of it."""
    log_errors = []
    for index, point in enumerate(points):
        prediction = kind.predict(point, [*points[:index], *points[index + 1 :]], knowledge)
        if prediction is not None:
            log_errors.append(math.log(prediction.rate / point.rate))
    return log_errors


def factor(kind: Tells, points: Sequence[Point], knowledge: Knowledge) -> float | None:
    """How many times more or less than predicted a result may be; None where too little is known
    to say."""
    log_errors = errors(kind, points, knowledge)
    return spread(log_errors) if len(log_errors) >= LEAST_ERRORS else None


def expected(prediction: Prediction, wide: float) -> Range:
    """The range of a prediction: wider where the data have not been, since nothing tested that."""
    return around(prediction.rate, wide * (UNTESTED if prediction.beyond else 1.0))


def test(kind: Tells, knowledge: Knowledge) -> list[Tested]:
    """Each published result from the others. Its range is as wide as the others' errors among
    themselves ask for: the result that is predicted has no part in it."""
    points = [
        point
        for point in kind.points(knowledge)
        if point.evidence and point.evidence.kind == PUBLISHED
    ]
    trials = []
    for index, point in enumerate(points):
        peers = [
            peer
            for peer in (*points[:index], *points[index + 1 :])
            if peer.condition == point.condition
        ]
        prediction = kind.predict(point, peers, knowledge)
        wide = factor(kind, peers, knowledge)
        if prediction is None:
            trials.append(Tested(kind.name, point, None, "the others say nothing of it"))
        elif wide is None:
            trials.append(Tested(kind.name, point, None, "too few others to say how good it is"))
        else:
            trials.append(Tested(kind.name, point, expected(prediction, wide)))
    return trials


def coverage(trials: Sequence[Tested]) -> tuple[int, int, float]:
    """How many known values lie in their range, of how many, and the median width of a range."""
    predicted = [trial for trial in trials if trial.range is not None]
    widths = sorted(trial.range.width for trial in predicted if trial.range is not None)
    middle = widths[len(widths) // 2] if widths else math.nan
    return sum(trial.covered for trial in predicted), len(predicted), middle
