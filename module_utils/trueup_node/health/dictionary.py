"""The fault dictionary of catalog/faults: recognise its entries in the lines of any log.

An entry has literal ``marks``, of which its lines hold at least one, so that a long log is searched
fast, and a pattern where a mark alone says too little. XIDs and SXids come from ``faults``.
"""

from __future__ import annotations

import re
from typing import (
    Any,
    Dict,
    Iterable,
    Iterator,
    Mapping,
    NamedTuple,
    Optional,
    Pattern,
    Sequence,
    Tuple,
)

from ..errors import BadInput
from .faults import Faults

KINDS = ("cause", "symptom")
SEVERITIES = ("fail", "warn", "info")
# Fixes that a program may apply to a drained node.
SOFT_FIXES = ("reboot", "reset_gpus", "restart_fabric_manager")
_REQUIRED = {"id", "marks", "meaning", "severity", "device", "check", "fix", "sources"}
_OPTIONAL = {
    "kind",
    "pattern",
    "category",
    "drain",
    "reboot_loses_evidence",
    "consequence_of",
    "watched",
    "soft_fix",
}
_CODES = {
    "xid": (
        # XID 45 names the XID that ended the channel.
        # The second form is that of NVIDIA's device plugin for Kubernetes.
        re.compile(
            r"(?:NVRM: Xid \([^()]{1,60}\):(?: 45,.{0,200} caused by previous Xid)? {0,4}"
            r"|XidCriticalError: Xid=)([0-9]{1,6})\b"
        ),
        ("NVRM: Xid (", "XidCriticalError: Xid="),
    ),
    "sxid": (
        # The second form is that of fabric manager's own log.
        re.compile(
            r"(?:SXid \(PCI:[^()]{1,60}\): |detected NVSwitch (?:non-)?fatal error )"
            r"0{0,9}([0-9]{1,6})(?:, | on )"
        ),
        ("SXid (PCI:", "detected NVSwitch "),
    ),
}
_FATAL = re.compile(r"\b(Non-?fatal|Fatal)\b")
# So much of a line is searched, so far around the mark; and so many characters above it for the
# device that a sentence of several lines names.
_MOST_LINE = 2000
_ABOVE = 400

_PCI = r"\b((?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.[0-7])?)\b(?!:)"
# By kind of device: the patterns of its name in a line, the first that matches. Kinds without one
# are named by the entry alone.
_DEVICES: Mapping[str, Sequence[Pattern[str]]] = {
    "pci": (
        re.compile(r"\(PCI:([0-9A-Fa-f:.]{5,20})[^)]{0,40}\)"),
        re.compile(rf"(?:GPU|GPU at PCI:|nvidia|mlx5_core|nvme|probe of|pcieport) {{0,2}}{_PCI}"),
        re.compile(r"\b([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\b"),
        re.compile(r" on Device=(GPU-[0-9a-f-]{36})"),
    ),
    "gpu": (
        re.compile(r"\bGPU ?#?([0-9]{1,3})\b"),
        re.compile(r"\bcuda:([0-9]{1,3})\b"),
        re.compile(r"^\S{1,80}:[0-9]{1,9}:[0-9]{1,9} \[([0-9]{1,3})\] "),
    ),
    "nic": (
        re.compile(
            r"\b((?:mlx5|mlx4|ibp|hfi1|bnxt_re|irdma|rdma|roce)[A-Za-z]{0,4}_?[0-9]\w{0,12}"
            r"(?::[0-9]{1,2})?(?:/[A-Za-z]{2,5})?)"
        ),
        re.compile(r"\b([0-9A-Fa-f]{4}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\b"),
    ),
    "disk": (
        re.compile(
            r"\b(nvme[0-9]{1,3}(?:n[0-9]{1,3})?(?:p[0-9]{1,3})?|sd[a-z]{1,2}[0-9]{0,2}"
            r"|md[0-9]{1,4}|dm-[0-9]{1,4})\b"
        ),
    ),
    "server": (
        re.compile(r"server (\S{1,120}?) (?:not responding|OK)"),
        re.compile(r"Connection to (\S{1,120}(?: \(at [^()]{1,80}\))?)"),
        re.compile(r"\b([\w.-]{1,80}@(?:tcp|o2ib)[0-9]{0,3})\b"),
    ),
    "unit": (re.compile(r"([\w.@\\-]{1,120}\.(?:service|mount))\b"),),
    "process": (re.compile(r"\b(?:Killed|reaped) process [0-9]{1,9} \(([^()]{1,40})\)"),),
    "node": (),
    "program": (),
}
_HOST = r"([A-Za-z0-9][\w.-]{0,79})"
_NODES = (
    re.compile(r"^(?:\[[0-9]{1,6}\]: ?)?" + _HOST + r":[0-9]{1,9}:[0-9]{1,9} (?:\[-?[0-9]|NCCL )"),
    re.compile(r"^[A-Z][a-z]{2} [ 0-9]?[0-9] [0-9:]{8} " + _HOST + r" [\w./()@-]{1,60}(?:\[|:)"),
    re.compile(
        r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.,+-]{8,24}Z? " + _HOST + r" [\w./()@-]{1,60}(?:\[|:)"
    ),
    re.compile(r"^\[" + _HOST + r":[0-9]{1,9}(?::[0-9]{1,9})?(?:\]| )"),
    re.compile(r"\bON " + _HOST + r" CANCELLED AT "),
    re.compile(r"\b[Nn]odes? " + _HOST + r" (?:not responding|unexpectedly|has low|reason|state)"),
)
_TIMES = (
    re.compile(
        r"\b([0-9]{4}[-/][0-9]{2}[-/][0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?Z?)"
    ),
    re.compile(r"^([A-Z][a-z]{2} [ 0-9]?[0-9] [0-9]{2}:[0-9]{2}:[0-9]{2})\b"),
    re.compile(r"\b([0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2})\b"),
    re.compile(r"^\[([A-Z][a-z]{2} [A-Z][a-z]{2} [ 0-9]?[0-9] [0-9:]{8} [0-9]{4})\]"),
    re.compile(r"^[^\[]{0,40}\[ {0,12}([0-9]{1,9}\.[0-9]{1,9})\]"),
)


