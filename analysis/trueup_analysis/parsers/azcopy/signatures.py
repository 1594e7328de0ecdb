"""Marks that identify AzCopy's summary."""

from __future__ import annotations

import re

from trueup_node.reading import Signature

_STATUS = re.compile(r"(?m)^[ \t]*Final Job Status: \w+")
SIGNATURE = Signature(
    marks=("Final Job Status: ", "TotalBytesTransferred: "),
    forms=(("Elapsed Time (Minutes): ", _STATUS),),
    run=(r"\s*Job [0-9a-f-]{36} [sS]ummary\s*$", r"\s*Final Job Status: "),
)
