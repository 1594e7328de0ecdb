"""Marks that identify HPCG's report."""

from __future__ import annotations

import re

MARKS = ("HPCG-Benchmark", "HPCG result is")
RUN = (r"\s*HPCG-Benchmark\b.*|\s*\S+ version: V\d\.\d\s*$", r".*HPCG result is")
_VERDICT = re.compile(
    r"HPCG result is(?: VALID with a GFLOP/s rating of\s*[=:]?\s*\d|[=: ]+INVALID)"
)
_HEAD = re.compile(r"(?m)^[ \t]*HPCG-Benchmark(?: version: .*)?\s*$")


def recognises(text: str) -> bool:
    """Whether this is a report of HPCG."""
    return bool(_VERDICT.search(text) or (_HEAD.search(text) and "Machine Summary" in text))
