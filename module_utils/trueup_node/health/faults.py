"""Judge the kernel log by catalog/faults: XIDs and SXids, and the entries that are ``watched``.

A node returns the codes of its kernel log (``node/kernel_log.py``). They are judged where the list
is: on the controller, and on a node of role slurm by the copy in its settings. Of watched entries
(``node/watched_log.py``) it only warns: one line of the kernel proves no broken node.
"""

from __future__ import annotations

from typing import (
    TYPE_CHECKING,
    Any,
    Dict,
    Iterable,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

from ..errors import BadInput
from .verdicts import Verdict, of_case

if TYPE_CHECKING:
    from ..cases import Case, Figure

_SEVERITIES = ("fail", "warn", "info")
_KINDS = {"xid": "xids", "sxid": "sxids"}
_REQUIRED = {"codes", "meaning", "severity", "sources"}
_MEMBERS = _REQUIRED | {"nonfatal", "hours", "failed_by", "fix", "fault"}
_NAMES = {"xid": "XID", "sxid": "SXid"}
_DEVICES = {"xid": "GPU", "sxid": "NVSwitch"}
_HOUR = 3600
# Before the id of a watched entry in the name of its figure, and where the node looked.
_WATCHED = {"kernel_fault_": "kernel log", "unit_fault_": "systemd"}
# A reset ends the state that the GPU was in, and makes no hardware better.
_STEP_DOWN = {"fail": "warn", "warn": "info", "info": "info"}
_UNKNOWN_FIX = (
    "look it up in NVIDIA's Xid catalog (docs.nvidia.com/deploy/xid-errors), and add it to"
    " catalog/faults/xid.yml"
)


class Fault(NamedTuple):
    """One code.

    Attributes:
        severity: fail, warn or info; ``nonfatal`` where the driver's line says that it is not
            fatal, None where that changes nothing.
        hours: after which without a new line a failure is a warning; None for never.
        failed_by: sources whose own check fails a node for it.
        fix: the step to take, empty where there is none; ``fault``: Azure's fault code, or empty.
        source: as people read it; ``date``: of the source.
    """

    meaning: str
    severity: str
    nonfatal: Optional[str]
    hours: Optional[float]
    failed_by: Sequence[str]
    fix: str
    fault: str
    source: str
    date: str


class Faults:
    """All codes, by kind (xid or sxid) and number, and the watched entries, by id."""

    def __init__(
        self,
        by_kind: Mapping[str, Mapping[int, Fault]],
        watched: Optional[Mapping[str, Fault]] = None,
    ) -> None:
        self._by_kind = by_kind
        self.watched = watched or {}

    def of(self, kind: str, code: int) -> Optional[Fault]:
        """The code's entry; None where the list does not have it."""
        return self._by_kind.get(kind, {}).get(code)

    def codes(self, kind: str, failed_by: Optional[str] = None) -> List[int]:
        """The numbers of a kind; with ``failed_by`` those that this source fails a node for."""
        faults = self._by_kind.get(kind, {})
        return sorted(
            code
            for code, fault in faults.items()
            if failed_by is None or failed_by in fault.failed_by
        )


def of_document(document: Any, where: str) -> Faults:
    """The faults of a document in the format of catalog/faults/xid.yml, with ``watched_of`` the
    other files as its ``watched``.

    Raises:
        BadInput: an entry is wrong; says which.
    """
    try:
        lists = {kind: list(document[name]) for kind, name in _KINDS.items()}
        sources, fixes = dict(document["sources"]), dict(document["fixes"])
    except (KeyError, TypeError, ValueError) as error:
        raise BadInput(f"{where}: sources, fixes, xids and sxids are needed: {error!r}") from error
    by_kind: Dict[str, Dict[int, Fault]] = {}
    for kind, entries in lists.items():
        faults = by_kind.setdefault(kind, {})
        for number, entry in enumerate(entries, 1):
            position = f"{where}: {_KINDS[kind]}, entry {number}"
            try:
                fault, codes = _fault(entry, sources, fixes)
            except (AttributeError, KeyError, TypeError, ValueError, BadInput) as error:
                raise BadInput(f"{position} is wrong: {error}") from error
            for code in codes:
                if code in faults:
                    raise BadInput(f"{position}: {code} is in the list twice")
                faults[code] = fault
    return Faults(by_kind, _watched(document.get("watched"), where))


def watched_of(documents: Iterable[Any]) -> Dict[str, Any]:
    """The entries that are watched, and their sources, of the other files of catalog/faults: a
    document in their format."""
    watched: Dict[str, Any] = {"sources": {}, "faults": []}
    for number, document in enumerate(documents):
        for entry in document.get("faults", ()):
            if entry.get("watched"):
                names = [f"{number}_{name}" for name in entry["sources"]]
                for name, source in zip(names, entry["sources"]):
                    watched["sources"][name] = document["sources"][source]
                row = {**entry, "sources": names, "consequence_of": []}
                if isinstance(row["watched"], str) and row["watched"] != "units":
                    # A fault of several lines, of which one is counted.
                    row["marks"] = [row["watched"]]
                watched["faults"].append(row)
    return watched


def _watched(document: Any, where: str) -> Dict[str, Fault]:
    if document is None:
        return {}
    try:
        return {
            str(entry["id"]): Fault(
                meaning=str(entry["meaning"]),
                severity="warn",
                nonfatal=None,
                hours=None,
                failed_by=(),
                fix=str(entry["fix"]),
                fault="",
                source="; ".join(
                    str(document["sources"][name]["text"]) for name in entry["sources"]
                ),
                date=str(document["sources"][entry["sources"][0]]["date"]),
            )
            for entry in document["faults"]
        }
    except (IndexError, KeyError, TypeError) as error:
        raise BadInput(f"{where}: a watched entry is wrong: {error!r}") from error


def _fault(
    entry: Any, sources: Mapping[str, Any], fixes: Mapping[str, str]
) -> Tuple[Fault, List[int]]:
    _check_members(entry)
    codes = [code for code in entry["codes"] if type(code) is int and code > 0]
    if not codes or codes != list(entry["codes"]):
        raise BadInput(f"codes {entry['codes']} are not whole numbers above 0")
    texts = [sources[name] for name in entry["sources"]]
    hours = entry.get("hours")
    fault = Fault(
        meaning=str(entry["meaning"]),
        severity=entry["severity"],
        nonfatal=entry.get("nonfatal"),
        hours=None if hours is None else float(hours),
        failed_by=[name for name in entry.get("failed_by", ()) if sources[name]],
        fix=str(fixes[entry["fix"]]) if "fix" in entry else "",
        fault=str(entry.get("fault", "")),
        source="; ".join(str(text["text"]) for text in texts),
        date=str(texts[0]["date"]),
    )
    return fault, codes


def _check_members(entry: Mapping[str, Any]) -> None:
    """Refuse an entry that lacks a member, has another one, or has another severity."""
    for problem, names in (("unknown", set(entry) - _MEMBERS), ("missing", _REQUIRED - set(entry))):
        if names:
            raise BadInput(f"{problem}: {', '.join(sorted(names))}")
    for name in ("severity", "nonfatal"):
        if entry.get(name, "info") not in _SEVERITIES:
            raise BadInput(f"{name} {entry[name]!r} is none of {', '.join(_SEVERITIES)}")
    if entry["severity"] != "info" and "fix" not in entry:
        raise BadInput("fix is missing")


def judged(gpu: Mapping[str, Any], faults: Faults) -> Dict[str, Any]:
    """The fact ``trueup_gpu`` with a ``severity`` in each row of ``xids``, and the rows that fail
    the node among its ``problems``.

    Raises:
        BadInput: a row has another form; nodes are not trusted.
    """
    if gpu.get("xids") is None:
        return dict(gpu)
    try:
        rows = [{**row, "severity": _severity(row, faults)} for row in gpu["xids"]]
        failing = [row for row in rows if row["severity"] == "fail"]
        problems = [
            {"name": f"{row['kind']}_{row['code']}", "message": _sentence(row, faults)}
            for row in sorted(failing, key=lambda row: (row["kind"], row["device"], row["code"]))
        ]
        earlier = [*gpu["problems"]]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise BadInput(f"gpu_facts returned XIDs of another form: {error!r}") from error
    return {
        **gpu,
        "xids": rows,
        "problems": [*earlier, *({**problem, "reboot": False} for problem in problems)],
    }


def _severity(row: Mapping[str, Any], faults: Faults) -> str:
    fault = faults.of(str(row["kind"]), int(row["code"]))
    if int(row["count"]) < 1 or row["kind"] not in _KINDS:
        raise ValueError(f"{row}")
    if fault is None:
        # An SXid that the driver calls fatal is fatal, whatever its number.
        severity = "fail" if row["kind"] == "sxid" and row["fatal"] else "warn"
    else:
        severity = fault.severity
        if row["fatal"] is False and fault.nonfatal:
            severity = fault.nonfatal
        age, hours = row["age_seconds"], fault.hours
        if hours is not None and age is not None and age > hours * _HOUR:
            severity = _STEP_DOWN[severity]
    return _STEP_DOWN[severity] if row["before_reset"] else severity


def _sentence(row: Mapping[str, Any], faults: Faults) -> str:
    kind, code = str(row["kind"]), int(row["code"])
    fault = faults.of(kind, code)
    meaning = fault.meaning if fault else "not in catalog/faults/xid.yml"
    action = f": {row['action']}" if row["action"] else ""
    fix = fault.fix if fault else _UNKNOWN_FIX
    azure = f" (Azure's fault code {fault.fault})" if fault and fault.fault else ""
    return (
        f"{_DEVICES[kind]} {row['device']} logged {_NAMES[kind]} {code} ({meaning}{action})"
        f" {row['count']} time(s), first: {row['line']}: {fix}{azure}."
    )


def metric_of(entry_id: str, kind: str = "kernel") -> str:
    """The figure that counts a watched entry: lines of the kernel log, or systemd's units (``kind``
    unit)."""
    return f"{kind}_fault_{entry_id}"


def is_warned(metric: str) -> bool:
    """Whether a figure of a node's state counts what is warned of: lines of one code (``xid_145``,
    ``sxid_20034``), or of a watched entry (``kernel_fault_nvme_failed``), or its units
    (``unit_fault_mount_missing``)."""
    kind, _, code = metric.partition("_")
    return (kind in _KINDS and code.isdecimal()) or metric.startswith(tuple(_WATCHED))


def warning(case: Case, figure: Figure, faults: Optional[Faults]) -> Verdict:
    """The verdict on a figure that ``is_warned``; the record holds no other counts.

    Args:
        faults: for the meaning; None where the list is not at hand.
    """
    prefix = next(filter(figure.name.startswith, _WATCHED), "")
    if prefix:
        name = figure.name[len(prefix) :]
        fault = faults.watched.get(name) if faults else None
        message, of_codes = _WATCHED[prefix], ""
        unknown_fix = f"Look for {name} in catalog/faults."
    else:
        kind, _, number = figure.name.partition("_")
        fault = faults.of(kind, int(number)) if faults else None
        name = f"{_NAMES[kind]} {number}"
        message, of_codes = f"{name} in the kernel log", "/xid.yml"
        unknown_fix = _capitalised(_UNKNOWN_FIX)
    return of_case(
        case,
        "warn",
        f"{message}: {fault.meaning}" if fault else message,
        metric=figure.name,
        device=figure.device,
        measured=figure.value,
        expected=0.0,
        comparison="at_most",
        unit=figure.unit,
        source=fault.source if fault else None,
        date=fault.date if fault else None,
        fix=_capitalised(fault.fix) if fault and fault.fix else unknown_fix,
        reason=None if fault else f"{name} is not in catalog/faults{of_codes}",
    )


def _capitalised(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
