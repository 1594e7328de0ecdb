"""From costs of tokens to sheets."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from trueup_node.serving import LOADS

from .. import units
from ..figures.prices import GIVEN
from .cost import source_of
from .sheet import Column, Sheet, price, short_size, unshown, worded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..figures.published_tokens import Article, PriceSet
    from ..figures.terms import ApiPrices
    from ..figures.tokens import TokenTable

_NEVER: Final = "never at this rate"
WHOLE_VM: Final = (
    "Azure bills the whole VM, however many of its GPUs work: nodes x US$ an hour / tokens in an"
    " hour at the measured rate."
)
_BY_SHARE: Final = (
    "These hold only when the other GPUs of the VM do the same work at the same rate: US$ an hour x"
    " GPUs used / GPUs of the VM. Azure bills the whole VM."
)
_percent = partial(units.percent, digits=1)
_WHOLE_FROM: Final = 1000
_price_3 = partial(units.significant, digits=3)


def tokens(result: TokenTable) -> list[Sheet]:
    """Cost per million tokens, a table for each model, whole VMs billed; and by the share of the
    GPUs used where that is less."""
    sheets = []
    models: dict[str, list[dict[str, Any]]] = {}
    for row in _by_load(result.table):
        models.setdefault(row["model"], []).append({**row})
    for model, rows in models.items():
        for row in rows:
            row["server"] = f"{row['engine']} {row['version']}".strip()
            row["used"] = used_of(row["gpus"], row["gpus_billed"])
            row["output_spread"] = _spread(row) if row["n"] > 1 else None
            # A case is usually named after its profile.
            named = str(row["profile"]) in str(row["case"])
            row["shown_case"] = row["case"] if named else f"{row['case']}, {row['profile']}"
        _tell_servers_apart(rows)
        _mark_cheapest(rows)
        of = f": {model}" if model else ""
        sheets += [_whole(rows, of, result), *_by_share(rows, of, result.api)]
    if sheets:
        sheets[0] = replace(sheets[0], warnings=[*result.warnings, *result.unknown])
    return sheets


def _by_load(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows in their order, but the loads of a sweep by their numbers, at its first one."""
    first: dict[str, int] = {}

    def place(numbered: tuple[int, dict[str, Any]]) -> tuple[float, ...]:
        number, row = numbered
        loads = [row[name] for name in LOADS]
        return (first.setdefault(row["sweep"], number) if any(loads) else number, *loads)

    return [row for _, row in sorted(enumerate(rows), key=place)]


def _mark_cheapest(rows: Sequence[dict[str, Any]]) -> None:
    """The row with the cheapest tokens of each case that ran on several sizes or servers."""
    cases: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        row["cheapest"] = False
        if row[_TOTAL] is not None:
            cases.setdefault(row["case"], []).append(row)
    for same in cases.values():
        least = min(row[_TOTAL] for row in same)
        for row in same:
            row["cheapest"] = len(same) > 1 and row[_TOTAL] == least
    for row in rows:
        row["wins"] = "*" if row["cheapest"] else ""
        row["mark"] = "best" if row["cheapest"] else ""


def _tell_servers_apart(rows: Sequence[dict[str, Any]]) -> None:
    """Say of rows of the same case in which of their servers' arguments they differ."""
    for case in dict.fromkeys(row["shown_case"] for row in rows):
        same = [row for row in rows if row["shown_case"] == case]
        all_arguments = [_arguments(row["server_arguments"]) for row in same]
        flags = sorted({flag for arguments in all_arguments for flag in arguments})
        differ = [
            flag
            for flag in flags
            if len({str(arguments.get(flag)) for arguments in all_arguments}) > 1
        ]
        for row, arguments in zip(same, all_arguments, strict=True):
            words = [
                f"{flag} {json.dumps(arguments[flag])}" if flag in arguments else f"no {flag}"
                for flag in differ
            ]
            row["shown_case"] = ", ".join([case, *words])


def _arguments(text: str) -> dict[str, Any]:
    try:
        parsed = json.loads(text or "{}")
    except ValueError:
        return {"arguments": text}
    return parsed if isinstance(parsed, dict) else {"arguments": text}


