"""``trueup prices``: the catalog's prices, and newer ones beside them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Annotated

from trueup_node.errors import BadInput

from .messages import PROGRESS, Format, say, write
from .options import Common, FormatOption, OutputOption, examples, group, option, taking

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..retail import Fetched

app = group(
    "prices",
    "Prices an hour, with date and source. Newer ones are kept in a file of your own"
    " (TRUEUP_PRICES, else trueup/prices.csv in the user's data folder), which every command reads"
    " beside the catalog; the newest price of a size counts.",
    "trueup prices show --size Standard_HB120rs_v3",
    "trueup prices refresh --region eastus   # asks prices.azure.com",
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
    common: Common,
) -> None:
    """The newest price of each size, region, system and offer, and how old it is."""
    from ..figures import price_list
    from ..figures.prices import read_all
    from ..sheets import price_list as sheets

    query = price_list.PriceQuery(size, region, os, offer)
    rows = price_list.chosen(read_all(common.catalog), query, today())
    common.write([sheets.prices(rows)])


@app.command(
    short_help="Ask prices.azure.com, and keep its answers in your own file.",
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
    """Ask Azure's Retail Prices API, and keep its answers with today's date in your own file. It is
    written whole or not at all; neither the catalog nor the package is changed."""
    from .. import catalog, retail
    from ..figures import price_list
    from ..figures.prices import read_all, read_prices, region_name
    from ..sheets import price_list as sheets

    old_prices = read_all()
    sizes = size or [row["size"] for _, row in catalog.rows(catalog.find("vm_sizes.csv"), "size")]
    regions = [region_name(name) for name in region or ()]
    regions = regions or sorted({row["region"] for row in old_prices})
    _refuse_quotes([*sizes, *regions])
    server = retail.Server((url or retail.HOST).rstrip("/"))
    day = datetime.now(UTC).date().isoformat()
    fetched = [retail.fetch(server, region_id, sizes, day, PROGRESS.step) for region_id in regions]
    for response in fetched:
        _tell(response, sizes)
    prices_file = catalog.own_prices()
    if not any(response.rows for response in fetched):
        raise BadInput(
            f"{server.url} has no price of these sizes there; {prices_file} is as it was"
        )
    count = retail.keep(
        prices_file, read_prices(prices_file) if prices_file.exists() else (), fetched
    )
    new = [
        {**row, "usd_per_hour": float(row["usd_per_hour"])}
        for response in fetched
        for row in response.rows
    ]
    say(f"{prices_file} holds {count:,} prices now")
    write(
        [sheets.changes(price_list.changes(old_prices, new), "what was known", day)],
        format_,
        output,
    )


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


def _tell(response: Fetched, sizes: Sequence[str]) -> None:
    """The prices of a region, the rows left out with the reasons, and the sizes without a price."""
    priced = {row["size"] for row in response.rows}
    without = [size for size in sizes if size not in priced]
    say(f"{response.region}: {len(response.rows):,} prices of {len(priced)} sizes")
    for reason, count in sorted(response.left_out.items()):
        say(f"{response.region}: {count:,} rows left out: {reason}")
    if without:
        say(f"{response.region}: no price of {', '.join(without)}")
