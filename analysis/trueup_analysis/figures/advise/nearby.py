"""The time of a request from the results nearest to it.

First principles give a time: operations at the GPUs' peak, bytes at their memory's bandwidth, and
a fixed time a layer and step where GPUs exchange activations. Three factors are fitted to all
results. The nearest results say how many times longer or shorter it is there.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from .estimates import AWAY, FAR, NEAR, SAME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .engines import Engine
    from .kinds.kind import Point
    from .knowledge import Knowledge

# How far a difference puts two results apart; a factor of two counts as the weight. Chosen by the
# back-test with whole sources held out (trueup advise --backtest).
_OTHER_MODEL, _MODEL_SIZE = 1.0, 0.3
_OTHER_GPU, _OTHER_WIDTH, _OTHER_PROGRAM, _OTHER_SCENARIO = 0.6, 0.5, 0.4, 0.3
_TOKENS, _FLIGHT, _RANKS = 0.25, 0.35, 0.2
_NEIGHBOURS: Final = 8
_REACH, _REACH_GROWS = 0.2, 0.5
_DOUBT: Final = 0.05
# Farthest distance of each class.
_CLASSES: Final = ((0.3, SAME), (1.2, NEAR), (2.5, AWAY), (math.inf, FAR))
# GPUs whose tensor cores take FP8 at twice the rate of BF16.
_FP8: Final = re.compile(r"H[12]00|MI300X")
# Seconds of a layer's exchange; the fit scales it.
_EXCHANGE: Final = 1e-4
_ROUNDS: Final = 6
_LEAST_SHARE: Final = 0.2


class Seen(NamedTuple):
    """A result, or a question, in the figures that a prediction needs.

    Attributes:
        parts: seconds of one engine for a request: operations, bytes, exchanges.
        batch: requests that one step serves.
    """

    parts: tuple[float, float, float]
    model: str
    active: float
    gpu: str
    width: float
    program: str
    scenario: str
    tokens_in: float
    tokens_out: float
    batch: float
    devices: int


class Nearby(NamedTuple):
    """A predicted time of a request on one engine, the results that it is from, and how far the
    nearest of them is (a class of ``estimates.DISTANCES``)."""

    seconds: float
    used: list[Point]
    distance: str


def seen(point: Point, knowledge: Knowledge) -> Seen | None:
    """None where no datasheet of the GPU is in the catalog."""
    cache: dict[int, tuple[Point, Seen | None]] = knowledge.once("seen", dict)
    if id(point) not in cache:
        cache[id(point)] = (point, _seen(point, knowledge))
    return cache[id(point)][1]


def _seen(point: Point, knowledge: Knowledge) -> Seen | None:
    peak, bandwidth = knowledge.bf16_peak(point.size), knowledge.gpu_bandwidth(point.size)
    if peak is None or bandwidth is None:
        return None
    engine, load = point.traits["engine"], point.traits["load"]
    gpu = knowledge.sizes[point.size]["gpu_model"]
    if engine.model.width <= 1 and _FP8.match(gpu):
        peak *= 2
    # On average half of an answer is there.
    held = engine.token * (load.tokens_in + load.tokens_out / 2)
    batch = max(1.0, min(load.in_flight, engine.room / held))
    fresh = load.tokens_in * (1 - load.cached)
    operations = 2 * engine.model.active * (fresh + load.tokens_out) / (engine.devices * peak)
    read = load.tokens_out * (_weights(engine, batch) / batch + held)
    layers = float(engine.model.recipe["facts"]["layers"])
    exchanges = load.tokens_out / batch * layers * _EXCHANGE if engine.devices > 1 else 0.0
    return Seen(
        parts=(operations, read / (engine.devices * bandwidth), exchanges),
        model=_name(engine),
        active=engine.model.active,
        gpu=gpu,
        width=engine.model.width,
        program=point.traits.get("program", "vllm"),
        scenario=point.traits.get("scenario", ""),
        tokens_in=load.tokens_in,
        tokens_out=load.tokens_out,
        batch=batch,
        devices=engine.devices,
    )


def _name(engine: Engine) -> str:
    """Equal for models of as many parameters, to two hundredths."""
    return f"{round(math.log(engine.model.parameters) / 0.02)}"


def _weights(engine: Engine, batch: float) -> float:
    """Bytes of weights that a step reads: of a mixture of experts those that some token meets."""
    facts = engine.model.recipe["facts"]
    experts, expert_parameters = facts.get("experts") or 0, facts.get("expert_parameters") or 0
    if not experts or not expert_parameters:
        return engine.weights
    shared = engine.model.parameters - expert_parameters
    met = max(0.0, engine.model.active - shared) / expert_parameters
    share = 1 - (1 - min(met, 1.0)) ** batch
    read = shared + share * expert_parameters
    return engine.weights * float(read) / engine.model.parameters


def tell(target: Point, peers: Sequence[Point], knowledge: Knowledge) -> Nearby | None:
    """The time of a request of the target; None where no result or no datasheet speaks of it."""
    question = seen(target, knowledge)
    measured = _measured(peers, knowledge)
    if question is None or not measured.points:
        return None
    ranked = sorted(
        (_distance(question, other), index) for index, (_, other, _) in enumerate(measured.points)
    )[:_NEIGHBOURS]
    reach = _REACH + _REACH_GROWS * ranked[0][0]
    shares = [math.exp(-distance / reach) for distance, _ in ranked]
    doubt = _DOUBT * math.exp(-ranked[0][0] / reach)
    log = math.fsum(
        share * measured.points[index][2] for share, (_, index) in zip(shares, ranked, strict=True)
    ) / (math.fsum(shares) + doubt)
    seconds = _time(measured.factors, question.parts) * math.exp(log)
    least = max(shares) / 10
    used = [
        measured.points[index][0]
        for share, (_, index) in zip(shares, ranked, strict=True)
        if share >= least
    ]
    distance = next(name for most, name in _CLASSES if ranked[0][0] <= most)
    return Nearby(seconds, used, distance)


class _Measured(NamedTuple):
    """Results, each with the logarithm of its time over the computed one; and the factors."""

    points: list[tuple[Point, Seen, float]]
    factors: tuple[float, ...]


def _measured(peers: Sequence[Point], knowledge: Knowledge) -> _Measured:
    """Computed once for a list of results, which is not changed afterwards."""
    cache: dict[int, tuple[Sequence[Point], _Measured]] = knowledge.once("measured", dict)
    if id(peers) not in cache:
        timed = [
            (point, other, point.traits["load"].tokens * point.traits["engines"] / point.rate)
            for point in peers
            if (other := seen(point, knowledge)) is not None
        ]
        # The results of a publisher share its setup: a hundred of them weigh as ten of others.
        counts = Counter(point.source for point, _, _ in timed)
        factors = fit(
            [(other.parts, seconds) for _, other, seconds in timed],
            [counts[point.source] ** -0.5 for point, _, _ in timed],
        )
        points = [
            (point, other, math.log(seconds / _time(factors, other.parts)))
            for point, other, seconds in timed
        ]
        cache[id(peers)] = (peers, _Measured(points, factors))
    return cache[id(peers)][1]


def _time(factors: Sequence[float], parts: Sequence[float]) -> float:
    return math.fsum(factor * part for factor, part in zip(factors, parts, strict=True))


def fit(
    timings: Sequence[tuple[tuple[float, ...], float]], counts: Sequence[float]
) -> tuple[float, ...]:
    """Factors of 0 and more for the parts: least squares of the relative errors, each counted as
    often as ``counts`` says, repeated with less weight for times that are far off."""
    rows = [[part / seconds for part in parts] for parts, seconds in timings]
    if not rows:
        return (1.0, 1.0, 1.0)
    weights = [math.sqrt(count) for count in counts]
    factors: tuple[float, ...] = (1.0, 1.0, 1.0)
    for _ in range(_ROUNDS):
        factors = _not_negative(rows, weights)
        predicted = [max(_time(factors, row), _LEAST_SHARE) for row in rows]
        weights = [
            math.sqrt(count) / (value * math.sqrt(1 + abs(math.log(value))))
            for value, count in zip(predicted, counts, strict=True)
        ]
    return factors


def _not_negative(rows: Sequence[Sequence[float]], weights: Sequence[float]) -> tuple[float, ...]:
    """Of the least-squares solutions with some factors at 0, the best without a negative one."""
    width = len(rows[0])
    squares = [
        [
            math.fsum(w * w * row[a] * row[b] for row, w in zip(rows, weights, strict=True))
            for b in range(width)
        ]
        for a in range(width)
    ]
    sums = [
        math.fsum(w * w * row[a] for row, w in zip(rows, weights, strict=True))
        for a in range(width)
    ]
    best, least = (1.0,) * width, math.inf
    for count in range(1, width + 1):
        for chosen in itertools.combinations(range(width), count):
            solved = _solved([[squares[a][b] for b in chosen] + [sums[a]] for a in chosen])
            if solved is None or min(solved) <= 0:
                continue
            factors = [0.0] * width
            for index, value in zip(chosen, solved, strict=True):
                factors[index] = value
            error = math.fsum(
                (w * (_time(factors, row) - 1)) ** 2 for row, w in zip(rows, weights, strict=True)
            )
            if error < least:
                best, least = tuple(factors), error
    return best


def _solved(matrix: list[list[float]]) -> list[float] | None:
    """Of a system of equations, by elimination; None where it has no single solution."""
    size = len(matrix)
    for step in range(size):
        pivot = max(range(step, size), key=lambda row: abs(matrix[row][step]))
        if abs(matrix[pivot][step]) < 1e-12 * max(1e-300, abs(matrix[step][step]), 1e-30):
            return None
        matrix[step], matrix[pivot] = matrix[pivot], matrix[step]
        for row in range(size):
            if row != step:
                ratio = matrix[row][step] / matrix[step][step]
                matrix[row] = [
                    mine - ratio * theirs
                    for mine, theirs in zip(matrix[row], matrix[step], strict=True)
                ]
    return [matrix[row][size] / matrix[row][row] for row in range(size)]


def _distance(question: Seen, other: Seen) -> float:
    log = math.log2
    distance = _TOKENS * abs(log(question.tokens_in / other.tokens_in))
    distance += _TOKENS * abs(log(question.tokens_out / other.tokens_out))
    distance += _FLIGHT * abs(log(question.batch / other.batch))
    distance += _RANKS * abs(log(question.devices / other.devices))
    if question.model != other.model:
        distance += _OTHER_MODEL + _MODEL_SIZE * abs(log(question.active / other.active))
    distance += _OTHER_GPU * (question.gpu != other.gpu)
    distance += _OTHER_WIDTH * (question.width != other.width)
    distance += _OTHER_PROGRAM * (question.program != other.program)
    return distance + _OTHER_SCENARIO * (question.scenario != other.scenario)
