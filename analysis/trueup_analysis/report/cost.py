"""The report's cost section."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..render.html import Column, Part, Row, Section, Table
from ..render.units import count, measure, money, seconds
from .cells import NOT_AZURE, words

if TYPE_CHECKING:
    from ..cost import CostTable

__all__ = ["cost_section"]

# Rows of a table that has one for each record; its CSV file has them all.
_ROWS_SHOWN: Final = 200


def cost_section(billed: CostTable | None) -> Section | None:
    """What each run costs, and each sweep; a price that is not known is shown as unknown."""
    if billed is None:
        return None
    columns = (
        Column("Case"),
        Column("Billed as"),
        Column("Region"),
        Column("Offer"),
        Column("Nodes", kind="number"),
        Column("Run time", "s", "number"),
        Column("Node-hours", kind="number"),
        Column("Node-hour", "US$", "number"),
        Column("Run", "US$", "number"),
        Column("10⁶ GFLOP", "US$", "number"),
        Column("10⁶ GPts", "US$", "number"),
        Column("Price of"),
        Column("Price source"),
    )
    rows = [
        Row(
            (
                words(row["case"]),
                words(row["vm_size"], NOT_AZURE),
                words(row["region"]),
                words(row["offer"]),
                count(row["node_count"]),
                seconds(row["run_seconds"]),
                measure(row["node_hours"]),
                money(row["usd_per_hour"]),
                money(row["usd_per_run"]),
                money(row["usd_per_gflop"], 1e6),
                money(row["usd_per_gpt"], 1e6),
                words(row["price_date"]),
                words(row["price_source"]),
            )
        )
        for row in billed.table.to_dict("records")
    ]
    listing = Table(
        "cost",
        "Cost of one run of each case, in US$ (currency: USD).",
        columns,
        tuple(rows),
        shown=_ROWS_SHOWN,
    )
    totals = (
        Column("Sweep"),
        Column("Billed as"),
        Column("Region"),
        Column("Runs", kind="number"),
        Column("Sum of run times", "h", "number"),
        Column("Node-hours", kind="number"),
        Column("Cost", "US$", "number"),
        Column("Node-hours / run times", kind="number"),
    )
    sweeps = [
        Row(
            (
                f"{words(row['configuration'])} {row['version']}".rstrip(),
                words(row["vm_size"], NOT_AZURE),
                words(row["region"]),
                count(row["runs"]),
                measure(row["sum_run_hours"]),
                measure(row["node_hours"]),
                money(row["usd"]),
                f"{row['underbilled']:.2f}",
            )
        )
        for row in billed.totals.to_dict("records")
    ]
    caption = "Each sweep as a whole. What is billed are node-hours, not the sum of run times."
    return Section(
        "cost",
        "Cost",
        (Part(tables=(listing, Table("cost-sweeps", caption, totals, tuple(sweeps)))),),
    )
