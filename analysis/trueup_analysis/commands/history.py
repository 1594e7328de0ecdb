"""``trueup history``: figures over the runs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from .interface import Format, FormatOption, OutputOption, examples, flag, option, write
from .records import (
    RESULTS,
    RecordQuery,
    end_incomplete,
    filtered,
    load_all,
    load_results,
    say_notes,
)

if TYPE_CHECKING:
    from ..figures.compare.history import Source

app = typer.Typer()


@app.command(
    epilog=examples(
        "trueup history                          # every run in results/",
        "trueup history --since 30d --node 'h100-00*' --benchmark nccl",
        "trueup history store/ --figure busbw    # one figure over a year",
        "trueup history year.parquet --every-figure --format csv -o figures.csv",
    )
    + "\n\nExit status: 0 no figure became worse; 1 one did; 64 wrong usage."
)
@filtered
def history(
    *,
    query: RecordQuery,
    figure: Annotated[
        list[str] | None, option("NAME", "Of this figure: busbw, triad_rate, ...; repeatable.")
    ] = None,
    at_least: Annotated[
        float, option("PERCENT", "A smaller change does not count.", min=0, max=100)
    ] = 1.0,
    everything: Annotated[
        bool, flag("--every-figure", "Each figure of the first and the last run too.")
    ] = False,
    format_: FormatOption = Format.table,
    output: OutputOption = None,
) -> None:
    """At which run each figure changed, on which nodes, and the settings that changed there. Every
    run counts; at least four are needed."""
    from ..cases import read_cases
    from ..figures.compare.history import OfCases, of_source
    from ..figures.compare.titles import Titles
    from ..figures.compare.year import OfStore, narrowed
    from ..selection import run_ids
    from ..sheets import history as history_sheets

    source: Source
    loaded = load_all(query.sources or [RESULTS], runs=())
    if loaded.stored and loaded.records.empty and query.chosen.run is None:
        source = OfStore(loaded, query.chosen, figure or ())
    else:
        every_run = query.chosen.run is None and query.chosen.since is None
        loaded = load_results(query.sources, replace(query.chosen, every_run=every_run))
        loaded = narrowed(loaded, figure) if figure else loaded
        source = OfCases(read_cases(loaded), run_ids(loaded))
    say_notes(loaded)
    held = of_source(source, at_least / 100)
    titles = Titles(trend.figure for trend in held.trends)
    write(history_sheets.sheets(held, titles, everything=everything), format_, output)
    end_incomplete(loaded)
    if any(step.change.verdict != "better" for step in held.steps):
        raise typer.Exit(1)
