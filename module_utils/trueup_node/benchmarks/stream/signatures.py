"""Marks that identify a STREAM benchmark's output."""

from __future__ import annotations

import re

from ...reading import Signature, without

OUR_TOOL = "trueup-stream"
HEADER = re.compile(
    r"Function\s+(?:Best Rate MB/s|Rate \(MB/s\))\s+Avg time\s+Min time\s+Max time\s*"
)
_ROWS = re.compile(
    r"^[ \t]*Copy:[ \t]+\d.*\n[ \t]*Scale:[ \t]+\d.*\n[ \t]*Add:[ \t]+\d.*\n[ \t]*Triad:[ \t]+\d",
    re.MULTILINE,
)
# The tables within hpcc's output are hpcc's.
_NOT_HPCC = without("HPC Challenge Benchmark version")
SIGNATURE = Signature(
    marks=("trueup", "Best Rate", "Rate (MB/s)", "Triad:"),
    forms=(
        (f'"tool": "{OUR_TOOL}"', _NOT_HPCC),
        (HEADER, _NOT_HPCC),
        (_ROWS, _NOT_HPCC),
    ),
    run=(
        r"\s*(?:(STREAM version )|(Function\s.*Rate.* Avg time)|(Copy:\s)|(NVIDIA-STREAM))",
        r"\s*Solution Validates|$^",
    ),
)
