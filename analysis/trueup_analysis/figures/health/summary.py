"""A summary of a fleet's figures, figure by figure."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean, median, quantiles
from typing import TYPE_CHECKING

from ...cases import as_figures
from ...packed import alike
from .fleet import alike_cases
from .many import together

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from trueup_node.cases import Case


@dataclass(frozen=True)
class Spread:
    """One figure over all nodes and devices of a size.

    Attributes:
        median, mean, p10, p90, least, most: in ``unit``, a base unit. The deciles lie between two
            measurements where they fall there.
        spread: p90 - p10 as a share of the median; None where that is 0.
    """

    vm_size: str | None
    benchmark: str
    case: str
    metric: str
    message_bytes: int | None
    statistic: str | None
    unit: str
    nodes: int
    n: int
    median: float
    mean: float
    p10: float
    p90: float
    least: float
    most: float

    @property
    def spread(self) -> float | None:
        return (self.p90 - self.p10) / abs(self.median) if self.median else None


def spreads(cases: Sequence[Case]) -> list[Spread]:
    """Every figure of the cases that ended well, by size, benchmark, case, figure and message size.

    Cases on different numbers of nodes are different: one node's figure is no pair's.
    """
    well = [case for case in cases if case.outcome == "ok"]
    figures = together(well)
    likes = alike_cases((str(case.vm_size).lower(), case.benchmark, _name(case)) for case in well)
    figures = figures.assign(like=likes[figures["record"]])
    number = alike(figures, ["like", "message_bytes", "name", "statistic", "unit"])
    all_spreads = [_spread(well, rows) for _, rows in figures.groupby(number)]
    return sorted(
        all_spreads,
        key=lambda spread: (
            str(spread.vm_size),
            *(spread.benchmark, spread.case, spread.metric, spread.statistic or ""),
            -1 if spread.message_bytes is None else spread.message_bytes,
        ),
    )


def _name(case: Case) -> str:
    """A case of several nodes may have their names in its own."""
    return case.case if len(case.nodes) == 1 else f"{len(case.nodes)} nodes"


def _spread(cases: Sequence[Case], rows: pd.DataFrame) -> Spread:
    """Figures of one kind."""
    [figure] = as_figures(rows.iloc[:1])
    case = cases[rows["record"].iloc[0]]
    values = sorted(rows["value"].tolist())
    nodes = {node for index in rows["record"].unique() for node in cases[index].nodes}
    tenths = quantiles(values, n=10, method="inclusive") if len(values) > 1 else values * 9
    return Spread(
        vm_size=case.vm_size,
        benchmark=case.benchmark,
        case=_name(case),
        metric=figure.name,
        message_bytes=figure.message_bytes,
        statistic=figure.statistic,
        unit=figure.unit,
        nodes=len(nodes),
        n=len(values),
        median=median(values),
        mean=fmean(values),
        p10=tenths[0],
        p90=tenths[-1],
        least=values[0],
        most=values[-1],
    )
