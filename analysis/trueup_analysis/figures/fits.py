"""Scaling laws fitted to measured speed-ups."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from numpy.typing import NDArray

# One free parameter and two, each with at least one point more than the baseline can decide.
AMDAHL_POINTS = 3
USL_POINTS = 4
# Nearer than this to a bound, a parameter lies on it.
_ZERO = 1e-9
# A serial fraction is a fraction; coherency only slows down.
_BOUNDS = {"sigma": (0.0, 1.0), "kappa": (0.0,)}
_START = {"sigma": 0.1, "kappa": 0.001}
# A search ends with a step below this share of each parameter; the next one would be its square.
_NEAR: Final = 1e-10
_MOST_STEPS: Final = 100
# The damping of a step that gains nothing, from the first try to the last; a sum of squares that
# rounding made larger is no loss.
_DAMPING: Final = (0.0, *(10.0**power for power in range(-4, 12)))
_ROUNDING: Final = 1e-12

# A value and its standard error.
_Value = tuple[float, float]


class Fit(NamedTuple):
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
    """Amdahl's law and the universal scalability law, and sentences on laws that were not fitted.

    Args:
        resources, speedups: one point a resource count. base: the count with speed-up 1.
        over: the counted resource, for the sentences.
    """
    points = len(resources)
    if points < AMDAHL_POINTS:
        note = (
            f"No fits: Amdahl needs {AMDAHL_POINTS} counts of {over}, universal scalability"
            f" {USL_POINTS}; here {points}."
        )
        return None, None, [note]
    notes = []
    amdahl = _fit("Amdahl", ["sigma"], resources, speedups, base)
    usl = None
    if points < USL_POINTS:
        notes.append(
            f"No universal-scalability fit: it needs {USL_POINTS} counts of {over}, here {points}."
        )
    else:
        usl = _fit("universal scalability", ["sigma", "kappa"], resources, speedups, base)
        if usl is None:
            notes.append("The universal-scalability fit did not converge.")
    if amdahl is None:
        notes.append("The Amdahl fit did not converge.")
    return amdahl, usl, notes


def _slowing(ratio: Any, name: str) -> Any:
    """The factor of a parameter in the laws' ratio / (1 + sigma (ratio - 1) + kappa ratio
    (ratio - 1)): Gunther's universal scalability law, relative to a baseline of speed-up 1; without
    kappa it is Amdahl's.
    """
    return ratio - 1 if name == "sigma" else ratio * (ratio - 1)


def _fit(
    law: str, names: Sequence[str], resources: Sequence[int], speedups: Sequence[float], base: int
) -> Fit | None:
    """Least squares on the speed-ups within ``_BOUNDS``; None without convergence.

    The baseline's speed-up is 1 by definition and whatever the parameters, so it is no measurement:
    counted as one, it would make the standard errors look smaller than they are.
    """
    ratio = np.asarray(resources, dtype=float) / base
    measured = ratio != 1
    x, y = ratio[measured], np.asarray(speedups, dtype=float)[measured]
    # A step of the search may divide by zero on its way to a good end.
    with np.errstate(all="ignore"):
        parameters = _within(_least_squares(x, y, names, {}), names)
        if parameters is None:
            # The best point lies on a bound: the least error of the fits on each bound.
            held = [{name: end} for name in names for end in _BOUNDS[name]]
            if len(names) > 1:
                held += [{"sigma": end, "kappa": 0.0} for end in _BOUNDS["sigma"]]
            tries = [_within(_least_squares(x, y, names, fixed), names, fixed) for fixed in held]
            fitted = [attempt for attempt in tries if attempt is not None]
            if not fitted:
                return None
            parameters = min(fitted, key=lambda attempt: _rms(x, y, attempt))
        residual = _rms(x, y, parameters)
    if not math.isfinite(residual):
        return None
    sigma, kappa = parameters["sigma"][0], parameters.get("kappa", (0.0, 0.0))[0]
    return Fit(
        law=law,
        parameters=parameters,
        residual=residual,
        points=len(resources),
        peak=base * math.sqrt((1 - sigma) / kappa) if kappa > 0 and sigma < 1 else None,
    )


def _rms(x: NDArray[Any], y: NDArray[Any], parameters: Mapping[str, _Value]) -> float:
    slowed = 1 + sum(value * _slowing(x, name) for name, (value, _) in parameters.items())
    return float(np.sqrt(np.mean((x / slowed - y) ** 2)))


def _least_squares(
    x: NDArray[Any], y: NDArray[Any], names: Sequence[str], fixed: Mapping[str, float]
) -> dict[str, _Value] | None:
    """Value and standard error of each parameter, those in ``fixed`` held; None without
    convergence.
    """
    free = [name for name in names if name not in fixed]
    parameters = {name: (value, math.nan) for name, value in fixed.items()}
    if free:
        slowing = np.stack([_slowing(x, name) for name in free], axis=1)
        rest = 1 + sum(value * _slowing(x, name) for name, value in fixed.items())
        # A fit of x / y is linear: these weights turn its misses into misses of y.
        weights = y**2 / x
        near = np.linalg.lstsq(slowing * weights[:, None], (x / y - rest) * weights, rcond=None)[0]
        starts = [np.array([_START[name] for name in free]), near]
        # Figures that follow no law may have more than one hollow.
        ends = [_search(x, y, slowing, rest, start) for start in starts]
        reached = [end for end in ends if end is not None]
        if not reached:
            return None
        _, values, errors = min(reached, key=lambda end: end[0])
        parameters |= dict(zip(free, zip(values, errors, strict=True), strict=True))
    return {name: parameters[name] for name in names}


def _search(
    x: NDArray[Any],
    y: NDArray[Any],
    slowing: NDArray[Any],
    rest: NDArray[Any] | float,
    values: NDArray[Any],
) -> tuple[float, list[float], list[float]] | None:
    """The least squares of x / (rest + slowing @ values) - y that are reached from a start, with
    the values and their standard errors; None without convergence.

    The steps are Newton's, which leave fewer digits to chance than those of Gauss and Newton; where
    one gains nothing it is damped as Marquardt does.
    """
    for _ in range(_MOST_STEPS):
        slowed = rest + slowing @ values
        missed = x / slowed - y
        squares = float(missed @ missed)
        slopes = slowing * -(x / slowed**2)[:, None]
        square = slopes.T @ slopes
        curved = square + slowing.T @ (slowing * (2 * missed * x / slowed**3)[:, None])
        if not np.isfinite(curved).all():
            return None
        # Far from the least squares their surface may bend the other way.
        bend = curved if np.linalg.eigvalsh(curved)[0] > 0 else square
        step = np.zeros_like(values)
        for damping in _DAMPING:
            try:
                damped = bend + damping * np.diag(np.diag(square))
                tried = np.linalg.solve(damped, slopes.T @ missed)
            except np.linalg.LinAlgError:
                continue
            slowed = rest + slowing @ (values - tried)
            new_squares = float(((x / slowed - y) ** 2).sum())
            # Beyond a pole speed-ups are negative.
            if (slowed > 0).all() and new_squares <= squares * (1 + _ROUNDING):
                step = tried
                break
        values = values - step
        if (np.abs(step) <= _NEAR * np.abs(values)).all():
            return squares, values.tolist(), _errors(square, squares, len(x))
    return None


def _errors(square: NDArray[Any], squares: float, points: int) -> list[float]:
    """The standard errors of parameters, NaN where they cannot be estimated.

    Args:
        square: the slopes' products, summed over the points. squares: the fit's misses.
    """
    free = points - len(square)
    try:
        variances = np.diag(np.linalg.inv(square)) * (squares / free if free > 0 else math.nan)
    except np.linalg.LinAlgError:
        return [math.nan] * len(square)
    errors = np.sqrt(variances)
    return [error if math.isfinite(error) else math.nan for error in errors.tolist()]


def _within(
    parameters: dict[str, _Value] | None, names: Sequence[str], fixed: Container[str] = ()
) -> dict[str, _Value] | None:
    """The parameters, if the free ones lie inside their bounds."""
    if parameters is None:
        return None
    for name in names:
        low, high = _BOUNDS[name][0], _BOUNDS[name][-1] if len(_BOUNDS[name]) > 1 else math.inf
        if name not in fixed and not low + _ZERO <= parameters[name][0] <= high - _ZERO:
            return None
    return parameters
