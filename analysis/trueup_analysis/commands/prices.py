"""``trueup prices``: the catalog's prices, and newer ones beside them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Annotated

from trueup_node.errors import BadInput

from .interface import (
    PROGRESS,
    Common,
    ContractOption,
    Format,
    FormatOption,
    OutputOption,
    examples,
    group,
    option,
    say,
    taking,
    write,
)

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Mapping, Sequence

    from ..retail import Server

app = group(
    "prices",
    "Prices with date and source. Newer ones are kept in files of your own beside TRUEUP_PRICES"
    " (else trueup/prices.csv in the user's data folder), which every command reads beside the"
    " catalog; the newest price counts. Your contract lies over all of them"
    " (docs/guides/prices.md).",
    "trueup prices show --size Standard_HB120rs_v3",
    "trueup prices services --region eastus  # disks, storage, network",
    "trueup prices refresh --region eastus   # asks prices.azure.com",
    "trueup prices spot --region eastus      # after az login",
    "trueup prices diff                      # yours against the catalog's",
)

RegionOption = Annotated[str | None, option("REGION", "In this region: eastus.", "--region")]
OfferOption = Annotated[
    str | None, option("OFFER", "payg, spot, lowpriority, 1y, 3y, savings1y or savings3y.")
]
OsOption = Annotated[str | None, option("OS", "linux or windows.", "--os")]


@app.command(
    epilog=examples(
        "trueup prices show --size Standard_ND96asr_v4 --offer payg",
        "trueup prices show --region southcentralus --os linux --format csv",
    )
)
@taking(common=Common)
def show(
    *,
    size: Annotated[str | None, option("SIZE", "Of this VM size.", "--size")] = None,
    region: RegionOption = None,
    offer: OfferOption = None,
    os: OsOption = None,
    contract: ContractOption = None,
    common: Common,
) -> None:
    """The newest price of each size, region, system and offer, and how old it is."""
    from ..figures import price_list
    from ..figures.prices import read_all
    from ..sheets import price_list as sheets

    query = price_list.PriceQuery(size, region, os, offer)
    rows = price_list.chosen(read_all(common.catalog, contract), query, today())
    common.write([sheets.prices(rows)])


@app.command(
    epilog=examples(
        "trueup prices services",
        "trueup prices services --region eastus --format csv",
    )
)
@taking(common=Common)
def services(
    *, region: RegionOption = None, contract: ContractOption = None, common: Common
) -> None:
    """The newest price of each disk, file system, address and gateway, and of traffic."""
    from ..figures import meters
    from ..sheets import price_list as sheets

    rows = meters.listed(meters.read_all(common.catalog, contract), region, today())
    common.write([sheets.services(rows)])


@app.command(
    short_help="Ask prices.azure.com, and keep its answers in your own files.",
    epilog=examples(
        "trueup prices refresh --region eastus --region southcentralus",
        "trueup prices refresh                   # every region of the table",
    ),
)
def refresh(
    *,
    region: Annotated[
        list[str] | None, option("REGION", "Of this region; repeatable.", "--region")
    ] = None,
    size: Annotated[
        list[str] | None, option("SIZE", "Of this VM size; repeatable. Else all.", "--size")
    ] = None,
    url: Annotated[
        str | None, option("URL", "A mirror of the Retail Prices API, instead of Azure's.", "--url")
    ] = None,
    format_: FormatOption = Format.table,
    output: OutputOption = None,
) -> None:
    """Ask Azure's Retail Prices API for VMs and for everything that bills beside them, and keep its
    answers with today's date in your own files. They are written whole or not at all; neither the
    catalog nor the package is changed."""
    from .. import catalog, retail
    from ..figures import meters, price_list
    from ..figures.prices import read_prices, read_public, region_name
    from ..sheets import price_list as sheets

    old_prices = read_public()
    sizes = size or [row["size"] for _, row in catalog.rows(catalog.find("vm_sizes.csv"), "size")]
    regions = [region_name(name) for name in region or ()]
    regions = regions or sorted({row["region"] for row in old_prices})
    _refuse_quotes([*sizes, *regions])
    server = retail.Server((url or retail.HOST).rstrip("/"))
    day = datetime.now(UTC).date().isoformat()
    prices_file, service_file = catalog.own_prices(), catalog.own_file(meters.FILE)
    new_rows, service_rows = [], []
    for region_id in regions:
        new_rows += _machines(server, region_id, sizes, day)
        service_rows += [] if size else _services(server, region_id, day)
    if not new_rows:
        raise BadInput(
            f"{server.url} has no price of these sizes there; {prices_file} is as it was"
        )
    earlier = read_prices(prices_file) if prices_file.exists() else []
    known_services = meters.read(service_file) if service_file.exists() else []
    count = retail.keep(prices_file, earlier, new_rows)
    say(f"{prices_file} holds {count:,} prices now")
    if service_rows:
        count = meters.keep(service_file, [*known_services, *service_rows])
        say(f"{service_file} holds {count:,} prices of services now")
    new = [{**row, "usd_per_hour": float(row["usd_per_hour"])} for row in new_rows]
    write(
        [sheets.changes(price_list.changes(old_prices, new), "what was known", day)],
        format_,
        output,
    )


@app.command(
    short_help="Spot prices and eviction rates of Azure Resource Graph, after az login.",
    epilog=examples(
        "trueup prices spot --region eastus --size Standard_HB120rs_v3",
        "trueup prices spot --region eastus --region westus3",
    ),
)
def spot(
    *,
    region: Annotated[list[str], option("REGION", "In this region; repeatable.", "--region")],
    size: Annotated[
        list[str] | None, option("SIZE", "Of this VM size; repeatable. Else all.", "--size")
    ] = None,
    subscription: Annotated[
        list[str] | None,
        option("NAME", "Name or id; repeatable. Else the login's default.", "--subscription"),
    ] = None,
    format_: FormatOption = Format.table,
    output: OutputOption = None,
) -> None:
    """Ask Azure Resource Graph (SpotResources) for the spot prices of 90 days and the eviction
    rates of 28 days, and keep both in your own files. `trueup advise` reads them."""
    from trueup_controller.azure.manager import connect

    from .. import catalog, retail
    from .. import spot as spots
    from ..figures.prices import read_prices, region_name
    from ..sheets import price_list as sheets

    sizes = size or [row["size"] for _, row in catalog.rows(catalog.find("vm_sizes.csv"), "size")]
    regions = [region_name(name) for name in region]
    _refuse_quotes([*sizes, *regions])
    manager = connect(subscription or [])
    day = datetime.now(UTC).date().isoformat()
    histories = spots.histories(manager.query(spots.price_query(sizes, regions)), sizes)
    rates = spots.evictions(manager.query(spots.rate_query(sizes, regions)), sizes, day)
    if not histories and not rates:
        raise BadInput(f"Resource Graph has no spot prices of these sizes in {', '.join(regions)}")
    prices_file, rates_file = catalog.own_prices(), catalog.own_file(spots.FILE)
    known = spots.rate_rows(spots.read_evictions().values())
    earlier = read_prices(prices_file) if prices_file.exists() else []
    retail.keep(prices_file, earlier, spots.price_rows(histories, day))
    retail.write_rows(
        rates_file, spots.COLUMNS, ("size", "region"), (*known, *spots.rate_rows(rates))
    )
    for region_id in regions:
        priced = {rate.size for rate in rates if rate.region == region_id}
        _tell(region_id, {}, [name for name in sizes if name not in priced], "eviction rate")
    say(f"{prices_file} and {rates_file} hold them now")
    write([sheets.spots(histories, rates)], format_, output)


@app.command(epilog=examples("trueup prices diff", "trueup prices diff --format csv"))
def diff(*, format_: FormatOption = Format.table, output: OutputOption = None) -> None:
    """Differences between your own prices and the catalog's."""
    from .. import catalog
    from ..figures import price_list
    from ..figures.prices import read_prices
    from ..sheets import price_list as sheets

    prices_file = catalog.own_prices()
    if not prices_file.exists():
        raise BadInput(f"{prices_file} does not exist; `trueup prices refresh` makes it")
    listed = read_prices(catalog.find("prices.csv"))
    rows = price_list.changes(listed, read_prices(prices_file))
    write([sheets.changes(rows, "the catalog's", str(prices_file))], format_, output)


