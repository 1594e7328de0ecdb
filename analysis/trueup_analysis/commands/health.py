"""``trueup health``: figures against what a size must reach."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from ..selection import Selection
from .inputs import expectations_for, load_results
from .options import CatalogOption, Format, OutputOption, Sources, examples, filtered, option
from .output import put, say, say_notes, write

app = typer.Typer()


class HealthFormat(str, Enum):
    """How verdicts are written."""

    table = "table"
    markdown = "markdown"
    csv = "csv"
    json = "json"
    junit = "junit"
    prometheus = "prometheus"


@app.command(
    short_help="What healthy nodes reach, node by node: pass, warn, fail or no verdict.",
    epilog=examples(
        "trueup health",
        "trueup health results/20261120T091300Z-7c1e --all",
        "trueup health --as-size Standard_ND96isr_H100_v5 one-record.json",
        "trueup health --format junit --output health.xml",
        "trueup health --format prometheus -o /var/lib/node_exporter/trueup.prom",
        "trueup health --require nccl --require ib     # without them: exit 2",
    )
    + "\n\nExit status: 0 all that was judged passes, warnings included; 1 a failure, or a known"
    " error; 2 something could not be measured, or nothing could be judged; 64 wrong usage.",
)
@filtered
def health(
    sources: Sources = None,
    *,
    chosen: Selection,
    everything: Annotated[
        bool, typer.Option("--all", help="Show passes too, however many nodes there are.")
    ] = False,
    as_size: Annotated[
        str | None, option("SIZE", "Judge every record as measured on this size.")
    ] = None,
    require: Annotated[
        list[str] | None,
        option("BENCHMARK", "Every node must have a record of it; may be repeated."),
    ] = None,
    catalog: CatalogOption = None,
    format_: Annotated[
        HealthFormat,
        typer.Option(
            "--format",
            "-f",
            help="csv and json hold base units, unrounded; junit for CI; prometheus for"
            " node_exporter's textfile collector.",
        ),
    ] = HealthFormat.table,
    output: OutputOption = None,
) -> None:
    """Each figure against what its VM size must reach (catalog/expectations.yml), at the message
    size that the source names; then the nodes of one size beside each other, and pairs of nodes
    reduced to whom they blame."""
    from ..figures.health import verdicts
    from ..figures.health.examine import examine
    from ..render import junit, prometheus
    from ..sheets import health as health_sheets

    loaded = load_results(sources, chosen)
    expected = expectations_for(as_size, catalog)
    found = examine(verdicts.cases(loaded, as_size=as_size), expected, required=require or [])
    if format_ is HealthFormat.junit:
        put(junit.render(found), output)
    elif format_ is HealthFormat.prometheus:
        put(prometheus.render(found), output)
    else:
        form = Format(format_.value)
        for_programs = form in (Format.csv, Format.json)
        sheet = (
            health_sheets.data(found)
            if for_programs
            else health_sheets.health(found, everything=everything)
        )
        write([sheet], form, output)
    say_notes(loaded)
    if found.blamed:
        say(f"fail: {', '.join(found.blamed)}")
    if found.status:
        raise typer.Exit(found.status)
