"""From readings of tools' outputs to sheets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from .. import units
from .sheet import Column, Sheet

if TYPE_CHECKING:
    from ..read import Reading


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


_STATISTICS: Final = ("median", "mean", "min", "max")


def reading_for_people(item: Reading) -> Sheet:
    """One tool's output, one line a figure, in the field's units."""
    lines: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in item.rows:
        unit = row["unit"]
        line = lines.setdefault(
            (row["name"], row.get("message_bytes"), row.get("device")),
            {
                "name": str(row["name"]).replace("_", " "),
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


def _reading(item: Reading, columns: list[Column], rows: list[dict[str, Any]]) -> Sheet:
    checks = ", ".join(
        f"{name} {'passed' if passed else 'FAILED'}" for name, passed in item.checks.items()
    )
    return Sheet(
        title=f"{item.source}: {item.tool} {item.tool_version or ''}".rstrip(),
        columns=columns,
        rows=rows,
        notes=[
            *([f"Checks: {checks}."] if checks else []),
            *(f"Unverified: {missing}." for missing in item.unverified),
        ],
        warnings=item.warnings,
        facts={"kind": "reading", "tool": item.tool, "tool_version": item.tool_version},
    )
