"""Marks that identify the output of programs that measure GPU copies."""

from __future__ import annotations

import re

MARKS = ("trueup", "nvbandwidth", "CUDA Bandwidth Test", "bandwidthTest", "P2P=Enabled Bandwidth")
RUN = (
    r"\s*(?:(nvbandwidth Version)|(\[CUDA Bandwidth Test\])|(\[P2P \(Peer-to-Peer\) GPU))",
    r"\s*(?:SUM |Performance can vary|Result = |NOTE: The CUDA Samples)",
)
MATRIX_OF_PEERS = re.compile(r"(?m)^[ \t]*Unidirectional P2P=Enabled Bandwidth\b.* Matrix \(GB/s\)")
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
        or MATRIX_OF_PEERS.search(text) is not None
    )
