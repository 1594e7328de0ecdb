"""``trueup compare``: what changed between two runs, and what changed beside it."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .interface import Format, OutputOption, examples, flag, option, put, write
from .records import RESULTS, load_all, say_notes

if TYPE_CHECKING:
    from ..figures.compare.changes import Comparison
    from ..figures.compare.sides import Records

app = typer.Typer()


class CompareFormat(str, Enum):
    """How a comparison is written."""

    table = "table"
    markdown = "markdown"
    csv = "csv"
    json = "json"
    junit = "junit"


@app.command(
    epilog=examples(
        "trueup compare                          # the last run and the one before",
        "trueup compare 20261120                 # the run that begins so, the last",
        "trueup compare 2026-11-13 2026-11-20    # two days",
        "trueup compare 2026-11-13 last --results store/",
        "trueup compare monday/ tuesday/         # two folders",
        "trueup compare driver=570* driver=580*  # two drivers, images, sizes, ...",
        "trueup compare last published           # the rows that its presets reproduce",
        "trueup compare before last --node 'h100-00*' --benchmark nccl",
        "trueup compare --format junit --output changes.xml",
    )
    + "\n\nExit status: 0 nothing is worse; 1 something is worse or now fails; 2 something of the"
    " first side could not be compared: it is missing, or nothing says how much it varies; 64 wrong"
    " usage.",
)
def compare(
    before: Annotated[
        str,
        typer.Argument(
            metavar="[BEFORE]",
            help="A path; or, joined by commas: runs (id, beginning of one, last, before), a day or"
            " days (2026-11-01..2026-11-07), conditions (size=*H100*); or published, or a preset:"
            " published rows of the other side's presets.",
        ),
    ] = "before",
    after: Annotated[str, typer.Argument(metavar="[AFTER]", help="The same.")] = "last",
    *,
    results: Annotated[
        list[Path] | None,
        option("PATH", "Where runs, days and conditions look; repeatable. Without: results/."),
    ] = None,
    node: Annotated[
        list[str] | None, option("NODE", "Of this node, or pattern; repeatable.")
    ] = None,
    benchmark: Annotated[list[str] | None, option("NAME", "Of this benchmark; repeatable.")] = None,
    at_least: Annotated[
        float, option("PERCENT", "A smaller change does not count.", min=0, max=100)
    ] = 1.0,
    everything: Annotated[bool, flag("--every-figure", "Unchanged figures too.")] = False,
    format_: Annotated[
        CompareFormat,
        typer.Option(
            "--format", "-f", help="csv and json hold base units and every figure; junit for CI."
        ),
    ] = CompareFormat.table,
    output: OutputOption = None,
) -> None:
    """Each figure of two sets of records: difference, 95 % interval, better or worse, and the
    settings that changed where it did. The same work is paired node by node; small changes and
    many figures are corrected for, so that at most 1 % of the reported changes are none."""
    from ..figures.compare.sides import Records
    from ..selection import Selection, select
    from ..sheets import compare as compare_sheets

    chosen = Selection(nodes=tuple(node or ()), benchmarks=tuple(benchmark or ()))
    records = Records(
        lambda sources, runs: load_all(sources, runs=runs),
        results or [RESULTS],
        lambda loaded: select(loaded, chosen),
        datetime.now(UTC),
    )
    compared = _compared(records, before, after, at_least / 100)
    for loaded in records.loaded:
        say_notes(loaded)
    if format_ is CompareFormat.junit:
        from ..render import junit

        put(junit.comparison(compared), output)
    else:
        everything |= format_ in {CompareFormat.csv, CompareFormat.json}
        sheets = compare_sheets.sheets(compared, everything=everything)
        write(sheets, Format(format_.value), output)
    is_incomplete = any(loaded.excluded for loaded in records.loaded)
    status = compared.status or (2 if is_incomplete else 0)
    if status:
        raise typer.Exit(status)


def _compared(records: Records, before: str, after: str, at_least: float) -> Comparison:
    """Two sides of records, or one beside published rows."""
    from ..figures.compare import published
    from ..figures.compare.comparing import compare as compared_sides

    for rows, own in ((after, before), (before, after)):
        if published.is_published(rows):
            return published.beside_published(rows, records.sides(own)[0])
    old, new = records.sides(before, after)
    return compared_sides(old, new, at_least)
