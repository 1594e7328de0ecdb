"""What dd's output is told by."""

from __future__ import annotations

import re

from ...reading import Signature

LINE = re.compile(r"^(\d+) bytes (?:\([^)]*\) )?copied, ([0-9.e+-]+) s, ", re.MULTILINE)
SIGNATURE = Signature(marks=(" copied, ",), forms=((LINE,),))
