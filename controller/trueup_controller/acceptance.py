"""Acceptance rows (catalog/acceptance.yml): checks that no test can cover. A person with the
machine runs them by hand, or playbooks/acceptance.yml runs them.

A row that a play can settle has ``checks``. Each reads one thing (a file, a read-only command,
a fact, the records of a benchmark) and compares it; ``settle`` returns the outcome with evidence.
A row that needs a change first has ``steps``, which change the node for a moment, and ``restore``,
which undoes them.
"""

from __future__ import annotations

import calendar
import json
import math
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import UNSET, Meta
from trueup_node import record as records

from .typed import typed

FILE = "catalog/acceptance.yml"
SCHEMA = "trueup.acceptance/1"
PASSED, FAILED, UNMEASURED, ELSEWHERE = "passed", "failed", "not measured", "not applicable"
# The worst first.
OUTCOMES = (FAILED, UNMEASURED, ELSEWHERE, PASSED)
# Needs of a row beyond one machine of a fitting size, its image, trueup and an hour.
BEYOND = {
    "nodes": "several nodes",
    "service": "another service",
    "image": "another image or system",
    "size": "another VM size",
    "software": "software that no role installs",
    "fault": "hardware with that fault",
    "controller": "another controller",
    "rerun": "runs of site.yml with other variables in between",
    "reboot": "a reboot or deallocation by hand",
    "hours": "hours",
}
ASK_FOR_STEPS = "-e trueup_acceptance_change=true"
# How long a command may take unless its check says so, and how much of a text is evidence.
SECONDS = 30
_SHOWN = 160
_RANGE = ("from", "to")
# By kind of check: its members beside the subject.
_TEXT = ("has", "lacks")
KINDS: Mapping[str, Sequence[str]] = {
    "file": _TEXT,
    "command": (*_TEXT, "seconds"),
    "fact": ("is", "count", *_TEXT, *_RANGE),
    "record": (
        *("metric", "where", "message_bytes", "statistic", "best", *_RANGE),
        *("alike", "not_below"),
    ),
    "step": _TEXT,
}
# Kinds of checks in a row with steps. A file or command read on the changed node is itself a step.
_AFTER_STEPS = ("step", "fact", "record")

# Outcome, and the evidence in a sentence.
Finding = tuple[str, str]


Text = Annotated[str, Meta(min_length=1)]
Argv = Annotated[list[str], Meta(min_length=1)]


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A command that changes the node, and its time limit."""

    run: Argv
    seconds: int


class Check(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    kw_only=True,
    rename={"from_": "from", "is_": "is"},
    omit_defaults=True,
):
    """One of ``KINDS``, and the members of that kind; the head of the file describes each."""

    file: str | None = None
    command: Argv | None = None
    fact: str | None = None
    record: str | None = None
    step: int | None = None
    has: list[re.Pattern[str]] = []
    lacks: list[re.Pattern[str]] = []
    is_: Any = UNSET
    count: int | None = None
    from_: float | None = None
    to: float | None = None
    seconds: int = SECONDS
    metric: str | None = None
    where: dict[str, Any] = {}
    message_bytes: int | None = None
    statistic: str = "median"
    best: bool = False
    alike: float | None = None
    not_below: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        members = set(msgspec.to_builtins(self, enc_hook=str))
        if len(members & set(KINDS)) != 1:
            raise ValueError(f"a check asks one of {', '.join(KINDS)}")
        members.remove(self.kind)
        if strange := sorted(members - set(KINDS[self.kind])):
            raise ValueError(f"a check of a {self.kind} has no {strange[0]}")
        if not members and self.kind != "record":
            raise ValueError(f"the check of a {self.kind} compares nothing")

    @property
    def kind(self) -> str:
        return next(kind for kind in KINDS if getattr(self, kind) is not None)

    @property
    def limits(self) -> dict[str, float]:
        limits = {"from": self.from_, "to": self.to}
        return {name: limit for name, limit in limits.items() if limit is not None}


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One row; the head of the file describes each member."""

    id: Text
    what: Text
    minutes: int
    test: Text
    expected: Text
    applies: dict[str, Any] = {}
    needs: str = ""
    given: list[str] = []
    after_reboot: bool = False
    steps: list[Step] = []
    restore: list[Step] = []
    checks: list[Check] = []
    beyond: list[str] = []

    def __post_init__(self) -> None:
        if unknown := [need for need in self.beyond if need not in BEYOND]:
            raise ValueError(f"beyond is {unknown[0]!r}, and not one of {', '.join(BEYOND)}")
        if not (self.checks or self.beyond):
            raise ValueError("it has neither checks nor what it needs beyond them (`beyond`)")
        if bool(self.steps) != bool(self.restore) or (self.steps and not self.checks):
            raise ValueError("steps, restore and checks stand together")
        for check in self.checks if self.steps else ():
            if check.kind not in _AFTER_STEPS:
                raise ValueError(
                    f"make the {check.kind} that is read after steps a step of its own"
                )
        for check in self.checks:
            if check.step is not None and check.step not in range(1, len(self.steps) + 1):
                raise ValueError(f"there is no step {check.step}")


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    rows: list[Row]

    def __post_init__(self) -> None:
        ids = [row.id for row in self.rows]
        if twice := sorted({row_id for row_id in ids if ids.count(row_id) > 1}):
            raise ValueError(f"the id {twice[0]} stands twice; give one of them another")


