"""``trueup sizes``: VM sizes that meet given needs."""

from __future__ import annotations

from typing import Annotated

import typer

from .interface import Common, examples, flag, option, taking
from .prices import OfferOption, OsOption, RegionOption, today

app = typer.Typer()


@app.command(
    epilog=examples(
        "trueup sizes --gpu H100 --gpus 8 --rdma --region eastus2",
        "trueup sizes --family hbv3 --region southcentralus --offer spot",
        "trueup sizes --retired --format csv",
    )
)
@taking(common=Common)
def sizes(
    *,
    gpu: Annotated[str | None, option("MODEL", "With such GPUs: H100, A10.", "--gpu")] = None,
    gpus: Annotated[int | None, option("COUNT", "With so many GPUs.", "--gpus")] = None,
    rdma: Annotated[bool, flag("--rdma", "With InfiniBand.")] = False,
    family: Annotated[str | None, option("FAMILY", "Of this family: hbv3.", "--family")] = None,
    memory: Annotated[
        float | None, option("GIB", "With so much memory or more.", "--memory")
    ] = None,
    retired: Annotated[bool, flag("--retired", "Retired sizes too.")] = False,
    region: RegionOption = None,
    offer: OfferOption = "payg",
    os: OsOption = "linux",
    common: Common,
) -> None:
    """VM sizes that meet given needs, with the price of an hour: in a region, or the lowest of all
    regions with a price. Without a price it is unknown."""
    from ..catalog import find, rows
    from ..figures import price_list
    from ..figures.prices import read_all, refuse_unknown
    from ..figures.terms import Terms
    from ..sheets import price_list as sheets

    prices = read_all(common.catalog)
    refuse_unknown(prices, Terms(region=region, offer=offer, os=os or "linux"))
    matches = price_list.sizes(
        [row for _, row in rows(find("vm_sizes.csv", common.catalog), "size", "status")],
        price_list.Needs(gpu, gpus, rdma, family, memory, retired),
        prices,
        price_list.PriceQuery(region=region, os=os, offer=offer),
        today(),
    )
    common.write([sheets.sizes(matches, region, offer or "any offer", os or "any system")])
