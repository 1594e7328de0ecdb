"""All verdicts on a set of records, and their summary."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Final

from trueup_node.errors import BadInput
from trueup_node.health import verdicts
from trueup_node.health.faults import is_warned, warning
from trueup_node.health.required import held_to
from trueup_node.health.verdicts import WORST_FIRST, Verdict, worst

from ...cases import as_figures
from . import fleet, many
from .required import absent

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import pandas as pd
    from trueup_node.cases import Case
    from trueup_node.health.expectations import Expectations
    from trueup_node.health.faults import Faults

    from .many import Passes
    from .required import Roster

_PAIR: Final = 2


@dataclass(frozen=True)
class Health:
    """The verdicts on nodes.

    Attributes:
        findings: the verdicts that are no pass, those of the fleet included, the worst first.
        passes: the others.
        nodes: every node that has a record or was expected to.
    """

    findings: Sequence[Verdict]
    passes: Passes
    nodes: Sequence[str]

    @cached_property
    def verdicts(self) -> Sequence[Verdict]:
        """All of them, the worst first."""
        return [*self.findings, *self.passes.verdicts()]

    def only(self, verdicts: Collection[str]) -> Sequence[Verdict]:
        """Those with some verdicts."""
        every = self.verdicts if "pass" in verdicts else self.findings
        return [item for item in every if item.verdict in verdicts]

    @cached_property
    def words(self) -> dict[str, str]:
        """Node -> its verdict: the worst; one without a verdict makes no node worse."""
        by_node: dict[str, set[str]] = {node: set() for node in self.nodes}
        passed = ((nodes, "pass") for nodes in self.passes.nodes)
        for nodes, verdict in chain(((item.nodes, item.verdict) for item in self.findings), passed):
            if len(nodes) == 1:
                by_node[nodes[0]].add(verdict)
        return {node: worst(held) for node, held in by_node.items()}

    @property
    def unjudged(self) -> list[str]:
        """The nodes of which something was not measured, or that nothing is expected of."""
        lacking = {
            node for item in self.findings if item.verdict == "not measured" for node in item.nodes
        }
        return [
            node
            for node, verdict in self.words.items()
            if verdict == "no verdict" or node in lacking
        ]

    @property
    def sentence(self) -> str:
        """How many nodes are well of how many: all is said to be only where all were judged."""
        total, unjudged = len(self.nodes), len(self.unjudged)
        judged = f"{total - unjudged:,} of {total:,} {'node' if total == 1 else 'nodes'} judged"
        if self.counts["fail"]:
            return f"{judged}; {len(self.blamed):,} failed"
        if self.counts["not measured"]:
            return f"{judged}; something is not measured"
        return f"{judged}; nothing is expected of the others" if unjudged else self._all(judged)

    def _all(self, judged: str) -> str:
        warned = sum(verdict == "warn" for verdict in self.words.values())
        return f"{judged}; {warned:,} with warnings" if warned else f"{judged}: nothing is wrong"

    @cached_property
    def counts(self) -> dict[str, int]:
        """How many verdicts of each kind there are."""
        counter = Counter({"pass": self.passes.count})
        counter.update(item.verdict for item in self.findings)
        return {verdict: counter[verdict] for verdict in WORST_FIRST}

    @property
    def blamed(self) -> dict[str, list[Verdict]]:
        """Single nodes with a failure, each with its failures."""
        failures: dict[str, list[Verdict]] = {}
        for item in self.findings:
            if item.verdict == "fail" and len(item.nodes) == 1:
                failures.setdefault(item.nodes[0], []).append(item)
        return dict(sorted(failures.items()))

    @property
    def groups(self) -> list[Verdict]:
        """Failures and outliers between nodes, of which none alone is to blame."""
        return [
            item
            for item in self.findings
            if item.verdict in ("fail", "warn") and len(item.nodes) > 1
        ]

    @property
    def status(self) -> int:
        """The exit status: 1 for a failure; 2 where something could not be measured, or where
        nothing could be judged; 0 otherwise.
        """
        counts = self.counts
        if counts["fail"]:
            return 1
        return 2 if counts["not measured"] or not counts["pass"] + counts["warn"] else 0


def examine(
    cases: Sequence[Case],
    expectations: Expectations,
    *,
    expected: Roster | None = None,
    required: Sequence[str] = (),
    faults: Faults | None = None,
) -> Health:
    """Judge cases one by one and beside each other.

    Args:
        cases: the measurements.
        expectations: the limits that they are judged by.
        expected: the nodes that should have been measured, each with all that its size must have;
            None where only these cases are asked for.
        required: further benchmarks that every node must have been measured with.
        faults: the meaning of XIDs and SXids; None where none is at hand.

    Raises:
        BadInput: no cases, and nobody expected any.
    """
    if not cases and (expected is None or expected.empty):
        raise BadInput("there is no record to judge")
    judged, passes = _judged(cases, expectations, faults)
    findings = held_to(
        judged,
        cases,
        expectations,
        reason_of=None if expected is None else expected.why,
        required=required,
        passed=passes.devices(),
    )
    nodes = {node for case in cases for node in case.nodes}
    if expected is not None:
        findings += absent(expected)
        nodes |= {node.name for node in expected.nodes}
    passes.others = [item for item in findings if item.verdict == "pass"]
    findings = [item for item in findings if item.verdict != "pass"]
    findings.sort(key=lambda item: (WORST_FIRST.index(item.verdict), item.nodes, item.benchmark))
    return Health(findings, passes, sorted(nodes))


def _judged(
    cases: Sequence[Case], expectations: Expectations, faults: Faults | None
) -> tuple[list[Verdict], Passes]:
    """The verdicts on the measurements, one by one and beside each other."""
    figures = many.together(cases)
    pairs = [case for case in cases if _is_pair(case)]
    non_pairs = [index for index, case in enumerate(cases) if not _is_pair(case)]
    findings, passes = many.judge(cases, figures, expectations, non_pairs)
    findings += _warnings(cases, figures, faults)
    findings += verdicts.judge([case for case in pairs if case.outcome != "ok"], expectations)
    findings += fleet.pairs(pairs, expectations)
    failed = {(item.nodes, item.device, item.metric) for item in findings if item.verdict == "fail"}
    findings += [
        item
        for item in fleet.outliers(cases, figures)
        # A failure is not reported a second time.
        if (item.nodes, item.device, item.metric) not in failed
    ]
    return findings + fleet.differences(cases) + fleet.one_machine(cases), passes


def _warnings(cases: Sequence[Case], figures: pd.DataFrame, faults: Faults | None) -> list[Verdict]:
    """XIDs, SXids and other lines of the kernel log that are to be watched."""
    codes = figures[figures["name"].isin(list(filter(is_warned, figures["name"].cat.categories)))]
    return [
        warning(cases[index], figure, faults)
        for index, figure in zip(codes["record"], as_figures(codes), strict=True)
    ]


def _is_pair(case: Case) -> bool:
    return len(case.nodes) == _PAIR and case.benchmark == "ib"
