"""The faults that a log shows, by the dictionary of catalog/faults: causes before consequences."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from trueup_node.errors import BadInput
from trueup_node.health import dictionary
from trueup_node.redaction import redact

from .. import catalog
from .health import expectations

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from trueup_node.health.dictionary import Dictionary, Entry, Match

# Devices and nodes named of one fault, and unknown lines shown; all are counted.
MOST_NAMES: Final = 8
MOST_UNKNOWN: Final = 5
_MOST_LINE: Final = 300
_MOST_FORMS: Final = 1000
# A line with one of these, in any case, looks like an error.
_ALARMS: Final = (
    *(b"error", b"fatal", b"fail", b"panic", b"exception", b"nccl warn", b"critical"),
    *(b"timed out", b"unable to", b"permission denied", b"connection refused", b"unreachable"),
    *(b"not permitted", b"no space left", b"could not", b"couldn't", b"cannot", b"can't"),
    *(b"deadline exceeded", b"is busy", b"resource busy", b"not responding", b"unhealthy"),
    *(b"expired", b"corrupt", b"needs cleaning", b"does not appear", b"access is denied"),
)
# Of those the harmless ones: a count of none, and settings with such a word in their names.
_HARMLESS: Final = re.compile(
    r"(?i)\b(?:no|0|without) (?:errors?|failures?|failed)\b"
    r"|[=:] {0,20}(?:0|no|none|n/a|false|disabled|not active|inactive)[ \r]{0,20}$"
    r"|error_?level|\b(?:quit|stop|abort)?on_?error|failover|async_error_handling"
    r"|error[_ ]counts?\s?[=:]?\s?0\b"
    r"|\b(?:errors|panic)=[\w-]{1,20}|\blib[\w-]{0,20}error|_errors\.txt"
    r"|nccl info .{0,60}could not|can't (?:assign|claim|access extended)|cannot access peer"
    r"|cannot (?:perform autotuning|run avx)"
    r"|traceback \(most recent call last\)|during handling of the above exception"
    r"|all links are inactive"
)
# What journalctl prints of an empty journal, or to a user who may not read it.
_NOTHING: Final = (b"", b"-- No entries --")
_DIGITS: Final = re.compile(r"0x[0-9a-fA-F]+|[0-9]+")
# Kinds of devices whose faults follow from faults of their own node only.
_LOCAL: Final = {"pci", "gpu", "disk"}
_SEVERITY: Final = ("fail", "warn", "info")


@dataclass
class Fault:
    """An entry of the dictionary in a log.

    Attributes:
        devices: as the lines name them, with the number of lines; ``nodes`` likewise.
        first_line: number of the first line; ``line``: that line, shortened.
        first_time: as the log writes it, empty where it does not; ``last_time`` likewise.
        follows_from: ids of the entries in the same log that explain it.
    """

    entry: Entry
    count: int = 0
    devices: dict[str, int] = field(default_factory=dict)
    nodes: dict[str, int] = field(default_factory=dict)
    first_line: int = 0
    first_time: str = ""
    last_time: str = ""
    line: str = ""
    follows_from: list[str] = field(default_factory=list)
    _last_line: int = 0

    def add(self, match: Match, line: int) -> None:
        """Count one more line."""
        self.count += 1
        for names, name in ((self.devices, match.device), (self.nodes, match.node)):
            if name and (name in names or len(names) < 10 * MOST_NAMES):
                names[name] = names.get(name, 0) + 1
        if not self.line or line < self.first_line:
            self.first_line, self.first_time = line, match.time
            self.line = shown(match.line)
        if line >= self._last_line:
            self._last_line = line
            self.last_time = match.time or self.last_time


@dataclass
class Explanation:
    """What one log holds.

    Attributes:
        faults: causes first, the gravest and earliest of them first; then consequences.
        unknown: lines that look like errors and match nothing: one line of each form, and how often
            the form occurs. ``unknown_lines`` counts them all.
        lines: of the log.
    """

    source: str
    faults: list[Fault]
    unknown: dict[str, int]
    unknown_lines: int
    lines: int

    @property
    def causes(self) -> list[Fault]:
        """Faults that nothing else in the log explains and that are not mere symptoms."""
        return [
            fault
            for fault in self.faults
            if not fault.follows_from
            and fault.entry.kind == "cause"
            and fault.entry.severity != "info"
        ]


def read_dictionary(chosen: Path | None = None) -> Dictionary:
    """The dictionary of the catalog.

    Raises:
        BadInput: a file of it is wrong, or none is there.
    """
    folder = catalog.find("faults/azure.yml", chosen).parent
    documents: dict[str, Any] = {
        path.name: catalog.document(path)
        for path in sorted(folder.glob("*.yml"))
        if path.name != "xid.yml"
    }
    return dictionary.of_documents(documents, expectations.read_faults(chosen))


def shown(line: str) -> str:
    """A line as it may be shown: without credentials, shortened."""
    text = str(redact(line.strip()))
    return text if len(text) <= _MOST_LINE else f"{text[:_MOST_LINE]}..."


def explain(chunks: Iterable[bytes], source: str, entries: Dictionary) -> Explanation:
    """Search a log.

    Args:
        chunks: its text in UTF-8, whole lines in each.

    Raises:
        BadInput: it is empty, which says nothing of the machine: `dmesg` without its right.
    """
    faults: dict[str, Fault] = {}
    forms: dict[str, tuple[str, int]] = {}
    lines = unknown_lines = 0
    is_empty = True
    for chunk in chunks:
        is_empty = is_empty and chunk.strip() in _NOTHING
        text = chunk.decode("utf-8", errors="replace")
        matches = sorted(entries.find(text), key=lambda match: match.start)
        number, position = lines + 1, 0
        for match in matches:
            number += text.count("\n", position, match.start)
            position = match.start
            faults.setdefault(match.entry.id, Fault(match.entry)).add(match, number)
        known = {match.start for match in matches}
        for line in _alarms(chunk, text, known):
            unknown_lines += 1
            form = _DIGITS.sub("#", line)[:120]
            if form in forms or len(forms) < _MOST_FORMS:
                first, count = forms.get(form, (line, 0))
                forms[form] = first, count + 1
        lines += text.count("\n") + (not text.endswith("\n"))
    if is_empty:
        raise BadInput(f"{source} is empty")
    return Explanation(
        source,
        _ordered(list(faults.values())),
        {shown(line): count for line, count in list(forms.values())[:MOST_UNKNOWN]},
        unknown_lines,
        lines,
    )


def _alarms(chunk: bytes, text: str, known: set[int]) -> Iterable[str]:
    """Lines that look like errors and hold no entry."""
    lowered = chunk.lower()
    if not any(word in lowered for word in _ALARMS):
        return
    words = [word.decode() for word in _ALARMS if word in lowered]
    position = 0
    for line in text.split("\n"):
        start, position = position, position + len(line) + 1
        low = line[:_MOST_LINE].lower()
        if any(word in low for word in words) and start not in known and not _HARMLESS.search(low):
            yield line[:_MOST_LINE]


def _ordered(faults: list[Fault]) -> list[Fault]:
    """Causes before consequences, grave before mild, early before late."""
    for fault in faults:
        fault.follows_from = _explaining(fault, faults)
    return sorted(
        faults,
        key=lambda fault: (
            bool(fault.follows_from),
            fault.entry.kind != "cause",
            _SEVERITY.index(fault.entry.severity),
            fault.first_line,
        ),
    )


def _explaining(fault: Fault, faults: Sequence[Fault]) -> list[str]:
    """The faults that explain one. A fault of a device follows from one of the same node, and of
    the same PCI devices, where the lines name them."""
    others = [
        other
        for other in faults
        if fault.entry.follows(other.entry) and not other.entry.follows(fault.entry)
    ]
    if fault.entry.device in _LOCAL and fault.nodes:
        others = [other for other in others if not other.nodes or fault.nodes.keys() & other.nodes]
    named = {name for other in others if other.entry.device == "pci" for name in other.devices}
    if fault.entry.device == "pci" and named and not named.issuperset(fault.devices):
        others = []
    return [other.entry.id for other in others]
