"""``trueup azure``: what stands before a deployment on Azure."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from trueup.errors import BadInput

from .options import CatalogOption, Format, FormatOption, OutputOption, examples, option
from .output import put, say, say_all, write

app = typer.Typer(
    name="azure",
    no_args_is_help=True,
    rich_markup_mode="rich",
    short_help="Azure: what a deployment makes, costs and needs, before it is made.",
)


@app.callback(
    epilog=examples(
        "trueup azure plan devito-hbv3",
        "trueup azure plan devito-hbv3 --parameters mine.yml --template hbv3.json",
    )
)
def _azure() -> None:
    """Deployments on Azure. Nothing here asks Azure anything."""


@app.command(
    short_help="What a recipe would make, its price, and the quota that it needs.",
    epilog=examples(
        "trueup azure plan devito-hbv3",
        "trueup azure plan ndv4-training --max-usd-per-hour 70",
        "trueup azure plan llama-a100 --format json",
        "trueup azure plan devito-hbv3 --parameters mine.yml --template hbv3.json",
    )
    + "\n\n[bold]A file of parameters[/bold], which wins over the recipe\n\n"
    "owner: geophysics\n\n"
    "region: eastus\n\n"
    "ssh_from: [203.0.113.7/32]\n\n"
    "nodes: {count: 4, priority: spot, eviction: delete}\n\n"
    "docs/azure_provision.md has every parameter.\n\n"
    "Exit status: 0 it can be made; 1 refused (values that cannot be, above the limit), or a"
    + " known error.",
)
def plan(
    recipe: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE",
            help="devito-hbv3, ndv4-training, nd-h100-deepseek, llama-a100, gromacs-nc-a100,"
            " cpu-llama or eda-storage: a file of catalog/azure_recipes.",
            show_default=False,
        ),
    ],
    *,
    parameters: Annotated[
        Path | None, option("FILE", "Your parameters, in YAML.", "--parameters", "-p")
    ] = None,
    max_usd_per_hour: Annotated[
        float | None, option("US$", "Refuse what costs more an hour; else the recipe's limit.")
    ] = None,
    template: Annotated[
        Path | None, option("FILE", "Write the ARM template here.", "--template")
    ] = None,
    catalog: CatalogOption = None,
    format_: FormatOption = Format.table,
    output: OutputOption = None,
) -> None:
    """What a recipe would make on Azure, what it costs an hour and a day, what bills when its VMs
    are stopped, and the quota that it needs. Nothing is asked of Azure and nothing is made."""
    from trueup.cluster.azure import template as arm
    from trueup.record import new_run_id

    from ..figures import azure
    from ..sheets import azure as sheets

    now = datetime.now(UTC)
    found = azure.plan(recipe, parameters, chosen=catalog, limit=max_usd_per_hour, now=now)
    made = arm.template(found.made, found.known, new_run_id(now.strftime("%Y%m%dT%H%M%SZ")))
    write(sheets.plan(found, made), format_, output)
    say_all(found.warnings())
    lacking = found.made.lacking()
    for text in lacking:
        say(f"before it can be made: {text}")
    refused = found.refusal()
    if refused:
        raise BadInput(f"recipe {recipe} is refused: {refused}")
    if template is None:
        return
    if lacking:
        raise BadInput(f"{template} was not written: {'; '.join(lacking)}")
    put(json.dumps(made, indent=2) + "\n", template)
    say(f"{template}: template of {len(made['resources'])} resources; its parameter {arm.KEY} is")
    say("the public key of the run, and its resource group has to be made before it")
