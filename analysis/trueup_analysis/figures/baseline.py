"""Limits from a fleet's own healthy nodes, laid out as catalog/expectations.yml.

Of each figure there are two numbers: the median of healthy nodes, and the limit, which noise alone
passes once in 10,000 measurements. Noise is Student's t of 5 degrees of freedom with the median
absolute deviation of the measurements: outliers are common, and one bad node does not move it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trueup_node.errors import BadInput

from ..rooms import at_headline, names_of, view_of
from ..units import DISPLAYED, plural, scaled
from .compare.measured import work_of
from .compare.significance import NOISE_FREEDOM, noise_of, t_quantile

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from trueup_node.cases import Case
    from trueup_node.view import Measure

    from .compare.measured import Work

_MISSED: Final = 1e-4
# Fewer nodes say little of the others.
LEAST_NODES: Final = 3
_LEAST_VALUES: Final = 5
_DIGITS: Final = 4


class _Key(NamedTuple):
    work: Work
    measure: Measure
    message_bytes: int | None


@dataclass
class _Values:
    """The measurements of a figure: value and node of each, the first case, and the days."""

    case: Case
    values: list[tuple[float, str]] = field(default_factory=list)
    days: set[str] = field(default_factory=set)

    @property
    def nodes(self) -> set[str]:
        return {node for _, node in self.values}


@dataclass(frozen=True)
class Baseline:
    """Own limits.

    Attributes:
        entries: as expectations.yml has them, without sources beside each.
        beyond: a sentence on each node that misses a limit, though nothing failed on it.
        left_out: a sentence on each figure of too few nodes, and on nodes that are not healthy.
    """

    entries: Sequence[dict[str, Any]]
    beyond: Sequence[str]
    left_out: Sequence[str]


def baseline(cases: Sequence[Case], unhealthy: Collection[str], today: str) -> Baseline:
    """The limits of the figures that the benchmarks show, at the message size that counts.

    Args:
        unhealthy: nodes that failed a check: their records do not count.
        today: the date of the limits.

    Raises:
        BadInput: no figure was measured often enough.
    """
    held = _measurements(cases, unhealthy)
    entries, beyond = [], []
    left_out = [f"{name}: failed a check, not counted" for name in sorted(unhealthy)]
    too_few: dict[str, list[str]] = {}
    for key, values in held.items():
        if len(values.nodes) < LEAST_NODES or len(values.values) < _LEAST_VALUES:
            counted = (
                f"{plural(len(values.values), 'value')} of {plural(len(values.nodes), 'node')}"
            )
            too_few.setdefault(counted, []).append(_what(key))
            continue
        entry, far = _entry(key, values, today)
        entries.append(entry)
        beyond += far
    left_out += [
        f"{counted}, and a limit needs {LEAST_NODES} nodes and {_LEAST_VALUES} values:"
        f" {'; '.join(dict.fromkeys(names))}"
        for counted, names in too_few.items()
    ]
    if not entries:
        raise BadInput(". ".join(left_out) or "no record is ok and of a known size")
    return Baseline(entries, beyond, left_out)


def _measurements(cases: Sequence[Case], unhealthy: Collection[str]) -> dict[_Key, _Values]:
    held: dict[_Key, _Values] = {}
    for case in cases:
        if case.outcome != "ok" or case.vm_size is None or not {*case.nodes}.isdisjoint(unhealthy):
            continue
        for measure, size, rows in _figures(case):
            key = _Key(work_of(case, (), one_machine=True), measure, size)
            values = held.setdefault(key, _Values(case))
            values.values += [(value, case.node) for value in rows]
            values.days.add((case.started_at or "")[:10])
    return held


def _figures(case: Case) -> Iterator[tuple[Measure, int | None, list[float]]]:
    """Each figure that has a better direction, at the size that counts: a value of each device."""
    view = view_of(case.benchmark)
    for measure in () if view is None else (*view.headlines, *view.figures):
        headline = at_headline(case, measure)
        if headline is None or measure.direction == "none":
            continue
        rows = case.typical(measure.metric, measure.statistic)
        size = headline.message_bytes
        values = [row.value for row in rows if row.message_bytes == size and row.value > 0]
        if values:
            yield measure, size, values


def _entry(key: _Key, values: _Values, today: str) -> tuple[dict[str, Any], list[str]]:
    """The limit of a figure, and a sentence on each node beyond it."""
    figures = [value for value, _ in values.values]
    healthy = median(figures)
    noise = noise_of([value - healthy for value in figures])
    reach = t_quantile(1 - _MISSED, NOISE_FREEDOM) * noise
    is_higher_better = key.measure.direction == "higher"
    limit = max(healthy - reach, 0.0) if is_higher_better else healthy + reach
    sign = 1 if is_higher_better else -1
    far = {node for value, node in values.values if sign * (value - limit) < 0}
    unit = DISPLAYED.get(key.measure.unit, key.measure.unit)
    first, last = min(values.days), max(values.days)
    period = first if first == last else f"{first} to {last}"
    case = values.case
    count = f"{plural(len(figures), 'value')} of {_nodes(values)}, {period}"
    apart = {name: [value] for name, value in key.work.apart}
    entry: dict[str, Any] = {
        "what": _what(key),
        "benchmark": case.benchmark,
        "metric": key.measure.metric,
        "comparison": "at_least" if is_higher_better else "at_most",
        "unit": unit,
        **({"parameters": apart} if apart else {}),
        **({"statistic": key.measure.statistic} if key.measure.statistic else {}),
        **({} if case.node_count is None else {"nodes": case.node_count}),
        **({} if key.message_bytes is None else {"message_bytes": key.message_bytes}),
        "source": f"own fleet, {count}: noise passes the limit once in 10,000 measurements",
        "date": today,
        "values": [
            {
                "floor" if is_higher_better else "ceiling": _rounded(limit, key.measure.unit),
                "healthy": {
                    "value": _rounded(healthy, key.measure.unit),
                    "source": f"median of {count}",
                    "date": today,
                },
                "sizes": [case.vm_size],
            }
        ],
    }
    return entry, [f"{node}: {_what(key)} lies beyond the limit" for node in sorted(far)]


def _nodes(values: _Values) -> str:
    """ "20 nodes", "125 groups of 2 nodes"."""
    count, several = len(values.nodes), values.case.node_count or 1
    return plural(count, "node") if several == 1 else f"{count:,} groups of {several:,} nodes"


def _what(key: _Key) -> str:
    apart = ", ".join(f"{name} {value}" for name, value in key.work.apart)
    return ", ".join(filter(None, (f"{names_of(key.work.benchmark)} {key.measure.label}", apart)))


def _rounded(value: float, unit: str) -> float:
    return float(f"{scaled(value, unit):.{_DIGITS}g}")
