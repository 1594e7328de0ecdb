"""From presets to sheets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import units
from .sheet import Column, Sheet, short_size, unshown, worded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trueup_controller.presets import Preset

_PRICE_NOTE = (
    "US$: all nodes for these minutes, at the lowest list price of the regions that the price table"
    " knows."
)


def offered(rows: Sequence[Mapping[str, Any]]) -> Sheet:
    """The presets of the catalog, with time and price on each size."""
    return Sheet(
        title="Presets: published pieces of work (-e trueup_preset=NAME)",
        columns=[
            *worded("preset"),
            Column("title", "work", words=True),
            Column("size", "size", short_size, words=True),
            Column("benchmarks", "benchmarks", words=True),
            Column("nodes", "nodes\nup to", units.count),
            Column("minutes", "minutes", units.count),
            Column("usd", "US$", units.money),
            Column("price_date", "price\nas of"),
            Column("age_days", "age\ndays", units.count),
            *unshown("region", "source"),
        ],
        rows=list(rows),
        notes=[_PRICE_NOTE, *_without_price(rows)],
        facts={"kind": "presets", "currency": "USD"},
    )


def _without_price(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A note on sizes without a price; none where all have one."""
    sizes = dict.fromkeys(short_size(row["size"]) for row in rows if not row["price_date"])
    return [f"Without a price in the table: {', '.join(sizes)}."] if sizes else []


def settings(name: str, preset: Preset) -> Sheet:
    """One preset: its variables, and the notes of its file."""
    rows = [{"variable": key, "value": str(value)} for key, value in preset.variables.items()]
    needs = [*(f"{key}: {text}" for key, text in preset.user_variables.items()), *preset.needs]
    notes = [
        f"Source: {preset.source}.",
        *([preset.chosen] if preset.chosen else []),
        f"Minutes: {preset.minutes_source}.",
        *(f"Needs: {need}." for need in needs),
        *([f"Not compared: {preset.unpublished}."] if preset.unpublished else []),
    ]
    return Sheet(
        title=f"{name}: {preset.title}",
        columns=worded("variable", "value"),
        rows=rows,
        notes=notes,
        facts={"kind": "preset", "preset": name},
    )


def reproduced(rows: Sequence[Mapping[str, Any]], notes: Sequence[str]) -> Sheet:
    """A run beside the published rows that its preset should reproduce, and notes on presets that
    are compared with nothing."""
    shown_rows = [
        {
            **row,
            "published_shown": units.measure(row["published"], row["unit"]),
            "own_shown": units.measure(row["own"], row["unit"]),
            "unit_shown": units.DISPLAYED.get(row["unit"], row["unit"]),
        }
        for row in rows
    ]
    return Sheet(
        title="This run beside the published rows that its preset reproduces",
        columns=[
            *worded("preset", "node", "case"),
            Column("metric", "figure", words=True),
            Column("nodes", "nodes", units.count),
            Column("cores_or_gpus", "cores\nor GPUs", units.count),
            *unshown("published", "own", "unit"),
            Column("published_shown", "published", data=False),
            Column("own_shown", "own", data=False),
            Column("unit_shown", "unit", data=False),
            Column("share", "of the\npublished", units.percent),
            Column("at_least", "healthy\nfrom", units.percent),
            Column("verdict", "verdict", words=True),
            Column("configuration", "published\nconfiguration", words=True),
            *unshown("source"),
        ],
        rows=shown_rows,
        notes=list(notes),
        facts={"kind": "reproduced"},
    )
