"""Scaling laws fitted to measured speed-ups."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence

# One free parameter and two, each with at least one point more than the baseline can decide.
AMDAHL_POINTS = 3
USL_POINTS = 4
# Nearer than this to a bound, a parameter lies on it.
_ZERO = 1e-9
# A serial fraction is a fraction; coherency only slows down.
_BOUNDS = {"sigma": (0.0, 1.0), "kappa": (0.0,)}
_START = {"sigma": 0.1, "kappa": 0.001}

# A value and its standard error.
_Value = tuple[float, float]


@dataclass(frozen=True)
class Fit:
    """A scaling law fitted to the speed-ups of a series (relative to its baseline).

    Attributes:
        law: "Amdahl" or "universal scalability".
        parameters: name -> (value, standard error); Amdahl: sigma (serial fraction); universal
            scalability: sigma (contention) and kappa (coherency). The standard error is NaN where
            that value lies on its bound (0, or 1 for sigma).
        residual: root mean square of (fitted - measured) speed-up, without the baseline.
        points: how many distinct resource counts there are, the baseline included.
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
    notes = []
    amdahl = _fit("Amdahl", _amdahl, resources, speedups, base)
    usl = None
    if points < USL_POINTS:
        notes.append(
            f"No universal-scalability fit: it needs {USL_POINTS} counts of {over}, here {points}."
        )
    else:
        usl = _fit("universal scalability", _usl, resources, speedups, base)
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
    resources: Sequence[int],
    speedups: Sequence[float],
    base: int,
) -> Fit | None:
    """Least squares on the speed-ups within ``_BOUNDS``; None without convergence.

    The baseline's speed-up is 1 by definition and whatever the parameters, so it is no measurement:
    counted as one, it would make the standard errors look smaller than they are.
    """
    ratio = np.asarray(resources, dtype=float) / base
    measured = ratio != 1
    x, y = ratio[measured], np.asarray(speedups, dtype=float)[measured]
    names = ["sigma", "kappa"][: 2 if function is _usl else 1]
    found = _within(_least_squares(function, x, y, names, {}), names)
    if found is None:
        # The best point lies on a bound: the least error among what each bound leaves to fit.
        held = [{name: end} for name in names for end in _BOUNDS[name]]
        held += [{"sigma": end, "kappa": 0.0} for end in _BOUNDS["sigma"]] if len(names) > 1 else []
        tries = [
            _within(_least_squares(function, x, y, names, fixed), names, fixed) for fixed in held
        ]
        fitted = [one for one in tries if one is not None]
        if not fitted:
            return None
        found = min(fitted, key=lambda one: _rms(function, x, y, one))
    residual = _rms(function, x, y, found)
    if not math.isfinite(residual):
        return None
    sigma, kappa = found["sigma"][0], found.get("kappa", (0.0, 0.0))[0]
    return Fit(
        law=law,
        parameters=found,
        residual=residual,
        points=len(resources),
        peak=base * math.sqrt((1 - sigma) / kappa) if kappa > 0 and sigma < 1 else None,
    )


def _rms(function: Callable[..., Any], x: Any, y: Any, found: dict[str, _Value]) -> float:
    values = [value for value, _ in found.values()]
    with np.errstate(over="ignore"):
        return float(np.sqrt(np.mean((function(x, *values) - y) ** 2)))


def _least_squares(
    function: Callable[..., Any], x: Any, y: Any, names: Sequence[str], fixed: dict[str, float]
) -> dict[str, _Value] | None:
    """Value and standard error of each parameter, those in ``fixed`` held; None without
    convergence.
    """
    # A third of a second to import, which only fits need.
    from scipy.optimize import OptimizeWarning, curve_fit  # noqa: PLC0415

    free = [name for name in names if name not in fixed]
    found = {name: (value, float("nan")) for name, value in fixed.items()}

    def law(x: Any, *values: float) -> Any:
        known = {**fixed, **dict(zip(free, values, strict=True))}
        return function(x, *(known[name] for name in names))

    if free:
        with warnings.catch_warnings():
            # A step of the search may divide by zero on its way to a good end, and an error that
            # cannot be estimated comes back as infinite.
            warnings.simplefilter("ignore", RuntimeWarning)
            warnings.simplefilter("ignore", OptimizeWarning)
            try:
                values, covariance = curve_fit(law, x, y, p0=[_START[name] for name in free])
            except (RuntimeError, ValueError):
                return None
            errors = np.sqrt(np.diag(covariance))
        found |= {
            name: (float(value), float(error) if np.isfinite(error) else float("nan"))
            for name, value, error in zip(free, values, errors, strict=True)
        }
    return {name: found[name] for name in names}


def _within(
    found: dict[str, _Value] | None, names: Sequence[str], fixed: Container[str] = ()
) -> dict[str, _Value] | None:
    """What was found, if its free parameters lie inside their bounds."""
    if found is None:
        return None
    for name in names:
        low, high = _BOUNDS[name][0], _BOUNDS[name][-1] if len(_BOUNDS[name]) > 1 else math.inf
        if name not in fixed and not low + _ZERO <= found[name][0] <= high - _ZERO:
            return None
    return found
