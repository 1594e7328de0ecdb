"""Marks that identify perftest's output."""

from __future__ import annotations

import re

from ...reading import Signature

_TEST = re.compile(
    r"(?m)^ {2,}(?:Send|RDMA_\w+|Atomic)\b(?=.*[ \t](?:BW|Latency)[ \t]).*Test[ \t\r]*$"
)
_HEADER = re.compile(r"(?m)^[ \t]*#bytes[ \t]+#iterations[ \t]+(?:BW peak|t_min|t_avg)")
SIGNATURE = Signature(
    marks=("#bytes", " BW ", " Latency "),
    forms=((_TEST,), (_HEADER,)),
    run=(r"\s*(?:((?:RDMA_\w+|Send) .*(?:BW|Latency) (?:\w+ )?Test\b)|(#bytes\s))", r"$^"),
)
