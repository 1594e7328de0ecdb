"""``trueup baseline``: limits from one's own healthy nodes."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from .interface import CatalogOption, examples, option, put, say, say_all
from .records import RecordQuery, end_incomplete, filtered, load_results, say_notes

app = typer.Typer()

_HEAD = (
    "---\n# Limits of our own fleet, by `trueup baseline`: for `trueup health --expectations FILE`"
    " or TRUEUP_EXPECTATIONS.\n# healthy: the median of the nodes. Noise alone passes the limit"
    " once in 10,000 measurements.\n"
)


@app.command(
    epilog=examples(
        "trueup baseline --all -o ours.yml               # of every run in results/",
        "trueup baseline --since 30d --benchmark nccl",
        "trueup health --expectations ours.yml",
    )
)
@filtered
def baseline(
    *,
    query: RecordQuery,
    catalog: CatalogOption = None,
    output: Annotated[
        Path | None, option("FILE", "Write here instead of standard output.", "--output", "-o")
    ] = None,
) -> None:
    """Own limits from nodes that fail no check, laid out as catalog/expectations.yml. Each figure
    has the median, and the limit that noise alone passes once in 10,000 measurements. Nodes beyond
    a limit, figures of too few nodes and nodes that are left out are named."""
    import yaml

    from ..figures.baseline import baseline as own_limits
    from ..figures.health import expectations, measured
    from ..figures.health.examine import examine

    loaded = load_results(*query)
    say_notes(loaded)
    cases = measured.cases(loaded)
    examined = examine(
        cases, expectations.read_catalog(catalog), faults=expectations.read_faults(catalog)
    )
    unhealthy = {node for node, verdict in examined.words.items() if verdict == "fail"}
    limits = own_limits(cases, unhealthy, f"{datetime.now(UTC):%Y-%m-%d}")
    text = yaml.safe_dump(
        {"expectations": list(limits.entries)}, sort_keys=False, width=120, allow_unicode=True
    )
    put(_HEAD + text, output)
    say_all([*limits.beyond, *limits.left_out])
    say(f"limits of {len(limits.entries)} figures.")
    end_incomplete(loaded)
