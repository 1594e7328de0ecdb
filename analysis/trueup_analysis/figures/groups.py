"""Cases of one benchmark that measured the same thing, on however many nodes and runs."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from .views import at_headline, headline, view_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trueup.cases import Case
    from trueup.health.expectations import Expectations
    from trueup.view import Measure, View

    from .views import Headline


@dataclass(frozen=True)
class Pooled:
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
    node_count: int
    apart: tuple[tuple[str, str], ...]
    layout: str
    cases: tuple[Case, ...]
    head: Pooled | None

    @property
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
        if len(nodes) > self.node_count:
            return f"{self.node_count:,} of {len(nodes):,} nodes at a time"
        return f"{len(nodes):,} nodes"


def groups(found: Iterable[Case], expectations: Expectations | None = None) -> list[Group]:
    """The cases with outcome ok, by what they measured, in the order in which they were read."""
    members: dict[tuple[object, ...], list[Case]] = {}
    heads: dict[int, Headline | None] = {}
    for case in found:
        view = view_of(case.benchmark)
        if case.outcome != "ok" or view is None:
            continue
        shown = heads[id(case)] = headline(case, expectations)
        place = None if shown is None else (shown.measure.metric, shown.message_bytes)
        key: tuple[object, ...] = (
            *(case.benchmark, _masked(case), case.machine, case.node_count or 1),
            *(_apart(case, view), case.short_layout, case.provenance, place),
            case.software.get(case.benchmark, ""),
        )
        members.setdefault(key, []).append(case)
    made = []
    for key, cases in members.items():
        first = cases[0]
        shown = heads[id(first)]
        made.append(
            Group(
                benchmark=first.benchmark,
                label=str(key[1]),
                machine=first.machine,
                node_count=first.node_count or 1,
                apart=_apart(first, view_of(first.benchmark)),
                layout=first.layout,
                cases=tuple(cases),
                head=None if shown is None else pooled(cases, shown.measure, expectations),
            )
        )
    return made


def _masked(case: Case) -> str:
    """The case's name without the names of its nodes."""
    name = case.case
    for node in sorted(case.nodes, key=len, reverse=True):
        name = name.replace(node, "*")
    return name


def _apart(case: Case, view: View | None) -> tuple[tuple[str, str], ...]:
    names = () if view is None else view.apart
    return tuple(
        (name, str(case.parameters[name]))
        for name in names
        if case.parameters.get(name) not in (None, "")
    )


def pooled(
    cases: Sequence[Case], measure: Measure, expectations: Expectations | None = None
) -> Pooled | None:
    """One measure over cases, at the place where its headline counts; None where none holds it."""
    held = [(at_headline(case, measure, expectations), case) for case in cases]
    found = [(shown, case) for shown, case in held if shown is not None]
    if not found:
        return None
    ordered = sorted(found, key=lambda pair: pair[0].value)
    middle = median(shown.value for shown, _ in ordered)
    low: float | None
    high: float | None
    if len(found) == 1:
        low, high = found[0][0].low, found[0][0].high
    else:
        # Repeats within a case count too: they are what one more measurement may give.
        low = min(shown.value if shown.low is None else shown.low for shown, _ in found)
        high = max(shown.value if shown.high is None else shown.high for shown, _ in found)
    least, most = ordered[0][1], ordered[-1][1]
    worst, best = (most, least) if measure.direction == "lower" else (least, most)
    return Pooled(measure, middle, low, high, worst, best, found[0][0])


def apart_words(group: Group, among: Sequence[Group]) -> str:
    """In which parameters a group differs from the others: "operation all_gather"."""
    names = dict(group.apart)
    differ = [
        f"{name.replace('_', ' ')} {value}"
        for name, value in names.items()
        if len({dict(other.apart).get(name) for other in among}) > 1
    ]
    return ", ".join(differ)
