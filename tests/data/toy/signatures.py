"""What dd's output is told by."""

from __future__ import annotations

import re

MARKS = (" copied, ",)
LINE = re.compile(r"^(\d+) bytes (?:\([^)]*\) )?copied, ([0-9.e+-]+) s, ", re.MULTILINE)


def recognises(text: str) -> bool:
    """Whether dd printed it."""
    return LINE.search(text) is not None
