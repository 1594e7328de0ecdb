"""The knee of a load curve: 200 curves whose knee is known, 200 that have none, and bad figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from helpers import parametrized
from trueup_analysis.figures.knee import Knee, knee

if TYPE_CHECKING:
    from collections.abc import Iterator

LOADS = (
    (1, 2, 4, 8, 16, 32, 64, 128),
    (4, 8, 12, 16, 20, 24, 28, 32),
    (1, 2, 4, 8, 16, 32, 64, 128, 256, 512),
    (2, 4, 6, 8, 12, 16, 24, 32, 48, 64),
)


def saturating(seed: int) -> Iterator[tuple[list[float], int, np.ndarray]]:
    """Loads, the place of the knee among them, and throughput without noise: level beyond the knee,
    falling, rounded, or rising slowly on."""
    source = np.random.default_rng(seed)
    for number in range(200):
        loads = np.array(LOADS[number % 4], float)
        place = int(source.integers(2, len(loads) - 2))
        at = loads[place] * source.uniform(0.9, 1.1)
        beyond = np.maximum(loads - at, 0)
        curve = (
            np.minimum(loads, at),
            np.where(beyond > 0, at * (1 - 0.1 * np.log(np.maximum(loads / at, 1))), loads),
            (loads**-6 + at**-6) ** (-1 / 6),
            np.minimum(loads, at) + 0.15 * beyond + 0.1 * at,
        )[number // 4 % 4]
        yield list(loads), place, curve * source.uniform(10, 1e4)


def without(seed: int) -> Iterator[tuple[list[float], np.ndarray]]:
    """Loads and throughput of servers that were not loaded enough, or too much from the first."""
    source = np.random.default_rng(seed)
    for number in range(200):
        loads = np.array(LOADS[number % 4], float)
        curve = (loads, np.ones_like(loads), 3 + loads, loads**0.9)[number // 4 % 4]
        yield list(loads), curve * source.uniform(10, 1e4)


# Of 200, with one run of each load and with three: at least so many are found within one load step.
# Of the rest all but ``wrong`` are called "no knee". Without a knee at most ``invented`` get one.
@pytest.mark.parametrize(
    ("runs", "noise", "found", "wrong", "invented"),
    [
        *((1, 0.0, 200, 0, 0), (1, 0.05, 175, 0, 0), (1, 0.1, 130, 0, 0)),
        *((3, 0.05, 199, 0, 0), (3, 0.1, 190, 1, 1)),
    ],
)
def test_known_knees_are_found_within_one_load_step_and_none_is_invented(
    runs: int, noise: float, found: int, wrong: int, invented: int
) -> None:
    # As the curves are made first, all noises are of the same ones.
    source = np.random.default_rng(7)

    def result(loads: list[float], curve: np.ndarray) -> Knee:
        error = noise * source.standard_normal(runs * len(curve))
        return knee(loads * runs, list(np.tile(curve, runs) * (1 + error)))

    near = none = 0
    for loads, place, curve in saturating(1):
        one = result(loads, curve)
        none += one.load is None
        near += one.load is not None and abs(loads.index(one.load) - place) <= 1
    assert (near >= found, 200 - near - none <= wrong) == (True, True)
    source = np.random.default_rng(8)
    others = [result(loads, curve) for loads, curve in without(2)]
    silent = [one for one in others if one.load is None]
    assert len(others) - len(silent) <= invented
    assert {one.why.partition(":")[0] for one in silent} == {"No knee"}


def test_the_knee_of_a_curve_by_hand() -> None:
    result = knee((1, 2, 4, 8, 16, 32), (10.0, 20.0, 40.0, 80.0, 80.0, 80.0))
    assert (result.load, result.why) == (8.0, "")
    assert (result.at, result.throughput) == pytest.approx((8.0, 80.0))


def test_loads_count_in_any_order() -> None:
    loads = [32, 1, 8, 2, 16, 4, 8, 8]
    throughputs = [80.0, 10.0, 80.0, 20.0, 80.0, 40.0, 79.0, 81.0]
    assert knee(loads, throughputs).load == 8.0


@parametrized(("loads", "throughputs", "why"))
def test_what_has_no_knee_says_why(loads: list[float], throughputs: list[float], why: str) -> None:
    result = knee(loads, throughputs)
    assert (result.load, result.at) == (None, None)
    assert why in result.why