@dataclass(frozen=True)
class Facts:
    """Facts, outputs and records of a machine.

    Attributes:
        facts: ``node``, ``gpu`` and ``rdma``, the facts trueup_* of these names, and the ``run`` of
            its history; each None where nobody looked.
        files: path to its text, None where there is no such file.
        commands: argv, joined by blanks, to its output, None where it is not installed.
        programs: name to its path, None where it is not installed.
        unknown: path or argv to the reason why it was not read.
        records: those of the machine, oldest first.
        rebooted: whether it was booted after a run of site.yml.
        done: by row with requested steps, the result of the module evidence_steps.
    """

    facts: Mapping[str, Any]
    files: Mapping[str, str | None] = field(default_factory=dict)
    commands: Mapping[str, str | None] = field(default_factory=dict)
    programs: Mapping[str, str | None] = field(default_factory=dict)
    unknown: Mapping[str, str] = field(default_factory=dict)
    records: Sequence[Mapping[str, Any]] = ()
    rebooted: bool = False
    done: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


# ---- rows ---------------------------------------------------------------------------------------


def rows(data: Any) -> list[Row]:
    """The rows of the file, in its order.

    Raises:
        BadInput: it is not of that form, or an id stands twice.
    """
    return typed(data, _File, FILE).rows


# ---- a row on a machine -------------------------------------------------------------------------


def misfit(row: Row, node: Mapping[str, Any]) -> str | None:
    """Why a row is not for this machine; None where it is."""
    for name, expected in row.applies.items():
        actual = node.get(name)
        if isinstance(expected, bool):
            if bool(actual) != expected:
                return f"this node has {'no' if expected else 'a'} {name}"
        elif str(actual) not in map(str, expected):
            return f"{name} is {actual}, and not {' or '.join(map(str, expected))}"
    return None


def asks(listed: Sequence[Row], node: Mapping[str, Any]) -> dict[str, Any]:
    """Queries for the node, from the rows that fit it: ``files``, ``programs``, and ``commands``
    with ``argv`` and ``seconds``."""
    fitting = [row for row in listed if row.checks and misfit(row, node) is None]
    checks = [check for row in fitting for check in row.checks]
    read = [(check.command, check.seconds) for check in checks if check.command]
    read += [(row.given, SECONDS) for row in fitting if row.given]
    commands = {_joined(argv): {"argv": argv, "seconds": seconds} for argv, seconds in read}
    files = sorted({check.file for check in checks if check.file})
    programs = sorted({row.needs for row in fitting if row.needs})
    return {"files": files, "programs": programs, "commands": list(commands.values())}


def settle(row: Row, snapshot: Facts) -> dict[str, Any]:
    """The result of a row that has checks: ``row``, ``outcome`` and ``evidence``, a sentence for
    each check; with requested steps also ``done``, their results."""
    done = snapshot.done.get(row.id) or {}
    step_outputs = {f"step {n}": step["output"] for n, step in enumerate(done.get("steps", []), 1)}
    after_steps = replace(snapshot, commands={**snapshot.commands, **step_outputs})
    findings = _unfit(row, snapshot) or _undone(row, snapshot)
    findings = findings or [_ASKED[check.kind](check, after_steps) for check in row.checks]
    if step_outputs:
        findings.append(_restored(done))
    worst = next(outcome for outcome in OUTCOMES if outcome in dict(findings))
    settled = {"row": row.id, "outcome": worst, "evidence": [text for _, text in findings]}
    return {**settled, "done": done} if done else settled


def to_change(listed: Sequence[Row], snapshot: Facts) -> list[Row]:
    """The rows whose steps this machine can do, in their order."""
    return [row for row in listed if row.steps and not _unfit(row, snapshot)]


