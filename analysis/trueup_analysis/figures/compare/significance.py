"""How sure a change is: Student's t by Wallace's approximation, and the false discovery rate."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_NORMAL: Final = NormalDist()


# Outliers are common in measurements: noise counts as Student's t of so many degrees of freedom,
# however many values there are.
NOISE_FREEDOM: Final = 5.0


class Estimate(NamedTuple):
    """A mean of logarithms of ratios.

    Attributes:
        error: its standard error.
        freedom: degrees of freedom of that.
    """

    mean: float
    error: float
    freedom: float

    def interval(self, share: float = 0.95) -> tuple[float, float]:
        """Where the mean lies with such a probability."""
        reach = self.error * t_quantile(0.5 + share / 2, self.freedom)
        return self.mean - reach, self.mean + reach

    @property
    def chance(self) -> float:
        """Two-sided probability of such a mean without any change."""
        if self.error == 0:
            return 0.0 if self.mean else 1.0
        return t_chance(abs(self.mean) / self.error, self.freedom)


def t_chance(t: float, freedom: float) -> float:
    """Two-sided probability of Student's t; D. L. Wallace, Annals of Mathematical Statistics 30
    (1959), page 1124: exact within 1 % of the deviation from 3 degrees of freedom on."""
    scale = (8 * freedom + 1) / (8 * freedom + 3)
    deviation = scale * math.sqrt(freedom * math.log1p(t * t / freedom))
    return math.erfc(deviation / math.sqrt(2))


def chances(
    means: NDArray[np.float64], errors: NDArray[np.float64], freedoms: NDArray[np.float64]
) -> NDArray[np.float64]:
    """``Estimate.chance`` of many."""
    t = np.divide(abs(means), errors, out=np.full(len(means), np.inf), where=errors > 0)
    t[(errors == 0) & (means == 0)] = 0.0
    with np.errstate(over="ignore"):
        deviations = np.sqrt(freedoms * np.log1p(t * t / freedoms))
    deviations *= (8 * freedoms + 1) / (8 * freedoms + 3) / math.sqrt(2)
    return np.fromiter(map(math.erfc, deviations.tolist()), float, len(deviations))


def t_quantile(share: float, freedom: float) -> float:
    """The inverse: the t below which such a share lies."""
    deviation = _NORMAL.inv_cdf(share) * (8 * freedom + 3) / (8 * freedom + 1)
    return math.sqrt(freedom * math.expm1(min(deviation * deviation / freedom, 700.0)))


def noise_of(deviations: Sequence[float] | NDArray[np.float64]) -> float:
    """The scale of noise with such deviations from its middle, by their median: outliers do not
    move it."""
    return float(np.median(np.abs(deviations))) / t_quantile(0.75, NOISE_FREEDOM)


def of_mean(values: Sequence[float] | NDArray[np.float64]) -> Estimate:
    """The mean of three values or more, by their own spread."""
    count = len(values)
    return Estimate(
        float(np.mean(values)), float(np.std(values, ddof=1)) / math.sqrt(count), count - 1
    )


def range_in_deviations(count: int) -> float:
    """The expected range of so many normal values in standard deviations (G. Blom, 1958)."""
    return 2 * _NORMAL.inv_cdf((count - 0.375) / (count + 0.25))


def of_difference(
    before: Sequence[float] | NDArray[np.float64], after: Sequence[float] | NDArray[np.float64]
) -> Estimate:
    """The difference of two means of two values or more (B. L. Welch, 1947)."""
    errors = [float(np.var(values, ddof=1)) / len(values) for values in (before, after)]
    parts = sum(
        error**2 / (len(values) - 1) for error, values in zip(errors, (before, after), strict=True)
    )
    freedom = sum(errors) ** 2 / parts if parts else len(before) + len(after) - 2
    return Estimate(float(np.mean(after) - np.mean(before)), math.sqrt(sum(errors)), freedom)


def discoveries(probabilities: Sequence[float] | NDArray[np.float64], rate: float) -> float:
    """The greatest probability that still counts as a change, so that of all changes at most a
    share ``rate`` is none (Benjamini and Hochberg, 1995)."""
    ordered = np.sort(np.asarray(probabilities, float))
    limits = rate * np.arange(1, len(ordered) + 1) / max(1, len(ordered))
    passing = np.flatnonzero(ordered <= limits)
    count = int(passing[-1]) + 1 if len(passing) else 1
    return rate * count / max(1, len(ordered))
