"""Marks that identify BabelStream's output."""

from __future__ import annotations

import re

from trueup_node.reading import Signature

HEADER = re.compile(
    r"\s*Function +(?P<unit>[MGT]i?B(?:ytes)?)/s(?:ec)? +Min \(sec\) +Max +Average\s*"
)
CSV = re.compile(
    r"\s*function(?P<separator>[,;\t|])num_times.{0,80}?max_(?P<unit>[A-Za-z]{2,6})_per_sec"
    r".{0,80}"
)
_TITLE = re.compile(r"(?m)^[ \t]*(?:BabelStream|GPU-STREAM)[ \t]*$")
FAILED = re.compile(r"\s*(?:Validation failed on|FAILED validation of) (?P<array>\w+).*")
SIGNATURE = Signature(
    marks=("Min (sec)", "min_runtime", "BabelStream", "GPU-STREAM"),
    forms=((_TITLE, "Validation failed on "), (_TITLE, "FAILED validation of ")),
    lines=(HEADER, CSV),
    run=(
        r"\s*(?:(BabelStream|GPU-STREAM)\s*$|(Function) +\S+/s(?:ec)? +Min|(function)\Wnum_times)",
        r"\s*(?:Copy|Mul|Add|Triad|Dot|Nstream)\W",
    ),
)
