"""``trueup list``: the records of a run."""

from __future__ import annotations

from typing import Annotated

import typer

from .interface import Common, Format, examples, flag, say, say_all, taking
from .records import (
    Changes,
    RecordQuery,
    deltas_of,
    end_incomplete,
    filters,
    load_with_others,
    say_notes,
)

app = typer.Typer()


@app.command(
    "list",
    epilog=examples(
        "trueup list",
        "trueup list results/ --verify   # raw outputs still as recorded?",
        "trueup list --outcome failed --outcome invalid   # what went wrong",
        "trueup list --since 7d --node 'h100-00*' --every-record",
        "trueup list --all               # every run, not the last one alone",
        "trueup list --changes           # each figure beside that of the run before",
        "trueup list packed.parquet --format csv",
    ),
)
@taking(query=filters, common=Common)
def list_cases(
    *,
    query: RecordQuery,
    everything: Annotated[
        bool, flag("--every-record", "Every record, however many there are.")
    ] = False,
    changes: Changes = False,
    verify: Annotated[
        bool, flag("--verify", "Check raw outputs; exit 1 when one differs.")
    ] = False,
    common: Common,
) -> None:
    """The records of the last run, with failures and unreadable files. Of more than 50 records a
    summary; --every-record, csv and json have them all."""
    from ..figures.health import expectations
    from ..figures.health.fleet import one_machine_sentences
    from ..load import verify as verify_raw
    from ..sheets import listing as list_sheets

    every, loaded = load_with_others(*query)
    deltas = deltas_of(every, loaded) if changes else None
    everything |= common.format_ in {Format.csv, Format.json}
    expected = expectations.at_sizes(loaded, common.catalog, also_own=True)
    if everything or len(loaded.records) <= list_sheets.ROWS_SHOWN:
        tables = list_sheets.cases(loaded, expected, deltas)
    else:
        tables = list_sheets.summary(loaded)
        if changes:
            say(f"--changes shows nothing in a summary: {list_sheets.ASK}")
    common.write([*tables, *list_sheets.excluded(loaded, everything=everything)])
    say_all(one_machine_sentences(loaded))
    say_notes(loaded, not_read=False)
    if not verify:
        end_incomplete(loaded)
        return
    problems = verify_raw(loaded)
    checked = sum(digest is not None for digest in loaded.values("raw_sha256"))
    say(f"{checked - len(problems)} of {checked} raw outputs are as recorded.")
    say_all([f"{problem.path}: {problem.reason}" for problem in problems])
    if problems:
        raise typer.Exit(1)
    end_incomplete(loaded)
