"""``trueup report``: one page of everything."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..selection import Selection
from .inputs import load_results
from .options import (
    AsSizeOption,
    CatalogOption,
    OfferOption,
    PriceOption,
    RegionOption,
    Sources,
    examples,
    filtered,
    option,
)
from .output import print_, say_notes

app = typer.Typer()


@app.command(
    epilog=examples(
        "trueup report",
        "trueup report results/20261120T091300Z-7c1e --output report --region eastus",
    )
)
@filtered
def report(
    sources: Sources = None,
    *,
    chosen: Selection,
    output: Annotated[Path, option("FOLDER", "The folder to write.", "--output", "-o")] = Path(
        "report"
    ),
    region: RegionOption = None,
    offer: OfferOption = None,
    price: PriceOption = None,
    as_size: AsSizeOption = None,
    catalog: CatalogOption = None,
) -> None:
    """Write one self-contained HTML page, with its plots as PNG and its tables as CSV."""
    from ..catalog import folder
    from ..figures.prices import Terms
    from ..report.publish import write_report

    terms = Terms(region=region, offer=offer, price=price, as_size=as_size)
    loaded = load_results(sources, chosen)
    page = write_report(loaded, output, catalog=folder(catalog), terms=terms)
    say_notes(loaded)
    print_(f"{page}\n")
