"""The published rates of Llama 3.1 8B priced on the article's terms and on today's, and the
article's claims beside them.

Source of the claims: "Inference performance of Llama 3.1 8B using vLLM across various GPUs and
CPUs" and "Performance analysis of DeepSeek R1 AI Inference using vLLM on ND-H100-v5", Azure HPC
blog.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trueup_node.cases import MEASURED

from .. import units
from .frames import of_whole_case, rows_of
from .prices import CURRENCY, LIST_OFFER, Book, Quote
from .tokens import costs, rates, served

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..load import Loaded
    from .terms import ApiPrices

_OS: Final = "linux"
_ARTICLES_REGION: Final = "southcentralus"
_H100: Final = "Standard_ND96isr_H100_v5"
_H200: Final = "Standard_ND96isr_H200_v5"
_ESTIMATE: Final = 1.2
# Azure's public regions in the US.
_US: Final = frozenset(
    {
        *("centralus", "eastus", "eastus2", "northcentralus", "southcentralus", "westcentralus"),
        *("westus", "westus2", "westus3"),
    }
)
_GPUS: Final = ("A100_40G", "A100", "H100", "H200")
# profile -> the GPU that the article calls the cheapest, and its words.
_CHEAPEST: Final = {
    "chat": ("A100_40G", "Chat: the A100 (40G) offers the best value"),
    "classification": ("H200", "Classification: the H200 is most cost-effective"),
    "code_generation": ("H100", "Code generation: the H100 is the most cost-efficient"),
}
_SHARE: Final = "usd_per_million_total_tokens_by_gpu_share"
_SHARE_UNCACHED: Final = "usd_per_million_uncached_tokens_by_gpu_share"
_SHARE_OF_OUTPUT: Final = "usd_per_million_output_tokens_by_gpu_share"


@dataclass(frozen=True)
class PriceSet:
    """The article's rates at one set of prices.

    Attributes:
        table: one row a profile and GPU; columns: profile, gpu (the article's name), cheapest
            (bool: by one GPU's share, total tokens, within the profile), vm_size, node_count,
            gpus, n, output_tokens_per_second, total_tokens_per_second, cached_share,
            answers_per_second (missing: none is published), region (of the price),
            regions (all with that price), os, offer, currency, usd_per_hour, price_date,
            price_source, estimated (bool), and the costs of ``tokens.TokenTable``.
    """

    name: str
    title: str
    table: list[dict[str, Any]]
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Article:
    """The article recomputed.

    Attributes:
        claims: one row a statement: claim, verdict, why.
        unknown: sizes without a price, and why, one sentence each.
    """

    sets: list[PriceSet]
    claims: Sequence[Mapping[str, str]]
    api: ApiPrices
    source: str
    warnings: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


class _Found(NamedTuple):
    """A price, where it holds, and whether anybody has ever asked it."""

    quote: Quote
    regions: tuple[str, ...]
    estimated: bool = False


def recompute(
    loaded: Loaded,
    *,
    prices: Sequence[Mapping[str, Any]],
    gpus: Mapping[str, int],
    price_date: str | None,
    api: ApiPrices,
) -> Article | None:
    """The published rates at the article's prices and at the lowest in the US, pay-as-you-go; None
    where nothing published is among the records.
    """
    published = _published(loaded)
    if not published:
        return None
    book = Book(prices, price_date)
    sizes = list(dict.fromkeys(row["vm_size"] for row in published))
    unknown: list[str] = []
    warnings: list[str] = []
    article_prices = {size: _articles_price(book, size, unknown) for size in sizes}
    low = {size: _lowest(book, size, unknown) for size in sizes}
    rest = (gpus, api, warnings)
    sets = [
        _priced("article", "at the article's prices", published, article_prices, rest),
        _priced("lowest_us", "at the lowest US price", published, low, rest),
    ]
    profiles = dict.fromkeys(row["profile"] for row in published)
    claims = [
        *(_cheapest(profile, sets) for profile in profiles),
        *_estimate(prices, price_date, low),
        _NO_SIZES,
        *_ratios(loaded, low),
    ]
    return Article(
        sets=sets,
        claims=claims,
        api=api,
        source=published[0]["provenance"],
        warnings=list(dict.fromkeys(warnings)),
        unknown=list(dict.fromkeys(unknown)),
    )


# The figures of a published case, as they are called here.
_FIGURES: Final = {
    "output_tokens_per_second": "output_token_throughput",
    "total_tokens_per_second": "total_token_throughput",
    "answers_per_second": "request_throughput",
    "cached_share": "prefix_cache_hit_rate",
}


def _published(loaded: Loaded) -> list[dict[str, Any]]:
    """One row a published case, in the article's order of profiles, then of GPUs by price."""
    records = served(loaded.records)
    records = records[records["provenance"] != MEASURED]
    names = ["case", "vm_size", "node_count", "gpus", "provenance", "parameters"]
    rate_columns = rates(loaded.figures)[list(_FIGURES.values())]
    renamed = rate_columns.rename(columns={theirs: ours for ours, theirs in _FIGURES.items()})
    rows = rows_of(records[names].join(renamed, validate="one_to_one"))
    for row in rows:
        parameters = row.pop("parameters")
        row.update({name: str(parameters.get(name, "")) for name in ("profile", "gpu")}, n=1)
    rated = [row for row in rows if (row["output_tokens_per_second"] or 0) > 0]
    profiles = list(_CHEAPEST)
    return sorted(
        rated, key=lambda row: (_place(profiles, row["profile"]), _place(_GPUS, row["gpu"]))
    )


def _place(names: Sequence[str], name: str) -> int:
    """The place of a name; an unlisted one stands last."""
    return names.index(name) if name in names else len(names)


def _articles_price(book: Book, size: str, unknown: list[str]) -> _Found | None:
    """South Central US, pay-as-you-go; the H200 as the article estimates it."""
    if size == _H200:
        base = book.find(_H100, _ARTICLES_REGION, _OS, LIST_OFFER)
        if base is None:
            unknown.append(f"{book.why_not(_H100, _ARTICLES_REGION, _OS, LIST_OFFER)}.")
            return None
        quote = Quote(
            base.usd_per_hour * _ESTIMATE,
            base.date,
            f"estimated by the article: {_H100} + 20 %; the catalog has no price of {_H200} there",
            "",
            base.age,
        )
        return _Found(quote, (_ARTICLES_REGION,), estimated=True)
    list_quote = book.find(size, _ARTICLES_REGION, _OS, LIST_OFFER)
    if list_quote is None:
        unknown.append(f"{book.why_not(size, _ARTICLES_REGION, _OS, LIST_OFFER)}.")
        return None
    return _Found(list_quote, (_ARTICLES_REGION,))


def _lowest(book: Book, size: str, unknown: list[str]) -> _Found | None:
    """The lowest pay-as-you-go price of a US region, and all regions that have it."""
    offers = {
        region: quote
        for (of, region, os, offer), quote in book.quotes.items()
        if (of, os, offer) == (size.lower(), _OS, LIST_OFFER) and region in _US
    }
    if not offers:
        unknown.append(f"{size} has no price in the US ({_OS}, {LIST_OFFER}).")
        return None
    least = min(quote.usd_per_hour for quote in offers.values())
    regions = sorted(name for name, quote in offers.items() if quote.usd_per_hour == least)
    return _Found(offers[regions[0]], tuple(regions))


def _priced(
    name: str,
    where: str,
    published: Sequence[Mapping[str, Any]],
    prices: Mapping[str, _Found | None],
    rest: tuple[Mapping[str, int], ApiPrices, list[str]],
) -> PriceSet:
    table = []
    for case_row in published:
        price = prices[case_row["vm_size"]]
        row = {**case_row, "region": None, "regions": None, "os": _OS, "offer": LIST_OFFER}
        row |= {"currency": CURRENCY, "usd_per_hour": None, "price_date": ""}
        row |= {"price_age": "", "price_source": "unknown", "estimated": False}
        if price is not None:
            row |= {"region": price.regions[0], "regions": " ".join(price.regions)}
            row |= {"usd_per_hour": price.quote.usd_per_hour, "price_date": price.quote.date}
            row |= {"price_age": price.quote.age}
            row |= {"price_source": price.quote.source, "estimated": price.estimated}
        table.append(units.known(row | costs(row, *rest)))
    for row in table:
        shares = [other[_SHARE] for other in table if other["profile"] == row["profile"]]
        # Where a price is unknown, nobody knows which is the cheapest.
        row["cheapest"] = None not in shares and row[_SHARE] == min(shares)
    lines = []
    gpu_of = {row["vm_size"]: row["gpu"] for row in published}
    for size in sorted(prices, key=lambda size: list(gpu_of).index(size)):
        price = prices[size]
        short = size.removeprefix("Standard_")
        if price is None:
            lines.append(f"{gpu_of[size]} = {short}: price unknown.")
        else:
            how = " (the article's estimate: H100 + 20 %)" if price.estimated else ""
            lines.append(
                f"{gpu_of[size]} = {short}: {units.money(price.quote.usd_per_hour)} an hour in"
                f" {', '.join(price.regions)}, as of {price.quote.dated}{how}."
            )
    sources = dict.fromkeys(
        price.quote.source for price in prices.values() if price is not None and not price.estimated
    )
    lines += [f"Prices: {CURRENCY}, {_OS}, {LIST_OFFER}: {source}." for source in sources]
    title = f"US$ per million tokens of Llama 3.1 8B on 1 GPU, {where}"
    return PriceSet(name, title, table, lines)


def _cheapest(profile: str, sets: Sequence[PriceSet]) -> dict[str, str]:
    """Whether the GPU that the article names is the cheapest at both sets of prices, by total and
    by output tokens."""
    named, words = _CHEAPEST.get(profile, ("", profile))
    winners: list[str] = []
    lists = []
    for price_set in sets:
        rows = [row for row in price_set.table if row["profile"] == profile]
        if any(row[_SHARE] is None for row in rows):
            reason = "A price, or how many GPUs a size has, is unknown."
            return {"claim": words, "verdict": "not checked", "why": reason}
        winners += [_least(rows, column) for column in (_SHARE, _SHARE_OF_OUTPUT)]
        lists.append(
            f"{' / '.join(units.significant(value, 3) for value in _column(rows, _SHARE))}"
            f" {_SET_WORDS[price_set.name]}"
        )
    order = " / ".join(_column(rows, "gpu"))
    cached = _by_uncached(rows, order)
    figures_ = f"Per million total tokens and GPU, {order}: {'; '.join(lists)}."
    if set(winners) == {named}:
        return {
            "claim": words,
            "verdict": "holds",
            "why": f"At both sets of prices. {figures_}{cached}",
        }
    if named not in winners and len(set(winners)) == 1:
        reason = (
            f"{winners[0]} is the cheapest at both sets of prices, by total and by output tokens."
            f" {figures_}{cached}"
        )
        return {"claim": words, "verdict": "not reproducible", "why": reason}
    return {
        "claim": words,
        "verdict": "depends",
        "why": f"It depends on the price. {figures_}{cached}",
    }


def _column(rows: Sequence[Mapping[str, Any]], name: str) -> list[Any]:
    return [row[name] for row in rows]


def _least(rows: Sequence[Mapping[str, Any]], column: str) -> str:
    """The GPU whose figure is the least."""
    return str(min(rows, key=lambda row: row[column])["gpu"])


def _by_uncached(rows: Sequence[Mapping[str, Any]], order: str) -> str:
    """Where the cheapest of the tokens that a GPU worked out is another than of all tokens: the
    order by total tokens is that of the caches."""
    if None in _column(rows, _SHARE_UNCACHED):
        return ""
    total, fresh = (_least(rows, column) for column in (_SHARE, _SHARE_UNCACHED))
    if total == fresh:
        return ""
    shares = " / ".join(units.percent(value) for value in _column(rows, "cached_share"))
    costs_ = " / ".join(units.significant(value, 3) for value in _column(rows, _SHARE_UNCACHED))
    return (
        f" The prefix cache held {shares} of the prompts ({order}; published in whole percent): per"
        f" million uncached tokens it is {costs_}, and {fresh} is the cheapest."
    )


_SET_WORDS: Final = {"article": "at the article's prices", "lowest_us": "at the lowest US price"}


def _estimate(
    prices: Sequence[Mapping[str, Any]], price_date: str | None, low: Mapping[str, _Found | None]
) -> list[dict[str, str]]:
    """The estimate of the H200's price, and the price itself."""
    h100, h200 = low.get(_H100), low.get(_H200)
    if h100 is None or h200 is None:
        return []
    ratio = h200.quote.usd_per_hour / h100.quote.usd_per_hour
    reason = (
        f"Its lowest US price is {units.money(h200.quote.usd_per_hour)} against"
        f" {units.money(h100.quote.usd_per_hour)} an hour, {_change(ratio)}"
        f" (as of {h200.quote.date} and {h100.quote.date})."
    )
    if then := _first(prices, price_date):
        date, region, dear, base = then
        reason += (
            f" In {region} it was {units.money(dear)} against {units.money(base)} on {date},"
            f" {_change(dear / base)}, which fits the estimate."
            if abs(dear / base - _ESTIMATE) < _CLOSE
            else f" In {region} it was {units.money(dear)} against {units.money(base)} on {date}."
        )
    return [
        {
            "claim": "The H200 node costs 20 % more than the H100 node (estimated)",
            "verdict": "holds" if abs(ratio - _ESTIMATE) < _CLOSE else "no longer",
            "why": reason,
        }
    ]


# The article says "20 %": half a percent more or less is the same.
_CLOSE: Final = 0.005


def _change(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f} %"


def _first(
    prices: Sequence[Mapping[str, Any]], price_date: str | None
) -> tuple[str, str, float, float] | None:
    """The oldest day and region in the US with a price of both: date, region, H200, H100."""
    keyed: dict[str, dict[tuple[str, str], float]] = {_H200: {}, _H100: {}}
    for row in prices:
        date, region = row["as_of_date"], row["region"]
        is_us_list_price = (row["os"], row["offer"]) == (_OS, LIST_OFFER) and region in _US
        if is_us_list_price and row["size"] in keyed and "" < date <= (price_date or date):
            keyed[row["size"]][date, region] = row["usd_per_hour"]
    both = sorted(keyed[_H200].keys() & keyed[_H100].keys())
    if not both:
        return None
    return (*both[0], keyed[_H200][both[0]], keyed[_H100][both[0]])


_NO_SIZES: Final = {
    "claim": "Sizes ND-H200-v4 and HD-A100-v4",
    "verdict": "no such sizes",
    "why": (
        "Meant are ND-H200-v5 (Standard_ND96isr_H200_v5) and the two of ND-A100-v4"
        " (Standard_ND96asr_v4 with 40 GB, Standard_ND96amsr_A100_v4 with 80 GB a GPU)."
    ),
}


def _answer(longer: float, rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The claim on the cost of an answer: more tokens, and each of them dearer."""
    products = [
        f"{longer:g} x {row['cost_ratio']:g} = {longer * row['cost_ratio']:,.0f} times on"
        f" {row['gpus']} {_gpu(row)}"
        for row in rows
        if row["cost_ratio"] is not None
    ]
    return {
        "claim": f"DeepSeek R1 generates {longer:g} times the tokens of Llama 3.1 8B",
        "verdict": "follows",
        "why": (
            f"US$ per answer = tokens per answer x US$ per token: {'; '.join(products)}. The"
            " article's ratios of cost are by token and leave the first factor out."
        ),
    }


def _gpu(row: Mapping[str, Any]) -> str:
    return "H200" if row["vm_size"] == _H200 else "H100"


def _ratios(loaded: Loaded, low: Mapping[str, _Found | None]) -> list[dict[str, str]]:
    """Claims on DeepSeek R1's cost beside Llama's, without the rates."""
    names = ("cost_ratio", "slowdown", "token_ratio")
    records = loaded.records[loaded.records["benchmark"] == "vllm_ratios"]
    figures = {name: of_whole_case(loaded.figures, metric=name) for name in names}
    rows = rows_of(records[["vm_size", "gpus"]].assign(**figures))
    slow, longer = (
        next((row[name] for row in rows if row[name] is not None), None) for name in names[1:]
    )
    claims = [] if longer is None else [_answer(longer, rows)]
    for row in rows:
        ratio = row["cost_ratio"]
        if ratio is None:
            continue
        gpu = _gpu(row)
        words = f"DeepSeek R1's tokens cost {ratio:g}x those of Llama 3.1 8B, {row['gpus']} {gpu}"
        h100, h200 = low.get(_H100), low.get(_H200)
        if gpu == "H100":
            same = slow is not None and math.isclose(ratio, slow)
            verdict = "consistent" if same else "not checked"
            reason = (
                "On the same GPUs the price cancels: the ratio of costs is that of the rates"
                + (f", and the article says {slow:g}x slower." if same else ".")
            )
        elif h100 is None or h200 is None:
            verdict, reason = "not checked", "A price is unknown."
        else:
            real = h200.quote.usd_per_hour / h100.quote.usd_per_hour
            verdict = "rests on an estimate"
            reason = (
                f"With the lowest US prices instead of H100 + 20 % it is"
                f" {ratio * real / _ESTIMATE:.1f}x if Llama ran on H100 ({ratio:g} x {real:.4f} /"
                f" {_ESTIMATE:g}). If Llama ran on the same H200 the price cancels and it stays"
                f" {ratio:g}x; the article does not say which."
            )
        claims.append(
            {
                "claim": words,
                "verdict": verdict,
                "why": f"{reason} The rates stand only in a chart and cannot be checked.",
            }
        )
    return claims
