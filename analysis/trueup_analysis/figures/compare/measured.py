"""The figures of each side by work, node and device."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trueup_node.cases import TYPICAL

from ..groups import apart_of, masked
from ..views import view_of
from .significance import range_in_deviations

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from trueup_node.cases import Case, Figure

    from .sides import Side

_REPEATS: Final = 3


class Work(NamedTuple):
    """What the paired records of two sides have in common.

    Attributes:
        case: its name without those of nodes.
        apart: the parameters of the view that tell work apart.
        machine: the VM size; "" where the sides are of other sizes on purpose.
    """

    benchmark: str
    case: str
    apart: tuple[tuple[str, str], ...]
    node_count: int | None
    layout: str
    machine: str


class FigureKey(NamedTuple):
    """One figure of a work."""

    work: Work
    metric: str
    unit: str
    direction: str
    message_bytes: int | None


class Place(NamedTuple):
    """Where a figure was measured: a node ("a+b" of two), and one of its devices."""

    node: str
    device: str | None


@dataclass
class Sample:
    """The measurements of a figure at a place.

    Attributes:
        values: one a record, in base units.
        spreads: of each record the standard deviation of its repeats as a logarithm, and their
            number, where it says the least and the greatest of three or more.
    """

    values: list[float] = field(default_factory=list)
    spreads: list[tuple[float, int]] = field(default_factory=list)

    @property
    def value(self) -> float:
        """The median."""
        return median(self.values)


Measured = dict[FigureKey, dict[Place, Sample]]


def work_of(case: Case, ignored: Collection[str], *, one_machine: bool) -> Work:
    """The work of a record.

    Args:
        ignored: parameters that may differ between the sides.
        one_machine: whether the VM size is part of it.
    """
    apart = apart_of(case, view_of(case.benchmark))
    return Work(
        case.benchmark,
        masked(case),
        tuple(pair for pair in apart if pair[0] not in ignored),
        case.node_count,
        case.short_layout,
        case.machine if one_machine else "",
    )


def measured(side: Side, ignored: Collection[str], *, one_machine: bool) -> Measured:
    """The figures of a side's ok records; those without a better direction are no figures."""
    held: Measured = {}
    for case in side.cases:
        if case.outcome != "ok":
            continue
        work = work_of(case, ignored, one_machine=one_machine)
        for key, place, rows in _figures(case, work):
            samples = held.setdefault(key, {})
            _add(samples.setdefault(place, Sample()), rows)
    return held


def _figures(case: Case, work: Work) -> Iterator[tuple[FigureKey, Place, dict[str | None, Figure]]]:
    by_figure: dict[tuple[Any, ...], dict[str | None, Figure]] = {}
    for row in case.figures:
        if row.direction != "none":
            key = (row.name, row.unit, row.direction, row.message_bytes, row.device)
            by_figure.setdefault(key, {}).setdefault(row.statistic, row)
    for (name, unit, direction, size, device), rows in by_figure.items():
        yield FigureKey(work, name, unit, direction, size), Place(case.node, device), rows


def _add(sample: Sample, rows: dict[str | None, Figure]) -> None:
    """Add a record's rows of one figure, by statistic."""
    typical = next((rows[name] for name in TYPICAL if name in rows), None)
    if typical is None:
        # Only a percentile or an extreme: the first stands for itself.
        typical = next(iter(rows.values()))
    sample.values.append(typical.value)
    least, most = rows.get("min"), rows.get("max")
    count = typical.n or 0
    if least is not None and most is not None and count >= _REPEATS and least.value > 0:
        spread = math.log(most.value / least.value) / range_in_deviations(count)
        sample.spreads.append((spread, count))
