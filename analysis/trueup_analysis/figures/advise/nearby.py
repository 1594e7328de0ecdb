"""The time of a request from the roofline and the results nearest to it.

The roofline gives a time. The nearest results say how many times longer or shorter it is there;
where they are far, it stays as it is.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from ..models.roofline import gpu_of, sequences, speed, step
from .estimates import AWAY, FAR, NEAR, SAME

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..models.roofline import Gpu
    from .knowledge import Knowledge
    from .points import Point

# How far a difference puts two results apart; a factor of two counts as the weight. Chosen by the
# back-test with whole sources held out (trueup advise --backtest).
_OTHER_MODEL, _MODEL_SIZE = 1.0, 0.3
_OTHER_GPU, _OTHER_WIDTH, _OTHER_PROGRAM, _OTHER_SCENARIO = 0.6, 0.5, 0.4, 0.3
# Tokens in and out, requests in flight, tensor parallel ranks.
_WEIGHTS: Final = (0.25, 0.25, 0.35, 0.2)
_NEIGHBOURS: Final = 8
# A result counts exp(-distance / reach), the roofline alone as much as doubt.
_REACH, _DOUBT = 0.4, 0.1
# Memory that engines take, by their defaults, and their workspace.
SHARE: Final = 0.92
_WORKSPACE: Final = 3 * 2**30
# Engines that start a request only where its whole answer has room (TensorRT-LLM's capacity
# scheduler policy GUARANTEED_NO_EVICT); vLLM and SGLang give memory as the answer grows.
_RESERVING: Final = ("tensorrt-llm", "trt")
# Of a dense model the logarithm of a predicted time may be off by so much of the share that memory,
# tensor cores, and fixed times and messages have of it, and by a tenth at least: what engines reach
# of a bandwidth is known to a sixth, of tensor cores to a third, fixed times to a factor of two.
# Of a mixture the experts make each of them as doubtful. Chosen beforehand, not fitted.
_MEMORY, _TENSORS, _FIXED, _ANY = 0.15, 0.3, 0.7, 0.1
_STEP: Final = 1.01
# Farthest distance of each class.
_CLASSES: Final = ((0.3, SAME), (1.2, NEAR), (2.5, AWAY), (math.inf, FAR))


class Seen(NamedTuple):
    """A result, or a question, in the figures that a prediction needs.

    Attributes:
        seconds: of one group for a request by the roofline, all in flight counted.
        doubt: of ``seconds``, as of a Prediction.
        model: equal for models of as many parameters, to two hundredths.
        logs: to the base 2 of tokens in and out, requests in flight, tensor parallel ranks.
    """

    seconds: float
    doubt: float
    model: int
    active: float
    gpu: str
    width: float
    program: str
    scenario: str
    logs: tuple[float, ...]


class Nearby(NamedTuple):
    """A predicted time of a request on one group, the results that it is from, and how far the
    nearest of them is (a class of ``estimates.DISTANCES``).

    Attributes:
        ratio: predicted over computed seconds.
        doubt: as of a Prediction.
    """

    seconds: float
    used: list[Point]
    distance: str
    ratio: float
    doubt: float


def seen(point: Point, knowledge: Knowledge) -> Seen | None:
    """None where no datasheet of the GPU is in the catalog."""
    cache: dict[int, tuple[Point, Seen | None]] = knowledge.once("seen", dict)
    if id(point) not in cache:
        cache[id(point)] = (point, _seen(point, knowledge))
    return cache[id(point)][1]


def _seen(point: Point, knowledge: Knowledge) -> Seen | None:
    gpu, traits = gpu_of(point.size, knowledge), point.traits
    if gpu is None:
        return None
    model, layout, work = traits["model"], traits["layout"], traits["work"]
    room = gpu.memory_bytes * SHARE - model.weight_bytes / layout.tensor - _WORKSPACE
    program = traits.get("program", "vllm")
    # Those in flight whose KV cache fits: an answer is half written on the mean.
    held = work if program in _RESERVING else work._replace(tokens_out=work.tokens_out / 2)
    batch = max(1.0, min(traits["in_flight"], sequences(room, model, layout, held)))

    def computed(gpu: Gpu) -> float:
        rate = speed(step(model, gpu, layout, work, batch), work, batch).requests_per_second
        return 1 / rate

    lengths = (work.tokens_in, work.tokens_out, batch, layout.tensor)
    return Seen(
        seconds=computed(gpu),
        doubt=1.0 if model.experts else _doubt(gpu, computed),
        model=round(math.log(model.parameters) / 0.02),
        active=math.log2(model.active_parameters),
        gpu=gpu.model,
        width=model.quantization.least_width,
        program=program,
        scenario=traits.get("scenario", ""),
        logs=tuple(math.log2(each) for each in lengths),
    )


def _doubt(gpu: Gpu, computed: Callable[[Gpu], float]) -> float:
    """How far the computed seconds of a request may be off, as a logarithm, by what limits them."""
    seconds = computed(gpu)
    wider = gpu._replace(bandwidth=gpu.bandwidth * _STEP)
    faster = gpu._replace(
        flops=gpu.flops * _STEP, flops_8=gpu.flops_8 * _STEP, flops_4=gpu.flops_4 * _STEP
    )
    memory, tensors = ((seconds / computed(other) - 1) / (_STEP - 1) for other in (wider, faster))
    fixed = max(0.0, 1 - memory - tensors)
    return math.hypot(_MEMORY * memory, _TENSORS * tensors, _FIXED * fixed, _ANY)


def tell(target: Point, peers: Sequence[Point], knowledge: Knowledge) -> Nearby | None:
    """The time of a request of the target; None where no result or no datasheet speaks of it."""
    question = seen(target, knowledge)
    measured = _measured(peers, knowledge)
    if question is None or not measured:
        return None
    ranked = sorted(
        (_distance(question, other), index) for index, (_, other, _) in enumerate(measured)
    )
    nearest = [(distance, *measured[index]) for distance, index in ranked[:_NEIGHBOURS]]
    shares = [math.exp(-distance / _REACH) for distance, *_ in nearest]
    log = math.fsum(share * each for share, (*_, each) in zip(shares, nearest, strict=True)) / (
        math.fsum(shares) + _DOUBT
    )
    used = [
        point
        for share, (_, point, *_) in zip(shares, nearest, strict=True)
        if share >= shares[0] / 10
    ]
    distance = next(name for most, name in _CLASSES if nearest[0][0] <= most)
    ratio = math.exp(log)
    return Nearby(question.seconds * ratio, used, distance, ratio, question.doubt)


def _measured(peers: Sequence[Point], knowledge: Knowledge) -> list[tuple[Point, Seen, float]]:
    """Results, each with the logarithm of its time over the computed one. Made once for a list of
    results, which is not changed afterwards."""
    cache: dict[int, tuple[Sequence[Point], list[tuple[Point, Seen, float]]]]
    cache = knowledge.once("measured", dict)
    if id(peers) not in cache:
        timed = [
            (point, other, math.log(seconds(point) / other.seconds))
            for point in peers
            if (other := seen(point, knowledge)) is not None
        ]
        cache[id(peers)] = (peers, timed)
    return cache[id(peers)][1]


def seconds(point: Point) -> float:
    """Of one group for a request, as it was measured."""
    work = point.traits["work"]
    tokens: float = (work.tokens_in + work.tokens_out) * point.traits["groups"]
    return tokens / point.rate


def _distance(question: Seen, other: Seen) -> float:
    distance = math.fsum(
        weight * abs(mine - theirs)
        for weight, mine, theirs in zip(_WEIGHTS, question.logs, other.logs, strict=True)
    )
    if question.model != other.model:
        distance += _OTHER_MODEL + _MODEL_SIZE * abs(question.active - other.active)
    distance += _OTHER_GPU * (question.gpu != other.gpu)
    distance += _OTHER_WIDTH * (question.width != other.width)
    distance += _OTHER_PROGRAM * (question.program != other.program)
    return distance + _OTHER_SCENARIO * (question.scenario != other.scenario)
