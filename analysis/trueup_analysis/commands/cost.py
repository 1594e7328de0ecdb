"""``trueup cost``: the cost of records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .billing import Billing
from .inputs import expectations_at_sizes, load_results
from .messages import Format, end_incomplete, say_all, say_notes, say_warnings
from .options import Common, RecordQuery, examples, filters, flag, taking

if TYPE_CHECKING:
    from ..sheets.sheet import Sheet

app = typer.Typer()


@app.command(
    epilog=examples(
        "trueup cost --region eastus",
        "trueup cost --region southcentralus --offer spot",
        "trueup cost --size Standard_HB120rs_v3 --region eastus  # as if there",
        "trueup cost --price 3.60 --format json",
        "trueup cost --region eastus2 --api-price 0.60   # vLLM against an API",
        "trueup cost --ttft-ms 500 --tpot-ms 50          # sweeps by a service level",
        "trueup cost --region eastus --users 5           # US$ per user-hour",
        "trueup cost catalog/reference_results.csv       # published tables",
    ),
)
@taking(asked=filters, billing=Billing, common=Common)
def cost(
    *,
    asked: RecordQuery,
    billing: Billing,
    strict: Annotated[bool, flag("--strict", "Exit 1 when a price is unknown.")] = False,
    common: Common,
) -> None:
    """Node-hours (nodes x run time), US$ per run, and US$ by the unit that each benchmark's work is
    counted in (PFLOP, TB, ns, billion grid points, million samples or tokens), the cheapest marked;
    US$ per user-hour of sessions that share a host, at the base and the Windows rate. Published
    rates of tokens are priced on their article's own terms too."""
    from ..catalog import find, folder
    from ..figures import cheapest, published_tokens, tokens
    from ..figures import cost as analysis
    from ..figures import users as users_figures
    from ..figures.pooling import has_work
    from ..figures.prices import read_all
    from ..figures.sizes import read_sizes
    from ..sheets import cost as cost_sheets
    from ..sheets import tokens as token_sheets
    from ..sheets import users as user_sheets
    from ..sheets.serving import sweep_sheets

    terms, level = billing.terms(), billing.level()
    loaded = load_results(*asked)
    api = billing.api(loaded)
    catalog_folder = folder(common.catalog)
    prices = read_all(common.catalog)
    gpus = tokens.read_gpus(catalog_folder / "vm_sizes.csv")
    serving = tokens.table(loaded, prices=prices, gpus=gpus, terms=terms, api=api)
    article = published_tokens.recompute(
        loaded, prices=prices, gpus=gpus, price_date=terms.price_date, api=api
    )
    sizes = read_sizes(find("vm_sizes.csv", common.catalog).parent)
    tables: list[Sheet] = []
    sentences: list[str] = []
    unknown: list[str] = []
    serves = article is not None or (serving is not None and bool(serving.table))
    if serving is not None and not serves:
        say_all(serving.left_out)
    shared = users_figures.has_users(loaded, terms)
    # Without any, it says that there is nothing to price.
    if has_work(loaded) or not (serves or shared):
        expected = expectations_at_sizes(loaded, common.catalog)
        result = analysis.table(loaded, prices=prices, terms=terms, expectations=expected)
        tables += cost_sheets.cost(result)
        sentences += cheapest.of_work(result, sizes)
        unknown += result.unknown
    if serving is not None:
        sentences += cheapest.of_tokens(serving, sizes)
        tables += token_sheets.tokens(serving)
        tables += sweep_sheets(serving, level)
        unknown += serving.unknown
    if article is not None:
        tables += token_sheets.article(article)
        unknown += article.unknown
    if shared:
        vcpus = users_figures.read_vcpus(catalog_folder / "vm_sizes.csv")
        by_user = users_figures.table(loaded, prices=prices, vcpus=vcpus, terms=terms)
        tables += user_sheets.users(by_user)
        unknown += by_user.unknown
    if common.format_ in (Format.table, Format.markdown):
        tables = [*cost_sheets.answer(sentences), *tables]
    common.write(tables)
    say_notes(loaded)
    if serving is not None and serves:
        say_all(serving.left_out)
    say_warnings(tables)
    if strict and unknown:
        raise typer.Exit(1)
    end_incomplete(loaded)
