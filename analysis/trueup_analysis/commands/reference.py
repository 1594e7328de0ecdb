"""``trueup reference``: published tables."""

from __future__ import annotations

import typer

from .interface import Common, examples, say, taking
from .records import RESULTS, RecordQuery, end_incomplete, filters, load_results, say_notes

app = typer.Typer()


@app.command(
    epilog=examples(
        "trueup reference                # results/ beside them, if it exists",
        "trueup reference results/20261120T091300Z-7c1e --format markdown",
    )
)
@taking(query=filters, common=Common)
def reference(
    *,
    query: RecordQuery,
    common: Common,
) -> None:
    """Published tables, their errors, and this run beside them. Of a run with a preset, each figure
    beside the published row that it should reproduce."""
    from trueup_controller.presets import read_all

    from ..cases import read_cases
    from ..catalog import folder, rows
    from ..figures import presets
    from ..figures import reference as analysis
    from ..load import load
    from ..sheets import presets as preset_sheets
    from ..sheets import reference as reference_sheets

    path = folder(common.catalog) / "reference_results.csv"
    published = load([path])
    mine = None
    if query.sources or RESULTS.is_dir():
        mine = load_results(*query)
        say_notes(mine)
    else:
        say("results/ does not exist here: published tables only")
    sheets = reference_sheets.reference(
        analysis.compare(published, analysis.own(mine)),
        analysis.sums(published),
        analysis.storage(path, mine),
    )
    cases = [] if mine is None else read_cases(mine)
    offered = read_all(folder(common.catalog))
    reproduced = presets.reproduced(offered, rows(path), cases)
    notes = presets.beside_nothing(offered, cases, reproduced)
    if reproduced or notes:
        sheets.insert(0, preset_sheets.reproduced(reproduced, notes))
    common.write(sheets)
    if mine is not None:
        end_incomplete(mine)
