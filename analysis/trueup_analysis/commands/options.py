"""The options that several commands take, each declared once."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer


class Format(str, Enum):
    """How a table is written."""

    table = "table"
    markdown = "markdown"
    csv = "csv"
    json = "json"


Sources = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="RESULTS",
        help="Results folders, run folders, records, packed files, fact caches of Ansible, or"
        " the catalog's reference_results.csv. Without any: results/.",
        show_default=False,
    ),
]
FormatOption = Annotated[
    Format, typer.Option("--format", "-f", help="csv and json hold base units, unrounded.")
]
OutputOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write here instead of standard output."),
]
CatalogOption = Annotated[
    Path | None,
    typer.Option(
        "--catalog",
        metavar="FOLDER",
        help="Folder of prices.csv; else TRUEUP_CATALOG, else the one built in.",
    ),
]
RegionOption = Annotated[
    str | None,
    typer.Option(
        metavar="REGION", help="Price in this region instead of the record's own: eastus."
    ),
]
OfferOption = Annotated[
    str | None,
    typer.Option(
        metavar="OFFER", help="payg, spot, lowpriority or 1y; else the record's own, else payg."
    ),
]
PriceOption = Annotated[
    float | None,
    typer.Option(metavar="US$", help="US$ an hour and node for all rows, instead of the catalog."),
]
AsSizeOption = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="Price every row as this size, also records made off Azure."),
]
SizeOption = Annotated[
    str,
    typer.Option("--size", metavar="SIZE", help="The VM size, such as Standard_ND96asr_v4."),
]


def examples(*lines: str) -> str:
    """Commands to copy whole, also those with a comment; they fit into 80 columns."""
    return "[bold]Examples[/bold]\n\n" + "\n\n".join(lines)
