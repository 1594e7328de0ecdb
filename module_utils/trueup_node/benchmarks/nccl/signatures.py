"""Marks that identify nccl-tests' output."""

from __future__ import annotations

import re

from ...reading import Signature

_BEGINS = r"(nccl-tests version \S)|(Collective test starting:)|(nThread \d+ nGpus)|(size +count )"
_OURS = re.compile(
    r"^[ \t#]*(?:nccl-tests version \d|nThread \d+ nGpus|Collective test (?:starting|concluded):"
    r"|Out of bounds values|Avg bus bandwidth +:|Rank +\d+ (?:Group|Pid)"
    r"|size +count +type\b[^#\n]*\balgbw\b)",
    re.MULTILINE,
)

# A line of NCCL's log: the text before its mark, with the host, and the beginnings of the messages
# that are read here.
_HEAD = r"\s*(?:\[[^\]\s]*\]<\w+>: ?|\d+: )?(?:\[[0-9][^][]*\] )?([A-Za-z][\w.-]*):\d+:\d+ "
_HEAD += r"(?:\[-?\d+\] )?"
_READ = r" *(?:Channel |Ring |Coll|NET/|Using network|Loading topology|Could not open|NCCL version"
_READ += r"|(?:\w+: *)?\d+ Bytes|GPU/|=== System|(?:ncclCommInit\w+ )?comm 0x|NCCL_)"
SIGNATURE = Signature(
    marks=("NCCL", "nccl", "nThread", "algbw", "bus bandwidth", '"alg_bw"'),
    forms=(
        (_OURS,),
        (re.compile(r'\A\s*\{"version"'), '"nccl_version"'),
        ('"alg_bw"', '"bus_bw"'),
    ),
    # Behind the table may stand the file of -J.
    run=(rf"[ \t#]*(?:{_BEGINS})", r'[ \t#]*Avg bus bandwidth|\{"version":\d+,"start_time":'),
    log=("NCCL INFO ", _HEAD, _READ),
)
