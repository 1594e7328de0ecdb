"""Marks that identify gpu-burn's output."""

from __future__ import annotations

import re

MARKS = ("proc'd: ", "Tested ")
# Of a line whose blanks are single ones.
PROGRESS = re.compile(
    r"(?P<share>\d{1,3}\.\d)% proc'd: (?P<rates>-?\d.*?) errors: (?P<errors>-?\d.*?) temps: \S.*"
)
TESTED = re.compile(r"\s*Tested (\d{1,3}) GPUs:\s*")
_VERDICTS = re.compile(r"(?m)^[ \t]*Tested \d{1,3} GPUs:[ \t\r]*\n[ \t]*GPU 0: (?:OK|FAULTY)")


def recognises(text: str) -> bool:
    """Whether this is an output of gpu-burn."""
    reports = (line for line in re.split(r"[\r\n]", text) if "proc'd: " in line)
    return bool(_VERDICTS.search(text)) or any(
        PROGRESS.fullmatch(" ".join(line.split())) for line in reports
    )
