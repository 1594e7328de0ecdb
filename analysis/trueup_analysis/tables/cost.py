"""The tables of ``trueup cost``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ..cases import read_cases
from ..catalog import find, folder
from ..figures import cost as work
from ..figures import published_tokens, tokens, users
from ..figures.health import expectations
from ..figures.pooling import has_work
from ..figures.prices import read_all
from ..figures.sizes import read_sizes
from ..rooms import is_served
from ..sheets import cost as cost_sheets
from ..sheets import tokens as token_sheets
from ..sheets import users as user_sheets
from ..sheets.compare import since_shown
from ..sheets.serving import sweep_sheets

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from ..figures.compare.comparing import Deltas
    from ..figures.sizes import Sizes
    from ..figures.terms import ApiPrices, ServiceLevel, Terms
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
    deltas: Deltas | None = None,
    tell: Callable[[Sequence[str]], None],
) -> Costs:
    """
    Args:
        deltas: the changes since the run before, for a column.
        tell: takes the sentences on servers' records that have no price per token.

    Raises:
        BadInput: no record holds work that has a price.
    """
    case = _Pricing(loaded, catalog, read_all(catalog, terms.agreed), terms)
    serves = any(map(is_served, loaded.values("benchmark")))
    if serves and deltas is not None:
        tell(["--changes: `trueup compare` has the changes of rates of tokens."])
    by_token = _by_token(case, api, level, tell) if serves else _Priced()
    by_user = _by_user(case)
    priced = [by_token, by_user]
    # Without any, it says that there is nothing to price.
    if has_work(loaded) or not any(each.has_rows for each in priced):
        priced = [_by_work(case, deltas), *priced]
    return Costs(
        [sheet for each in priced for sheet in each.sheets],
        [sentence for each in priced for sentence in each.cheapest],
        [text for each in priced for text in each.unknown],
    )


class _Pricing(NamedTuple):
    """Records, a catalog, its prices, and the terms."""

    loaded: Loaded
    catalog: Path | None
    prices: Sequence[Mapping[str, Any]]
    terms: Terms

    @property
    def sizes_file(self) -> Path:
        return folder(self.catalog) / "vm_sizes.csv"

    @property
    def sizes(self) -> Sizes:
        return read_sizes(find("vm_sizes.csv", self.catalog).parent)


class _Priced(NamedTuple):
    """Rows by one kind of work: whether there are any, their sheets, sentences on the cheapest, and
    the sizes, regions and offers without a price."""

    has_rows: bool = False
    sheets: Sequence[Sheet] = ()
    cheapest: Sequence[str] = ()
    unknown: Sequence[str] = ()


def _by_work(case: _Pricing, deltas: Deltas | None) -> _Priced:
    expected = expectations.at_sizes(case.loaded, case.catalog)
    result = work.table(case.loaded, prices=case.prices, terms=case.terms, expectations=expected)
    if deltas is not None:
        _add_changes(result, case.loaded, deltas)
    cheapest = work.cheapest_of_work(result, case.sizes)
    return _Priced(True, cost_sheets.cost(result), cheapest, result.unknown)


def _add_changes(result: work.CostTable, loaded: Loaded, deltas: Deltas) -> None:
    """The change of each row's figure since the run before; at one price that of its cost."""
    cases = {case.record: case for case in read_cases(loaded)}
    for row in result.table:
        members = [cases[record] for record in row["members"]]
        since = deltas.of(members, row["metric"] or "run_time", row["message_bytes"])
        row |= dict(zip(("since_run_before", "since_verdict"), since, strict=True))
        row["since_shown"] = since_shown(*since)


def _by_token(
    case: _Pricing, api: ApiPrices, level: ServiceLevel, tell: Callable[[Sequence[str]], None]
) -> _Priced:
    loaded, terms = case.loaded, case.terms
    priced: dict[str, Any] = {"prices": case.prices, "gpus": tokens.read_gpus(case.sizes_file)}
    serving = tokens.table(loaded, **priced, terms=terms, api=api)
    article = published_tokens.recompute(loaded, **priced, price_date=terms.price_date, api=api)
    of_article = _Priced()
    if article is not None:
        of_article = _Priced(True, token_sheets.article(article), unknown=article.unknown)
    if serving is None:
        return of_article
    tell(serving.left_out)
    return _Priced(
        of_article.has_rows or bool(serving.table),
        [*token_sheets.tokens(serving), *sweep_sheets(serving, level), *of_article.sheets],
        work.cheapest_of_tokens(serving, case.sizes),
        [*serving.unknown, *of_article.unknown],
    )


def _by_user(case: _Pricing) -> _Priced:
    if not users.has_users(case.loaded, case.terms):
        return _Priced()
    vcpus = users.read_vcpus(case.sizes_file)
    result = users.table(case.loaded, prices=case.prices, vcpus=vcpus, terms=case.terms)
    return _Priced(True, user_sheets.users(result), (), result.unknown)
