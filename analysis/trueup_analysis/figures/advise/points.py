"""Known results, and predictions of others from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from .estimates import Evidence
    from .knowledge import Knowledge


@dataclass(frozen=True)
class Point:
    """One known result, or with no rate one that is asked for.

    Attributes:
        label: which one, for a reader.
        size, nodes: the machines that it ran on; the size as the catalog's.
        rate: the predicted figure, in the kind's unit.
        traits: further facts that a prediction needs.
    """

    label: str
    size: str
    nodes: int
    rate: float = 0.0
    traits: Mapping[str, Any] = field(default_factory=dict)
    evidence: Evidence | None = None
    # Results of another condition say nothing of it.
    condition: str = ""

    @property
    def source(self) -> str:
        """Who published it: results of one source are held out together."""
        return str(self.traits.get("publisher") or (self.evidence.source if self.evidence else ""))


@dataclass(frozen=True)
class Prediction:
    """A rate from known points.

    Attributes:
        evidence: of the points that it is from.
        beyond: how it lies outside of them.
        distance: of the nearest point (one of DISTANCES).
        doubt: its errors are held against this many times as large ones of others.
    """

    rate: float
    evidence: tuple[Evidence, ...]
    beyond: str = ""
    distance: str = ""
    doubt: float = 1.0


class Tells(Protocol):
    """A subject with known results, each of which the others predict."""

    @property
    def name(self) -> str: ...
    @property
    def unit(self) -> str: ...
    @property
    def points(self) -> Callable[[Knowledge], Sequence[Point]]: ...
    @property
    def predict(self) -> Callable[[Point, Sequence[Point], Knowledge], Prediction | None]: ...


def evidence_of(used: Iterable[Point]) -> tuple[Evidence, ...]:
    return tuple(dict.fromkeys(point.evidence for point in used if point.evidence))
