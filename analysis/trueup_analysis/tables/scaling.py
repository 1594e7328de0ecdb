"""The tables of ``trueup scaling``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ..figures.health import expectations
from ..figures.scaling import tables as figures
from ..sheets import scaling as sheets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..load import Loaded
    from ..sheets.sheet import Sheet


@dataclass(frozen=True)
class Scaling:
    """How records scale.

    Attributes:
        sheets: one a series.
        benchmarks: the benchmarks that have a series.
    """

    sheets: Sequence[Sheet]
    benchmarks: Sequence[str]


def scaling(
    loaded: Loaded,
    *,
    benchmarks: Sequence[str] = (),
    over: Literal["cores", "gpus", "nodes", "auto"] = "auto",
    baseline: int | None = None,
    across_sizes: bool = False,
    threshold: float = 0.5,
    layouts: bool = True,
) -> Scaling:
    """
    Args:
        benchmarks: the benchmarks that must have a series; none: those that have one.
        over: the resource that scales; auto: cores or GPUs in a node, and nodes.
        baseline: cores, GPUs or nodes that speed-ups refer to; None: the fewest.
        across_sizes: whether the constrained sizes of one host stand in one table.
        threshold: the efficiency of a step from which it pays, 0 to 1.
        layouts: the slower layouts too.

    Raises:
        BadInput: nothing scales, or a named benchmark does not.
    """
    options: dict[str, Any] = {
        "over": over,
        "baseline": baseline,
        "across_sizes": across_sizes,
        "threshold": threshold,
        "expectations": expectations.at_sizes(loaded),
    }
    if benchmarks:
        all_series = [
            series
            for name in benchmarks
            for series in figures.series(loaded, benchmark=name, **options)
        ]
    else:
        all_series = figures.every_series(loaded, **options)
    return Scaling(
        [sheets.scaling(series, layouts=layouts) for series in all_series],
        list(dict.fromkeys(series.benchmark for series in all_series)),
    )
