"""The options that several commands take, each declared once."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer


def option(metavar: str, about: str, *names: str, **more: Any) -> Any:
    """An option with a value: what stands for the value, and a line of help."""
    return typer.Option(*names, metavar=metavar, help=about, **more)


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
    option("FILE", "Write here instead of standard output.", "--output", "-o"),
]
CatalogOption = Annotated[
    Path | None,
    option(
        "FOLDER", "Folder of prices.csv; else TRUEUP_CATALOG, else the one built in.", "--catalog"
    ),
]
RegionOption = Annotated[
    str | None,
    option("REGION", "Price in this region instead of the record's own: eastus."),
]
OfferOption = Annotated[
    str | None,
    option("OFFER", "payg, spot, lowpriority or 1y; else the record's own, else payg."),
]
PriceOption = Annotated[
    float | None,
    option("US$", "US$ an hour and node for all rows, instead of the catalog."),
]
AsSizeOption = Annotated[
    str | None,
    option("SIZE", "Price every row as this size, also records made off Azure."),
]
SizeOption = Annotated[
    str,
    option("SIZE", "The VM size, such as Standard_ND96asr_v4.", "--size"),
]


def examples(*lines: str) -> str:
    """Commands to copy whole, also those with a comment; they fit into 80 columns."""
    return "[bold]Examples[/bold]\n\n" + "\n\n".join(lines)
