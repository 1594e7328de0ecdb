"""The knee of a load curve: the load from which more of it brings hardly more throughput.

A closed system's throughput is bounded by two lines, one through the origin and one at its
capacity, that cross at the saturation point (Denning and Buzen, "The operational analysis of
queueing network models", ACM Computing Surveys 10, 1978); an open one's follows the rate of its
requests up to its capacity. So two joined lines are fitted, with the place where they join as an
unknown (Hudson, "Fitting segmented curves whose join points have to be estimated", Journal of the
American Statistical Association 61, 1966), and must beat one line. There is a knee only where they
do, and where the second is much flatter than the first. The first need not begin at the origin.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

# Two lines and the place where they join are four unknowns; with a fifth point there is something
# that the fit can miss.
LEAST_LOADS: Final = 5
# The chance at which two lines beat one where there is one alone. The F test takes the place of the
# join as given, though it is looked for: its chance counts once for each pair of loads that it may
# lie between (Bonferroni). tests/unit/analysis/test_knee.py counts the outcomes.
CHANCE: Final = 0.01
# A second line at least this much flatter than the first is a knee; less is a curve that bends.
FLATTER: Final = 0.5
# A rise over all loads below this share of the highest throughput is none.
LEVEL: Final = 0.1
# Places that are tried between two loads.
_STEPS: Final = 12
# Figures from which two lines differ by less than this share of the highest are on them.
_EXACT: Final = 1e-9
# Below this share of the highest throughput a figure's error no longer shrinks with it.
_FLOOR: Final = 0.02


class Knee(NamedTuple):
    """The knee, or the reason that there is none.

    Attributes:
        load: the measured load nearest to ``at``; None where there is no knee.
        at: where the two lines cross, in the unit of the loads.
        throughput: of the fit at that place.
        why: "" for a knee, else a sentence that says why there is none.
    """

    load: float | None = None
    at: float | None = None
    throughput: float | None = None
    why: str = ""


def knee(loads: Sequence[float], throughputs: Sequence[float]) -> Knee:
    """The knee of throughput over load, in any order. Every run of a load is a figure of its own,
    since their spread measures chance; a figure that is not finite does not count.

    Args:
        loads: requests in flight or requests a second, above zero; of several runs several times.
        throughputs: of the same places, in any unit.
    """
    x, y = _points(loads, throughputs)
    steps = np.unique(x)
    if len(steps) < LEAST_LOADS:
        load_count = f"{len(steps)} {'load' if len(steps) == 1 else 'loads'}"
        return _none(f"it needs {LEAST_LOADS} loads with a throughput, and there are {load_count}")
    typical = [float(np.median(y[x == step])) for step in steps]
    top = max(typical)
    if top <= 0:
        return _none("no load brought any throughput")
    if top - typical[0] < LEVEL * top:
        return _none(
            f"throughput does not rise: the lowest load, {steps[0]:g}, brings"
            f" {typical[0] / top:.0%} of the highest already; measure lower loads"
        )
    y = y / top
    weights = 1 / np.maximum(y, _FLOOR)
    single = _missed(x, y, weights, None)[0]
    missed, at, (level, first, change) = min(
        (
            _split(x, y, weights, float(join))
            for low, high in zip(steps[1:-2], steps[2:-1], strict=True)
            for join in np.linspace(low, high, _STEPS)
        ),
        key=lambda fit: fit[0],
    )
    second = first + change
    free = len(x) - 4
    if single <= len(x) * _EXACT**2:
        return _none("throughput rises in one line with the load: measure higher loads")
    between = len(steps) - 3
    chance = 0.0 if missed <= _EXACT**2 else min(1.0, between * _chance(single, missed, free))
    if chance > CHANCE:
        return _none(
            f"two lines fit no better than one (by chance {chance:.0%}, asked is {CHANCE:.0%}):"
            " measure more or higher loads, or repeat them"
        )
    if first <= 0 or second > FLATTER * first:
        return _none(
            f"throughput goes on rising: beyond {at:g} at {second / first:.0%} of the slope before"
            if first > 0
            else "throughput falls from the lowest load on"
        )
    nearest = float(steps[int(np.abs(_steps(steps, at)).argmin())])
    return Knee(load=nearest, at=at, throughput=(level + first * at) * top)


def _none(reason: str) -> Knee:
    return Knee(why=f"No knee: {reason}.")


def _points(loads: Sequence[float], throughputs: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """The figures that count, by load."""
    pairs = sorted(
        (float(load), float(throughput))
        for load, throughput in zip(loads, throughputs, strict=True)
        if math.isfinite(load) and load > 0 and math.isfinite(throughput)
    )
    return np.array([load for load, _ in pairs]), np.array([figure for _, figure in pairs])


def _split(
    x: np.ndarray, y: np.ndarray, weights: np.ndarray, at: float
) -> tuple[float, float, tuple[float, float, float]]:
    missed, coefficients = _missed(x, y, weights, at)
    return missed, at, (float(coefficients[0]), float(coefficients[1]), float(coefficients[2]))


def _missed(
    x: np.ndarray, y: np.ndarray, weights: np.ndarray, at: float | None
) -> tuple[float, np.ndarray]:
    """The misses of one line, or of two that join there (sum of squares, each figure's miss as a
    share of itself), and the lines: level at 0, slope, change of the slope."""
    columns = [np.ones_like(x), x]
    if at is not None:
        columns.append(np.maximum(x - at, 0))
    design = np.stack(columns, axis=1) * weights[:, None]
    coefficients = np.linalg.lstsq(design, y * weights, rcond=None)[0]
    rest = design @ coefficients - y * weights
    return float(rest @ rest), coefficients


def _chance(single: float, missed: float, free: int) -> float:
    """How often two more unknowns would gain that much by chance: the F test, whose distribution
    has a closed form for two."""
    return float((missed / single) ** (free / 2))


def _steps(x: np.ndarray, at: float) -> np.ndarray:
    """The distance of each load from a place as a ratio, since loads are stepped by ratios."""
    return np.asarray(np.log(x / at))
