"""``trueup pack``: many records in one file."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC
from pathlib import Path
from typing import Annotated

import typer
from trueup_node.errors import BadInput

from ..selection import Selection
from ..units import plural
from .interface import PROGRESS, examples, flag, option, say, say_all
from .records import RESULTS, RecordQuery, end_incomplete, filtered, load_results, say_notes

app = typer.Typer()


@app.command(
    epilog=examples(
        "trueup pack results/ --output all.parquet",
        "trueup scaling all.parquet",
        "trueup pack --by-day --since 2d         # each morning, into store/",
        "trueup history store/",
    ),
)
@filtered
def pack(
    *,
    query: RecordQuery,
    by_day: Annotated[
        bool,
        flag("--by-day", "Add each run to the file of its day, in the folder --output."),
    ] = False,
    output: Annotated[
        Path | None,
        option(
            "PATH",
            "The file to write, else results.parquet; with --by-day the folder, else store.",
            "--output",
            "-o",
        ),
    ] = None,
) -> None:
    """Put the records of every run into one Parquet file, which reads a hundred times faster than
    its records; --run and --since pack fewer. With --by-day a store of one file a day grows, whose
    other days no command reads. No record is deleted."""
    if by_day:
        _by_day(query, output or Path("store"))
        return
    from ..load import pack as pack_

    output = output or Path("results.parquet")
    if output.suffix != ".parquet":
        raise BadInput(f"{output}: the name of a packed file must end in .parquet")
    chosen = query.chosen
    every_run = chosen.run is None and chosen.since is None
    loaded = load_results(query.sources, replace(chosen, every_run=every_run))
    pack_(loaded, output)
    say_notes(loaded)
    say(f"{len(loaded.records)} records packed into {output}.")
    end_incomplete(loaded)


def _by_day(query: RecordQuery, folder: Path) -> None:
    """Pack whole days.

    Raises:
        BadInput: a part of a day is asked for.
    """
    from ..store import pack_days

    chosen = query.chosen
    if replace(chosen, since=None, every_run=False) != Selection():
        raise BadInput(
            "--by-day packs whole days: of the options that choose records, only --since"
        )
    first = {} if chosen.since is None else {"first": f"{chosen.since.astimezone(UTC):%Y%m%d}"}
    done = pack_days(
        query.sources or [RESULTS],
        folder,
        tell=lambda day: PROGRESS.step(f"packing {day}"),
        **first,
    )
    added = sum(day.added for day in done.days)
    say(f"{plural(added, 'record')} added to {plural(len(done.days), 'day')} in {folder}.")
    say_all([f"not read: {item.path}: {item.reason}" for item in done.excluded])
    if done.excluded:
        say(f"{plural(len(done.excluded), 'file')} could not be read.")
        raise typer.Exit(1)
