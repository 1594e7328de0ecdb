"""Marks that identify the output of programs that measure GPU copies."""

from __future__ import annotations

import re

MARKS = ("trueup", "nvbandwidth", "CUDA Bandwidth Test", "bandwidthTest")
RUN = (
    r"\s*(?:(nvbandwidth Version)|(\[CUDA Bandwidth Test\]))",
    r"\s*(?:SUM |Performance can vary|Result = )",
)
OUR_TOOL = "trueup-gpu-copy"
OUR_MARK = f"[{OUR_TOOL} "


def recognises(text: str) -> bool:
    """Whether this is the output of a program that measures GPU copies."""
    return (
        OUR_MARK in text
        or f'"tool": "{OUR_TOOL}"' in text
        or "nvbandwidth Version" in text
        or re.search(r'^[ \t]*"nvbandwidth"\s*:', text, re.MULTILINE) is not None
        or '{"nvbandwidth"' in text
        or "[CUDA Bandwidth Test]" in text
        or "bandwidthTest-" in text
    )
