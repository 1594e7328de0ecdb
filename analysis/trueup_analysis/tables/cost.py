"""The tables of ``trueup cost``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..catalog import find, folder
from ..figures import cheapest, published_tokens
from ..figures import cost as work_cost
from ..figures import tokens as token_figures
from ..figures import users as users_figures
from ..figures.health import expectations
from ..figures.pooling import has_work
from ..figures.prices import read_all
from ..figures.sizes import read_sizes
from ..sheets import cost as cost_sheets
from ..sheets import tokens as token_sheets
from ..sheets import users as user_sheets
from ..sheets.serving import sweep_sheets

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from ..figures.prices import Terms
    from ..figures.serving import ServiceLevel
    from ..figures.tokens import ApiPrices
    from ..load import Loaded
    from ..sheets.sheet import Sheet


@dataclass(frozen=True)
class Costs:
    """The cost of records.

    Attributes:
        sheets: by unit of work, by token, by level of a load sweep, of an article, by user.
        cheapest: a sentence on the cheapest row of each kind of work.
        unknown: the sizes, regions and offers without a price.
    """

    sheets: Sequence[Sheet]
    cheapest: Sequence[str]
    unknown: Sequence[str]


def cost(
    loaded: Loaded,
    *,
    terms: Terms,
    level: ServiceLevel,
    api: ApiPrices,
    catalog: Path | None = None,
    tell: Callable[[Sequence[str]], None],
) -> Costs:
    """
    Args:
        tell: takes the sentences on servers' records that have no price per token.

    Raises:
        BadInput: no record holds work that has a price.
    """
    prices = read_all(catalog)
    catalog_folder = folder(catalog)
    gpus = token_figures.read_gpus(catalog_folder / "vm_sizes.csv")
    serving = token_figures.table(loaded, prices=prices, gpus=gpus, terms=terms, api=api)
    article = published_tokens.recompute(
        loaded, prices=prices, gpus=gpus, price_date=terms.price_date, api=api
    )
    sizes = read_sizes(find("vm_sizes.csv", catalog).parent)
    sheets: list[Sheet] = []
    sentences: list[str] = []
    unknown: list[str] = []
    if serving is not None:
        tell(serving.left_out)
    has_served = article is not None or (serving is not None and bool(serving.table))
    has_users = users_figures.has_users(loaded, terms)
    # Without any, it says that there is nothing to price.
    if has_work(loaded) or not (has_served or has_users):
        expected = expectations.at_sizes(loaded, catalog)
        result = work_cost.table(loaded, prices=prices, terms=terms, expectations=expected)
        sheets += cost_sheets.cost(result)
        sentences += cheapest.of_work(result, sizes)
        unknown += result.unknown
    if serving is not None:
        sentences += cheapest.of_tokens(serving, sizes)
        sheets += token_sheets.tokens(serving)
        sheets += sweep_sheets(serving, level)
        unknown += serving.unknown
    if article is not None:
        sheets += token_sheets.article(article)
        unknown += article.unknown
    if has_users:
        vcpus = users_figures.read_vcpus(catalog_folder / "vm_sizes.csv")
        by_user = users_figures.table(loaded, prices=prices, vcpus=vcpus, terms=terms)
        sheets += user_sheets.users(by_user)
        unknown += by_user.unknown
    return Costs(sheets, sentences, unknown)
