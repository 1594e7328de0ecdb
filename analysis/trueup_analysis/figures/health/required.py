"""Benchmarks that nodes should have been measured with and were not: silence is not health."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from trueup_node.health.required import not_measured

from ...selection import broken_runs
from ...selection import run_ids as read_runs
from ..expected_nodes import ExpectedNode, expected_nodes, why_missing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trueup_node.cases import Case
    from trueup_node.health.verdicts import Verdict

    from ...load import Loaded

# The benchmark of verdicts on a node or a run, which no benchmark measures.
OF_RUN: Final = "run"
# The missing measurement of a node without any record.
NO_RECORD: Final = "any record"


@dataclass(frozen=True)
class Roster:
    """Whom the judged runs expected.

    Attributes:
        nodes: the expected nodes and the measured ones, by name.
        manifests: run id -> contents of run.json.
        gaps: run id -> why nobody knows whom it expected.
    """

    nodes: Sequence[ExpectedNode] = ()
    manifests: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    gaps: Mapping[str, str] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        """Whether nobody was expected, and no run is known to have expected anybody."""
        return not self.nodes and not self.gaps

    def why(self, node: str, run_id: str | None, benchmark: str) -> str:
        """Why a run has no record of a benchmark of a node."""
        run = self.manifests.get(run_id or "")
        return "no record of it" if run is None else why_missing(node, run, benchmark)


def roster(loaded: Loaded, cases: Iterable[Case], listed: Sequence[str] | None = None) -> Roster:
    """Whom the runs that were read expected.

    Args:
        cases: the measurements.
        listed: the nodes that somebody expects beside these, whatever manifests say.
    """
    # Nobody knows of a run whose manifest is broken whether it is meant; silence is worse.
    run_ids, broken = read_runs(loaded), broken_runs(loaded)
    measured = [(case.run_id, node) for case in cases for node in case.nodes]
    by_name = {node.name: node for node in expected_nodes(loaded.runs, measured)}
    last = run_ids[-1] if run_ids else "none"
    for name in listed or ():
        reason = f"listed, and run {last} did not expect it"
        by_name.setdefault(name, ExpectedNode(name, last, present=False, why=reason))
    manifests = {str(run["run_id"]): run for run in loaded.runs}
    gaps = {}
    if listed is None:
        gaps = {
            run_id: "there is no run.json, so nobody knows whom the run expected; say so with"
            " --nodes FILE"
            for run_id in run_ids
            if run_id not in manifests
        }
    gaps |= {
        run_id: f"run.json cannot be read: {broken[run_id]}"
        for run_id in run_ids
        if run_id in broken
    }
    return Roster([by_name[name] for name in sorted(by_name)], manifests, gaps)


def absent(expected: Roster) -> list[Verdict]:
    """A verdict on each expected node without any record, and on each run of which nobody knows
    whom it expected.
    """
    of_runs = [
        not_measured((), OF_RUN, f"nodes of run {run_id}", reason, run_id)
        for run_id, reason in expected.gaps.items()
    ]
    return of_runs + [
        not_measured((node.name,), OF_RUN, NO_RECORD, str(node.why), node.run_id)
        for node in expected.nodes
        if not node.present
    ]
