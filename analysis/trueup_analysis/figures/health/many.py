"""Verdicts on the figures of many cases at once.

A figure that plainly passes, as nearly all of a fleet do, is counted in arrays; whatever else there
is, ``trueup.health.verdicts`` judges one by one, as on the node itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from trueup.health.verdicts import Verdict, against, judged_statistics, of_figure, stance

from ...cases import FiguresOf
from ...metrics import of_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray
    from trueup.cases import Case
    from trueup.health.expectations import Expectation, Expectations
    from trueup.health.verdicts import Stance

    from ...metrics import Figures


@dataclass
class Passes:
    """Figures that pass.

    Attributes:
        cases: whose ``figures`` they are.
        blocks: an expectation, its place among those of its cases, and the rows that it lets pass.
        others: passes that are not of one figure of one case.
    """

    cases: Sequence[Case]
    figures: Figures
    blocks: list[tuple[Expectation, int, NDArray[np.int64]]] = field(default_factory=list)
    others: list[Verdict] = field(default_factory=list)

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(len(rows) for *_, rows in self.blocks) + len(self.others)

    @property
    def nodes(self) -> set[tuple[str, ...]]:
        """The nodes that they are of."""
        nodes = {item.nodes for item in self.others}
        for *_, rows in self.blocks:
            places = np.unique(self.figures.owners[rows]).tolist()
            nodes.update(self.cases[index].nodes for index in places)
        return nodes

    def devices(self) -> Iterator[tuple[Case, str, set[str | None]]]:
        """Of which devices a case holds a figure that passes, metric by metric."""
        words = [*self.figures.device.words, None]
        for item, _, rows in self.blocks:
            owners = self.figures.owners[rows]
            codes = self.figures.device.codes[rows].tolist()
            starts = np.flatnonzero(np.diff(owners, prepend=-1)).tolist()
            for start, stop in zip(starts, [*starts[1:], len(rows)], strict=True):
                devices = {words[code] for code in codes[start:stop]}
                yield self.cases[owners[start]], item.metric, devices

    def verdicts(self) -> list[Verdict]:
        """All of them, by node and benchmark."""
        places = [np.full(len(rows), position) for _, position, rows in self.blocks]
        numbers = [np.full(len(rows), number) for number, (*_, rows) in enumerate(self.blocks)]
        rows = _joined([rows for *_, rows in self.blocks])
        order = np.lexsort((rows, _joined(places), self.figures.owners[rows]))
        items = [self.blocks[number][0] for number in _joined(numbers)[order].tolist()]
        rows = rows[order]
        owners = self.figures.owners[rows].tolist()
        verdicts = [
            of_figure(self.cases[owner], item, figure)
            for owner, item, figure in zip(owners, items, self.figures.at(rows), strict=True)
        ]
        return sorted([*verdicts, *self.others], key=lambda item: (item.nodes, item.benchmark))


def _joined(arrays: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate([np.empty(0, np.int64), *arrays])


def together(cases: Sequence[Case]) -> Figures:
    """The figures of cases, column by column; ``owners`` are the places of the cases."""
    held = [case.figures for case in cases]
    of_table = [figures for figures in held if isinstance(figures, FiguresOf)]
    tables = {id(figures.of) for figures in of_table}
    if len(of_table) == len(held) and len(tables) == 1:
        starts, stops = np.array(
            [(figures.start, figures.stop) for figures in of_table], np.int64
        ).T
        return of_table[0].of.gathered(starts, stops)
    return of_rows(held)


def judge(
    cases: Sequence[Case], figures: Figures, expectations: Expectations, chosen: Sequence[int]
) -> tuple[list[Verdict], Passes]:
    """A verdict or more for each of the chosen cases, in their order, and apart from them the
    passes, as ``verdicts.judge`` gives them.

    Args:
        figures: the figures of all cases.
        chosen: places of cases.
    """
    passes = Passes(cases, figures)
    verdict_rows: list[tuple[int, int, int, Verdict]] = []
    for fitting, places in _by_fitting(cases, expectations, chosen, verdict_rows):
        group = _Group(passes, fitting, np.array(places, np.int64))
        verdict_rows += group.judged()
    verdict_rows.sort(key=lambda verdict_row: verdict_row[:3])
    return [item for *_, item in verdict_rows], passes


def _by_fitting(
    cases: Sequence[Case],
    expectations: Expectations,
    chosen: Sequence[int],
    verdict_rows: list[tuple[int, int, int, Verdict]],
) -> list[tuple[Sequence[Expectation], list[int]]]:
    """Expectations, and the cases whose figures are held to them; verdicts on whole cases go into
    ``verdict_rows``."""
    stances: dict[tuple[Any, ...], Stance] = {}
    groups: dict[tuple[int, ...], tuple[Sequence[Expectation], list[int]]] = {}
    for index in chosen:
        case = cases[index]
        # Equal parameters of records are one object.
        key = (case.vm_size, case.benchmark, id(case.parameters), case.node_count, case.gpus)
        taken = stances.get(key) if case.outcome == "ok" else stance(case, expectations)
        if taken is None:
            taken = stances[key] = stance(case, expectations)
        verdict_rows += [(index, -1, 0, item) for item in taken.whole(case)]
        if taken.fitting:
            of_it = groups.setdefault(tuple(map(id, taken.fitting)), (taken.fitting, []))
            of_it[1].append(index)
    return list(groups.values())


class _Group:
    """Cases that are held to the same expectations."""

    def __init__(
        self, passes: Passes, fitting: Sequence[Expectation], places: NDArray[np.int64]
    ) -> None:
        self._passes, self._fitting, self._places = passes, fitting, places
        is_member = np.zeros(len(passes.cases), np.bool_)
        is_member[places] = True
        self._rows = np.flatnonzero(is_member[passes.figures.owners])
        self._part = passes.figures.taken(self._rows)
        # Of each metric, the cases with a figure that could be judged.
        self._measured: dict[str, NDArray[np.bool_]] = {
            item.metric: np.zeros(len(passes.cases), np.bool_) for item in fitting
        }

    def judged(self) -> list[tuple[int, int, int, Verdict]]:
        """The verdicts that are no pass, each after the places of case, expectation and figure."""
        verdict_rows: list[tuple[int, int, int, Verdict]] = []
        lacking = []
        for number, item in enumerate(self._fitting):
            rows = self._judged_rows(item)
            plain = _plainly_passes(item, self._part, rows)
            passing = self._rows[rows[plain]]
            odd = []
            for row in self._rows[rows[~plain]].tolist():
                case_index = int(self._passes.figures.owners[row])
                verdict = of_figure(
                    self._passes.cases[case_index], item, *self._passes.figures.rows(row, row + 1)
                )
                if verdict.verdict == "pass":
                    odd.append(row)
                    continue
                verdict_rows.append((case_index, number, row, verdict))
                if verdict.measured is not None:
                    self._measured[item.metric][case_index] = True
            if odd:
                passing = np.unique(np.concatenate([passing, np.array(odd, np.int64)]))
            if len(passing):
                self._passes.blocks.append((item, number, passing))
                self._measured[item.metric][self._passes.figures.owners[passing]] = True
            has = np.zeros(len(self._passes.cases), np.bool_)
            has[self._part.owners[rows]] = True
            lacking.append(self._places[~has[self._places]])
        # A sweep need not reach every size that some source names: one is enough.
        verdict_rows = [
            verdict_row
            for verdict_row in verdict_rows
            if verdict_row[3].measured is not None
            or not self._measured[str(verdict_row[3].metric)][verdict_row[0]]
        ]
        for number, (item, places) in enumerate(zip(self._fitting, lacking, strict=True)):
            for case_index in places[~self._measured[item.metric][places]].tolist():
                [verdict] = against(self._passes.cases[case_index], item)
                verdict_rows.append((case_index, number, 0, verdict))
        return verdict_rows

    def _judged_rows(self, item: Expectation) -> NDArray[np.int64]:
        """The figures that an expectation speaks of, by their places in the part."""
        figures = self._part
        size = -1 if item.message_bytes is None else item.message_bytes
        rows = np.flatnonzero(figures.name.codes == figures.name.code(item.metric))
        rows = rows[figures.message_bytes[rows] == size]
        judged_rows: NDArray[np.int64] = rows[
            figures.statistic.taken(rows).marks(judged_statistics(item))
        ]
        return judged_rows


def _plainly_passes(
    item: Expectation, figures: Figures, rows: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Which figures pass so plainly that their distance from the limit does not matter."""
    value = figures.value[rows]
    in_unit = figures.unit.codes[rows] == figures.unit.code(item.expected.base_unit)
    finite: NDArray[np.bool_] = in_unit & np.isfinite(value)
    if item.comparison == "exactly":
        finite &= value == item.expected.base
        return finite
    limits = [item.expected] if item.warn is None else [item.expected, item.warn.value]
    for limit in limits:
        at_most = item.comparison == "at_most"
        finite &= value <= limit.base if at_most else value >= limit.base
    return finite
