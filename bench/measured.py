"""Earlier results: bench/recorded.json, and the table of bench/results/measurements.md."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from measure import HEAD, ROOT, Row, cells

if TYPE_CHECKING:
    from collections.abc import Sequence

FILE = ROOT / "bench" / "recorded.json"
PAGE = ROOT / "bench" / "results" / "measurements.md"
BEGIN, END = "<!-- begin: make bench ARGS=--record -->\n", "<!-- end -->\n"


@dataclass(frozen=True)
class Recorded:
    """A row, with its day and the machine as lscpu names it."""

    date: str
    machine: str
    row: Row


def read() -> list[Recorded]:
    """All that was recorded."""
    entries: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))
    return [Recorded(entry["date"], entry["machine"], Row(**entry["row"])) for entry in entries]


def write(rows: Sequence[Row]) -> None:
    """Put the rows that this run measured in the place of the earlier ones, and write the page."""
    by_figure = {(recorded.row.figure, recorded.row.beside): recorded for recorded in read()}
    today, this_machine = dt.datetime.now(tz=dt.timezone.utc).date().isoformat(), machine()
    for row in rows:
        if row.recorded is None:
            by_figure[row.figure, row.beside] = Recorded(today, this_machine, row)
    all_rows = [*by_figure.values()]
    text = json.dumps([asdict(recorded) for recorded in all_rows], indent=1, ensure_ascii=False)
    FILE.write_text(text + "\n", encoding="utf-8")
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    _, after = rest.split(END)
    PAGE.write_text(before + BEGIN + markdown(all_rows) + END + after, encoding="utf-8")


def machine() -> str:
    """The processor as lscpu names it, and how many cores there are."""
    argv = ["lscpu", "--json"]
    output = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    fields = {field["field"]: field["data"] for field in json.loads(output)["lscpu"]}
    kind = "virtual machine" if "Hypervisor vendor:" in fields else "machine"
    return f"{fields['Model name:']} {kind}, {len(os.sched_getaffinity(0))} cores"


def markdown(rows: Sequence[Recorded]) -> str:
    """The page's table, and the machine of each day."""
    lines = [(*HEAD[:-1], "measured"), ("---",) * len(HEAD)]
    lines += [
        (*cells(recorded.row)[:-1], f"{recorded.date} ({recorded.row.rounds})") for recorded in rows
    ]
    text = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    days = sorted({f"{recorded.date}: {recorded.machine}" for recorded in rows})
    return f"{text}\n{'; '.join(days)}.\n"
