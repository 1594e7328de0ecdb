"""Outputs of others that were read: a table of their sources and figures, without the outputs.

    python tests/public_outputs.py FOLDER          # compares the outputs with the table
    python tests/public_outputs.py FOLDER --write  # writes the table

Each subfolder of FOLDER has a SOURCES.tsv: file, source (repository:path@commit or address), class
(whole or fragment). The outputs themselves are their owners' and are not here.
"""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path
from typing import Any, Final

from trueup_analysis import decoding, read, rooms
from trueup_analysis.rooms import view_of
from trueup_node.errors import BadInput

TABLE: Final = Path(__file__).parent / "data" / "public_outputs.tsv"
COLUMNS: Final = ("source", "class", "tools", "result", "figure")
WHOLE, FRAGMENT = "whole", "fragment"


def rows(folder: Path) -> list[dict[str, str]]:
    """The outputs below a folder, each with the result of reading it."""
    held = []
    for sources in sorted(folder.glob("*/SOURCES.tsv")):
        for line in sources.read_text(encoding="utf-8", errors="replace").splitlines():
            name, source, kind = [*line.split("\t"), "", ""][:3]
            path = sources.parent / name
            if path.is_file() and kind.strip():
                word = FRAGMENT if kind.strip() != WHOLE else WHOLE
                held.append({"source": source.strip(), "class": word, **_result(path)})
    return sorted(held, key=lambda row: (row["tools"], row["source"], row["figure"]))


def _result(path: Path) -> dict[str, str]:
    try:
        with path.open("rb") as stream:
            marks, logs = rooms.marks(None), rooms.logs()
            text, gaps = decoding.decoded(stream, path.name, marks, logs)
        readings, refused = read.read_runs(text, source=path.name, gaps=gaps)
    except BadInput as error:
        reason = " ".join(str(error).removeprefix(path.name).split())[:100]
        return {"tools": path.parent.name, "result": f"refused{reason}", "figure": ""}
    unsure = any(reading.unverified for reading in readings)
    result = "refused in part" if refused else "unverified" if unsure else "read"
    tools = ", ".join(dict.fromkeys(reading.tool for reading in readings))
    return {"tools": tools, "result": result, "figure": _figure(readings[0])}


def _figure(reading: read.Reading) -> str:
    """The first headline figure in base units: "busbw 3.08e+11 byte/s"."""
    view = view_of(reading.tool)
    names = [] if view is None else [measure.metric for measure in view.headlines]
    rows_: list[dict[str, Any]] = reading.rows
    for name in [*names, *(row["name"] for row in rows_)]:
        values = [row for row in rows_ if row["name"] == name]
        if values:
            row = max(values, key=lambda each: each.get("message_bytes") or 0)
            return f"{name} {row['value']:.6g} {row['unit']}"
    return ""


def written(table: list[dict[str, str]]) -> str:
    """The table as text."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, COLUMNS, dialect="excel-tab", lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    return stream.getvalue()


def table() -> list[dict[str, str]]:
    """The committed table."""
    with TABLE.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream, dialect="excel-tab"))


def main() -> None:
    text = written(rows(Path(sys.argv[1])))
    if "--write" in sys.argv:
        TABLE.write_text(text, encoding="utf-8")
    elif text != TABLE.read_text(encoding="utf-8"):
        raise SystemExit(f"the outputs are not read as {TABLE.name} says")


if __name__ == "__main__":
    main()