def today() -> date:
    """The day from which ages count."""
    from ..figures.prices import day_of_reading

    return day_of_reading()


def _refuse_quotes(words: Sequence[str]) -> None:
    """Names go into a filter of the API: letters, digits, _ and - alone."""
    for name in words:
        if not name.replace("_", "").replace("-", "").isalnum():
            raise BadInput(f"{name!r} is no name of a size or region")


def _machines(server: Server, region: str, sizes: Sequence[str], day: str) -> list[dict[str, str]]:
    """The prices of VMs in a region, as rows of prices.csv."""
    from .. import retail

    fetched = retail.fetch(server, region, sizes, day, PROGRESS.step)
    priced = {row["size"] for row in fetched.rows}
    say(f"{region}: {len(fetched.rows):,} prices of {len(priced)} sizes")
    _tell(region, fetched.left_out, [name for name in sizes if name not in priced])
    return fetched.rows


def _services(server: Server, region: str, day: str) -> list[dict[str, str]]:
    """The prices of everything beside VMs in a region, as rows of service_prices.csv."""
    from .. import retail_meters

    rows, left_out = retail_meters.fetch(server, region, day, PROGRESS.step)
    say(f"{region}: {len(rows):,} prices of services")
    _tell(region, left_out, retail_meters.absent(rows))
    return rows


def _tell(
    region: str,
    left_out: Mapping[str, int] | Counter[str],
    without: Sequence[str],
    figure: str = "price",
) -> None:
    """The rows of a region that were left out, with the reasons, and what has no figure."""
    for reason, count in sorted(left_out.items()):
        say(f"{region}: {count:,} rows left out: {reason}")
    if without:
        say(f"{region}: no {figure} of {', '.join(without)}")
