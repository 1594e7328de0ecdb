"""Marks that identify perftest's output."""

from __future__ import annotations

import re

MARKS = ("#bytes", " BW ", " Latency ")
RUN = (r"\s*(?:((?:RDMA_\w+|Send) .*(?:BW|Latency) (?:\w+ )?Test\b)|(#bytes\s))", r"$^")


def recognises(text: str) -> bool:
    """Whether this is an output of perftest."""
    return any(
        (
            re.match(r" {2,}(?:Send|RDMA_\w+|Atomic)\b", line)
            and line.rstrip().endswith("Test")
            and {"BW", "Latency"} & {*line.split()}
        )
        or re.match(r"\s*#bytes\s+#iterations\s+(?:BW peak|t_min|t_avg)", line)
        for line in text.splitlines()
    )
