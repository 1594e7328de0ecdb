"""A repair case: its steps put together, and the rules by which a step may follow another."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from trueup_node.errors import BadInput

from .steps import (
    Begun,
    Closed,
    Drained,
    Evidence,
    Finding,
    Followed,
    GivenBack,
    Identified,
    Mended,
    Moved,
    Noticed,
    Opened,
    Replaced,
    Reported,
    Step,
    Stopped,
    Tested,
)

# The state after each kind of step; other steps leave it as it is.
STATES: Final = {
    Opened: "open",
    Evidence: "evidence",
    Mended: "mended",
    Drained: "drained",
    Reported: "reported",
    Followed: "followed",
    Replaced: "replaced",
    Tested: "tested again",
    GivenBack: "given back",
    Closed: "closed",
}
# Codes of terminal insights: the host is taken out of service, or the report may be sent again.
ACCEPTED: Final = frozenset({"NodeRemovedFromService", "Succeeded"})
AGAIN: Final = frozenset({"TooManyRequests"})


@dataclass(frozen=True)
class Report:
    """A report to Azure.

    Attributes:
        insights: the last one terminal where the report has ended.
        moved: whether the VM was deallocated and started after it.
        replaced: whether the node came back from another host.
    """

    sent: Reported
    insights: tuple[Followed, ...] = ()
    moved: bool = False
    replaced: bool = False

    @property
    def end(self) -> str:
        """The status of its terminal insight; empty while Azure works on it."""
        return self.insights[-1].status if self.insights and self.insights[-1].terminal else ""

    @property
    def is_confirmed(self) -> bool:
        """Whether Azure took the host out of service."""
        return self.end in ACCEPTED


@dataclass(frozen=True)
class Case:
    """A case as its steps leave it.

    Attributes:
        since: when its state changed last.
        has_no_evidence: whether it could not be collected.
        pending: an action that was begun and whose end is not recorded.
        stopped: why the last action could not be done; None once a later step was made.
        test: the last test since the node was changed last; None without.
        tests: how often a test was begun.
    """

    opened: Opened
    state: str
    since: str
    steps: tuple[Step, ...]
    findings: tuple[Finding, ...]
    physical_host: str
    resource_id: str
    vm_id: str = ""
    evidence: Evidence | None = None
    has_no_evidence: bool = False
    mended: Mended | None = None
    drained: Drained | None = None
    reports: tuple[Report, ...] = ()
    test: Tested | None = None
    tests: int = 0
    given_back: GivenBack | None = None
    closed: Closed | None = None
    pending: Begun | None = None
    stopped: Stopped | None = None

    @property
    def id(self) -> str:
        return self.opened.case

    @property
    def node(self) -> str:
        return self.opened.node

    @property
    def report(self) -> Report | None:
        """The last report."""
        return self.reports[-1] if self.reports else None

    @property
    def is_out(self) -> bool:
        """Whether the node is out of service for this case, or is about to be."""
        begun = self.pending is not None and self.pending.action == "drain"
        return self.closed is None and self.given_back is None and bool(self.drained or begun)

    @property
    def is_reporting(self) -> bool:
        """Whether a report is on its way, or Azure works on one."""
        begun = self.pending is not None and self.pending.action == "report"
        last = self.report
        return self.closed is None and (begun or bool(last and not last.replaced and not last.end))

    @property
    def was_false_drain(self) -> bool:
        """Whether the node was drained for nothing: well on testing again, with no fix, and no
        report that Azure confirmed."""
        return bool(
            self.drained
            and self.drained.owner == "trueup"
            and self.test
            and not self.test.failed
            and not self.mended
            and not any(report.is_confirmed for report in self.reports)
        )


def of_steps(steps: Iterable[Step]) -> Case:
    """The case of these steps.

    Raises:
        BadInput: a step cannot follow those before it; says which.
    """
    case: Case | None = None
    for number, step in enumerate(steps, 1):
        try:
            case = after(case, step)
        except BadInput as error:
            raise BadInput(f"step {number}: {error}") from None
    if case is None:
        raise BadInput("it has no step")
    return case


def after(case: Case | None, step: Step) -> Case:
    """The case after one more step.

    Raises:
        BadInput: the step cannot follow.
    """
    if case is None:
        if not isinstance(step, Opened):
            raise BadInput(f"the first step is {_name(step)}, and not opened")
        return Case(
            step,
            STATES[Opened],
            step.at,
            (step,),
            tuple(step.findings),
            step.physical_host,
            step.resource_id,
        )
    refused = _refusal(case, step)
    if refused:
        raise BadInput(refused)
    state = STATES.get(type(step), case.state)
    changed = replace(
        case,
        state=state,
        since=step.at if type(step) in STATES else case.since,
        steps=(*case.steps, step),
        stopped=step if isinstance(step, Stopped) else None,
        pending=_pending(case, step),
    )
    return _with(changed, step)


def _name(step: Step) -> str:
    return str(type(step).__struct_config__.tag)


def _refusal(case: Case, step: Step) -> str:
    """Why a step cannot follow; empty where it can."""
    if case.closed is not None:
        return f"{_name(step)} after the case was closed"
    reason = _REFUSALS.get(type(step))
    return reason(case, step) if reason else ""


def _no_report(case: Case, step: Reported) -> str:
    if not step.physical_host:
        return "a report without the physical host's name"
    last = case.report
    if last is not None and not may_report(last):
        return f"{step.impact} is reported while Azure works on {last.sent.impact}"
    return ""


def _no_insight(case: Case, step: Followed) -> str:
    if case.report is None or case.report.sent.impact != step.impact:
        return f"an insight into {step.impact}, which is not the last report"
    return ""


def _no_move(case: Case, step: Moved | Replaced) -> str:
    if case.report is None:
        return f"{_name(step)} before a report"
    if isinstance(step, Replaced) and step.physical_host == case.report.sent.physical_host:
        return f"it is replaced by the host that was reported, {step.physical_host}"
    return ""


def _no_return(case: Case, _step: GivenBack) -> str:
    if case.drained is None or case.given_back is not None:
        return "a node is given back that is not drained"
    return ""


# Of a kind of step, why it cannot follow.
_REFUSALS: Final[dict[type, Callable[[Case, Any], str]]] = {
    Opened: lambda _case, _step: "it is opened twice",
    Drained: lambda case, _step: "the node is drained twice" if case.drained else "",
    Reported: _no_report,
    Followed: _no_insight,
    Moved: _no_move,
    Replaced: _no_move,
    GivenBack: _no_return,
}


def may_report(last: Report) -> bool:
    """Whether another report may follow this one."""
    return last.replaced or last.end in AGAIN


def _pending(case: Case, step: Step) -> Begun | None:
    """The action that is under way after a step."""
    if isinstance(step, Begun):
        return step
    # These are recorded while an action goes on.
    return case.pending if isinstance(step, (Noticed, Identified, Replaced)) else None


def _with(case: Case, step: Step) -> Case:
    """The case with a step's facts."""
    change = _CHANGES.get(type(step))
    return change(case, step) if change else case


