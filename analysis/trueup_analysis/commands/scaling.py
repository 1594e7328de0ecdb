"""``trueup scaling``: how the records scale."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from .interface import (
    Format,
    FormatOption,
    OutputOption,
    examples,
    flag,
    option,
    say_all,
    say_warnings,
    write,
)
from .records import RecordQuery, end_incomplete, filtered, load_results, say_notes

app = typer.Typer()


class Over(str, Enum):
    """The resource that scales."""

    auto = "auto"
    cores = "cores"
    gpus = "gpus"
    nodes = "nodes"


@app.command(
    epilog=examples(
        "trueup scaling",
        "trueup scaling --baseline 2 --over cores",
        "trueup scaling --benchmark nccl                 # bus bandwidth over nodes",
        "trueup scaling run-a/ run-b/ --format csv --output scaling.csv",
        "trueup scaling catalog/reference_results.csv    # published tables",
    )
)
@filtered
def scaling(
    *,
    query: RecordQuery,
    over: Annotated[
        Over, typer.Option(help="What scales; auto: cores or GPUs in a node, and nodes.")
    ] = Over.auto,
    baseline: Annotated[
        int | None,
        option("N", "Cores, GPUs or nodes that speed-ups refer to; else the fewest.", min=1),
    ] = None,
    across_sizes: Annotated[
        bool, flag("--across-sizes", "Compare the constrained sizes of one host in one table.")
    ] = False,
    threshold: Annotated[
        float,
        typer.Option(
            min=0, max=1, help="A step pays when this much of what it adds arrives as speed."
        ),
    ] = 0.5,
    layouts: Annotated[
        bool,
        flag("--layouts", "Tables over nodes with the slower layouts too; csv and json have them."),
    ] = False,
    format_: FormatOption = Format.table,
    output: OutputOption = None,
) -> None:
    """Speed-up, efficiency, serial fraction, fits, and where adding cores or nodes stops paying."""
    from ..figures.scaling.points import uncounted
    from ..figures.scaling.tables import left_out
    from ..tables.scaling import scaling as scaling_of

    loaded = load_results(*query)
    result = scaling_of(
        loaded,
        benchmarks=query.chosen.benchmarks,
        over=over.value,
        baseline=baseline,
        across_sizes=across_sizes,
        threshold=threshold,
        layouts=layouts or format_ in {Format.csv, Format.json},
    )
    write(result.sheets, format_, output)
    say_notes(loaded)
    for name in result.benchmarks:
        say_all(left_out(loaded, name))
    say_warnings(result.sheets)
    say_all(uncounted(loaded))
    end_incomplete(loaded)
