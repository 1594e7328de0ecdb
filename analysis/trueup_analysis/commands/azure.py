"""``trueup azure``: plans of deployments on Azure, recipes, and leftovers of runs."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from trueup_node.errors import BadInput, TrueupError

from .interface import (
    Common,
    ContractOption,
    examples,
    flag,
    group,
    option,
    put,
    say,
    say_all,
    taking,
)

app = group(
    "azure",
    "Deployments on Azure.",
    "trueup azure plan devito-hbv3",
    "trueup azure plan devito-hbv3 --parameters mine.yml --template hbv3.json",
    "trueup azure recipes",
    "trueup azure leftovers                  # asks Azure, after `az login`",
)


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
    "docs/guides/azure_provision.md has every parameter.\n\n"
    "Exit status: 0 it can be made; 1 refused (something is missing, or values that cannot be), or"
    + " a known error.",
)
@taking(common=Common)
def plan(
    recipe: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE",
            help="devito-hbv3, ndv4-training, ndm-a100-megatron, nd-h100-deepseek,"
            " nd-h200-deepseek, llama-a100, gromacs-nc-a100, gromacs-hbv3, cpu-llama, eda-storage,"
            " eda-lustre or nx-avd: a file of catalog/azure_recipes.",
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
    contract: ContractOption = None,
    common: Common,
) -> None:
    """The resources of a recipe on Azure, their cost an hour and a day, the resources that bill
    while the VMs are stopped, the required quota, and all unmet needs by a dry run. It neither
    contacts Azure nor creates anything."""
    from trueup_controller.azure import template as arm
    from trueup_node.record import new_run_id

    from ..figures import azure
    from ..sheets import azure as sheets

    now = datetime.now(UTC)
    azure_plan = azure.plan(
        recipe,
        parameters,
        chosen=common.catalog,
        limit=max_usd_per_hour,
        agreed=contract,
        now=now,
    )
    content = arm.template(
        azure_plan.made, azure_plan.known, new_run_id(now.strftime("%Y%m%dT%H%M%SZ"))
    )
    missing = azure_plan.missing(os.environ)
    common.write([*sheets.plan(azure_plan, content), sheets.missing(missing)])
    say_all(azure_plan.warnings())
    for need, text in missing:
        say(f"missing ({need}): {text}")
    if missing:
        count = "a need is" if len(missing) == 1 else f"{len(missing)} needs are"
        unwritten = f", and {template} was not written" if template else ""
        raise BadInput(f"recipe {recipe} is refused: {count} missing, named above{unwritten}")
    if template is None:
        return
    put(json.dumps(content, indent=2) + "\n", template)
    say(
        f"{template}: template of {len(content['resources'])} resources; its parameter {arm.KEY} is"
    )
    say("the public key of the run, and its resource group has to be made before it")


@app.command(
    short_help="Each recipe as it is shipped: its work, time, price, and what is missing.",
    epilog=examples(
        "trueup azure recipes",
        "trueup azure recipes --format json",
    ),
)
@taking(common=Common)
def recipes(*, common: Common) -> None:
    """Each recipe of catalog/azure_recipes as it is shipped: its benchmarks, their seconds, the
    published rows to compare with, its price, and the needs that a dry run finds unmet. It does not
    contact Azure."""
    from ..figures import azure
    from ..sheets import azure as sheets

    now = datetime.now(UTC)
    plans = [
        azure.plan(name, chosen=common.catalog, now=now) for name in azure.recipes(common.catalog)
    ]
    common.write([sheets.recipes(plans, os.environ)])


@app.command(
    short_help="Runs that have expired and are still there, and what they cost.",
    epilog=examples(
        "trueup azure leftovers",
        "trueup azure leftovers --all --format json",
        "trueup azure leftovers --subscription hpc --subscription ai",
        "trueup azure leftovers --delete",
    )
    + "\n\nExit status: 0 nothing has expired, or all that had is deleted; 1 something has, or is"
    + " left, or a known error.",
)
@taking(common=Common)
def leftovers(
    *,
    every: Annotated[bool, flag("--all", "Also runs that have not expired yet.")] = False,
    delete: Annotated[bool, flag("--delete", "Delete what has expired, and wait for it.")] = False,
    subscription: Annotated[
        list[str] | None,
        option("NAME", "Name or id; repeatable. Else the login's default.", "--subscription"),
    ] = None,
    common: Common,
) -> None:
    """Everything on Azure that carries trueup's tags and whose `expires` has passed: by run, with
    group, owner, machines that bill and US$ an hour. Signed in by `az login`."""
    from trueup_controller.azure import leftovers as rooms
    from trueup_controller.azure import teardown
    from trueup_controller.azure.manager import connect

    from ..figures import azure, meters, prices
    from ..sheets import azure as sheets

    rows = prices.read_all(common.catalog)
    azure_catalog, find = (
        azure.known(rows, common.catalog),
        azure.finder(rows, meters.read_all(common.catalog)),
    )
    manager = connect(subscription or [])
    now = datetime.now(UTC).timestamp()
    runs = rooms.leftovers(manager, azure_catalog, find, say)
    past = [run for run in runs if run.past(now)]
    common.write([sheets.leftovers(runs if every else past, now)])
    if not delete:
        say_all(rooms.warnings(past, now))
        raise typer.Exit(bool(past))
    has_leftovers = False
    for run in past:
        if run.ends is None:
            say(f"{run.sentence(now)}; it is not deleted: mend the tag expires of its group first")
            has_leftovers = True
            continue
        work = teardown.Teardown(manager, azure_catalog, run.run, say)
        try:
            still = work.left(work.end(), find)
        except TrueupError as error:
            say(f"run {run.run}: {error}")
            has_leftovers = True
            continue
        for text in still.sentences(run.run):
            say(text)
        has_leftovers = has_leftovers or bool(still.ids)
    raise typer.Exit(has_leftovers)