def read_after(row: Row) -> list[str]:
    """The facts of parts that a row with steps asks for, which were read before them: gpu, rdma."""
    roots = {check.fact.partition(".")[0] for check in row.checks if check.fact}
    return sorted(roots & {"gpu", "rdma"})


def _unfit(row: Row, snapshot: Facts) -> list[Finding]:
    """Why a row is not settled on this machine, or not yet; empty where it can be."""
    reason = misfit(row, snapshot.facts["node"])
    if reason is None and row.needs and not snapshot.programs.get(row.needs):
        reason = f"{row.needs} is not installed"
    if reason is not None:
        return [(ELSEWHERE, reason)]
    name = _joined(row.given)
    if name in snapshot.unknown or (name and name not in snapshot.commands):
        return [(UNMEASURED, f"{name}: {snapshot.unknown.get(name, 'not asked')}")]
    if name and not re.search(r"^exit status 0$", snapshot.commands[name] or "", re.MULTILINE):
        return [(ELSEWHERE, f"it is for a machine on which this ends with status 0: {name}")]
    if row.after_reboot and not snapshot.rebooted:
        return [(UNMEASURED, "not rebooted since site.yml ran: reboot, then repeat this")]
    if row.steps and snapshot.facts["node"].get("privilege") is None:
        return [(UNMEASURED, "its steps need root, or sudo that asks no password")]
    return []


def _undone(row: Row, snapshot: Facts) -> list[Finding]:
    """Why the steps of a row were not done to their end; empty where they were, or it has none."""
    if not row.steps:
        return []
    done = snapshot.done.get(row.id)
    if done is None:
        return [(UNMEASURED, f"it changes the node for a moment: ask for it, {ASK_FOR_STEPS}")]
    if done["refused"]:
        return [(UNMEASURED, f"not done: {done['refused']}")]
    last = done["steps"][-1]
    if last["note"]:
        message = f"step {len(done['steps'])}, {last['command']}: {last['note']}"
        return [(UNMEASURED if last["status"] is None else FAILED, message)]
    return []


def _restored(done: Mapping[str, Any]) -> Finding:
    """Whether the node is as it was."""
    wrong = [f"{step['command']}: {step['note']}" for step in done["restored"] if step["note"]]
    if wrong:
        return FAILED, f"the node was not put back, do it by hand: {'; '.join(wrong)}"
    return PASSED, f"put back by {len(done['restored'])} command(s)"


def to_measure(listed: Sequence[Row], settled: Sequence[Mapping[str, Any]]) -> list[str]:
    """The benchmarks of which a row had no record."""
    lacking = {
        settled_row["row"] for settled_row in settled if settled_row["outcome"] == UNMEASURED
    }
    checks = [check for row in listed if row.id in lacking for check in row.checks]
    return list(dict.fromkeys(check.record for check in checks if check.record))


def _joined(argv: Sequence[str]) -> str:
    return " ".join(argv)


# ---- records of earlier runs --------------------------------------------------------------------


class History(NamedTuple):
    """Of one host.

    Attributes:
        records: its records, oldest first.
        run: how many tasks of its newest run of site.yml were ``changed``, ``failed`` and
            ``unreachable``, and whether it began ``after_boot``; None before the second run.
        rebooted: whether the machine was booted after a run of site.yml had ended.
    """

    records: list[Mapping[str, Any]]
    run: Mapping[str, Any] | None
    rebooted: bool


def history(results: str, host: str, booted_at: int | None) -> History:
    """Records and runs of a host in the results folder; unreadable files are skipped.

    Args:
        results: the folder.
        host: its name in the inventory.
        booted_at: when it was booted, in seconds since 1970; None where that is not known.
    """
    mine: list[Mapping[str, Any]] = []
    runs = []
    for run in records.run_counts(results):
        folder = os.path.join(results, run)
        run_records = (record for _, record, _ in records.read_records(folder) if record)
        of_host = [{**record, "run_id": run} for record in run_records if _is_of(record, host)]
        mine += sorted(of_host, key=lambda record: str(record["started_at"]))
        runs += _run_of(os.path.join(folder, "run.json"), host, booted_at)
    return History(
        mine,
        runs[-1] if len(runs) > 1 else None,
        any(run["before_boot"] for run in runs),
    )


def _is_of(record: Mapping[str, Any], host: str) -> bool:
    """Whether it is a record of the host, and its members can be looked at."""
    shapes = {"nodes": list, "metrics": list, "parameters": dict}
    usable = all(isinstance(record[name], kind) for name, kind in shapes.items())
    return (
        usable
        and all(isinstance(row, dict) for row in record["metrics"])
        and host in record["nodes"]
    )


