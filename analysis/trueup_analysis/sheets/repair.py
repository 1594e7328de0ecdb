"""From repair cases to sheets."""

from __future__ import annotations

import math
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec
from trueup_controller.repair.plan import next_action

from .. import units
from .sheet import Column, Sheet, unshown, worded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trueup_controller.repair.case import Case
    from trueup_controller.repair.steps import Step

    from ..figures.repair_bill import Bill, Group, Priced

_HOUR: Final = 3600


def cases(listed: Sequence[Case], now: str, folder: str) -> Sheet:
    """A row for each case: who waits for whom, and since when."""
    live = [case for case in listed if case.closed is None]
    return Sheet(
        title=f"{units.plural(len(live), 'open case')} of {len(listed):,} in {folder}",
        columns=[
            *worded("case", "node", "fault", "state"),
            Column("waits_for", "waits for", words=True),
            Column("hours", "for hours", lambda hours: units.fixed(hours, 1)),
            Column("next", "next", words=True),
            *unshown("since", "category", "physical_host", "stopped", "out_of_service"),
        ],
        rows=[_row(case, now) for case in listed],
        tone="doubtful" if live else "good",
        name="cases",
        facts={"kind": "repair cases", "open": len(live)},
    )


def _row(case: Case, now: str) -> dict[str, Any]:
    planned = next_action(case, now)
    stopped = case.stopped.reason if case.stopped else ""
    return {
        "case": case.id,
        "node": case.node,
        "fault": case.opened.fault,
        "state": case.state,
        # An action that could not be done waits for a person.
        "waits_for": "operator" if stopped else planned.actor,
        "hours": hours_between(case.since, case.closed.at if case.closed else now),
        "next": f"{planned.text}; not done: {stopped}" if stopped else planned.text,
        "since": case.since,
        "category": case.opened.category,
        "physical_host": case.physical_host,
        "stopped": stopped,
        "out_of_service": case.is_out,
    }


def case_steps(case: Case, now: str) -> Sheet:
    """One case, step by step."""
    row = _row(case, now)
    facts = {
        "fault": f"{case.opened.fault}: {case.opened.meaning}",
        "category": case.opened.category or "none of Azure's fits",
        "size": f"{case.opened.vm_size} {case.opened.region}".strip(),
        "physical host": case.physical_host,
        "resource id": case.resource_id,
        "evidence": f"{case.evidence.path} sha256 {case.evidence.sha256}" if case.evidence else "",
    }
    return Sheet(
        title=f"Case {case.id}, node {case.node}: {case.state}",
        columns=[*worded("at", "step", "by", "about")],
        rows=[
            {"at": step.at, "step": _name(step), "by": step.by, "about": _about(step)}
            for step in case.steps
        ],
        lead=[f"{name}: {value}" for name, value in facts.items() if value],
        notes=[f"Next ({row['waits_for']}): {row['next']}."],
        tone="good" if case.closed else "doubtful",
        name="steps",
        facts={"kind": "repair case", **row},
    )


def _name(step: Step) -> str:
    return str(msgspec.to_builtins(step)["step"]).replace("_", " ")


def _about(step: Step) -> str:
    """The facts of a step in one text."""
    document = msgspec.to_builtins(step)
    left_out = ("at", "by", "step", "schema", "case", "node")
    return ", ".join(_parts({key: document[key] for key in document if key not in left_out}))


def _parts(document: dict[str, Any]) -> Iterator[str]:
    for key, value in document.items():
        if isinstance(value, list):
            texts = [str(item.get("text")) for item in value]
            yield f"{key}: {'; '.join(texts) or 'nothing'}"
        elif value not in ("", None):
            yield f"{key}: {value}"


def bill(bill_of_cases: Bill) -> list[Sheet]:
    """The bill: a row for each case, then sums by node, fault and month."""
    false_drains = sum(item.is_false for item in bill_of_cases.cases)
    running = sum(not item.is_over for item in bill_of_cases.cases)
    total = sum(item.total_hours for item in bill_of_cases.cases)
    usd = sum(item.usd for item in bill_of_cases.cases if not units.is_missing(item.usd))
    unpriced = sum(units.is_missing(item.usd) for item in bill_of_cases.cases)
    notes = [
        "From the first symptom until the node was given back, or the case closed.",
        f"False drains: {false_drains} (well on testing again, no fix, no confirmed report).",
    ]
    if running:
        notes.append(f"{units.plural(running, 'case')} not over: counted until now.")
    if unpriced:
        notes.append(f"{units.plural(unpriced, 'case')} not priced, and not in the US$.")
    count, hours = units.plural(len(bill_of_cases.cases), "case"), units.fixed(total, 1)
    return [
        Sheet(
            title=f"Repairs: {count}, {hours} hours, US$ {units.money(usd)}",
            columns=[
                *worded("case", "node", "fault"),
                Column("hours", "hours", lambda hours: units.fixed(hours, 1)),
                Column("usd", "US$", units.money),
                Column("usd_per_hour", "US$/h", units.money),
                *worded("is", "price"),
                *unshown("first_symptom", "false_drain", "over"),
            ],
            rows=[_billed(item) for item in bill_of_cases.cases],
            notes=notes,
            warnings=[*bill_of_cases.unknown, *bill_of_cases.warnings],
            name="bill",
            facts={
                "kind": "repair bill",
                "hours": total,
                "usd": usd,
                "unpriced_cases": unpriced,
                "false_drains": false_drains,
            },
        ),
        *(_sums(name, groups) for name, groups in bill_of_cases.by.items()),
    ]


def _billed(item: Priced) -> dict[str, Any]:
    state = "over" if item.is_over else "not over"
    return {
        "case": item.case.id,
        "node": item.case.node,
        "fault": item.case.opened.fault,
        "hours": item.total_hours,
        "usd": item.usd,
        "usd_per_hour": item.usd_per_hour,
        "is": f"{state}, false drain" if item.is_false else state,
        "price": item.price_source,
        "first_symptom": item.case.opened.first_symptom,
        "false_drain": item.is_false,
        "over": item.is_over,
    }


def _sums(name: str, groups: Sequence[Group]) -> Sheet:
    return Sheet(
        title=f"By {name}",
        columns=[
            *worded(name),
            Column("cases", "cases", units.count),
            Column("hours", "hours", lambda hours: units.fixed(hours, 1)),
            Column("usd", "US$", units.money),
            Column("unpriced_hours", "hours not priced", lambda hours: units.fixed(hours, 1)),
            Column("false_drains", "false drains", units.count),
        ],
        rows=[
            {
                name: group.name,
                "cases": group.cases,
                "hours": group.hours,
                "usd": group.usd if group.hours > group.unpriced else math.nan,
                "unpriced_hours": group.unpriced,
                "false_drains": group.false_drains,
            }
            for group in groups
        ],
        name=f"by_{name}",
        facts={"kind": f"repair bill by {name}"},
    )


def hours_between(begin: str, end: str) -> float:
    """Hours between two times of steps."""
    span = datetime.fromisoformat(end) - datetime.fromisoformat(begin)
    return span.total_seconds() / _HOUR
