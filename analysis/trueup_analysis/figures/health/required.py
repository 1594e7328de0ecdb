"""Benchmarks that nodes should have been measured with and were not: silence is not health."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trueup_node.health.required import not_measured
from trueup_node.record import IMPORT

from ...selection import broken_runs, in_order
from ...selection import run_ids as read_runs

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


# Of a benchmark that nobody meant to run.
LEFT_OUT: Final = "left out of the run"
NOT_IMPORTED: Final = "no imported log has it"
# Ansible's name of the controller where no inventory lists it.
_CONTROLLER: Final = "localhost"


class ExpectedNode(NamedTuple):
    """A node, and whether the newest run that expected it has a record of it.

    Attributes:
        name: its name in the inventory.
        run_id: the newest run that expected it or measured it.
        present: whether a record of that run names it, alone or with others. The outcome in
            the record is another question: the case may have failed.
        why: why there is no record; None where there is one.
    """

    name: str
    run_id: str
    present: bool
    why: str | None


def expected_nodes(
    runs: Sequence[Mapping[str, Any]], measured: Iterable[tuple[str, str]]
) -> list[ExpectedNode]:
    """Every node that a run expected or measured, by name.

    An older run's record does not make a node present that the newest run lost.

    Args:
        runs: the manifests, as ``Loaded.runs`` has them, in any order.
        measured: run id and node for each node of each of our records. A node may be named that no
            manifest lists, of a run that has none.
    """
    manifests = {str(run["run_id"]): run for run in runs}
    recorded = set(measured)
    meant = {(run_id, name) for run_id, run in manifests.items() for name in _meant(run)}
    order = in_order((run_id for run_id, _ in recorded), runs)
    run_order = {run_id: number for number, run_id in enumerate(order)}
    newest = {
        name: run_id
        for run_id, name in sorted(meant | recorded, key=lambda pair: run_order[pair[0]])
    }
    nodes = []
    for name, run_id in sorted(newest.items()):
        present = (run_id, name) in recorded
        reason = None if present else why_missing(name, manifests[run_id])
        nodes.append(ExpectedNode(name, run_id, present, reason))
    return nodes


def _meant(run: Mapping[str, Any]) -> set[str]:
    expected = run.get("expected")
    if expected is not None:
        return set(expected)
    # An older manifest: all hosts of the run, among which the controller may be, if a play that
    # makes nodes ran before. With trouble or alone it may as well be the node.
    tallies = run.get("hosts") or {}
    names = {*tallies, *(step["node"] for step in _skipped(run) if "node" in step)}
    tally = tallies.get(_CONTROLLER) or {}
    if len(names) > 1 and not (tally.get("failed") or tally.get("unreachable")):
        names.discard(_CONTROLLER)
    return names


def _skipped(run: Mapping[str, Any]) -> list[Mapping[str, str]]:
    return run.get("skipped") or []


def _failure(name: str, run: Mapping[str, Any]) -> str:
    """How a node failed in a run; empty where it did not."""
    tally = (run.get("hosts") or {}).get(name) or {}
    refused = (run.get("refused") or {}).get(name)
    where = (run.get("failed_in") or {}).get(name)
    if tally.get("unreachable"):
        return "unreachable"
    if refused:
        return f"not believed: {refused[-1]}"
    if where:
        return f"failed in {where}"
    return "failed, and run.json does not say where" if tally.get("failed") else ""


def why_missing(name: str, run: Mapping[str, Any], benchmark: str | None = None) -> str:
    """Why a run has no record of a node, or none of one benchmark of it that was measured with
    others.
    """
    skipped = [
        f"{step.get('what', 'unknown')}: {step.get('why', 'unknown')}"
        for step in _skipped(run)
        if step.get("node") == name and benchmark in (None, step.get("what"))
    ]
    if benchmark is not None and skipped:
        # A benchmark that failed stands there too, and its reason says so.
        last = skipped[-1].removeprefix(f"{benchmark}: ")
        return last if last.startswith("failed: ") else f"skipped: {'; '.join(skipped)}"
    failure = _failure(name, run)
    if failure:
        return failure
    if not run.get("finished_at"):
        # Plays judge while the run goes on.
        return (
            "the run did not finish"
            if benchmark is None
            else "no record so far: the run has not ended"
        )
    if skipped:
        return f"skipped: {'; '.join(skipped)}"
    if benchmark is None:
        return "no record, and run.json does not say why"
    return NOT_IMPORTED if run.get("playbook") == IMPORT else LEFT_OUT
