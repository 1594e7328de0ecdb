"""Language models of MLPerf inference: how far the same work is known from others' machines.

Its logs do not state the prompts' length, so that they tell nothing of another load. They tell how
alike machines with the same GPU are: tokens a second of the same model and scenario.
"""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ...evidence import names
from .. import outside
from ..estimates import NEAR, SAME
from ..knowledge import Knowledge
from ..points import Point, Prediction, evidence_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_SOURCE: Final = "mlperf-inference"
_RATE: Final = "output_tokens_per_second"


def points(knowledge: Knowledge) -> list[Point]:
    """Output tokens a second of all GPUs of published systems."""
    known_points, by_name = [], names.models(knowledge.folder)
    for result in outside.results(knowledge):
        row, rate = result.row, result.figures.get(_RATE)
        size = outside.size_of(row.hardware, knowledge)
        if row.source != _SOURCE or not rate or size is None or row.model not in by_name:
            continue
        experts = "mixture of experts" if by_name[row.model]["experts"] else "dense"
        traits: dict[str, Any] = {
            "gpus": row.count,
            "publisher": row.publisher,
            "round": row.repository,
            "setup": (row.model, row.scenario, row.precision, row.hardware),
        }
        known_points.append(
            Point(
                label=f"{row.publisher}: {row.model}, {row.scenario}, {row.count} x {row.hardware}",
                size=size,
                nodes=1,
                rate=rate,
                traits=traits,
                evidence=outside.evidence_of(row),
                condition=f"{experts}, {row.scenario}",
            )
        )
    return known_points


def predict(target: Point, peers: Sequence[Point], _: Knowledge) -> Prediction | None:
    """As much a GPU as others measured of this model, scenario, precision and GPU, of the same
    round if any did: programs get faster. Of several numbers of GPUs the nearest."""
    same = [peer for peer in peers if peer.traits["setup"] == target.traits["setup"]]
    of_round = [peer for peer in same if peer.traits["round"] == target.traits["round"]]
    if not same:
        return None
    gpus = target.traits["gpus"]
    chosen = of_round or same
    away = [abs(math.log(peer.traits["gpus"] / gpus)) for peer in chosen]
    used = [peer for peer, far in zip(chosen, away, strict=True) if far <= min(away) + 1e-9]
    each = statistics.median(peer.rate / peer.traits["gpus"] for peer in used)
    return Prediction(each * gpus, evidence_of(used), distance=SAME if of_round else NEAR)


class Mlperf(NamedTuple):
    """The subject of a back-test (kind.Tells); no advice is drawn from it."""

    name: str
    unit: str
    points: Callable[[Knowledge], Sequence[Point]]
    predict: Callable[[Point, Sequence[Point], Knowledge], Prediction | None]


TELLS: Final = Mlperf("mlperf", "tokens/s", points, predict)
