"""Marks that identify AzCopy's summary."""

from __future__ import annotations

import re

MARKS = ("Final Job Status: ", "TotalBytesTransferred: ")
RUN = (r"\s*Job [0-9a-f-]{36} [sS]ummary\s*$", r"\s*Final Job Status: ")
_STATUS = re.compile(r"(?m)^[ \t]*Final Job Status: \w+")


def recognises(text: str) -> bool:
    """Whether this is a summary of AzCopy."""
    return "Elapsed Time (Minutes): " in text and _STATUS.search(text) is not None
