"""What a fleet's figures come to, figure by figure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import fmean, median, quantiles
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trueup.cases import Case, Figure


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


def spreads(cases: Iterable[Case]) -> list[Spread]:
    """Every figure of the cases that ended well, by size, benchmark, case, figure and message size.

    Cases on different numbers of nodes are different: what one node reaches is no pair's figure.
    """
    held: dict[tuple[object, ...], list[tuple[Case, Figure]]] = defaultdict(list)
    for case in cases:
        for figure in case.figures if case.outcome == "ok" else ():
            of_case = (str(case.vm_size).lower(), case.benchmark, _name(case))
            like = (figure.name, figure.message_bytes, figure.statistic, figure.unit)
            held[(*of_case, *like)].append((case, figure))
    found = list(map(_spread, held.values()))
    return sorted(
        found,
        key=lambda one: (
            str(one.vm_size),
            *(one.benchmark, one.case, one.metric, one.statistic or ""),
            -1 if one.message_bytes is None else one.message_bytes,
        ),
    )


def _name(case: Case) -> str:
    """A case of several nodes may have their names in its own."""
    return case.case if len(case.nodes) == 1 else f"{len(case.nodes)} nodes"


def _spread(members: Sequence[tuple[Case, Figure]]) -> Spread:
    case, figure = members[0]
    values = [one.value for _, one in members]
    tenths = quantiles(values, n=10, method="inclusive") if len(values) > 1 else values * 9
    return Spread(
        vm_size=case.vm_size,
        benchmark=case.benchmark,
        case=_name(case),
        metric=figure.name,
        message_bytes=figure.message_bytes,
        statistic=figure.statistic,
        unit=figure.unit,
        nodes=len({node for one, _ in members for node in one.nodes}),
        n=len(values),
        median=median(values),
        mean=fmean(values),
        p10=tenths[0],
        p90=tenths[-1],
        least=min(values),
        most=max(values),
    )
