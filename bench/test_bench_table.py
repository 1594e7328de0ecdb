"""What it costs to write a table, against rich's own table of the same cells in the same run.

- A row costs less than a tenth of what rich takes for it (a fiftieth was measured), and the bytes
  are the same.
- A table in blocks costs less than three times one that fits.

    make bench ARGS="-s -k table"
"""

from __future__ import annotations

import io
import statistics
import time
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text
from trueup_analysis import units
from trueup_analysis.render import table
from trueup_analysis.sheets.sheet import Column, Sheet

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = 100_000
# rich's cost is linear in the rows too, and it takes a minute for all of them.
ROWS_OF_RICH = 5_000
ROUNDS = 3
LEAST_RATIO = 10
MOST_RATIO_OF_BLOCKS = 3
COLUMNS = (
    Column("case", "case", words=True),
    Column("vm_size", "size\n(Standard_)", words=True),
    Column("nodes", "nodes", units.count),
    Column("cores", "cores", units.count),
    Column("seconds", "median\ns", units.seconds),
    Column("rate", "GFLOP/s", lambda value: units.measure(value, "flop/s")),
    Column("usd", "US$\nper run", units.money),
    Column("outcome", "outcome", words=True),
)
NARROW = 60


def synthetic_sheet(rows: int) -> Sheet:
    """Made from a formula: its figures mean nothing."""
    made = [
        {
            "case": f"synthetic-so{n % 4 * 4}-r{n % 3}t{n % 120}-l3",
            "vm_size": ("HB120rs_v3", "ND96isr_H100_v5")[n % 2],
            "nodes": n % 16 + 1,
            "cores": n % 120 + 1,
            "seconds": n % 9973 / 7 + 0.1,
            "rate": 1e9 * (n % 1000 + 0.5),
            "usd": n % 9967 / 1e3 + 0.01,
            "outcome": "ok" if n % 50 else "failed",
        }
        for n in range(rows)
    ]
    return Sheet(title="Synthetic", columns=COLUMNS, rows=made)


def by_rich(sheet: Sheet) -> str:
    """The same table by rich."""
    out = io.StringIO()
    console = Console(file=out, width=table.WIDTH, highlight=False, markup=False, emoji=False)
    console.print(Text(sheet.title))
    written = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False, pad_edge=False)
    for column in sheet.columns:
        justify: Any = "left" if column.words else "right"
        written.add_column(Text(column.header or ""), justify=justify)
    for row in sheet.rows:
        written.add_row(*(Text(column.show(row[column.key])) for column in sheet.columns))
    console.print(written)
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


def seconds_a_row(write: Callable[[Sheet], str], sheet: Sheet) -> float:
    begin = time.process_time()
    write(sheet)
    return (time.process_time() - begin) / len(sheet.rows)


def in_blocks(sheet: Sheet) -> str:
    return table.render([sheet], width=NARROW)


def whole(sheet: Sheet) -> str:
    return table.render([sheet])


def test_a_row_costs_a_tenth_of_what_rich_takes(record_property: Any) -> None:
    few, many = synthetic_sheet(ROWS_OF_RICH), synthetic_sheet(ROWS)
    assert whole(few) == by_rich(few)
    rounds = [(seconds_a_row(by_rich, few), seconds_a_row(whole, many)) for _ in range(ROUNDS)]
    ratio = statistics.median(rich / ours for rich, ours in rounds)
    ours = 1e6 * statistics.median(ours for _, ours in rounds)
    print(f"\na row of 8 columns takes {ours:.1f} us of CPU, a {ratio:.0f}th of rich's")
    record_property("ratio", ratio)
    assert ratio > LEAST_RATIO


def test_blocks_cost_little_more_than_a_table_that_fits(record_property: Any) -> None:
    many = synthetic_sheet(ROWS)
    assert in_blocks(many).count("\n\n") == 1
    rounds = [(seconds_a_row(in_blocks, many), seconds_a_row(whole, many)) for _ in range(ROUNDS)]
    ratio = statistics.median(parted / fitting for parted, fitting in rounds)
    print(f"\nin blocks a row takes {ratio:.1f} times as long")
    record_property("ratio", ratio)
    assert ratio < MOST_RATIO_OF_BLOCKS
