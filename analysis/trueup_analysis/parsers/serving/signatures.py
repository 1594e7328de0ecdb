"""Marks that identify the outputs of tools that measure servers, a form each."""

from __future__ import annotations

import json
import re
from typing import Final

from trueup_node.reading import Signature

# By form, patterns that all stand in such an output.
FORMS: Final = {
    "table": (r"Serving Benchmark Result", r"(?m)\(retokenized\)|^[ \t]*Backend:"),
    "offline_table": (r"Offline Throughput Benchmark Result",),
    "aiperf_table": (r"[┃|] +(?:Metric|Statistic) [┃|] +avg [┃|]", r"[Ll]atency|[Tt]hroughput"),
    "aiperf_csv": (r"(?m)^\"?Metric\"?,\"?avg\"?,", r"(?m)^\"?Request Throughput \("),
    "trtllm_text": (
        r"(?m)^=? ?PERFORMANCE OVERVIEW|^Per GPU Output Throughput \(",
        r"\(req/sec\):",
    ),
    "vllm_throughput": (r"(?m)^Throughput: [\d.]+ requests/s, [\d.]+ (?:total )?tokens/s",),
    "vllm_latency": (r"(?m)^(?:Avg latency|90% percentile latency): [\d.e-]+ seconds",),
    "guidellm": (r'"benchmarks":', r'"requests_per_second":', r'"successful":'),
    "llmd": (r"time_to_first_token\"?:", r"(?:tokens_per_sec|token_rate)\"?:", r"scenario\"?:"),
    "trtllm_json": (r'"system_output_throughput_tok_s":',),
    "inferencex": (
        r'"(?:tput_per_gpu|median_intvty|median_ttft)":',
        r'"(?:conc|max_concurrency)":',
    ),
    "sglang_json": (r'"median_e2e_latency_ms":',),
    "vllm_throughput_json": (r'"elapsed_time":', r'"total_num_tokens":'),
    "vllm_latency_json": (r'"avg_latency":', r'"percentiles":'),
    "aiperf_json": (r'"(?:request|output_token)_throughput":', r'"unit":', r'"avg":'),
}
_BEGIN: Final = (
    *(r"\s*=+ (?:Serving|Offline Throughput) Benchmark Result",),
    *(r".*NVIDIA (?:AIPerf|GenAI-Perf) \| LLM Metrics\s*$", r"(= (?:PYTORCH BACKEND|ENGINE))"),
    *(r"(= REQUEST DETAILS)", r"(= WORLD)", r"(= PERFORMANCE OVERVIEW)"),
    *(r"Throughput: [\d.]+ requests", r"Avg latency: "),
)


def form_of(text: str) -> str | None:
    """The form of an output; None of another tool's."""
    return next(
        (
            form
            for form, patterns in FORMS.items()
            if all(re.search(pattern, text) for pattern in patterns)
        ),
        None,
    )


def parts(text: str) -> list[str]:
    """The results of a text that is one JSON value with several: a list of rows, or GuideLLM's
    report of several benchmarks. Empty for another text."""
    if not text.lstrip().startswith(("[", "{")):
        return []
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return []
    if isinstance(data, list):
        results = data
    else:
        benchmarks = data.get("benchmarks")
        several = benchmarks if isinstance(benchmarks, list) else []
        results = [{**data, "benchmarks": [benchmark]} for benchmark in several]
    return [json.dumps(result) for result in results if isinstance(result, dict)]


SIGNATURE = Signature(
    marks=(
        *(
            "Serving Benchmark Result",
            "Offline Throughput Benchmark Result",
            "PERFORMANCE OVERVIEW",
        ),
        *(
            "Per GPU Output Throughput",
            "Throughput: ",
            "Avg latency: ",
            "percentile latency: ",
            "Metric",
            "Statistic",
        ),
        *(
            '"benchmarks"',
            "time_to_first_token",
            '"system_output_throughput_tok_s"',
            '"tput_per_gpu"',
        ),
        *('"median_intvty"', '"median_ttft"', '"median_e2e_latency_ms"', '"elapsed_time"'),
        *('"avg_latency"', '"request_throughput"', '"output_token_throughput"'),
    ),
    forms=tuple(tuple(re.compile(pattern) for pattern in patterns) for patterns in FORMS.values()),
    run=("|".join(_BEGIN), r"\s*={50}\s*$|└|99(?:\.0)?% percentile latency|Throughput: "),
    parts=parts,
)