def _run_of(path: str, host: str, booted_at: int | None) -> list[dict[str, Any]]:
    """Task counts and times of the host in a manifest of site.yml; empty for any other."""
    try:
        with open(path, encoding="utf-8") as stream:
            manifest = json.load(stream)
        if manifest["playbook"] != "site.yml":
            return []
        counts = manifest["hosts"][host]
        task_counts = {
            name: int(counts.get(name, 0)) for name in ("changed", "failed", "unreachable")
        }
        begun, ended = _seconds(manifest["started_at"]), _seconds(manifest["finished_at"])
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return []
    # An unknown boot time is neither before nor after.
    boot = float("nan") if booted_at is None else booted_at
    return [{**task_counts, "after_boot": begun > boot, "before_boot": ended < boot}]


def _seconds(utc: str) -> int:
    """A manifest's time, in seconds since 1970."""
    return calendar.timegm(time.strptime(utc, "%Y-%m-%dT%H:%M:%SZ"))


# ---- the kinds of checks ------------------------------------------------------------------------


def _file(check: Check, snapshot: Facts) -> Finding:
    return _text(check, str(check.file), snapshot.files, snapshot, "there is no such file")


def _command(check: Check, snapshot: Facts) -> Finding:
    argv = _joined(check.command or [])
    return _text(check, argv, snapshot.commands, snapshot, "it is not installed")


def _step(check: Check, snapshot: Facts) -> Finding:
    """Check the output of a step."""
    return _text(check, f"step {check.step}", snapshot.commands, snapshot, "it was not done")


def _text(
    check: Check, name: str, texts: Mapping[str, str | None], snapshot: Facts, absent: str
) -> Finding:
    if name in snapshot.unknown or name not in texts:
        return UNMEASURED, f"{name}: {snapshot.unknown.get(name, 'not asked')}"
    text = texts[name]
    if text is None:
        return FAILED, f"{name}: {absent}"
    return _compared(check, name, text)


def _fact(check: Check, snapshot: Facts) -> Finding:
    path = str(check.fact)
    root, _, rest = path.partition(".")
    if snapshot.facts.get(root) is None:
        return UNMEASURED, f"{path}: {_UNKNOWN.get(root, 'not known')}"
    values = list(_walk(snapshot.facts[root], rest.split(".")))
    if check.count is not None:
        state = PASSED if len(values) == check.count else FAILED
        return state, f"{path}: {len(values)} found, {check.count} expected"
    findings = [_compared(check, path, value) for value in values]
    wrong = [finding for finding in findings if finding[0] != PASSED]
    return (wrong or findings or [(FAILED, f"{path}: there is none")])[0]


_UNKNOWN = {
    "gpu": "this node has no GPU to ask",
    "rdma": "this node has no adapter to ask",
    "run": "run site.yml twice first",
}


def _walk(value: Any, path: Sequence[str]) -> Iterator[Any]:
    """The values at a path of names and numbers; ``*`` is every item of a list. A missing value is
    None."""
    if not path:
        yield value
    elif path[0] == "*":
        for item in value if isinstance(value, list) else [None]:
            yield from _walk(item, path[1:])
    elif isinstance(value, list):
        index = int(path[0]) if path[0].isdecimal() else len(value)
        yield from _walk(value[index] if index < len(value) else None, path[1:])
    else:
        yield from _walk(value.get(path[0]) if isinstance(value, Mapping) else None, path[1:])


def _compared(check: Check, name: str, value: Any) -> Finding:
    """A value, and whether it is as the check wants it."""
    text = "" if value is None else str(value)
    summary = f"{name}: {text.strip()[:_SHOWN] or value!r}"
    if check.is_ is not UNSET and value != check.is_:
        return FAILED, f"{summary}, expected {check.is_}"
    for pattern in check.has:
        if not re.search(pattern.pattern, text, re.MULTILINE):
            return FAILED, f"{summary}: nothing like {pattern.pattern}"
    for pattern in check.lacks:
        match = re.search(pattern.pattern, text, re.MULTILINE)
        if match:
            return FAILED, f"{name}: {match[0][:_SHOWN]} stands there"
    if check.limits:
        return _in_range(check, name, value)
    return PASSED, summary