def _noticed(case: Case, step: Noticed) -> Case:
    return replace(case, findings=(*case.findings, *step.findings), test=None)


def _identified(case: Case, step: Identified) -> Case:
    return replace(
        case,
        physical_host=step.physical_host or case.physical_host,
        resource_id=step.resource_id or case.resource_id,
        vm_id=step.vm_id or case.vm_id,
    )


def _of_report(case: Case, **changes: Any) -> Case:
    """The case with changes of its last report."""
    if not case.reports:
        return case
    return replace(case, reports=(*case.reports[:-1], replace(case.reports[-1], **changes)))


def _followed(case: Case, step: Followed) -> Case:
    return _of_report(case, insights=(*case.reports[-1].insights, step))


def _replaced(case: Case, step: Replaced) -> Case:
    return replace(_of_report(case, replaced=True), physical_host=step.physical_host, test=None)


def _stopped(case: Case, step: Stopped) -> Case:
    """A VM that came back from the same host was not moved."""
    if step.action == "evidence":
        return replace(case, has_no_evidence=True)
    return _of_report(case, moved=False) if step.action == "move" else case


# Of a kind of step, the case after it.
_CHANGES: Final[dict[type, Callable[[Case, Any], Case]]] = {
    Noticed: _noticed,
    Identified: _identified,
    Begun: lambda case, step: replace(case, tests=case.tests + (step.action == "test")),
    Evidence: lambda case, step: replace(case, evidence=step),
    Mended: lambda case, step: replace(case, mended=step, test=None),
    Drained: lambda case, step: replace(case, drained=step),
    Reported: lambda case, step: replace(case, reports=(*case.reports, Report(step))),
    Followed: _followed,
    Moved: lambda case, _step: _of_report(case, moved=True),
    Replaced: _replaced,
    Tested: lambda case, step: replace(case, test=step),
    GivenBack: lambda case, step: replace(case, given_back=step),
    Stopped: _stopped,
    Closed: lambda case, step: replace(case, closed=step),
}
