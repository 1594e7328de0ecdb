"""Marks that identify the output of vLLM's serving benchmark."""

from __future__ import annotations

import re

MARKS = ("trueup", "Serving Benchmark Result", '"median_ttft_ms"')
RUN = (r"\s*=+ Serving Benchmark Result", r"\s*=+\s*$")
DRIVER_PREFIX = "trueup-vllm "


def recognises(text: str) -> bool:
    """Whether this is output of vLLM's serving benchmark, whole or damaged."""
    if DRIVER_PREFIX + "{" in text:
        return True
    if "Serving Benchmark Result" in text:
        return "(retokenized)" not in text and not re.search(r"(?m)^Backend:", text)
    # SGLang's E2E latency is called e2e_latency.
    return (
        '"total_output_tokens"' in text
        and '"median_ttft_ms"' in text
        and '"median_e2e_latency_ms"' not in text
    )
