"""The published results nearest to a configuration."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from .rows import SERVING, Result, results

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .rows import Row

# How far away a difference puts a result; a factor of two in a length or a number is 1 times its
# weight. Ours: they order results, and no figure depends on them.
_OTHER_HARDWARE: Final = 1.5
_OTHER_PRECISION: Final = 1.0
_WEIGHTS: Final = {"count": 0.5, "tokens_in": 0.3, "tokens_out": 0.3, "concurrency": 0.3}
# A factor below this is no difference that a reader has to know.
_ALIKE: Final = 1.1


class Near(NamedTuple):
    """A published result.

    Attributes:
        result: its row (source, commit, date, configuration) and its figures by metric.
        distance: 0 of the same configuration, more the less it is like it.
        differs: in which respects, as words: "H200-SXM5-141GB", "1024 tokens in, not 4000".
    """

    result: Result
    distance: float
    differs: tuple[str, ...]


class Configuration(NamedTuple):
    """A served model, as it is asked for; 0 and "" where it does not matter.

    Attributes:
        model: by the name of evidence_models.csv.
        hardware: a GPU as vm_sizes.csv calls it.
        precision: of the weights: bf16, fp8, fp4, int4.
        gpus: of all engines.
        tokens_in, tokens_out, concurrency: of the load.
    """

    model: str
    hardware: str
    precision: str = ""
    gpus: int = 0
    tokens_in: float = 0.0
    tokens_out: float = 0.0
    concurrency: float = 0.0


def near(
    rows: Iterable[Row], target: Configuration, *, kind: str = SERVING, most: int = 10
) -> list[Near]:
    """The published results of the same model, the nearest first; none where no source has it."""
    of_model = (row for row in rows if row.kind == kind and row.model == target.model)
    measured = [_measured(result, target) for result in results(of_model)]
    return sorted(measured, key=lambda each: (each.distance, each.result.row.source))[:most]


def _measured(result: Result, target: Configuration) -> Near:
    row, distance, differs = result.row, 0.0, []
    if row.hardware != target.hardware:
        distance += _OTHER_HARDWARE
        differs.append(row.hardware)
    if target.precision and row.precision and row.precision != target.precision:
        distance += _OTHER_PRECISION
        differs.append(row.precision)
    loads = (
        ("count", row.count, target.gpus),
        ("tokens_in", row.tokens_in, target.tokens_in),
        ("tokens_out", row.tokens_out, target.tokens_out),
        ("concurrency", row.concurrency, target.concurrency),
    )
    for name, measured, expected in loads:
        weight = _WEIGHTS[name]
        if measured and expected:
            distance += weight * abs(math.log2(measured / expected))
            if not 1 / _ALIKE <= measured / expected <= _ALIKE:
                differs.append(f"{measured:g} {_WORDS[name]}, not {expected:g}")
        elif expected:
            distance += weight
    return Near(result, distance, tuple(differs))


_WORDS: Final = {
    "count": "GPUs",
    "tokens_in": "tokens in",
    "tokens_out": "tokens out",
    "concurrency": "requests in flight",
}
