"""Estimates: a range, its source, and how far that source may be trusted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from trueup_node.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..models.answers import Choice as Plan

# How an estimate was made, best first.
RECORD: Final = "our record"
PUBLISHED: Final = "published"
MODEL: Final = "model"
TRUST: Final = (RECORD, PUBLISHED, MODEL)
# How far the nearest result is from a question; "" of a kind that does not measure it.
SAME: Final = "same setup"
NEAR: Final = "near"
AWAY: Final = "some way off"
FAR: Final = "far"
DISTANCES: Final = ("", SAME, NEAR, AWAY, FAR)
# No known result has tested how far a model's figure is off where the data have not been. Ours.
UNTESTED: Final = 1.5


@dataclass(frozen=True)
class Range:
    """A figure and the interval that it is expected in; all in the same base unit.

    Raises:
        BadInput: the three are not positive and in this order.
    """

    low: float
    value: float
    high: float

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.value <= self.high < math.inf:
            raise BadInput(f"no range: {self.low:g}, {self.value:g}, {self.high:g}")

    def times(self, factor: float) -> Range:
        return Range(self.low * factor, self.value * factor, self.high * factor)

    def under(self, amount: float) -> Range:
        """``amount`` over this range: the time that work takes at these rates."""
        return Range(amount / self.high, amount / self.value, amount / self.low)

    def by(self, other: Range) -> Range:
        """The product, each end with the other's."""
        return Range(self.low * other.low, self.value * other.value, self.high * other.high)

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high

    @property
    def width(self) -> float:
        """The high end over the low one: 1 is a figure without doubt."""
        return self.high / self.low


def around(value: float, factor: float) -> Range:
    """A value and ``factor`` times more and less."""
    return Range(value / factor, value, value * factor)


class Evidence(NamedTuple):
    """Where a figure is from.

    Attributes:
        kind: RECORD, PUBLISHED or MODEL.
        source: run and case, publication, or formula.
        date: YYYY-MM-DD of the measurement or publication, "" where it is not known.
    """

    kind: str
    source: str
    date: str = ""


class Assumption(NamedTuple):
    """A figure that an estimate takes for granted, and the range that it may lie in.

    Attributes:
        name: the option that sets it.
        value, low, high: in ``unit``.
        source: where the three are from.
    """

    name: str
    value: float
    low: float
    high: float
    unit: str
    source: str


@dataclass(frozen=True)
class Estimate:
    """How long one choice takes for the work.

    Attributes:
        size, nodes: the rented machines.
        seconds: of the work, or of a second's share where it is a service.
        evidence: of the figures in it, the weightiest first.
        beyond: how it lies outside of the data, as a sentence; "" inside of them.
        plan: of a service, its layout, speed and range (models.answers).
    """

    size: str
    nodes: int
    seconds: Range
    evidence: tuple[Evidence, ...]
    beyond: str = ""
    plan: Plan | None = None

    @property
    def trust(self) -> str:
        """The weakest kind of evidence in it."""
        return max((evidence.kind for evidence in self.evidence), key=TRUST.index)


class Refusal(NamedTuple):
    """A choice that cannot do it, why, and how many nodes of the size could; None where none."""

    size: str
    nodes: int
    reason: str
    least_nodes: int | None
    # It could, but nothing known says how fast.
    unknown: bool = False


def spread(errors: Sequence[float], share: float = 0.9) -> float:
    """The factor within which a prediction by the same method is expected to lie.

    Split conformal prediction: of the predictions of known results from the others, the errors
    ``|ln(predicted / known)|``, the smallest that at least ``share`` of n + 1 equally likely
    places do not exceed; the largest where n is too small for that.

    Raises:
        BadInput: no error is known.
    """
    if not errors:
        raise BadInput("nothing is known that a prediction could be held against")
    ordered = sorted(abs(error) for error in errors)
    rank = min(math.ceil(share * (len(ordered) + 1)), len(ordered))
    return math.exp(ordered[rank - 1])
