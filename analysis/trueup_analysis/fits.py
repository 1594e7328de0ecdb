"""Scaling laws fitted to measured speed-ups."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["AMDAHL_POINTS", "USL_POINTS", "Fit", "fit_laws"]

# One free parameter and two, each with at least one point more than the baseline can decide.
AMDAHL_POINTS = 3
USL_POINTS = 4
# Below this a parameter counts as zero: it lies on the bound that the fit was given.
_ZERO = 1e-9


@dataclass(frozen=True)
class Fit:
    """A scaling law fitted to the speed-ups of a series (relative to its baseline).

    Attributes:
        law: "Amdahl" or "universal scalability".
        parameters: name -> (value, standard error); Amdahl: sigma (serial fraction); universal
            scalability: sigma (contention) and kappa (coherency). The standard error is NaN where a
                value lies on its bound.
        residual: root mean square of (fitted - measured) speed-up.
        points: how many distinct resource counts were fitted, the baseline included.
        peak: the resource count at which the fitted law is fastest; None where it has no maximum.
    """

    law: str
    parameters: dict[str, tuple[float, float]]
    residual: float
    points: int
    peak: float | None


def fit_laws(
    resources: Sequence[int], speedups: Sequence[float], *, base: int, over: str
) -> tuple[Fit | None, Fit | None, list[str]]:
    """Amdahl's law and the universal scalability law, and sentences on what was not fitted.

    Args:
        resources, speedups: one point a resource count. base: the count with speed-up 1.
        over: what is counted, for the sentences.
    """
    points = len(resources)
    if points < AMDAHL_POINTS:
        note = (
            f"No fits: Amdahl needs {AMDAHL_POINTS} counts of {over}, universal scalability"
            f" {USL_POINTS}; here {points}."
        )
        return None, None, [note]
    ratio = np.asarray(resources, dtype=float) / base
    speedup = np.asarray(speedups, dtype=float)
    notes = []
    amdahl = _fit("Amdahl", _amdahl, {"sigma": 0.1}, (ratio, speedup), base)
    usl = None
    if points < USL_POINTS:
        notes.append(
            f"No universal-scalability fit: it needs {USL_POINTS} counts of {over}, here {points}."
        )
    else:
        start = {"sigma": 0.1, "kappa": 0.001}
        usl = _fit("universal scalability", _usl, start, (ratio, speedup), base)
        if usl is None:
            notes.append("The universal-scalability fit did not converge.")
    if amdahl is None:
        notes.append("The Amdahl fit did not converge.")
    return amdahl, usl, notes


def _amdahl(ratio: Any, sigma: float) -> Any:
    return ratio / (1 + sigma * (ratio - 1))


def _usl(ratio: Any, sigma: float, kappa: float) -> Any:
    """Gunther's universal scalability law, relative to a baseline of speed-up 1."""
    return ratio / (1 + sigma * (ratio - 1) + kappa * ratio * (ratio - 1))


def _fit(
    law: str,
    function: Callable[..., Any],
    start: dict[str, float],
    points: tuple[Any, Any],
    base: int,
) -> Fit | None:
    """Least squares on the speed-ups, parameters not below zero; None without convergence."""
    # Half a second to import, which only fits need.
    from scipy.optimize import OptimizeWarning, curve_fit  # noqa: PLC0415

    x, y = points
    guess = list(start.values())
    with warnings.catch_warnings():
        # A step of the search may divide by zero on its way to a good end, and an error that cannot
        # be estimated comes back as infinite, which is dealt with below.
        warnings.simplefilter("ignore", RuntimeWarning)
        warnings.simplefilter("ignore", OptimizeWarning)
        try:
            values, covariance = curve_fit(function, x, y, p0=guess)
            if (values < -_ZERO).any():
                values, covariance = curve_fit(function, x, y, p0=guess, bounds=(0, np.inf))
        except RuntimeError:
            return None
    values = np.clip(values, 0, None)
    errors = np.sqrt(np.diag(covariance))
    unknown = bool((values < _ZERO).any()) or not bool(np.isfinite(errors).all())
    sigma, kappa = float(values[0]), float(values[-1])
    peak = None
    if len(values) > 1 and kappa > _ZERO and sigma < 1:
        peak = base * math.sqrt((1 - sigma) / kappa)
    return Fit(
        law=law,
        parameters={
            name: (float(value), float("nan") if unknown else float(error))
            for name, value, error in zip(start, values, errors, strict=True)
        },
        residual=float(np.sqrt(np.mean((function(x, *values) - y) ** 2))),
        points=len(x),
        peak=peak,
    )
