"""What the output of dcgmi diag is told by."""

from __future__ import annotations

import re

MARKS = ("DCGM GPU Diagnostic", "DCGM Diagnostic", "| Diagnostic ")
_OUTPUT = re.compile(
    r'"DCGM (?:GPU )?Diagnostic"\s{0,9}:|^\s{0,9}\| Diagnostic {1,40}\| Result {1,60}\|',
    re.MULTILINE,
)


def recognises(text: str) -> bool:
    """Whether dcgmi diag printed it, as JSON or as a table."""
    return _OUTPUT.search(text) is not None
