"""How figures of vLLM's serving benchmark are shown."""

from __future__ import annotations

from ...view import Chart, Measure, Timed, View, Work, latency, rate

_OUTPUT = rate("output_token_throughput", "output tokens", "tokens/s")
_TOTAL = rate("total_token_throughput", "tokens in total", "tokens/s")
_REQUESTS = rate("request_throughput", "requests", "requests/s")
_GOODPUT = rate("request_goodput", "goodput", "requests/s")
_LATENCIES = tuple(latency(name, name.upper(), "ms") for name in ("ttft", "tpot", "itl", "e2el"))
_TTFT, _TPOT, _ITL, _E2EL = (median for median, _ in _LATENCIES)
_TYPICAL_AND_TAIL = ("median", "p99")

VIEW = View(
    title="vLLM",
    headlines=(_OUTPUT,),
    timed=Timed("requests_completed", divided_by="request_throughput"),
    figures=(
        _TOTAL,
        _REQUESTS,
        _GOODPUT,
        *(measure for pair in _LATENCIES for measure in pair),
        Measure("requests_failed", "requests failed", "1", "lower", "", grows=False),
        Measure(
            "requests_waiting",
            "requests waiting, most",
            "1",
            "lower",
            "",
            statistic="max",
            grows=False,
        ),
        Measure(
            "kv_cache_usage", "KV-cache use, most", "1", "lower", "%", statistic="max", grows=False
        ),
        Measure("prefix_cache_hit_rate", "prefix-cache hits", "1", "higher", "%", grows=False),
    ),
    identity=("model", "model_id", "served_model_name"),
    apart=(
        "model",
        "recipe",
        "endpoint_name",
        "profile",
        "configuration",
        "random_input_tokens",
        "random_output_tokens",
        "num_prompts",
        "request_rate",
        "max_concurrency",
        "tensor_parallel",
        "data_parallel",
    ),
    charts=tuple(
        Chart(
            "lines",
            measures,
            over,
            f"{label} over {load}",
            log=True,
            statistics=statistics,
            along=("num_prompts",),
        )
        for over, load in (
            ("max_concurrency", "requests in flight"),
            ("request_rate", "request rate"),
        )
        for label, measures, statistics in (
            ("Throughput", (_OUTPUT, _TOTAL), ()),
            ("TTFT and E2EL", (_TTFT, _E2EL), _TYPICAL_AND_TAIL),
            ("TPOT and ITL", (_TPOT, _ITL), _TYPICAL_AND_TAIL),
        )
    ),
    work=(
        Work("million output tokens", "million_output_tokens", "output_token_throughput", 1e6),
        Work("million total tokens", "million_total_tokens", "total_token_throughput", 1e6),
    ),
    method="vllm bench serve sends the prompts of a profile at a given request rate or number in"
    " flight: throughputs are over the time from the first request to the last answer, latencies"
    " are the client's, over the requests that succeeded. Loading the model, starting the server"
    " and failed requests are not in it.",
    resource="gpus",
    spread=("tensor_parallel", "data_parallel"),
)