def ghr_category(name: str) -> str:
    """Azure's category as its API takes it, from its short name; empty from an empty one."""
    if not name:
        return ""
    part = "" if name in {"Reset", "Reboot"} else "Unhealthy."
    return f"Resource.Hpc.{part}{name}"


class Entry(NamedTuple):
    """One fault.

    Attributes:
        kind: cause, or symptom where several faults end in the same line.
        device: the kind of device that its lines name (a key of ``_DEVICES``).
        check: the first check; ``fix``: the repair.
        category: of Azure's health reports, without Resource.Hpc; empty where none fits.
        nhc: Azure's fault code of that category, or empty.
        drain: whether the node should take no new jobs.
        soft_fix: one of SOFT_FIXES, to try before a report; empty without.
        consequence_of: the entries that it follows from; ``xid`` stands for each XID that fails a
            node, ``cause`` for each cause that does.
    """

    id: str
    kind: str
    marks: Sequence[str]
    pattern: Optional[Pattern[str]]
    meaning: str
    severity: str
    device: str
    check: str
    fix: str
    reboot_loses_evidence: bool
    category: str
    nhc: str
    drain: bool
    consequence_of: Sequence[str]
    source: str
    date: str
    soft_fix: str = ""

    @property
    def ghr(self) -> str:
        """Azure's category of a health report, as its API takes it; empty where none fits."""
        return ghr_category(self.category)

    def follows(self, other: Entry) -> bool:
        """Whether another entry explains this one."""
        if other.id in self.consequence_of:
            return True
        if "cause" in self.consequence_of and (other.kind, other.severity) == ("cause", "fail"):
            return True
        code = other.id.partition("_")
        return code[0] in self.consequence_of and code[2].isdecimal() and other.severity == "fail"


class Match(NamedTuple):
    """A line that holds an entry.

    Attributes:
        start: where its line begins in the text; ``line`` is a part of it.
        device: as the line names it, empty where it does not; ``node`` and ``time`` likewise.
    """

    entry: Entry
    start: int
    line: str
    device: str
    node: str
    time: str


