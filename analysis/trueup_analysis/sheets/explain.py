"""From explained logs to sheets."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from .. import units
from ..figures.explain import MOST_NAMES
from .sheet import Column, Sheet, unshown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ..figures.explain import Explanation, Fault

_EVIDENCE: Final = (
    "Before a reboot or reset save `dmesg -T`, `nvidia-smi -q` and the journal: a reboot loses the"
    " fault's traces."
)
# Of more files without a finding the names stand together.
_FEW: Final = 3
_COLUMNS: Final = (
    Column("role", "what", words=True),
    Column("id", "entry", words=True),
    Column("devices", "device", words=True),
    Column("nodes", "node", words=True),
    Column("count", "lines", units.count),
    Column("first_line", "first line", units.count),
    Column("first_time", "first", words=True),
    Column("last_time", "last", words=True),
    *unshown(
        *("meaning", "severity", "line", "follows_from", "check", "fix", "reboot_loses_evidence"),
        *("drain", "nhc", "ghr", "entry_source", "entry_date"),
    ),
)


def explanations(items: Sequence[Explanation]) -> list[Sheet]:
    """A sheet for each log."""
    return [explanation(item) for item in items]


def for_people(items: Sequence[Explanation]) -> list[Sheet]:
    """The same: logs with a cause first, and the names alone of those with nothing to tell."""
    told = [item for item in items if item.faults or item.unknown_lines]
    told.sort(key=lambda item: (not item.causes, not item.faults))
    silent = [item for item in items if not (item.faults or item.unknown_lines)]
    if len(silent) < _FEW:
        told += silent
        silent = []
    sheets = explanations(told)
    if silent:
        folders: dict[str, list[str]] = {}
        for item in silent:
            folder, name = os.path.split(item.source)
            folders.setdefault(folder, []).append(name)
        lead = [
            f"{folder}{': ' if folder else ''}{', '.join(names)}"
            for folder, names in folders.items()
        ]
        title = f"{len(silent)} more files: nothing that the dictionary knows"
        sheets.append(Sheet(title=title, columns=(), rows=[], tone="good", lead=lead))
    return sheets


def explanation(item: Explanation) -> Sheet:
    """The causes and the next steps in sentences, then a line for each entry."""
    return Sheet(
        title=f"{item.source}: {_title(item)}",
        columns=_COLUMNS,
        rows=[row(fault) for fault in item.faults],
        tone="bad" if item.faults else ("doubtful" if item.unknown_lines else "good"),
        lead=list(_lead(item)),
        notes=list(_notes(item)),
        facts={
            "kind": "explanation",
            "source": item.source,
            "lines": item.lines,
            "causes": [fault.entry.id for fault in item.causes],
            "unknown_lines": item.unknown_lines,
            "unknown": item.unknown,
        },
    )


def row(fault: Fault) -> dict[str, Any]:
    """A fault for programs."""
    entry = fault.entry
    return {
        "role": role(fault),
        "id": entry.id,
        "meaning": entry.meaning,
        "severity": entry.severity,
        "devices": _names(fault.devices),
        "nodes": _names(fault.nodes),
        "count": fault.count,
        "first_line": fault.first_line,
        "first_time": fault.first_time,
        "last_time": fault.last_time,
        "line": fault.line,
        "follows_from": ", ".join(fault.follows_from),
        "check": entry.check,
        "fix": entry.fix,
        "reboot_loses_evidence": entry.reboot_loses_evidence,
        "drain": entry.drain,
        "nhc": entry.nhc,
        "ghr": entry.ghr,
        "entry_source": entry.source,
        "entry_date": entry.date,
    }


def role(fault: Fault) -> str:
    """cause, symptom (several causes end in it), consequence (of another entry), or note."""
    if fault.follows_from:
        return "consequence"
    return "note" if fault.entry.severity == "info" else fault.entry.kind


def is_fault(fault: Fault) -> bool:
    """Whether it needs a step."""
    return role(fault) in {"cause", "symptom"}


def _names(names: Mapping[str, int]) -> str:
    listed = sorted(names, key=lambda name: (-names[name], name))
    more = f" and {len(listed) - MOST_NAMES} more" if len(listed) > MOST_NAMES else ""
    return ", ".join(listed[:MOST_NAMES]) + more


def _title(item: Explanation) -> str:
    if item.causes:
        return units.plural(len(item.causes), "cause")
    if any(role(fault) == "symptom" for fault in item.faults):
        return "symptoms, and no cause that the dictionary knows"
    if item.faults:
        return "no fault of the node"
    return "nothing that the dictionary knows"


def _lead(item: Explanation) -> Iterator[str]:
    """A paragraph for each fault that needs a step."""
    for fault in item.faults:
        if not is_fault(fault):
            continue
        entry = fault.entry
        yield f"{role(fault).capitalize()}: {entry.meaning}{_where(fault)}."
        yield f"  Line {fault.first_line}: {fault.line}"
        yield f"  Check: {entry.check}."
        yield f"  Fix: {entry.fix.rstrip('.')}."
        if entry.drain:
            yield "  Give the node no new jobs."
        if entry.ghr:
            code = f" ({entry.nhc})" if entry.nhc else ""
            yield f"  Category of a report to Azure: {entry.ghr}{code}."
    if any(fault.entry.reboot_loses_evidence for fault in item.faults):
        yield _EVIDENCE


def _where(fault: Fault) -> str:
    device, node = _names(fault.devices), _names(fault.nodes)
    return (f", device {device}" if device else "") + (f", node {node}" if node else "")


def _notes(item: Explanation) -> Iterator[str]:
    explained = {fault.entry.id for fault in item.faults if fault.follows_from}
    for fault in item.faults:
        if fault.follows_from:
            roots = [name for name in fault.follows_from if name not in explained]
            root = (roots or fault.follows_from)[0]
            yield f"{fault.entry.id} ({fault.entry.meaning}) follows from {root}."
        elif fault.entry.severity == "info":
            yield f"{fault.entry.id}: {fault.entry.meaning}."
    if item.unknown_lines:
        lines = units.plural(item.unknown_lines, "line")
        yield f"Not known: {lines} with the look of an error match no entry, such as:"
        for line, count in item.unknown.items():
            yield f"  {line}" + (f"  ({count:,} like it)" if count > 1 else "")
