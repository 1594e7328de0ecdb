"""The cost of tokens: US$ per million of them, from measured rates and catalog/prices.csv."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pandas as pd
from trueup_node.cases import MEASURED
from trueup_node.serving import LOADS

from .. import catalog, units
from ..rooms import is_served, view_of
from .frames import HOW, MEDIANS, of_whole_case, rows_of, work_of
from .prices import Pricing
from .terms import OWN, ApiPrices, Terms

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from ..load import Loaded

# The same work at another address, or with other prompts of its kind, is a repeat; a profile's
# options stand resolved in the other parameters.
_NOT_WORK: Final = HOW | {"base_url", "asked", "seed"}
# Each load of a sweep has a number of prompts that fits it.
_NOT_SWEEP: Final = _NOT_WORK | {*LOADS, "num_prompts"}
_OUTPUT: Final = "output_token_throughput"
_TOTAL: Final = "total_token_throughput"
_REQUESTS: Final = "request_throughput"
_CACHED: Final = "prefix_cache_hit_rate"
_GOODPUT: Final = "request_goodput"
_RATES: Final = (_OUTPUT, _TOTAL, _REQUESTS, _GOODPUT)
# Columns of latencies: the metric, its statistic, and how repeats of a case are pooled. Of the 99th
# percentile the worst repeat counts, and how many repeats have one.
_LATENCIES: Final = {
    **{f"{latency}_seconds": (latency, "median", "median") for latency in ("ttft", "tpot")},
    **{f"{latency}_p99_seconds": (latency, "p99", "max") for latency in ("ttft", "tpot")},
    **{f"{latency}_p99_known": (latency, "p99", "count") for latency in ("ttft", "tpot")},
    "e2el_mean_seconds": ("e2el", "mean", "median"),
}
_MILLION: Final = 1e6
_SECONDS: Final = 3600
# Both rates are printed with two decimals, so a total may fall short of its part by this much.
_ROUNDING: Final = 0.01


@dataclass(frozen=True)
class TokenTable:
    """Cost by case. An unknown value is None.

    Attributes:
        table: one row a case (repeats over runs pooled; other work, engines, versions and machines
            apart); columns: benchmark, engine ("" where that is not known), version (of the server;
            of the client where that is not known), model (its name in the API), profile,
            configuration (the publication's set-up or ""), case, server_arguments (JSON, or ""),
            vm_size (as billed), node_count, gpus (used, over all nodes), gpus_billed (that the VMs
            have), gpu_share (gpus / gpus_billed), n (records pooled), output_tokens_per_second and
            total_tokens_per_second (median over the records), each also with _min and _max,
            output_runs (a tuple: the output rate of each record), cached_share (of the prompts'
            tokens, found in the server's prefix cache; missing where it did not say),
            uncached_tokens_per_second (without the cached ones, which cost no computation),
            answers_per_second, output_tokens_per_answer, goodput_per_second and goodput_per_usd
            (answers within goodput_limits, a text), sweep (equal for the loads of one),
            request_rate and max_concurrency (0: no limit), ttft_seconds, tpot_seconds (medians),
            ttft_p99_seconds, tpot_p99_seconds (worst repeat; _known: how many repeats have one),
            e2el_mean_seconds, region, os, offer, currency ("USD"), usd_per_hour (one node),
            price_date (text; "" when undated), price_source, usd_per_million_output_tokens,
            usd_per_million_total_tokens and usd_per_million_uncached_tokens (all nodes billed
            whole), the same with _by_gpu_share (price x gpu_share; missing where all GPUs were used
            or nobody knows), usd_per_answer, and break_even_output, break_even_total,
            break_even_output_by_gpu_share, break_even_total_by_gpu_share (share of the hours in
            which the node must serve at the measured rate for its tokens to cost as much as the
            API's).
        api: the prices behind the break-even shares.
        warnings: sentences. unknown: rows without a price, and why. left_out: the records that do
            not enter, and why, one sentence each.
        idle_factor: the factor on US$ per token and answer for hours without requests; the
            break-even shares are of a server that serves all hours.
        unmeasured: of the records that do not enter: sweep, request_rate, max_concurrency, outcome.
    """

    table: list[dict[str, Any]]
    api: ApiPrices
    warnings: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    idle_factor: float = 1.0
    unmeasured: list[dict[str, Any]] = field(default_factory=list)


def served(records: pd.DataFrame) -> pd.DataFrame:
    """The records of servers."""
    benchmarks = records["benchmark"]
    return records[benchmarks.isin(list(filter(is_served, benchmarks.unique())))]


def read_gpus(path: Path) -> dict[str, int]:
    """How many GPUs each size has, as ``catalog.counts`` reads them."""
    return catalog.counts(path, "gpus", "GPUs")


def per_million(usd_per_hour: float, tokens_per_second: float) -> float:
    """US$ per million tokens from a price per hour; NaN at a rate of 0."""
    if not tokens_per_second > 0:
        return math.nan
    return usd_per_hour / _SECONDS / tokens_per_second * _MILLION


def uncached(row: Mapping[str, Any]) -> float:
    """Tokens a second that the machine worked out: generated ones, and those of the prompts that
    its prefix cache did not hold. NaN where nobody knows that share."""
    cached = row["cached_share"]
    if cached is None or not 0 <= cached <= 1:
        return math.nan
    output, total = float(row["output_tokens_per_second"]), float(row["total_tokens_per_second"])
    return output + max(total - output, 0.0) * (1 - float(cached))


def break_even(usd_per_million: float, api_price: float | None) -> float:
    """The share of the hours at the measured rate at which both cost the same; above 1 there is
    none. A node is billed for all hours, so its tokens cost usd_per_million / share.
    """
    return math.nan if api_price is None else usd_per_million / api_price


def table(
    loaded: Loaded,
    *,
    prices: Sequence[Mapping[str, Any]],
    gpus: Mapping[str, int],
    terms: Terms = OWN,
    api: ApiPrices | None = None,
) -> TokenTable | None:
    """Cost per million tokens of every server's case with outcome ok; None without any record.
    Published ones enter where the terms give them a price.

    Args:
        prices: as ``read_prices`` gives them.
        gpus: how many GPUs each size has (``read_gpus``).
        api: prices of an API to compare with.
    """
    records = served(loaded.records)
    if not terms.placed:
        records = records[records["provenance"] == MEASURED]
    if records.empty:
        return None
    api = ApiPrices() if api is None else api
    unpriced, left_out, unmeasured = _rows(records, loaded.figures)
    pricing = Pricing(prices, terms)
    rows = list(map(units.known, pricing.rows(unpriced)))
    warnings = pricing.warnings()
    factor = terms.idle_factor
    priced_rows = [units.known({**row, **costs(row, gpus, api, warnings, factor)}) for row in rows]
    return TokenTable(
        table=priced_rows,
        api=api,
        warnings=warnings,
        unknown=pricing.unknown(),
        left_out=left_out,
        idle_factor=factor,
        unmeasured=unmeasured,
    )


_BREAK_EVENS = [
    *("break_even_output", "break_even_total"),
    *("break_even_output_by_gpu_share", "break_even_total_by_gpu_share"),
]
COSTS = [
    *("gpus_billed", "gpu_share"),
    *("usd_per_million_output_tokens", "usd_per_million_total_tokens"),
    "usd_per_million_output_tokens_by_gpu_share",
    "usd_per_million_total_tokens_by_gpu_share",
    "uncached_tokens_per_second",
    *("usd_per_million_uncached_tokens", "usd_per_million_uncached_tokens_by_gpu_share"),
    *("output_tokens_per_answer", "usd_per_answer", "goodput_per_usd"),
    *_BREAK_EVENS,
]
_CASE_KEYS = [
    *(
        "benchmark",
        "engine",
        "version",
        "model",
        "profile",
        "configuration",
        "case",
        "server_arguments",
    ),
    *("work", "sweep", *LOADS, "goodput_limits"),
    *("vm_size", "machine", "region", "offer", "node_count", "gpus"),
]


def _rows(
    records: pd.DataFrame, figures: pd.DataFrame
) -> tuple[list[dict[str, Any]], list[str], list[dict[str, Any]]]:
    """One row a case with both rates, in the order of reading; and the omissions, as sentences
    and as the loads that are missing."""
    pooled: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    left_out, unmeasured = [], []
    for row in _told(records, figures):
        gap = _why_not(row)
        if gap is None:
            pooled.setdefault(tuple(row[name] for name in _CASE_KEYS), []).append(row)
            continue
        left_out.append(
            f"left out, {row['outcome']}: {row['case']} on {row['nodes']} in {row['run_id']}: {gap}"
        )
        unmeasured.append({name: row[name] for name in ("sweep", *LOADS, "outcome")})
    return list(map(_pooled, pooled.values())), left_out, unmeasured


def _pooled(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One row of several records of a case."""
    pooled_row = {name: rows[0][name] for name in _CASE_KEYS} | {"n": len(rows)}
    for kind, metric in (("output", _OUTPUT), ("total", _TOTAL)):
        for end, how in (("", "median"), ("_min", "min"), ("_max", "max")):
            pooled_row[f"{kind}_tokens_per_second{end}"] = _over(rows, metric, how)
    pooled_row["output_runs"] = tuple(row[_OUTPUT] for row in rows)
    for name, metric in (
        ("cached_share", _CACHED),
        ("answers_per_second", _REQUESTS),
        ("goodput_per_second", _GOODPUT),
    ):
        pooled_row[name] = _over(rows, metric, "median")
    for name, (_, _, how) in _LATENCIES.items():
        pooled_row[name] = _over(rows, f"pooled:{name}", how)
    return pooled_row


_HOW_POOLED: Final[dict[str, Callable[[Sequence[float]], float]]] = {
    "median": statistics.median,
    "min": min,
    "max": max,
}


def _over(rows: Sequence[Mapping[str, Any]], name: str, how: str) -> float | None:
    """One figure, pooled over the records that have it; None where none has."""
    numbers = [row[name] for row in rows if row[name] is not None]
    if how == "count":
        return len(numbers)
    return _HOW_POOLED[how](numbers) if numbers else None


def _told(records: pd.DataFrame, figures: pd.DataFrame) -> list[dict[str, Any]]:
    """A row for each record: its rates, and the facts of its parameters and software."""
    columns = [
        *("benchmark", "case", "outcome", "reason", "run_id", "nodes", "vm_size", "region"),
        *("offer", "provenance", "node_count", "gpus", "parameters", "software"),
    ]
    rows = rows_of(records[columns].join(rates(figures), validate="one_to_one"))
    for row in rows:
        parameters = row["parameters"]
        row["work"], row["sweep"] = work_of(parameters, _NOT_WORK), work_of(parameters, _NOT_SWEEP)
        row["goodput_limits"] = _limits(parameters)
        row["engine"] = _engine(row)
        row["version"] = _version(row)
        names = ("served_model_name", "model", "model_id")
        row["model"] = next((str(parameters[name]) for name in names if parameters.get(name)), "")
        for name in ("profile", "configuration", "server_arguments"):
            row[name] = str(parameters.get(name) or "")
        for name in LOADS:
            row[name] = _load(parameters.get(name))
        # Off Azure the size says nothing, so machines are kept apart by name.
        row["machine"] = row["nodes"] if row["vm_size"] is None else ""
    return rows


def _load(value: Any) -> float:
    """A load; 0 for no limit, and for an invalid value. An imported log's parameters are text."""
    try:
        load = float(value) if isinstance(value, str) else units.number(value) or 0.0
    except ValueError:
        return 0.0
    return load if 0 < load < math.inf else 0.0


def _limits(parameters: Mapping[str, Any]) -> str:
    """ "TTFT 500 ms, TPOT 50 ms": the limits of an answer that counts as good."""
    limits = {
        name: units.number(parameters.get(f"goodput_{name}_ms"))
        for name in ("ttft", "tpot", "e2el")
    }
    return ", ".join(f"{name.upper()} {ms:g} ms" for name, ms in limits.items() if ms is not None)


def rates(figures: pd.DataFrame) -> pd.DataFrame:
    """The rates of each record by the metric's name, and the cached share of the prompts; NaN where
    a record lacks one."""
    columns = {name: of_whole_case(figures, metric=name) for name in (*_RATES, _CACHED)}
    # The published share is an average of the server's log.
    mean = of_whole_case(figures, metric=_CACHED, statistics=["mean"])
    columns[_CACHED] = columns[_CACHED].combine_first(mean)
    for name, (metric, statistic, _) in _LATENCIES.items():
        statistics = MEDIANS if statistic == "median" else [statistic]
        columns[f"pooled:{name}"] = of_whole_case(figures, metric=metric, statistics=statistics)
    return pd.DataFrame(columns)


def _engine(row: Mapping[str, Any]) -> str:
    """The server's engine by the parameters; else that of the tool, where the record has its
    version: a log of a client alone does not say which engine answered."""
    view, software = view_of(row["benchmark"]), row["software"]
    has_version = bool({row["benchmark"], f"server_{row['benchmark']}"} & {*software})
    own = view.title if view is not None and not view.required and has_version else ""
    return str(row["parameters"].get("engine") or own)


def _version(row: Mapping[str, Any]) -> str:
    """The server's, which need not be its client's."""
    software, benchmark = row["software"], row["benchmark"]
    stated = row["parameters"].get("engine_version") or software.get(f"server_{benchmark}") or ""
    return str(software.get(benchmark, "")) if stated in ("", "unknown") else str(stated)


def _why_not(row: Mapping[str, Any]) -> str | None:
    """Why a record cannot be priced."""
    if row["outcome"] != "ok":
        return str(row["reason"])
    for name in (_OUTPUT, _TOTAL):
        if row[name] is None:
            return f"it holds no {name}"
    if row[_OUTPUT] <= 0:
        return "it put out no tokens"
    if row[_TOTAL] < row[_OUTPUT] - _ROUNDING:
        return f"its {_TOTAL} ({row[_TOTAL]:g}) is below its {_OUTPUT} ({row[_OUTPUT]:g})"
    if row["node_count"] is None:
        return "it does not say on how many nodes it ran"
    return None


def _hourly(row: Mapping[str, Any], gpus: int | None, warnings: list[str]) -> float:
    """US$ an hour of all nodes; NaN where it is unknown, which makes all that follows unknown."""
    if row["gpus"] and gpus == 0:
        warnings.append(f"{row['case']} ran on GPUs, and {row['vm_size']} has none: not priced.")
        return math.nan
    return math.nan if row["usd_per_hour"] is None else row["usd_per_hour"] * row["node_count"]


def costs(
    row: Mapping[str, Any],
    gpus: Mapping[str, int],
    api: ApiPrices,
    warnings: list[str],
    idle_factor: float = 1.0,
) -> dict[str, Any]:
    """The columns of COSTS for one row of a table; contradictions go to ``warnings``."""
    nodes, used = int(row["node_count"]), row["gpus"]
    of_size = gpus.get(str(row["vm_size"]).lower())
    billed = None if of_size is None else of_size * nodes
    share = None
    if billed and used is not None:
        if used > billed:
            warnings.append(
                f"{row['case']} says {used} GPUs, yet {nodes} x {row['vm_size']} has {billed}:"
                " the share of the GPUs is unknown."
            )
        elif used:
            share = used / billed
    hourly = _hourly(row, billed, warnings)
    output, total = (float(row[f"{kind}_tokens_per_second"]) for kind in ("output", "total"))
    worked = uncached(row)
    answers, good = (
        math.nan if row.get(name) is None else float(row[name])
        for name in ("answers_per_second", "goodput_per_second")
    )
    partial_share = share if share is not None and share < 1 else math.nan
    evens = [
        break_even(per_million(hourly, rate) * factor, price)
        for factor in (1.0, partial_share)
        for rate, price in ((output, api.output), (total, api.total))
    ]
    hourly *= idle_factor
    per_token = {
        f"usd_per_million_{kind}_tokens": per_million(hourly, rate)
        for kind, rate in (("output", output), ("total", total), ("uncached", worked))
    }
    return {
        "gpus_billed": billed,
        "gpu_share": share,
        **per_token,
        **{f"{name}_by_gpu_share": cost * partial_share for name, cost in per_token.items()},
        "uncached_tokens_per_second": worked,
        "output_tokens_per_answer": output / answers if answers > 0 else math.nan,
        "usd_per_answer": per_million(hourly, answers) / _MILLION,
        "goodput_per_usd": good * _SECONDS / hourly,
        **dict(zip(_BREAK_EVENS, evens, strict=True)),
    }
