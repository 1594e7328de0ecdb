"""The cost of writing a table, beside rich's own table of the same cells, and in blocks.

make bench ARGS="-k table"
"""

from __future__ import annotations

import io
import time
from typing import TYPE_CHECKING, Any

from measure import Side, Spent
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text
from trueup_analysis import units
from trueup_analysis.render import table
from trueup_analysis.sheets.sheet import Column, Sheet

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Bench

ROWS = 100_000
# rich's cost is linear in the rows too, and it takes a minute for all of them.
ROWS_OF_RICH = 5_000
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
    sheet_rows = [
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
    return Sheet(title="Synthetic", columns=COLUMNS, rows=sheet_rows)


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


def a_row(write: Callable[[Sheet], str], sheet: Sheet) -> Side:
    """The cost of one row in this process."""

    def run() -> Spent:
        begin = time.process_time()
        write(sheet)
        return Spent((time.process_time() - begin) / len(sheet.rows))

    return run


def in_blocks(sheet: Sheet) -> str:
    return table.render([sheet], width=NARROW)


def whole(sheet: Sheet) -> str:
    return table.render([sheet])


def test_a_row_of_a_table_beside_rich(bench: Bench) -> None:
    few, many = synthetic_sheet(ROWS_OF_RICH), synthetic_sheet(ROWS)
    assert whole(few) == by_rich(few)
    rich = a_row(by_rich, few)
    bench.compare("table, a row", a_row(whole, many), "rich's table", rich, promise=0.03)


def test_a_row_of_a_table_in_blocks(bench: Bench) -> None:
    many = synthetic_sheet(ROWS)
    assert in_blocks(many).count("\n\n") == 1
    blocks = a_row(in_blocks, many)
    bench.compare(
        "table, a row in blocks", blocks, "one that fits", a_row(whole, many), promise=2.2
    )
