"""Marks that identify a STREAM benchmark's output."""

from __future__ import annotations

import re

MARKS = ("trueup", "Best Rate", "Rate (MB/s)")
RUN = (r"\s*(?:(STREAM version )|(Function\s.*Rate.* Avg time))", r"\s*Solution Validates|$^")
OUR_TOOL = "trueup-stream"
HEADER = re.compile(
    r"Function\s+(?:Best Rate MB/s|Rate \(MB/s\))\s+Avg time\s+Min time\s+Max time\s*"
)


def recognises(text: str) -> bool:
    """Whether this is a STREAM benchmark's output."""
    return f'"tool": "{OUR_TOOL}"' in text or bool(HEADER.search(text))
