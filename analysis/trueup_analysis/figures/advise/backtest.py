"""Each known result, predicted from those of other sources: how good advice is, and how wide
ranges are."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from .estimates import PUBLISHED, UNTESTED, Range, around, spread

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .knowledge import Knowledge
    from .points import Point, Prediction, Tells

# Fewer errors than this say nothing of the next one.
LEAST_ERRORS = 3
# The parts that were held out: all results of a source, or of the only source one result.
SOURCE, ROW = "publisher", "result"


class Trial(NamedTuple):
    """One known result and its prediction from the others.

    Attributes:
        prediction: None where the others say nothing of it.
        held: SOURCE or ROW, the part that was held out with it.
    """

    point: Point
    prediction: Prediction | None
    held: str

    @property
    def error(self) -> float:
        """The logarithm of predicted over known, over the doubt of the prediction."""
        assert self.prediction is not None  # noqa: S101 (asked of a prediction alone)
        return math.log(self.prediction.rate / self.point.rate) / self.prediction.doubt


class Tested(NamedTuple):
    """One known result beside the prediction from the others.

    Attributes:
        point: the result.
        range: the prediction; None where the others say nothing of it, with ``reason``.
        held: SOURCE or ROW.
        distance: of the nearest other result.
    """

    kind: str
    point: Point
    range: Range | None
    reason: str = ""
    held: str = SOURCE
    distance: str = ""

    @property
    def error(self) -> float:
        """How much too high the prediction is, as a part of the known value."""
        assert self.range is not None  # noqa: S101 (asked of a prediction alone)
        return self.range.value / self.point.rate - 1

    @property
    def covered(self) -> bool:
        return self.range is not None and self.range.holds(self.point.rate)


def trials(kind: Tells, points: Sequence[Point], knowledge: Knowledge) -> Iterator[Trial]:
    """Each point from the points of other sources; where there is one source, from the others."""
    by_source: dict[str, list[Point]] = {}
    for point in points:
        by_source.setdefault(point.source, []).append(point)
    if len(by_source) == 1:
        for index, point in enumerate(points):
            peers = [*points[:index], *points[index + 1 :]]
            yield Trial(point, kind.predict(point, peers, knowledge), ROW)
        return
    for source, held_out in by_source.items():
        peers = [point for point in points if point.source != source]
        for point in held_out:
            yield Trial(point, kind.predict(point, peers, knowledge), SOURCE)


def width(kind: Tells, points: Sequence[Point], knowledge: Knowledge) -> float | None:
    """How many times more or less than predicted a result may be, at a doubt of 1. None where too
    little is known to say."""
    return _width([trial for trial in trials(kind, points, knowledge) if trial.prediction])


def _width(known: Sequence[Trial]) -> float | None:
    if len(known) < LEAST_ERRORS:
        return None
    return spread([trial.error for trial in known])


def expected(prediction: Prediction, wide: float) -> Range:
    """The range of a prediction. Where no distance is measured, it is wider where the data have not
    been, since nothing tested that."""
    untested = UNTESTED if prediction.beyond and not prediction.distance else 1.0
    return around(prediction.rate, wide**prediction.doubt * untested)


def test(kind: Tells, knowledge: Knowledge) -> list[Tested]:
    """Each published result from those of other sources. The errors of other sources give the width
    of its range: a source has no part in that of its own."""
    published = [
        point
        for point in kind.points(knowledge)
        if point.evidence and point.evidence.kind == PUBLISHED
    ]
    tested = []
    for condition in dict.fromkeys(point.condition for point in published):
        alike = [point for point in published if point.condition == condition]
        every = list(trials(kind, alike, knowledge))
        wide: dict[tuple[str, int], float | None] = {}
        for index, trial in enumerate(every):
            prediction, apart = trial.prediction, index if trial.held == ROW else -1
            key = (trial.point.source, apart)
            if key not in wide:
                wide[key] = _width(
                    [
                        other
                        for at, other in enumerate(every)
                        if other.prediction
                        and (at != index if trial.held == ROW else other.point.source != key[0])
                    ]
                )
            chosen = wide[key]
            if prediction is None:
                reason = "the others say nothing of it"
                tested.append(Tested(kind.name, trial.point, None, reason, trial.held))
            elif chosen is None:
                reason = "too few others to say how good it is"
                tested.append(Tested(kind.name, trial.point, None, reason, trial.held))
            else:
                bounds, distance = expected(prediction, chosen), prediction.distance
                tested.append(
                    Tested(kind.name, trial.point, bounds, held=trial.held, distance=distance)
                )
    return tested


class Coverage(NamedTuple):
    """How many known values lie in their range, of how many of how many sources, and the median
    width of a range (high end over low end)."""

    inside: int
    tried: int
    sources: int
    width: float


def coverage(tested: Sequence[Tested]) -> Coverage:
    predicted = [trial for trial in tested if trial.range is not None]
    spans = sorted(trial.range.width for trial in predicted if trial.range is not None)
    middle = spans[len(spans) // 2] if spans else math.nan
    inside = sum(trial.covered for trial in predicted)
    return Coverage(
        inside, len(predicted), len({trial.point.source for trial in predicted}), middle
    )
