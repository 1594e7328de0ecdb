"""GuideLLM's ``benchmarks.json`` (0.1 to 0.8; schemas 1 and 2): of each benchmark the distributions
over its successful requests.

Its inter token latency is the mean of an answer behind its first token, which the schema calls
TPOT; its time per output token counts the first one too and is not kept. The rates of tokens are
means over the time of the benchmark, weighted by when tokens arrived: they lie near the tokens over
the duration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trueup_node.errors import ParseError

from .schema import Draft, at, number

if TYPE_CHECKING:
    from collections.abc import Mapping

_LATENCIES: Final = {
    "time_to_first_token_ms": ("ttft", 1e-3),
    "inter_token_latency_ms": ("tpot", 1e-3),
    "request_latency": ("e2el", 1.0),
}
_RATES: Final = {
    "requests_per_second": "request_throughput",
    "output_tokens_per_second": "output_token_throughput",
    "tokens_per_second": "total_token_throughput",
    "prompt_tokens_per_second": "input_token_throughput",
}
_STATISTICS: Final = ("mean", "median", "min", "max")
_PERCENTILES: Final = ("p75", "p90", "p95", "p99")
# Means that are weighted by when tokens arrived add up to about this share.
WEIGHTED: Final = 0.05
_ITL: Final = "inter token latency is the mean of an answer: it is called TPOT here"


def read_benchmark(data: Mapping[str, Any]) -> Draft:
    """The one benchmark of a report (``signatures.PARTS`` takes a report of several apart).

    Raises:
        ParseError: there is none, or there are several.
    """
    benchmarks = data.get("benchmarks")
    if not isinstance(benchmarks, list) or len(benchmarks) != 1:
        count = len(benchmarks) if isinstance(benchmarks, list) else 0
        raise ParseError(f"the report holds {count} benchmarks: one is read at a time")
    benchmark = benchmarks[0]
    draft = Draft("guidellm")
    draft.warnings.append(_ITL)
    draft.tool_version = at(data, "metadata.guidellm_version")
    metrics = at(benchmark, "metrics") or {}
    for name, (latency, factor) in _LATENCIES.items():
        found = at(metrics, f"{name}.successful")
        for statistic in _STATISTICS:
            draft.latency(latency, statistic, number(at(found, statistic), factor))
        for statistic in _PERCENTILES:
            value = at(found, f"percentiles.{statistic}")
            draft.latency(latency, statistic, number(value, factor))
    for name, rate in _RATES.items():
        figure = number(at(metrics, f"{name}.successful.mean"))
        draft.put(rate, figure and figure._replace(slack=WEIGHTED * figure.value))
    _requests(draft, benchmark)
    _settings(draft, data, benchmark)
    return draft


def _requests(draft: Draft, benchmark: Mapping[str, Any]) -> None:
    """The counts of requests and tokens."""
    made = next(
        (
            counts
            for path in (
                *("metrics.request_totals", "scheduler_metrics.requests_made"),
                *("run_stats.requests_made", "request_totals"),
            )
            if isinstance(counts := at(benchmark, path), dict)
        ),
        {},
    )
    draft.put("requests_completed", number(made.get("successful")))
    draft.put("requests_failed", number(made.get("errored")))
    if made.get("incomplete"):
        draft.unknown("requests that the end of the benchmark cut off", made["incomplete"])
    draft.about = number(benchmark.get("duration"))
    for name, count in (("output", "output_tokens"), ("prompt", "input_tokens")):
        total = at(benchmark, f"metrics.{name}_token_count.successful.total_sum")
        draft.put(count, number(total))


def _settings(draft: Draft, data: Mapping[str, Any], benchmark: Mapping[str, Any]) -> None:
    strategy = next(
        (
            found
            for path in ("config.strategy", "args.strategy", "scheduler.strategy")
            if isinstance(found := at(benchmark, path), dict)
        ),
        {},
    )
    draft.say("strategy", strategy.get("type_"))
    draft.say("request_rate", strategy.get("rate"))
    # The most that a rate may have in flight is no load.
    if strategy.get("rate") is None:
        draft.say("max_concurrency", strategy.get("streams") or strategy.get("max_concurrency"))
    if strategy.get("type_") == "synchronous":
        draft.say("max_concurrency", 1)
    for path in ("config.backend.model", "worker.backend_model", "args.model"):
        draft.say("model", at(benchmark, path))
    for path in ("config.spec.backend.model", "args.model"):
        draft.say("model", at(data, path))
    source = at(data, "config.spec.data.0") or {}
    if isinstance(source, dict) and source.get("prompt_tokens_stdev") is None:
        draft.say("input_length", source.get("prompt_tokens"))
        draft.say("output_length", source.get("output_tokens"))
