"""Marks that identify a log of mdrun."""

from __future__ import annotations

import re

from ...reading import Signature

DRIVER_PREFIX = "trueup-gromacs "
_MARKS = (
    *("GROMACS version:", "Gromacs version:", "mdrun on rank 0", "mdrun on node 0"),
    *(DRIVER_PREFIX + "{", "A V E R A G E S"),
)
_RATE = re.compile(r"(?m)^[ \t]*(?:\(\S+\)[ \t]+)*\(ns/day\).*\n[ \t]*Performance:[ \t]+\d")
SIGNATURE = Signature(
    marks=("trueup", "GROMACS", "Gromacs version", "mdrun on ", "A V E R A G E S", "(ns/day)"),
    forms=(*((mark,) for mark in _MARKS), (_RATE,)),
    run=(r"\s*:-\) GROMACS", r"\s*(?:Finished mdrun|GROMACS reminds you)"),
)