def _whole(rows: Sequence[dict[str, Any]], of: str, result: TokenTable) -> Sheet:
    # Values that are the same for all rows stand below the table.
    constant = {name: value for name in _PLACED if (value := _same(rows, name)) is not None}

    def header(name: str) -> str | None:
        return None if name in constant else _PLACED[name]

    several = any(row["n"] > 1 for row in rows)
    return Sheet(
        title=f"US$ per million tokens, the whole VM billed{of}",
        columns=[
            *unshown("benchmark", "model", "profile", "configuration", "case", "engine", "version"),
            Column("shown_case", "case", words=True, data=False),
            Column("server_arguments"),
            Column("server", header("server"), words=True, data=False),
            Column("vm_size", header("vm_size"), short_size, words=True),
            Column("node_count", header("node_count"), units.count),
            *unshown("gpus", "gpus_billed", "gpu_share"),
            Column("used", "GPUs\nused", data=False),
            Column("n", "n" if several else None, units.count),
            Column("region", header("region"), words=True),
            Column("os"),
            Column("offer", header("offer"), words=True),
            Column("currency"),
            Column("usd_per_hour", "US$ per\nnode-h", price),
            *unshown("price_date", "price_age", "price_source"),
            Column("output_tokens_per_second", "output\ntok/s", rate),
            *unshown("output_tokens_per_second_min", "output_tokens_per_second_max"),
            Column("output_spread", "spread" if several else None, _percent, data=False),
            Column("total_tokens_per_second", "total\ntok/s", rate),
            *unshown("total_tokens_per_second_min", "total_tokens_per_second_max"),
            Column("cached_share", "prompt\ncached", units.percent),
            Column("uncached_tokens_per_second", "uncached\ntok/s", rate),
            *unshown("answers_per_second"),
            Column("output_tokens_per_answer", "tokens/\nanswer", rate),
            Column("usd_per_million_output_tokens", "US$/1e6\noutput", price),
            Column("usd_per_million_total_tokens", "US$/1e6\ntotal", price),
            Column("usd_per_million_uncached_tokens", "US$/1e6\nuncached", price),
            *ANSWERS,
            Column("wins", "", words=True, data=False),
            Column("cheapest"),
            *_break_evens(result.api, ""),
        ],
        rows=rows,
        marks="mark",
        name="cost-tokens",
        notes=[
            *([_CHEAPEST] if any(row["cheapest"] for row in rows) else []),
            *(f"{_SAID[name]}: {constant[name]}." for name in _SAID if constant.get(name)),
            *_prices(rows),
            WHOLE_VM,
            *([_UNCACHED] if known(rows, "cached_share") else [_UNKNOWN_CACHE]),
            *([_ANSWER] if known(rows, "usd_per_answer") else []),
            *goodput_notes(rows),
            *([idle_note(result.idle_factor)] if result.idle_factor > 1 else []),
            *([_POOLED] if several else []),
            *break_even_notes(result.api),
        ],
        facts={
            "kind": "tokens",
            "currency": "USD",
            "unknown_prices": list(result.unknown),
            "left_out": list(result.left_out),
            "api_usd_per_million_output_tokens": result.api.output,
            "api_usd_per_million_total_tokens": result.api.total,
        },
    )


# Columns that are shown only where they vary, with their headers; and those that are then named
# below the table (a price says its region and offer).
_PLACED: Final = {
    "server": "server",
    "vm_size": "size\n(Standard_)",
    "node_count": "nodes",
    "region": "region",
    "offer": "offer",
}
_SAID: Final = {"server": "Server", "vm_size": "Size", "node_count": "Nodes"}
_TOTAL: Final = "usd_per_million_total_tokens"
_CHEAPEST: Final = "* The cheapest tokens in total of each case."
_UNCACHED: Final = (
    "Prompt cached: the share of the prompts' tokens that the server's prefix cache held. Uncached:"
    " all other tokens, which the machine computed. Where the shares differ, US$ per million tokens"
    " in total compare caches."
)
_UNKNOWN_CACHE: Final = (
    "The share of cached prompt tokens is unknown: the total may include cached prompt tokens,"
    " which cost no computation."
)
_ANSWER: Final = "US$ per answer: generated tokens per answer x US$ per generated token."
_POOLED: Final = (
    "Rates are medians over n runs of a case, and costs follow from those; spread is (max - min) /"
    " median of the output rate."
)


