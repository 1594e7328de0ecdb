"""Steps that a person did, as ``trueup case record`` takes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from trueup_node.errors import BadInput

from . import steps
from .case import Case
from .impact import is_machine, require_host
from .ports import sha256_of
from .steps import Step

Facts = Mapping[str, str]


def step(case: Case, name: str, facts: Facts, now: str) -> Step:
    """The step of these facts.

    Args:
        name: a key of ``STEPS``.
        facts: host, resource_id, archive, impact and status; empty where they are not given.

    Raises:
        BadInput: a fact is missing or wrong.
    """
    return STEPS[name](case, facts, now)


def _needed(name: str, facts: Facts, *options: str) -> None:
    if not any(facts[option] for option in options):
        names = " or ".join(f"--{option.replace('_', '-')}" for option in options)
        raise BadInput(f"{name} needs {names}")


def _identified(_case: Case, facts: Facts, now: str) -> Step:
    _needed("identified", facts, "host", "resource_id")
    resource_id = facts["resource_id"]
    if resource_id and not is_machine(resource_id):
        raise BadInput(
            f"--resource-id {resource_id!r} is no VM's: write /subscriptions/...,"
            " down to /virtualMachines/NAME"
        )
    return steps.Identified(
        at=now, by="operator", physical_host=facts["host"], resource_id=resource_id
    )


def _evidence(_case: Case, facts: Facts, now: str) -> Step:
    _needed("evidence", facts, "archive")
    archive = Path(facts["archive"]).resolve()
    return steps.Evidence(at=now, by="operator", path=str(archive), sha256=sha256_of(archive))


def _reported(case: Case, facts: Facts, now: str) -> Step:
    _needed("reported", facts, "impact")
    require_host(case)
    return steps.Reported(
        at=now,
        by="operator",
        impact=facts["impact"],
        way="portal",
        category=case.opened.category,
        physical_host=case.physical_host,
    )


def _followed(case: Case, facts: Facts, now: str) -> Step:
    _needed("followed", facts, "status")
    if case.report is None:
        raise BadInput("followed needs a report before it")
    return steps.Followed(
        at=now,
        by="operator",
        impact=case.report.sent.impact,
        insight=f"by hand {len(case.report.insights) + 1}",
        status=facts["status"],
        terminal=True,
    )


STEPS: Final[Mapping[str, Callable[[Case, Facts, str], Step]]] = {
    "identified": _identified,
    "evidence": _evidence,
    "mended": lambda _case, _facts, now: steps.Mended(at=now, by="operator", fix="by hand"),
    "drained": lambda _case, _facts, now: steps.Drained(
        at=now, by="operator", owner="the operator"
    ),
    "reported": _reported,
    "followed": _followed,
    "moved": lambda _case, _facts, now: steps.Moved(at=now, by="operator"),
    "returned": lambda _case, _facts, now: steps.GivenBack(at=now, by="operator"),
}
