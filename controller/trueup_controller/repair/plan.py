"""The next action of a repair case."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, Literal, NamedTuple

from .case import ACCEPTED, AGAIN, Case, may_report

Actor = Literal["trueup", "operator", "Azure", "nobody"]
Name = Literal[
    "drain", "evidence", "mend", "test", "report", "follow", "move", "return", "close", "hand"
]
# So many reports in one case; then a person decides.
MOST_REPORTS: Final = 3
# A category that asks for a reset of the node's state: no host is replaced.
RESET: Final = "Resource.Hpc.Reset"
# A report that Azure refused for too many requests is sent again after this.
AGAIN_AFTER: Final = timedelta(hours=1)
# These change a node or tell Azure: the operator's yes, or a policy's, comes first.
ASKS: Final = frozenset({"drain", "mend", "test", "report", "move", "return"})


class Next(NamedTuple):
    """The next action.

    Attributes:
        actor: who is waited for. ``trueup`` acts by ``trueup case next``.
        text: a sentence.
    """

    name: Name
    actor: Actor
    text: str

    @property
    def asks(self) -> bool:
        """Whether somebody must have said yes."""
        return self.name in ASKS


def next_action(case: Case, now: str) -> Next:
    """The next action of a case.

    Args:
        now: the time, as steps write it.
    """
    if case.closed is not None:
        return Next("close", "nobody", f"closed: {case.closed.reason}")
    if case.given_back is not None:
        return Next("close", "trueup", "close the case")
    if case.test is not None and not case.test.failed:
        return _well(case)
    if case.opened.drain and case.drained is None:
        return Next("drain", "trueup", f"drain {case.node}: it should take no new jobs")
    if not (case.evidence or case.has_no_evidence or (case.report and case.report.moved)):
        return Next("evidence", "trueup", f"collect the evidence on {case.node}")
    if case.opened.soft_fix and case.mended is None:
        return Next("mend", "trueup", f"apply the soft fix {case.opened.soft_fix}")
    if case.report is not None:
        return _reported(case, now)
    if case.test is None and (case.mended is not None or case.opened.retest):
        return Next("test", "trueup", f"test {case.node} again")
    return _to_report(case)


def _well(case: Case) -> Next:
    """The node is well on testing again."""
    if case.drained is not None:
        return Next("return", "trueup", f"give {case.node} back: it is well on testing again")
    return Next("close", "trueup", "close the case: the node is well on testing again")


def _to_report(case: Case) -> Next:
    if not case.opened.category:
        return Next(
            "hand",
            "operator",
            f"no category of Azure's fits {case.opened.fault}: mend the node, then record it"
            " (`trueup case record CASE mended`), or close the case with a reason",
        )
    if len(case.reports) >= MOST_REPORTS:
        return Next(
            "hand",
            "operator",
            f"{len(case.reports)} reports did not help: ask Azure's support, and name"
            f" {case.reports[-1].sent.impact}",
        )
    return Next("report", "trueup", f"report {case.opened.category} to Azure")


def _reported(case: Case, now: str) -> Next:
    """After a report."""
    last = case.reports[-1]
    if last.end in AGAIN and _moment(now) < _moment(last.insights[-1].at) + AGAIN_AFTER:
        return Next("hand", "Azure", f"Azure takes no report now ({last.end}): wait an hour")
    if may_report(last):
        if last.replaced and case.test is None:
            return Next("test", "trueup", f"test {case.node} on its new host")
        return _to_report(case)
    if not last.end:
        return Next("follow", "Azure", f"Azure works on the report {last.sent.impact}")
    if last.end not in ACCEPTED | AGAIN:
        return Next(
            "hand",
            "operator",
            f"Azure ended the report {last.sent.impact} with {last.end}, which trueup does not"
            " know: look it up in the portal, then close the case with a reason",
        )
    if last.sent.category == RESET and case.test is not None:
        return Next(
            "hand", "operator", f"{case.node} still fails after the reset: open another case"
        )
    if last.moved or last.sent.category == RESET:
        return Next("test", "trueup", f"test {case.node} on its new host")
    return Next("move", "trueup", f"deallocate and start {case.node}: it comes to another host")


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)
