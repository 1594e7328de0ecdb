"""Marks that identify gpu-burn's output."""

from __future__ import annotations

import re

MARKS = ("proc'd: ", "Tested ")
PROGRESS = re.compile(
    r"\s*(?P<share>\d{1,3}\.\d)%\s+proc'd: (?P<rates>\d.*?)\s+errors: (?P<errors>\d.*?)\s+"
    r"temps: (?P<temperatures>\S.*?)\s*"
)
RUN = (r"$^", r"$^")


def recognises(text: str) -> bool:
    """Whether this is an output of gpu-burn."""
    return any(PROGRESS.fullmatch(line) for line in re.split(r"[\r\n]", text) if "proc'd: " in line)
