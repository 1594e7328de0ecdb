"""Verdicts on the figures of many cases at once.

A figure that plainly passes, as nearly all of a fleet do, is counted in a frame; whatever else
there is, ``trueup_node.health.verdicts`` judges one by one, as on the node itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from trueup_node.health.verdicts import Verdict, against, judged_statistics, of_figure, stance

from ... import packed
from ...cases import FiguresOf, as_figures

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trueup_node.cases import Case
    from trueup_node.health.expectations import Expectation, Expectations
    from trueup_node.health.verdicts import Stance


@dataclass
class Passes:
    """Figures that pass.

    Attributes:
        cases: whose ``figures`` they are.
        blocks: an expectation, its place among those of its cases, and the rows that it lets pass.
        others: passes that are not of one figure of one case.
    """

    cases: Sequence[Case]
    figures: pd.DataFrame
    blocks: list[tuple[Expectation, int, list[int]]] = field(default_factory=list)
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
            nodes.update(
                self.cases[case_index].nodes for case_index in self._records(rows).unique()
            )
        return nodes

    def devices(self) -> Iterator[tuple[Case, str, set[str | None]]]:
        """Of which devices a case holds a figure that passes, metric by metric."""
        for item, _, rows in self.blocks:
            devices: dict[int, set[str | None]] = {}
            each = packed.values(self.figures["device"].iloc[rows])
            for case_index, device in zip(self._records(rows), each, strict=True):
                devices.setdefault(case_index, set()).add(device)
            for case_index, of_case in devices.items():
                yield self.cases[case_index], item.metric, of_case

    def verdicts(self) -> list[Verdict]:
        """All of them, by node and benchmark."""
        rows = [
            (case_index, position, row, item)
            for item, position, of_item in self.blocks
            for case_index, row in zip(self._records(of_item), of_item, strict=True)
        ]
        rows.sort(key=lambda passing: passing[:3])
        figures = as_figures(self.figures.iloc[[row for *_, row, _ in rows]])
        verdicts = [
            of_figure(self.cases[case_index], item, figure)
            for (case_index, *_, item), figure in zip(rows, figures, strict=True)
        ]
        return sorted([*verdicts, *self.others], key=lambda item: (item.nodes, item.benchmark))

    def _records(self, rows: list[int]) -> pd.Series:
        return self.figures["record"].iloc[rows]


def together(cases: Sequence[Case]) -> pd.DataFrame:
    """The figures of cases, as ``Loaded.figures`` has them; ``record`` is the place of the case."""
    held = [case.figures for case in cases]
    of_table = [figures for figures in held if isinstance(figures, FiguresOf)]
    if len(of_table) < len(held) or len({id(figures.of) for figures in of_table}) != 1:
        return packed.from_columns({}, held).figures
    rows = np.concatenate([np.arange(figures.start, figures.stop) for figures in of_table])
    figures = of_table[0].of.frame.iloc[rows].reset_index(drop=True)
    return figures.assign(record=np.repeat(np.arange(len(held)), list(map(len, held))))


def judge(
    cases: Sequence[Case], figures: pd.DataFrame, expectations: Expectations, chosen: Sequence[int]
) -> tuple[list[Verdict], Passes]:
    """A verdict or more for each of the chosen cases, in their order, and apart from them the
    passes, as ``verdicts.judge`` gives them.

    Args:
        figures: the figures of all cases.
        chosen: places of cases.
    """
    passes = Passes(cases, figures)
    verdict_rows: list[tuple[int, int, int, Verdict]] = []
    groups = _by_fitting(cases, expectations, chosen, verdict_rows)
    group = np.full(len(cases), -1)
    for number, (_, places) in enumerate(groups):
        group[places] = number
    rows = figures.groupby(group[figures["record"]]).indices
    for number, (fitting, places) in enumerate(groups):
        of_group = figures.iloc[rows.get(number, [])]
        verdict_rows += _judged(passes, fitting, places, of_group)
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


def _judged(
    passes: Passes, fitting: Sequence[Expectation], places: Sequence[int], figures: pd.DataFrame
) -> list[tuple[int, int, int, Verdict]]:
    """The verdicts that are no pass on cases that are held to the same expectations, each after the
    places of case, expectation and figure. Passes are added to ``passes``.

    Args:
        figures: those of these cases.
    """
    verdict_rows: list[tuple[int, int, int, Verdict]] = []
    # Of each metric, the cases with a figure that could be judged.
    measured: dict[str, set[int]] = {item.metric: set() for item in fitting}
    lacking = []
    by_metric = dict(iter(figures.groupby("name", observed=True)))
    for number, item in enumerate(fitting):
        rows = _judged_rows(item, by_metric.get(item.metric, figures.iloc[:0]))
        is_plain = _plainly_passes(item, rows)
        passing = rows.index[is_plain].tolist()
        odd = rows[~is_plain]
        for row, case_index, figure in zip(odd.index, odd["record"], as_figures(odd), strict=True):
            verdict = of_figure(passes.cases[case_index], item, figure)
            if verdict.verdict == "pass":
                passing.append(row)
                continue
            verdict_rows.append((case_index, number, row, verdict))
            if verdict.measured is not None:
                measured[item.metric].add(case_index)
        if passing:
            passes.blocks.append((item, number, sorted(passing)))
            measured[item.metric].update(rows.loc[passing, "record"])
        lacking.append(set(places).difference(rows["record"]))
    # A sweep need not reach every size that some source names: one is enough.
    verdict_rows = [
        verdict_row
        for verdict_row in verdict_rows
        if verdict_row[3].measured is not None
        or verdict_row[0] not in measured[str(verdict_row[3].metric)]
    ]
    for number, (item, without) in enumerate(zip(fitting, lacking, strict=True)):
        for case_index in without - measured[item.metric]:
            [verdict] = against(passes.cases[case_index], item)
            verdict_rows.append((case_index, number, 0, verdict))
    return verdict_rows


def _judged_rows(item: Expectation, rows: pd.DataFrame) -> pd.DataFrame:
    """The figures of its metric that an expectation speaks of."""
    sizes = rows["message_bytes"]
    at_size = sizes.isna() if item.message_bytes is None else sizes == item.message_bytes
    return rows[at_size & rows["statistic"].isin(list(judged_statistics(item)))]


def _plainly_passes(item: Expectation, rows: pd.DataFrame) -> pd.Series:
    """Which figures pass so plainly that their distance from the limit does not matter."""
    value = rows["value"]
    passes = (rows["unit"] == item.expected.base_unit) & value.abs().lt(np.inf)
    if item.comparison == "exactly":
        return passes & (value == item.expected.base)
    limits = [item.expected] if item.warn is None else [item.expected, item.warn.value]
    for limit in limits:
        at_most = item.comparison == "at_most"
        passes &= value <= limit.base if at_most else value >= limit.base
    return passes
