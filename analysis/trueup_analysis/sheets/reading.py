"""From readings of tools' outputs to sheets."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any, Final

from trueup.cases import TYPICAL

from .. import units
from .sheet import Column, Sheet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..read import Reading

_STATISTICS: Final = ("median", "mean", "min", "max")
# Base unit -> displayed unit, beside units.DISPLAYED: for the times of messages.
_SHORT: Final = {"s": "us"}
_HEADING: Final = 9


def reading(item: Reading) -> Sheet:
    """One tool's output, row by row as records hold it."""
    keys = ("name", "value", "unit", "direction", "message_bytes", "device", "statistic", "n")
    columns = [Column(key, key, words=key != "value") for key in keys]
    columns.append(Column("unverified", "unverified", words=True))
    rows = [
        {**{key: row.get(key) for key in keys}, "unverified": "; ".join(item.unverified)}
        for row in item.rows
    ]
    return _reading(item, columns, rows)


def reading_for_people(item: Reading, *, all_rows: bool = False) -> Sheet:
    """One tool's output in the field's units: of a sweep a line a message size, unless all rows
    are asked for; else a line a figure."""
    sizes = {row.get("message_bytes") for row in item.rows} - {None}
    if len(sizes) > 1 and not all_rows:
        return _sweep(item)
    lines: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in item.rows:
        unit = row["unit"]
        line = lines.setdefault(
            (row["name"], row.get("message_bytes"), row.get("device")),
            {
                "name": _words(row["name"]),
                "message_bytes": row.get("message_bytes"),
                "device": row.get("device"),
                "n": row.get("n"),
                "mark": "unverified" if item.unverified else "",
                "unit": "" if unit == "1" else units.DISPLAYED.get(unit, unit),
            },
        )
        line[row.get("statistic") or "single"] = units.measure(row["value"], unit)
    held = {str(row.get("statistic")) for row in item.rows}
    percentiles = sorted(held - {"None", *_STATISTICS, "single"}, key=lambda name: float(name[1:]))
    columns = [
        Column("name", "figure", words=True),
        Column("message_bytes", "message\nbytes", units.count),
        Column("device", "device", words=True),
        *(Column(key, key) for key in (*_STATISTICS, *percentiles)),
        Column("single", "value"),
        Column("unit", "unit", words=True),
        Column("n", "n", units.count),
        Column("mark", "checked", words=True),
    ]
    return _reading(item, columns, list(lines.values()))


def _sweep(item: Reading) -> Sheet:
    """A line a message size (and device); of repeats the median and the 99th percentile."""
    mark = "?" if item.unverified else ""
    columns = {
        "device": Column("device", "device", words=True),
        "message_bytes": Column("message_bytes", "message", _size),
    }
    counts = {"device"}
    lines: dict[tuple[Any, ...], dict[str, Any]] = {}
    typical = _typical(item)
    for row in item.rows:
        name, kind = row["name"], row.get("statistic")
        if kind not in {typical[name], "p99"}:
            continue
        shown_unit = _SHORT.get(row["unit"], units.DISPLAYED.get(row["unit"], row["unit"]))
        key = name if kind == typical[name] else f"{name} {kind}"
        columns.setdefault(
            key, Column(key, _heading(_words(key), "" if shown_unit == "1" else shown_unit))
        )
        counts |= {key} if shown_unit == "1" else set()
        position = row.get("device"), row.get("message_bytes")
        line = lines.setdefault(
            position, dict(zip(("device", "message_bytes"), position, strict=True))
        )
        line[key] = units.in_unit(row["value"], shown_unit) + mark
    rows = list(lines.values())
    # A count that is the same in all rows, such as that of wrong values, is said once.
    same = {key: rows[0].get(key) for key in counts if len({row.get(key) for row in rows}) == 1}
    same_texts = [f"{_words(key)} {same[key]}" for key in columns if same.get(key) is not None]
    varying = [column for key, column in columns.items() if key not in same]
    return _reading(item, varying, rows, same_texts)


def _size(message_bytes: int | None) -> str:
    return units.UNKNOWN if message_bytes is None else units.size_of(message_bytes)


def _typical(item: Reading) -> dict[str, str | None]:
    """The statistic that stands for each figure."""
    kinds: dict[str, list[str | None]] = {}
    for row in item.rows:
        kinds.setdefault(row["name"], []).append(row.get("statistic"))
    return {
        name: next((kind for kind in TYPICAL if kind in held), held[0])
        for name, held in kinds.items()
    }


def _words(name: str) -> str:
    return name.replace("_", " ")


def _heading(words: str, unit: str) -> str:
    """A narrow heading, the unit in its last line."""
    lines = words.replace(" in place", "\nin place").replace(" p99", "\np99").split("\n")
    first, *rest = (line for chunk in lines for line in _broken(chunk))
    return "\n".join(filter(None, [first, *rest, unit]))


def _broken(words: str) -> list[str]:
    """Words in lines of at most ``_HEADING`` characters, or of one word."""
    return textwrap.wrap(words, _HEADING, break_long_words=False)


def _reading(
    item: Reading, columns: list[Column], rows: list[dict[str, Any]], same: Sequence[str] = ()
) -> Sheet:
    """The sheet; ``same`` are the values that all rows share."""
    checks = ", ".join(
        f"{name} {'passed' if passed else 'FAILED'}" for name, passed in item.checks.items()
    )
    parameters = ", ".join(
        f"{_words(name)} {value}"
        for name, value in item.parameters.items()
        if value not in {"unknown", "none"}
    )
    return Sheet(
        title=f"{item.title}: {item.tool} {item.tool_version or ''}".rstrip(),
        columns=columns,
        rows=rows,
        notes=[
            *([f"In all rows: {', '.join(same)}."] if same else []),
            *([f"Found: {parameters}."] if parameters else []),
            *([f"Checks: {checks}."] if checks else []),
            *(f"Unverified: {missing}." for missing in item.unverified),
        ],
        warnings=item.warnings,
        facts={"kind": "reading", "tool": item.tool, "tool_version": item.tool_version},
    )
