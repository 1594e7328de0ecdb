"""The repair loop: one action after another, each recorded before and after it is done.

A killed loop goes on where it was: an action that was begun is done again, and each may be done
again (a report has its name, a drained node stays drained, a finished check is not run twice).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple, cast

from trueup_node.errors import TrueupError

from . import impact
from .case import Case
from .journal import Journal, together
from .plan import Next, next_action
from .ports import Ports, sha256_of
from .steps import (
    Action,
    Begun,
    Closed,
    Drained,
    Evidence,
    Followed,
    GivenBack,
    Identified,
    Mended,
    Moved,
    Replaced,
    Reported,
    Step,
    Stopped,
    Tested,
)

By = Literal["operator", "policy", "trueup"]


class Permission(NamedTuple):
    """Whether an action may be done.

    Attributes:
        by: whoever allows it.
        refusal: why not; empty where it may.
    """

    by: By
    refusal: str = ""


Permit = Callable[[Next, Case], Permission]


class Result(NamedTuple):
    """Where a case stands.

    Attributes:
        refusal: why the next action was not done; empty where somebody else is waited for.
        steps: how many were made.
    """

    case: Case
    next: Next
    refusal: str
    steps: int


class SameHost(TrueupError):
    """A VM that was deallocated and started is where it was."""


class Loop:
    """The loop of one case.

    Args:
        results: the folder of results.
        permit: asked before an action that needs a yes; the folder of cases is locked.
        now: the time, as steps write it.
    """

    def __init__(
        self, results: Path, journal: Journal, ports: Ports, permit: Permit, now: Callable[[], str]
    ) -> None:
        self._results, self._journal, self._ports = results, journal, ports
        self._permit, self._now = permit, now
        self._by: By = "trueup"
        self._lock = -1

    def run(self, *, most: int = 100) -> Result:
        """Do actions until somebody else is waited for.

        Args:
            most: actions.
        """
        with self._journal.alone() as self._lock:
            case = self._journal.read()
            before = len(case.steps)
            planned, refusal = self._next(case), ""
            for _ in range(most):
                planned = self._next(case)
                if planned.name == "hand" or planned.actor == "nobody":
                    break
                try:
                    case, refusal = self._begin(case, planned)
                    if refusal:
                        break
                    changed = self._do(case, planned)
                except TrueupError as error:
                    action = "move" if isinstance(error, SameHost) else planned.name
                    # The file has what the action recorded before it failed.
                    refusal = str(error)
                    case = self._stopped(self._journal.read(), action, refusal)
                    if planned.name == "evidence":
                        # A half-dead node has none, and is reported all the same.
                        refusal = ""
                        continue
                    break
                asked_again = changed is case or self._next(changed).name == "follow"
                case = changed
                # Azure is asked once in a run.
                if planned.name == "follow" and asked_again:
                    break
            return Result(case, self._next(case), refusal, len(case.steps) - before)

    def _next(self, case: Case) -> Next:
        return next_action(case, self._now())

    def _begin(self, case: Case, planned: Next) -> tuple[Case, str]:
        """Ask for a yes and record the intention, unless both were done before."""
        name = planned.name
        if name in ("follow", "close", "hand"):
            return case, ""
        if case.pending is not None and case.pending.action == name:
            self._by = case.pending.by
            return case, ""
        with together(self._results):
            permission = self._permit(planned, case) if planned.asks else Permission("trueup")
            if permission.refusal:
                return case, permission.refusal
            self._by = permission.by
            key = {"report": impact.report_name(case), "test": str(case.tests + 1)}
            step = Begun(
                at=self._now(), by=permission.by, action=cast("Action", name), key=key.get(name, "")
            )
            return self._add(case, step), ""

    def _do(self, case: Case, planned: Next) -> Case:
        act = getattr(self, f"_{planned.name}")
        done: Case = act(case)
        return done

    def _add(self, case: Case, step: Step) -> Case:
        return self._journal.append(case, step)

    def _stopped(self, case: Case, action: str, reason: str) -> Case:
        if case.stopped and (case.stopped.action, case.stopped.reason) == (action, reason):
            return case
        return self._add(case, Stopped(at=self._now(), action=action, reason=reason))

    # -- actions; each may be done again --

    def _drain(self, case: Case) -> Case:
        scheduler, mark = self._ports.scheduler, f"trueup case {case.id}"
        reason = scheduler.drained(case.node)
        if reason is None:
            scheduler.drain(case.node, f"{mark}: {case.opened.fault}")
        owner = "trueup" if reason is None or reason.startswith(mark) else reason
        return self._add(case, Drained(at=self._now(), by=self._by, owner=owner))

    def _evidence(self, case: Case) -> Case:
        collected = self._ports.plays.evidence(case, self._lock)
        if collected.physical_host and not case.physical_host:
            step = Identified(at=self._now(), physical_host=collected.physical_host)
            case = self._add(case, step)
        sha256 = sha256_of(collected.archive)
        path = str(collected.archive)
        return self._add(case, Evidence(at=self._now(), path=path, sha256=sha256))

    def _mend(self, case: Case) -> Case:
        self._ports.plays.mend(case, self._lock)
        return self._add(case, Mended(at=self._now(), by=self._by, fix=case.opened.soft_fix))

    def _report(self, case: Case) -> Case:
        name = case.pending.key if case.pending else impact.report_name(case)
        impact.require_host(case)
        machine = None if case.resource_id else self._ports.cloud.machine(case.node)
        if machine and machine.resource_id:
            case = self._add(
                case,
                Identified(at=self._now(), resource_id=machine.resource_id, vm_id=machine.vm_id),
            )
        self._ports.cloud.report(case, name)
        return self._add(
            case,
            Reported(
                at=self._now(),
                by=self._by,
                impact=name,
                way=self._ports.cloud.way,
                category=case.opened.category,
                physical_host=case.physical_host,
            ),
        )

    def _follow(self, case: Case) -> Case:
        """Record new insights; the same case where there is none."""
        last = case.reports[-1]
        recorded = {step.insight for step in last.insights}
        for insight in self._ports.cloud.insights(case, last.sent.impact):
            if insight.name not in recorded:
                case = self._add(
                    case,
                    Followed(
                        at=self._now(),
                        impact=last.sent.impact,
                        insight=insight.name,
                        status=insight.status,
                        terminal=insight.terminal,
                        text=insight.text,
                    ),
                )
        return case

    def _move(self, case: Case) -> Case:
        self._ports.cloud.move(case)
        return self._add(case, Moved(at=self._now(), by=self._by))

    def _test(self, case: Case) -> Case:
        number = case.pending.key if case.pending else str(case.tests + 1)
        run = self._ports.plays.test(case, number, self._lock)
        outcome = self._ports.judge(run, case)
        last = case.report
        if last is not None and last.moved and not last.replaced:
            if outcome.physical_host == last.sent.physical_host:
                reason = (
                    f"{case.node} came back on the host that was reported, {outcome.physical_host}"
                )
                return self._add(case, Stopped(at=self._now(), action="move", reason=reason))
            host = outcome.physical_host
            case = self._add(case, Replaced(at=self._now(), physical_host=host))
        return self._add(case, Tested(at=self._now(), by=self._by, run=run, failed=outcome.failed))

    def _return(self, case: Case) -> Case:
        scheduler, mark = self._ports.scheduler, f"trueup case {case.id}"
        owner = case.drained.owner if case.drained else ""
        reason, note = scheduler.drained(case.node), ""
        if owner != "trueup":
            note = f"left drained, since another drained it: {owner}"
        elif reason is not None and not reason.startswith(mark):
            note = f"left drained, since another drained it meanwhile: {reason}"
        elif reason is not None:
            scheduler.resume(case.node)
        return self._add(case, GivenBack(at=self._now(), by=self._by, note=note))

    def _close(self, case: Case) -> Case:
        reason = "the node is well on testing again"
        if case.given_back is not None:
            reason = case.given_back.note or "given back"
        return self._add(case, Closed(at=self._now(), by=self._by, reason=reason))
