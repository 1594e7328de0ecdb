"""``trueup report``: one page of everything."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..selection import Selection
from .billing import Billing
from .inputs import load_results
from .options import (
    CatalogOption,
    Sources,
    examples,
    filters,
    option,
    taking,
)
from .output import print_, say_notes

app = typer.Typer()


@app.command(
    epilog=examples(
        "trueup report",
        "trueup report results/20261120T091300Z-7c1e --output report --region eastus",
        "trueup report --run last --offer spot --price-date 2026-06-18",
    )
)
@taking(chosen=filters, billing=Billing)
def report(
    sources: Sources = None,
    *,
    chosen: Selection,
    output: Annotated[Path, option("FOLDER", "The folder to write.", "--output", "-o")] = Path(
        "report"
    ),
    billing: Billing,
    catalog: CatalogOption = None,
) -> None:
    """Write one self-contained HTML page, with its plots as PNG and its tables as CSV."""
    from ..catalog import folder
    from ..report.publish import write_report

    terms, level = billing.terms(), billing.level()
    loaded = load_results(sources, chosen)
    api = billing.api(loaded)
    place = folder(catalog)
    page = write_report(loaded, output, catalog=place, terms=terms, api=api, level=level)
    say_notes(loaded)
    print_(f"{page}\n")
