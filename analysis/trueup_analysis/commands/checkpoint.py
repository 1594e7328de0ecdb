"""``trueup checkpoint``: times of checkpoints to Blob."""

from __future__ import annotations

from typing import Annotated

import typer

from .interface import Format, FormatOption, OutputOption, examples, option, write

app = typer.Typer()


@app.command(
    epilog=examples(
        "trueup checkpoint --gigabytes 2400",
        "trueup checkpoint --gigabytes 2400 --cap-mbps 2300 --limit-gbps 20",
        "trueup checkpoint --gigabytes 2400 --nodes 16 --node-mtbf-hours 20000",
    ),
)
def checkpoint(
    *,
    gigabytes: Annotated[float, option("GB", "The whole checkpoint, in GB (10^9 bytes).")],
    copies: Annotated[int, option("N", "Files that are copied at the same time.")] = 8,
    cap_mbps: Annotated[
        float | None, option("MBIT", "The most that each copy takes, Mb/s; else what fits.")
    ] = None,
    limit_gbps: Annotated[float, option("GBIT", "What the account takes in, Gb/s.")] = 20.0,
    overhead: Annotated[float, option("SHARE", "Share of the time for checkpoints.")] = 0.05,
    nodes: Annotated[int, option("N", "Nodes of the job.")] = 1,
    node_mtbf_hours: Annotated[
        float | None, option("HOURS", "Mean time between failures of one node.")
    ] = None,
    format_: FormatOption = Format.table,
    output: OutputOption = None,
) -> None:
    """How long a checkpoint takes through copies that stay below the storage account's limit, the
    fewest seconds between two for a given overhead, and, with a rate of failures, the interval that
    loses the least time (Young, Daly). No work is done while one is written."""
    from ..figures import checkpoint as analysis
    from ..sheets import checkpoint as checkpoint_sheets

    sent = analysis.transfer(
        gigabytes * 1e9,
        copies=copies,
        limit=limit_gbps * 1e9,
        cap=None if cap_mbps is None else cap_mbps * 1e6,
    )
    intervals = analysis.intervals(
        sent.seconds, overhead=overhead, nodes=nodes, node_hours=node_mtbf_hours
    )
    write(
        [checkpoint_sheets.checkpoint(gigabytes * 1e9, sent, overhead, intervals)], format_, output
    )
