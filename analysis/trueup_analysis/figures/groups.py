"""Cases of one benchmark that measured the same thing, on however many nodes and runs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..rooms import at_headline, known, view_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    import pandas as pd
    from trueup_node.cases import Case
    from trueup_node.view import Measure, View

    from ..rooms import Headline
    from .frames import Heads


class Pooled(NamedTuple):
    """A measure over the cases of a group, in its base unit.

    Attributes:
        value: the median over the cases.
        low, high: the least and the greatest: of several cases of their values, of one of its
            repeats; None where nobody says.
        worst, best: the cases with the worst and the best value.
    """

    measure: Measure
    value: float
    low: float | None
    high: float | None
    worst: Case
    best: Case
    shown: Headline


@dataclass(frozen=True)
class Group:
    """Cases that measured the same thing.

    Attributes:
        label: the name that its cases share, nodes' names left out.
        apart: the values of the view's ``apart`` parameters that they share.
        head: the figure that stands for each, pooled; None where no case holds one.
    """

    benchmark: str
    label: str
    machine: str
    node_count: int | None
    apart: tuple[tuple[str, str], ...]
    layout: str
    cases: tuple[Case, ...]
    head: Pooled | None

    @cached_property
    def nodes(self) -> list[str]:
        """The nodes of all its cases."""
        return list(dict.fromkeys(node for case in self.cases for node in case.nodes))

    @property
    def where(self) -> str:
        """ "node01", "8 nodes" (of one case), "200 nodes, each" (the same case on each)."""
        nodes = self.nodes
        if len(nodes) == 1:
            return nodes[0]
        if len(self.cases) > 1 and self.node_count == 1:
            return f"{len(nodes):,} nodes, each"
        if self.node_count is None:
            return f"{len(nodes):,} logs, of unknown numbers of nodes"
        if len(nodes) > self.node_count:
            return f"{self.node_count:,} of {len(nodes):,} nodes at a time"
        return f"{len(nodes):,} nodes"


def groups(all_cases: Iterable[Case], heads: Heads) -> list[Group]:
    """The cases with outcome ok, grouped by measurement, in the order in which they were read."""
    members: dict[tuple[object, ...], list[Case]] = {}
    for case in all_cases:
        if case.outcome == "ok" and view_of(case.benchmark) is not None:
            members.setdefault(_key(case, heads), []).append(case)
    group_list = []
    for key, cases in members.items():
        case = cases[0]
        headline = heads.of(case)
        group_list.append(
            Group(
                benchmark=case.benchmark,
                label=str(key[1]),
                machine=case.machine,
                node_count=case.node_count,
                apart=apart_of(case, view_of(case.benchmark)),
                layout=case.layout,
                cases=tuple(cases),
                head=None if headline is None else pooled(cases, headline.measure, heads),
            )
        )
    return group_list


def _key(case: Case, heads: Heads) -> tuple[object, ...]:
    """The properties that the cases of a group share."""
    return (
        *(case.benchmark, masked(case), case.machine, case.node_count),
        *(apart_of(case, view_of(case.benchmark)), case.short_layout, case.provenance),
        *(heads.place(case), case.software.get(case.benchmark, "")),
    )


def masked(case: Case) -> str:
    """The case's name without the names of its nodes, where they are whole words of it."""
    name = case.case
    for node in sorted(case.nodes, key=len, reverse=True):
        if node in name:
            name = re.sub(rf"(?<![A-Za-z0-9]){re.escape(node)}(?![A-Za-z0-9])", "*", name)
    return name


def apart_of(case: Case, view: View | None) -> tuple[tuple[str, str], ...]:
    names = () if view is None else view.apart
    return tuple(
        (name, str(case.parameters[name]))
        for name in names
        if case.parameters.get(name) not in (None, "")
    )


def pooled(cases: Sequence[Case], measure: Measure, heads: Heads) -> Pooled | None:
    """One measure over cases, at the place where its headline counts; None where none holds it."""
    held = heads.held(cases, measure)
    if held is not None:
        return _pooled_whole(cases, measure, held, heads)
    headlines = [(at_headline(case, measure, heads.expectations), case) for case in cases]
    measured = [(headline, case) for headline, case in headlines if headline is not None]
    if not measured:
        return None
    ordered = sorted(measured, key=lambda pair: pair[0].value)
    middle = median(headline.value for headline, _ in ordered)
    low, high = _ends([headline for headline, _ in measured])
    least, most = ordered[0][1], ordered[-1][1]
    worst, best = (most, least) if measure.direction == "lower" else (least, most)
    return Pooled(measure, middle, low, high, worst, best, measured[0][0])


def _ends(headlines: Sequence[Headline]) -> tuple[float | None, float | None]:
    """The least and the greatest figure of one or several cases."""
    if len(headlines) == 1:
        return headlines[0].low, headlines[0].high
    # Repeats within a case count too: one more measurement may give any of them.
    lows = (each.value if each.low is None else each.low for each in headlines)
    highs = (each.value if each.high is None else each.high for each in headlines)
    return min(lows), max(highs)


def _pooled_whole(
    cases: Sequence[Case], measure: Measure, held: pd.DataFrame, heads: Heads
) -> Pooled | None:
    """The same of figures of whole cases."""
    holding = np.flatnonzero(held["value"].notna())
    if not len(holding):
        return None
    values, lows, highs = (held[name].to_numpy()[holding] for name in ("value", "low", "high"))
    order = np.argsort(values, kind="stable")
    least, most = (cases[holding[order[end]]] for end in (0, -1))
    if len(holding) > 1:
        lows = np.where(np.isnan(lows), values, lows)
        highs = np.where(np.isnan(highs), values, highs)
    worst, best = (most, least) if measure.direction == "lower" else (least, most)
    first = heads.at(cases[holding[0]], measure)
    assert first is not None  # noqa: S101 WHY: for mypy; it holds the measure
    middle, low, high = median(values.tolist()), known(lows.min()), known(highs.max())
    return Pooled(measure, middle, low, high, worst, best, first)


def apart_words(group: Group, differing: Collection[str]) -> str:
    """In which of the parameters a group differs from others: "operation all_gather"."""
    texts = [
        f"{name.replace('_', ' ')} {value}" for name, value in group.apart if name in differing
    ]
    return ", ".join(texts)


def differing(among: Sequence[Group]) -> frozenset[str]:
    """The parameters that not all of the groups have the same value of."""
    known_of = [dict(group.apart) for group in among]
    names = {name for parameters in known_of for name in parameters}
    return frozenset(
        name for name in names if len({parameters.get(name) for parameters in known_of}) > 1
    )
