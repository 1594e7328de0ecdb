"""Speed of a group over load: a curve of points, from few requests in flight to many."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from .roofline import Speed, speed, step

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .config import ModelConfig
    from .roofline import Gpu, Layout, Work


class Level(NamedTuple):
    """Times to hold, seconds; infinite where nobody asks."""

    ttft: float = math.inf
    tpot: float = math.inf

    def holds(self, point: Speed) -> bool:
        return point.ttft <= self.ttft and point.tpot <= self.tpot


def of_roofline(model: ModelConfig, gpu: Gpu, layout: Layout, work: Work, most: int) -> list[Speed]:
    """From one request in flight to ``most``."""
    return [speed(step(model, gpu, layout, work, flight), work, flight) for flight in _loads(most)]


def _loads(most: int) -> list[int]:
    """1, 2, 3, 4, then a quarter more each, to ``most``."""
    loads, flight = [], 1
    while flight < most:
        loads.append(flight)
        flight = max(flight + 1, flight * 5 // 4)
    return [*loads, most]


def scaled(curve: Sequence[Speed], rate: float, times: float) -> list[Speed]:
    """The curve with its rates and its times multiplied."""
    return [
        Speed(
            point.in_flight,
            point.requests_per_second * rate,
            point.ttft * times,
            point.tpot * times,
        )
        for point in curve
    ]


def best(curve: Sequence[Speed], level: Level) -> Speed | None:
    """The highest rate within the level; None where even the least load misses it."""
    within = [point for point in curve if level.holds(point)]
    return max(within, key=lambda point: point.requests_per_second, default=None)


def at_rate(curve: Sequence[Speed], rate: float) -> Speed:
    """The speed at a rate, on the line between two points; below the first point its times."""
    ordered = sorted(curve, key=lambda point: point.requests_per_second)
    first, last = ordered[0], ordered[-1]
    if rate <= first.requests_per_second:
        share = rate / first.requests_per_second
        return Speed(first.in_flight * share, rate, first.ttft, first.tpot)
    for low, high in pairwise(ordered):
        if rate <= high.requests_per_second:
            span = high.requests_per_second - low.requests_per_second
            share = (rate - low.requests_per_second) / span if span else 1.0
            middle = (a + (b - a) * share for a, b in zip(low, high, strict=True))
            return Speed(*middle)
    return last
