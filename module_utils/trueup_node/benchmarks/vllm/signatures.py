"""Marks that identify the output of vLLM's serving benchmark."""

from __future__ import annotations

from ...reading import Signature, without

DRIVER_PREFIX = "trueup-vllm "
SIGNATURE = Signature(
    marks=("trueup", "Serving Benchmark Result", '"median_ttft_ms"'),
    forms=(
        (DRIVER_PREFIX + "{",),
        ("Serving Benchmark Result", without(r"\(retokenized\)|^[ \t]*Backend:")),
        (
            '"total_output_tokens"',
            '"median_ttft_ms"',
            # SGLang's E2E latency is called e2e_latency.
            without('"median_e2e_latency_ms"|Serving Benchmark Result'),
        ),
    ),
    run=(r"\s*=+ Serving Benchmark Result", r"\s*=+\s*$"),
)
