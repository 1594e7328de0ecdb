"""Marks that identify HPCG's report."""

from __future__ import annotations

import re

from trueup_node.reading import Signature

_VERDICT = re.compile(
    r"HPCG result is(?: VALID with a GFLOP/s rating of\s*[=:]?\s*\d|[=: ]+INVALID)"
)
_HEAD = re.compile(r"(?m)^[ \t]*HPCG-Benchmark(?: version: .*)?\s*$")
SIGNATURE = Signature(
    marks=("HPCG-Benchmark", "HPCG result is"),
    forms=((_VERDICT,), (_HEAD, "Machine Summary")),
    run=(r"\s*HPCG-Benchmark\b.*|\s*\S+ version: V\d\.\d\s*$", r".*HPCG result is"),
)
