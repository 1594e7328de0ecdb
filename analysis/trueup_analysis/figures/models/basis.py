"""Evidence that an answer rests on: the user's records, results of the same model near by, operator
times of aiconfigurator, else the roofline, held against the results of other models."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from ..advise import backtest, nearby
from ..advise.estimates import MODEL, NEAR, SAME, Evidence
from . import results
from .facts import slug

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..advise.knowledge import Knowledge
    from ..advise.points import Point
    from .config import ModelConfig

RECORDS, PUBLISHED = "your records", "published results"
OPERATORS, ROOFLINE = "aiconfigurator", "roofline"
# How many times fewer, and more, requests than predicted a server may serve. Records vary by
# setup; operator times are not of a server; of a condition without results nothing tested the
# roofline. Ours.
_SPREAD: Final = {RECORDS: 1.15, OPERATORS: 1.5, ROOFLINE: 3.0}
_OVER_NODES: Final = 2.0
# Requests of the same kind: tokens within this factor.
_ALIKE: Final = 1.25
# Parameters of one model: within this share.
_SAME_MODEL: Final = 0.02


class Basis(NamedTuple):
    """Evidence of one layout on one size.

    Attributes:
        kind: RECORDS, PUBLISHED, OPERATORS or ROOFLINE.
        rate: expected requests/s over those of the roofline.
        low, high: factors of the rate between which it is expected.
        evidence: records, publications or programs.
        beyond: how the question lies outside of the results, as a sentence; "" inside of them.
    """

    kind: str
    rate: float
    low: float
    high: float
    evidence: tuple[Evidence, ...]
    beyond: str = ""

    @property
    def source(self) -> str:
        return "; ".join(dict.fromkeys(each.source for each in self.evidence))

    def over_nodes(self) -> Basis:
        """The same with a wider range: no evidence is of experts spread over several nodes."""
        return self._replace(low=self.low / _OVER_NODES, high=self.high * _OVER_NODES)


def _basis(
    kind: str, rate: float, spread: float, evidence: tuple[Evidence, ...], beyond: str = ""
) -> Basis:
    return Basis(kind, rate, 1 / spread, spread, evidence, beyond)


def of_operators(version: str) -> Basis:
    source = f"aiconfigurator {version}"
    return _basis(OPERATORS, 1.0, _SPREAD[OPERATORS], (Evidence(MODEL, source),))


def of_records(
    model: ModelConfig, names: Sequence[str], size: str, knowledge: Knowledge
) -> Basis | None:
    """From the user's records of this model on this size: the mean of measured over computed rates,
    and its spread.

    Args:
        names: of the model in records, beside that of its folder.
    """
    slugs = {slug(name) for name in (model.name, *names) if name}
    measured = [
        point
        for point in results.records(
            knowledge,
            lambda case: None if slugs.isdisjoint(results.names_of(case)) else model,
        )
        if point.size == size
    ]
    logs = [
        math.log(computed.seconds / nearby.seconds(point))
        for point in measured
        if (computed := nearby.seen(point, knowledge)) is not None
    ]
    if not logs:
        return None
    middle = math.fsum(logs) / len(logs)
    spread = max(math.log(_SPREAD[RECORDS]), *(abs(log - middle) for log in logs))
    evidence = tuple(dict.fromkeys(point.evidence for point in measured if point.evidence))
    return _basis(RECORDS, math.exp(middle), math.exp(spread), evidence)


def of_nearest(target: Point, knowledge: Knowledge) -> Basis:
    """From the results nearest to the question, with the range that the back-test found at that
    distance (trueup advise --backtest)."""
    every = knowledge.once("serving points", lambda: results.points(knowledge))
    alike = knowledge.once(
        ("serving points", target.condition),
        lambda: [point for point in every if point.condition == target.condition],
    )
    wide = knowledge.once(
        ("serving widths", target.condition),
        lambda: backtest.width(results.TELLS, alike, knowledge),
    )
    basis = nearby.tell(target, alike, knowledge)
    datasheet = Evidence(MODEL, "the GPU's datasheet")
    if basis is None or wide is None:
        beyond = f"no result of such work ({target.condition})."
        return _basis(ROOFLINE, 1.0, _SPREAD[ROOFLINE], (datasheet,), beyond)
    spread, rate = wide**basis.doubt, 1 / basis.ratio
    if _is_amd(target, knowledge) not in {_is_amd(point, knowledge) for point in alike}:
        # Programs reach other shares of another maker's peaks.
        spread = max(spread, _SPREAD[ROOFLINE])
    evidence = tuple(dict.fromkeys(point.evidence for point in basis.used if point.evidence))
    beyond, model = _beyond(target, alike, knowledge), target.traits["model"]
    is_of_model = any(_is_like(model, point.traits["model"]) for point in basis.used)
    if basis.distance not in (SAME, NEAR) or not is_of_model:
        return _basis(ROOFLINE, rate, spread, (*evidence, datasheet), beyond)
    return _basis(PUBLISHED, rate, spread, evidence, beyond)


def _is_like(model: ModelConfig, other: ModelConfig) -> bool:
    return abs(model.parameters / other.parameters - 1) < _SAME_MODEL


def _beyond(target: Point, alike: Sequence[Point], knowledge: Knowledge) -> str:
    """How the question lies outside of the results of its condition."""
    model, work, gpu = target.traits["model"], target.traits["work"], _gpu(target, knowledge)
    of_model = [point for point in alike if _is_like(model, point.traits["model"])]
    phrases = []
    if gpu not in {_gpu(point, knowledge) for point in alike}:
        phrases.append(f"no result of {gpu}")
    bits = f"{8 * _width(target):g} bits"
    same_width = [point for point in of_model if _width(point) == _width(target)]
    if not of_model:
        phrases.append("no result of this model")
    elif not same_width:
        phrases.append(f"no result of this model at {bits}")
    elif not phrases and gpu not in {_gpu(point, knowledge) for point in same_width}:
        phrases.append(f"no result of this model at {bits} on {gpu}")
    for words, value, lengths in (
        ("tokens in", work.tokens_in, [point.traits["work"].tokens_in for point in alike]),
        ("tokens out", work.tokens_out, [point.traits["work"].tokens_out for point in alike]),
    ):
        if not min(lengths) / _ALIKE <= value <= max(lengths) * _ALIKE:
            phrases.append(f"{value} {words}, where results have {min(lengths)} to {max(lengths)}")
    return f"{'; '.join(phrases)}." if phrases else ""


def _gpu(point: Point, knowledge: Knowledge) -> str:
    return knowledge.sizes[point.size]["gpu_model"]


def _is_amd(point: Point, knowledge: Knowledge) -> bool:
    return _gpu(point, knowledge).startswith("MI")


def _width(point: Point) -> float:
    width: float = point.traits["model"].quantization.least_width
    return width
