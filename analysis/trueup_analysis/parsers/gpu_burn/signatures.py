"""Marks that identify gpu-burn's output."""

from __future__ import annotations

import re

from trueup_node.reading import Signature

# Of a line whose blanks are single ones.
PROGRESS = re.compile(
    r"(?P<share>\d{1,3}\.\d)% proc'd: (?P<rates>-?\d.*?) errors: (?P<errors>-?\d.*?) temps: \S.*"
)
TESTED = re.compile(r"\s*Tested (\d{1,3}) GPUs:\s*")
_VERDICTS = re.compile(r"(?m)^[ \t]*Tested \d{1,3} GPUs:[ \t\r]*\n[ \t]*GPU 0: (?:OK|FAULTY)")
_REPORT = re.compile(
    r"(?:^|[\r\n])[ \t]*\d{1,3}\.\d%[ \t]+proc'd:[ \t]+-?\d[^\r\n]*?[ \t]errors:[ \t]+-?\d[^\r\n]*?"
    r"[ \t]temps:[ \t]+\S"
)
SIGNATURE = Signature(
    marks=("proc'd: ", "Tested "),
    forms=((_VERDICTS,), (_REPORT,)),
)
