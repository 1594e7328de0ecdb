"""Marks that identify a log of AzNHC."""

from __future__ import annotations

import re

MARKS = ("nhc: ",)
LINE = re.compile(
    r"\b(?P<level>SUCCESS|WARNING|ERROR): +nhc: +"
    r"(?P<verdict>Health check passed|Nearing a failure threshold|Health check failed):"
    r"(?: +(?P<message>\S.*)| *$)"
)
START = re.compile(r"Running health checks for (?P<size>\w+) SKU")
END = re.compile(r"Health checks completed with exit code: (?P<status>\d{1,3})\.?")
RUN = (START.pattern, END.pattern)


def recognises(text: str) -> bool:
    """Whether this is a log of Azure's node health checks."""
    return any(LINE.search(line) for line in text.splitlines() if "nhc: " in line)
