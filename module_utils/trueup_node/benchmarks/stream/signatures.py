"""Marks that identify a STREAM benchmark's output."""

from __future__ import annotations

import re

MARKS = ("trueup", "Best Rate", "Rate (MB/s)", "Triad:")
RUN = (
    r"\s*(?:(STREAM version )|(Function\s.*Rate.* Avg time)|(Copy:\s)|(NVIDIA-STREAM))",
    r"\s*Solution Validates|$^",
)
OUR_TOOL = "trueup-stream"
HEADER = re.compile(
    r"Function\s+(?:Best Rate MB/s|Rate \(MB/s\))\s+Avg time\s+Min time\s+Max time\s*"
)
_ROWS = re.compile(
    r"^[ \t]*Copy:[ \t]+\d.*\n[ \t]*Scale:[ \t]+\d.*\n[ \t]*Add:[ \t]+\d.*\n[ \t]*Triad:[ \t]+\d",
    re.MULTILINE,
)


def recognises(text: str) -> bool:
    """Whether this is a STREAM benchmark's output. The tables within hpcc's are hpcc's."""
    if "HPC Challenge Benchmark version" in text:
        return False
    return f'"tool": "{OUR_TOOL}"' in text or bool(HEADER.search(text) or _ROWS.search(text))