class Dictionary:
    """All entries."""

    def __init__(self, entries: Sequence[Entry], rules: Mapping[str, Any], faults: Faults) -> None:
        self.entries = {entry.id: entry for entry in entries}
        self._faults, self._rules = faults, rules
        self._coded = {
            f"{kind}_{code}": _of_code(kind, str(code), faults, rules)
            for kind in _CODES
            for code in faults.codes(kind)
        }

    @property
    def all(self) -> Dict[str, Entry]:
        """Every entry by its id, codes of XIDs and SXids included."""
        return {**self._coded, **self.entries}

    def find(self, text: str) -> Iterator[Match]:
        """The lines of a text that hold entries, in no order; a line once for each entry."""
        yield from find_entries(text, self.entries.values())
        for kind, (pattern, marks) in _CODES.items():
            for mark in marks:
                for start, line, _ in _lines_with(text, mark):
                    for code in pattern.finditer(line):
                        yield _match(self._coded_entry(kind, code), start, line, "")

    def first_cause(self, text: str) -> Optional[Match]:
        """The first line that holds a fault which nothing else in the text explains; None without
        one."""
        matches = list(self.find(text))
        causes = [
            match
            for match in matches
            if match.entry.kind == "cause"
            and match.entry.severity != "info"
            and not any(match.entry.follows(other.entry) for other in matches)
        ]
        return min(causes, key=lambda match: match.start, default=None)

    def _coded_entry(self, kind: str, code: re.Match[str]) -> Entry:
        """The entry of a code, milder where the driver's line says Nonfatal."""
        name = f"{kind}_{code.group(1)}"
        entry = self._coded.get(name) or _of_code(kind, code.group(1), self._faults, self._rules)
        fault = self._faults.of(kind, int(code.group(1)))
        word = _FATAL.search(code.string, code.end())
        if fault and fault.nonfatal and word and word.group(1) != "Fatal":
            return entry._replace(severity=fault.nonfatal, drain=False)
        return entry


def find_entries(text: str, entries: Iterable[Entry]) -> Iterator[Match]:
    """The lines of a text that hold one of the entries, in no order."""
    for entry in entries:
        starts = set()
        for mark in entry.marks:
            for start, line, above in _lines_with(text, mark):
                if start in starts or (entry.pattern and not entry.pattern.search(line)):
                    continue
                starts.add(start)
                yield _match(entry, start, line, above)


def _lines_with(text: str, mark: str) -> Iterator[Tuple[int, str, str]]:
    """Where each line with a mark begins, the line around the mark, and the text above it."""
    position = text.find(mark)
    while position >= 0:
        start = text.rfind("\n", 0, position) + 1
        end = text.find("\n", position)
        end = len(text) if end < 0 else end
        begin = max(start, position - _MOST_LINE)
        above = text[max(0, start - _ABOVE) : start]
        yield start, text[begin : min(end, position + _MOST_LINE)], above
        position = text.find(mark, end)


def _match(entry: Entry, start: int, line: str, above: str) -> Match:
    return Match(
        entry,
        start,
        line,
        _address(_first(_DEVICES[entry.device], line) or _last_above(entry, above)),
        _first(_NODES, line),
        _first(_TIMES, line[:200]),
    )


def _address(name: str) -> str:
    """A PCI address in one form: ``0000:B3:00`` is ``0000:b3:00.0``."""
    match = re.fullmatch(r"([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2})(\.[0-7])?", name)
    return f"{match.group(1)}{match.group(2) or '.0'}".lower() if match else name


def _last_above(entry: Entry, above: str) -> str:
    """The device named in one of the lines above, of a sentence that takes several lines."""
    for line in reversed(above.splitlines()[-3:]):
        if entry.device == "pci" and "NVRM:" in line:
            name = _first(_DEVICES["pci"], line)
            if name:
                return name
        match = re.match(r"\s{0,8}CA '([\w.-]{1,40})'", line)
        if entry.device == "nic" and match:
            return match.group(1)
    return ""


def _first(patterns: Sequence[Pattern[str]], line: str) -> str:
    for pattern in patterns:
        match = pattern.search(line)
        if match:
            return match.group(1)
    return ""


def of_documents(documents: Mapping[str, Any], faults: Faults) -> Dictionary:
    """The dictionary.

    Args:
        documents: the files of catalog/faults but xid.yml, by their names.
        faults: XIDs and SXids.

    Raises:
        BadInput: an entry is wrong; says which.
    """
    try:
        rules = {**documents["azure.yml"]["codes"]}
        rules["categories"] = documents["azure.yml"]["categories"]
        if not set(rules) >= set(_CODES):
            raise KeyError(*_CODES)
    except (KeyError, TypeError) as error:
        raise BadInput(
            f"catalog/faults/azure.yml: categories and codes are needed: {error}"
        ) from error
    entries: Dict[str, Entry] = {}
    for name, document in documents.items():
        if name == "azure.yml":
            continue
        for entry in entries_of(f"catalog/faults/{name}", document, rules["categories"]):
            if entry.id in entries:
                raise BadInput(f"catalog/faults/{name}: {entry.id} is there twice")
            entries[entry.id] = entry
    dictionary = Dictionary(list(entries.values()), rules, faults)
    known = {*dictionary.all, *_CODES, "cause"}
    for entry in entries.values():
        unknown = sorted(set(entry.consequence_of) - known)
        if unknown:
            raise BadInput(
                f"catalog/faults: {entry.id} follows from {unknown[0]}, which is no entry"
            )
    return dictionary


