"""``trueup presets``: published pieces of work that a run can reproduce."""

from __future__ import annotations

from typing import Annotated

import typer

from .interface import Common, examples, taking
from .prices import today

app = typer.Typer()


@app.command(
    epilog=examples(
        "trueup presets                          # all, with time and US$ on each size",
        "trueup presets --family hbv3            # those of a VM family",
        "trueup presets devito-article           # the settings of one",
        "ansible-playbook site.yml -e trueup_preset=devito-article",
    )
)
@taking(common=Common)
def presets(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[PRESET]", help="Show its settings.", show_default=False),
    ] = None,
    *,
    family: Annotated[
        str | None,
        typer.Option(metavar="FAMILY", help="Of this VM family alone.", show_default=False),
    ] = None,
    common: Common,
) -> None:
    """Published pieces of work that a run can reproduce, and their time and US$ on each size."""
    from trueup_controller import presets as catalog_presets

    from ..catalog import folder
    from ..figures import presets as figures
    from ..figures.prices import read_all
    from ..sheets import presets as sheets

    catalog = folder(common.catalog)
    if name is not None:
        common.write([sheets.settings(name, catalog_presets.read(name, catalog))])
        return
    offered = catalog_presets.read_all(catalog)
    if family is not None:
        named = catalog_presets.of_family(family, figures.families())
        offered = {name: catalog_presets.read(name, catalog) for name in named}
    common.write([sheets.offered(figures.offered(offered, read_all(common.catalog), today()))])
