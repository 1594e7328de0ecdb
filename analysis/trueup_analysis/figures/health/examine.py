"""All verdicts on a set of records, and what they come to."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trueup.errors import BadInput

from . import fleet, verdicts
from .verdicts import WORST_FIRST, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...cases import Case
    from .expectations import Expectations

_PAIR: Final = 2


@dataclass(frozen=True)
class Health:
    """What was found.

    Attributes:
        verdicts: all of them, those of the fleet included, the worst first.
        nodes: every node that has a record.
    """

    verdicts: Sequence[Verdict]
    nodes: Sequence[str]

    @property
    def counts(self) -> dict[str, int]:
        """How many verdicts of each kind there are."""
        found = Counter(item.verdict for item in self.verdicts)
        return {word: found[word] for word in WORST_FIRST}

    @property
    def blamed(self) -> dict[str, list[Verdict]]:
        """Single nodes with a failure, each with its failures."""
        found: dict[str, list[Verdict]] = {}
        for item in self.verdicts:
            if item.verdict == "fail" and len(item.nodes) == 1:
                found.setdefault(item.nodes[0], []).append(item)
        return dict(sorted(found.items()))

    @property
    def groups(self) -> list[Verdict]:
        """Failures and outliers between nodes, of which none alone is to blame."""
        return [
            item
            for item in self.verdicts
            if item.verdict in ("fail", "warn") and len(item.nodes) > 1
        ]

    def worst(self, node: str) -> str:
        """The worst verdict on one node."""
        found = {item.verdict for item in self.verdicts if item.nodes == (node,)}
        return next((word for word in WORST_FIRST if word in found), "no verdict")

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
    cases: Sequence[Case], expectations: Expectations, *, required: Sequence[str] = ()
) -> Health:
    """Judge cases one by one and beside each other.

    Args:
        cases: what was measured.
        expectations: what it is judged by.
        required: benchmarks that every node must have been measured with.

    Raises:
        BadInput: no cases.
    """
    if not cases:
        raise BadInput("there is no record to judge")
    pairs = [case for case in cases if _is_pair(case)]
    others = [case for case in cases if not _is_pair(case)]
    found = verdicts.judge(others, expectations)
    found += verdicts.judge([case for case in pairs if case.outcome != "ok"], expectations)
    found += fleet.pairs(pairs, expectations)
    failed = {(item.nodes, item.device, item.metric) for item in found if item.verdict == "fail"}
    found += [
        item
        for item in fleet.outliers(cases)
        # What failed is not said a second time.
        if (item.nodes, item.device, item.metric) not in failed
    ]
    found += fleet.differences(cases)
    nodes = sorted({node for case in cases for node in case.nodes})
    found += _lacking(cases, nodes, required)
    found.sort(key=lambda item: (WORST_FIRST.index(item.verdict), item.nodes, item.benchmark))
    return Health(found, nodes)


def _is_pair(case: Case) -> bool:
    return len(case.nodes) == _PAIR and case.benchmark == "ib"


def _lacking(cases: Sequence[Case], nodes: Sequence[str], required: Sequence[str]) -> list[Verdict]:
    measured = {(node, case.benchmark) for case in cases for node in case.nodes}
    return [
        Verdict(
            nodes=(node,),
            vm_size=None,
            benchmark=benchmark,
            case="",
            verdict="not measured",
            what=benchmark,
            reason=f"{benchmark} is required, and has no record",
        )
        for node in nodes
        for benchmark in required
        if (node, benchmark) not in measured
    ]
