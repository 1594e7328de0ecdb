"""``trueup list``: what was measured."""

from __future__ import annotations

from typing import Annotated

import typer

from ..selection import Selection
from .inputs import expectations_for, load_results
from .options import CatalogOption, Format, FormatOption, OutputOption, Sources, examples, filtered
from .output import say, say_all, say_notes, write

app = typer.Typer()


@app.command(
    "list",
    epilog=examples(
        "trueup list",
        "trueup list results/ --verify   # raw outputs still as recorded?",
        "trueup list packed.parquet --format csv",
    ),
)
@filtered
def list_cases(
    sources: Sources = None,
    *,
    chosen: Selection,
    verify: Annotated[
        bool, typer.Option("--verify", help="Check raw outputs; exit 1 when one differs.")
    ] = False,
    catalog: CatalogOption = None,
    format_: FormatOption = Format.table,
    output: OutputOption = None,
) -> None:
    """What was measured, run by run, with what failed and what could not be read."""
    from ..load import verify as verify_raw
    from ..sheets import listing as list_sheets

    loaded = load_results(sources, chosen)
    expected = expectations_for(None, catalog)
    write([*list_sheets.cases(loaded, expected), *list_sheets.excluded(loaded)], format_, output)
    say_notes(loaded)
    if not verify:
        return
    problems = verify_raw(loaded)
    checked = sum(digest is not None for digest in loaded.values("raw_sha256"))
    say(f"{checked - len(problems)} of {checked} raw outputs are as recorded.")
    say_all([f"{problem.path}: {problem.reason}" for problem in problems])
    if problems:
        raise typer.Exit(1)
