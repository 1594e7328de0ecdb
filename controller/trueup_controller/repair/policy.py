"""A site's policy for repair cases: the actions that need no operator's yes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal
from zoneinfo import ZoneInfo

import msgspec
import yaml
from trueup_node.errors import BadInput

from ..typed import typed
from .case import Case

_HOURS: Final = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")
_EVERY: Final = "any"


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Actions that some faults allow.

    Attributes:
        faults: entries of the dictionary, benchmarks, categories (IBPortDown), or any.
    """

    faults: list[str]
    actions: list[Literal["drain", "mend", "test", "report", "move", "return"]]


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What may be done without the operator's yes.

    Attributes:
        rules: an action that no rule allows needs a yes.
        most_nodes_out: the ceiling of nodes that cases hold out of service.
        most_reports: cases of which a report is under way at once.
        quiet_hours: 22:00-06:00; nothing is done then, in ``time_zone``.
    """

    schema: Literal["trueup.case_policy/1"]
    rules: list[Rule]
    most_nodes_out: int
    most_reports: int
    quiet_hours: list[str] = []
    time_zone: str = "UTC"


def read_policy(path: Path) -> Policy:
    """The policy in a file.

    Raises:
        BadInput: it cannot be read, or is none; says which value.
    """
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"--policy {path} cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(f"--policy {path} is no YAML: {' '.join(str(error).split())}") from None
    policy = typed(document, Policy, f"--policy {path} (docs/examples/case_policy.yml is one)")
    for hours in policy.quiet_hours:
        if not _HOURS.fullmatch(hours):
            raise BadInput(f"--policy {path}: quiet hours {hours!r} are not like 22:00-06:00")
    if min(policy.most_nodes_out, policy.most_reports) < 0:
        raise BadInput(f"--policy {path}: a ceiling is below 0")
    try:
        ZoneInfo(policy.time_zone)
    except (OSError, ValueError, KeyError):
        raise BadInput(f"--policy {path}: {policy.time_zone!r} is no time zone") from None
    return policy


def refusal(
    policy: Policy, action: str, case: Case, other_cases: Iterable[Case], now: datetime
) -> str:
    """Why the policy does not allow an action, as a sentence; empty where it does.

    Args:
        other_cases: the other cases.
        now: with a time zone.
    """
    if not _is_allowed(policy.rules, action, case):
        return f"no rule of the policy allows {action} for {case.opened.fault}"
    hours = _quiet(policy, now)
    if hours:
        return f"the policy's quiet hours ({hours} {policy.time_zone}) last"
    other_cases = list(other_cases)
    out = sum(other.is_out for other in other_cases)
    if action == "drain" and out >= policy.most_nodes_out:
        return (
            f"{out} nodes are out of service, and the policy's ceiling is {policy.most_nodes_out}"
        )
    reporting = sum(other.is_reporting for other in other_cases)
    if action == "report" and reporting >= policy.most_reports:
        return f"{reporting} reports are under way, and the policy allows {policy.most_reports}"
    return ""


def _is_allowed(rules: Sequence[Rule], action: str, case: Case) -> bool:
    names = {_EVERY, case.opened.fault, case.opened.category.rpartition(".")[2]}
    return any(action in rule.actions and names & {*rule.faults} for rule in rules)


def _quiet(policy: Policy, now: datetime) -> str:
    """The quiet hours that a moment falls into; empty where into none."""
    local = now.astimezone(ZoneInfo(policy.time_zone) if policy.time_zone != "UTC" else UTC)
    minute = 60 * local.hour + local.minute
    for hours in policy.quiet_hours:
        begin, end = (60 * int(time[:2]) + int(time[3:]) for time in hours.split("-"))
        inside = begin <= minute < end if begin <= end else minute >= begin or minute < end
        if inside:
            return hours
    return ""