def _in_range(check: Check, name: str, value: Any) -> Finding:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return FAILED, f"{name}: {value} is no number"
    low, high = check.limits.get("from", -math.inf), check.limits.get("to", math.inf)
    state = PASSED if low <= value <= high else FAILED
    limits = " ".join(f"{bound} {limit:g}" for bound, limit in check.limits.items())
    return state, f"{name}: {value:g}, expected {limits}"


def _record(check: Check, snapshot: Facts) -> Finding:
    """The newest run's records of a benchmark: all are ok, and so is the figure of each, or of the
    best."""
    name, where = check.record, check.where
    of_tool = [record for record in snapshot.records if record["benchmark"] == name]
    matching = [record for record in of_tool if _has(where, record)]
    if not matching:
        return UNMEASURED, f"no record of {name}{_said(where)}: measure it"
    run = matching[-1]["run_id"]
    newest = [record for record in matching if record["run_id"] == run]
    for record in newest:
        if record["outcome"] == records.TOO_SHORT:
            return UNMEASURED, f"{name} {record['case']}: {record.get('reason')}"
        if record["outcome"] != "ok":
            return FAILED, f"{name} {record['case']} is {record['outcome']}: {record.get('reason')}"
    label = f"run {run}, {name}{_said(where)}"
    if check.metric is None:
        return PASSED, f"{label}: {len(newest)} ok"
    values = _all_figures(check, newest)
    if check.alike is not None:
        return _alike(check, label, values)
    if check.not_below is None:
        return _judged(check, label, values)
    reference_filter = {**where, **check.not_below}
    beside = [
        record for record in of_tool if record["run_id"] == run and _has(reference_filter, record)
    ]
    label += f", not below{_said(check.not_below)}"
    return _not_below(label, values, _all_figures(check, beside))


def _not_below(label: str, values: list[Any], reference_values: list[Any]) -> Finding:
    """The best of some figures is not below the best of others of that run."""
    if not (values and reference_values):
        return UNMEASURED, f"{label}: a figure of one of them is missing: measure both"
    odd = _odd([*values, *reference_values])
    if odd:
        return FAILED, f"{label}: {odd[0]} is no number"
    state = PASSED if max(values) >= max(reference_values) else FAILED
    return state, f"{label}: {max(values):g}, expected from {max(reference_values):g}"


def _alike(check: Check, label: str, values: list[Any]) -> Finding:
    """All figures are the same to a part of the first."""
    if len(values) < 2:
        return UNMEASURED, f"{label}: {len(values)} figure(s) {check.metric}: measure several"
    odd = _odd(values)
    if odd:
        return FAILED, f"{label}: {odd[0]} is no number"
    off = max(abs(value - values[0]) for value in values)
    state = PASSED if off <= (check.alike or 0) * abs(values[0]) else FAILED
    return state, f"{label}: {len(values)} of {check.metric}, {values[0]:g} to {off:g}"


def _odd(values: Sequence[Any]) -> list[Any]:
    """The values that are no comparable numbers."""
    return [value for value in values if type(value) not in (int, float) or math.isnan(value)]


def _judged(check: Check, label: str, values: list[Any]) -> Finding:
    """The first figure that is out of range; with ``best`` the highest alone is looked at."""
    if not values:
        return FAILED, f"{label}: no figure {check.metric}"
    numbers = [value for value in values if isinstance(value, (int, float))]
    chosen = [max(numbers)] if check.best and numbers else values
    findings = [_in_range(check, f"{label}: {check.metric}", value) for value in chosen]
    return next((finding for finding in findings if finding[0] != PASSED), findings[0])


def _has(patterns: Mapping[str, Any], record: Mapping[str, Any]) -> bool:
    """Whether a record's members, parameters and software match the patterns."""
    members = {**record, **(record.get("software") or {}), **record["parameters"]}
    return all(
        re.fullmatch(str(pattern), str(members.get(key))) for key, pattern in patterns.items()
    )


def _said(patterns: Mapping[str, Any]) -> str:
    return "".join(f" {key}={value}" for key, value in patterns.items())


def _all_figures(check: Check, listed: Sequence[Mapping[str, Any]]) -> list[Any]:
    return [value for record in listed for value in _figures(check, record)]


def _figures(check: Check, record: Mapping[str, Any]) -> Iterator[Any]:
    for row in record["metrics"]:
        of_size = check.message_bytes in (None, row.get("message_bytes"))
        statistic = row.get("statistic") in (None, "single", check.statistic)
        if row.get("name") == check.metric and of_size and statistic:
            yield row.get("value")


_ASKED = {"file": _file, "command": _command, "fact": _fact, "record": _record, "step": _step}