def known(rows: Sequence[Mapping[str, Any]], name: str) -> bool:
    return any(row[name] is not None for row in rows)


def _same(rows: Sequence[dict[str, Any]], name: str) -> Any:
    """The value that all rows have in common; "" where all lack it, None where they differ."""
    values = {"" if row[name] is None else row[name] for row in rows}
    return values.pop() if len(values) == 1 else None


def _prices(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Where the prices come from: one sentence for each region, offer, date and source."""
    sizes: dict[str, list[str]] = {}
    for row in rows:
        if row["usd_per_hour"] is None:
            continue
        of = sizes.setdefault(source_of(row), [])
        if row["price_source"] != GIVEN:
            of.append(short_size(row["vm_size"]))
    return [
        f"Prices{' of ' if of else ''}{', '.join(dict.fromkeys(of))}: USD, {where}."
        for where, of in sizes.items()
    ]


def _by_share(rows: Sequence[dict[str, Any]], of: str, api: ApiPrices) -> list[Sheet]:
    shared_rows = [row for row in rows if (row["gpu_share"] or 1) < 1]
    if not shared_rows:
        return []
    several = len({row["vm_size"] for row in shared_rows}) > 1
    return [
        Sheet(
            title=f"US$ per million tokens by share of the VM's GPUs{of}",
            columns=[
                *unshown("model", "case"),
                Column("shown_case", "case", words=True, data=False),
                Column("vm_size", "size\n(Standard_)" if several else None, short_size, words=True),
                Column("used", "GPUs\nused", data=False),
                Column("gpu_share"),
                Column("cached_share", "prompt\ncached", units.percent),
                Column("usd_per_million_output_tokens_by_gpu_share", "US$/1e6\noutput", price),
                Column("usd_per_million_total_tokens_by_gpu_share", "US$/1e6\ntotal", price),
                Column("usd_per_million_uncached_tokens_by_gpu_share", "US$/1e6\nuncached", price),
                *_break_evens(api, "_by_gpu_share"),
            ],
            rows=shared_rows,
            notes=[_BY_SHARE],
            facts={"kind": "tokens_by_gpu_share", "currency": "USD"},
        )
    ]


def _break_evens(api: ApiPrices, end: str, of: str = "") -> list[Column]:
    """Columns only for compared prices; narrow with ``of``, one of several."""
    prices = {"output": api.output, "total": api.total}
    return [
        Column(
            f"break_even_{kind}{end}",
            f"break-even\n{of + ', ' if of else ''}{kind}",
            _even_short if of else _even,
            words=not of,
        )
        for kind, price in prices.items()
        if price is not None
    ]


def break_even_notes(api: ApiPrices) -> list[str]:
    """How the break-even columns are made."""
    if not api.given:
        return []
    against = [
        f"{price:g} US$ per million {token_kind}"
        for price, token_kind in ((api.output, "output tokens"), (api.total, "tokens in total"))
        if price is not None
    ]
    text = (
        f"Break-even against an API at {' and '.join(against)}: US$ per million tokens here / that"
        " price = the share of all hours in which the node must serve at the measured rate, as it"
        " is billed for every hour. Above 100 % it costs more even when it never idles: never at"
        " this rate."
    )
    if api.output is not None:
        text += " What an API asks for input tokens is not counted against output tokens."
    return [text]


# The cost of an answer, and the rate of good ones.
ANSWERS: Final = (
    Column("usd_per_answer", "US$ per\nanswer", _price_3),
    Column("goodput_limits"),
    Column("goodput_per_second", "goodput\n/s", _price_3),
    Column("goodput_per_usd", "goodput\nper US$", _price_3),
)


def goodput_notes(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The definition of a good answer, where it was stated."""
    limits = dict.fromkeys(
        row["goodput_limits"] for row in rows if row["goodput_per_second"] is not None
    )
    return [f"Goodput: answers within {limit}, each of them." for limit in limits if limit]


def idle_note(factor: float) -> str:
    """The effect of hours without requests on the costs."""
    return (
        f"Of each day {24 - 24 / factor:.3g} hours are billed without a request: costs are"
        f" x {factor:.3g}."
    )


def used_of(used: int | None, billed: int | None) -> str:
    """ "1 of 8" GPUs."""
    if not used and not billed:
        return units.UNKNOWN
    return units.count(used) if billed is None else f"{units.count(used)} of {billed}"


def _even(value: Any) -> str:
    if units.is_missing(value):
        return "unknown"
    return _NEVER if value > 1 else units.percent(value, 1)


def _even_short(value: Any) -> str:
    return "never" if not units.is_missing(value) and value > 1 else _even(value)


def _spread(row: dict[str, Any]) -> float:
    """(max - min) / median of the output rate."""
    name = "output_tokens_per_second"
    return float((row[f"{name}_max"] - row[f"{name}_min"]) / row[name])


def rate(value: Any) -> str:
    """Tokens a second: no decimals where they are below a thousandth."""
    return units.fixed(value, 1 if value is not None and value < _WHOLE_FROM else 0)


def article(published: Article) -> list[Sheet]:
    """The published rates at each set of prices, and the article's own statements."""
    sheets = [_price_set(price_set, published) for price_set in published.sets]
    claims = Sheet(
        title="What the article says, and what follows from its own rates",
        columns=[
            Column("claim", "the article", words=True),
            *worded("verdict", "why"),
        ],
        rows=published.claims,
        notes=[
            (
                "The article's own US$ per 1,000 tokens stand only in charts: its words are"
                " checked, not its figures."
            ),
            f"Source: {published.source}.",
        ],
        warnings=[*published.warnings, *published.unknown],
        facts={"kind": "published_token_claims", "unknown_prices": list(published.unknown)},
    )
    return [*sheets, claims]


def _price_set(price_set: PriceSet, published: Article) -> Sheet:
    rows = [{**row} for row in price_set.table]
    for row in rows:
        row["wins"] = "*" if row["cheapest"] else ""
        row["shown_profile"] = str(row["profile"]).replace("_", " ")
    return Sheet(
        title=price_set.title,
        columns=[
            Column("profile"),
            Column("shown_profile", "profile", words=True, data=False),
            Column("gpu", "GPU", words=True),
            *unshown("case", "vm_size", "node_count", "gpus", "gpus_billed", "gpu_share"),
            Column("output_tokens_per_second", "out\ntok/s", units.count),
            Column("total_tokens_per_second", "total\ntok/s", units.count),
            Column("cached_share", "prompt\ncached", units.percent),
            *unshown(
                "uncached_tokens_per_second",
                "region",
                "regions",
                "os",
                "offer",
                "currency",
                "usd_per_hour",
                "price_date",
                "price_age",
                "price_source",
                "estimated",
            ),
            Column("usd_per_million_output_tokens", "VM\noutput", _price_3),
            Column("usd_per_million_total_tokens", "VM\ntotal", _price_3),
            Column("usd_per_million_output_tokens_by_gpu_share", "1 GPU\noutput", _price_3),
            Column("usd_per_million_total_tokens_by_gpu_share", "1 GPU\ntotal", _price_3),
            Column("usd_per_million_uncached_tokens"),
            Column("usd_per_million_uncached_tokens_by_gpu_share", "1 GPU\nuncached", _price_3),
            Column("wins", "", words=True, data=False),
            Column("cheapest"),
            *_break_evens(published.api, "", "VM"),
            *_break_evens(published.api, "_by_gpu_share", "1 GPU"),
        ],
        rows=rows,
        notes=[
            *price_set.notes,
            (
                "VM: the whole VM is billed for the work of its 1 GPU. 1 GPU: that / GPUs of the"
                " VM, which holds only when the others do the same work. * cheapest of its profile."
            ),
            _UNCACHED,
            *break_even_notes(published.api),
        ],
        facts={"kind": "published_tokens", "prices": price_set.name, "source": published.source},
    )