def entries_of(where: str, document: Any, categories: Mapping[str, Any]) -> Iterator[Entry]:
    """The entries of one file.

    Raises:
        BadInput: one is wrong; says which.
    """
    if not isinstance(document, dict) or not {"sources", "faults"} <= set(document):
        raise BadInput(f"{where}: sources and faults are needed")
    for number, item in enumerate(document["faults"], 1):
        label = item.get("id", number) if isinstance(item, dict) else number
        try:
            yield _entry(item, document["sources"], categories)
        except (AttributeError, KeyError, TypeError, re.error, BadInput) as error:
            raise BadInput(f"{where}: entry {label} is wrong: {error}") from error


def _entry(
    item: Mapping[str, Any], sources: Mapping[str, Any], categories: Mapping[str, Any]
) -> Entry:
    for problem, names in (
        ("unknown", set(item) - _REQUIRED - _OPTIONAL),
        ("missing", _REQUIRED - set(item)),
    ):
        if names:
            raise BadInput(f"{problem}: {', '.join(sorted(names))}")
    kind, category = item.get("kind", "cause"), str(item.get("category", ""))
    for name, value, values in (
        ("kind", kind, KINDS),
        ("severity", item["severity"], SEVERITIES),
        ("device", item["device"], _DEVICES),
        ("category", category, ["", *categories]),
        ("soft_fix", item.get("soft_fix", ""), ("", *SOFT_FIXES)),
    ):
        if value not in values:
            raise BadInput(f"{name} {value!r} is none of {', '.join(values)}")
    marks = [str(mark) for mark in item["marks"]]
    if not marks or min(map(len, marks)) < 4:
        raise BadInput("a mark has fewer than 4 characters")
    texts = [sources[name] for name in item["sources"]]
    return Entry(
        id=str(item["id"]),
        kind=kind,
        marks=marks,
        pattern=re.compile(item["pattern"]) if "pattern" in item else None,
        meaning=str(item["meaning"]),
        severity=item["severity"],
        device=item["device"],
        check=str(item["check"]),
        fix=str(item["fix"]),
        reboot_loses_evidence=bool(item.get("reboot_loses_evidence", False)),
        category=category,
        nhc=str(categories.get(category) or ""),
        drain=bool(item.get("drain", False)),
        consequence_of=[str(name) for name in item.get("consequence_of", ())],
        source="; ".join(str(text["text"]) for text in texts),
        date=str(texts[0]["date"]),
        soft_fix=str(item.get("soft_fix", "")),
    )


def _of_code(kind: str, code: str, faults: Faults, rules: Mapping[str, Any]) -> Entry:
    """An XID or SXid as an entry; a warning where the list does not have the number."""
    fault = faults.of(kind, int(code))
    of_kind = rules[kind]
    severity = fault.severity if fault else "warn"
    by_nhc = {nhc: category for category, nhc in rules["categories"].items() if nhc}
    nhc = fault.fault if fault else ""
    category = by_nhc.get(nhc, "")
    if not category and severity == "fail":
        category = str(of_kind["category"])
        nhc = str(rules["categories"].get(category) or "")
    name = {"xid": "XID", "sxid": "SXid"}[kind]
    meaning = fault.meaning if fault else "a code that is not in the dictionary"
    return Entry(
        id=f"{kind}_{code}",
        kind="symptom" if int(code) in of_kind["symptoms"] else "cause",
        marks=(),
        pattern=None,
        meaning=f"{name} {code}: {meaning}",
        severity=severity,
        device="pci",
        check=str(of_kind["check"]),
        fix=(fault.fix if fault and fault.fix else str(of_kind["fix"])),
        reboot_loses_evidence=True,
        category=category,
        nhc=nhc,
        drain=severity == "fail",
        consequence_of=of_kind["consequence_of"] if int(code) in of_kind["consequences"] else (),
        source=fault.source if fault else "",
        date=fault.date if fault else "",
    )
