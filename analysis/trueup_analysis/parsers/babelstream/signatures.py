"""Marks that identify BabelStream's output."""

from __future__ import annotations

import re

MARKS = ("Min (sec)", "min_runtime", "BabelStream", "GPU-STREAM")
HEADER = re.compile(
    r"\s*Function +(?P<unit>[MGT]i?B(?:ytes)?)/s(?:ec)? +Min \(sec\) +Max +Average\s*"
)
CSV = re.compile(
    r"\s*function(?P<separator>[,;\t|])num_times.{0,80}?max_(?P<unit>[A-Za-z]{2,6})_per_sec"
    r".{0,80}"
)
FAILED = re.compile(r"\s*(?:Validation failed on|FAILED validation of) (?P<array>\w+).*")
RUN = (
    r"\s*(BabelStream|GPU-STREAM)\s*$|\s*(Function) +\S+/s(?:ec)? +Min|\s*(function)\Wnum_times",
    r"\s*(?:Copy|Mul|Add|Triad|Dot|Nstream)\W",
)


def recognises(text: str) -> bool:
    """Whether this is an output of BabelStream."""
    return any(HEADER.fullmatch(line) or CSV.fullmatch(line) for line in text.splitlines()) or (
        any(line.strip() in ("BabelStream", "GPU-STREAM") for line in text.splitlines())
        and any(map(FAILED.match, text.splitlines()))
    )
