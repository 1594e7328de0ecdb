"""Marks that identify fio's output."""

from __future__ import annotations

import re

from ...reading import Signature

_WORDS = re.compile(r"^[ \t]*\S[^\n:]{0,200}: \(groupid=\d+, jobs=\d+\): err=", re.MULTILINE)
SIGNATURE = Signature(
    marks=('"fio version"', '"jobname"', ": (groupid=", "Starting "),
    forms=((_WORDS,), ('"fio version"',), ('"jobname"', '"total_ios"')),
    run=(
        r"\s*(?:(\S[^:]*: \(g=0\): rw=)|(fio-\d)|(\S[^:]*: \(groupid=0, jobs=))",
        r"\s*Disk stats",
    ),
)
