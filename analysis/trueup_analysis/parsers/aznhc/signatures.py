"""Marks that identify a log of AzNHC."""

from __future__ import annotations

import re

from trueup_node.reading import Signature

LINE = re.compile(
    r"(?m)\b(?P<level>SUCCESS|WARNING|ERROR): +nhc: +"
    r"(?P<verdict>Health check passed|Nearing a failure threshold|Health check failed):"
    r"(?: +(?P<message>\S.*)| *$)"
)
START = re.compile(r"Running health checks for (?P<size>\w+) SKU")
END = re.compile(r"Health checks completed with exit code: (?P<status>\d{1,3})\.?")
SIGNATURE = Signature(
    marks=("nhc: ",),
    forms=((LINE,),),
    run=(START.pattern, END.pattern),
)
