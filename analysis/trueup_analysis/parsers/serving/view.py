"""How figures of a server are shown, whichever tool measured it."""

from __future__ import annotations

from trueup_node.serving import serving_view

VIEW = serving_view(
    title="Serving of language models",
    identity=("model",),
    required=("engine",),
    apart=(
        "client",
        "engine",
        "engine_version",
        "model",
        "precision",
        "dataset",
        "input_length",
        "output_length",
        "batch_size",
        "num_prompts",
        "request_rate",
        "max_concurrency",
        "tensor_parallel",
        "pipeline_parallel",
        "expert_parallel",
        "data_parallel",
    ),
    method="A client sends prompts to a server, or to an engine in its own process: throughputs are"
    " over the time from the first request to the last answer, latencies are the client's, over the"
    " requests that succeeded. Loading the model and failed requests are not in it.",
)
