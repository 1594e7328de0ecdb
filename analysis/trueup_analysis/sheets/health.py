"""From verdicts to sheets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import units
from ..figures.health.verdicts import WORST_FIRST
from ..quantity import Quantity
from .sheet import Column, Sheet, worded

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..figures.health.examine import Health
    from ..figures.health.verdicts import Verdict

# More nodes than this, and only what is not a pass is shown.
_FEW_NODES = 4
SIGNS = {"at_least": "\u2265 ", "at_most": "\u2264 ", "usual": "about "}
# What people read instead, where a figure stands in the base unit.
_FOR_PEOPLE = {"byte/s": "GB/s", "bit/s": "Gb/s", "flop/s": "GFLOP/s", "byte": "GiB", "KiB": "GiB"}


def health(found: Health, *, everything: bool) -> Sheet:
    """For people: what is not a pass, the worst first; all of it for a few nodes."""
    counts = ", ".join(f"{count} {word}" for word, count in found.counts.items() if count)
    title = f"Health of {units.plural(len(found.nodes), 'node')}: {counts}"
    if everything or len(found.nodes) <= _FEW_NODES:
        return verdicts(found.verdicts, title)
    shown = [item for item in found.verdicts if item.verdict not in ("pass", "no verdict")]
    notes = ["Passes are not shown; --passes shows them."]
    if unjudged := found.counts["no verdict"]:
        notes.append(f"{units.plural(unjudged, 'figure')} without a verdict; --passes says why.")
    return verdicts(shown, title, notes)


def verdicts(found: Iterable[Verdict], title: str, notes: Sequence[str] = ()) -> Sheet:
    """For people: one row for all devices of a node that have the same verdict on one figure, with
    the worst of them; sources below the table.
    """
    alike: dict[tuple[Any, ...], list[Verdict]] = {}
    for item in found:
        key = (item.nodes, item.case, item.what, item.message_bytes, item.verdict, item.reason)
        alike.setdefault(key if item.device else (*key, item.metric), []).append(item)
    sources = dict.fromkeys(item.source for its in alike.values() for item in its if item.source)
    return Sheet(
        title=title,
        columns=[
            *worded("node", "verdict", "what", "device"),
            Column("message_bytes", "at", _size),
            Column("measured", "measured"),
            Column("expected", "expected"),
            *worded("unit", "fault"),
            Column("reason", "why", words=True),
            Column("fix", "fix", words=True),
        ],
        rows=[_shown(its) for its in alike.values()],
        notes=[*notes, *(f"Source: {source}." for source in sources)],
        marks="mark",
        name="verdicts",
    )


def _size(value: Any) -> str:
    return units.UNKNOWN if value is None else units.size_of(value)


def data(found: Health) -> Sheet:
    """For programs: every verdict, in base units."""
    columns = [
        *("node", "vm_size", "verdict", "benchmark", "case", "what", "metric", "device"),
        *("message_bytes", "measured", "comparison", "expected", "unit", "fault", "reason"),
        *("fix", "source", "date", "run_id", "measured_at"),
    ]
    return Sheet(
        title=f"Health of {units.plural(len(found.nodes), 'node')}",
        columns=[Column(name, name) for name in columns],
        rows=[{**vars(item), "node": "+".join(item.nodes)} for item in found.verdicts],
        facts={
            "kind": "health",
            "counts": {word: found.counts[word] for word in WORST_FIRST},
            "nodes": dict(found.words),
            "judged": len(found.nodes) - len(found.unjudged),
            "sentence": found.sentence,
        },
    )


def _shown(its: Sequence[Verdict]) -> dict[str, Any]:
    worst = its[0]
    if worst.measured is not None:
        pick = max if worst.comparison == "at_most" else min
        worst = pick(its, key=lambda item: item.measured or 0.0)
    unit = _FOR_PEOPLE.get(worst.source_unit or "", worst.source_unit) or _FOR_PEOPLE.get(
        worst.unit or "", worst.unit
    )
    more = f" and {len(its) - 1} more" if len(its) > 1 else ""
    sign = SIGNS.get(str(worst.comparison), "")
    return {
        "node": "+".join(worst.nodes),
        "verdict": worst.verdict,
        "what": worst.what,
        "device": f"{worst.device}{more}" if worst.device else None,
        "message_bytes": worst.message_bytes,
        "measured": _figure(worst.measured, worst.unit, unit),
        "expected": None
        if worst.expected is None
        else sign + _figure(worst.expected, worst.unit, unit),
        "unit": "" if unit == "1" else unit,
        "fault": worst.fault,
        "reason": worst.reason,
        "fix": worst.fix,
        "mark": "bad" if worst.verdict in ("fail", "not measured") else "",
    }


def _figure(value: float | None, base: str | None, unit: str | None) -> str:
    if value is None or base is None or unit is None:
        return units.UNKNOWN
    if unit == "1":
        return f"{value:g}"
    # A record may hold a unit that no expectation knows.
    shown = value if unit == base else Quantity(value, base).to(unit).value
    return units.measure(shown)
