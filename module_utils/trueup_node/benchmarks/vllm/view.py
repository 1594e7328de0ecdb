"""How figures of vLLM's serving benchmark are shown."""

from __future__ import annotations

from ...serving import serving_view
from ...view import Measure

VIEW = serving_view(
    title="vLLM",
    figures=(
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
    method="vllm bench serve sends the prompts of a profile at a given request rate or number in"
    " flight: throughputs are over the time from the first request to the last answer, latencies"
    " are the client's, over the requests that succeeded. Loading the model, starting the server"
    " and failed requests are not in it.",
)
