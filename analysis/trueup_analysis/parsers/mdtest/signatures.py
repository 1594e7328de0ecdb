"""Marks that identify mdtest's output."""

from __future__ import annotations

import re

from trueup_node.reading import Signature

BANNER = re.compile(
    r"\s*mdtest-(?P<version>\d\S*) was launched with (?P<tasks>\d{1,9}) total task\(s\) on"
    r" (?P<nodes>\d{1,7}) node(?:\(s\)|s)?\s*"
)
SUMMARY = re.compile(
    r"\s*SUMMARY(?: (?P<kind>rate|time))?(?: \(in [\w/]+\))?:"
    r" \(of (?P<iterations>\d{1,6}) iterations\)\s*"
)
SIGNATURE = Signature(
    marks=("mdtest-", "SUMMARY"),
    lines=(BANNER, SUMMARY),
    run=(
        r"\s*mdtest-\d\S* was launched with",
        r"\s*-- finished at |\s*(?:File|Tree|Directory) \w+ *:? +\d",
    ),
)
