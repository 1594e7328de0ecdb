"""The report's section of published results, this run beside them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..load import load
from ..reference import compare, sums
from ..render.html import Column, Part, Row, Section, Table
from ..render.units import count, fixed, is_missing, measure, percent_figure, seconds
from .cells import layout_text, words

if TYPE_CHECKING:
    from pathlib import Path

    from ..load import Loaded
    from ..reference import Comparison, Sums

__all__ = ["reference_section"]


def reference_section(loaded: Loaded, path: Path) -> Section | None:
    """Each published table of the benchmark that was run, this run beside it; ``path`` is
    reference_results.csv.
    """
    cases = loaded.cases
    ours = cases[(cases["provenance"] == "measured") & (cases["benchmark"] == "devito")]
    ours = ours[ours["outcome"] == "ok"]
    if ours.empty:
        return None
    mine = replace(
        loaded, cases=ours, metrics=loaded.metrics[loaded.metrics["record"].isin(ours["record"])]
    )
    published = load([path])
    parts = [
        _comparison_part(one, f"reference-{number}")
        for number, one in enumerate(compare(published, mine), 1)
    ]
    return Section(
        "reference", "Published results beside this run", (*parts, _sums_part(sums(published)))
    )


def _comparison_part(one: Comparison, name: str) -> Part:
    rows = one.table.to_dict("records")
    beside = any(not is_missing(row["mine_seconds"]) for row in rows)
    columns = [
        Column("Cores", kind="number"),
        Column("Nodes", kind="number"),
        Column("Published size"),
        Column("Published time", "s", "number"),
        Column("Published rate", "GFLOP/s", "number"),
        Column("Speed-up as printed", kind="number"),
        Column("Speed-up recomputed", kind="number"),
        Column("Published efficiency", "%", "number"),
    ]
    if beside:
        columns += [
            Column("This run's layout"),
            Column("This run's time", "s", "number"),
            Column("This run's rate", "GFLOP/s", "number"),
            Column("This run's speed-up", kind="number"),
            Column("This run's efficiency", "%", "number"),
        ]
    cells = []
    for row in rows:
        printed = not is_missing(row["published_seconds"])
        cell = [count(row["cores"]), count(row["nodes"])]
        cell += (
            [
                words(row["vm_size"]),
                seconds(row["published_seconds"]),
                measure(row["published_flop_per_second"], "flop/s"),
                fixed(row["published_speedup"], 2),
                fixed(row["speedup"], 2),
                percent_figure(row["efficiency"]),
            ]
            if printed
            else ["not published", *[""] * 5]
        )
        if beside:
            cell += (
                [
                    layout_text(row["mine_layout"]),
                    seconds(row["mine_seconds"]),
                    measure(row["mine_flop_per_second"], "flop/s"),
                    fixed(row["mine_speedup"], 2),
                    percent_figure(row["mine_efficiency"]),
                ]
                if not is_missing(row["mine_seconds"])
                else ["not run", *[""] * 4]
            )
        cells.append(Row(tuple(cell)))
    caption = "Published figures" + (
        " and this run, by resource." if beside else "; this run has no such series."
    )
    listing = Table(name, caption, tuple(columns), tuple(cells))
    return Part(title=one.title, tables=(listing,), notes=tuple(one.notes))


def _sums_part(found: Sums) -> Part:
    columns = (
        Column("Published sweep"),
        Column("Published", "h", "number"),
        Column("Sum of run times", "h", "number"),
        Column("Node-hours", kind="number"),
        Column("Node-hours / run times", kind="number"),
    )
    rows = tuple(
        Row(
            (
                words(row["configuration"]),
                measure(row["published_hours"]),
                measure(row["sum_run_hours"]),
                measure(row["node_hours"]),
                fixed(row["underbilled"], 2),
            )
        )
        for row in found.table.to_dict("records")
    )
    listing = Table(
        "reference-hours", "The published hours, and what would be billed.", columns, rows
    )
    return Part(title=found.title, tables=(listing,), notes=tuple(found.notes))
